"""How many bytes the cells of an Arrow array take once they are plain strings, lists and numbers.

Dictionaries, runs and views let a few bytes stand for any number of long values; here they are counted without
being made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, types

from lampnet.runtime.memory_limit import STRING, MemoryBudget

#: Bytes for a number: as it comes, as float64, and in a table.
_NUMBER = 32
#: Views counted at once.
_BLOCK = 1 << 16


def cell_sizes(array: Any, budget: MemoryBudget) -> np.ndarray:
    """Bytes of every cell, float64 (n,); so many cells that not even this array fits are refused.

    >>> budget = MemoryBudget("rows.arrow")
    >>> words = pa.array(["a", "b" * 1000])
    >>> runs = pa.RunEndEncodedArray.from_arrays([5, 7], words)
    >>> cell_sizes(runs, budget)[[0, 4, 5]] - cell_sizes(words, budget)[[0, 0, 1]]
    array([0., 0., 0.])
    """
    budget.check(_NUMBER * len(array))
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return cell_sizes(array.storage, budget)
    if types.is_dictionary(kind):
        inner = np.append(cell_sizes(array.dictionary, budget), 0.0)
        return np.asarray(inner[_filled(array.indices, len(inner) - 1)])
    if types.is_run_end_encoded(kind):
        return np.repeat(cell_sizes(array.values, budget), _run_lengths(array))
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        first, count = (_filled(part, 0) for part in (array.offsets, array.sizes))
        return _spans(array, first, np.where(_valid(array), first + count, first), budget)
    if types.is_fixed_size_list(kind):
        first = (np.arange(len(array)) + array.offset) * kind.list_size
        return _spans(array, first, first + kind.list_size, budget)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        offsets = array.offsets.to_numpy().astype(np.int64)
        return _spans(array, offsets[:-1], offsets[1:], budget)
    if types.is_struct(kind):
        names = sum(len(kind.field(number).name) + STRING for number in range(kind.num_fields))
        total = np.full(len(array), float(STRING + names))
        for number in range(kind.num_fields):
            total += cell_sizes(array.field(number), budget)
        return total
    if types.is_union(kind):
        raise pa.ArrowInvalid(f"a column of the type {kind} cannot be read; write plain values")
    if _is_string(kind):
        return _lengths(array) * 2 + STRING
    return _lengths(array) * 8 + STRING if is_binary(kind) else np.full(len(array), float(_NUMBER))


def viewed_bytes(array: Any) -> int:
    """How many bytes the views of an array point at, one by one: millions of views may share one long text.

    >>> viewed_bytes(pa.array(["a" * 100] * 5, pa.string_view())), viewed_bytes(pa.array(["a" * 100] * 5))
    (500, 0)
    """
    kind = array.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        blocks = (array.slice(first, _BLOCK) for first in range(0, len(array), _BLOCK))
        return sum(int(np.maximum(_lengths(block), 0).sum()) for block in blocks)
    return sum(viewed_bytes(child) for child in _children(array))


def _children(array: Any) -> list[Any]:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return [array.storage]
    if types.is_dictionary(kind):
        return [array.dictionary]
    if types.is_struct(kind) or types.is_union(kind):
        return [array.field(number) for number in range(kind.num_fields)]
    if types.is_map(kind):
        return [array.keys, array.items]
    return [array.values] if types.is_nested(kind) or types.is_run_end_encoded(kind) else []


def plain(array: Any) -> Any:
    """The same cells without dictionaries, runs and views at the outermost level; texts with offsets of 64 bits."""
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    kind = array.type
    # pyarrow would repeat texts with offsets of 32 bits, which overflow beyond 2 GB, in runs without a word.
    if types.is_run_end_encoded(kind):
        return _wide(array.values).take(pa.array(np.repeat(np.arange(len(array.values)), _run_lengths(array))))
    if types.is_dictionary(kind):
        return _wide(array.dictionary).take(array.indices)
    return array.cast(pa.large_string()) if _is_string(kind) or types.is_null(kind) else array


def _wide(array: Any) -> Any:
    """`plain`, bytes with offsets of 64 bits too."""
    array = plain(array)
    return array.cast(pa.large_binary()) if types.is_binary(array.type) or types.is_binary_view(array.type) else array


def _run_lengths(array: Any) -> np.ndarray:
    """How often each value of a run-end-encoded array occurs in it, int64."""
    ends = np.clip(array.run_ends.to_numpy().astype(np.int64) - array.offset, 0, len(array))
    return np.diff(ends, prepend=0)


def _is_string(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: Any) -> bool:
    """Bytes, which may be text."""
    plain_or_fixed = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(plain_or_fixed or types.is_binary_view(kind))


def _lengths(array: Any) -> np.ndarray:
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        # A view is sixteen bytes, the first four of them the length.
        views = np.frombuffer(array.buffers()[1], dtype=np.int32).reshape(-1, 4)
        return np.where(_valid(array), views[array.offset : array.offset + len(array), 0], 0).astype(np.float64)
    return _filled(compute.binary_length(array), 0).astype(np.float64)


def _spans(array: Any, first: np.ndarray, last: np.ndarray, budget: MemoryBudget) -> np.ndarray:
    """The cells of a list column, each from its first to its last value."""
    before = np.concatenate([[0.0], np.cumsum(cell_sizes(array.values, budget))])
    return np.asarray(before[last] - before[first] + STRING, dtype=np.float64)


def _valid(array: Any) -> np.ndarray:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _filled(array: Any, value: int) -> np.ndarray:
    filled = array.fill_null(value) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)
