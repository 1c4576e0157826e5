"""The tables of the paper as data, every row as published (`paper_tables.json`).

Score tables 1-3 (example-, micro-, macro-F1) and the appendix's subset and Hamming accuracy; the two tables
of data statistics; the speed table. Known misprints are kept, and named by `misprint`.

>>> paper_score("example_f1", "FMP + LaMP_fc", "reuters21578")
0.906
>>> best_paper_score("macro_f1", "bibtex")
('FMP + LaMP_pr', 0.376)
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from lampnet.errors import DataError, did_you_mean

_Row = TypeVar("_Row")
#: The paper's names of its data sets, in the order of its score tables.
DATASETS: dict[str, str] = {
    "reuters21578": "Reuters",
    "bibtex": "Bibtex",
    "bookmarks": "Bookmarks",
    "delicious": "Delicious",
    "rcv1": "RCV1",
    "tfbs": "TFBS",
    "sider": "SIDER",
    "nuswide": "NUS-WIDE",
}


@cache
def paper_tables() -> dict[str, Any]:
    """The whole file: source, notes, scores, data_statistics, label_statistics, speed."""
    tables: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return tables


def systems(metric: str) -> tuple[str, ...]:
    """The systems in the paper's table of this metric, from its top to its bottom."""
    return tuple(_table(metric))


def paper_score(metric: str, system: str, dataset: str) -> float | None:
    """The published score, or None where the paper has a dash."""
    table = _table(metric)
    if system not in table:
        raise DataError(f"the paper's table of {metric} has no system {system!r}; {did_you_mean(system, table)}")
    return _known(table[system], dataset)


def best_paper_score(metric: str, dataset: str) -> tuple[str, float] | None:
    """The best system and its score (the first of equals), misprints left out; None where there is none."""
    best: tuple[str, float] | None = None
    for system, row in _table(metric).items():
        score = _known(row, dataset)
        if score is not None and misprint(metric, system, dataset) is None and (best is None or score > best[1]):
            best = system, score
    return best


def misprint(metric: str, system: str, dataset: str) -> str | None:
    """What is wrong with this published score, or None.

    >>> misprint("subset_accuracy", "Emb + MLP", "delicious")
    'These values repeat the Delicious column of the macro-F1 table: a misprint, ...'
    """
    for note in paper_tables()["notes"]:
        if note["table"] == metric and dataset in note["datasets"] and system in note["systems"]:
            return str(note["note"])
    return None


def data_statistics(dataset: str) -> dict[str, Any]:
    """The paper's two rows of statistics on this data set, in one.

    >>> data_statistics("bibtex")["labels"], data_statistics("bibtex")["labels_per_sample_mean"]
    (159, 2.38)
    """
    tables = paper_tables()
    return {**_known(tables["data_statistics"], dataset), **_known(tables["label_statistics"], dataset)}


def paper_speed(dataset: str) -> dict[str, float]:
    """Minutes per epoch of LaMP on the authors' GPU, and how many times faster than their RNN Seq2Seq.

    >>> paper_speed("bibtex")["training_minutes_per_epoch"]
    0.376
    """
    return dict(_known(paper_tables()["speed"], dataset))


def _table(metric: str) -> dict[str, dict[str, float | None]]:
    tables: dict[str, dict[str, dict[str, float | None]]] = paper_tables()["scores"]
    if metric not in tables:
        raise DataError(f"the paper has no table of {metric!r}; {did_you_mean(metric, tables)}")
    return tables[metric]


def _known(table: dict[str, _Row], dataset: str) -> _Row:
    if dataset not in table:
        raise DataError(f"the paper has no data set {dataset!r}; {did_you_mean(dataset, DATASETS)}")
    return table[dataset]
