"""A network laid out for prediction gives the network's numbers, and leaves it alone."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from lampnet.base_learners.stacking_weights import StackingWeights
from lampnet.config import ModelConfig
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.wordset import ProjectedWords, WordVectors
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits
from lampnet.model.build import build_network
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels import prediction_layout as layouts
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.model.label_graph import LabelGraph
from lampnet.model.lamp import LabelInput
from lampnet.model.stacked import StackedLaMP

L, S, WORDS = 11, 9, 30
RING = sparse.csr_matrix(np.eye(L) + np.roll(np.eye(L), 1, axis=1))


def network(graph: LabelGraph | None = None, **settings: object) -> StackedLaMP:
    torch.manual_seed(0)
    config = ModelConfig(**{"width": 16, "base_learners": ()} | settings)  # type: ignore[arg-type]
    model = build_network(config, WordVectors(WORDS, 16), graph or LabelGraph("full", None, L)).eval()
    for name, weight in model.named_parameters():
        if "norm" in name or "bias" in name:
            nn.init.normal_(weight, mean=1.0 if "norm.weight" in name else 0.0, std=0.3)
    return model


def rows(lengths: list[int]) -> NodeBatch:
    random = torch.Generator().manual_seed(1)
    return NodeBatch(
        present_BS=torch.arange(S) < torch.tensor(lengths)[:, None],
        ids_BS=torch.randint(WORDS, (len(lengths), S), generator=random),
        values_BS=torch.rand(len(lengths), S, generator=random) + 0.5,
    )


def base_logits(model: StackedLaMP, count: int) -> LabelInput:
    kinds = len(model.config.base_learners)
    random = torch.Generator().manual_seed(2)
    if not kinds:
        return LabelInput()
    return LabelInput(torch.randn(count, L, kinds, generator=random), torch.randn(count, L, generator=random))


NETWORKS = {
    "plain": {},
    "post-norm": {"norm": "post"},
    "base_learners": {"base_learners": ("linear",)},
    "shortlist": {"shortlist": 4},
    "base_learners and shortlist": {"base_learners": ("linear",), "shortlist": 4},
    "messages among words": {"feature_steps": 2},
    "tied readout, three steps": {"readout": "tied", "steps": 3, "hidden_multiple": 2},
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("nodes", [0, 10_000])
@pytest.mark.parametrize("run_work", [0, 10**9])
@pytest.mark.parametrize("lengths", [[9, 9, 9], [9], [0, 0, 3, 3, 9], [5, 2, 5, 0]])
def test_layouts_give_the_networks_numbers(
    monkeypatch: pytest.MonkeyPatch, name: str, nodes: int, run_work: int, lengths: list[int]
) -> None:
    monkeypatch.setattr(layouts, "RUN_WORK", run_work)
    for kind in ("full", "edgeless", "given"):
        model = network(LabelGraph(kind, RING, L), **NETWORKS[name])
        before = {key: value.clone() for key, value in model.state_dict().items()}
        batch, g = rows(lengths), base_logits(model, len(lengths))
        with torch.inference_mode():
            wanted = model(batch, g).stages[-1]
            ready = laid_out(model, nodes)
            for _ in range(2):  # a second call finds its own weights unchanged
                torch.testing.assert_close(
                    ready(batch, g, final_stage_only=True).stages[-1], wanted, rtol=1e-4, atol=1e-5
                )
        for key, value in model.state_dict().items():
            assert torch.equal(value, before[key]), key


def test_words_are_looked_up_only_where_that_is_the_same_and_saves_work() -> None:
    assert isinstance(laid_out(network(), WORDS).embedding, ProjectedWords)
    assert not isinstance(laid_out(network(), WORDS - 1).embedding, ProjectedWords)
    assert not isinstance(laid_out(network(feature_steps=1), 10_000).embedding, ProjectedWords)
    assert not isinstance(
        laid_out(network(shortlist=4), 10_000).embedding, ProjectedWords
    )  # words give the initial logits


def test_many_rows_are_predicted_as_one_by_one() -> None:
    model = network(base_learners=("linear",))
    random = np.random.default_rng(0)
    lengths = random.integers(0, S + 1, size=40)
    nodes = NodeRows(
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        ids=random.integers(WORDS, size=lengths.sum()).astype(np.int32),
        values=random.random(lengths.sum()).astype(np.float32),
    )
    weights = StackingWeights(np.ones((L, 1), np.float32), np.zeros(L, np.float32))
    logits = random.standard_normal((40, L, 1)).astype(np.float32)
    examples = Examples(nodes=nodes, base_logits=logits, weights=weights)
    together = predict_logits(laid_out(model, examples.n_nodes()), examples, batch_size=8)
    with torch.inference_mode():
        for row in range(40):
            index = np.array([row])
            alone = model(nodes.batch(index), examples.label_input(index)).stages[-1][0]
            torch.testing.assert_close(torch.from_numpy(together[row]), alone, rtol=1e-4, atol=1e-5)


def test_an_ensemble_laid_out_is_the_mean_of_its_members() -> None:
    members = [network(), network(steps=1)]
    batch = rows([2, 2, 9])
    with torch.inference_mode():
        alone = [member(batch).stages[-1] for member in members]
        ready = Ensemble(members).with_members(lambda member: laid_out(member, 10_000))
        torch.testing.assert_close(
            ready(batch, final_stage_only=True).stages[-1], torch.stack(alone).mean(0), rtol=1e-4, atol=1e-5
        )
    assert all(isinstance(member.embedding, ProjectedWords) for member in ready.networks)
