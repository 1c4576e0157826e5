"""How baselines tune a setting on validation rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lampnet.evaluation.choose_rules import choose_paper_thresholds
from lampnet.evaluation.metrics import METRICS

#: The values of C, the inverse regularisation strength, that linear models try.
C_GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def mean_f1(Y: np.ndarray, proba: np.ndarray) -> float:
    """Mean of example-, micro- and macro-F1, each at the best of the paper's thresholds."""
    rules = choose_paper_thresholds(Y, proba)
    return float(np.mean([METRICS[m](Y, rules[m].apply(proba)) for m in ("example_f1", "micro_f1", "macro_f1")]))


def climb(score: Callable[[float], float], grid: Sequence[float] = C_GRID, start: float = 3.0) -> float:
    """The grid value uphill of `start`: from neighbour to neighbour while the score rises.

    >>> climb(lambda c: -abs(c - 30.0))
    30.0
    """
    known: dict[int, float] = {}

    def at(index: int) -> float:
        if not 0 <= index < len(grid):
            return -np.inf
        if index not in known:
            known[index] = score(grid[index])
        return known[index]

    index = list(grid).index(start)
    step = 1 if at(index + 1) > at(index) else -1
    while at(index + step) > at(index):
        index += step
    return grid[index]
