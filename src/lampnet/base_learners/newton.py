"""Many linear classifiers at once: one column of weights a label, solved in lockstep.

Newton's method with conjugate gradients, every label's vectors side by side, so that each product
with the data matrix serves all labels. Minimises, for each label,
sum_n known_n * loss(w.x_n + b, y_n) + |w|^2 / (2 C); the intercept is not penalised. The loss is the
binary cross-entropy ("logistic") or the squared hinge ("hinge", a linear support vector machine).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor


class Matrix:
    """X (n, F) and its transpose for products with many columns, sparse or dense."""

    def __init__(self, X: Any) -> None:
        if sparse.issparse(X) and X.nnz > 0.15 * X.shape[0] * X.shape[1]:
            X = X.toarray()
        self.shape: tuple[int, int] = X.shape
        if sparse.issparse(X):
            self._forward: Any = _torch_csr(sparse.csr_matrix(X))
            self._back: Any = _torch_csr(sparse.csr_matrix(X.T))
        else:
            self._forward = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32))
            self._back = self._forward.T

    def times(self, W_FL: Tensor) -> Tensor:
        """X W, (n, L)."""
        product: Tensor = self._forward @ W_FL
        return product

    def back(self, R_nL: Tensor) -> Tensor:
        """X^T R, (F, L)."""
        product: Tensor = self._back @ R_nL
        return product


def _torch_csr(X: sparse.csr_matrix) -> Tensor:
    import warnings

    with warnings.catch_warnings():  # torch announces once that CSR support is in beta
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(X.indptr.astype(np.int64)),
            torch.from_numpy(X.indices.astype(np.int64)),
            torch.from_numpy(X.data.astype(np.float32)),
            size=X.shape,
        )


LABELS_AT_ONCE = 64  # (n, 64) residuals stay in the processor's cache, and like labels converge together


def fit_linear(
    X: Matrix,
    Y_nL: np.ndarray,
    strength: float,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    newton_steps: int = 12,
    loss: str = "logistic",
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (F, L) and intercepts (L,) for all labels; NaN in Y leaves that row out for that label.

    >>> X = Matrix(np.array([[-1.0], [1.0]], dtype=np.float32))
    >>> W, b = fit_linear(X, np.array([[0.0], [1.0]]), strength=1.0)
    >>> bool(W[0, 0] > 0.5) and bool(abs(b[0]) < 1e-3)
    True
    """
    W = np.empty((X.shape[1], Y_nL.shape[1]), dtype=np.float32)
    b = np.empty(Y_nL.shape[1], dtype=np.float32)
    by_frequency = np.argsort(np.nan_to_num(Y_nL).sum(axis=0), kind="stable")
    for first in range(0, len(by_frequency), LABELS_AT_ONCE):
        some = by_frequency[first : first + LABELS_AT_ONCE]
        begin = None if start is None else (start[0][:, some], start[1][some])
        W[:, some], b[some] = _fit_together(X, Y_nL[:, some], strength, begin, newton_steps, loss)
    return W, b


def _fit_together(
    X: Matrix,
    Y_nL: np.ndarray,
    strength: float,
    start: tuple[np.ndarray, np.ndarray] | None,
    newton_steps: int,
    kind: str,
    tolerance: float = 1e-2,
) -> tuple[np.ndarray, np.ndarray]:
    known = torch.from_numpy((~np.isnan(Y_nL)).astype(np.float32))
    Y = torch.from_numpy(np.nan_to_num(Y_nL).astype(np.float32))
    L = Y.shape[1]
    if start is None:
        positives, total = (Y * known).sum(0), known.sum(0)
        W, b = torch.zeros(X.shape[1], L), torch.logit((positives + 0.5) / (total + 1.0))
    else:
        W, b = (torch.from_numpy(np.ascontiguousarray(part)).clone() for part in start)
    reference: Tensor | None = None
    best_loss = _loss(X, W, b, Y, known, strength, kind)
    for _ in range(newton_steps):
        R, curvature = _slopes(X.times(W) + b, Y, known, kind)
        grad_W, grad_b = X.back(R) + W / strength, R.sum(0)
        size = torch.sqrt((grad_W**2).sum(0) + grad_b**2)
        reference = size.clamp(min=1e-6) if reference is None else reference
        if bool((size <= tolerance * reference).all()):
            break
        step_W, step_b = _conjugate_gradients(X, curvature, grad_W, grad_b, strength)
        # A label whose loss a full step would raise takes a shorter one.
        length = torch.ones(L)
        for _ in range(8):
            loss = _loss(X, W - length * step_W, b - length * step_b, Y, known, strength, kind)
            worse = loss > best_loss + 1e-5 * best_loss.abs()
            if not bool(worse.any()):
                break
            length = torch.where(worse, length * 0.5, length)
        else:
            length = torch.where(worse, torch.zeros_like(length), length)
            loss = torch.where(worse, best_loss, loss)
        W, b, best_loss = W - length * step_W, b - length * step_b, loss
    return W.numpy(), b.numpy()


def _slopes(logits: Tensor, Y: Tensor, known: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """First and second derivatives of each row's loss by its logit."""
    if kind == "logistic":
        P = torch.sigmoid(logits)
        return (P - Y) * known, P * (1 - P) * known
    sign = 2 * Y - 1
    short = (1 - sign * logits).clamp(min=0)
    return -2 * sign * short * known, 2 * (short > 0) * known


def _loss(X: Matrix, W: Tensor, b: Tensor, Y: Tensor, known: Tensor, strength: float, kind: str) -> Tensor:
    logits = X.times(W) + b
    if kind == "logistic":
        rows = torch.nn.functional.softplus(logits) - Y * logits
    else:
        rows = (1 - (2 * Y - 1) * logits).clamp(min=0).square()
    return (rows * known).sum(0) + (W**2).sum(0) / (2 * strength)


def _conjugate_gradients(
    X: Matrix, curvature: Tensor, grad_W: Tensor, grad_b: Tensor, strength: float, steps: int = 12
) -> tuple[Tensor, Tensor]:
    """Solve H s = grad for every label; H = [X 1]^T diag(curvature) [X 1] + diag(1 / C, 0)."""
    s_W, s_b = torch.zeros_like(grad_W), torch.zeros_like(grad_b)
    r_W, r_b = grad_W.clone(), grad_b.clone()
    p_W, p_b = r_W.clone(), r_b.clone()
    rho = (r_W**2).sum(0) + r_b**2
    goal = rho * 0.01
    for _ in range(steps):
        bent = curvature * (X.times(p_W) + p_b)
        h_W, h_b = X.back(bent) + p_W / strength, bent.sum(0) + 1e-6 * p_b
        alpha = rho / ((p_W * h_W).sum(0) + p_b * h_b).clamp(min=1e-12)
        s_W, s_b = s_W + alpha * p_W, s_b + alpha * p_b
        r_W, r_b = r_W - alpha * h_W, r_b - alpha * h_b
        new = (r_W**2).sum(0) + r_b**2
        if bool((new <= goal).all()):
            break
        beta = new / rho.clamp(min=1e-20)
        p_W, p_b, rho = r_W + beta * p_W, r_b + beta * p_b, new
    return s_W, s_b
