"""The data sets that have a name: where their files are and how they are split."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.schema import aligned_splits
from lampnet.data.splits import Splits, random_split
from lampnet.errors import DataError, did_you_mean
from lampnet.readers.named import loaders as named_sets
from lampnet.readers.named.loaders import only_file


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
    load: Callable[[Path, int], Splits]
    graph: str = "cooccurrence"


def _mulan(train: str, test: str, kind: str | None = None) -> Callable[[Path, int], Splits]:
    def load(folder: Path, seed: int) -> Splits:
        from lampnet.readers.arff import read_arff

        return aligned_splits(
            read_arff(only_file(folder, train), kind=kind, name=folder.name),
            test=read_arff(only_file(folder, test), kind=kind, name=folder.name),
        )

    return load


def _one_arff(pattern: str, kind: str | None = None) -> Callable[[Path, int], Splits]:
    def load(folder: Path, seed: int) -> Splits:
        from lampnet.readers.arff import read_arff

        if any(folder.glob("*-train*.arff*")) and any(folder.glob("*-test*.arff*")):
            return _mulan("*-train*.arff*", "*-test*.arff*", kind)(folder, seed)  # the publisher's full set
        return _tenths(read_arff(only_file(folder, pattern), kind=kind, name=folder.name), seed)

    return load


def _one_table(pattern: str) -> Callable[[Path, int], Splits]:
    def load(folder: Path, seed: int) -> Splits:
        from lampnet.readers.tables import read_table

        return _tenths(read_table(only_file(folder, pattern), name=folder.name), seed)

    return load


def _tenths(data: Dataset, seed: int) -> Splits:
    return random_split(data, valid=0.1, test=0.1, seed=seed)


def _reuters(folder: Path, seed: int) -> Splits:
    from lampnet.readers.named.reuters import read_reuters

    return read_reuters(folder)


def _digits(folder: Path, seed: int) -> Splits:
    from lampnet.readers.named.digit_scenes import load_digit_scenes

    return load_digit_scenes(seed)


_OFFICIAL = "official train and test; validation is drawn from train"
_TENTHS = "seeded random 80/10/10"

_ARFF_PAIR = ("*-train*.arff", "*-test*.arff", "*.xml")
_PAIR = _mulan("*-train*.arff*", "*-test*.arff*")
_PAIR_OF_VECTORS = _mulan("*-train*.arff*", "*-test*.arff*", "vector")
_PAIR_OF_COLUMNS = _mulan("*-train*.arff*", "*-test*.arff*", "columns")

_ENTRIES: dict[str, Entry] = {
    "bibtex": Entry("Bibtex: tags of publications", "wordset", _ARFF_PAIR, _OFFICIAL, _PAIR),
    "delicious": Entry("Delicious: tags of web pages", "wordset", _ARFF_PAIR, _OFFICIAL, _PAIR),
    "bookmarks": Entry(
        "Bookmarks: tags of bookmarks", "wordset", ("bookmarks.arff", "*.xml"),
        "seeded random, the paper's sizes (48,000 / 12,000 / 27,856)", named_sets.bookmarks,
    ),
    "reuters21578": Entry("Reuters-21578: topics of news, ModApte", "text", ("reut2-*.sgm",), _OFFICIAL, _reuters),
    "rcv1": Entry(
        "RCV1-V2: topics of news", "text", ("lyrl2004_tokens_*.dat", "rcv1-v2.topics.qrels", "rcv1.topics.hier.orig"),
        "the paper's: the four large token files train, the small one tests; without documents the first MATLAB "
        "subset (word sets), seeded random 80/10/10", named_sets.rcv1, "tree",
    ),
    "sider": Entry(
        "SIDER: side effects of drugs", "molecule", ("sider.csv",),
        "seeded random, the paper's sizes (1,141 / 143 / 143)", _one_table("sider.csv*"),
    ),
    "nuswide": Entry(
        "NUS-WIDE: concepts of pictures, cVLAD+ features", "vector", _ARFF_PAIR, _OFFICIAL, _PAIR_OF_VECTORS
    ),
    "tfbs": Entry(
        "TFBS: transcription factors on human DNA", "dna", ("train.fa", "train.tsv"),
        "by files, or by chromosome (8 and 9 test, 7 validates)", named_sets.tfbs, "given",
    ),
    "imdb": Entry("IMDB: genres of films", "wordset", ("*.arff.bz2",), _TENTHS, _one_arff("*.arff*", "wordset")),
    "mediamill": Entry(
        "Mediamill: concepts of video frames", "vector", ("mediamill*.arff", "*.xml"), _TENTHS,
        _one_arff("mediamill*.arff*", "vector"),
    ),
    "scene": Entry("Scene: kinds of landscapes", "columns", _ARFF_PAIR, _OFFICIAL, _PAIR_OF_COLUMNS),
    "emotions": Entry("Emotions: moods of music", "columns", _ARFF_PAIR, _OFFICIAL, _PAIR_OF_COLUMNS),
    "corel5k": Entry("Corel5k: words for pictures", "wordset", _ARFF_PAIR, _OFFICIAL, _PAIR),
    "goemotions": Entry(
        "GoEmotions: emotions of comments", "text", ("train.tsv", "dev.tsv", "test.tsv", "emotions.txt"),
        "official train, dev and test", named_sets.goemotions,
    ),
    "tox21": Entry(  # an empty cell is an unknown label
        "Tox21: toxicity of molecules, labels missing", "molecule", ("tox21.csv",), _TENTHS, _one_table("tox21.csv*")
    ),
    "yeast_chipexo": Entry(
        "Yeast ChIP-exo: proteins on yeast DNA", "dna", ("peaks/*_CX.bed", "sacCer3.fa.gz"),
        "by chromosome: 4 and 7 test, 13 validates", named_sets.yeast_chipexo, "given",
    ),
    "miml_images": Entry(
        "MIML images: landscapes as pictures", "image", ("miml_labels_1.csv", "images/*.jpg"), _TENTHS,
        _one_table("miml_labels_1.csv"),
    ),
    "digits": Entry(
        "Digit scenes: handwritten digits on a grid (embedded)", "image", (),
        "2,000 / 400 / 400 scenes of different digit images, seeded", _digits,
    ),
    "goemotions-sample": Entry(
        "GoEmotions: 4,000 of its comments (embedded)", "text", (), "3,200 of train and 800 of test; see its README",
        named_sets.goemotions_sample,
    ),
}  # fmt: skip

NAMES: tuple[str, ...] = tuple(_ENTRIES)


def describe(name: str) -> Entry:
    """Title, input kind, files, split and prior label graph of a named data set.

    >>> describe("digits").kind
    'image'
    """
    if name not in _ENTRIES:
        raise DataError(f"there is no data set named {name!r}; {did_you_mean(name, NAMES)}")
    return _ENTRIES[name]


def data_root(given: str | Path | None = None) -> Path:
    """The data folder: the argument, else the environment's LAMPNET_DATA, else `./data`."""
    return Path(given or os.environ.get("LAMPNET_DATA") or "data").expanduser()


def load(name: str, data_root: str | Path | None = None, seed: int = 0) -> Splits:
    """Read a named data set from `data_root` (see there); `seed` is used where the publisher gives no split.

    >>> len(load("digits").test)
    400
    """
    entry = describe(name)
    return entry.load(folder_of(name, data_root) if entry.files else Path(), seed)


def folder_of(name: str, root: str | Path | None = None) -> Path:
    """The folder of a named data set; an error that says what to do when there is none."""
    folder = data_root(root) / name
    if not folder.is_dir():
        there = f" --data-root {shlex.quote(str(root))}" if root else ""
        raise DataError(
            f"the data set {name} was looked for in {folder.absolute()}, which does not exist; set LAMPNET_DATA or "
            f"--data-root to the folder that holds {name}/, or fetch it with: lampnet data fetch {name}{there}"
        )
    return folder


def load_edges(name: str, label_names: tuple[str, ...], data_root: str | Path | None = None) -> np.ndarray:
    """The prior label graph that a named data set comes with, int64 (E, 2) pairs of label numbers."""
    graph = describe(name).graph
    if graph == "cooccurrence":
        raise DataError(f"{name} has no prior label graph of its own; use cooccurrence, full or edgeless")
    folder = folder_of(name, data_root)
    return (
        named_sets.topic_tree(folder, label_names) if graph == "tree" else named_sets.interactions(folder, label_names)
    )
