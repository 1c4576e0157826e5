"""Predictions as JSON lines, CSV or Parquet, a chunk of rows at a time.

============ ==========================================================================================
JSON lines   {"id", "labels": [...], "scores": {label: p}}: scores of the predicted labels and the next five
CSV          id, labels, scores: the labels of a row in one cell, their scores in the same order in another
Parquet      id, labels, scores: lists of texts and of numbers
============ ==========================================================================================

With all scores, JSON lines have them of every label, and tables have a column "score: LABEL" for each instead.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from lampnet.errors import ConfigError, did_you_mean

NEXT_LABELS = 5
DIGITS = 6
#: what may stand between the labels of a cell; the first that is in no label is taken
SEPARATORS = (";", "|", "\t", "\n")
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet"} | dict.fromkeys(
    (".jsonl", ".ndjson", ".json"), "jsonl"
)


@dataclass(frozen=True)
class PredictedChunk:
    """Some rows: ids (n,), probabilities and label sets (n, L) of the labels `names` (L,)."""

    ids: tuple[str, ...]
    names: tuple[str, ...]
    proba: np.ndarray
    chosen: np.ndarray

    def ranked(self) -> Iterator[tuple[str, list[int], np.ndarray]]:
        """Each row's id, its labels and all labels, by falling probability."""
        order_nL = np.argsort(-self.proba, axis=1, kind="stable")
        for row, name in enumerate(self.ids):
            yield name, [int(label) for label in order_nL[row] if self.chosen[row, label]], order_nL[row]


class Format(Protocol):
    """Writes chunks into a binary file."""

    def write(self, chunk: PredictedChunk) -> None: ...

    def close(self) -> None:
        """Write what comes after the last row; the file stays open."""


def format_of(asked: str | None, out: Path | None) -> str:
    """The format that is asked for, or that the ending of the file's name says; JSON lines where it has none.

    >>> format_of(None, Path("tags.csv")), format_of("parquet", Path("tags")), format_of(None, None)
    ('csv', 'parquet', 'jsonl')
    """
    if asked is None:
        ending = "" if out is None else out.suffix.lower()
        if ending and ending not in SUFFIXES:
            known = f"known endings: {', '.join(SUFFIXES)}"
            raise ConfigError(f"--out {out}: no format of predictions ends in {ending!r}; {known}; or give --format")
        return SUFFIXES.get(ending, "jsonl")
    if asked not in FORMATS:
        raise ConfigError(f"--format {asked!r} is not known; {did_you_mean(asked, FORMATS)}")
    return asked


def json_rows(chunk: PredictedChunk, all_scores: bool = False) -> Iterator[dict[str, Any]]:
    """For each row {"id", "labels", "scores"}: scores of its labels and the next five, or of all labels."""
    names, proba = chunk.names, chunk.proba
    for row, (name, taken, ranked) in enumerate(chunk.ranked()):
        others = [label for label in ranked[: len(taken) + NEXT_LABELS] if not chunk.chosen[row, label]][:NEXT_LABELS]
        shown = ranked if all_scores else (*taken, *others)
        scores = {names[label]: round(float(proba[row, label]), DIGITS) for label in shown}
        yield {"id": name, "labels": [names[label] for label in taken], "scores": scores}


def json_lines(chunk: PredictedChunk, all_scores: bool) -> Iterator[str]:
    """One line per row."""
    for row in json_rows(chunk, all_scores):
        yield json.dumps(row, ensure_ascii=False) + "\n"


class JsonLines:
    def __init__(self, file: IO[bytes], names: tuple[str, ...], all_scores: bool) -> None:
        self.file, self.all_scores = file, all_scores

    def write(self, chunk: PredictedChunk) -> None:
        for line in json_lines(chunk, self.all_scores):
            self.file.write(line.encode())
        self.file.flush()

    def close(self) -> None:
        pass


class Csv:
    def __init__(self, file: IO[bytes], names: tuple[str, ...], all_scores: bool) -> None:
        self.file, self.all_scores, self.separator = file, all_scores, separator_for(names)
        scores = score_columns(names) if all_scores else ["scores"]
        self._rows([["id", "labels", *scores]])

    def write(self, chunk: PredictedChunk) -> None:
        self._rows(self._cells(chunk))
        self.file.flush()

    def close(self) -> None:
        self.file.flush()

    def _cells(self, chunk: PredictedChunk) -> Iterator[list[str]]:
        for row, (name, taken, _) in enumerate(chunk.ranked()):
            labels = self.separator.join(chunk.names[label] for label in taken)
            shown = range(len(chunk.names)) if self.all_scores else taken
            scores = [f"{chunk.proba[row, label]:.{DIGITS}g}" for label in shown]
            yield [name, labels, *(scores if self.all_scores else [self.separator.join(scores)])]

    def _rows(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        self.file.write(text.getvalue().encode())


class Parquet:
    def __init__(self, file: IO[bytes], names: tuple[str, ...], all_scores: bool) -> None:
        columns = [("id", pa.string()), ("labels", pa.list_(pa.string()))]
        wide = [(name, pa.float32()) for name in score_columns(names)]
        self.schema = pa.schema([*columns, *(wide if all_scores else [("scores", pa.list_(pa.float32()))])])
        self.all_scores = all_scores
        self.writer = parquet.ParquetWriter(file, self.schema)

    def write(self, chunk: PredictedChunk) -> None:
        taken = [labels for _, labels, _ in chunk.ranked()]
        columns: list[Any] = [list(chunk.ids), [[chunk.names[label] for label in labels] for labels in taken]]
        if self.all_scores:
            columns += [np.asarray(column, dtype=np.float32) for column in chunk.proba.T]
        else:
            columns.append([chunk.proba[row, labels].tolist() for row, labels in enumerate(taken)])
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, self.schema, strict=True)]
        self.writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema))

    def close(self) -> None:
        self.writer.close()


FORMATS: dict[str, Callable[[IO[bytes], tuple[str, ...], bool], Format]] = {
    "jsonl": JsonLines,
    "csv": Csv,
    "parquet": Parquet,
}


def separator_for(names: tuple[str, ...]) -> str:
    """What stands between the labels of a cell.

    >>> separator_for(("rock", "r;b"))
    '|'
    """
    for separator in SEPARATORS:
        if not any(separator in name for name in names):
            return separator
    raise ConfigError("label names contain every separator there is for CSV; write JSON lines or Parquet")


def score_columns(names: tuple[str, ...]) -> list[str]:
    """Names that differ from "id" and "labels" whatever the labels are called."""
    return [f"score: {name}" for name in names]
