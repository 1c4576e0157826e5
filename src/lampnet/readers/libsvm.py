"""Multi-label libsvm: `label,label index:value index:value`, plain, gzip or bz2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lampnet.data.dataset import Dataset
from lampnet.data.schema import label_matrix
from lampnet.errors import FormatError
from lampnet.readers.files import plain_stem, read_bytes, read_lines, utf8_lines
from lampnet.readers.number_text import SparseRows, add_colon_pairs, blocks_of_lines
from lampnet.runtime.memory_limit import STRING, MemoryBudget


def read_libsvm(path: str | Path, *, labels: Sequence[str] | None = None, base: int | None = None) -> Dataset:
    """Read a libsvm file; a row may have no label (it then begins with a blank or a pair).

    `labels` are the label names in their order; by default the names that occur, whole numbers in their order.
    `base` is the number of the first feature, 0 or 1; by default 0 when an index 0 occurs, else 1.
    """
    path = Path(path)
    return libsvm_rows(path, utf8_lines(path, read_bytes(path)), labels=labels, base=base)


def libsvm_rows(
    path: Path, raw: bytes, *, labels: Sequence[str] | None = None, base: int | None = None, first_line: int = 1
) -> Dataset:
    """As `read_libsvm`, of some lines of the file."""
    budget = MemoryBudget(path)
    rows = SparseRows(path)
    label_sets: list[list[str]] = []
    lowest = 1
    for block in blocks_of_lines(raw, first_line, comment=b"#"):
        features: list[bytes] = []
        for text, number in zip(block.text, block.numbers, strict=True):
            names, pairs = split_labels(path, text, number)
            budget.take(STRING * (2 + len(names)), number)
            label_sets.append(names)
            features.append(pairs)
            if pairs.startswith(b"0:") or b" 0:" in pairs:
                lowest = 0
        add_colon_pairs(rows, features, block.numbers)
    if not label_sets:
        raise FormatError(path, "the file has no rows; expected lines of 'label,label index:value ...'", 1)
    matrix = rows.matrix()
    if (lowest if base is None else base) == 1:
        if lowest == 0:
            raise FormatError(path, "an index 0 occurs although the features are numbered from 1")
        matrix = matrix[:, 1:]
    found = {name for names in label_sets for name in names}
    label_names = tuple(labels) if labels is not None else tuple(sorted(found, key=_label_order))
    y = label_matrix(label_sets, label_names) if found or labels is None else None
    return Dataset(name=plain_stem(path), kind="wordset", rows=matrix, labels=y, label_names=label_names)


def lowest_index(path: str | Path) -> int:
    """0 when a feature 0 occurs in the file, else 1: files of one data set must agree on it."""
    return 0 if any(re.search(rb"(?:^|[ \t])0:", line) for line in read_lines(path)) else 1


def split_labels(path: Path, text: bytes, number: int) -> tuple[list[str], bytes]:
    """The label names of a line and the rest of it; comments after `#` are dropped."""
    text = text.partition(b"#")[0].rstrip()
    head, _, rest = text.partition(b" ") if b"\t" not in text else text.replace(b"\t", b" ").partition(b" ")
    if b":" in head:
        return [], text.replace(b"\t", b" ")
    rest = rest.lstrip()
    if rest.startswith(b"qid:"):
        rest = rest.partition(b" ")[2].lstrip()
    try:
        names = [part.strip() for part in head.decode("utf-8").split(",") if part.strip()]
    except UnicodeDecodeError:
        raise FormatError(path, f"the labels {head[:40]!r} are not UTF-8; save the file as UTF-8", number) from None
    return names, rest


def _label_order(name: str) -> tuple[int, float, str]:
    """Whole numbers first, in their order, then names."""
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
