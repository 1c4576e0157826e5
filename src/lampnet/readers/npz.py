"""NumPy `.npz` with arrays X and Y (and names), or SciPy's sparse parts of both; nothing is unpickled.

Recognised keys: `X` and `Y` (any case; also features/labels, data/target), dense; or for each the
parts that SciPy stores of a CSR matrix, `X_data`, `X_indices`, `X_indptr`, `X_shape`; and string
arrays `label_names` and `feature_names`. A file of `scipy.sparse.save_npz` is rows without labels.
"""

from __future__ import annotations

import math
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.errors import FormatError
from lampnet.readers.files import MAX_DIMENSION, plain_stem
from lampnet.readers.matrices import dataset_of
from lampnet.runtime.memory_limit import MemoryBudget

_X = ("x", "features", "data", "x_train")
_Y = ("y", "labels", "target", "targets", "y_train")
_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(path: str | Path, *, labels: Sequence[str] | None = None) -> Dataset:
    """Read features and labels from one `.npz` file."""
    path = Path(path)
    arrays = _arrays(path)
    x, y = _matrix(path, arrays, _X), _matrix(path, arrays, _Y)
    if x is None and all(part in arrays for part in _PARTS):
        x = _csr(path, {part: arrays[part] for part in _PARTS}, "the matrix")
    if x is None:
        raise FormatError(path, f"there is no array X; the file holds {', '.join(sorted(arrays)) or 'nothing'}")
    if y is not None and y.ndim == 1:
        y = y.reshape(-1, 1)
    if labels is None or (y is not None and len(labels) != y.shape[1]):
        labels = _names(path, arrays, "label_names")
    feature_names = _names(path, arrays, "feature_names")
    return dataset_of(path, x, y, label_names=labels, feature_names=feature_names, name=plain_stem(path))


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise FormatError(path, "there is no such file; check the path")
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            MemoryBudget(path).check(2 * sum(entry.file_size for entry in archive.infolist()))
            for entry in archive.infolist():
                with archive.open(entry) as stream:
                    # The stream is bounded by what the archive states, checked above.
                    arrays[entry.filename.removesuffix(".npy").lower()] = _array(path, stream, entry.file_size)
    except FormatError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise FormatError(path, f"this is not a readable .npz archive ({str(error)[:100]})") from None
    return arrays


def _array(path: Path, stream: Any, size: int) -> np.ndarray:
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(stream)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(stream)
        count = math.prod(shape)
        if dtype.hasobject:
            raise FormatError(path, "an array holds Python objects (a pickle), which are never loaded; save numbers")
        if count < 0 or count * dtype.itemsize > size:
            raise FormatError(path, f"an array states the shape {shape}, more than its {size} bytes hold")
        values = np.frombuffer(bytearray(stream.read(count * dtype.itemsize)), dtype=dtype, count=count)
        return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)
    except FormatError:
        raise
    except (ValueError, TypeError, SyntaxError, OverflowError, KeyError, AttributeError) as error:
        raise FormatError(path, f"an array in the archive is damaged ({str(error)[:100]})") from None


def _matrix(path: Path, arrays: Mapping[str, np.ndarray], keys: Sequence[str]) -> Any:
    for key in keys:
        if key in arrays and f"{key}_indices" not in arrays and "indptr" not in arrays:
            return arrays[key]
        if f"{key}_indptr" in arrays:
            return _csr(path, {part: arrays.get(f"{key}_{part}") for part in _PARTS}, key)
    return None


def _csr(path: Path, parts: Mapping[str, np.ndarray | None], what: str) -> sparse.csr_matrix:
    data, indices, indptr, shape = (parts[part] for part in _PARTS)
    if data is None or indices is None or indptr is None or shape is None:
        missing = [part for part in _PARTS if parts[part] is None]
        raise FormatError(path, f"{what} lacks its parts {', '.join(missing)}")
    try:
        sides = tuple(int(side) for side in shape)
        if len(sides) != 2 or min(sides) < 0 or max(sides) > MAX_DIMENSION:
            raise ValueError(f"shape {sides}")
        matrix = sparse.csr_matrix((data, indices, indptr), shape=sides)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(path, f"{what} is not a valid CSR matrix ({str(error)[:100]})") from None
    return matrix


def _names(path: Path, arrays: Mapping[str, np.ndarray], key: str) -> tuple[str, ...] | None:
    found = arrays.get(key)
    if found is None or found.ndim != 1:
        return None
    if found.dtype.kind == "U":
        letters = (
            np.ascontiguousarray(found).view(found.dtype.newbyteorder("=").byteorder + "u4") if found.size else found
        )
        if found.size and (letters > sys.maxunicode).any():
            raise FormatError(path, f"the array {key} holds numbers that are not characters; is the file damaged?")
    return tuple(str(value) for value in found)
