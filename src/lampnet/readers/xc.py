"""The extreme-classification repository's format: a line `rows features labels`, then 0-based pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import FormatError
from lampnet.readers.files import MAX_DIMENSION, plain_stem, read_bytes
from lampnet.readers.libsvm import split_labels
from lampnet.readers.number_text import SparseRows, add_colon_pairs, blocks_of_lines
from lampnet.runtime.memory_limit import STRING, MemoryBudget

#: Bytes of memory for a label: its name, and the checks that names differ.
_PER_LABEL = 4 * STRING


def header_of(raw: bytes) -> tuple[int, int, int] | None:
    """Rows, features and labels as the first line states them; None when it is no such line.

    >>> header_of(b"3 5 2\\n0,1 0:1.0\\n")
    (3, 5, 2)
    """
    words = raw[:200].partition(b"\n")[0].removeprefix(b"\xef\xbb\xbf").split()
    if len(words) != 3 or not all(word.isdigit() and len(word) < 19 for word in words):
        return None
    rows, features, labels = map(int, words)
    return rows, features, labels


def read_xc(path: str | Path, *, labels: Sequence[str] | None = None) -> Dataset:
    """Read one file; labels are named by their numbers unless `labels` names them."""
    path = Path(path)
    raw = read_bytes(path)
    stated = header_of(raw)
    if stated is None:
        raise FormatError(path, "the first line must be three whole numbers: rows, features, labels", 1)
    n, features, label_count = stated
    if max(stated) > MAX_DIMENSION or n > len(raw):
        raise FormatError(path, f"the first line states {n} rows x {features} features x {label_count} labels, "
                                "which cannot be true of this file", 1)  # fmt: skip
    MemoryBudget(path).check(_PER_LABEL * label_count)
    if labels is not None and len(labels) != label_count:
        raise FormatError(path, f"{len(labels)} label names were given for the {label_count} labels of the file", 1)
    rows = SparseRows(path, features)
    label_rows = SparseRows(path, label_count)
    # A row without labels begins with a blank; one without features too is an empty line.
    body = raw[raw.find(b"\n") + 1 :] if b"\n" in raw else b""
    read = 0
    for block in blocks_of_lines(body, 2, keep_empty=True):
        pairs: list[bytes] = []
        numbers: list[int] = []
        counts: list[int] = []
        for text, number in zip(block.text, block.numbers, strict=True):
            names, rest = split_labels(path, text, number)
            for label in names:
                if not label.isdigit() or not label.isascii() or len(label) > 18:
                    raise FormatError(path, f"the label {label[:40]!r} is not a whole number", number)
                numbers.append(int(label))
            counts.append(len(names))
            pairs.append(rest)
        add_colon_pairs(rows, pairs, block.numbers)
        set_labels = np.array(numbers, dtype=np.float64)
        label_rows.add(set_labels, np.ones(len(numbers)), np.array(counts, dtype=np.int64), block.numbers)
        read += len(pairs)
    if read != n:
        raise FormatError(path, f"the first line states {n} rows, the file has {read}; is it whole?", 1)
    x, y, label_names = rows.matrix(), label_rows.matrix(), tuple(labels or map(str, range(label_count)))
    return Dataset(name=plain_stem(path), kind="wordset", rows=x, labels=y, label_names=label_names)
