"""Known labels in the scikit-learn face: predictions, label sets, refusals, saved models."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from lampnet import LaMPClassifier
from lampnet.base_learners.shift_weights import ShiftWeights
from lampnet.errors import ConfigError, DataError

NAMES = ["corn", "grain", "wheat", "gold"]


def rows_and_tags(n, seed):
    """Wheat and corn are always grain; the input says little."""
    random = np.random.default_rng(seed)
    wheat, corn, gold = random.random((3, n)) < np.array([[0.3], [0.25], [0.4]])
    Y = np.stack([corn, wheat | corn, wheat, gold], axis=1).astype(float)
    X = Y @ random.normal(size=(4, 6)) * 0.3 + random.normal(size=(n, 6))
    return X, Y


@pytest.fixture(scope="module")
def fitted():
    X, Y = rows_and_tags(300, 0)
    tags = [[NAMES[j] for j in np.flatnonzero(row)] for row in Y]
    return LaMPClassifier(preset="quick", base_learners="linear", n_jobs=1).fit(X, tags)


@pytest.fixture(scope="module")
def new_rows():
    return rows_and_tags(40, 1)


def test_a_known_label_raises_what_it_implies(fitted, new_rows):
    X, _ = new_rows
    grain = list(fitted.classes_).index("grain")
    before = fitted.predict_proba(X)[:, grain]
    after = fitted.predict_proba(X, known=[["wheat"]] * len(X))[:, grain]
    refused = fitted.predict_proba(X, known=[{"wheat": False, "corn": False}] * len(X))[:, grain]
    assert (after > before).all()
    assert after.mean() > 0.9
    assert refused.mean() < 0.15


def test_a_probable_label_counts_by_its_probability(fitted, new_rows):
    X, _ = new_rows
    others = [j for j, name in enumerate(fitted.classes_) if name not in ("wheat", "corn")]
    true, false = (fitted.predict_proba(X, known=[{"wheat": state}] * len(X)) for state in (True, False))
    soft = fitted.predict_proba(X, known=[{"wheat": 0.25}] * len(X))
    np.testing.assert_allclose(soft[:, others], (0.25 * true + 0.75 * false)[:, others], atol=1e-6)
    np.testing.assert_array_equal(soft[:, list(fitted.classes_).index("wheat")], 0.25)
    mixed = fitted.predict_proba(X[:2], known=[{"wheat": 0.25}, ["wheat"]])
    np.testing.assert_array_equal(mixed, [soft[0], true[1]])


def test_a_label_that_is_probably_true_is_in_the_set_and_is_not_suggested(fitted, new_rows):
    X, _ = new_rows
    known = [{"gold": 0.8, "corn": 0.1}] * len(X)
    for labels in fitted.predict_labels(X, known=known):
        assert "gold" in labels
        assert "corn" not in labels
    found = fitted.suggest(X[0], known=known[0])
    assert {one["label"] for one in found} == {"grain", "wheat"}
    assert all(set(one["known"]) == {"gold", "corn"} for one in found)


def test_known_labels_come_back_as_they_were_given(fitted, new_rows):
    X, Y = new_rows
    random = np.random.default_rng(3)
    known = np.where(random.random(Y.shape) < 0.5, Y, np.nan)
    order = [NAMES.index(name) for name in fitted.classes_]
    known = known[:, order]
    given = ~np.isnan(known)
    np.testing.assert_array_equal(fitted.predict_proba(X, known=known)[given], known[given])
    np.testing.assert_array_equal(fitted.predict(X, known=known)[given], known[given])
    wanted = [{fitted.classes_[j]: bool(row[j]) for j in np.flatnonzero(~np.isnan(row))} for row in known]
    np.testing.assert_array_equal(fitted.predict(X, known=wanted), fitted.predict(X, known=known))
    for labels, row in zip(fitted.predict_labels(X, known=known), known, strict=True):
        assert {fitted.classes_[j] for j in np.flatnonzero(row == 1)} <= set(labels)
        assert not {fitted.classes_[j] for j in np.flatnonzero(row == 0)} & set(labels)


def test_with_nothing_known_nothing_changes(fitted, new_rows):
    X, _ = new_rows
    nothing = np.full((len(X), 4), np.nan)
    np.testing.assert_allclose(fitted.predict_proba(X, known=nothing), fitted.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(fitted.predict(X, known=nothing), fitted.predict(X))
    mixed = nothing.copy()
    mixed[::2, 0] = 1
    np.testing.assert_allclose(fitted.predict_proba(X, known=mixed)[1::2], fitted.predict_proba(X)[1::2], atol=1e-6)


def test_a_row_does_not_depend_on_the_rows_beside_it(fitted, new_rows):
    X, Y = new_rows
    known = np.where(np.random.default_rng(4).random(Y.shape) < 0.4, Y, np.nan)
    together = fitted.predict_proba(X, known=known)
    alone = np.vstack([fitted.predict_proba(X[i : i + 1], known=known[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_a_sparse_matrix_of_known_labels(fitted, new_rows):
    X, _ = new_rows
    known = sparse.csr_matrix(([1.0, 0.0], ([0, 1], [2, 2])), shape=(len(X), 4))
    dense = np.full((len(X), 4), np.nan)
    dense[0, 2], dense[1, 2] = 1, 0
    np.testing.assert_array_equal(fitted.predict_proba(X, known=known), fitted.predict_proba(X, known=dense))


def test_mistakes_get_a_sentence(fitted, new_rows):
    X, _ = new_rows
    with pytest.raises(DataError, match="the model has no label 'wheta'; did you mean 'wheat'"):
        fitted.predict(X[:1], known=[["wheta"]])
    with pytest.raises(DataError, match="X has 2 rows, but known has 1"):
        fitted.predict_proba(X[:2], known=[["wheat"]])


def test_a_saved_model_predicts_the_same_from_known_labels(fitted, new_rows, tmp_path):
    X, Y = new_rows
    known = np.where(np.random.default_rng(5).random(Y.shape) < 0.4, Y, np.nan)
    loaded = LaMPClassifier.load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(X, known=known), fitted.predict_proba(X, known=known))
    np.testing.assert_array_equal(loaded.predict(X, known=known), fitted.predict(X, known=known))


def test_networks_on_known_labels_are_saved_and_used(new_rows, tmp_path, monkeypatch):
    monkeypatch.setattr("lampnet.pipeline.known.CORRECTIONS", (1.0,))  # kept whether or not they help
    X, Y = rows_and_tags(200, 2)
    settings = {"known.method": "messages", "known.width": 8, "known.members": 2, "known.train_steps": 20}
    model = LaMPClassifier(preset="quick", base_learners="linear", n_jobs=1, settings=settings).fit(X, Y)
    assert len(model.model_.conditional.members) == 2
    loaded = LaMPClassifier.load(model.save(tmp_path / "model"))
    known = np.where(np.random.default_rng(5).random((40, 4)) < 0.4, new_rows[1], np.nan)
    np.testing.assert_allclose(
        loaded.predict_proba(new_rows[0], known=known), model.predict_proba(new_rows[0], known=known), atol=1e-6
    )


def test_unknown_labels_of_training_rows_are_no_false_ones():
    """Grain is recorded for a third of the rows only; where it is not, it is unknown, not absent."""
    X, Y = rows_and_tags(600, 4)
    Y[np.arange(600) % 3 != 0, 1] = np.nan
    model = LaMPClassifier(preset="quick", base_learners="linear", n_jobs=1).fit(X, Y)
    new, _ = rows_and_tags(30, 5)
    known = np.full((30, 4), np.nan)
    known[:, 2] = 1
    assert model.predict_proba(new, known=known)[:, 1].mean() > 0.85


def test_one_class_per_row_takes_refused_classes():
    X, _ = rows_and_tags(120, 6)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = LaMPClassifier(preset="quick", base_learners="linear", n_jobs=1).fit(X, y)
    proba = model.predict_proba(X[:5], known=[{"a": False}] * 5)
    assert (proba[:, 0] == 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.predict(X[:5], known=[["c"]] * 5).tolist() == ["c"] * 5


def test_a_model_trained_without_says_so():
    X, Y = rows_and_tags(60, 0)
    settings = {"known.method": "none"}
    model = LaMPClassifier(preset="quick", base_learners="linear", n_jobs=1, settings=settings).fit(X, Y)
    with pytest.raises(ConfigError, match=r"cannot take known labels: it was trained with known\.method=none"):
        model.predict(X[:1], known=[[0]])


def test_suggestions_are_the_unknown_labels_by_probability_with_what_moved_them(fitted, new_rows):
    x = new_rows[0][0]
    found = fitted.suggest(x, known={"wheat": True, "gold": False})
    proba = dict(
        zip(fitted.classes_, fitted.predict_proba(x[None], known=[{"wheat": True, "gold": False}])[0], strict=True)
    )
    assert [one["label"] for one in found] == sorted(("corn", "grain"), key=lambda name: -proba[name])
    assert found[0]["label"] == "grain"
    assert found[0]["proba"] == pytest.approx(proba["grain"], abs=1e-6)
    assert found[0]["known"]["wheat"] > 1 > abs(found[0]["known"]["gold"])
    assert len(fitted.suggest(x, most=1)) == 1
    assert fitted.suggest(x)[0]["known"] == {}


def test_what_a_known_label_moved_is_what_is_lost_without_it(fitted, new_rows):
    """How much is known changes what the rest counts; here it does not, so that one label's part can be seen."""
    x = new_rows[0][:1]
    conditional = fitted.model_.conditional
    table = conditional.shift_weights.table_PC * np.array([[1], [0], [0], [0]], np.float32)
    table[:, :2] = 0
    same = replace(conditional, shift_weights=ShiftWeights(table))
    fitted = copy(fitted)
    fitted.model_ = replace(fitted.model_, conditional=same)
    corn = list(fitted.classes_).index("corn")
    both, one = (fitted.predict_proba(x, known=[known])[0, corn] for known in (["wheat", "grain"], ["grain"]))
    moved = next(s for s in fitted.suggest(x, known=["wheat", "grain"]) if s["label"] == "corn")["known"]["wheat"]
    assert moved == pytest.approx(np.log(both / (1 - both)) - np.log(one / (1 - one)), abs=1e-3)


def test_the_question_is_the_one_that_a_search_over_all_answers_finds(fitted, new_rows):
    x = new_rows[0][:1]

    def entropy(known):
        p = fitted.predict_proba(x, known=[known])[0]
        p = p[(p > 0) & (p < 1)]
        return float(-(p * np.log(p) + (1 - p) * np.log(1 - p)).sum())

    start = dict(zip(fitted.classes_, fitted.predict_proba(x)[0], strict=True))
    expected = {}
    for name, p in start.items():
        own = -(p * np.log(p) + (1 - p) * np.log(1 - p))
        expected[name] = entropy({}) - own - p * entropy({name: True}) - (1 - p) * entropy({name: False})
    assert fitted.next_question(x) == max(expected, key=expected.get)
    assert fitted.next_question(x, known={"corn": True, "grain": True, "gold": False}) is None


def test_one_row_at_a_time(fitted, new_rows):
    with pytest.raises(DataError, match="2 rows were given; give one row at a time"):
        fitted.suggest(new_rows[0][:2])


def test_completing_keeps_what_is_known(fitted, new_rows):
    X, Y = new_rows
    half = np.where(np.random.default_rng(0).random(Y.shape) < 0.5, Y, np.nan)
    full = fitted.complete(X, half)
    assert not np.isnan(full).any()
    np.testing.assert_array_equal(full[~np.isnan(half)], half[~np.isnan(half)])


def test_one_picture_is_one_row() -> None:
    draw = np.random.default_rng(0)
    pictures = draw.integers(0, 255, (20, 8, 8, 3), dtype=np.uint8)
    model = LaMPClassifier(preset="quick", input_kind="image", n_jobs=1)
    model.fit(list(pictures), [["a", "b"], ["a"], ["c"], ["b", "c"]] * 5)
    proba = model.predict_proba(list(pictures[:1]), known=[["a"]])[0]
    found = {one["label"]: one["proba"] for one in model.suggest(pictures[0], known=["a"])}
    assert found == {label: pytest.approx(proba[number]) for number, label in enumerate("abc") if label != "a"}
    assert model.next_question(pictures[0], known=["a"]) in ("b", "c")
