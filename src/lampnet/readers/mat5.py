"""The matrices of a MATLAB 5 file (`save -v6`, `-v7`), read without trusting any of its numbers.

Written by hand because SciPy's reader believes the sizes it finds, and crashes the process on damaged files.
The format is a list of elements, each a tag (type, number of bytes) and its content; a matrix is an element of
elements.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.errors import FormatError
from lampnet.runtime.memory_limit import MemoryBudget

_HEADER = 128
_STEP = 1 << 20
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED, _SPARSE, _FIRST_NUMERIC, _LAST_NUMERIC = 14, 15, 5, 6, 15


def read_matrices(path: Path, raw: bytes, wanted: Collection[str]) -> dict[str, Any]:
    """Numeric matrices by lower-case name: arrays (n, m), or CSR where the file has them sparse."""
    if len(raw) < _HEADER or raw[126:128] not in (b"IM", b"MI"):
        raise FormatError(path, "this is not a MATLAB 5 file; save it with -v6 or -v7, or as .npz")
    order = "<" if raw[126:128] == b"IM" else ">"
    found: dict[str, Any] = {}
    budget = MemoryBudget(path)
    for kind, content in _elements(path, raw[_HEADER:], order):
        if kind == _COMPRESSED:
            content = _unpacked(budget, path, content)
            inner = next(_elements(path, content, order), None)
            if inner is None:
                continue
            kind, content = inner
        if kind == _MATRIX:
            name, matrix = _matrix(path, content, order, wanted)
            if matrix is not None:
                found[name] = matrix
    return found


def _elements(path: Path, content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 8 <= len(content):
        kind, size = struct.unpack(order + "II", content[place : place + 8])
        if kind >> 16:  # up to four bytes are kept in the tag itself
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                raise FormatError(path, "the MATLAB file is damaged (a small element of more than four bytes)")
            yield kind, content[place + 4 : place + 4 + size]
            place += 8
            continue
        if size > len(content) - place - 8:
            raise FormatError(path, "the MATLAB file is damaged or cut off (an element is longer than the file)")
        yield kind, content[place + 8 : place + 8 + size]
        place += 8 + size + (0 if kind == _COMPRESSED else -size % 8)


def _unpacked(budget: MemoryBudget, path: Path, content: bytes) -> bytes:
    engine, parts = zlib.decompressobj(), []
    try:
        while content and not engine.eof:
            parts.append(engine.decompress(content, _STEP))
            budget.take(2 * len(parts[-1]))  # once more when they are joined
            content = engine.unconsumed_tail
    except zlib.error as error:
        raise FormatError(path, f"the MATLAB file is damaged ({error})") from None
    if not engine.eof:
        raise FormatError(path, "the MATLAB file is cut off; fetch the file again")
    return b"".join(parts)


def _matrix(path: Path, content: bytes, order: str, wanted: Collection[str]) -> tuple[str, Any]:
    """Name and numbers of a matrix; None for texts, cells, structures and names that are not wanted."""
    parts = list(islice(_elements(path, content, order), 6))  # a sparse matrix has six
    if len(parts) < 3 or len(parts[0][1]) < 8 or parts[1][0] != 5:
        return "", None
    flags = struct.unpack(order + "I", parts[0][1][:4])[0]
    shape = tuple(int(side) for side in _numbers(path, parts[1], order))
    name = parts[2][1].decode("latin-1").lower()
    kind, complex_numbers = flags & 0xFF, flags & 0x800
    if name not in wanted or complex_numbers or len(shape) != 2 or min(shape) < 0:
        return name, None
    if kind == _SPARSE and len(parts) >= 6:
        return name, _sparse_matrix(path, [_numbers(path, part, order) for part in parts[3:6]], shape)
    if not _FIRST_NUMERIC <= kind <= _LAST_NUMERIC or len(parts) < 4:
        return name, None
    MemoryBudget(path).check(8 * len(parts[3][1]))  # bytes may become floats
    values = _numbers(path, parts[3], order)
    if math.prod(shape) != len(values):
        raise FormatError(path, f"the matrix {name!r} states the shape {shape}, but has {len(values)} numbers")
    return name, values.reshape(shape, order="F")


def _numbers(path: Path, part: tuple[int, bytes], order: str) -> np.ndarray:
    kind, content = part
    if kind not in _NUMBERS:
        raise FormatError(path, f"the MATLAB file is damaged (numbers of the unknown type {kind})")
    dtype = np.dtype(order + _NUMBERS[kind])
    if len(content) % dtype.itemsize:
        raise FormatError(path, "the MATLAB file is damaged (a number is cut off)")
    return np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))


def _sparse_matrix(path: Path, parts: list[np.ndarray], shape: tuple[int, ...]) -> sparse.csr_matrix:
    rows, starts, values = parts
    MemoryBudget(path).check(16 * sum(shape) + 64 * len(values))
    used = int(starts[-1]) if len(starts) else -1
    ordered = len(starts) == shape[1] + 1 and starts[0] == 0 and not (np.diff(starts.astype(np.int64)) < 0).any()
    if not ordered or not 0 <= used <= min(len(rows), len(values)):
        raise FormatError(path, "the MATLAB file is damaged (the columns of a sparse matrix do not fit its entries)")
    rows, values = rows[:used].astype(np.int64), values[:used]
    if used and (rows.min() < 0 or rows.max() >= shape[0]):
        raise FormatError(path, "the MATLAB file is damaged (a sparse matrix has an entry outside its shape)")
    matrix = sparse.csc_matrix((values.astype(np.float64), rows, starts.astype(np.int64)), shape=shape)
    matrix.sum_duplicates()
    return sparse.csr_matrix(matrix)
