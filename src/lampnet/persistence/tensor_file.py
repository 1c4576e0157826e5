"""Named arrays in one safetensors file, checked before anything is allocated.

An untrusted file may claim anything. The header is read first; every name, type, shape and offset
is checked against the file's real size, and only then are the numbers read.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.errors import ModelFolderError
from lampnet.runtime.atomic_files import replace_files
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import open_regular, read_regular

_CODES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1", "U8": "<u1"}
DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in (_CODES | {"BOOL": "bool"}).items()}
MAX_HEADER = 10_000_000
MAX_AXES = 8
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,300}")


@dataclass(frozen=True)
class Entry:
    """Where one array lies in the file: bytes begin..end after the header."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def encode_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a safetensors file."""
    from safetensors.numpy import save

    for name, array in arrays.items():
        if not _NAME.fullmatch(name):
            raise ModelFolderError(f"the array name {name[:80]!r} cannot be stored; use letters, digits, '_', '.', '-'")
        if array.dtype not in DTYPES.values():
            raise ModelFolderError(f"the array {name} has type {array.dtype}, which cannot be stored")
    return save({name: np.asarray(array, order="C") for name, array in arrays.items()})


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    """Write a safetensors file, whole or not at all; returns its SHA-256 digest.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "two.safetensors"
    >>> digest = write_arrays(file, {"a": np.arange(3, dtype=np.float32)})
    >>> read_arrays(file, read_header(file))["a"].tolist()
    [0.0, 1.0, 2.0]
    """
    content = encode_arrays(arrays)
    replace_files({path: (content,)})
    return hashlib.sha256(content).hexdigest()


def read_header(path: Path) -> dict[str, Entry]:
    """What the file holds; each entry is checked against the file's size."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or length > min(size - 8, MAX_HEADER):
                raise ModelFolderError(
                    f"{path} is damaged: its header does not fit in the file; train or copy it again"
                )
            header = parse_json(file.read(length))
    except OSError as fault:
        raise ModelFolderError(f"{path} cannot be read ({fault.strerror or fault})") from None
    except ModelFolderError:
        raise
    except ValueError as fault:
        raise ModelFolderError(f"{path} is damaged: in its header, {fault}; train or copy it again") from None
    if not isinstance(header, dict):
        raise ModelFolderError(f"{path} is damaged: its header is not a JSON object")
    header.pop("__metadata__", None)
    room = size - 8 - length
    entries = {name: _entry(path, name, claim, room) for name, claim in header.items()}
    end = 0
    for entry in sorted(entries.values(), key=lambda e: (e.begin, e.end)):
        if entry.begin != end:
            raise ModelFolderError(f"{path} is damaged: its arrays overlap or leave gaps")
        end = entry.end
    if end != room:
        raise ModelFolderError(f"{path} is damaged: {room:,} bytes of arrays are there, {end:,} were announced")
    return entries


def _entry(path: Path, name: str, claim: Any, room: int) -> Entry:
    def damaged(what: str) -> ModelFolderError:
        return ModelFolderError(f"{path} is damaged: the array {name[:80]!r} has {what}")

    if not _NAME.fullmatch(name):
        raise damaged("a name that is not allowed")
    if not isinstance(claim, dict) or not isinstance(claim.get("dtype"), str) or claim["dtype"] not in DTYPES:
        raise damaged("no known type")
    shape: Any = claim.get("shape")
    offsets: Any = claim.get("data_offsets")
    if not _whole(shape) or len(shape) > MAX_AXES:
        raise damaged("no proper shape")
    if not _whole(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= room:
        raise damaged("offsets outside the file")
    dtype = DTYPES[claim["dtype"]]
    if math.prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise damaged("a shape that does not match its bytes")
    return Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def read_arrays(path: Path, header: Mapping[str, Entry], sha256: str | None = None) -> dict[str, np.ndarray]:
    """The arrays that `read_header` announced; all numbers must be finite, the digest as stored."""
    try:
        content = read_regular(path)
    except OSError as fault:
        raise ModelFolderError(f"{path} cannot be read ({fault.strerror or fault})") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise ModelFolderError(f"{path} is damaged: its contents do not match their digest; train or copy it again")
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {}
    for name, entry in header.items():
        count = math.prod(entry.shape)
        if start + entry.end > len(content):
            raise ModelFolderError(f"{path} was replaced while it was read; read it again")
        flat = np.frombuffer(content, entry.dtype, count, start + entry.begin) if count else np.zeros(0, entry.dtype)
        arrays[name] = flat.reshape(entry.shape).copy()
        if entry.dtype.kind == "f" and not np.isfinite(arrays[name]).all():
            raise ModelFolderError(f"{path} is damaged: the array {name!r} holds values that are not numbers")
    return arrays


def arrays_under(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, by the rest of their names.

    >>> arrays_under({"a.x": np.zeros(1), "b.y": np.zeros(1)}, "a.")
    {'x': array([0.])}
    """
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
