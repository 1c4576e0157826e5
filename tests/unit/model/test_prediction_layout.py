"""A network laid out for prediction says what the network says, and leaves it alone."""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from lampnet.config import ModelConfig
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.wordset import ProjectedWords, WordVectors
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels import prediction_layout as layouts
from lampnet.model.kernels.prediction_layout import prepared
from lampnet.model.label_edges import LabelGraph
from lampnet.model.lamp import LaMP

L, S, WORDS = 11, 9, 30
RING = sparse.csr_matrix(np.eye(L) + np.roll(np.eye(L), 1, axis=1))


def network(graph: LabelGraph | None = None, **settings: object) -> LaMP:
    torch.manual_seed(0)
    config = ModelConfig(**{"width": 16, "base_learners": ()} | settings)  # type: ignore[arg-type]
    model = LaMP(config, L, WordVectors(WORDS, 16), graph or LabelGraph("full", None, L)).eval()
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


def opinions(model: LaMP, count: int) -> torch.Tensor | None:
    kinds = len(model.config.base_learners)
    return torch.randn(count, L, kinds, generator=torch.Generator().manual_seed(2)) if kinds else None


NETWORKS = {
    "plain": {},
    "post-norm": {"norm": "post"},
    "base_learners": {"base_learners": ("linear",)},
    "candidates": {"candidates": 4},
    "base_learners and candidates": {"base_learners": ("linear",), "candidates": 4},
    "messages among words": {"feature_steps": 2},
    "tied readout, three steps": {"readout": "tied", "steps": 3, "hidden_multiple": 2},
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("nodes", [0, 10_000])
@pytest.mark.parametrize("run_work", [0, 10**9])
@pytest.mark.parametrize("lengths", [[9, 9, 9], [9], [0, 0, 3, 3, 9], [5, 2, 5, 0]])
def test_layouts_say_what_the_network_says(
    monkeypatch: pytest.MonkeyPatch, name: str, nodes: int, run_work: int, lengths: list[int]
) -> None:
    monkeypatch.setattr(layouts, "RUN_WORK", run_work)
    for kind in ("full", "edgeless", "given"):
        model = network(LabelGraph(kind, RING, L), **NETWORKS[name])
        before = {key: value.clone() for key, value in model.state_dict().items()}
        batch, g = rows(lengths), opinions(model, len(lengths))
        with torch.inference_mode():
            wanted = model(batch, g).stages[-1]
            ready = prepared(model, nodes)
            for _ in range(2):  # a second call finds its own weights unchanged
                torch.testing.assert_close(
                    ready(batch, g, final_stage_only=True).stages[-1], wanted, rtol=1e-4, atol=1e-5
                )
        for key, value in model.state_dict().items():
            assert torch.equal(value, before[key]), key


def test_words_are_looked_up_only_where_that_is_the_same_and_saves_work() -> None:
    assert isinstance(prepared(network(), WORDS).embedding, ProjectedWords)
    assert not isinstance(prepared(network(), WORDS - 1).embedding, ProjectedWords)
    assert not isinstance(prepared(network(feature_steps=1), 10_000).embedding, ProjectedWords)
    assert not isinstance(prepared(network(candidates=4), 10_000).embedding, ProjectedWords)  # words give the opinion


def test_many_rows_are_predicted_as_one_by_one() -> None:
    model = network(base_learners=("linear",))
    random = np.random.default_rng(0)
    lengths = random.integers(0, S + 1, size=40)
    nodes = NodeRows(
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        ids=random.integers(WORDS, size=lengths.sum()).astype(np.int32),
        values=random.random(lengths.sum()).astype(np.float32),
    )
    examples = Examples(nodes=nodes, base_logits=random.standard_normal((40, L, 1)).astype(np.float32))
    together = predict_logits(model, examples, batch_size=8)
    with torch.inference_mode():
        for row in range(40):
            index = np.array([row])
            alone = model(nodes.batch(index), examples.base_batch(index)).stages[-1][0]
            torch.testing.assert_close(torch.from_numpy(together[row]), alone, rtol=1e-4, atol=1e-5)


def test_a_committee_says_what_its_members_say() -> None:
    members = [network(), network(steps=1)]
    batch = rows([2, 2, 9])
    with torch.inference_mode():
        said = [member(batch).stages[-1] for member in members]
        ready = prepared(Ensemble(members), 10_000)  # type: ignore[arg-type]
        torch.testing.assert_close(
            ready(batch, final_stage_only=True).stages[-1], torch.stack(said).mean(0), rtol=1e-4, atol=1e-5
        )
    assert all(isinstance(member.embedding, ProjectedWords) for member in ready.members)  # type: ignore[union-attr]


def test_a_prepared_network_is_not_prepared_again() -> None:
    ready = prepared(network())
    assert prepared(ready) is ready
