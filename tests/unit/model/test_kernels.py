"""Every kernel gives the numbers of the equations as `lamp.py` writes them."""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.encoders.base import Embedding
from lampnet.encoders.nodes import NodeBatch
from lampnet.model.build import build_network
from lampnet.model.kernels import fused_training
from lampnet.model.kernels.byte_dropout import ByteResidual
from lampnet.model.kernels.fused_training import with_training_kernels
from lampnet.model.kernels.sparse_attention import SparseMessagePassing
from lampnet.model.kernels.swap import with_blocks
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import LabelInput, MessagePassing
from lampnet.model.stacked import StackedLaMP
from lampnet.runtime.random_bytes import RandomBytes
from lampnet.training.loss import lamp_loss

L, S, B, WORDS = 11, 9, 6, 30


class Words(Embedding):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(WORDS, width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, None]:
        return self.vectors(batch.ids_BS), batch.present_BS, None


class Transposed(Words):
    """Vectors in the memory order of a convolution's output, as those of DNA are."""

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, None]:
        z_BSD, present_BS, edges = super().forward(batch)
        return z_BSD.transpose(1, 2).contiguous().transpose(1, 2), present_BS, edges


class WrittenResidual(ByteResidual):
    """The same decisions, without the hand-written backward pass."""

    def forward(self, v: Tensor, x: Tensor) -> Tensor:
        if not self.training:
            return v + x
        threshold = round(self.chance * 256)
        return v + x * self.random.keep(tuple(x.shape), self.chance) * (256 / (256 - threshold))


def written_out(network: StackedLaMP, random: RandomBytes) -> StackedLaMP:
    """The network as `lamp.py` writes it, its dropout drawn from the stream that the kernels use."""

    def make(name: str, step: int, block: MessagePassing) -> MessagePassing:
        block.residual = WrittenResidual(block.residual.chance, random)
        return block

    return with_blocks(network, make)


KERNELS = {"fused": with_training_kernels, "written out": written_out}


def losses(config: ModelConfig, graph: LabelGraph, kernel: str, steps: int = 50) -> list[float]:
    torch.manual_seed(0)
    model = KERNELS[kernel](build_network(config, Words(config.width), graph), RandomBytes(5)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for step in range(steps):
        random = torch.Generator().manual_seed(step)
        present = torch.rand(B, S, generator=random) < 0.7
        present[0] = step % 2 == 0  # now and then a row without any node
        batch = NodeBatch(present_BS=present, ids_BS=torch.randint(WORDS, (B, S), generator=random))
        base_logits = torch.randn(B, L, 1, generator=random) if config.base_learners else None
        truth = (torch.rand(B, L, generator=random) < 0.2).float()
        loss = lamp_loss(
            model(batch, LabelInput(base_logits, None if base_logits is None else base_logits.squeeze(-1))).stages,
            truth,
            0.2,
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("base_learners", [(), ("linear",)])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("min_pairs", [0, 10**9])
def test_fifty_training_steps_have_the_losses_of_the_written_out_network(
    monkeypatch: pytest.MonkeyPatch, norm: str, base_learners: tuple[str, ...], min_pairs: int
) -> None:
    monkeypatch.setattr(fused_training, "MIN_PAIRS", min_pairs)  # attention by row, or torch's kernel
    config = ModelConfig(width=16, norm=norm, base_learners=base_learners, feature_steps=1)  # type: ignore[arg-type]
    ring = sparse.csr_matrix(np.eye(L) + np.roll(np.eye(L), 1, axis=1))
    for graph in (LabelGraph("full", None, L), LabelGraph("given", ring, L)):
        fast, slow = losses(config, graph, "fused"), losses(config, graph, "written out")
        assert fast == pytest.approx(slow, rel=2e-4)
        assert len({round(loss, 3) for loss in fast}) > 30  # the weights do move


@pytest.mark.parametrize("min_pairs", [0, 10**9])
@pytest.mark.parametrize("chance", [0.0, 0.3])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("nodes", [Words, Transposed])
def test_every_gradient_of_the_fused_step_is_that_of_the_written_out_one(
    monkeypatch: pytest.MonkeyPatch, min_pairs: int, chance: float, norm: Literal["pre", "post"], nodes: type[Words]
) -> None:
    monkeypatch.setattr(fused_training, "MIN_PAIRS", min_pairs)
    present = torch.arange(S) < torch.tensor([9, 9, 7, 4, 1, 0 if min_pairs == 0 else 1])[:, None]
    batch = NodeBatch(present_BS=present, ids_BS=torch.randint(WORDS, (B, S)))
    found = []
    for kernel in KERNELS.values():
        torch.manual_seed(0)
        config = ModelConfig(width=16, norm=norm, base_learners=(), feature_steps=1, dropout=chance)
        network = build_network(config, nodes(16), LabelGraph("full", None, L))
        for module in network.modules():
            if isinstance(module, MessagePassing):
                nn.init.normal_(module.message_norm.weight, 1.0, 0.3)
                nn.init.normal_(module.update_norm.bias, 0.0, 0.3)
        model = kernel(network, RandomBytes(5)).train()
        sum(stage.square().sum() for stage in model(batch).stages).backward()
        found.append({name: weight.grad for name, weight in network.named_parameters()})
    for name, gradient in found[1].items():
        torch.testing.assert_close(found[0][name], gradient, rtol=1e-3, atol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


def test_a_torch_without_the_private_operators_trains_by_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    config, graph = ModelConfig(width=16, base_learners=()), LabelGraph("full", None, L)
    usual = losses(config, graph, "fused", steps=5)
    monkeypatch.setattr(fused_training, "_available", lambda: False)
    monkeypatch.setattr(fused_training._Fused, "apply", None)  # calling it would fail
    assert losses(config, graph, "fused", steps=5) == pytest.approx(usual, rel=1e-4)


def test_prediction_computes_the_last_stage_only_and_the_same() -> None:
    model = build_network(ModelConfig(width=16, base_learners=()), Words(16), LabelGraph("full", None, L)).eval()
    batch = NodeBatch(present_BS=torch.ones(B, S, dtype=torch.bool), ids_BS=torch.randint(WORDS, (B, S)))
    with torch.inference_mode():
        every, last = model(batch), model(batch, final_stage_only=True)
        recorded = model(batch, return_attention=True)
    assert (len(every.stages), len(last.stages)) == (4, 1)
    torch.testing.assert_close(last.stages[-1], every.stages[-1])
    torch.testing.assert_close(recorded.stages[-1], every.stages[-1], rtol=1e-4, atol=1e-5)


def test_dropped_bytes_are_the_decisions_and_the_gradient() -> None:
    residual = ByteResidual(0.25, RandomBytes(3)).train()
    x, v = torch.full((200, 50), 2.0, requires_grad=True), torch.full((1, 50), 1.0, requires_grad=True)
    out = residual(v, x)
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
    block = SparseMessagePassing(ModelConfig(width=8, heads=2), graph.adjacency)
    q, u, v = (torch.randn(3, 2, n, 4, requires_grad=True) for _ in range(3))
    closed = torch.from_numpy(~open_pairs)
    scores = (q @ u.transpose(-1, -2)).masked_fill(closed, -math.inf)
    dense = scores.softmax(-1) @ v
    walked, _ = block.attend(q, u, v, graph.neighbourhood())
    torch.testing.assert_close(walked, dense)
    pull = torch.randn_like(dense)
    for a, b in zip(
        torch.autograd.grad(walked, (q, u, v), pull), torch.autograd.grad(dense, (q, u, v), pull), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_a_sparse_graph_never_makes_the_dense_bias() -> None:
    graph = LabelGraph("given", sparse.identity(40, dtype=bool, format="csr"), 40)
    block = SparseMessagePassing(ModelConfig(width=8, heads=2), graph.adjacency)
    neighbourhood = graph.neighbourhood()
    block(torch.randn(2, 40, 8), None, neighbourhood)
    assert "bias" not in vars(neighbourhood)


def test_frozen_settings_are_not_changed_by_a_shortlist_set_later() -> None:
    model = build_network(ModelConfig(width=16, base_learners=()), Words(16), LabelGraph("full", None, L))
    model.shortlist = 4
    assert model.config == replace(ModelConfig(width=16, base_learners=()), shortlist=0)
