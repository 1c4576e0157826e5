"""Candidate message passing: exact with all labels, the first opinion for those left out."""

import pytest
import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.inputs.nodes import NodeBatch
from lampnet.label_attention import LabelGraph
from lampnet.model import LaMP

L, S, B, WORDS = 13, 7, 5, 30


class Words(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(WORDS, width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, None]:
        return self.vectors(batch.ids_BS), batch.present_BS, None


def network(candidates: int, evidence: tuple[str, ...]) -> LaMP:
    torch.manual_seed(0)
    config = ModelConfig(width=16, evidence=evidence, candidates=candidates)
    model = LaMP(config, L, Words(16), LabelGraph("full", None, L))
    assert model.bias is not None
    nn.init.normal_(model.bias)
    return model.eval()


def rows() -> tuple[NodeBatch, Tensor]:
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(WORDS, (B, S), generator=random)
    present = torch.rand(B, S, generator=random) < 0.8
    present[:, 0] = True
    return NodeBatch(present_BS=present, ids_BS=ids), torch.randn(B, L, 1, generator=random)


@pytest.mark.parametrize("evidence", [(), ("linear",)])
def test_all_labels_as_candidates_are_the_full_model(evidence: tuple[str, ...]) -> None:
    batch, g = rows()
    given = g if evidence else None
    full = network(0, evidence)
    every = network(L, evidence)
    every.load_state_dict(full.state_dict(), strict=False)
    with torch.no_grad():
        for expected, stage in zip(full(batch, given).stages, every(batch, given).stages, strict=True):
            torch.testing.assert_close(stage, expected)


@pytest.mark.parametrize("evidence", [(), ("linear",)])
@pytest.mark.parametrize("trained_with", [0, 4])
def test_labels_left_out_keep_their_first_opinion(evidence: tuple[str, ...], trained_with: int) -> None:
    batch, g = rows()
    model = network(trained_with, evidence)
    model.candidates = 4
    with torch.no_grad():
        output = model(batch, g if evidence else None)
    assert output.candidates is not None
    assert output.opinion is not None
    assert output.candidates.shape == (B, 4)
    chosen = torch.zeros(B, L, dtype=torch.bool).scatter(1, output.candidates, True)
    assert (
        output.opinion[chosen].view(B, 4).min(1).values >= output.opinion.masked_fill(chosen, -99).max(1).values
    ).all()
    last = output.stages[-1]
    torch.testing.assert_close(last[~chosen], output.opinion[~chosen])
    assert not torch.isclose(last[chosen], output.opinion[chosen]).all()


@pytest.mark.parametrize("evidence", [(), ("linear",)])
def test_a_candidate_hears_exactly_the_other_candidates(evidence: tuple[str, ...]) -> None:
    """A network of the chosen labels alone says the same of them."""
    batch, g = rows()
    model = network(4, evidence)
    with torch.no_grad():
        output = model(batch, g if evidence else None)
        assert output.candidates is not None
        for row, chosen in enumerate(output.candidates):
            small = LaMP(
                ModelConfig(width=16, evidence=evidence), 4, model.embedding, LabelGraph("full", None, 4)
            ).eval()
            state = {k: v for k, v in model.state_dict().items() if k != "opinion_gate"}
            for name in ("W_y", "bias", "evidence_weight"):
                if name in state:
                    state[name] = state[name][chosen]
            small.load_state_dict(state)
            one = NodeBatch(present_BS=batch.present_BS[row : row + 1], ids_BS=batch.ids_BS[row : row + 1])
            alone = small(one, g[row : row + 1, chosen] if evidence else None).stages[-1][0]
            torch.testing.assert_close(output.stages[-1][row, chosen], alone, rtol=1e-4, atol=1e-5)


def test_true_labels_stay_candidates_in_training() -> None:
    batch, g = rows()
    model = network(3, ("linear",)).train()
    worst = torch.zeros(B, L, dtype=torch.bool).scatter(1, g.squeeze(-1).argmin(1, keepdim=True), True)
    output = model(batch, g * 50, must_BL=worst)
    assert output.candidates is not None
    assert (output.candidates.unsqueeze(-1) == g.squeeze(-1).argmin(1)[:, None, None]).any(1).all()


def test_every_weight_learns_with_candidates() -> None:
    batch, _ = rows()
    model = network(6, ()).train()
    output = model(batch)
    assert output.opinion is not None
    (output.stages[-1].square().sum() + output.opinion.square().sum()).backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []
