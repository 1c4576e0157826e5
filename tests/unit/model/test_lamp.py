"""The network against the paper's equations, and the traps of the published code."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse

from lampnet.config import ModelConfig
from lampnet.encoders.nodes import NodeRows
from lampnet.encoders.wordset import WordVectors
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits, probabilities
from lampnet.model.build import build_network
from lampnet.model.kernels import sparse_attention
from lampnet.model.kernels.self_loops import SelfLoopMessagePassing
from lampnet.model.kernels.sparse_attention import SparseMessagePassing
from lampnet.model.kernels.swap import plain
from lampnet.model.label_graph import LabelGraph, label_graph
from lampnet.model.lamp import LabelInput, MessagePassing
from lampnet.model.neighbourhood import Neighbourhood
from lampnet.model.stacked import StackedLaMP
from lampnet.training.loss import lamp_loss

D, L, WORDS = 8, 5, 12
PAPER = ModelConfig(
    width=D, heads=2, steps=2, feature_steps=2, norm="post", score_scale="width", readout="tied", dropout=0.0,
    node_dropout=0.0, base_learners=(),
)  # fmt: skip
FAST = ModelConfig(width=D, heads=2, dropout=0.0, node_dropout=0.0, base_learners=())
RING = [(i, (i + 1) % L) for i in range(L)]


def rows(*words: list[int]) -> NodeRows:
    return NodeRows(
        offsets=np.cumsum([0] + [len(row) for row in words]),
        ids=np.array([word for row in words for word in row], dtype=np.int32),
        values=np.ones(sum(map(len, words)), dtype=np.float32),
    )


def network(config: ModelConfig, graph: str = "full", edges: object = None, edge_types: int = 0) -> StackedLaMP:
    torch.manual_seed(0)
    labels = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]])
    matrix = label_graph(graph, L, labels=labels, edges=edges)
    return filled(build_network(config, WordVectors(WORDS, D), LabelGraph(graph, matrix, L), edge_types))


def filled(model: StackedLaMP) -> StackedLaMP:
    with torch.no_grad():  # nothing may hide behind a zero
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


THREE = rows([0, 1, 2, 3], [4, 5], [6])
ALL = np.arange(3)


def base_logits(config: ModelConfig) -> LabelInput:
    torch.manual_seed(1)
    if not config.base_learners:
        return LabelInput()
    return LabelInput(torch.randn(3, L, len(config.base_learners)), torch.randn(3, L))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(
    ("graph", "edges"),
    [("full", None), ("edgeless", None), ("cooccurrence", None), ("tree", RING[:-1]), ("given", RING)],
)
@pytest.mark.parametrize("kind", ["embed", "message-passing", "edge types", "base_learners", "shortlist"])
def test_every_parameter_gets_a_gradient(norm: str, graph: str, edges: object, kind: str) -> None:
    config = replace(FAST, norm=norm)
    nodes, edge_types = THREE, 0
    if kind in ("message-passing", "edge types"):
        config = replace(config, feature_steps=2)
    if kind == "edge types":
        edge_types = 2
        nodes = replace(
            THREE,
            edges=np.array([[0, 1, 0], [1, 0, 0], [1, 2, 1], [2, 1, 1], [0, 1, 1]], dtype=np.int32),
            edge_offsets=np.array([0, 4, 5, 5]),
        )
    if kind == "base_learners":
        config = replace(config, base_learners=("linear", "knn"))
    if kind == "shortlist":
        config = replace(config, shortlist=3)
    model = network(config, graph, edges, edge_types).train()
    output = model(nodes.batch(ALL), base_logits(config))
    stages = output.stages if kind != "shortlist" else [output.initial, *output.stages]
    lamp_loss(stages, torch.tensor([[1.0, 0, 1, 0, 1], [0, 1, 0, 1, 0], [1, 1, 0, 0, 0]]), 0.2).backward()
    still = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]
    if graph == "edgeless":  # a label that receives from itself only has nothing to compare
        still = [name for name in still if not (name.startswith("yy.") and (".W_q." in name or ".W_u." in name))]
    assert still == []


@pytest.mark.parametrize(
    ("graph", "edges"), [("full", None), ("edgeless", None), ("cooccurrence", None), ("given", [(0, 4)])]
)
def test_a_label_moves_another_exactly_when_an_edge_allows_it(graph: str, edges: object) -> None:
    """Over one step; moving W_y[j] also moves label j's own readout, so only i != j is looked at."""
    model = network(replace(FAST, steps=1), graph, edges)
    hears = label_graph(graph, L, labels=np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]), edges=edges).toarray()
    batch = THREE.batch(ALL)
    before = [stage.detach().clone() for stage in model(batch).stages]
    kept = model.W_y.detach().clone()
    for j in range(L):
        with torch.no_grad():
            model.W_y[j] += torch.linspace(0.5, -0.5, D)
        after = [stage.detach() for stage in model(batch).stages]
        for i in range(L):
            if i == j:
                continue
            assert torch.equal(before[0][:, i], after[0][:, i]), "stage 1.1 reads the input only"
            assert (not torch.allclose(before[1][:, i], after[1][:, i], atol=1e-6)) == bool(hears[i, j])
        with torch.no_grad():
            model.W_y.copy_(kept)


def test_input_nodes_receive_from_their_neighbours_only() -> None:
    config = replace(FAST, feature_steps=1)
    nodes = replace(
        rows([0, 1, 2]), edges=np.array([[0, 1, 0], [1, 0, 0]], dtype=np.int32), edge_offsets=np.array([0, 2])
    )
    model = network(config, edge_types=1)

    def states() -> torch.Tensor:
        z, present, edges = model.embedding(nodes.batch(np.array([0])))
        return model.pass_among_features(z, present, edges)[0]

    before = states()
    with torch.no_grad():
        model.embedding.vectors.weight[1] += torch.linspace(-1, 2, D)
    moved = (states() - before).abs().sum(1) > 1e-6
    assert moved.tolist() == [True, True, False]


def test_feature_messages_reach_the_prediction() -> None:
    """The published encoder threw its attention away."""
    model = network(replace(FAST, feature_steps=1))
    before = model(rows([0, 1]).batch(np.array([0]))).stages[-1]
    z, present, _ = model.embedding(rows([0, 1]).batch(np.array([0])))
    assert not torch.allclose(model.pass_among_features(z, present, None), z)
    with torch.no_grad():
        model.xx[0].W_v.weight.mul_(-2)
    assert not torch.allclose(model(rows([0, 1]).batch(np.array([0]))).stages[-1], before)


def test_readout_and_label_vectors_are_one_tensor() -> None:
    model = network(PAPER, "edgeless")
    shapes = [name for name, p in model.named_parameters() if tuple(p.shape) == (L, D)]
    assert shapes == ["W_y"]
    # The readout reads that very tensor: a gradient reaches a label vector that no message carries anywhere else.
    model(THREE.batch(ALL)).stages[0][:, 2].sum().backward()
    moved = model.W_y.grad.abs().sum(1) > 0
    assert moved.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("graph", ["full", "edgeless", "cooccurrence"])
def test_permuting_the_labels_permutes_the_outputs(graph: str) -> None:
    config = replace(FAST, base_learners=("linear",))
    model, given = network(config, graph), base_logits(config)
    g, stacked = given.base_logits_BLK, given.stacked_BL
    assert g is not None
    assert stacked is not None
    order = torch.tensor([3, 0, 4, 1, 2])
    before = model(THREE.batch(ALL), given).stages[-1]
    matrix = label_graph(graph, L, labels=np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]))
    moved = LabelGraph(graph, sparse.csr_matrix(matrix.toarray()[order][:, order]), L)
    permuted = build_network(config, model.embedding, moved).eval()
    permuted.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name in ("W_y", "bias"):
            getattr(permuted, name).copy_(getattr(model, name)[order].clone())
    after = permuted(THREE.batch(ALL), LabelInput(g[:, order], stacked[:, order])).stages[-1]
    assert torch.allclose(after, before[:, order], atol=1e-5)


# The paper's equations once more, one node, one neighbour, one head at a time.


def slow_layer_norm(x: torch.Tensor, norm: torch.nn.LayerNorm) -> torch.Tensor:
    spread = (x - x.mean()) / torch.sqrt(((x - x.mean()) ** 2).mean() + norm.eps)
    return spread * norm.weight + norm.bias


def slow_pass(module: MessagePassing, v: list[torch.Tensor], sources: list[torch.Tensor], neighbours: list[list[int]]):
    """Messages (eqs. 3, 5, 6), residual (7), update (8), residual (9), layer norm around both."""
    heads, width = module.heads, D // module.heads
    moved = []
    for i, v_i in enumerate(v):
        parts = []
        for k in range(heads):
            span = slice(k * width, (k + 1) * width)
            W_q, W_u, W_v = (m.weight[span] for m in (module.W_q, module.W_u, module.W_v))
            scores = [float((W_q @ v_i) @ (W_u @ sources[j])) / math.sqrt(D) for j in neighbours[i]]
            total = sum(math.exp(s) for s in scores)
            parts.append(
                sum(math.exp(s) / total * (W_v @ sources[j]) for s, j in zip(scores, neighbours[i], strict=True))
            )
        m = slow_layer_norm(v_i + module.W_c.weight @ torch.cat(parts), module.message_norm)
        hidden = torch.relu(module.W_r.weight @ m + module.W_r.bias)
        moved.append(slow_layer_norm(m + module.W_b.weight @ hidden + module.W_b.bias, module.update_norm))
    return moved


@pytest.mark.parametrize(("graph", "edges"), [("full", None), ("edgeless", None), ("given", RING)])
def test_the_equations_agree_with_a_slow_loop(graph: str, edges: object) -> None:
    model = network(PAPER, graph, edges)
    neighbours = [list(np.flatnonzero(row)) for row in label_graph(graph, L, edges=edges).toarray()]
    with torch.no_grad():
        stages = model(THREE.batch(ALL)).stages
        for row, words in enumerate(([0, 1, 2, 3], [4, 5], [6])):
            z = [model.embedding.vectors.weight[word] for word in words]
            everyone = [list(range(len(z)))] * max(len(z), L)
            for xx in model.xx:
                z = slow_pass(xx, z, z, everyone)
            u, slow = [model.W_y[i] for i in range(L)], []
            for xy, yy in zip(model.xy, model.yy, strict=True):
                u = slow_pass(xy, u, z, everyone)
                slow.append([float(u[i] @ model.W_y[i]) for i in range(L)])
                u = slow_pass(yy, u, u, neighbours)
                slow.append([float(u[i] @ model.W_y[i]) for i in range(L)])
            fast = torch.stack([stage[row] for stage in stages])
            assert torch.allclose(fast, torch.tensor(slow), atol=1e-4)


@pytest.mark.parametrize("graph", ["full", "edgeless", "cooccurrence"])
def test_recorded_attention_sums_to_one_and_changes_nothing(graph: str) -> None:
    model = plain(network(FAST, graph))
    batch = THREE.batch(ALL)
    without, recorded = model(batch), model(batch, return_attention=True)
    assert without.to_input is None
    assert without.to_labels is None
    for a, b in zip(without.stages, recorded.stages, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert len(recorded.to_input) == len(recorded.to_labels) == 2
    for alpha in (*recorded.to_input, *recorded.to_labels):
        assert torch.allclose(alpha.sum(-1), torch.ones(alpha.shape[:-1]), atol=1e-5)
    assert (recorded.to_input[0][1, :, :, 2:] == 0).all(), "padding gets no attention"


def test_edgeless_is_a_full_graph_with_only_its_diagonal() -> None:
    edgeless = network(FAST, "edgeless")
    assert isinstance(edgeless.yy[0], SelfLoopMessagePassing)
    diagonal = network(FAST, "given", [])
    diagonal.load_state_dict(edgeless.state_dict())
    for a, b in zip(edgeless(THREE.batch(ALL)).stages, diagonal(THREE.batch(ALL)).stages, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_walking_edges_equals_a_dense_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    dense = network(FAST, "given", RING)
    monkeypatch.setattr(sparse_attention, "SPARSE_FROM_LABELS", 1)
    monkeypatch.setattr(sparse_attention, "SPARSE_BELOW_DENSITY", 2.0)
    walked = network(FAST, "given", RING)
    assert isinstance(walked.yy[0], SparseMessagePassing)
    assert not isinstance(dense.yy[0], SparseMessagePassing)
    truth = torch.zeros(3, L)
    for model in (dense, walked):
        lamp_loss(model(THREE.batch(ALL)).stages, truth, 0.2).backward()
    assert torch.allclose(dense(THREE.batch(ALL)).stages[-1], walked(THREE.batch(ALL)).stages[-1], atol=1e-5)
    a, b = (plain(model)(THREE.batch(ALL), return_attention=True) for model in (dense, walked))
    assert torch.allclose(a.to_labels[1], b.to_labels[1], atol=1e-5)
    for p, q in zip(dense.parameters(), walked.parameters(), strict=True):
        assert torch.allclose(p.grad, q.grad, atol=1e-5)


@pytest.mark.parametrize("graph", ["full", "edgeless", "cooccurrence"])
def test_a_shortlist_of_all_labels_is_the_full_model(graph: str) -> None:
    some = network(replace(FAST, shortlist=L), graph)
    full = network(FAST, graph)
    full.load_state_dict(some.state_dict(), strict=False)
    assert torch.equal(some(THREE.batch(ALL)).stages[-1], full(THREE.batch(ALL)).stages[-1])


@pytest.mark.parametrize("graph", ["edgeless", "given"])
def test_labels_on_the_shortlist_exchange_what_the_full_model_lets_them(graph: str) -> None:
    """Without messages from outside the shortlist, logits are the full model's; others keep their initial ones."""
    edges = None if graph == "edgeless" else []
    some = network(replace(FAST, shortlist=3), graph, edges)
    full = network(FAST, graph, edges)
    full.load_state_dict(some.state_dict(), strict=False)
    batch = THREE.batch(ALL)
    output, exact = some(batch), full(batch).stages[-1]
    chosen = torch.zeros(3, L, dtype=torch.bool).scatter_(1, output.shortlist, True)
    assert torch.allclose(output.stages[-1][chosen], exact[chosen], atol=1e-5)
    assert torch.equal(output.stages[-1][~chosen], output.initial[~chosen])


@pytest.mark.parametrize("config", [FAST, PAPER, replace(FAST, shortlist=2)])
def test_a_longer_neighbour_in_the_batch_changes_nothing(config: ModelConfig) -> None:
    model = network(config)
    together = predict_logits(model, Examples(nodes=rows([4, 5], [0, 1, 2, 3, 7, 8, 9])))
    alone = predict_logits(model, Examples(nodes=rows([4, 5])))
    assert np.allclose(together[0], alone[0], atol=1e-5)


def test_an_empty_row_gets_no_message_from_padding() -> None:
    model = network(replace(FAST, steps=1))
    u, _ = model.xy[0](
        model.W_y[None], torch.randn(1, 3, D), Neighbourhood.of_present_nodes(torch.zeros(1, 3, dtype=torch.bool))
    )
    quiet = model.W_y + model.xy[0].update(model.xy[0].update_norm(model.W_y))
    assert torch.allclose(u[0], quiet, atol=1e-5)
    logits = predict_logits(model, Examples(nodes=rows([], [1, 2])))
    again = predict_logits(model, Examples(nodes=rows([], [3, 4, 5])))
    assert np.isfinite(logits).all()
    assert np.allclose(logits[0], again[0], atol=1e-6)


def test_dropout_is_off_when_predicting() -> None:
    model = network(replace(FAST, dropout=0.5))
    nodes = Examples(nodes=THREE)
    assert np.array_equal(predict_logits(model, nodes), predict_logits(model, nodes))
    with pytest.raises(AssertionError, match="evaluation mode"):
        predict_logits(model.train(), nodes)
    assert probabilities(np.array([0.0, -1e4, 1e4])).tolist() == [0.5, 0.0, 1.0]
