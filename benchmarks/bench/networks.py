"""What the bench compares: lampnet's network, and the same one as a torch user would assemble it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.encoders.nodes import NodeBatch
from lampnet.encoders.wordset import WordVectors
from lampnet.model.build import build_network
from lampnet.model.label_graph import LabelGraph
from lampnet.model.stacked import StackedLaMP
from lampnet.training.loss import lamp_loss


@dataclass(frozen=True)
class Shape:
    """The sizes of a data set: L labels, S nodes per row, words that have a vector, true labels per row (means)."""

    name: str
    labels: int
    nodes: int
    words: int
    true_labels: float


SHAPES = (
    Shape("bibtex", 159, 70, 1836, 2.4),
    Shape("reuters", 90, 130, 20_000, 1.2),
    Shape("delicious", 983, 19, 500, 19.0),
    Shape("imdb", 28, 20, 1001, 2.0),
    Shape("yeast", 179, 100, 4096, 8.0),
)


class LabelsFromInput(nn.TransformerDecoderLayer):
    """A decoder layer of torch without its self-attention: labels attend to the input, then an update."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__(width, heads, width, dropout, batch_first=True, norm_first=True)
        del self.self_attn, self.norm1, self.dropout1

    def forward(self, tgt: Tensor, memory: Tensor, absent: Tensor | None = None) -> Tensor:  # type: ignore[override]
        tgt = tgt + self._mha_block(self.norm2(tgt), memory, None, absent)
        return tgt + self._ff_block(self.norm3(tgt))


class PlainTransformer(nn.Module):
    """The same network from torch's own decoder and encoder layers, as a user would write it."""

    def __init__(self, config: ModelConfig, labels: int, words: int, dropout: float) -> None:
        super().__init__()
        d = config.width
        self.words = nn.Embedding(words, d)
        self.W_y, self.bias = nn.Parameter(torch.randn(labels, d)), nn.Parameter(torch.zeros(labels))
        self.xy = nn.ModuleList(LabelsFromInput(d, config.heads, dropout) for _ in range(config.steps))
        self.yy = nn.ModuleList(
            nn.TransformerEncoderLayer(d, config.heads, d, dropout, batch_first=True, norm_first=True)
            for _ in range(config.steps)
        )

    def forward(self, batch: NodeBatch) -> list[Tensor]:
        z, u = self.words(batch.ids_BS), self.W_y.expand(len(batch), -1, -1)
        absent, stages = ~batch.present_BS, []
        for xy, yy in zip(self.xy, self.yy, strict=True):
            u = xy(u, z, absent)
            stages.append(self._readout(u))
            u = yy(u)
            stages.append(self._readout(u))
        return stages

    def _readout(self, u: Tensor) -> Tensor:
        logits: Tensor = (u * self.W_y).sum(-1) / math.sqrt(u.shape[-1]) + self.bias
        return logits


def lamp(config: ModelConfig, shape: Shape, graph: LabelGraph | None = None) -> StackedLaMP:
    """lampnet's network for a shape, untrained: speed does not depend on the weights."""
    torch.manual_seed(0)
    graph = graph or LabelGraph("full", None, shape.labels)
    return build_network(config, WordVectors(shape.words, config.width), graph)


def random_batch(shape: Shape, rows: int, seed: int = 0) -> tuple[NodeBatch, Tensor]:
    """Rows of similar length, as length buckets give them (95% to 100% of the longest, sorted), and their truth."""
    random = torch.Generator().manual_seed(seed)
    lengths = shape.nodes - torch.randint(max(1, round(0.05 * shape.nodes)) + 1, (rows,), generator=random)
    lengths[0] = shape.nodes
    lengths = lengths.sort().values
    batch = NodeBatch(
        present_BS=torch.arange(shape.nodes) < lengths[:, None],
        ids_BS=torch.randint(shape.words, (rows, shape.nodes), generator=random),
        values_BS=torch.ones(rows, shape.nodes),
    )
    truth = (torch.rand(rows, shape.labels, generator=random) < shape.true_labels / shape.labels).float()
    return batch, truth


def training_step(
    network: nn.Module, stages: Callable[[], list[Tensor]], truth: Callable[[], Tensor]
) -> Callable[[], None]:
    """One whole training step: loss, gradients, clip, AdamW, running average."""
    weights = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)
    average = [p.detach().clone() for p in weights]

    def step() -> None:
        network.train()
        lamp_loss(stages(), truth(), 0.2).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, [p.detach() for p in weights], 0.003)

    return step


def prediction(network: nn.Module, call: Callable[[], object]) -> Callable[[], None]:
    """One prediction without gradients."""

    def run() -> None:
        network.eval()
        with torch.inference_mode():
            call()

    return run
