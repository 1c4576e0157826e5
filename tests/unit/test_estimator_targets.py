"""What users call y, and what comes back of it: classes, scores, saved and loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score

from lampnet import LaMPClassifier
from lampnet.data.labels import Form, indicator_of, read_targets
from lampnet.errors import ConfigError, DataError, ModelFolderError
from lampnet.evaluation.metrics import example_f1
from lampnet.evaluation.rules import TopK

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 4))
Y = (X[:, :3] + 0.3 * RANDOM.normal(size=(40, 3)) > 0).astype(int)
NUMBERS = [np.flatnonzero(row).tolist() for row in Y]


def small(**parameters: Any) -> LaMPClassifier:
    settings = {"training.folds": 1}
    return LaMPClassifier(**({"width": 8, "epochs": 1, "base_learners": "none", "settings": settings} | parameters))


@pytest.fixture(scope="module")
def fitted() -> LaMPClassifier:
    return small(epochs=5).fit(X, Y)


def pandas() -> Any:
    return pytest.importorskip("pandas")


BIG = np.array([10**30, 10**30 + 1], dtype=object)


@pytest.mark.parametrize(
    "y",
    [
        Y[:, 0].astype(bool),
        Y[:, 0].astype(float),
        Y[:, 0].astype(np.int32),
        np.where(Y[:, 0], "yes", "no"),
        BIG[Y[:, 0]],
        Y[:, 0].astype(np.uint64) + np.uint64(2**63),
        [set(np.flatnonzero(row)) for row in Y],  # NumPy's numbers
        [{bool(row[0])} for row in Y],
        [{("a", 1, 2.5)[j] for j in np.flatnonzero(row)} for row in Y],
    ],
    ids=["bool", "float", "int32", "text", "big", "uint64", "numpy sets", "bool sets", "mixed sets"],
)
def test_labels_come_back_from_a_folder_as_they_were(y: Any, tmp_path: Path) -> None:
    model = small().fit(X, y)
    loaded = LaMPClassifier.load(model.save(tmp_path / "model"))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert list(map(repr, loaded.classes_.tolist())) == list(map(repr, model.classes_.tolist()))
    assert loaded.score(X, y) == model.score(X, y) > 0


def test_labels_that_cannot_be_stored_are_refused_at_save(tmp_path: Path) -> None:
    model = small().fit(X, [{("pair", j) for j in row} for row in NUMBERS])
    with pytest.raises(DataError, match="tuple, which a model folder cannot keep"):
        model.save(tmp_path / "model")


def test_score_finds_the_columns_of_a_frame_by_name() -> None:
    frame = pandas().DataFrame(Y, columns=["a", "b", "c"])
    model = small(epochs=5).fit(X, frame)
    right = model.score(X, frame)
    assert right == model.score(X, Y) == example_f1(Y, model.predict(X))
    assert model.score(X, frame[["c", "a", "b"]]) == right
    with pytest.raises(DataError, match="the column 'z', which is not a label of the model and no column 'a'"):
        model.score(X, frame.rename(columns={"a": "z"}))
    with pytest.raises(DataError, match="no column 'c'"):
        model.score(X, frame[["a", "b"]])
    with pytest.raises(DataError, match="two columns called 'a'"):
        model.score(X, frame[["a", "a", "b"]])


def test_a_model_without_names_takes_a_frames_columns_by_place(fitted: LaMPClassifier) -> None:
    frame = pandas().DataFrame(Y, columns=["a", "b", "c"])
    assert fitted.score(X, frame) == fitted.score(X, Y)
    with pytest.raises(DataError, match="y has 2 labels, the model 3"):
        fitted.score(X, frame[["a", "b"]])


def test_integer_columns_stay_integers() -> None:
    frame = pandas().DataFrame(Y, columns=[10, 30, 20])
    model = small().fit(X, frame)
    assert model.classes_.tolist() == [10, 30, 20]
    assert model.model_.label_names == ("10", "30", "20")
    assert model.score(X, frame[[20, 30, 10]]) == model.score(X, frame)


def test_a_frame_of_one_column_of_classes_is_a_series() -> None:
    names = pandas().DataFrame({"tag": np.where(Y[:, 0], "yes", "no")})
    model = small().fit(X, names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, names) == model.score(X, names["tag"]) > 0
    sets = pandas().DataFrame({"tags": [{"a", "b"} if a else {"b"} for a in Y[:, 0]]})
    assert small().fit(X, sets).classes_.tolist() == ["a", "b"]
    assert read_targets(pandas().DataFrame({"a": [0, 1, 1]}), 3).classes.tolist() == ["a"]


def test_label_lists_are_read_as_at_fit_however_they_are_cut(tmp_path: Path) -> None:
    model = small(epochs=5).fit(X, NUMBERS)
    truth, predicted = Y, model.predict(X)
    for known in (model, LaMPClassifier.load(model.save(tmp_path / "model"))):
        for row in range(5):
            assert known.score(X[[row]], [NUMBERS[row]]) == example_f1(truth[[row]], predicted[[row]])
    assert indicator_of([[0, 1], [1, 0]], np.arange(2), Form(sets=True), 2).tolist() == [[1, 1], [1, 1]]
    assert indicator_of([[0, 1], [1, 0]], np.arange(2), Form(), 2).tolist() == [[0, 1], [1, 0]]


def test_rows_of_labels_may_be_arrays_and_may_differ_late() -> None:
    assert read_targets([np.array([0, 2]), np.array([1])], 2).labels.toarray().tolist() == [[1, 0, 1], [0, 1, 0]]
    late = [[0, 1]] * 1500 + [[1]]
    assert read_targets(late, len(late)).form.sets


def test_labels_that_training_did_not_have_count_as_missed() -> None:
    sets = [{"a"} if a else {"b"} for a in Y[:, 0]]
    model = small(epochs=5).fit(X, sets)
    before = model.score(X, sets)
    assert before > 0.5
    with pytest.warns(UserWarning, match="2 label.* never seen in training and count as missed: 'x', 'y'"):
        after = model.score(X, [labels | {"x", "y"} for labels in sets])
    assert 0 < after < before


def test_a_rare_label_does_not_break_a_cross_validation() -> None:
    sets = [{"a"} if a else {"b"} for a in Y[:, 0]]
    sets[0] = {"rare"}
    with pytest.warns(UserWarning, match="'rare'"):
        scores = cross_val_score(small(), X, sets, cv=4)
    assert np.isfinite(scores).all()


def test_missing_labels_of_pandas_types_are_unknown() -> None:
    frame = pandas().DataFrame(Y, columns=["a", "b", "c"]).astype({"a": "Int64", "b": "boolean"})
    frame.loc[3, ["a", "b"]] = None
    targets = read_targets(frame, 40)
    assert np.isnan(targets.labels.toarray()[3]).tolist() == [True, True, False]
    assert np.isfinite(small().fit(X, frame).score(X, frame))
    with pytest.raises(DataError, match="row 1 of y is missing"):
        read_targets(pandas().Series([True, None, False], dtype="boolean"), 3)


def test_an_entry_stored_twice_is_no_one() -> None:
    twice = sparse.csr_matrix((np.ones(3), [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    with pytest.raises(DataError, match="must hold 0, 1 or NaN"):
        read_targets(twice, 2)
    assert twice.nnz == 3


def test_labels_with_half_characters_are_refused_before_training() -> None:
    for y in ([{"a\udce9"}, {"b"}], ["a\udce9", "b"]):
        with pytest.raises(DataError, match="half a character"):
            read_targets(y, 2)


def test_labels_that_no_set_can_hold_are_refused() -> None:
    with pytest.raises(DataError, match=r"row 0 of y is \[\['a'\]\]"):
        read_targets([[["a"]], []], 2)


def test_scores_need_rows_that_fit() -> None:
    texts = ["red fox", "blue sea"] * 10
    model = small(settings={"training.folds": 1, "input.min_count": 1}).fit(texts, ["a", "b"] * 10)
    with pytest.raises(DataError, match="X has no row"):
        model.score([], [])
    with pytest.raises(DataError, match="X has 2 rows, but y has 1"):
        model.score(texts[:2], ["a"])


def test_a_metric_set_later_is_checked(fitted: LaMPClassifier, tmp_path: Path) -> None:
    again = LaMPClassifier.load(fitted.save(tmp_path / "model")).set_params(metric="exampel_f1")
    for call in (lambda: again.predict(X), lambda: again.score(X, Y), lambda: again.save(tmp_path / "other")):
        with pytest.raises(ConfigError, match="did you mean 'example_f1'"):
            call()


def test_explanations_decide_as_predict_does() -> None:
    single = small(metric="subset_accuracy").fit(X, Y[:, 0].astype(bool))
    assert single._rule() == TopK(1)
    for row, explanation in enumerate(single.explain(X[:5])):
        chosen = [label for label, has in zip(explanation.labels, explanation.chosen, strict=True) if has]
        assert chosen == [str(single.predict(X[:5])[row])]
    model = small(metric="hamming_accuracy").fit(X, Y)
    rule = model.model_.decisions.best["hamming_accuracy"].describe()
    assert {explanation.rule for explanation in model.explain(X[:3])} == {rule}


def test_explain_takes_what_users_write(fitted: LaMPClassifier) -> None:
    mask = np.zeros(40, dtype=bool)
    mask[[3, 5]] = True
    assert [e.row for e in fitted.explain(X, rows=mask)] == [3, 5]
    assert [e.row for e in fitted.explain(X, rows=mask.tolist())] == [3, 5]
    assert [e.row for e in fitted.explain(X, rows=0)] == [0]
    assert fitted.explain(X, rows=[]) == []
    for labels in ([fitted.classes_[1]], 1, "1", ["1"]):
        assert "1" in fitted.explain(X, rows=[0], labels=labels)[0].labels
    with pytest.raises(DataError, match="no label 'war'"):
        fitted.explain(X, rows=[0], labels="war")
    with pytest.raises(DataError, match="one True or False per row"):
        fitted.explain(X, rows=[True, False])
    with pytest.raises(DataError, match="not row numbers"):
        fitted.explain(X, rows=[0.5])


def test_a_loaded_estimator_knows_its_parameters(tmp_path: Path) -> None:
    model = small(label_graph=np.array([[0, 2]]), n_jobs=1, random_state=np.int64(3), steps=1).fit(X, Y)
    loaded = LaMPClassifier.load(model.save(tmp_path / "model"))
    expected = model.get_params() | {"label_graph": [[0, 2]], "random_state": 3}
    assert loaded.get_params() == expected
    assert loaded.n_features_in_ == 4
    with pytest.raises(ValueError, match="4 features"):
        loaded.predict(X[:, :3])
    assert np.array_equal(loaded.fit(X, Y).predict_proba(X), model.predict_proba(X))


def test_parameters_that_are_no_plain_data_are_left_out(tmp_path: Path) -> None:
    state = np.random.RandomState(0)
    model = small(random_state=state).fit(X, Y)
    before = state.get_state()[2]
    assert LaMPClassifier.load(model.save(tmp_path / "model")).random_state == 0
    assert state.get_state()[2] == before  # saving draws nothing


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("estimator",), []),
        (("estimator", "params", "metric"), []),
        (("estimator", "params", "metric"), "f1"),
        (("estimator", "params", "width"), "many"),
        (("estimator", "params", "width"), [3]),
        (("estimator", "params", "widht"), 3),
        (("estimator", "params", "settings"), ["a"]),
        (("estimator", "params", "label_graph"), {}),
        (("estimator", "params", "random_state"), "now"),
        (("estimator", "params", "input_kind"), "sound"),
        (("estimator", "params", "time_budget"), []),
        (("estimator", "params", "features"), {}),
        (("estimator", "params", "preset"), []),
        (("estimator", "params", "n_jobs"), {}),
        (("estimator", "params"), [1]),
        (("estimator", "classes"), [[0], 1, 2]),
        (("estimator", "classes"), ["0", "1", 10**30]),
        (("estimator", "classes"), None),
        (("estimator", "class_type"), "bool"),
        (("estimator", "class_type"), "float64"),
        (("estimator", "class_type"), []),
        (("estimator", "single"), 1),
        (("estimator", "feature_names"), ["a"]),
        (("estimator", "feature_names"), [1, 2, 3, 4]),
        (("estimator", "columns"), ["a"]),
        (("estimator", "columns"), {"text": "a"}),
        (("estimator", "columns"), {"text": [1]}),
        (("estimator", "columns"), {"sound": ["a"]}),
        (("epochs",), "many"),
        (("epochs",), None),
        (("epochs",), [1]),
        (("epochs",), -1),
    ],
)
def test_a_forged_folder_is_refused(place: tuple[str, ...], value: Any, fitted: LaMPClassifier, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "model")
    data = json.loads((folder / "model.json").read_text())
    entry = data["metadata"]
    for key in place[:-1]:
        entry = entry[key]
    entry[place[-1]] = value
    (folder / "model.json").write_text(json.dumps(data))
    with pytest.raises(ModelFolderError, match="is damaged"):
        LaMPClassifier.load(folder)


def test_joined_labels_are_taken_apart_and_said() -> None:
    texts = ["red fox", "blue sea", "red sea", "blue fox"] * 6
    cells = ["fox;red", "sea;blue", "red;sea", "fox;blue"] * 6
    with pytest.warns(UserWarning, match="several labels per row, separated by ';'"):
        model = LaMPClassifier(preset="quick", base_learners=["linear"]).fit(texts, cells)
    assert model.classes_.tolist() == ["blue", "fox", "red", "sea"]
    assert model.score(texts, cells) == model.score(texts, [cell.split(";") for cell in cells])
    assert model.score(texts[:1], ["red"]) < 1


@pytest.mark.parametrize("cells", [["a, b", "a, c"] * 6, ["x/y", "z"] * 6, [f"{i};{i}" for i in range(6)] * 2])
def test_classes_with_signs_in_their_names_stay_classes(cells: list[str]) -> None:
    assert read_targets(cells, len(cells)).form.single


def test_classes_that_look_like_several_labels_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="one class per row, such as 'a;b'"):
        assert read_targets(["a;b", "b;c"] * 6, 12).form.single
    with pytest.warns(UserWarning, match=r"one class per row, such as 'a\+b'"):
        assert read_targets(["a+b", "b", "a"] * 4, 12).form.single


def test_a_label_that_no_row_knows_is_warned_of() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    Y = np.column_stack([X[:, 0] > 0, np.full(20, np.nan), X[:, 1] > 0])
    with pytest.warns(UserWarning, match="unknown in every training row.*'1'"):
        LaMPClassifier(preset="quick", base_learners=["linear"]).fit(X, Y)


def test_a_frame_of_yes_and_no_is_an_indicator() -> None:
    answers = pandas().DataFrame({"war": ["ja", "nein", None] * 4, "sea": ["nein", "ja", "ja"] * 4})
    read = read_targets(answers, 12)
    assert read.names == ("war", "sea")
    np.testing.assert_array_equal(read.labels.toarray()[:3], [[1, 0], [0, 1], [np.nan, 1]])
    with pytest.raises(DataError, match="yes and no"):
        read_targets(answers.replace("ja", "perhaps"), 12)
    assert small().fit(X[:12], answers).classes_.tolist() == ["war", "sea"]


def test_missing_label_sets_and_no_rows_get_a_sentence() -> None:
    with pytest.raises(DataError, match="row 1 of y is missing; give an empty list"):
        read_targets([["a"], None, ["b", "c"]], 3)
    with pytest.raises(DataError, match="give '' for a row without labels"):
        read_targets(np.array(["a;b", np.nan, "b"], dtype=object), 3)
    with pytest.raises(DataError, match="y has no rows"):
        read_targets(np.array([], dtype=object), 0)


def test_rows_that_are_all_alike_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="all training rows have the same labels"):
        small().fit(X, [["a"]] * 40)
