"""An ensemble is the mean of its members."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import Config, ModelConfig
from lampnet.encoders import make_encoder
from lampnet.encoders.nodes import NodeRows
from lampnet.model.build import build_network
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels.swap import plain
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import LabelInput
from lampnet.model.stacked import StackedLaMP

B, L, F = 5, 12, 9


def rows(n: int, seed: int) -> sparse.csr_matrix:
    return sparse.csr_matrix(sparse.random(n, F, 0.4, random_state=seed, dtype=np.float32))


def members(shortlist: int, base_learners: tuple[str, ...] = ("linear",), kind: str = "full") -> list[StackedLaMP]:
    encoder = make_encoder("wordset", Config.preset("fast").input).fit(rows(20, 0))
    made = []
    for seed in range(3):
        torch.manual_seed(seed)
        config = ModelConfig(width=16, base_learners=base_learners, shortlist=shortlist)
        network = build_network(config, encoder.embedding(16), LabelGraph(kind, None, L))
        if network.gate is not None:
            network.gate.data.fill_(1.0)
        made.append(network.eval())
    return made


def given(has_base_logits: bool = True) -> LabelInput:
    torch.manual_seed(9)
    return LabelInput(torch.randn(B, L, 1), torch.randn(B, L)) if has_base_logits else LabelInput()


def batch() -> object:
    return NodeRows.from_csr(rows(B, 1)).batch(np.arange(B))


def test_every_stage_and_every_attention_is_the_mean_of_the_members() -> None:
    single, g = members(0), given()
    with torch.inference_mode():
        whole = Ensemble(single)(batch(), g, return_attention=True)
        apart = [network(batch(), g, return_attention=True) for network in single]
    for part in ("stages", "to_input", "to_labels"):
        for stage, averaged in enumerate(getattr(whole, part)):
            mean = torch.stack([getattr(output, part)[stage] for output in apart]).mean(0)
            torch.testing.assert_close(averaged, mean)


@pytest.mark.parametrize("kind", ["full", "edgeless"])
@pytest.mark.parametrize("base_learners", [("linear",), ()])
def test_members_share_one_shortlist_and_their_attention_is_averaged_label_by_label(
    kind: str, base_learners: tuple[str, ...]
) -> None:
    single = [plain(member) for member in members(4, base_learners, kind)]
    g = given(bool(base_learners))
    with torch.inference_mode():
        whole = Ensemble(single)(batch(), g, return_attention=True)
        forced = torch.zeros(B, L, dtype=torch.bool).scatter(1, whole.shortlist, True)
        apart = [network(batch(), replace(g, forced_BL=forced), return_attention=True) for network in single]
    assert whole.shortlist is not None
    assert (whole.shortlist.diff(dim=1) > 0).all(), "the shortlist is in ascending order"
    for b in range(B):
        for index, label in enumerate(whole.shortlist[b].tolist()):
            own = [(output.shortlist[b] == label).nonzero().item() for output in apart]
            averaged = torch.stack([o.to_input[1][b, :, i] for o, i in zip(apart, own, strict=True)]).mean(0)
            torch.testing.assert_close(whole.to_input[1][b, :, index], averaged)
            for other_index, other in enumerate(whole.shortlist[b].tolist() if kind == "full" else []):
                theirs = [(output.shortlist[b] == other).nonzero().item() for output in apart]
                pair = [o.to_labels[0][b, :, i, j] for o, i, j in zip(apart, own, theirs, strict=True)]
                torch.testing.assert_close(whole.to_labels[0][b, :, index, other_index], torch.stack(pair).mean(0))
    torch.testing.assert_close(whole.stages[-1], torch.stack([o.stages[-1] for o in apart]).mean(0))


def test_the_common_shortlist_is_the_best_by_the_mean_initial_logits() -> None:
    single, g = members(4, ()), given(False)
    with torch.inference_mode():
        whole = Ensemble(single)(batch(), g)
        initial = torch.stack([network(batch(), g).initial for network in single]).mean(0)
    assert torch.equal(whole.shortlist, initial.topk(4).indices.sort(dim=1).values)


def test_an_ensemble_of_one_is_its_network() -> None:
    (network, *_), g = members(4), given()
    with torch.inference_mode():
        alone, whole = network(batch(), g), Ensemble([network])(batch(), g)
    assert all(torch.equal(a, b) for a, b in zip(alone.stages, whole.stages, strict=True))
    assert torch.equal(alone.shortlist, whole.shortlist)
