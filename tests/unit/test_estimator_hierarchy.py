"""`label_hierarchy` of a fitted classifier: no child without its parents, however label sets are asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.errors import ConfigError, DataError, ModelFolderError
from lampnet.evaluation.under_hierarchy import UnderHierarchy
from lampnet.explain.contributions import HIERARCHY

#: children before their parents, whose columns therefore win ties
NAMES = ["beagle", "cat", "dog", "animal", "oak", "plant", "rock"]
PARENTS = {"beagle": "dog", "dog": "animal", "cat": "animal", "oak": ["plant"]}
PAIRS = [(0, 2), (2, 3), (1, 3), (4, 5)]


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Children can be seen better than their parents, so that without a hierarchy they are more probable."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 6, n)
    y = np.zeros((n, 7))
    y[:, 0] = kind == 0
    y[:, 2] = kind <= 1
    y[:, 1] = kind == 2
    y[:, 3] = kind <= 2
    y[:, 4] = kind == 3
    y[:, 5] = (kind == 3) | (kind == 4)
    y[:, 6] = random.random(n) < 0.3
    spread = np.array([0.5, 0.5, 1.5, 3.0, 0.5, 3.0, 1.0])
    return y + spread * random.normal(size=(n, 7)), y


X, Y = rows(120, 0)
TEST = rows(80, 1)[0]


def quick(**changes: Any) -> LaMPClassifier:
    return LaMPClassifier(preset="quick", n_jobs=1, **changes)


def networked(**changes: Any) -> LaMPClassifier:
    settings = {"training.folds": 2, "training.warmup_steps": 2, "training.keep_network": "always"}
    return LaMPClassifier(width=8, epochs=2, n_jobs=1, base_learners=["linear"], settings=settings, **changes)


def sets(Y: np.ndarray) -> list[list[str]]:
    return [[name for name, there in zip(NAMES, row, strict=True) if there] for row in Y]


def columns(model: LaMPClassifier) -> list[tuple[int, int]]:
    place = model.classes_.tolist().index
    return [(place(NAMES[child]), place(NAMES[parent])) for child, parent in PAIRS]


def breaks(model: LaMPClassifier, chosen: np.ndarray) -> int:
    return int(sum((chosen[:, child] > chosen[:, parent]).sum() for child, parent in columns(model)))


@pytest.fixture(scope="module", params=[quick, networked])
def model(request: pytest.FixtureRequest) -> LaMPClassifier:
    made: LaMPClassifier = request.param(label_hierarchy=PARENTS).fit(X, sets(Y))
    return made


def test_without_a_hierarchy_children_stand_alone() -> None:
    """What the other tests forbid does occur in these rows."""
    plain = quick().fit(X, sets(Y))
    assert breaks(plain, plain.predict_proba(TEST)) > 20
    assert breaks(plain, plain.predict(TEST, top_k=2)) > 10
    assert plain.model_.config.label_graph == "full"


def test_no_child_without_its_parents(model: LaMPClassifier) -> None:
    proba = model.predict_proba(TEST)
    assert breaks(model, proba) == 0
    asked: list[dict[str, Any]] = [
        {},
        {"top_k": 1},
        {"top_k": 3},
        {"threshold": 0.3},
        {"top_k": 2, "threshold": 0.2},
        {"threshold": 0.99, "at_least_one": True},
    ]
    for given in asked:
        chosen = model.predict(TEST, **given)
        assert breaks(model, chosen) == 0, given
        if set(given) == {"top_k"}:
            assert (chosen.sum(axis=1) == given["top_k"]).all()
    assert (model.predict(TEST, threshold=0.999, at_least_one=True).sum(axis=1) >= 1).all()
    for metric in ("subset_accuracy", "micro_f1", "macro_f1", "hamming_accuracy"):
        other = LaMPClassifier(**model.get_params() | {"metric": metric})
        other.__dict__ |= {name: value for name, value in vars(model).items() if name.endswith("_")}
        assert breaks(model, other.predict(TEST)) == 0
    for decision in ("whole set", "recall>=0.5"):
        model.decision = decision
        try:
            assert breaks(model, model.predict(TEST)) == 0
            assert breaks(model, model.predict(TEST, at_least_one=True)) == 0
            assert breaks(model, model.predict(TEST, top_k=2)) == 0
        finally:
            model.decision = None
    assert model.model_.config.label_graph == "tree"
    assert "label hierarchy: 4 pairs" in _card(model)


def _card(model: LaMPClassifier) -> str:
    from lampnet.persistence.model_card import model_card

    return model_card(model.model_)


def test_known_labels_say_what_follows(model: LaMPClassifier) -> None:
    names = model.classes_.tolist()
    at = {name: number for number, name in enumerate(names)}
    known: list[Any] = [{"beagle": True}, {"animal": False}, {"dog": False}, {"rock": True}] * 20
    proba = model.predict_proba(TEST, known=known)
    assert (proba[0::4][:, [at["beagle"], at["dog"], at["animal"]]] == 1).all()
    assert (proba[1::4][:, [at["beagle"], at["dog"], at["cat"], at["animal"]]] == 0).all()
    assert (proba[2::4][:, [at["beagle"], at["dog"]]] == 0).all()
    assert breaks(model, proba) == 0
    for given in ({}, {"top_k": 1}, {"threshold": 0.2}, {"at_least_one": True}):
        chosen = model.predict(TEST, known=known, **given)
        assert breaks(model, chosen) == 0
        assert chosen[0::4, at["animal"]].all()
        assert not chosen[1::4, at["beagle"]].any()
    model.decision = "whole set"
    try:
        assert breaks(model, model.predict(TEST, known=known)) == 0
    finally:
        model.decision = None
    suggested = [one["label"] for one in model.suggest(TEST[0], known=["beagle"])]
    assert not {"beagle", "dog", "animal"} & set(suggested)
    assert model.next_question(TEST[0], known={"animal": False}) in {"oak", "plant", "rock"}
    clash = {"beagle": True, "animal": False}
    for ask in (
        lambda: model.predict_proba(TEST[:1], known=[clash]),
        lambda: model.predict(TEST[:1], known=[clash]),
        lambda: model.suggest(TEST[0], known=clash),
        lambda: model.next_question(TEST[0], known=clash),
        lambda: model.explain(TEST[:1], known=[clash]),
    ):
        with pytest.raises(DataError, match="'beagle' is true and 'animal', which is above it"):
            ask()


def test_kept_with_the_model(model: LaMPClassifier, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "m")
    loaded = LaMPClassifier.load(folder)
    assert loaded.get_params()["label_hierarchy"] == PARENTS
    assert np.allclose(loaded.predict_proba(TEST), model.predict_proba(TEST), atol=1e-6)
    known: list[Any] = [["beagle"]] * len(TEST)
    assert (loaded.predict(TEST, known=known) == model.predict(TEST, known=known)).all()
    assert breaks(loaded, loaded.predict(TEST, top_k=2)) == 0
    described = json.loads((folder / "model.json").read_text())
    identity = loaded.model_.metadata["model_sha256"]
    for forged, loads in ((None, True), ([[0, 0]], False), ([[0, 99]], False)):
        described["hierarchy"] = forged
        (folder / "model.json").write_text(json.dumps(described))
        if loads:
            assert LaMPClassifier.load(folder).model_.metadata["model_sha256"] != identity
        else:
            with pytest.raises(ModelFolderError):
                LaMPClassifier.load(folder)
    del described["hierarchy"]  # as folders were before
    (folder / "model.json").write_text(json.dumps(described))
    assert LaMPClassifier.load(folder).model_.hierarchy is None


def test_promises_hold_for_the_lowered_probabilities(model: LaMPClassifier) -> None:
    """The held-out rows keep what is promised of them, counted with the probabilities that are predicted."""
    fitted = model.model_
    assert fitted.valid_proba is not None
    assert fitted.valid_truth is not None
    assert breaks(model, fitted.valid_proba) == 0
    cut = fitted.promised("recall>=0.6").value
    given, true = fitted.valid_proba >= cut, fitted.valid_truth == 1
    some = true.any(axis=1)
    assert ((given & true)[some].sum(axis=1) / true[some].sum(axis=1)).mean() >= 0.6


def test_explanations_add_up(model: LaMPClassifier) -> None:
    for known in (None, [["cat"]] * 6):
        found = model.explain(TEST[:6], known=known, labels=model.classes_.tolist())
        lowered = 0
        for one in found:
            for of_label in one.logit_sums:
                assert abs(of_label.total() - of_label.logit) < 1e-3
                lowered += sum(c.value < 0 for c in of_label.contributions if c.source == HIERARCHY)
            chosen = dict(zip(one.labels, one.chosen, strict=True))
            assert chosen["dog"] <= chosen["animal"]
        assert lowered > 0


def test_labels_that_change(model: LaMPClassifier, tmp_path: Path) -> None:
    folder = model.save(tmp_path / "m")

    def edges(edited: LaMPClassifier) -> set[tuple[str, str]]:
        kept = LaMPClassifier.load(edited.save(tmp_path / "edited")).model_
        assert kept.hierarchy is not None
        assert kept.hierarchy.label_names == kept.label_names
        assert all(isinstance(rule, UnderHierarchy) for rule in kept.decisions.best.values())
        proba = edited.predict_proba(TEST)
        for chosen in (
            proba,
            edited.predict(TEST),
            edited.predict(TEST, top_k=2),
            edited.predict(TEST, known=proba > 2),
        ):
            for child, parent in kept.hierarchy.edges:
                assert (chosen[:, child] <= chosen[:, parent]).all()
        names = kept.label_names
        return {(names[child], names[parent]) for child, parent in kept.hierarchy.edges}

    assert edges(LaMPClassifier.load(folder).rename_label("dog", "hound")) == {
        ("beagle", "hound"), ("hound", "animal"), ("cat", "animal"), ("oak", "plant"),
    }  # fmt: skip
    assert edges(LaMPClassifier.load(folder).drop_label("dog")) == {
        ("beagle", "animal"), ("cat", "animal"), ("oak", "plant"),
    }  # fmt: skip
    assert edges(LaMPClassifier.load(folder).merge_labels(["dog", "cat"], into="pet")) == {
        ("beagle", "pet"), ("pet", "animal"), ("oak", "plant"),
    }  # fmt: skip
    assert edges(LaMPClassifier.load(folder).merge_labels(["animal", "plant"], into="life")) == {
        ("beagle", "dog"), ("dog", "life"), ("cat", "life"), ("oak", "life"),
    }  # fmt: skip
    added = LaMPClassifier.load(folder).add_label("odd", X[:40], (X[:40, 0] > 0).astype(int))
    assert edges(added) == {("beagle", "dog"), ("dog", "animal"), ("cat", "animal"), ("oak", "plant")}


def test_more_rows_keep_the_hierarchy(model: LaMPClassifier) -> None:
    more, labels = rows(40, 2)
    on = LaMPClassifier(**model.get_params()).fit(more, [[*one, "new"] for one in sets(labels)], start=model)
    assert on.model_.hierarchy is not None
    assert on.model_.hierarchy.label_names == on.model_.label_names
    assert breaks(on, on.predict_proba(TEST)) == 0
    assert breaks(on, on.predict(TEST, top_k=2)) == 0


def test_rows_that_lack_parents_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    """Labels of leaves alone, and with all parents, make the same model; scores complete the truth as well."""
    whole = quick(label_hierarchy=PARENTS).fit(X, Y_frame(Y))
    leaves = Y.copy()
    for child, parent in PAIRS:
        leaves[Y[:, child] == 1, parent] = 0
    leaves[leaves[:, 2] == 1, 3] = 0
    assert (leaves != Y).any()
    part = quick(label_hierarchy=PARENTS, verbose=1).fit(X, Y_frame(leaves))
    lacking = int((leaves != Y).any(axis=1).sum())
    assert f"label hierarchy: {lacking} rows have a label without its parents" in capsys.readouterr().out
    assert (part.predict_proba(TEST) == whole.predict_proba(TEST)).all()
    assert part.score(X, Y_frame(leaves)) == whole.score(X, Y_frame(Y))


def Y_frame(Y: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(Y, columns=NAMES)


def test_half_labelled_rows_are_completed_coherently() -> None:
    y = Y.copy()
    y[::3, [0, 2, 3]] = np.nan
    filled = quick(label_hierarchy={0: 2, 2: 3}).complete(X, y)
    for child, parent in ((0, 2), (2, 3)):
        assert (filled[:, child] <= filled[:, parent]).all()


def test_what_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "h.csv"
    file.write_text("dog,animal\n")
    assert quick(label_hierarchy=str(file)).fit(X, sets(Y)).model_.hierarchy is not None
    with pytest.raises(DataError, match="names 'wolf'"):
        quick(label_hierarchy={"wolf": "dog"}).fit(X, sets(Y))
    with pytest.raises(ConfigError, match="exactly one class"):
        quick(label_hierarchy={"a": "b"}).fit(X, ["a", "b"] * 60)
    several = quick(label_hierarchy={"dog": ["animal", "rock"]}).fit(X, sets(Y))
    assert several.model_.config.label_graph == "given"
    assert quick(label_hierarchy=PARENTS, label_graph="full").fit(X, sets(Y)).model_.config.label_graph == "full"


def test_exported(model: LaMPClassifier, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from lampnet.export.to_onnx import OnnxModel

    exported = OnnxModel(model.model_)
    session = runtime.InferenceSession(exported.save(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    feeds = exported.feeds(model._dataset(TEST).rows)
    proba = session.run(["probabilities"], feeds)[0]
    assert breaks(model, proba) == 0
    assert np.allclose(proba, model.predict_proba(TEST), atol=1e-4)
    known = np.zeros((len(TEST), 7), dtype=np.int8)
    known[np.arange(len(TEST)), np.arange(len(TEST)) % 7] = np.where(np.arange(len(TEST)) % 2, 1, -1)
    given = session.run(["probabilities"], feeds | {"known": known})[0]
    expected = model.predict_proba(TEST, known=np.where(known == 0, np.nan, known == 1))
    assert np.allclose(given, expected, atol=1e-4)
    assert breaks(model, given) == 0
    pairs = json.loads(session.get_modelmeta().custom_metadata_map["label_hierarchy"])
    assert sorted(map(tuple, pairs)) == sorted(columns(model))
