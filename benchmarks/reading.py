"""How fast lampnet reads, against the loaders people use for the same file.

    python benchmarks/reading.py [--data DATA_FOLDER] [--rounds 7] [--out docs/measurements/reading.json]

Both readers of a pair take turns in the same process, round by round; a ratio is the median over rounds of
(their time / our time), so a busy machine hits both alike. Above 1 lampnet is the faster one. Loaders that
know nothing of labels are given the few lines their users write to get rows and a label matrix; with
"as read" they stop at what they return, though lampnet goes on to names, labels and checks; with "strings only"
they stop at lists of Python strings. Where lampnet's time for texts goes is measured step by step.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Interleaved rounds; the order within a round alternates."""
    ours(), theirs()  # imports and file cache
    pairs = []
    for number in range(rounds):
        if number % 2:
            other, own = timed(theirs), timed(ours)
        else:
            own, other = timed(ours), timed(theirs)
        pairs.append((own, other))
    ratios = sorted(other / own for own, other in pairs)
    return {
        "lampnet_seconds": round(statistics.median(own for own, _ in pairs), 4),
        "other_seconds": round(statistics.median(other for _, other in pairs), 4),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_lowest": round(ratios[0], 2),
        "ratio_highest": round(ratios[-1], 2),
        "rounds": rounds,
    }


def pairs_of(data: Path, scratch: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Every pair of readers of one file: name -> (ours, theirs)."""
    import pandas
    from scipy.io import arff as scipy_arff
    from scipy.io import loadmat
    from scipy.sparse import csr_matrix
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file
    from sklearn.preprocessing import MultiLabelBinarizer

    from lampnet.readers.arff import read_arff
    from lampnet.readers.libsvm import read_libsvm
    from lampnet.readers.mat import read_mat
    from lampnet.readers.named.registry import load
    from lampnet.readers.tables import read_table

    scene, mediamill = data / "scene" / "scene-train.arff", data / "mediamill" / "mediamill_small.arff"
    rcv1, tox21 = data / "rcv1" / "rcv1subset1_top944.mat", data / "tox21" / "tox21.csv"
    bibtex = load("bibtex", data).train
    svm, wide = scratch / "bibtex.svm", scratch / "scene.csv"
    # Whole numbers as plain text, one-based, as the multi-label files of the libsvm page are.
    dump_svmlight_file(bibtex.rows, bibtex.labels, str(svm), zero_based=False, multilabel=True)
    table = load("scene", data).train
    frame = pandas.DataFrame(table.rows.values, columns=list(table.rows.names))
    for number, name in enumerate(table.label_names):
        frame[f"label_{name}"] = table.indicator()[:, number].astype(int)
    frame.to_csv(wide, index=False)
    parts = [data / "goemotions" / f"{part}.tsv" for part in ("train", "dev", "test")]
    short, quoted = scratch / "short.csv", scratch / "goemotions.csv"
    random = np.random.default_rng(0)
    many = pandas.DataFrame(np.round(random.normal(size=(20_000, 40)), 3)).add_prefix("column_")
    for number in range(5):
        many[f"label_{number}"] = (random.random(20_000) < 0.2).astype(int)
    many.to_csv(short, index=False)
    emotions = load("goemotions", data).train
    tags = [";".join(emotions.label_names[label] for label in row.indices) for row in emotions.labels]
    table = pandas.DataFrame({"id": emotions.ids, "text": emotions.rows, "labels": tags})
    table.to_csv(quoted, index=False, quoting=csv.QUOTE_NONNUMERIC)

    def pandas_tox21() -> Any:
        read = pandas.read_csv(tox21)
        labels = csr_matrix(read.iloc[:, :12].to_numpy(dtype=np.float32))
        return read["smiles"].tolist(), labels, read["mol_id"].tolist()

    def pandas_goemotions() -> Any:
        for part in parts:
            read = pandas.read_csv(part, sep="\t", header=None, quoting=3)
            binarizer = MultiLabelBinarizer(sparse_output=True)
            yield read[0].tolist(), binarizer.fit_transform(read[1].str.split(",")), read[2].tolist()

    def pandas_strings() -> Any:
        for part in parts:
            read = pandas.read_csv(part, sep="\t", header=None, quoting=3)
            yield read[0].tolist(), read[1].tolist(), read[2].tolist()

    def pandas_quoted() -> Any:
        read = pandas.read_csv(quoted)
        binarizer = MultiLabelBinarizer(sparse_output=True)
        return read["text"].tolist(), binarizer.fit_transform(read["labels"].str.split(";")), read["id"].tolist()

    def pandas_numbers(path: Path, labels: int) -> Any:
        read = pandas.read_csv(path)
        y = csr_matrix(read.iloc[:, -labels:].to_numpy(dtype=np.float32))
        return read.iloc[:, :-labels].to_numpy(), y

    def svmlight() -> Any:
        rows, labels = load_svmlight_file(str(svm), multilabel=True, zero_based=False, dtype=np.float32)
        return rows, MultiLabelBinarizer(sparse_output=True).fit_transform(labels)

    def matlab() -> Any:
        read = loadmat(str(rcv1))
        return csr_matrix(read["data"], dtype=np.float32), csr_matrix(read["target"].T, dtype=np.float32)

    def scipy_to_labels(path: Path, count: int) -> Any:
        read, meta = scipy_arff.loadarff(str(path))
        names = meta.names()
        rows = np.stack([read[name] for name in names[:-count]], axis=1)
        return rows, csr_matrix(np.stack([read[name] == b"1" for name in names[-count:]], axis=1))

    return {
        "scene-train.arff, dense: scipy.io.arff": (
            lambda: read_arff(scene, kind="columns"),
            lambda: scipy_to_labels(scene, 6),
        ),
        "mediamill_small.arff, dense: scipy.io.arff": (
            lambda: read_arff(mediamill, kind="vector"),
            lambda: scipy_to_labels(mediamill, 101),
        ),
        "bibtex as multi-label libsvm: sklearn load_svmlight_file": (lambda: read_libsvm(svm), svmlight),
        "bibtex as multi-label libsvm: sklearn load_svmlight_file, as read": (
            lambda: read_libsvm(svm),
            lambda: load_svmlight_file(str(svm), multilabel=True, zero_based=False, dtype=np.float32),
        ),
        "goemotions, three TSV files: pandas": (lambda: load("goemotions", data), lambda: list(pandas_goemotions())),
        "goemotions, three TSV files: pandas, strings only": (
            lambda: load("goemotions", data),
            lambda: list(pandas_strings()),
        ),
        "goemotions, three TSV files: pandas, as read": (
            lambda: load("goemotions", data),
            lambda: [pandas.read_csv(part, sep="\t", header=None, quoting=3) for part in parts],
        ),
        "rcv1subset1.mat: scipy.io.loadmat": (lambda: read_mat(rcv1), matlab),
        "tox21.csv, molecules with missing labels: pandas": (lambda: read_table(tox21), pandas_tox21),
        "goemotions as CSV, every text in quotation marks: pandas": (lambda: read_table(quoted), pandas_quoted),
        "scene as CSV of numbers: pandas": (lambda: read_table(wide), lambda: pandas_numbers(wide, 6)),
        "20,000 x 45 short numbers as CSV: pandas": (lambda: read_table(short), lambda: pandas_numbers(short, 5)),
    }


def text_steps(path: Path, rounds: int) -> dict[str, float]:
    """The steps of reading GoEmotions' training file, median milliseconds of each."""
    from lampnet.readers.delimited import string_columns
    from lampnet.readers.files import read_bytes, utf8_lines
    from lampnet.readers.named.loaders import goemotions
    from lampnet.readers.raw_table import TextColumn

    goemotions(path.parent, 0)
    found: dict[str, list[float]] = {"read the bytes": [], "find the cells and check UTF-8": [], "make strings": []}
    for _ in range(rounds):
        begun = time.perf_counter()
        raw = utf8_lines(path, read_bytes(path))
        read = time.perf_counter()
        columns = string_columns(raw, 3, b"\t", quotes=False)
        cut = time.perf_counter()
        assert columns is not None
        strings = [TextColumn(column).texts for column in columns]
        made = time.perf_counter()
        for name, seconds in zip(found, (read - begun, cut - read, made - cut), strict=True):
            found[name].append(seconds)
        del strings
    return {name: round(1000 * statistics.median(values), 1) for name, values in found.items()}


def main() -> None:
    repository = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default=os.environ.get("LAMPNET_DATA") or "data", help="the folder of the named data sets"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=repository / "docs" / "measurements" / "reading.json")
    options = parser.parse_args()
    data = Path(options.data)

    from lampnet.readers.named.registry import load

    # Alone in the process so far, so the peak is theirs.
    alone: dict[str, Any] = {}
    for name in ("imdb", "reuters21578", "delicious", "yeast_chipexo"):
        seconds = timed(lambda name=name: load(name, data))  # type: ignore[misc]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        alone[name] = {"seconds": round(seconds, 2), "peak_mb_of_the_process_so_far": round(peak)}
        print(f"{name}: {alone[name]}")
    compared: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (ours, theirs) in pairs_of(data, Path(scratch)).items():
            compared[name] = compare(ours, theirs, options.rounds)
            print(f"{name}: {compared[name]['ratio']} times as fast")
    steps = text_steps(data / "goemotions" / "train.tsv", options.rounds)
    print(f"goemotions' training file, milliseconds: {steps}")
    report = {
        "what": "reading files: seconds, and ratios (other / lampnet) of interleaved rounds; above 1 lampnet is faster",
        "machine": f"{os.cpu_count()} busy cores, {platform.machine()}, Python {platform.python_version()}",
        "alone": alone,
        "compared": compared,
        "goemotions_training_file_milliseconds": steps,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
