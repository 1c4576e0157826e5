"""The embedded digit scenes: what is shown, what is true of it, and the planted rules."""

from __future__ import annotations

import numpy as np
import pytest

from lampnet.errors import DataError
from lampnet.readers.named.digit_scenes import LABEL_NAMES, digit_truth, load_digit_scenes, planted_dependencies


def test_digit_scenes_use_different_images_in_each_part() -> None:
    used = {
        split: set(digit_truth(split).images[digit_truth(split).images >= 0]) for split in ("train", "valid", "test")
    }
    assert not used["train"] & used["test"]
    assert not used["train"] & used["valid"]
    assert not used["valid"] & used["test"]


def test_digit_scenes_show_what_the_truth_says() -> None:
    from sklearn.datasets import load_digits

    handwriting, parts = load_digits(), load_digit_scenes()
    truth = digit_truth("train")
    for scene in range(0, 2000, 250):
        for cell in range(9):
            row, column = divmod(cell, 3)
            tile = parts.train.rows[scene, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8]
            digit = truth.cells[scene, cell]
            if digit < 0:
                assert not tile.any()
                continue
            image = truth.images[scene, cell]
            assert handwriting.target[image] == digit
            np.testing.assert_array_equal(tile, np.minimum(handwriting.images[image] * 16, 255))
    counts = (truth.cells >= 0).sum(axis=1)
    assert (counts.min(), counts.max()) == (2, 5)


def test_digit_labels_follow_from_the_digits() -> None:
    for split in ("train", "valid", "test"):
        truth = digit_truth(split)
        labels = load_digit_scenes().test if split == "test" else None
        for cells, row in zip(truth.cells, truth.labels, strict=True):
            digits = [int(d) for d in cells if d >= 0]
            expected = {
                **{f"digit_{d}": d in digits for d in range(10)},
                "has_even": any(d % 2 == 0 for d in digits),
                "has_odd": any(d % 2 for d in digits),
                "has_prime": any(d in (2, 3, 5, 7) for d in digits),
                "all_even": all(d % 2 == 0 for d in digits),
                "repeated_digit": len(set(digits)) < len(digits),
                "consecutive_pair": any(d + 1 in digits for d in digits),
                "sum_above_15": sum(digits) > 15,
            }
            assert dict(zip(LABEL_NAMES, row, strict=True)) == expected
        if labels is not None:
            np.testing.assert_array_equal(labels.indicator(), truth.labels)
        share = truth.labels.mean(axis=0)
        assert share.min() > 0.1
        assert share.max() < 0.95


def test_planted_dependencies_hold_and_supporting_cells_are_where_they_are() -> None:
    truth = digit_truth("train")
    place = {name: number for number, name in enumerate(LABEL_NAMES)}
    for rule in planted_dependencies():
        effect = truth.labels[truth.labels[:, place[rule.cause]], place[rule.effect]]
        assert len(effect) > 50
        assert effect.all() if rule.rule == "implies" else not effect.any()
    for scene in range(50):
        for name in LABEL_NAMES:
            cells = truth.supporting_cells(scene, name)
            assert bool(cells) == truth.labels[scene, place[name]]
            assert all(truth.cells[scene, cell] >= 0 for cell in cells)
    with pytest.raises(DataError, match="did you mean 'has_even'"):
        truth.supporting_cells(0, "has_evn")
    with pytest.raises(DataError, match="no split 'dev'"):
        digit_truth("dev")


def test_digit_scenes_repeat_with_their_seed() -> None:
    np.testing.assert_array_equal(load_digit_scenes(4).valid.rows, load_digit_scenes(4).valid.rows)  # type: ignore[union-attr]
    assert (load_digit_scenes(4).train.rows != load_digit_scenes(5).train.rows).any()
