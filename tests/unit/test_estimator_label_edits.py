"""`add_label`, `rename_label`, `merge_labels` and `drop_label` of a fitted classifier: no other label moves."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from lampnet import LaMPClassifier
from lampnet.errors import ConfigError, DataError, ModelFolderError

NAMES = ["ant", "bee", "cat", "dog"]


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6))
    return X, (X[:, :4] + 0.5 * random.normal(size=(n, 4)) > 0.3).astype(float)


def sets(Y: np.ndarray) -> list[list[str]]:
    return [[name for name, there in zip(NAMES, row, strict=True) if there] for row in Y]


def quick(**changes: Any) -> LaMPClassifier:
    return LaMPClassifier(
        preset="quick", n_jobs=1, base_learners=["linear", "knn", "forest", "boosted", "kernel"], **changes
    )


def networked(**changes: Any) -> LaMPClassifier:
    settings = {"training.folds": 2, "training.warmup_steps": 2, "training.keep_network": "always"} | changes
    return LaMPClassifier(width=8, epochs=2, n_jobs=1, base_learners=["linear"], settings=settings)


def shortlisted() -> LaMPClassifier:
    return networked(**{"model.shortlist": 2})


TEST = rows(60, 9)[0]
EXAMPLES = rows(40, 5)


@pytest.fixture(scope="module", params=[quick, networked, shortlisted])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, Y = rows(80, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lampnet.base_learners.boosted.ROUNDS", 12)
        patch.setattr("lampnet.pipeline.plan.ON_TRIAL", ())  # so few rows would leave them out
        return request.param().fit(X, sets(Y)).save(tmp_path_factory.mktemp("model") / "m")


def edited_and_kept(saved: Path, tmp_path: Path, edit: Callable[[LaMPClassifier], Any]) -> LaMPClassifier:
    """The edited model, which is the same when it is saved and loaded."""
    model = LaMPClassifier.load(saved)
    edit(model)
    proba = model.predict_proba(TEST)
    loaded = LaMPClassifier.load(model.save(tmp_path / "edited"))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert np.allclose(loaded.predict_proba(TEST), proba, atol=1e-6)
    assert (loaded.predict(TEST) == model.predict(TEST)).all()
    assert loaded.predict_proba(TEST, known=[[model.classes_[0]]] * len(TEST)).shape == proba.shape
    for metric in ("micro_f1", "macro_f1", "subset_accuracy", "example_f1", "hamming_accuracy"):
        assert loaded.set_params(metric=metric).predict(TEST).shape == proba.shape
    return model


def test_dropping_a_label_moves_no_other(saved: Path, tmp_path: Path) -> None:
    before = LaMPClassifier.load(saved).predict_proba(TEST)
    model = edited_and_kept(saved, tmp_path, lambda model: model.drop_label("bee"))
    assert model.classes_.tolist() == ["ant", "cat", "dog"]
    assert np.array_equal(model.predict_proba(TEST), before[:, [0, 2, 3]])


def test_merged_labels_are_true_where_any_is(saved: Path, tmp_path: Path) -> None:
    before = LaMPClassifier.load(saved).predict_proba(TEST)
    model = edited_and_kept(saved, tmp_path, lambda model: model.merge_labels(["dog", "bee"], "pet"))
    assert model.classes_.tolist() == ["ant", "pet", "cat"]
    proba = model.predict_proba(TEST)
    assert np.array_equal(proba[:, [0, 2]], before[:, [0, 2]])
    assert np.allclose(proba[:, 1], 1 - (1 - before[:, 1]) * (1 - before[:, 3]), atol=1e-5)


def test_renaming_changes_the_name_alone(saved: Path, tmp_path: Path) -> None:
    before = LaMPClassifier.load(saved).predict_proba(TEST)
    model = edited_and_kept(saved, tmp_path, lambda model: model.rename_label("cat", "a much longer name"))
    assert model.classes_.tolist() == ["ant", "bee", "a much longer name", "dog"]
    assert np.array_equal(model.predict_proba(TEST), before)
    assert model.model_.shown is None
    assert "a much longer name" in model.explain(TEST[:1])[0].labels
    promised = LaMPClassifier.load(saved).set_params(decision="recall>=0.5").predict(TEST)
    assert (model.set_params(decision="recall>=0.5").predict(TEST) == promised).all()


def test_an_added_label_moves_no_other_and_is_learned(saved: Path, tmp_path: Path) -> None:
    before = LaMPClassifier.load(saved).predict_proba(TEST)
    X, Y = EXAMPLES
    both = (Y[:, 0] + Y[:, 1] > 0).astype(int)  # what the other labels say is what there is to know
    model = edited_and_kept(saved, tmp_path, lambda model: model.add_label("insect", X, both))
    proba = model.predict_proba(TEST)
    assert model.classes_.tolist() == [*NAMES, "insect"]
    assert np.allclose(proba[:, :4], before, atol=1e-6)
    sure = TEST[:, :2].max(axis=1) > 1
    assert proba[sure, 4].mean() > proba[~sure, 4].mean() + 0.2


def test_several_edits_one_after_the_other(saved: Path, tmp_path: Path) -> None:
    before = LaMPClassifier.load(saved).predict_proba(TEST)
    X, Y = EXAMPLES

    def edit(model: LaMPClassifier) -> None:
        model.add_label("new", X, Y[:, 3]).drop_label("ant").merge_labels(["bee", "new"], "both")
        model.rename_label("dog", "hound").add_label("ant", X, 1 - Y[:, 0])

    model = edited_and_kept(saved, tmp_path, edit)
    assert model.classes_.tolist() == ["both", "cat", "hound", "ant"]
    assert np.allclose(model.predict_proba(TEST)[:, [1, 2]], before[:, [2, 3]], atol=1e-6)


def test_the_next_training_makes_one_model_of_it(saved: Path) -> None:
    X, Y = EXAMPLES
    start = LaMPClassifier.load(saved)
    start.add_label("new", X, Y[:, 3]).drop_label("ant").merge_labels(["bee", "cat"], "both")
    names = start.classes_.tolist()
    X, Y = rows(120, 7)
    truth = np.column_stack([np.maximum(Y[:, 1], Y[:, 2]), Y[:, 3], Y[:, 3]])
    model = networked().fit(X, [[n for n, t in zip(names, row, strict=True) if t] for row in truth], start=start)
    assert model.classes_.tolist() == names == ["both", "dog", "new"]
    assert model.model_.shown is None
    auc = [np.mean(p[t > 0][:, None] > p[t == 0]) for p, t in zip(model.predict_proba(X).T, truth.T, strict=True)]
    assert min(auc) > 0.8, auc


def test_a_prior_shifts_the_log_odds() -> None:
    X, Y = rows(80, 0)
    fitted = LaMPClassifier(preset="quick", n_jobs=1, base_learners=["linear"]).fit(X, sets(Y))
    X, Y = EXAMPLES
    plain, rare = (copy(fitted).add_label("x", X, Y[:, 3], prior).predict_proba(TEST)[:, -1] for prior in (None, 0.01))
    share = (Y[:, 3].sum() + 0.5) / (len(Y) + 1)
    inner = (plain > 1e-4) & (plain < 1 - 1e-4)
    assert np.allclose(rare[inner], expit(logit(plain[inner]) - logit(share) + logit(0.01)), atol=1e-3)


def test_what_cannot_be_is_refused(saved: Path, tmp_path: Path) -> None:
    model = LaMPClassifier.load(saved)
    X, Y = EXAMPLES
    for edit, fault, problem in (
        (lambda: model.drop_label("cow"), ConfigError, "the model has no label 'cow'; did you mean 'dog'|'cow'"),
        (lambda: model.rename_label("ant", "bee"), ConfigError, "has a label 'bee' already"),
        (lambda: model.rename_label("ant", " "), DataError, "a label needs a name"),
        (lambda: model.merge_labels(["ant", "ant"], "x"), ConfigError, "give at least two different ones"),
        (lambda: model.merge_labels(["ant", "bee"], "cat"), ConfigError, "has a label 'cat' already"),
        (lambda: model.add_label("dog", X, Y[:, 0]), ConfigError, "has a label 'dog' already"),
        (lambda: model.add_label("x", X, np.ones(40)), DataError, "some of both"),
        (lambda: model.add_label("x", X, np.full(40, 0.5)), DataError, "some of both"),
        (lambda: model.add_label("x", X, Y[:3, 0]), DataError, "40 examples were given with 3 answers"),
        (lambda: model.add_label("x", X, Y[:, 0], prior=1.5), ConfigError, "prior=1.5 must be between 0 and 1"),
    ):
        with pytest.raises(fault, match=problem):
            edit()
    assert model.classes_.tolist() == NAMES
    model.drop_label("ant")
    with pytest.raises(ConfigError, match="so it cannot be explained; learn on from it first"):
        model.explain(TEST[:1])
    with pytest.raises(ConfigError, match="makes no promises"):
        model.set_params(decision="recall>=0.5").predict(TEST)
    classes = LaMPClassifier(preset="quick", n_jobs=1, base_learners=["linear"]).fit(X, np.arange(40) % 3)
    with pytest.raises(ConfigError, match="exactly one class"):
        classes.drop_label(1)
    assert classes.rename_label(1, 7).classes_.tolist() == [0, 7, 2]


@pytest.mark.parametrize(
    ("part", "value"),
    [("groups", [[0], [9]]), ("groups", [[1, 0], [2]]), ("trained", 0), ("trained", "3"), ("groups", 3)],
)
def test_forged_descriptions_are_refused(part: str, value: Any, tmp_path: Path) -> None:
    import json

    X, Y = rows(60, 0)
    model = LaMPClassifier(preset="quick", n_jobs=1, base_learners=["linear"]).fit(X, Y[:, :3]).drop_label(2)
    folder = model.save(tmp_path / "m")
    described = json.loads((folder / "model.json").read_text())
    described["shown"][part] = value
    (folder / "model.json").write_text(json.dumps(described))
    with pytest.raises(ModelFolderError):
        LaMPClassifier.load(folder)


def test_labels_from_before_an_edit_can_still_be_scored() -> None:
    X, Y = rows(80, 0)
    new_X, new_Y = rows(40, 3)
    model = LaMPClassifier(preset="quick", n_jobs=1, base_learners=["linear"]).fit(X, sets(Y))
    model.merge_labels(["ant", "bee"], "insect").rename_label("insect", "Insect").rename_label("cat", "Cat")
    now = {"ant": "Insect", "bee": "Insect", "cat": "Cat"}
    of_today = [{now.get(label, label) for label in labels} for labels in sets(new_Y)]
    assert model.score(new_X, sets(new_Y)) == model.score(new_X, of_today) > 0.5
    model.drop_label("dog")
    assert model.score(new_X, sets(new_Y)) == model.score(new_X, [labels - {"dog"} for labels in of_today])
