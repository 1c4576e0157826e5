"""Emb + MLP, the paper's baseline: the mean of all input nodes' vectors into a four-layer perceptron."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.baselines.node_networks import MakeEmbedding, PlainEmbedding, mean_of_nodes, train
from lampnet.baselines.rows import check_labels, held_out_tenth
from lampnet.baselines.tuning import mean_f1
from lampnet.data.label_priors import label_priors
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.inference.logits import sorted_batches
from lampnet.training.loss import lamp_loss


class _Network(nn.Module):
    def __init__(self, embedding: nn.Module, width: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += [nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(width, n_labels))

    def forward(self, batch: NodeBatch) -> Tensor:
        z_BSD, present_BS, _ = self.embedding(batch)
        logits: Tensor = self.layers(mean_of_nodes(z_BSD, present_BS))
        return logits


@dataclass(eq=False)
class EmbeddingMLP:
    """Predicts all labels at once, independently of each other; trained with binary cross-entropy.

    `embedding` makes the nodes' vectors (an encoder's `embedding`); without it, every node id of the training
    rows gets one vector.
    """

    tuned_: ClassVar[dict[str, Any]] = {}
    embedding: MakeEmbedding | None = None
    width: int = 512
    dropout: float = 0.2
    epochs: int = 50
    batch_size: int = 32
    learning_rate: float = 5e-4
    patience: int = 6
    time_budget: float = 0.0
    seed: int = 0

    def fit(
        self, X: NodeRows, Y: np.ndarray, X_valid: NodeRows | None = None, Y_valid: np.ndarray | None = None
    ) -> EmbeddingMLP:
        Y = check_labels(X, Y)
        self.n_labels_ = Y.shape[1]
        if X_valid is None or Y_valid is None:
            learn, tune = held_out_tenth(len(Y), self.seed)
            X, X_valid, Y, Y_valid = X.take(learn), X.take(tune), Y[learn], Y[tune]
        valid_rows, valid_Y = X_valid, check_labels(X_valid, Y_valid)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            make: Any = self.embedding or (lambda width: PlainEmbedding(X, width))
            self.network_ = _Network(make(self.width), self.width, Y.shape[1], self.dropout)
            # The last layer starts at the label priors, so that no epoch is spent on finding them.
            last: Any = self.network_.layers[-1]
            with torch.no_grad():
                last.bias.copy_(torch.logit(torch.from_numpy(label_priors(Y, np.float64))))
            targets = torch.from_numpy(Y.astype(np.float32))

            def loss_of(index: np.ndarray) -> Tensor:
                return lamp_loss([self.network_(X.batch(index))], targets[torch.from_numpy(index)])

            def validate() -> float:
                if not np.isfinite(valid_Y).any():
                    return 0.0
                return mean_f1(valid_Y, self.predict_proba(valid_rows))

            self.history_ = train(self.network_, loss_of, validate, X.lengths(), self)
        return self

    def predict_proba(self, X: NodeRows) -> np.ndarray:
        self.network_.eval()
        proba = np.zeros((len(X), self.n_labels_))
        with torch.inference_mode():
            for index in sorted_batches(X.lengths(), 256):
                proba[index] = torch.sigmoid(self.network_(X.batch(index))).numpy()
        return proba
