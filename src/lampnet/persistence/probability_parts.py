"""How calibration and promises are stored with a model, and checked when they are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from lampnet.errors import ModelFolderError
from lampnet.evaluation.calibration import Calibration
from lampnet.evaluation.promises import Promises

#: the largest number in a calibration, whose logits are a few tens at most
MAX_CALIBRATION = 1e4
_SUMS = ("grid", "missed", "wrong", "answered")


def restore_calibration(arrays: Mapping[str, np.ndarray], n_labels: int) -> Calibration | None:
    """A stored calibration, which may be forged: it must rise, and stay within bounds."""
    if not arrays:
        return None
    lacking = [field.name for field in dataclasses.fields(Calibration) if field.name not in arrays]
    if lacking or len(arrays) > len(dataclasses.fields(Calibration)):
        raise ModelFolderError("the calibration of this model is damaged: it has other parts than expected")
    made = Calibration(**arrays)
    knots, values = made.knots_K, made.values_K
    curve = knots.ndim == 1 and len(knots) > 1 and knots.shape == values.shape
    labels = made.slope_L.shape == made.shift_L.shape == (n_labels,)
    if any(array.dtype != np.float64 for array in arrays.values()) or not curve or not labels:
        raise ModelFolderError("the calibration of this model is damaged: its arrays have other shapes or types")
    if max(float(np.abs(array).max()) for array in arrays.values()) > MAX_CALIBRATION:
        raise ModelFolderError("the calibration of this model is damaged: its numbers are too large")
    if not (np.diff(knots) > 0).all() or not (np.diff(values) > 0).all() or not (made.slope_L > 0).all():
        raise ModelFolderError("the calibration of this model is damaged: it does not rise")
    return made


def promise_arrays(promises: Promises) -> dict[str, np.ndarray]:
    """Under their names in the weights' file."""
    counts = np.array([promises.rows, promises.labelled], dtype=np.int64)
    return {"promises.counts": counts} | {f"promises.{name}": getattr(promises, name) for name in _SUMS}


def restore_promises(arrays: Mapping[str, np.ndarray]) -> Promises | None:
    """Stored promises, which may be forged: sums over rows cannot exceed the number of rows."""
    if not arrays:
        return None
    sums = [arrays.get(name) for name in _SUMS]
    counts = arrays.get("counts")
    if counts is None or counts.dtype != np.int64 or counts.shape != (2,) or len(arrays) != len(_SUMS) + 1:
        raise ModelFolderError("the promises of this model are damaged: it has other parts than expected")
    rows, labelled = (int(count) for count in counts)
    grid = sums[0]
    if grid is None or grid.ndim != 1 or any(a is None or a.dtype != np.float64 or a.shape != grid.shape for a in sums):
        raise ModelFolderError("the promises of this model are damaged: its arrays have other shapes or types")
    within = all(((a >= 0) & (a <= max(rows, 1))).all() for a in sums if a is not None)
    if not within or not 0 <= labelled <= rows or not (np.diff(grid) > 0).all() or (len(grid) and grid[-1] > 1):
        raise ModelFolderError("the promises of this model are damaged: sums over rows exceed the number of rows")
    return Promises(rows, labelled, **{name: arrays[name] for name in _SUMS})
