"""Many linear classifiers at once: one column of weights per label, solved in lockstep.

Newton's method with conjugate gradients. The labels' vectors lie side by side, so each product with the data
matrix serves all labels; solvers that take one label at a time are several times slower. For each label we minimise

    sum_n weight_n * known_n * loss(w.x_n + b, y_n) + |w|^2 / (2 C)

The intercept is not penalised. With a `centre`, weights and intercept are pulled towards it instead of towards zero:
|w - w_0|^2 + (b - b_0)^2 in place of |w|^2. The loss is the binary cross-entropy ("logistic") or the squared hinge
("squared_hinge", a linear support vector machine). With enough steps the objective is that of scikit-learn's solvers
for C up to 10; with larger C it can stop short of the minimum on separable rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from lampnet.data.label_priors import label_priors
from lampnet.runtime.side_by_side import Pulse, side_by_side
from lampnet.runtime.torch_state import sparse_csr

Loss = Literal["logistic", "squared_hinge"]
LABELS_AT_ONCE = 24  # residuals (n, 24) stay in the processor's cache, and similar labels converge together


@dataclass(frozen=True)
class Stopping:
    """When to stop: after a number of steps, when the gradient is small, or when time is up.

    tolerance  of a label's gradient, as a share of its norm where all weights are zero
    seconds    wall time for all labels together, None for no limit; one Newton step is made however long it takes
    """

    newton_steps: int = 12
    gradient_steps: int = 12
    tolerance: float = 1e-2
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic


class Matrix:
    """X (n, F) and its transpose as torch tensors, sparse or dense: `X @ W_FL` and `X.T @ R_nL`."""

    def __init__(self, X: Any) -> None:
        if sparse.issparse(X) and X.nnz > 0.15 * X.shape[0] * X.shape[1]:
            X = X.toarray()
        self.shape: tuple[int, int] = X.shape
        if sparse.issparse(X):
            self._X: Tensor = _torch_csr(sparse.csr_matrix(X))
            self.T: Tensor = _torch_csr(sparse.csr_matrix(X.T))
        else:
            self._X = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
            self.T = self._X.T

    def __matmul__(self, W_FL: Tensor) -> Tensor:
        return self._X @ W_FL


def _torch_csr(X: sparse.csr_matrix) -> Tensor:
    return sparse_csr(X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data.astype(np.float32), X.shape)


def fit_linear(
    X: Matrix,
    Y_nL: np.ndarray,
    C: float,
    loss: Loss = "logistic",
    start: tuple[np.ndarray, np.ndarray] | None = None,
    stopping: Stopping = Stopping(),  # noqa: B008 (frozen)
    report: Callable[[float], None] = lambda share: None,
    row_n: np.ndarray | None = None,
    centre: tuple[np.ndarray, np.ndarray | None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (F, L) and intercepts (L,) of all labels; NaN in Y leaves that row out for that label.

    `row_n` (n,) says what each row counts: a weight of two is the row twice. `centre`, weights and intercepts, is where
    the penalty pulls to; None for intercepts that are free.
    `report` is called with the share of the labels that are solved; an exception that it raises ends the fit.

    >>> X = Matrix(np.array([[-1.0], [1.0]], dtype=np.float32))
    >>> W, b = fit_linear(X, np.array([[0.0], [1.0]]), C=1.0)
    >>> bool(W[0, 0] > 0.5) and bool(abs(b[0]) < 1e-3)
    True
    """
    positives = np.nan_to_num(Y_nL).sum(axis=0) if row_n is None else row_n @ np.nan_to_num(Y_nL)
    by_frequency = np.argsort(positives, kind="stable")
    groups = np.array_split(by_frequency, -(-len(by_frequency) // LABELS_AT_ONCE))
    began = stopping.clock()

    def solve(number: int, pulse: Pulse) -> tuple[np.ndarray, np.ndarray]:
        some = groups[number]
        begin = None if start is None else (start[0][:, some], start[1][some])
        # The groups share the time: what one does not use, the next ones have.
        limit = None if stopping.seconds is None else began + stopping.seconds * (number + 1) / len(groups)
        towards = None
        if centre is not None:
            towards = (centre[0][:, some], None if centre[1] is None else centre[1][some])
        return _Problem(X, Y_nL[:, some], C, loss, pulse, row_n, towards).solve(begin, stopping, limit)

    W = np.empty((X.shape[1], Y_nL.shape[1]), dtype=np.float32)
    b = np.empty(Y_nL.shape[1], dtype=np.float32)
    for some, solved in zip(groups, side_by_side(solve, range(len(groups)), report), strict=True):
        W[:, some], b[some] = solved
    return W, b


class _Problem:
    """The objectives of some labels, which are minimised together."""

    def __init__(
        self,
        X: Matrix,
        Y_nL: np.ndarray,
        C: float,
        loss: Loss,
        pulse: Callable[[], None],
        row_n: np.ndarray | None = None,
        centre: tuple[np.ndarray, np.ndarray | None] | None = None,
    ) -> None:
        #: weights and intercepts
        self.centre = tuple(None if c is None else torch.from_numpy(np.ascontiguousarray(c)) for c in centre or ())
        self.X, self.C, self.loss, self.pulse = X, C, loss, pulse
        known = ~np.isnan(Y_nL)
        #: what each entry counts, (n, L) or (n, 1); None where all count 1
        self.counts = None if known.all() else torch.from_numpy(known.astype(np.float32))
        if row_n is not None:
            rows = torch.from_numpy(row_n.astype(np.float32))[:, None]
            self.counts = rows if self.counts is None else self.counts * rows
        self.Y = torch.from_numpy(np.nan_to_num(Y_nL).astype(np.float32))
        self.priors = torch.from_numpy(label_priors(Y_nL, row_n=row_n))

    def solve(
        self, start: tuple[np.ndarray, np.ndarray] | None, stopping: Stopping, limit: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        X, L = self.X, self.Y.shape[1]
        prior_logits = torch.logit(self.priors)
        if start is None:
            W, b = torch.zeros(X.shape[1], L), prior_logits
        else:
            W, b = (torch.from_numpy(np.ascontiguousarray(part)).clone() for part in start)
        goal: Tensor | None = None
        if start is not None:
            at_zero, _ = self.derivatives(prior_logits.expand(X.shape[0], L).clone())
            goal = stopping.tolerance * _norm(X.T @ at_zero, at_zero.sum(0))
        logits = X @ W
        logits += b
        best = self.objective(logits, W, b)
        for step in range(stopping.newton_steps):
            if limit is not None and step and stopping.clock() >= limit:
                break
            slope, curvature = self.derivatives(logits)
            pull_W, pull_b = self.pulled(W, b)
            grad_W, grad_b = (X.T @ slope).add_(pull_W, alpha=1 / self.C), slope.sum(0).add_(pull_b, alpha=1 / self.C)
            norm = _norm(grad_W, grad_b)
            goal = stopping.tolerance * norm.clamp(min=1e-6) if goal is None else goal.clamp(min=1e-8)
            if bool((norm <= goal).all()):
                break
            step_W, step_b = self.newton_step(curvature, grad_W, grad_b, stopping.gradient_steps)
            step_logits = X @ step_W
            step_logits += step_b
            # A label whose objective a full step would raise takes a shorter one.
            length = torch.ones(L)
            for _ in range(8):
                new_W, new_logits = W - length * step_W, logits - length * step_logits
                value = self.objective(new_logits, new_W, b - length * step_b)
                worse = value > best + 1e-5 * best.abs()
                if not bool(worse.any()):
                    break
                length = torch.where(worse, length * 0.5, length)
            else:
                length = torch.where(worse, torch.zeros_like(length), length)
                value = torch.where(worse, best, value)
                new_W, new_logits = W - length * step_W, logits - length * step_logits
            W, b, logits, best = new_W, b - length * step_b, new_logits, value
        return W.numpy(), b.numpy()

    def pulled(self, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """How far weights and intercepts are from where the penalty pulls to."""
        weights, intercepts = self.centre or (None, None)
        return (
            W if weights is None else W - weights,
            torch.zeros_like(b) if intercepts is None else b - intercepts,
        )

    def objective(self, logits: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """What is minimised, (L,)."""
        self.pulse()
        if self.loss == "logistic":
            rows = torch.nn.functional.softplus(logits).addcmul_(self.Y, logits, value=-1)
        else:
            rows = (1 - (2 * self.Y - 1) * logits).clamp_(min=0).square_()
        if self.counts is not None:
            rows *= self.counts
        pull_W, pull_b = self.pulled(W, b)
        return rows.sum(0) + (_squares(pull_W) + pull_b**2) / (2 * self.C)

    def derivatives(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivatives of each row's loss by its logit, (n, L) each."""
        if self.loss == "logistic":
            P = torch.sigmoid(logits)
            slope, curvature = P - self.Y, P.addcmul(P, P, value=-1)
        else:
            sign = 2 * self.Y - 1
            margin = (1 - sign * logits).clamp_(min=0)
            slope, curvature = sign.mul_(margin).mul_(-2), (margin > 0).float().mul_(2)
        if self.counts is not None:
            slope *= self.counts
            curvature *= self.counts
        return slope, curvature

    def newton_step(self, curvature: Tensor, grad_W: Tensor, grad_b: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Solve H s = grad by conjugate gradients; H = [X 1]^T diag(curvature) [X 1] + diag(1 / C, 0)."""
        s_W, s_b = torch.zeros_like(grad_W), torch.zeros_like(grad_b)
        r_W, r_b = grad_W.clone(), grad_b.clone()
        p_W, p_b = r_W.clone(), r_b.clone()
        rho = _squares(r_W) + r_b**2
        goal = rho * 0.01
        least = 1e-6 if self.centre is None else 1 / self.C
        for _ in range(steps):
            self.pulse()
            curved = self.X @ p_W
            curved += p_b
            curved *= curvature
            h_W, h_b = (self.X.T @ curved).add_(p_W, alpha=1 / self.C), curved.sum(0) + least * p_b
            alpha = rho / ((p_W * h_W).sum(0) + p_b * h_b).clamp(min=1e-12)
            s_W.addcmul_(alpha, p_W)
            s_b.addcmul_(alpha, p_b)
            r_W.addcmul_(alpha, h_W, value=-1)
            r_b.addcmul_(alpha, h_b, value=-1)
            new = _squares(r_W) + r_b**2
            if bool((new <= goal).all()):
                break
            beta = new / rho.clamp(min=1e-20)
            p_W.mul_(beta).add_(r_W)
            p_b.mul_(beta).add_(r_b)
            rho = new
        return s_W, s_b


def _squares(W_FL: Tensor) -> Tensor:
    """The sum of each label's squared weights, (L,)."""
    return (W_FL * W_FL).sum(0)


def _norm(grad_W: Tensor, grad_b: Tensor) -> Tensor:
    return torch.sqrt(_squares(grad_W) + grad_b**2)
