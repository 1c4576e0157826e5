"""ARFF as Mulan and MEKA write it: dense or sparse, plain, gzip or bz2.

Written by hand because SciPy's reader knows no sparse rows, is several times slower, and names no line of an error.
Which attributes are labels is stated by a list of names, by Mulan's XML file, or by MEKA's `-C n`
in the relation's name (the first n attributes; the last -n when n is negative).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset, Table
from lampnet.errors import DataError, FormatError
from lampnet.readers.arff_header import (
    QUOTED,
    Attribute,
    Header,
    find_columns,
    known_columns,
    label_xml,
    parse_header,
    read_label_names,
    split_fields,
    unescape,
)
from lampnet.readers.files import LARGEST, plain_stem, read_bytes, utf8_lines
from lampnet.readers.number_text import NUMBER, Lines, SparseRows, blocks_of_lines, dense_block, floats
from lampnet.runtime.memory_limit import STRING, MemoryBudget

_VALUE = rb"(?:" + NUMBER + rb"|\?)"
_PAIR = rb"\d++[ \t]++" + _VALUE + rb"[ \t]*+"
_SPARSE_LINE = re.compile(rb"\{[ \t]*+(?:" + _PAIR + rb"(?:,[ \t]*+" + _PAIR + rb")*+)?\}")
_SPARSE_ENTRY = re.compile(rf"""(?a)\s*+(\d++)\s++(?:{QUOTED}|([^\s,'"{{}}]++))\s*+(?:,|$)""")
_LINES = bytes.maketrans(b"{}, \t", b"\n" * 5)


def read_arff(
    path: str | Path,
    labels: str | Path | Sequence[str] | None = None,
    *,
    kind: str | None = None,
    name: str | None = None,
) -> Dataset:
    """Read one ARFF file.

    Parameters
    ----------
    labels : path, sequence of names, or None
        A Mulan XML file (or a text file, one name per line), or the names themselves. None means the `.xml`
        file beside the file (the only one, or the one of the same name), else MEKA's `-C n` of the relation.
    kind : {"wordset", "vector", "columns", "text"}, optional
        The input kind; by default word set for sparse files and for features that are all {0,1},
        text for a single string attribute, else columns.
    """
    path = Path(path)
    raw = utf8_lines(path, read_bytes(path))
    header = parse_header(path, raw)
    label_names, label_columns = _labels(path, header, labels)
    matrix, texts = _read_body(path, header, raw[header.data_start :])
    known = set(label_columns)
    features = [number for number in range(len(header.attributes)) if number not in known]
    # One string beside numbers names the rows, as the image ids of NUS-WIDE do.
    strings = [number for number in features if header.attributes[number].is_text]
    ids = tuple(texts[strings[0]]) if len(strings) == 1 and len(features) > 1 and strings[0] in texts else None
    if ids is not None:
        features.remove(strings[0])
    y = _label_matrix(path, header, matrix, label_columns) if label_columns else None
    rows, kind = _rows(path, header, matrix, texts, features, kind)
    return Dataset(
        name=name or plain_stem(path),
        kind=kind,
        rows=rows,
        labels=y,
        label_names=label_names,
        feature_names=tuple(header.attributes[number].name for number in features) if kind != "text" else None,
        ids=ids,
    )


def _labels(path: Path, header: Header, labels: str | Path | Sequence[str] | None) -> tuple[tuple[str, ...], list[int]]:
    if labels is None:
        return _stated_labels(path, header)
    if isinstance(labels, (str, Path)):
        names = read_label_names(labels)
    else:
        names = tuple(labels)
        # A file for prediction may leave its label columns out altogether.
        declared = {unescape(attribute.name) for attribute in header.attributes}
        if not any(unescape(label) in declared for label in names):
            return names, []
    return names, find_columns(path, header, names)


def _stated_labels(path: Path, header: Header) -> tuple[tuple[str, ...], list[int]]:
    """The labels that the XML file beside the file names; without one, those that MEKA's `-C n` counts.

    Mulan's files may keep a `-C n` of another version, with the labels elsewhere: the XML names them, so it is right.
    """
    total, count = len(header.attributes), header.meka_labels
    found = label_xml(path)
    if count is None:
        if found is None:
            raise DataError(
                f"{path}: which attributes are labels is not known: the relation has no '-C n' and the folder has no "
                "label .xml file, or several; give the label names with --labels FILE (labels=... in Python)"
            )
        names = read_label_names(found)
        return names, find_columns(path, header, names)
    counted = list(range(total)[:count] if count > 0 else range(total)[count:])
    possible = 0 < abs(count) < total
    by_count = tuple(unescape(header.attributes[number].name) for number in counted)
    if found is None:
        if not possible:
            raise FormatError(path, f"the relation says -C {count}, but the file has {total} attributes")
        return by_count, counted
    names = read_label_names(found)
    places = known_columns(header, names)
    named = [place for place in places if place is not None]
    if possible and len(names) == len(counted) and named and set(named) <= set(counted):
        if len(named) == len(names):
            return names, find_columns(path, header, names)
        return by_count, counted  # the same labels, some of them spelled otherwise in the XML
    said = f"{path}: the relation says -C {count}, but {found.name} names {len(names)} labels"
    if possible and not named:
        warnings.warn(
            f"{said}, none of which is an attribute; the {'first' if count > 0 else 'last'} {abs(count)} attributes "
            "are taken as labels: if that is wrong, give the label names with --labels FILE",
            UserWarning,
            stacklevel=2,
        )
        return by_count, counted
    columns = find_columns(path, header, names)
    where = "elsewhere" if len(names) == abs(count) else "which are others"
    warnings.warn(f"{said}, {where}; those of {found.name} are taken", UserWarning, stacklevel=2)
    return names, columns


def _read_body(path: Path, header: Header, body: bytes) -> tuple[Any, dict[int, list[str]]]:
    """All columns as one matrix (CSR for sparse files, else float64), and string columns separately."""
    first = re.search(rb"(?m)^\s*+([^%\s])", body)  # of the first line that is not a comment
    if first is None:
        raise FormatError(path, "there are no rows after @data; give a file with rows", header.data_line)
    return (_read_sparse(path, header, body), {}) if first[1] == b"{" else _read_dense(path, header, body)


def _read_sparse(path: Path, header: Header, body: bytes) -> sparse.csr_matrix:
    plain = all(a.categories is None or a.counts_from_zero for a in header.attributes)
    rows = SparseRows(path, len(header.attributes))
    for lines in blocks_of_lines(body, header.data_line, comment=b"%"):
        if plain and all(map(_SPARSE_LINE.fullmatch, lines.text)):
            counts = np.array([text.count(b",") + 1 if text.strip(b"{} \t") else 0 for text in lines.text])
            flat = floats(b"".join(lines.text).translate(_LINES), 2 * int(counts.sum()))
            if flat is not None:
                rows.add(flat[0::2], flat[1::2], counts, lines.numbers)
                continue
        _add_sparse_slowly(path, header, lines, rows)
    matrix = rows.matrix()
    _check_values(path, header, matrix)
    return matrix


def _add_sparse_slowly(path: Path, header: Header, lines: Lines, rows: SparseRows) -> None:
    """Quoted values, named categories and wrong lines: entry by entry."""
    indices: list[int] = []
    values: list[float] = []
    counts: list[int] = []
    for raw, number in zip(lines.text, lines.numbers, strict=True):
        text = raw.decode("utf-8", errors="replace")
        if not (text.startswith("{") and text.endswith("}")):
            raise FormatError(path, "a sparse row must stand between { and }; is the file whole?", number)
        text, place, before = text[1:-1].strip(), 0, len(indices)
        while place < len(text):
            found = _SPARSE_ENTRY.match(text, place)
            if found is None:
                raise FormatError(path, f"{text[place : place + 40]!r} is not an 'index value' pair", number)
            index = int(found.group(1)) if len(found.group(1)) < 12 else len(header.attributes)
            if index >= len(header.attributes):
                raise FormatError(
                    path, f"the index {found.group(1)[:20]} is not below {len(header.attributes)} attributes", number
                )
            value = next(group for group in found.groups()[1:] if group is not None)
            indices.append(index)
            values.append(_code(path, header.attributes[index], unescape(value), number))
            place = found.end()
        counts.append(len(indices) - before)
    rows.add(np.array(indices, dtype=np.float64), np.array(values), np.array(counts, dtype=np.int64), lines.numbers)


def _code(path: Path, attribute: Attribute, value: str, line: int) -> float:
    """A field as a number: a missing value is NaN, a category its place in the declaration."""
    if value == "?":
        return float("nan")
    if attribute.categories:
        code = attribute.codes.get(value)
        if code is None:
            with suppress(ValueError):
                code = attribute.codes.get(float(value))  # "1.0" where {0,1} was declared
        if code is not None:
            return float(code)
        raise FormatError(path, f"attribute {attribute.name!r}: {value[:40]!r} is not one of its declared values", line)
    try:
        number = float(value)
    except ValueError:
        raise FormatError(path, f"attribute {attribute.name!r}: {value[:40]!r} is not a number", line) from None
    if abs(number) > LARGEST:
        raise FormatError(path, f"attribute {attribute.name!r} is infinite or beyond 3.4e38; give finite numbers", line)
    return number


def _read_dense(path: Path, header: Header, body: bytes) -> tuple[np.ndarray, dict[int, list[str]]]:
    width = len(header.attributes)
    strings = [number for number, attribute in enumerate(header.attributes) if attribute.is_text]
    plain = not strings and all(a.categories is None or a.counts_from_zero for a in header.attributes)
    texts: dict[int, list[str]] = {number: [] for number in strings}
    blocks: list[np.ndarray] = []
    budget = MemoryBudget(path)
    for lines in blocks_of_lines(body, header.data_line, comment=b"%"):
        # Twice, as blocks are joined; and once more as rows.
        budget.take(len(lines.text) * (24 * width + STRING * len(strings)), lines.numbers[0])
        block = dense_block(lines, width, path) if plain else None
        blocks.append(_dense_slowly(path, header, lines, texts) if block is None else block)
    matrix = np.concatenate(blocks)
    _check_values(path, header, matrix)
    return matrix, texts


def _dense_slowly(path: Path, header: Header, lines: Lines, texts: dict[int, list[str]]) -> np.ndarray:
    block = np.empty((len(lines.text), len(header.attributes)))
    for row, (raw, number) in enumerate(zip(lines.text, lines.numbers, strict=True)):
        try:
            fields = split_fields(raw.decode("utf-8"))
        except UnicodeDecodeError:
            fields = split_fields(raw.decode("latin-1"))
        if fields is None:
            raise FormatError(path, "a quotation mark does not close; is the file whole?", number)
        if len(fields) != len(header.attributes):
            problem = f"the line has {len(fields)} values, {len(header.attributes)} were expected"
            raise FormatError(path, problem, number)
        for column, (attribute, field) in enumerate(zip(header.attributes, fields, strict=True)):
            if attribute.is_text:
                texts[column].append(field)
                block[row, column] = 0.0
            else:
                block[row, column] = _code(path, attribute, field, number)
    return block


def _check_values(path: Path, header: Header, matrix: Any) -> None:
    """Codes must lie within the declared values (the fast paths read them unchecked)."""
    limits = np.array([len(a.categories) if a.categories else np.inf for a in header.attributes])
    nominal = np.flatnonzero(np.isfinite(limits))
    if sparse.issparse(matrix):
        values, columns, limit = matrix.data, matrix.indices, limits[matrix.indices]
    else:
        values, limit = matrix[:, nominal], limits[nominal]
        columns = np.broadcast_to(nominal, values.shape)
    fraction = (values != np.floor(values)) & ~np.isnan(values)
    wrong = (values >= limit) | (np.isfinite(limit) & ((values < 0) | fraction))
    if wrong.any():
        at = np.unravel_index(np.argmax(wrong), wrong.shape)
        name = header.attributes[columns[at]].name
        raise FormatError(path, f"attribute {name!r}: {values[at]:g} is not one of its declared values")


def _label_matrix(path: Path, header: Header, matrix: Any, columns: list[int]) -> sparse.csr_matrix:
    """CSR float32 (n, L): 1 where the label is set, NaN where it is unknown."""
    y: Any = matrix[:, columns]
    y = y.tocsr().astype(np.float32) if sparse.issparse(y) else np.asarray(y, dtype=np.float32)
    # A label declared {1,0} or {yes,no} has its codes the other way round.
    turned = []
    for place, column in enumerate(columns):
        categories = header.attributes[column].categories
        if categories is None:
            continue
        if len(categories) > 2 or header.attributes[column].is_text:
            raise FormatError(
                path, f"label {header.attributes[column].name!r} has {len(categories)} values; a label needs {{0,1}}"
            )
        if categories[0].lower() in ("1", "true", "yes", "t", "y") and len(categories) == 2:
            turned.append(place)
    if turned:
        if sparse.issparse(y):
            MemoryBudget(path).check(16 * y.shape[0] * y.shape[1])
            y = y.toarray()
        y[:, turned] = 1 - y[:, turned]
    y = sparse.csr_matrix(y)
    y.eliminate_zeros()
    wrong = np.flatnonzero((y.data != 1) & ~np.isnan(y.data))
    if len(wrong):
        column = columns[int(y.indices[wrong[0]])]
        raise FormatError(
            path, f"label {header.attributes[column].name!r} has the value {y.data[wrong[0]]:g}; labels are 0 or 1"
        )
    return y


def _rows(
    path: Path, header: Header, matrix: Any, texts: dict[int, list[str]], features: list[int], kind: str | None
) -> tuple[Any, str]:
    if not features:
        raise FormatError(path, "every attribute is a label; nothing is left to predict from")
    chosen = [header.attributes[number] for number in features]
    if len(features) == 1 and chosen[0].is_text:
        return texts[features[0]], "text"
    string = next((attribute.name for attribute in chosen if attribute.is_text), None)
    if string is not None:
        raise FormatError(path, f"{string!r} is one of several string attributes among the features; keep only one")
    x = matrix[:, features]
    if kind is None:
        binary = all(attribute.categories is not None and attribute.counts_from_zero for attribute in chosen)
        kind = "wordset" if sparse.issparse(x) or binary else "columns"
    if kind in ("wordset", "vector") and np.isnan(x.data if sparse.issparse(x) else x).any():
        what = "word set" if kind == "wordset" else "vector"
        raise FormatError(path, f"features with missing values (?) cannot be a {what}; read them as columns")
    if kind == "wordset":
        x = sparse.csr_matrix(x, dtype=np.float32)
        x.eliminate_zeros()
        return x, kind
    if sparse.issparse(x):
        MemoryBudget(path).check(24 * x.shape[0] * x.shape[1])
    dense = x.toarray() if sparse.issparse(x) else x
    if kind == "vector":
        return np.ascontiguousarray(dense, dtype=np.float32), kind
    categories = {
        place: attribute.categories
        for place, attribute in enumerate(chosen)
        if attribute.categories and not (len(attribute.categories) == 2 and attribute.counts_from_zero)
    }
    names = tuple(attribute.name for attribute in chosen)
    return Table(values=np.ascontiguousarray(dense, dtype=np.float64), names=names, categories=categories), "columns"
