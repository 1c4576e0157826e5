"""The comparison on known labels: one result file for each data set, system and seed.

A result has, for each regime, the average precision of every test row's labels that were not revealed, and a digest of
what was revealed: results of two systems may be compared where the digests are equal.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.errors import ConfigError, DataError, LampnetError, did_you_mean
from lampnet.evaluation.known_regimes import reveal, row_precision, unrevealed
from lampnet.experiments.known_rows import KnownRows, known_rows
from lampnet.experiments.known_systems import KNOWN_SYSTEMS, REGIMES, KnownSystem, Said
from lampnet.experiments.machine import machine, version
from lampnet.experiments.material import Material
from lampnet.experiments.protocol import Log
from lampnet.experiments.reproduce import Task, open_named
from lampnet.experiments.result_files import check_writable, write_result
from lampnet.experiments.row_scores import packed
from lampnet.runtime.folder_lock import claimed

#: where the results are stored, beside the other results, and below it the rows that systems share
FOLDER, SHARED = "known", "shared-rows"
#: data sets and their seeds, the cheapest first; SIDER's seeds are random splits
SEEDS = {
    "emotions": 3,
    "mediamill": 3,
    "sider": 5,
    "tox21": 3,
    "corel5k": 3,
    "bibtex": 3,
    "imdb": 3,
    "goemotions": 3,
    "yeast_chipexo": 3,
    "delicious": 3,
}


@dataclass(frozen=True)
class KnownTask(Task):
    """One data set, system that takes known labels, and seed."""

    def command(self) -> str:
        """The command that repeats the run.

        >>> KnownTask("bibtex", "messages", 1).command()
        'lampnet reproduce --known bibtex --model messages --seed 1 --again'
        """
        return f"lampnet reproduce --known {self.dataset} --model {self.system} --seed {self.seed} --again"


def known_plan(
    datasets: Sequence[str] = (), systems: Sequence[str] = (), seeds: int | None = None, only_seeds: Sequence[int] = ()
) -> list[KnownTask]:
    """The tasks that were asked for; empty for all.

    >>> [(t.system, t.seed) for t in known_plan(["emotions"], ["messages", "chain"], seeds=1)]
    [('messages', 0), ('chain', 0)]
    """
    if seeds is not None and seeds < 1:
        raise ConfigError(f"--seeds {seeds} must be at least 1")
    for name in datasets:
        if name not in SEEDS:
            raise DataError(f"known labels are not compared on {name!r}; {did_you_mean(name, SEEDS)}")
    for name in systems:
        if name not in KNOWN_SYSTEMS:
            raise ConfigError(f"there is no system {name!r} for known labels; {did_you_mean(name, KNOWN_SYSTEMS)}")
    return [
        KnownTask(dataset, system, seed)
        for dataset in dict.fromkeys(datasets or SEEDS)
        for seed in only_seeds or range(seeds if seeds is not None else SEEDS[dataset])
        for system in systems or KNOWN_SYSTEMS
    ]


def compare_known(
    tasks: Iterable[KnownTask],
    folder: Path,
    shared: Path,
    *,
    again: bool = False,
    log: Log = lambda sentence: None,
    open_data: Callable[[str, int], Material] = open_named,
) -> list[Path]:
    """Run the tasks that have no result yet; every result is written as soon as it is known.

    folder  of the results
    shared  of the rows that systems share: features, labels and the stack's logits; it may be deleted

    Returns the files written now.
    """
    tasks = list(tasks)
    check_writable(folder)
    missing = [task for task in tasks if again or not task.path(folder).exists()]
    log(f"{len(tasks) - len(missing)} of {len(tasks)} results are there; {len(missing)} to run")
    written: list[Path] = []
    opened: tuple[tuple[str, int], KnownRows] | None = None
    unreadable: set[tuple[str, int]] = set()
    for number, task in enumerate(missing, start=1):
        key = (task.dataset, task.seed)
        if key in unreadable:
            continue
        try:
            if opened is None or opened[0] != key:
                path = shared / f"{task.dataset}--seed{task.seed}.npz"
                opened = key, known_rows(path, lambda: open_data(*key), task.seed)  # noqa: B023
        except LampnetError as problem:
            unreadable.add(key)
            log(f"{task.dataset} is left out: {problem}")
            continue
        log(f"[{number} of {len(missing)}] {task.dataset}, {task.system}, seed {task.seed}")
        with claimed(folder, task.path(folder).name):
            if not again and task.path(folder).exists():
                log("another process has just written this result")
                continue
            result = run_known(KNOWN_SYSTEMS[task.system], opened[1], task.seed)
            named = {"dataset": task.dataset, "command": task.command()}
            written.append(write_result(folder, result | named))
    return written


def run_known(system: KnownSystem, rows: KnownRows, seed: int) -> dict[str, Any]:
    """Fit a system and score it in every regime."""
    began = time.process_time()
    said = system.fit(rows, seed)
    seconds = time.process_time() - began
    return {
        "system": system.name,
        "title": system.title,
        "form": system.form,
        "seed": seed,
        "finished": True,
        "version": version(),
        "machine": machine(),
        "data": rows.metadata(),
        "fit_cpu_seconds": round(seconds, 2),
        "known": score_known(said, rows.Y_test, seed),
    }


def score_known(said: Said, Y_nL: np.ndarray, seed: int) -> list[dict[str, Any]]:
    """For each regime the rows that count, their mean average precision, each row's, and what was revealed.

    A regime in which no row keeps a true label has no rows and no score.
    """
    found = []
    for regime in REGIMES:
        states, counts = reveal(Y_nL, regime, seed)
        rows = np.flatnonzero(counts)
        states = states[rows]
        by_row = np.zeros(0)
        if len(rows):
            by_row = row_precision(unrevealed(Y_nL[rows], states), said(rows, states))
        mean = float(by_row.mean()) if len(rows) else math.nan
        found.append(
            {
                "regime": str(regime),
                "rows": len(rows),
                "map": round(mean, 6) if math.isfinite(mean) else None,
                "by_row": packed(by_row),
                "revealed": hashlib.sha256(rows.tobytes() + states.tobytes()).hexdigest()[:16],
            }
        )
    return found
