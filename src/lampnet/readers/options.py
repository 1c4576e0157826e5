"""How a file is to be read: what the caller knows of it, and what to do where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lampnet.errors import DataError

if TYPE_CHECKING:
    from lampnet.readers.trained_columns import KnownColumns

Labels = str | Path | Sequence[str] | None


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Settings that all formats share; those that a format has no use for are left aside.

    labels      a file of label names (Mulan XML, or one name per line) or the names, which fix the order of the
                labels; ARFF files without MEKA's `-C n` need it when there is not exactly one `.xml` file beside them
    columns     tables: role -> column name(s), e.g. ``{"text": "body", "labels": "tags", "separator": ";"}``; roles
                are text, smiles, dna, image, features, categories (features whose numbers stand for words), labels
                and id; what is not given is guessed
    on_bad_row  "error" or "skip": what to do with rows that cannot be read (and SMILES that RDKit refuses)
    notice      receives a sentence on what was guessed and how many rows were left out
    known       tables: what a trained model knows of the columns; these are not guessed
    name        the data set's name; by default the file's
    """

    labels: Labels = None
    columns: Mapping[str, Any] | None = None
    on_bad_row: str = "error"
    notice: Callable[[str], None] | None = None
    known: KnownColumns | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.on_bad_row not in ("error", "skip"):
            raise DataError(f"on_bad_row is {self.on_bad_row!r}; it must be 'error' or 'skip'")

    def label_names(self) -> tuple[str, ...] | None:
        """The names themselves, read from their file where one was given."""
        if isinstance(self.labels, (str, Path)):
            from lampnet.readers.arff_header import read_label_names

            return read_label_names(self.labels)
        return None if self.labels is None else tuple(self.labels)
