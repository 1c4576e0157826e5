"""Methods without messages that take known labels: linear models and a perceptron with label states as features.

Every label has two more features: known to be true, known to be false. Both methods start from the stack's
out-of-fold logits, which hold what linear models, neighbours and forests make of the input, and are trained with the
masks by which lampnet's own networks are trained; the loss counts unknown labels only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from lampnet.baselines.scaling import Scaling
from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN, States
from lampnet.runtime.torch_state import seeded
from lampnet.training.known_masks import draw_known

BATCH_ROWS = 64
#: steps of training, about, and passes over the rows
STEPS, EPOCHS = 1_500, (15, 100)


class _WithStates(ABC):
    """What both methods share: batches, masks and the loss."""

    learning_rate: float

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    @abstractmethod
    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        """A network of (logits_BL, states_BK, features_BF) -> logits (B, L) that starts at the given logits."""

    def fit(self, X: Any, logits_nL: np.ndarray, Y_nL: np.ndarray) -> Self:
        """X features, dense or sparse; logits_nL of the stack, out-of-fold; Y_nL NaN where unknown."""
        random = np.random.default_rng(self.seed)
        self.scaling_ = Scaling(X)
        X = self.scaling_(X)
        n, L = Y_nL.shape
        with seeded(self.seed):
            self.network_ = self._build(X.shape[1], L)
            optimizer = torch.optim.Adam(self.network_.parameters(), lr=self.learning_rate)
            batches = math.ceil(n / BATCH_ROWS)
            epochs = min(max(round(STEPS / batches), EPOCHS[0]), EPOCHS[1])
            step, steps = 0, batches * epochs
            for _ in range(epochs):
                for batch in np.array_split(random.permutation(n), batches):
                    optimizer.param_groups[0]["lr"] = self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
                    Y_BL, logits_BL = Y_nL[batch], logits_nL[batch]
                    states_BL = draw_known(Y_BL, logits_BL, random)
                    counts = torch.from_numpy((states_BL == UNKNOWN) & ~np.isnan(Y_BL))
                    said = self.network_(*self._given(X[batch], logits_BL, states_BL))
                    truth = torch.from_numpy(np.nan_to_num(Y_BL).astype(np.float32))
                    loss = L * binary_cross_entropy_with_logits(said[counts], truth[counts])
                    optimizer.zero_grad()
                    torch.autograd.backward(loss)
                    optimizer.step()
                    step += 1
        self.network_.eval()
        return self

    def logits(self, X: Any, logits_nL: np.ndarray, states_nL: States) -> np.ndarray:
        """(n, L) given what is known."""
        with torch.inference_mode():
            said: Tensor = self.network_(*self._given(self.scaling_(X), logits_nL, states_nL))
        return said.numpy()

    @staticmethod
    def _given(X: Any, logits_BL: np.ndarray, states_BL: States) -> tuple[Tensor, Tensor, Tensor]:
        states = np.concatenate([states_BL == TRUE, states_BL == FALSE], axis=1).astype(np.float32)
        features = (X.toarray() if sparse.issparse(X) else np.asarray(X)).astype(np.float32)
        return (
            torch.from_numpy(np.ascontiguousarray(logits_BL, dtype=np.float32)),
            torch.from_numpy(states),
            torch.from_numpy(features),
        )


class LinearStates(_WithStates):
    """One linear model per label: its own logit, and a weight for each state of each label.

    >>> random = np.random.default_rng(0)
    >>> first = random.random((300, 1)) < 0.5
    >>> Y = np.hstack([first, first]).astype(np.float32)
    >>> model = LinearStates().fit(np.zeros((300, 1)), np.zeros((300, 2), np.float32), Y)
    >>> said = model.logits(np.zeros((2, 1)), np.zeros((2, 2), np.float32), np.array([[1, 0], [-1, 0]]))
    >>> bool(said[0, 1] > 1 > -1 > said[1, 1])
    True
    """

    learning_rate = 0.03

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        return _Linear(n_labels)


class _Linear(nn.Module):
    def __init__(self, n_labels: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(2 * n_labels, n_labels))
        self.slope, self.bias = nn.Parameter(torch.ones(n_labels)), nn.Parameter(torch.zeros(n_labels))

    def forward(self, logits_BL: Tensor, states_BK: Tensor, features_BF: Tensor) -> Tensor:
        return self.slope * logits_BL + self.bias + states_BK @ self.W


class PerceptronStates(_WithStates):
    """Three layers that see features, the stack's probabilities and all states, and correct the stack's logits."""

    learning_rate = 3e-3
    width, dropout = 256, 0.3

    def _build(self, n_features: int, n_labels: int) -> nn.Module:
        return _Perceptron(n_features, n_labels, self.width, self.dropout)


class _Perceptron(nn.Module):
    def __init__(self, n_features: int, n_labels: int, width: int, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Sequential(
            nn.Linear(n_features + 3 * n_labels, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Dropout(dropout),
        )
        self.labels = nn.Linear(width, n_labels)
        nn.init.zeros_(self.labels.weight)
        nn.init.zeros_(self.labels.bias)

    def forward(self, logits_BL: Tensor, states_BK: Tensor, features_BF: Tensor) -> Tensor:
        given = torch.cat([features_BF, logits_BL.sigmoid(), states_BK], dim=1)
        correction: Tensor = self.labels(self.hidden(given))
        return logits_BL + correction
