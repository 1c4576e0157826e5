"""Messages among a shortlist: exact with all labels, the initial logits for those left out."""

import pytest
import torch
from torch import Tensor, nn

from lampnet.config import ModelConfig
from lampnet.encoders.base import Embedding
from lampnet.encoders.nodes import NodeBatch
from lampnet.model.build import build_network
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import LabelInput
from lampnet.model.stacked import StackedLaMP

L, S, B, WORDS = 13, 7, 5, 30


class Words(Embedding):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(WORDS, width)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, None]:
        return self.vectors(batch.ids_BS), batch.present_BS, None


def network(shortlist: int, base_learners: tuple[str, ...]) -> StackedLaMP:
    torch.manual_seed(0)
    config = ModelConfig(width=16, base_learners=base_learners, shortlist=shortlist)
    model = build_network(config, Words(16), LabelGraph("full", None, L))
    assert model.bias is not None
    nn.init.normal_(model.bias)
    return model.eval()


def rows() -> tuple[NodeBatch, Tensor]:
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(WORDS, (B, S), generator=random)
    present = torch.rand(B, S, generator=random) < 0.8
    present[:, 0] = True
    return NodeBatch(present_BS=present, ids_BS=ids), torch.randn(B, L, 1, generator=random)


def given_by(g: Tensor, base_learners: tuple[str, ...]) -> LabelInput:
    """One base learner, which counts as it is."""
    return LabelInput(g, g.squeeze(-1)) if base_learners else LabelInput()


@pytest.mark.parametrize("base_learners", [(), ("linear",)])
def test_a_shortlist_of_all_labels_is_the_full_model(base_learners: tuple[str, ...]) -> None:
    batch, g = rows()
    given = given_by(g, base_learners)
    full = network(0, base_learners)
    every = network(L, base_learners)
    every.load_state_dict(full.state_dict(), strict=False)
    with torch.no_grad():
        for expected, stage in zip(full(batch, given).stages, every(batch, given).stages, strict=True):
            torch.testing.assert_close(stage, expected)


@pytest.mark.parametrize("base_learners", [(), ("linear",)])
@pytest.mark.parametrize("trained_with", [0, 4])
def test_labels_left_out_keep_their_initial_logits(base_learners: tuple[str, ...], trained_with: int) -> None:
    batch, g = rows()
    model = network(trained_with, base_learners)
    model.shortlist = 4
    with torch.no_grad():
        output = model(batch, given_by(g, base_learners))
    assert output.shortlist is not None
    assert output.initial is not None
    assert output.shortlist.shape == (B, 4)
    chosen = torch.zeros(B, L, dtype=torch.bool).scatter(1, output.shortlist, True)
    assert (
        output.initial[chosen].view(B, 4).min(1).values >= output.initial.masked_fill(chosen, -99).max(1).values
    ).all()
    last = output.stages[-1]
    torch.testing.assert_close(last[~chosen], output.initial[~chosen])
    assert not torch.isclose(last[chosen], output.initial[chosen]).all()


@pytest.mark.parametrize("base_learners", [(), ("linear",)])
def test_a_label_on_the_shortlist_receives_from_exactly_the_others_on_it(base_learners: tuple[str, ...]) -> None:
    """A network of the shortlist alone gives the same logits."""
    batch, g = rows()
    model = network(4, base_learners)
    with torch.no_grad():
        output = model(batch, given_by(g, base_learners))
        assert output.shortlist is not None
        for row, chosen in enumerate(output.shortlist):
            config = ModelConfig(width=16, base_learners=base_learners)
            small = build_network(config, model.embedding, LabelGraph("full", None, 4)).eval()
            state = {k: v for k, v in model.state_dict().items() if k != "initial_gate"}
            for name in ("W_y", "bias"):
                if name in state:
                    state[name] = state[name][chosen]
            small.load_state_dict(state)
            one = NodeBatch(present_BS=batch.present_BS[row : row + 1], ids_BS=batch.ids_BS[row : row + 1])
            given = given_by(g[row : row + 1, chosen], base_learners)
            alone = small(one, given).stages[-1][0]
            torch.testing.assert_close(output.stages[-1][row, chosen], alone, rtol=1e-4, atol=1e-5)


def test_forced_labels_are_on_the_shortlist() -> None:
    """The members of an ensemble agree on one shortlist in this way."""
    batch, g = rows()
    model = network(3, ("linear",))
    worst = torch.zeros(B, L, dtype=torch.bool).scatter(1, g.squeeze(-1).argmin(1, keepdim=True), True)
    with torch.no_grad():
        output = model(batch, LabelInput(g, g.squeeze(-1) * 50, forced_BL=worst))
    assert output.shortlist is not None
    assert (output.shortlist.unsqueeze(-1) == g.squeeze(-1).argmin(1)[:, None, None]).any(1).all()


def test_every_weight_learns_with_a_shortlist() -> None:
    batch, _ = rows()
    model = network(6, ()).train()
    output = model(batch)
    assert output.initial is not None
    (output.stages[-1].square().sum() + output.initial.square().sum()).backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []
