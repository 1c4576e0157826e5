"""Which rows go together: shuffled batches of rows of like length."""

from __future__ import annotations

import numpy as np

# Rows are sorted by length inside pools of this many batches: little padding, yet well mixed.
POOL_BATCHES = 64


def shuffled_batches(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """All rows once, in batches of like length, in an order that only seed and epoch decide.

    >>> batches = shuffled_batches(np.array([3, 1, 2, 9, 8]), 2, seed=0, epoch=0)
    >>> sorted(int(row) for batch in batches for row in batch)
    [0, 1, 2, 3, 4]
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    batches: list[np.ndarray] = []
    pool = batch_size * POOL_BATCHES
    for first in range(0, len(order), pool):
        rows = order[first : first + pool]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        batches += [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]
