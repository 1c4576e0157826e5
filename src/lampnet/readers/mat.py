"""MATLAB 5 files with a feature and a label matrix; either may be stored transposed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.errors import FormatError
from lampnet.readers.files import plain_stem, read_bytes
from lampnet.readers.mat5 import read_matrices
from lampnet.readers.matrices import dataset_of

_X = ("x", "data", "features", "fea")
_Y = ("y", "target", "targets", "labels", "gnd", "label")


def read_mat(path: str | Path, *, labels: Sequence[str] | None = None, name: str | None = None) -> Dataset:
    """Read `data` and `target` (or X and Y, features and labels) of a MATLAB 5 file.

    The label matrix may be labels x rows, as in the RCV1 subsets, and hold 0/1 or -1/1.
    """
    path = Path(path)
    raw = read_bytes(path)
    if raw[:8] == b"\x89HDF\r\n\x1a\n" or raw[:19] == b"MATLAB 7.3 MAT-file":
        raise FormatError(path, "this is a MATLAB 7.3 (HDF5) file; save it with '-v7' or older")
    if raw[:6] != b"MATLAB":
        raise FormatError(path, "this is not a MATLAB 5 file")
    variables = read_matrices(path, raw, (*_X, *_Y))
    x, y = _pick(variables, _X), _pick(variables, _Y)
    if x is None:
        there = ", ".join(variables) or "nothing"
        raise FormatError(path, f"there is no matrix named data or X; the file holds {there}")
    if y is not None and y.shape[0] != x.shape[0] and y.shape[1] == x.shape[0]:
        y = y.T
    elif y is not None and y.shape[0] != x.shape[0] and x.shape[1] == y.shape[0]:
        x = x.T
    if not sparse.issparse(x):
        x = np.asarray(x)
    names = labels if labels is not None and y is not None and len(labels) == y.shape[1] else None
    return dataset_of(path, x, y, label_names=names, name=name or plain_stem(path))


def _pick(variables: dict[str, Any], keys: Sequence[str]) -> Any:
    for key in keys:
        value = variables.get(key)
        if value is not None and getattr(value, "ndim", 0) == 2 and value.dtype.kind in "biuf":
            return value
    return None
