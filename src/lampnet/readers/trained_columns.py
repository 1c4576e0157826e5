"""A table read as another one was: what a model's training made of its columns is not guessed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lampnet.errors import did_you_mean
from lampnet.readers.column_roles import ALIASES, INPUT_ROLES, ColumnRoles, MissingColumn, named_columns, roles_of
from lampnet.readers.raw_table import RawTable

_INPUTS = (*INPUT_ROLES, "features", "dates")


@dataclass(frozen=True, kw_only=True)
class KnownColumns:
    """What is known before a table is read.

    roles        role -> column(s), as `ColumnRoles.as_given` gives them; features need not all be there
    label_names  columns of all these names are the labels, where `roles` names none
    unlabelled   labels are not looked at: they may be unknown, blank or not there
    """

    roles: Mapping[str, Any] = field(default_factory=dict)
    label_names: tuple[str, ...] = ()
    unlabelled: bool = False

    def roles_in(self, table: RawTable, typed: Mapping[str, Any]) -> ColumnRoles:
        """What the columns are for; what was `typed` by the user comes first."""
        typed = {ALIASES.get(role, role): value for role, value in typed.items()}
        found = roles_of(table, {**self._known(table, typed), **typed})
        return replace(found, labels=(), separator="") if self.unlabelled else found

    def _known(self, table: RawTable, typed: Mapping[str, Any]) -> dict[str, Any]:
        there = set(table.names)
        known: dict[str, Any] = {}
        for role, value in self.roles.items():
            if role == "encoding":
                continue
            if role in _INPUTS and any(other in typed for other in _INPUTS):
                continue
            if role == "separator":
                if "labels" not in typed:
                    known[role] = value
                continue
            names = named_columns(table.names, value)
            if role in ("group", "time", "weight"):
                continue  # they matter for training only
            if role in ("features", "categories", "dates", "id") or (role == "labels" and self.unlabelled):
                names = tuple(name for name in names if name in there)
            if role == "features" and not names and not any(other in self.roles for other in INPUT_ROLES):
                raise MissingColumn(
                    role,
                    f"{table.path}: none of its columns ({', '.join(table.names)[:200]}) is one that the model was "
                    f"trained on ({', '.join(named_columns((), value))[:200]})",
                )
            lacking = next((name for name in names if name not in there), None)
            if lacking is not None and role not in typed:
                raise MissingColumn(
                    role,
                    f"{table.path}: there is no column {lacking!r}, which the model was trained on; name the one that "
                    f"stands for it with --columns {role}=NAME; {did_you_mean(lacking, table.names)[:300]}",
                )
            if names or role == "labels":
                known[role] = names
        if "labels" not in self.roles:
            names = tuple(name for name in self.label_names if name in there)
            if names and (self.unlabelled or len(names) == len(self.label_names)):
                known["labels"] = names
        return known
