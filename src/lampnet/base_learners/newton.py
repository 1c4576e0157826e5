"""Many linear classifiers at once: one column of weights per label, solved in lockstep.

Newton's method with conjugate gradients. The labels' vectors lie side by side, so each product with the data
matrix serves all labels; solvers that take one label at a time are several times slower. For each label we minimise

    sum_n known_n * loss(w.x_n + b, y_n) + |w|^2 / (2 C)

The intercept is not penalised. The loss is the binary cross-entropy ("logistic") or the squared hinge
("squared_hinge", a linear support vector machine). With enough steps the objective is that of scikit-learn's solvers
for C up to 10; with larger C it can stop short of the minimum on separable rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from lampnet.data.label_priors import label_priors
from lampnet.runtime.torch_state import sparse_csr

Loss = Literal["logistic", "squared_hinge"]
LABELS_AT_ONCE = 64  # (n, 64) residuals stay in the processor's cache, and similar labels converge together


@dataclass(frozen=True)
class Stopping:
    """When to stop: after so many steps, or when no label's gradient exceeds `tolerance` times its first norm."""

    newton_steps: int = 12
    gradient_steps: int = 12
    tolerance: float = 1e-2


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
    tick: Callable[[float], None] = lambda share: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (F, L) and intercepts (L,) of all labels; NaN in Y leaves that row out for that label.

    `tick` is called with every product, with the share of the labels that are solved.

    >>> X = Matrix(np.array([[-1.0], [1.0]], dtype=np.float32))
    >>> W, b = fit_linear(X, np.array([[0.0], [1.0]]), C=1.0)
    >>> bool(W[0, 0] > 0.5) and bool(abs(b[0]) < 1e-3)
    True
    """
    W = np.empty((X.shape[1], Y_nL.shape[1]), dtype=np.float32)
    b = np.empty(Y_nL.shape[1], dtype=np.float32)
    by_frequency = np.argsort(np.nan_to_num(Y_nL).sum(axis=0), kind="stable")
    for first in range(0, len(by_frequency), LABELS_AT_ONCE):
        some = by_frequency[first : first + LABELS_AT_ONCE]
        begin = None if start is None else (start[0][:, some], start[1][some])
        problem = _Problem(X, Y_nL[:, some], C, loss, partial(tick, first / len(by_frequency)))
        W[:, some], b[some] = problem.solve(begin, stopping)
    return W, b


class _Problem:
    """The objectives of some labels, which are minimised together."""

    def __init__(self, X: Matrix, Y_nL: np.ndarray, C: float, loss: Loss, tick: Callable[[], None]) -> None:
        self.X, self.C, self.loss, self.tick = X, C, loss, tick
        self.known = torch.from_numpy((~np.isnan(Y_nL)).astype(np.float32))
        self.Y = torch.from_numpy(np.nan_to_num(Y_nL).astype(np.float32))
        self.priors = torch.from_numpy(label_priors(Y_nL))

    def solve(self, start: tuple[np.ndarray, np.ndarray] | None, stopping: Stopping) -> tuple[np.ndarray, np.ndarray]:
        X, L = self.X, self.Y.shape[1]
        if start is None:
            W, b = torch.zeros(X.shape[1], L), torch.logit(self.priors)
        else:
            W, b = (torch.from_numpy(np.ascontiguousarray(part)).clone() for part in start)
        first_norm: Tensor | None = None
        best = self.objective(W, b)
        for _ in range(stopping.newton_steps):
            slope, curvature = self.derivatives(X @ W + b)
            grad_W, grad_b = X.T @ slope + W / self.C, slope.sum(0)
            norm = torch.sqrt((grad_W**2).sum(0) + grad_b**2)
            first_norm = norm.clamp(min=1e-6) if first_norm is None else first_norm
            if bool((norm <= stopping.tolerance * first_norm).all()):
                break
            step_W, step_b = self.newton_step(curvature, grad_W, grad_b, stopping.gradient_steps)
            # A label whose objective a full step would raise takes a shorter one.
            length = torch.ones(L)
            for _ in range(8):
                value = self.objective(W - length * step_W, b - length * step_b)
                worse = value > best + 1e-5 * best.abs()
                if not bool(worse.any()):
                    break
                length = torch.where(worse, length * 0.5, length)
            else:
                length = torch.where(worse, torch.zeros_like(length), length)
                value = torch.where(worse, best, value)
            W, b, best = W - length * step_W, b - length * step_b, value
        return W.numpy(), b.numpy()

    def objective(self, W: Tensor, b: Tensor) -> Tensor:
        """What is minimised, (L,)."""
        self.tick()
        logits = self.X @ W + b
        if self.loss == "logistic":
            rows = torch.nn.functional.softplus(logits) - self.Y * logits
        else:
            rows = (1 - (2 * self.Y - 1) * logits).clamp(min=0).square()
        return (rows * self.known).sum(0) + (W**2).sum(0) / (2 * self.C)

    def derivatives(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """First and second derivatives of each row's loss by its logit, (n, L) each."""
        if self.loss == "logistic":
            P = torch.sigmoid(logits)
            return (P - self.Y) * self.known, P * (1 - P) * self.known
        sign = 2 * self.Y - 1
        margin = (1 - sign * logits).clamp(min=0)
        return -2 * sign * margin * self.known, 2 * (margin > 0) * self.known

    def newton_step(self, curvature: Tensor, grad_W: Tensor, grad_b: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Solve H s = grad by conjugate gradients; H = [X 1]^T diag(curvature) [X 1] + diag(1 / C, 0)."""
        s_W, s_b = torch.zeros_like(grad_W), torch.zeros_like(grad_b)
        r_W, r_b = grad_W.clone(), grad_b.clone()
        p_W, p_b = r_W.clone(), r_b.clone()
        rho = (r_W**2).sum(0) + r_b**2
        goal = rho * 0.01
        for _ in range(steps):
            self.tick()
            curved = curvature * (self.X @ p_W + p_b)
            h_W, h_b = self.X.T @ curved + p_W / self.C, curved.sum(0) + 1e-6 * p_b
            alpha = rho / ((p_W * h_W).sum(0) + p_b * h_b).clamp(min=1e-12)
            s_W, s_b = s_W + alpha * p_W, s_b + alpha * p_b
            r_W, r_b = r_W - alpha * h_W, r_b - alpha * h_b
            new = (r_W**2).sum(0) + r_b**2
            if bool((new <= goal).all()):
                break
            beta = new / rho.clamp(min=1e-20)
            p_W, p_b, rho = r_W + beta * p_W, r_b + beta * p_b, new
        return s_W, s_b
