"""Cheap first opinions for every label, which the label nodes start from.

An opinion is a quick model on an input's linear features. The network must not learn to trust an
overfitted opinion, so the training rows get out-of-fold opinions: each row is judged by a model
that never saw it. Opinions are logits, centred a label and scaled to unit spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from lampnet.errors import ModelFolderError
from lampnet.folds import fold_numbers, parts_of
from lampnet.forest_opinion import ForestOpinion
from lampnet.linear_models import Matrix, fit_linear

Features = Any  # CSR or dense (n, F)
FOLDS = 8
# What a linear opinion may be: its loss and its strength C; the best on a held-out fold is taken.
LINEAR_CHOICES = (
    ("hinge", 0.1),
    ("hinge", 0.3),
    ("hinge", 1.0),
    ("logistic", 0.1),
    ("logistic", 1.0),
    ("logistic", 10.0),
)
CHOICE_LABELS = 128
NEIGHBOURS = 60
LOUDEST = 12.0  # logits of linear opinions stay within this
FEW_ROWS = 4 * NEIGHBOURS
REFERENCE_ROWS = 40_000  # neighbours are sought among at most this many training rows
CLOSER_COUNTS_MORE = 6  # votes are cosines to this power


class Opinion(Protocol):
    """One quick model: logits for all labels at once."""

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        """Learn from all rows; return out-of-fold logits (n, L).

        Rows of one fold have no say about each other. Without `fold_n` (n,) an opinion keeps a row from judging
        itself in its own way: random folds, leaving it out, trees that did not draw it.
        """
        ...

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        """Learn again, from more rows, with the settings that `fit` chose."""
        ...

    def logits(self, X: Features) -> np.ndarray: ...

    def arrays(self) -> dict[str, np.ndarray]: ...

    def restore(self, arrays: dict[str, np.ndarray]) -> None: ...


class LinearOpinion:
    """One-vs-rest linear classifiers: a support vector machine or logistic regression, whichever ranks
    the labels of a held-out fold better."""

    def __init__(self) -> None:
        self.weights = np.zeros((0, 0), dtype=np.float32)
        self.intercepts = np.zeros(0, dtype=np.float32)
        self.loss, self.strength = LINEAR_CHOICES[0]

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        if fold_n is None:
            fold_n = fold_numbers(len(Y_nL), FOLDS, seed)
        inside, outside = np.flatnonzero(fold_n != 0), np.flatnonzero(fold_n == 0)
        self.loss, self.strength = _best_linear(X, Y_nL, inside, outside, seed)
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.strength, loss=self.loss)
        logits = np.empty(Y_nL.shape, dtype=np.float32)
        whole = (self.weights, self.intercepts)
        for rest, own in parts_of(fold_n):
            # From the whole data's solution few steps remain: each solves the rest's problem anew, so that
            # nothing of the fold's own labels is left.
            W, b = fit_linear(Matrix(X[rest]), Y_nL[rest], self.strength, whole, newton_steps=6, loss=self.loss)
            logits[own] = _bounded(X[own] @ W + b)
        return logits

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        start = (self.weights, self.intercepts)
        self.weights, self.intercepts = fit_linear(Matrix(X), Y_nL, self.strength, start, loss=self.loss)

    def logits(self, X: Features) -> np.ndarray:
        return _bounded(X @ self.weights + self.intercepts)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights, "intercepts": self.intercepts}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.weights, self.intercepts = arrays["weights"], arrays["intercepts"]


class NeighbourOpinion:
    """The labels of the nearest training rows by cosine, closer ones counting more."""

    def __init__(self) -> None:
        self.X: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self.Y: Any = sparse.csr_matrix((0, 0), dtype=np.float32)
        self.prior = np.zeros(0, dtype=np.float32)

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        chosen = self._keep(X, Y_nL, seed)
        if fold_n is None:
            # Where nearly all rows are neighbours of each other, what they say of a row that is left out alone is
            # its own labels turned round; whole folds that are left out do not give their rows away.
            n = len(Y_nL)
            fold_n = np.arange(n) if n >= FEW_ROWS else fold_numbers(n, min(FOLDS, max(2, n // 10)), seed)
        return self._logits(_unit_rows(X), (fold_n, fold_n[chosen]))

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        self._keep(X, Y_nL, seed)

    def _keep(self, X: Features, Y_nL: np.ndarray, seed: int) -> np.ndarray:
        """Remember rows to compare with; return their numbers."""
        known = ~np.isnan(Y_nL)
        self.prior = ((np.nan_to_num(Y_nL).sum(0) + 0.5) / (known.sum(0) + 1.0)).astype(np.float32)
        # An unknown label counts as its prior, so that it neither raises nor lowers a neighbour's say.
        chosen = np.sort(np.random.default_rng(seed).permutation(len(Y_nL))[:REFERENCE_ROWS])
        self.X = _unit_rows(X[chosen])
        self.Y = np.where(known[chosen], Y_nL[chosen], self.prior).astype(np.float32)
        if (self.Y != 0).mean() < 0.2:
            self.Y = sparse.csr_matrix(self.Y)
        return chosen

    def logits(self, X: Features) -> np.ndarray:
        return self._logits(_unit_rows(X), None)

    def _logits(self, X: Any, folds: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        """`folds`: of the rows and of the remembered rows; those of a row's own fold have no say about it."""
        logits = np.empty((X.shape[0], len(self.prior)), dtype=np.float32)
        k = min(NEIGHBOURS, self.X.shape[0] - int(folds is not None))
        for first in range(0, X.shape[0], 512):
            part = X[first : first + 512]
            near = part @ self.X.T
            near = np.asarray(near.todense() if sparse.issparse(near) else near, dtype=np.float32)
            if folds is not None:
                near[folds[0][first : first + 512, None] == folds[1]] = -np.inf
            if k < 1:
                logits[first : first + 512] = _logit(self.prior)
                continue
            closest = np.argpartition(-near, k - 1, axis=1)[:, :k]
            weight = np.maximum(np.take_along_axis(near, closest, axis=1), 0) ** CLOSER_COUNTS_MORE
            weight /= np.maximum(weight.max(axis=1, keepdims=True), 1e-12)
            rows = np.repeat(np.arange(len(weight)), k)
            vote = sparse.csr_matrix((weight.ravel(), (rows, closest.ravel())), shape=near.shape)
            votes = vote @ self.Y
            votes = np.asarray(votes.todense() if sparse.issparse(votes) else votes)
            share = (votes + self.prior) / (weight.sum(axis=1, keepdims=True) + 1.0)
            logits[first : first + 512] = _logit(share)
        return logits

    def arrays(self) -> dict[str, np.ndarray]:
        return {"prior": self.prior, **_matrix_arrays("X", self.X), **_matrix_arrays("Y", self.Y)}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.prior = arrays["prior"]
        self.X, self.Y = _matrix_from("X", arrays), _matrix_from("Y", arrays)


OPINIONS: dict[str, type[Any]] = {"linear": LinearOpinion, "neighbours": NeighbourOpinion, "forest": ForestOpinion}


class Evidence:
    """The opinions named in the settings, on one scale.

    >>> X = np.array([[0.0, 1.0], [1.0, 0.0]] * 10, dtype=np.float32)
    >>> Y = np.array([[0.0], [1.0]] * 10, dtype=np.float32)
    >>> evidence = Evidence(["linear"])
    >>> evidence.fit(X, Y, seed=0).shape
    (20, 1, 1)
    >>> bool(evidence.of(X)[1, 0, 0] > evidence.of(X)[0, 0, 0])
    True
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.opinions: list[Opinion] = [OPINIONS[name]() for name in self.names]
        self.centre = np.zeros((0, len(self.names)), dtype=np.float32)
        self.spread = np.ones(len(self.names), dtype=np.float32)

    def fit(self, X: Features, Y_nL: np.ndarray, seed: int, fold_n: np.ndarray | None = None) -> np.ndarray:
        """Learn every opinion; return what the training rows get, out-of-fold, float32 (n, L, K)."""
        logits = np.stack([opinion.fit(X, Y_nL, seed, fold_n) for opinion in self.opinions], axis=-1)
        self.centre = logits.mean(axis=0)
        self.spread = np.maximum((logits - self.centre).std(axis=(0, 1)), 1e-6)
        return self._scaled(logits)

    def refit(self, X: Features, Y_nL: np.ndarray, seed: int) -> None:
        """Learn again from more rows (training and validation together, once every choice is made);
        the scale stays, so that the network hears the opinions as it was trained to."""
        for opinion in self.opinions:
            opinion.refit(X, Y_nL, seed)

    def of(self, X: Features) -> np.ndarray:
        """What new rows get, float32 (n, L, K)."""
        try:
            return self._scaled(np.stack([opinion.logits(X) for opinion in self.opinions], axis=-1))
        except (ValueError, IndexError) as fault:  # only a folder put together from two models gets here
            raise ModelFolderError(
                f"the opinions of this model do not fit its input of {X.shape[1]} features ({fault}); train it again"
            ) from fault

    def _scaled(self, logits: np.ndarray) -> np.ndarray:
        return ((logits - self.centre) / self.spread).astype(np.float32)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, by name, for the model folder."""
        named = {"centre": self.centre, "spread": self.spread}
        for name, opinion in zip(self.names, self.opinions, strict=True):
            named.update({f"{name}.{key}": value for key, value in opinion.arrays().items()})
        return named

    @classmethod
    def restore(cls, names: Sequence[str], arrays: dict[str, np.ndarray]) -> Evidence:
        """Make again what `arrays` described."""
        evidence = cls(names)
        try:
            evidence.centre, evidence.spread = arrays["centre"], arrays["spread"]
            for name, opinion in zip(evidence.names, evidence.opinions, strict=True):
                own = {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(name + ".")}
                opinion.restore(own)
        except KeyError as missing:
            raise ModelFolderError(f"the evidence of this model lacks the array {missing}; train it again") from None
        return evidence


def _best_linear(
    X: Features, Y_nL: np.ndarray, inside: np.ndarray, outside: np.ndarray, seed: int
) -> tuple[str, float]:
    """The loss and strength that rank held-out labels best, judged on a sample of the labels where there are many."""
    labels = np.random.default_rng(seed).permutation(Y_nL.shape[1])[:CHOICE_LABELS]
    held_in, Y = Matrix(X[inside]), Y_nL[:, labels]
    scores: list[float] = []
    start, before = None, ""
    for loss, strength in LINEAR_CHOICES:  # each starts from the last of its loss: the solutions lie on one path
        start = fit_linear(held_in, Y[inside], strength, start if loss == before else None, newton_steps=8, loss=loss)
        before = loss
        scores.append(_average_precision(X[outside] @ start[0] + start[1], Y[outside]))
    return LINEAR_CHOICES[int(np.argmax(scores))]


def _average_precision(scores: np.ndarray, Y: np.ndarray) -> float:
    """Of all known (row, label) pairs ranked together."""
    known = ~np.isnan(Y)
    order = np.argsort(-scores[known], kind="stable")
    hits = Y[known][order] > 0
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean()) if hits.any() else 0.0


def _bounded(logits: np.ndarray) -> np.ndarray:
    """A label without positives has no finite intercept; how far its fit went must not matter."""
    return np.clip(np.asarray(logits, dtype=np.float32), -LOUDEST, LOUDEST)


def _logit(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(p / (1 - p)), dtype=np.float32)


def stacked(parts: Sequence[Features]) -> Features:
    """Feature matrices one below the other."""
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_matrix(sparse.vstack(parts))
    return np.vstack(parts)


def _unit_rows(X: Features) -> Any:
    if sparse.issparse(X):
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1))).ravel()
        return sparse.csr_matrix(sparse.diags_array(1 / np.maximum(length, 1e-12)) @ X, dtype=np.float32)
    X = np.asarray(X, dtype=np.float32)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def _matrix_arrays(name: str, X: Any) -> dict[str, np.ndarray]:
    if not sparse.issparse(X):
        return {name: X}
    return {
        f"{name}.data": X.data.astype(np.float32),
        f"{name}.indices": X.indices.astype(np.int32),
        f"{name}.indptr": X.indptr.astype(np.int64),
        f"{name}.shape": np.array(X.shape, dtype=np.int64),
    }


def _matrix_from(name: str, arrays: dict[str, np.ndarray]) -> Any:
    if name in arrays:
        return arrays[name]
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sparse.csr_matrix(parts, shape=tuple(int(s) for s in arrays[f"{name}.shape"]))
    matrix.check_format(full_check=True)
    return matrix
