"""Decision rules: probabilities (n, L) -> label sets, bool (n, L). NumPy only.

Each rule is a small frozen dataclass; `to_json` and `rule_from_json` store it with a model. Model folders are
untrusted, so every field is checked.

>>> proba = np.array([[0.9, 0.4, 0.3], [0.2, 0.1, 0.1]])
>>> Threshold(0.5).apply(proba).astype(int).tolist()
[[1, 0, 0], [0, 0, 0]]
>>> Threshold(0.5, min_labels=1).apply(proba).astype(int).tolist()
[[1, 0, 0], [1, 0, 0]]
>>> ExpectedF1().apply(proba).astype(int).tolist()
[[1, 1, 0], [1, 0, 0]]
>>> rule_from_json(TopK(2).to_json())
TopK(k=2)
"""

from __future__ import annotations

import dataclasses
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from lampnet.errors import ConfigError, DataError, ModelFolderError, did_you_mean

#: Labels less probable than this enter the exact rule only through the sums of their powers; SERIES has the
#: probabilities from which on the first, second, ... power counts.
UNLIKELY = 0.1
SERIES = (0.0, 0.0, 0.0, 0.01, 0.02, 0.04, 0.05, 0.07)
#: Intermediate float64 values per block of rows in the exact rule.
_BLOCK = 4_000_000


class Rule(Protocol):
    """Turns probabilities into label sets."""

    def apply(self, proba: np.ndarray) -> np.ndarray:
        """Label sets, bool (n, L), of probabilities (n, L)."""

    def to_json(self) -> dict[str, Any]:
        """Plain data that `rule_from_json` reads."""

    def describe(self) -> str:
        """The rule in a few words, for tables."""


@dataclass(frozen=True)
class _Stored:
    """A rule's JSON form is its kind and its fields."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {"rule": self.kind} | {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}


@dataclass(frozen=True)
class Threshold(_Stored):
    """Labels whose probability is at least `value`; at least the `min_labels` most probable ones."""

    kind: ClassVar[str] = "threshold"
    value: float
    min_labels: int = 0

    def __post_init__(self) -> None:
        _check_number("value", self.value, 0.0, 1.0)
        _check_whole("min_labels", self.min_labels, 0)

    def apply(self, proba: np.ndarray) -> np.ndarray:
        proba = _probabilities(proba)
        return _with_most_probable(proba >= self.value, proba, self.min_labels)

    def describe(self) -> str:
        return f"threshold {self.value:g}{_at_least(self.min_labels)}"


@dataclass(frozen=True)
class PerLabelThreshold(_Stored):
    """Labels whose probability is at least their own threshold; at least the `min_labels` most probable ones.

    values  L numbers
    """

    kind: ClassVar[str] = "per_label_threshold"
    values: tuple[float, ...]
    min_labels: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.values, tuple) or not self.values:
            raise ConfigError("values must be a tuple with one threshold per label")
        for value in self.values:
            _check_number("values", value, 0.0, 1.0)
        _check_whole("min_labels", self.min_labels, 0)

    def apply(self, proba: np.ndarray) -> np.ndarray:
        proba = _probabilities(proba)
        if proba.shape[1] != len(self.values):
            raise DataError(
                f"the probabilities are of {proba.shape[1]} labels, but the rule has {len(self.values)} thresholds; "
                "use the rule of the same model"
            )
        return _with_most_probable(proba >= np.asarray(self.values, dtype=proba.dtype), proba, self.min_labels)

    def describe(self) -> str:
        return f"per-label thresholds (median {np.median(self.values):.2f}){_at_least(self.min_labels)}"


@dataclass(frozen=True)
class TopK(_Stored):
    """The k most probable labels of every row; ties go to the first labels."""

    kind: ClassVar[str] = "top_k"
    k: int

    def __post_init__(self) -> None:
        _check_whole("k", self.k, 1)

    def apply(self, proba: np.ndarray) -> np.ndarray:
        order = descending(_probabilities(proba))
        return first_of_order(order, np.full(len(order), min(self.k, order.shape[1])))

    def describe(self) -> str:
        return f"top {self.k}"


@dataclass(frozen=True)
class _TopByExpectedF1(_Stored, ABC):
    """The k most probable labels, with the k of each row that maximises its expected example-F1, q = p**power.

    `power` corrects under- or overconfident probabilities; it is chosen on validation rows.
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        _check_number("power", self.power, 0.01, 100.0)

    def apply(self, proba: np.ndarray) -> np.ndarray:
        proba = _probabilities(proba)
        order = descending(proba)
        return first_of_order(order, self.counts(np.take_along_axis(proba, order, axis=1)))

    @abstractmethod
    def counts(self, sorted_proba: np.ndarray) -> np.ndarray:
        """The number of labels of each row, int (n,), from probabilities in descending order."""


@dataclass(frozen=True)
class ExpectedF1(_TopByExpectedF1):
    """A plug-in estimate of the expected example-F1 of the top k: 2 Σ_{top k} q / (k + Σ q)."""

    kind: ClassVar[str] = "expected_f1"

    def counts(self, sorted_proba: np.ndarray) -> np.ndarray:
        q = np.asarray(sorted_proba, dtype=np.float64) ** self.power
        gain = np.cumsum(q, axis=1)
        total = gain[:, -1:]
        best = np.argmax(gain / (np.arange(1, q.shape[1] + 1) + total), axis=1) + 1
        return np.asarray(np.where(total[:, 0] > 0, best, 0))

    def describe(self) -> str:
        return f"expected F1 (power {self.power:g})"


@dataclass(frozen=True)
class ExactExpectedF1(_TopByExpectedF1):
    """The label set of the highest expected example-F1 if labels were independent with probabilities q.

    The best set is always the top k for some k (Lewis 1995). Instead of the quadratic recursion of Ye et al.
    (2012) we use E[1 / (k + N)] = ∫_0^1 x^(k-1) E[x^N] dx, which gives for all k at once

        E[F1 of the top k] = 2 ∫_0^1 x^k G(x) Σ_{j<=k} q_j / (1 - q_j + q_j x) dx,  G(x) = Π_j (1 - q_j + q_j x),

    a polynomial that a few Gauss-Legendre points integrate to many digits.
    """

    kind: ClassVar[str] = "exact_expected_f1"

    def counts(self, sorted_proba: np.ndarray) -> np.ndarray:
        q = np.asarray(sorted_proba, dtype=np.float64) ** self.power
        likely = (q > UNLIKELY).sum(axis=1)
        counts = ExpectedF1(1.0).counts(q)  # the plug-in rule is close
        open_rows = np.flatnonzero(counts > 0)
        reach = counts + counts // 2 + 3
        while len(open_rows):
            counts[open_rows] = self._counts(q, open_rows, likely, reach)
            # A best k at the end of what was looked at: look further.
            open_rows = open_rows[(counts[open_rows] >= reach[open_rows]) & (counts[open_rows] < q.shape[1])]
            reach[open_rows] *= 2
        return counts

    def _counts(self, q: np.ndarray, rows: np.ndarray, likely: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """The best of the first `reach` (n,) labels for some rows; rows with about as many labels go together."""
        heads = np.maximum(reach, likely)[rows]
        order = np.lexsort((reach[rows], heads))
        counts = np.zeros(len(rows), dtype=np.int64)
        start = 0
        while start < len(order):
            some = order[start : start + 256]
            head = min(q.shape[1], -(-int(heads[some[-1]]) // 8) * 8)  # few sizes, few sets of points
            some = some[: max(1, _BLOCK // (head * len(_points(head)[0])))]
            own = rows[some]
            expected = expected_f1_of_top_k(q[own], head, min(head, int(reach[own].max())))
            counts[some] = np.minimum(expected.argmax(axis=1) + 1, reach[own])
            start += len(some)
        return counts

    def describe(self) -> str:
        return f"exact expected F1 (power {self.power:g})"


def expected_f1_of_top_k(q: np.ndarray, head: int, reach: int) -> np.ndarray:
    """E[F1] of predicting the top 1, 2, ..., `reach` labels: float64 (n, reach) from descending q (n, L).

    Labels from `head` on, which are unlikely, count by the sums of their powers; reach <= head.
    """
    points, weights = _points(head)
    away = 1.0 - points
    top = q[:, :reach, None]
    factor = 1.0 - top * away  # (n, reach, Q): 1 - q + q x without losing digits
    # log Π (1 - q (1 - x)) of the unlikely labels = - Σ_i (1 - x)^i Σ_j q_j^i / i.
    series = np.vander(away, len(SERIES) + 1, increasing=True)[:, 1:] / np.arange(1, len(SERIES) + 1)
    whole = factor.prod(axis=1) * np.exp(-_power_sums(q[:, head:]) @ series.T) * weights  # (n, Q)
    if reach < head:
        whole *= (1.0 - q[:, reach:head, None] * away).prod(axis=1)
    np.divide(top, factor, out=factor)
    gain = np.cumsum(factor, axis=1, out=factor)
    gain *= whole[:, None]
    powers = points ** np.arange(1, reach + 1)[:, None]  # (reach, Q): x^k
    return np.asarray(2.0 * np.einsum("nkq,kq->nk", gain, powers))


def _power_sums(q: np.ndarray) -> np.ndarray:
    """Sums of q, q^2, ... over labels in descending order, (n, len(SERIES)), as far as they count."""
    sums = np.zeros((len(q), len(SERIES)))
    power = q
    for i, negligible in enumerate(SERIES):
        power = power[:, : int((q[:, : power.shape[1]].max(axis=0) > negligible).sum())]
        sums[:, i] = power.sum(axis=1)
        power = power * q[:, : power.shape[1]]
    return sums


@functools.cache
def _points(head: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre points and weights on [0, 1]: `head` points are exact, about sqrt(head) nearly so."""
    x, w = np.polynomial.legendre.leggauss(max(8, min(head, max(48, 4 * math.isqrt(head)))))
    return (x + 1) / 2, w / 2


def descending(proba: np.ndarray) -> np.ndarray:
    """Label indices of each row by descending probability, int (n, L); ties keep their order."""
    return np.asarray(np.argsort(-proba, axis=1, kind="stable"))


def first_of_order(order: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """bool (n, L): True for the first counts[i] labels of row i's order."""
    chosen = np.zeros(order.shape, dtype=bool)
    np.put_along_axis(chosen, order, np.arange(order.shape[1]) < counts[:, None], axis=1)
    return chosen


RULES: dict[str, Any] = {rule.kind: rule for rule in (Threshold, PerLabelThreshold, TopK, ExpectedF1, ExactExpectedF1)}


def rule_from_json(data: Any, n_labels: int | None = None) -> Rule:
    """The rule that `to_json` wrote; anything else is refused.

    >>> rule_from_json({"rule": "threshold", "value": 7})
    Traceback (most recent call last):
    lampnet.errors.ModelFolderError: decision rule 'threshold': value=7 must be a number from 0 to 1
    """
    if not isinstance(data, Mapping):
        raise ModelFolderError(f"a decision rule must be a JSON object, not {type(data).__name__}")
    name = data.get("rule")
    if not isinstance(name, str) or name not in RULES:
        raise ModelFolderError(f"there is no decision rule {name!r:.80}; {did_you_mean(str(name)[:80], RULES)}")
    kind = RULES[name]
    fields = {f.name: f for f in dataclasses.fields(kind)}
    given = {key: value for key, value in data.items() if key != "rule"}
    for key in given:
        if key not in fields:
            raise ModelFolderError(f"decision rule {name!r} has no field {str(key)!r:.80}")
    for key, field in fields.items():
        if key not in given and field.default is dataclasses.MISSING:
            raise ModelFolderError(f"decision rule {name!r} lacks its field {key!r}")
    if isinstance(given.get("values"), list):
        given["values"] = tuple(given["values"])
    try:
        rule: Rule = kind(**given)
    except ConfigError as problem:
        raise ModelFolderError(f"decision rule {name!r}: {problem}") from None
    if n_labels is not None and isinstance(rule, PerLabelThreshold) and len(rule.values) != n_labels:
        raise ModelFolderError(
            f"decision rule {name!r} has {len(rule.values)} thresholds, but the model has {n_labels} labels"
        )
    return rule


def _with_most_probable(chosen: np.ndarray, proba: np.ndarray, min_labels: int) -> np.ndarray:
    """The label sets; those with fewer labels get the most probable ones, too."""
    if min_labels:
        few = np.flatnonzero(chosen.sum(axis=1) < min_labels)
        chosen[few] |= TopK(min_labels).apply(proba[few])
    return chosen


def _at_least(min_labels: int) -> str:
    return f", at least {min_labels}" if min_labels else ""


def _probabilities(proba: Any) -> np.ndarray:
    array = np.asarray(proba)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise DataError(f"probabilities must be numbers of shape (rows, labels); got {array.dtype} {array.shape}")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if array.size and not (array.min() >= 0 and array.max() <= 1):
        raise DataError("probabilities must be from 0 to 1 and not NaN")
    return array


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    if not is_number(value, low, high):
        raise ConfigError(f"{name}={value!r:.80} must be a number from {low:g} to {high:g}")


def _check_whole(name: str, value: Any, low: int) -> None:
    if not is_whole(value, low):
        raise ConfigError(f"{name}={value!r:.80} must be a whole number from {low} to {10**9}")


def is_number(value: Any, low: float, high: float) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and low <= value <= high


def is_whole(value: Any, low: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and low <= value <= 10**9
