"""Shared by the neural baselines: vectors for nodes, a plain training loop, and networks that give probabilities."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.baselines.rows import check_labels, held_out_tenth
from lampnet.baselines.tuning import mean_f1
from lampnet.data.label_priors import label_priors
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.errors import TrainingDiverged
from lampnet.inference.logits import sorted_batches
from lampnet.training.loss import lamp_loss

#: width -> a module from NodeBatch to (z_BSD, present_BS, edge types or None), as `Encoder.embedding`
MakeEmbedding = Callable[[int], nn.Module]


class PlainEmbedding(nn.Module):
    """One vector per node id, times the node's value; a linear layer for nodes that are vectors."""

    def __init__(self, rows: NodeRows, width: int) -> None:
        super().__init__()
        self.n_ids = 0 if rows.ids is None else int(rows.ids.max(initial=-1)) + 1
        self.vectors = None if rows.ids is None else nn.Embedding(max(1, self.n_ids), width)
        self.linear = None if rows.vectors is None else nn.Linear(rows.vectors.shape[1], width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        present_BS = batch.present_BS
        z: Tensor | None = None
        if self.vectors is not None and batch.ids_BS is not None:
            present_BS = present_BS & (batch.ids_BS < self.n_ids)  # ids that are new have no vector
            z = self.vectors(batch.ids_BS.clamp(max=max(0, self.n_ids - 1)))
            if batch.values_BS is not None:
                z = z * batch.values_BS.unsqueeze(-1)
        if self.linear is not None and batch.vectors_BSF is not None:
            numbers = self.linear(batch.vectors_BSF.float())
            z = numbers if z is None else z + numbers
        if z is None:
            raise TypeError("nodes have neither ids nor vectors")
        return z, present_BS, batch.edge_types_BSS


def mean_of_nodes(z_BSD: Tensor, present_BS: Tensor) -> Tensor:
    """(B, D): the mean over the nodes that are there, zero for a row without any."""
    weight_BS1 = present_BS.unsqueeze(-1).to(z_BSD.dtype)
    # where, not a product: an absent place may hold anything.
    kept = torch.where(present_BS.unsqueeze(-1), z_BSD, torch.zeros_like(z_BSD))
    return kept.sum(dim=1) / weight_BS1.sum(dim=1).clamp(min=1.0)


def shuffled_batches(lengths: np.ndarray, size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Row indices in batches of similar length, in random order."""
    order = rng.permutation(len(lengths))
    # Shuffled first, then sorted inside pools of many batches: little padding, and never the same batch twice.
    pool = size * 50
    parts = [order[i : i + pool] for i in range(0, len(order), pool)]
    parts = [part[np.argsort(lengths[part], kind="stable")] for part in parts]
    batches = [part[i : i + size] for part in parts for i in range(0, len(part), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


class Training(Protocol):
    """The settings of the training loop, which neural baselines have as attributes."""

    epochs: int
    batch_size: int
    learning_rate: float
    patience: int
    time_budget: float
    seed: int


def train(
    network: nn.Module,
    loss_of: Callable[[np.ndarray], Tensor],
    validate: Callable[[], float],
    lengths: np.ndarray,
    settings: Training,
) -> list[dict[str, float]]:
    """Adam until `validate` (higher is better) no longer rises; the best epoch's weights are kept."""
    rng = np.random.default_rng(settings.seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    best_score, best_state, since = -np.inf, _copy(network), 0
    history: list[dict[str, float]] = []
    began = time.monotonic()
    for epoch in range(settings.epochs):
        network.train()
        total, count = 0.0, 0
        for index in shuffled_batches(lengths, settings.batch_size, rng):
            loss = loss_of(index)
            if not torch.isfinite(loss):
                raise TrainingDiverged(f"the loss became {loss.item()} in epoch {epoch + 1}; lower the learning rate")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimizer.step()
            total, count = total + float(loss.detach()) * len(index), count + len(index)
        network.eval()
        with torch.inference_mode():
            score = validate()
        history.append({"epoch": epoch + 1, "loss": total / max(1, count), "validation": score})
        if score > best_score:
            best_score, best_state, since = score, _copy(network), 0
        else:
            since += 1
        out_of_time = settings.time_budget and time.monotonic() - began > settings.time_budget
        if since >= settings.patience or out_of_time:
            break
    network.load_state_dict(best_state)
    network.eval()
    return history


def _copy(network: nn.Module) -> dict[str, Any]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


@dataclass(eq=False)
class NodeNetwork(ABC):
    """A network from nodes to label probabilities; the epoch with the best validation F1 is kept.

    `embedding` makes the nodes' vectors (an encoder's `embedding`); without it, every node id of the training rows gets
    one vector.
    """

    tuned_: ClassVar[dict[str, Any]] = {}
    embedding: MakeEmbedding | None = None
    width: int = 256
    dropout: float = 0.2
    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    patience: int = 8
    time_budget: float = 0.0
    seed: int = 0

    @abstractmethod
    def _build(self, embedding: nn.Module, n_labels: int) -> tuple[nn.Module, Tensor]:
        """A module from NodeBatch to (B, L), and the parameter that is added to its logits as biases (L,)."""

    def _loss(self, output_BL: Tensor, truth_BL: Tensor) -> Tensor:
        return lamp_loss([output_BL], truth_BL)

    def _found(self, output_BL: Tensor) -> Tensor:
        """Probabilities (B, L) of the module's output."""
        return torch.sigmoid(output_BL)

    def fit(
        self, X: NodeRows, Y: np.ndarray, X_valid: NodeRows | None = None, Y_valid: np.ndarray | None = None
    ) -> Self:
        Y = check_labels(X, Y)
        self.n_labels_ = Y.shape[1]
        if X_valid is None or Y_valid is None:
            learn, tune = held_out_tenth(len(Y), self.seed)
            X, X_valid, Y, Y_valid = X.take(learn), X.take(tune), Y[learn], Y[tune]
        valid_rows, valid_Y = X_valid, check_labels(X_valid, Y_valid)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            make: Any = self.embedding or (lambda width: PlainEmbedding(X, width))
            self.network_, biases = self._build(make(self.width), self.n_labels_)
            with torch.no_grad():  # no epoch is spent on finding the label priors
                biases.copy_(torch.logit(torch.from_numpy(label_priors(Y, np.float64))))
            targets = torch.from_numpy(Y.astype(np.float32))

            def loss_of(index: np.ndarray) -> Tensor:
                return self._loss(self.network_(X.batch(index)), targets[torch.from_numpy(index)])

            def validate() -> float:
                return mean_f1(valid_Y, self.predict_proba(valid_rows)) if np.isfinite(valid_Y).any() else 0.0

            self.history_ = train(self.network_, loss_of, validate, X.lengths(), self)
        return self

    def predict_proba(self, X: NodeRows) -> np.ndarray:
        self.network_.eval()
        proba = np.zeros((len(X), self.n_labels_))
        with torch.inference_mode():
            for index in sorted_batches(X.lengths(), 256):
                proba[index] = self._found(self.network_(X.batch(index))).numpy()
        return proba
