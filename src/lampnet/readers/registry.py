"""The data sets that have a name: where their files are and how they are split."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lampnet.dataset import Dataset, Splits
from lampnet.errors import DataError, did_you_mean
from lampnet.readers.alignment import aligned_splits, random_split


@dataclass(frozen=True)
class Entry:
    """One named data set.

    files     what the folder must hold (glob patterns)
    parts     how its rows are split
    graph     the prior label graph: cooccurrence, tree or given edges
    """

    title: str
    kind: str
    files: tuple[str, ...]
    parts: str
    graph: str
    load: Callable[[Path, int], Splits]


@dataclass(frozen=True)
class Description:
    """What a person should know of a named data set before reading it."""

    name: str
    title: str
    kind: str
    files: tuple[str, ...]
    parts: str
    graph: str


def _mulan(train: str, test: str, kind: str | None = None) -> Callable[[Path, int], Splits]:
    def load(folder: Path, seed: int) -> Splits:
        from lampnet.readers.arff import read_arff

        return aligned_splits(
            read_arff(_only(folder, train), kind=kind, name=folder.name),
            test=read_arff(_only(folder, test), kind=kind, name=folder.name),
        )

    return load


def _one_arff(pattern: str, kind: str | None = None) -> Callable[[Path, int], Splits]:
    def load(folder: Path, seed: int) -> Splits:
        from lampnet.readers.arff import read_arff

        return _tenths(read_arff(_only(folder, pattern), kind=kind, name=folder.name), seed)

    return load


def _tenths(data: Dataset, seed: int) -> Splits:
    return random_split(data, valid=0.1, test=0.1, seed=seed)


def _only(folder: Path, pattern: str) -> Path:
    """The first file of a folder that matches."""
    found = sorted(folder.glob(pattern))
    if not found:
        raise DataError(
            f"the folder {folder} has no file {pattern}; fetch it with: lampnet data fetch {folder.name}, "
            "or put the publisher's files there"
        )
    return found[0]


def _digits(folder: Path, seed: int) -> Splits:
    from lampnet.readers.digit_scenes import load_digit_scenes

    return load_digit_scenes(seed)


_OFFICIAL = "official train and test; validation is drawn from train"
_TENTHS = "seeded random 80/10/10"

_ENTRIES: dict[str, Entry] = {
    "bibtex": Entry(
        "Bibtex: tags of BibSonomy publications", "wordset", ("*-train.arff", "*-test.arff", "*.xml"),
        _OFFICIAL, "cooccurrence", _mulan("*-train.arff", "*-test.arff"),
    ),
    "delicious": Entry(
        "Delicious: tags of bookmarked pages", "wordset", ("*-train.arff", "*-test.arff", "*.xml"),
        _OFFICIAL, "cooccurrence", _mulan("*-train.arff", "*-test.arff"),
    ),
    "digits": Entry(
        "Digit scenes: handwritten digits on a grid (embedded)", "image", (),
        "2,000 / 400 / 400 scenes of different digit images, seeded", "cooccurrence", _digits,
    ),
}  # fmt: skip

NAMES: tuple[str, ...] = tuple(_ENTRIES)


def _entry(name: str) -> Entry:
    if name not in _ENTRIES:
        raise DataError(f"there is no data set named {name!r}; {did_you_mean(name, NAMES)}")
    return _ENTRIES[name]


def describe(name: str) -> Description:
    """Title, input kind, files, split and prior label graph of a named data set.

    >>> describe("digits").kind
    'image'
    """
    entry = _entry(name)
    return Description(name, entry.title, entry.kind, entry.files, entry.parts, entry.graph)


def data_root(given: str | Path | None = None) -> Path | None:
    """The data folder: the argument, else the environment's LAMPNET_DATA."""
    chosen = given if given is not None else os.environ.get("LAMPNET_DATA")
    return Path(chosen).expanduser() if chosen else None


def load(name: str, data_root: str | Path | None = None, seed: int = 0) -> Splits:
    """Read a named data set.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_root : str or Path, optional
        The folder that holds a folder for each data set; by default the environment's LAMPNET_DATA.
    seed : int
        Used wherever the publisher gives no split.

    >>> len(load("digits").test)
    400
    """
    entry = _entry(name)
    if not entry.files:
        return entry.load(Path(), seed)
    return entry.load(folder_of(name, data_root), seed)


def folder_of(name: str, root: str | Path | None = None) -> Path:
    """The folder of a named data set; an error that says what to do when there is none."""
    base = data_root(root)
    if base is None:
        raise DataError(
            f"where the data set {name} lies is not known: set the environment variable LAMPNET_DATA (or give "
            f"--data-root) to the folder that holds {name}/, or fetch it with: lampnet data fetch {name}"
        )
    folder = base / name
    if not folder.is_dir():
        raise DataError(
            f"the data set {name} was looked for in {folder}, which does not exist; set LAMPNET_DATA or --data-root "
            f"to the folder that holds {name}/, or fetch it with: lampnet data fetch {name}"
        )
    return folder
