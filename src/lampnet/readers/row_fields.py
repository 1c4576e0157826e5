"""What a row of JSON lines says beside its input: the group that it belongs to, its time, what it counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lampnet.errors import FormatError, did_you_mean
from lampnet.readers.raw_table import number_name
from lampnet.readers.weight_column import row_weight

#: roles of fields, and how `Dataset` calls what they hold
ROLES = {"group": "groups", "time": "times", "weight": "weights"}


class RowFields:
    """Collects the fields that the caller names for groups, times and weights.

    >>> fields = RowFields(Path("rows.jsonl"), {"group": "patient", "time": "day"})
    >>> fields.keep(fields.read({"text": "a", "patient": 7, "day": "2024-01-01"}, 1))
    >>> fields.of_rows()
    {'groups': ('7',), 'times': ('2024-01-01',)}
    """

    def __init__(self, path: Path, columns: Mapping[str, Any] | None) -> None:
        self.path = path
        self.names = {role: str(columns[role]) for role in ROLES if columns and role in columns}
        self._kept: dict[str, list[Any]] = {role: [] for role in self.names}

    def read(self, record: Mapping[str, Any], line: int) -> dict[str, Any]:
        """The values of one row, checked; a field that it lacks is a `FormatError`."""
        found: dict[str, Any] = {}
        for role, name in self.names.items():
            value = record.get(name)
            if role == "weight":
                found[role] = row_weight(self.path, name, value, line)
                continue
            if value is None or value == "":
                close = "" if name in record else f"; {did_you_mean(name, record)[:200]}"
                raise FormatError(self.path, f"the row has no {role} in its field {name!r}{close}", line)
            if not isinstance(value, (str, int, float)) or value != value:
                raise FormatError(self.path, f"the {role} {name!r} is {str(value)[:40]}; give a text or a number", line)
            if role == "group":
                found[role] = number_name(value) if isinstance(value, float) else str(value)
                continue
            before = self._kept[role][0] if self._kept[role] else value
            if isinstance(value, bool) or isinstance(value, str) != isinstance(before, str):
                problem = f"the time {name!r} is {str(value)[:40]!r}, that of the rows before {str(before)[:40]!r}"
                raise FormatError(self.path, f"{problem}; give dates or numbers, the same in every row", line)
            found[role] = value
        return found

    def keep(self, values: Mapping[str, Any]) -> None:
        """Add what `read` found in a row that is kept."""
        for role, value in values.items():
            self._kept[role].append(value)

    def of_rows(self) -> dict[str, Any]:
        """Of all rows that were kept, by the names that `Dataset` gives them."""
        return {ROLES[role]: tuple(values) for role, values in self._kept.items()}
