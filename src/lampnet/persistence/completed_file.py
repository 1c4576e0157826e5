"""A file of filled rows: JSON lines as `lampnet predict` writes them, but of all labels; or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lampnet.errors import DataError
from lampnet.runtime.atomic_files import write_atomically
from lampnet.runtime.folder_lock import claimed

FORMS = (".csv", ".jsonl")


def check_completed_target(path: Path, overwrite: bool) -> None:
    """Refuse a file of another form, or one that is there, before any work is done."""
    if path.suffix.lower() not in FORMS:
        raise DataError(f"{path} has none of the endings {', '.join(FORMS)}; give a file that has one")
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file")
    if path.exists() and not overwrite:
        raise DataError(f"{path} is there already; add --overwrite to replace it, or give another file")


def write_completed(
    path: Path, ids: Sequence[str], names: Sequence[str], proba: np.ndarray, chosen: np.ndarray, overwrite: bool = False
) -> None:
    """Write all rows or, after any fault, none; a label's probability is exactly 1 or 0 where it is known."""
    check_completed_target(path, overwrite)
    as_text = as_table if path.suffix.lower() == ".csv" else as_lines
    with claimed(path.parent, path.name):
        check_completed_target(path, overwrite)
        write_atomically(path, as_text(ids, names, proba, chosen).encode())


def as_lines(ids: Sequence[str], names: Sequence[str], proba: np.ndarray, chosen: np.ndarray) -> str:
    """One line {"id", "labels", "scores"} per row.

    >>> print(as_lines(["a"], ["x", "y"], np.array([[0.25, 1.0]]), np.array([[False, True]])), end="")
    {"id": "a", "labels": ["y"], "scores": {"x": 0.25, "y": 1.0}}
    """
    lines = []
    for row, name in enumerate(ids):
        labels = [names[i] for i in np.argsort(-proba[row], kind="stable") if chosen[row, i]]
        scores = dict(zip(names, _rounded(proba[row]), strict=True))
        lines.append(json.dumps({"id": name, "labels": labels, "scores": scores}, ensure_ascii=False) + "\n")
    return "".join(lines)


def as_table(ids: Sequence[str], names: Sequence[str], proba: np.ndarray, chosen: np.ndarray) -> str:
    """A column "id", and one per label with its probability.

    >>> print(as_table(["a"], ["x", "y"], np.array([[0.25, 1.0]]), np.array([[False, True]])), end="")
    id,x,y
    a,0.25,1.0
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", *names])
    writer.writerows([name, *_rounded(proba[row])] for row, name in enumerate(ids))
    return text.getvalue()


def _rounded(proba_L: np.ndarray) -> list[float]:
    return [round(float(p), 6) for p in proba_L]
