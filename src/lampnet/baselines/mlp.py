"""Emb + MLP, the paper's baseline: the mean of all input nodes' vectors into a four-layer perceptron."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from lampnet.baselines.node_networks import NodeNetwork, mean_of_nodes
from lampnet.encoders.nodes import NodeBatch


class _Network(nn.Module):
    def __init__(self, embedding: nn.Module, width: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.embedding = embedding
        layers: list[nn.Module] = []
        for _ in range(3):
            layers += [nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout)]
        self.hidden = nn.Sequential(*layers)
        self.labels = nn.Linear(width, n_labels)

    def forward(self, batch: NodeBatch) -> Tensor:
        z_BSD, present_BS, _ = self.embedding(batch)
        logits: Tensor = self.labels(self.hidden(mean_of_nodes(z_BSD, present_BS)))
        return logits


@dataclass(eq=False)
class EmbeddingMLP(NodeNetwork):
    """Predicts all labels at once, independently of each other; trained with binary cross-entropy."""

    width: int = 512
    epochs: int = 50
    learning_rate: float = 5e-4
    patience: int = 6

    def _build(self, embedding: nn.Module, n_labels: int) -> tuple[nn.Module, Tensor]:
        network = _Network(embedding, self.width, n_labels, self.dropout)
        return network, network.labels.bias
