"""The contributions of an explanation add up to the logit, for every input kind and every sort of model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit

from lampnet.config import Config
from lampnet.data.dataset import Dataset, Table
from lampnet.data.parts import Part, PartRows
from lampnet.data.splits import Splits
from lampnet.explain.contributions import CALIBRATION, START
from lampnet.explain.explain_rows import explain
from lampnet.explain.explanation import Explanation
from lampnet.inference.predictor import FittedModel
from lampnet.pipeline.fit import fit

N = 48
random = np.random.default_rng(0)
WORDS = np.array(["red", "blue", "green", "sea", "sky", "fox", "dog", "storm"])
TEXTS = [" ".join(random.choice(WORDS, random.integers(2, 7))) for _ in range(N)]
LONG_TEXTS = [" ".join(random.choice(WORDS, 50)) for _ in range(N)]
TABLE = Table(
    values=np.column_stack([random.normal(size=N), np.arange(N) % 2, np.where(np.arange(N) % 5 == 0, np.nan, 1)]),
    names=("size", "colour", "age"),
    categories={1: ("red", "blue")},
)  # fmt: skip
SMILES = [("C" * random.integers(1, 6)) + random.choice(["O", "N", "C(=O)O", "c1ccccc1"]) for _ in range(N)]
ROWS: dict[str, tuple[str, Any]] = {
    "wordset": ("wordset", sparse.csr_matrix((random.random((N, 9)) < 0.4).astype(np.float32))),
    "text": ("text", TEXTS),
    "long text": ("text", LONG_TEXTS),
    "vector": ("vector", random.normal(size=(N, 4))),
    "columns": ("columns", TABLE),
    "dna": ("dna", random.integers(0, 4, (N, 24)).astype(np.uint8)),
    "molecule": ("molecule", SMILES),
    "image": ("image", random.integers(0, 256, (N, 12, 12), dtype=np.uint8)),
    "parts": (
        "parts",
        PartRows(
            (
                Part(name="title", kind="text", rows=TEXTS),
                Part(
                    name="body",
                    kind="text",
                    rows=TEXTS[: N // 2],
                    where=np.where(np.arange(N) % 2, -1, np.arange(N) // 2),
                ),
                Part(name="", kind="columns", rows=TABLE),
                Part(name="m", kind="molecule", rows=SMILES),
            )
        ),
    ),
}
SMALL = {
    "model.width": 8, "model.heads": 2, "training.epochs": 2, "training.threads": 1, "training.batch_size": 16,
    "training.warmup_steps": 2, "training.keep_network": "always", "input.min_count": 1,
    "model.base_learners": "linear,knn,forest,boosted,kernel",
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "quick": ("quick", {}),
    "network": ("fast", {"training.folds": 1}),
    "ensemble of a shortlist": ("fast", {"training.folds": 2, "model.shortlist": 3}),
    "no base learners": ("fast", {"training.folds": 1, "model.base_learners": "none"}),
    "no base learners, a shortlist": (
        "fast",
        {"training.folds": 1, "model.base_learners": "none", "model.shortlist": 2},
    ),
}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lampnet.base_learners.forest.TREES", 24)
    monkeypatch.setattr("lampnet.base_learners.boosted.ROUNDS", 12)
    monkeypatch.setattr("lampnet.pipeline.plan.ON_TRIAL", ())  # labels are random: it would be left out


def data_of(kind: str, rows: Any) -> Dataset:
    labels = (np.random.default_rng(1).random((N, 4)) < 0.4).astype(np.float32)
    labels[:, 1] = np.maximum(labels[:, 1], labels[:, 0])
    names = tuple(f"w{i}" for i in range(rows.shape[1])) if kind == "wordset" else None
    return Dataset(
        name=kind,
        kind=kind,
        rows=rows,
        labels=sparse.csr_matrix(labels),
        label_names=("a", "b", "c", "d"),
        feature_names=names,
    )


def fitted(data: Dataset, preset: str, settings: dict[str, Any]) -> FittedModel:
    own = SMALL | settings
    if preset == "quick":
        own = {name: own[name] for name in ("training.threads", "input.min_count", "model.base_learners")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(Splits(train=data), Config.preset(preset).updated(own))


def assert_adds_up(model: FittedModel, data: Dataset, explained: list[Explanation]) -> None:
    logits = model.logits(data.rows, data.row_edges)
    for e in explained:
        assert tuple(one.label for one in e.logit_sums) == e.labels
        for label, one in zip(e.label_index, e.logit_sums, strict=True):
            assert one.logit == pytest.approx(logits[e.row, label], abs=1e-4)
            assert one.total() == pytest.approx(one.logit, abs=1e-4)
            for source in one.contributions:
                if source.n_terms:
                    listed = sum(term.value for term in source.terms)
                    assert listed + source.others == pytest.approx(source.value, abs=1e-9)
                    sizes = [abs(term.value) for term in source.terms]
                    assert sizes == sorted(sizes, reverse=True)
        json.dumps(e.to_json(), allow_nan=False)


@pytest.mark.parametrize("kind", ROWS)
def test_every_input_kind_adds_up(kind: str) -> None:
    if "molecule" in kind or kind == "parts":
        pytest.importorskip("rdkit", reason="rdkit is not installed")
    data = data_of(*ROWS[kind])
    model = fitted(data, "quick", {})
    explained = explain(model, data, [0, 5, N - 1])
    assert_adds_up(model, data, explained)
    assert explained[0].steps == 0
    sources = [one.source for one in explained[0].logit_sums[0].contributions]
    assert sources[0] == START
    assert set(sources[1:]) - {CALIBRATION} == {"linear", "knn", "forest", "boosted", "kernel"}


@pytest.mark.parametrize("kind", ["wordset", "dna", "parts"])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "quick"])
def test_every_sort_of_model_adds_up(kind: str, name: str) -> None:
    if kind == "parts":
        pytest.importorskip("rdkit", reason="rdkit is not installed")
    data = data_of(*ROWS[kind])
    model = fitted(data, *MODELS[name])
    assert model.network_weight > 0
    explained = explain(model, data, [1, 7])
    assert_adds_up(model, data, explained)
    for one in explained[0].logit_sums:
        assert {"messages from the input, step 1", "messages from labels, step 2"} <= {
            source.source for source in one.contributions
        }
    if model.config.model.steps:
        half = replace(model, network_weight=0.5) if model.stack is not None else model
        assert_adds_up(half, data, explain(half, data, [1]))


def test_a_row_without_any_known_word_is_its_label_priors() -> None:
    data = data_of("text", TEXTS)
    model = fitted(data, "quick", {})
    strange = Dataset(name="new", kind="text", rows=["zzz"], labels=None, label_names=data.label_names)
    (e,) = explain(model, strange)
    assert_adds_up(model, strange, [e])
    for label, one in zip(e.label_index, e.logit_sums, strict=True):
        assert [source.source for source in one.contributions] == [START]
        assert model.label_priors is not None
        assert one.logit == pytest.approx(logit(model.label_priors[label]), abs=1e-5)


def test_known_labels_are_part_of_the_sum() -> None:
    data = data_of("text", TEXTS)
    model = fitted(data, "quick", {})
    assert model.conditional is not None
    known = replace(data.take(np.arange(3)), known=({"a": True}, {"a": False, "d": True}, {}))
    first, second, third = explain(model, known)
    plain = explain(model, data, [0, 1, 2])
    for e, alone in zip((first, second), plain, strict=False):
        logits = dict(zip(e.labels, e.logit_sums, strict=True))
        for name, one in logits.items():
            assert one.total() == pytest.approx(one.logit, abs=1e-4)
            assert any(source.source.startswith("known labels") for source in one.contributions)
            p = e.proba[e.labels.index(name)]
            expected = 30.0 if p == 1 else -30.0 if p == 0 else logit(float(p))
            assert one.logit == pytest.approx(expected, abs=1e-3)
        before = dict(zip(alone.labels, alone.logit_sums, strict=True))
        assert before["b"].logit != pytest.approx(logits["b"].logit, abs=1e-6)
    assert {one.logit for one in first.logit_sums if one.label == "a"} == {30.0}
    assert third.logit_sums == plain[2].logit_sums


def test_terms_name_their_words_columns_and_parts() -> None:
    pytest.importorskip("rdkit", reason="rdkit is not installed")
    data = data_of(*ROWS["parts"])
    (e,) = explain(fitted(data, "quick", {}), data, [4])
    terms = [term for one in e.logit_sums for source in one.contributions for term in source.terms]
    parts = {term.part for term in terms if term.similarity is None}
    assert {"title", "size", "m"} <= parts
    for term in terms:
        if term.part == "title" and term.places:
            for start, end in term.places:
                assert TEXTS[4][start:end] == term.name
    neighbours = [term for term in terms if term.similarity is not None]
    assert neighbours
    for term in neighbours:
        number = int(term.name.removeprefix("training row "))
        own = {name for name, there in zip(data.label_names, data.indicator()[number], strict=True) if there}
        assert set(term.labels) == own


@pytest.fixture
def pairs_of_words() -> Callable[[str], Explanation]:
    def explained(kind: str) -> Explanation:
        data = data_of(*ROWS[kind])
        return explain(fitted(data, "quick", {"model.base_learners": "linear"}), data, [3])[0]

    return explained


@pytest.mark.parametrize("kind", ["text", "long text"])
def test_words_pairs_and_openings_are_found_in_the_text(
    pairs_of_words: Callable[[str], Explanation], kind: str
) -> None:
    e = pairs_of_words(kind)
    text = e.input["text"]
    linear = [source for one in e.logit_sums for source in one.contributions if source.source == "linear"]
    names = {term.name for source in linear for term in source.terms}
    assert any(" " in name for name in names)  # a pair, or the mark of the opening
    for source in linear:
        for term in source.terms:
            assert term.places
            for start, end in term.places:
                assert text[start:end] == term.name.removesuffix(" (opening)")
                if term.name.endswith(" (opening)"):
                    assert len(text[:end].split()) <= 32
