"""Digit scenes: the embedded default data, made of scikit-learn's real handwritten digits.

A scene is a 3 x 3 grid of cells of 8 x 8 pixels; two to five cells hold a handwritten digit, the
others are blank. Ten labels name the digits that are there, the rest are properties that follow from them, so
the labels depend on one another by rules that are known. Training, validation and test scenes use
different digit images; everything is drawn from one seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import DataError, did_you_mean
from lampnet.readers.files import read_bytes

GRID, CELL = 3, 8
SIZES = {"train": 2000, "valid": 400, "test": 400}
EVEN, ODD, PRIME = (0, 2, 4, 6, 8), (1, 3, 5, 7, 9), (2, 3, 5, 7)
SUM_BOUND = 15
FACTS = ("has_even", "has_odd", "has_prime", "all_even", "repeated_digit", "consecutive_pair", "sum_above_15")
LABEL_NAMES = (*(f"digit_{digit}" for digit in range(10)), *FACTS)

#: Images of each digit go to the splits in these shares.
_SHARES = {"train": (0.0, 0.7), "valid": (0.7, 0.85), "test": (0.85, 1.0)}
#: Without this, scenes of even digits only would be too rare to learn from.
_ONLY_EVEN = 0.2


@dataclass(frozen=True)
class Dependency:
    """A rule between two labels: whenever `cause` is set, `effect` is set (or, for excludes, is not)."""

    cause: str
    effect: str
    rule: Literal["implies", "excludes"]


@dataclass(frozen=True, kw_only=True)
class SceneTruth:
    """What is known of a split's scenes.

    cells    int8 (n, 9)    the digit in each cell, row by row; -1 where the cell is blank
    images   int32 (n, 9)   the number of the digit's image in scikit-learn's set; -1 where blank
    labels   bool (n, L)    the labels, in the order of `LABEL_NAMES`
    """

    cells: np.ndarray
    images: np.ndarray
    labels: np.ndarray

    def supporting_cells(self, scene: int, label: str) -> tuple[int, ...]:
        """The cells that make a label true in a scene; () when it is not set.

        >>> truth = digit_truth("test")
        >>> digit = int(truth.cells[0].max())
        >>> all(truth.cells[0][cell] == digit for cell in truth.supporting_cells(0, f"digit_{digit}"))
        True
        """
        if label not in LABEL_NAMES:
            raise DataError(f"{label!r} is not a label of digit scenes; {did_you_mean(label, LABEL_NAMES)}")
        if not self.labels[scene, LABEL_NAMES.index(label)]:
            return ()
        digits = self.cells[scene]
        there = [int(digit) for digit in digits if digit >= 0]
        wanted: dict[str, set[int]] = {
            "has_even": set(EVEN),
            "has_odd": set(ODD),
            "has_prime": set(PRIME),
            "repeated_digit": {digit for digit in there if there.count(digit) > 1},
            "consecutive_pair": {digit for digit in there if digit + 1 in there or digit - 1 in there},
        }
        wanted |= {f"digit_{digit}": {digit} for digit in range(10)}
        chosen = wanted.get(label, set(there))  # a sum, and "all even", rest on every digit
        return tuple(cell for cell, digit in enumerate(digits) if int(digit) in chosen)


def planted_dependencies() -> tuple[Dependency, ...]:
    """Every rule between two labels that holds in all scenes by construction.

    >>> Dependency("digit_2", "has_prime", "implies") in planted_dependencies()
    True
    """
    rules = [Dependency(f"digit_{digit}", "has_even", "implies") for digit in EVEN]
    rules += [Dependency(f"digit_{digit}", "has_odd", "implies") for digit in ODD]
    rules += [Dependency(f"digit_{digit}", "has_prime", "implies") for digit in PRIME]
    rules += [Dependency(f"digit_{digit}", "all_even", "excludes") for digit in ODD]
    rules += [Dependency("all_even", "has_even", "implies"), Dependency("all_even", "has_odd", "excludes")]
    return (*rules, Dependency("has_odd", "all_even", "excludes"))


@lru_cache(maxsize=1)
def _handwriting() -> tuple[np.ndarray, np.ndarray]:
    """uint8 (1797, 8, 8) images, from 0 to 255, and their digits, int64 (1797,)."""
    found = find_spec("sklearn")
    for place in (found.submodule_search_locations or ()) if found else ():
        file = Path(place) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():  # importing sklearn.datasets for it would take seconds
            values = np.array(read_bytes(file).replace(b",", b" ").split(), dtype=np.float64)
            if len(values) == 1797 * 65:
                table = values.reshape(1797, 65)
                return _as_bytes(table[:, :64].reshape(-1, CELL, CELL)), table[:, 64].astype(np.int64)
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return _as_bytes(loaded.images), loaded.target.astype(np.int64)


def _as_bytes(images: np.ndarray) -> np.ndarray:
    pixels: np.ndarray = np.minimum(images * 16, 255).astype(np.uint8)
    return pixels


def _image_pools(seed: int, split: str) -> list[np.ndarray]:
    """For each digit the images that this split may use."""
    _, digits = _handwriting()
    low, high = _SHARES[split]
    pools = []
    for digit in range(10):
        images = np.random.default_rng([seed, digit]).permutation(np.flatnonzero(digits == digit))
        pools.append(images[int(low * len(images)) : int(high * len(images))])
    return pools


def _facts(cells: np.ndarray) -> np.ndarray:
    """bool (n, 17): the labels of scenes given by the digits in their cells (n, 9)."""
    counts = np.stack([(cells == digit).sum(axis=1) for digit in range(10)], axis=1)
    there = counts > 0
    has_odd = there[:, ODD].any(axis=1)
    facts = {
        "has_even": there[:, EVEN].any(axis=1),
        "has_odd": has_odd,
        "has_prime": there[:, PRIME].any(axis=1),
        "all_even": ~has_odd,
        "repeated_digit": (counts > 1).any(axis=1),
        "consecutive_pair": (there[:, 1:] & there[:, :-1]).any(axis=1),
        "sum_above_15": counts @ np.arange(10) > SUM_BOUND,
    }
    return np.concatenate([there, np.stack([facts[name] for name in FACTS], axis=1)], axis=1)


@lru_cache(maxsize=8)
def digit_truth(split: str, seed: int = 0) -> SceneTruth:
    """Which digit, and which image of it, stands in which cell of every scene of a split."""
    if split not in SIZES:
        raise DataError(f"digit scenes have no split {split!r}; {did_you_mean(split, SIZES)}")
    n, cells_count = SIZES[split], GRID * GRID
    random = np.random.default_rng([seed, 100 + list(SIZES).index(split)])
    pools = _image_pools(seed, split)
    cells = np.full((n, cells_count), -1, dtype=np.int8)
    images = np.full((n, cells_count), -1, dtype=np.int32)
    for scene in range(n):
        places = random.permutation(cells_count)[: random.integers(2, 6)]
        choices = EVEN if random.random() < _ONLY_EVEN else range(10)
        for place in places:
            digit = int(random.choice(choices))
            cells[scene, place] = digit
            images[scene, place] = random.choice(pools[digit])
    return SceneTruth(cells=cells, images=images, labels=_facts(cells))


def _draw(truth: SceneTruth) -> np.ndarray:
    """uint8 (n, 24, 24): the scenes as pictures."""
    handwriting, _ = _handwriting()
    blank = np.zeros((1, CELL, CELL), dtype=np.uint8)
    tiles = np.concatenate([handwriting, blank])[truth.images]  # image -1 is the blank one
    grid = tiles.reshape(-1, GRID, GRID, CELL, CELL).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(grid.reshape(-1, GRID * CELL, GRID * CELL))


def load_digit_scenes(seed: int = 0) -> Splits:
    """2,000 / 400 / 400 scenes, uint8 (n, 24, 24) pictures with 17 labels.

    >>> load_digit_scenes().train.rows.shape
    (2000, 24, 24)
    """
    parts = {}
    for split in SIZES:
        truth = digit_truth(split, seed)
        labels = sparse.csr_matrix(truth.labels.astype(np.float32))
        ids = tuple(f"{split}-{scene}" for scene in range(SIZES[split]))
        rows = _draw(truth)
        parts[split] = Dataset(name="digits", kind="image", rows=rows, labels=labels, label_names=LABEL_NAMES, ids=ids)
    return Splits(train=parts["train"], valid=parts["valid"], test=parts["test"])
