"""Every row once an epoch, in an order that seed and epoch decide."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.rivals import padding_share
from lampnet.inference.logits import sorted_batches
from lampnet.training.batches import shuffled_batches

lengths_of_rows = st.lists(st.integers(0, 300), min_size=1, max_size=400).map(np.array)


@given(lengths_of_rows, st.integers(1, 40), st.integers(0, 5), st.integers(0, 5))
def test_every_row_is_in_exactly_one_batch(lengths: np.ndarray, size: int, seed: int, epoch: int) -> None:
    for batches in (shuffled_batches(lengths, size, seed, epoch), sorted_batches(lengths, size)):
        assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
        assert max(map(len, batches)) <= size
        assert len(batches) == -(-len(lengths) // size)


def test_order_depends_on_seed_and_epoch_only() -> None:
    lengths = np.random.default_rng(0).integers(1, 100, size=500)

    def order(seed: int, epoch: int) -> list[int]:
        return list(np.concatenate(shuffled_batches(lengths, 16, seed, epoch)))

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


def test_rows_of_like_length_go_together() -> None:
    lengths = np.random.default_rng(0).integers(1, 400, size=5000)
    drawn = np.random.default_rng(1).permutation(5000)
    unsorted = [drawn[i : i + 32] for i in range(0, 5000, 32)]
    assert padding_share(lengths, shuffled_batches(lengths, 32, 0, 0)) < 0.1 < padding_share(lengths, unsorted)
