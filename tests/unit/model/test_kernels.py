"""What was made fast gives the numbers of the equations written out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.encoders.base import Embedding
from lampnet.encoders.nodes import NodeBatch
from lampnet.model.kernels import fused_training as fused_messages
from lampnet.model.kernels.byte_dropout import ByteDropout
from lampnet.model.label_edges import LabelGraph
from lampnet.model.lamp import LaMP, MessagePassing
from lampnet.model.neighbourhood import Neighbours
from lampnet.runtime.random_bytes import RandomBytes
from lampnet.training.loss import lamp_loss

L, S, B, WORDS = 11, 9, 6, 30


class Words(Embedding):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(WORDS, width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, None]:
        return self.vectors(batch.ids_BS), batch.present_BS, None


class Written(MessagePassing):
    """The messages with every projection, score and weight on its own, as first written."""

    def _messages(self, v: Tensor, sources: Tensor, neighbours: Neighbours) -> tuple[Tensor, Tensor | None]:
        q, u, v_j = (
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear, x in ((self.W_q, v), (self.W_u, sources), (self.W_v, sources))
        )
        scores = q * self.scale @ u.transpose(-1, -2)
        if neighbours.bias is not None:
            scores = scores + neighbours.bias
        message = self.W_c((scores.softmax(-1) @ v_j).transpose(1, 2).flatten(-2))
        return message if neighbours.empty_rows is None else message.masked_fill(neighbours.empty_rows, 0.0), None


class WrittenDropout(ByteDropout):
    def added(self, v: Tensor, x: Tensor) -> Tensor:
        if not self.training:
            return v + x
        threshold = round(self.chance * 256)
        return v + x * self.random.keep(tuple(x.shape), self.chance) * (256 / (256 - threshold))


def losses(config: ModelConfig, graph: LabelGraph, written: bool, steps: int = 50) -> list[float]:
    torch.manual_seed(0)
    model = LaMP(config, L, Words(config.width), graph, seed=5)
    if written:
        for module in model.modules():
            if isinstance(module, MessagePassing):
                module.__class__ = Written
            if isinstance(module, ByteDropout):
                module.__class__ = WrittenDropout
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for step in range(steps):
        random = torch.Generator().manual_seed(step)
        present = torch.rand(B, S, generator=random) < 0.7
        present[0] = step % 2 == 0  # now and then a row without any node
        batch = NodeBatch(present_BS=present, ids_BS=torch.randint(WORDS, (B, S), generator=random))
        base_learners = torch.randn(B, L, 1, generator=random) if config.base_learners else None
        truth = (torch.rand(B, L, generator=random) < 0.2).float()
        loss = lamp_loss(model(batch, base_learners).stages, truth, 0.2)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("base_learners", [(), ("linear",)])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("fewest_pairs", [0, 10**9])
def test_fifty_training_steps_have_the_losses_of_the_written_out_network(
    monkeypatch: pytest.MonkeyPatch, norm: str, base_learners: tuple[str, ...], fewest_pairs: int
) -> None:
    monkeypatch.setattr(fused_messages, "FEWEST_PAIRS", fewest_pairs)  # attention by row, or torch's kernel
    config = ModelConfig(width=16, norm=norm, base_learners=base_learners, feature_steps=1)  # type: ignore[arg-type]
    ring = sparse.csr_matrix(np.eye(L) + np.roll(np.eye(L), 1, axis=1))
    for graph in (LabelGraph("full", None, L), LabelGraph("given", ring, L)):
        fast, slow = losses(config, graph, written=False), losses(config, graph, written=True)
        assert fast == pytest.approx(slow, rel=2e-4)
        assert len({round(loss, 3) for loss in fast}) > 30  # the weights do move


@pytest.mark.parametrize("fewest_pairs", [0, 10**9])
@pytest.mark.parametrize("chance", [0.0, 0.3])
def test_every_gradient_of_the_fused_step_is_that_of_the_written_out_one(
    monkeypatch: pytest.MonkeyPatch, fewest_pairs: int, chance: float
) -> None:
    monkeypatch.setattr(fused_messages, "FEWEST_PAIRS", fewest_pairs)
    present = torch.arange(S) < torch.tensor([9, 9, 7, 4, 1, 0 if fewest_pairs == 0 else 1])[:, None]
    batch = NodeBatch(present_BS=present, ids_BS=torch.randint(WORDS, (B, S)))
    found = []
    for written in (False, True):
        torch.manual_seed(0)
        config = ModelConfig(width=16, base_learners=(), feature_steps=1, dropout=chance)
        model = LaMP(config, L, Words(16), LabelGraph("full", None, L), seed=5).train()
        for module in model.modules():
            if isinstance(module, MessagePassing):
                nn.init.normal_(module.message_norm.weight, 1.0, 0.3)
                nn.init.normal_(module.update_norm.bias, 0.0, 0.3)
                module.__class__ = Written if written else MessagePassing
            if isinstance(module, ByteDropout):
                module.__class__ = WrittenDropout if written else ByteDropout
        sum(stage.square().sum() for stage in model(batch).stages).backward()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    for name, gradient in found[1].items():
        torch.testing.assert_close(found[0][name], gradient, rtol=1e-3, atol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


def test_prediction_computes_the_last_stage_only_and_the_same() -> None:
    model = LaMP(ModelConfig(width=16, base_learners=()), L, Words(16), LabelGraph("full", None, L)).eval()
    batch = NodeBatch(present_BS=torch.ones(B, S, dtype=torch.bool), ids_BS=torch.randint(WORDS, (B, S)))
    with torch.inference_mode():
        every, last = model(batch), model(batch, final_stage_only=True)
        recorded = model(batch, record=True)
    assert (len(every.stages), len(last.stages)) == (4, 1)
    torch.testing.assert_close(last.stages[-1], every.stages[-1])
    torch.testing.assert_close(recorded.stages[-1], every.stages[-1], rtol=1e-4, atol=1e-5)


def test_dropped_bytes_are_the_decisions_and_the_gradient() -> None:
    drop = ByteDropout(0.25, RandomBytes(3)).train()
    x, v = torch.full((200, 50), 2.0, requires_grad=True), torch.full((1, 50), 1.0, requires_grad=True)
    out = drop.added(v, x)
    kept = RandomBytes(3).keep((200, 50), 0.25)
    assert 0.70 < kept.float().mean().item() < 0.80
    torch.testing.assert_close(out, 1.0 + 2.0 * kept / 0.75)
    out.sum().backward()
    assert x.grad is not None
    assert v.grad is not None
    torch.testing.assert_close(x.grad, kept / 0.75)
    torch.testing.assert_close(v.grad, torch.full((1, 50), 200.0))


def test_edge_walk_equals_the_masked_product_forward_and_backward() -> None:
    random = np.random.default_rng(0)
    n = 40
    open_pairs = (random.random((n, n)) < 0.1) | np.eye(n, dtype=bool)
    graph = LabelGraph("given", sparse.csr_matrix(open_pairs), n)
    q, u, v = (torch.randn(3, 2, n, 4, requires_grad=True) for _ in range(3))
    shut = torch.from_numpy(~open_pairs)
    scores = (q @ u.transpose(-1, -2)).masked_fill(shut, -math.inf)
    dense = scores.softmax(-1) @ v
    walked, weights = graph(q, u, v, True)
    torch.testing.assert_close(walked, dense)
    torch.testing.assert_close(weights, scores.softmax(-1))
    pull = torch.randn_like(dense)
    for a, b in zip(
        torch.autograd.grad(graph(q, u, v, False)[0], (q, u, v), pull),
        torch.autograd.grad(dense, (q, u, v), pull),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_frozen_settings_are_not_changed_by_candidates_set_later() -> None:
    model = LaMP(ModelConfig(width=16, base_learners=()), L, Words(16), LabelGraph("full", None, L))
    model.candidates = 4
    assert model.config == replace(ModelConfig(width=16, base_learners=()), candidates=0)
