"""LaMPClassifier with the inputs, labels and tools that scikit-learn users have."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lampnet import LaMPClassifier
from lampnet.encoders.text_tokens import Tokens
from lampnet.evaluation.metrics import example_f1, subset_accuracy

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 6))
Y = np.stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 0] + X[:, 1] > 1], axis=1).astype(int)
TEXTS = [f"{'rome ' if a else ''}{'cup ' if b else ''}news" for a, b in Y[:, :2]]
SETS = [{name for name, has in zip(("italy", "sport"), row[:2], strict=True) if has} for row in Y]


def small(**parameters: object) -> LaMPClassifier:
    base = {
        "width": 8,
        "epochs": 3,
        "n_jobs": 1,
        "settings": {"training.warmup_steps": 3, "training.learning_rate": 0.02},
    }
    return LaMPClassifier(**(base | parameters))


@pytest.fixture(scope="module")
def fitted() -> LaMPClassifier:
    return small(epochs=15).fit(X, Y)


def test_outputs_agree_with_one_another(fitted: LaMPClassifier) -> None:
    proba, logits, chosen = fitted.predict_proba(X), fitted.decision_function(X), fitted.predict(X)
    assert proba.shape == logits.shape == chosen.shape == (60, 3)
    assert np.allclose(proba, 1 / (1 + np.exp(-logits)))
    assert set(np.unique(chosen)) <= {0, 1}
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert [set(labels) for labels in fitted.predict_labels(X)] == [set(np.flatnonzero(row)) for row in chosen]
    assert fitted.score(X, Y) == example_f1(Y, chosen)
    assert (chosen == Y).mean() > 0.85


def test_score_is_the_metric_that_was_asked_for() -> None:
    model = small(metric="subset_accuracy").fit(X, Y)
    assert model.score(X, Y) == subset_accuracy(Y, model.predict(X))


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_matrix])
def test_sparse_in_sparse_out(form: type) -> None:
    words = (X > 0).astype(np.float32)
    model = small().fit(form(words), sparse.csr_matrix(Y))
    predicted = model.predict(form(words))
    assert sparse.issparse(predicted)
    assert np.array_equal(predicted.toarray(), small().fit(form(words), Y).predict(form(words)))
    assert model.model_.encoder.kind == "wordset"


def test_texts_and_label_sets() -> None:
    model = small(epochs=8).fit(TEXTS, SETS)
    assert model.model_.encoder.kind == "text"
    assert model.classes_.tolist() == ["italy", "sport"]
    predicted = [set(labels) for labels in model.predict_labels(TEXTS)]
    assert np.mean([p == s for p, s in zip(predicted, SETS, strict=True)]) > 0.9
    assert set(model.predict_labels(["rome cup"])[0]) == {"italy", "sport"}
    with pytest.warns(UserWarning, match="never seen in training.*'snow'"):
        assert model.score(["rome"], [{"snow"}]) == 0


def test_a_data_frame_keeps_names_and_categories() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue")})
    frame.loc[3, "size"] = np.nan
    labels = pandas.DataFrame(Y[:, :2], columns=["large", "warm"])
    model = small(epochs=10).fit(frame, labels)
    assert model.classes_.tolist() == ["large", "warm"]
    assert model.feature_names_in_.tolist() == ["size", "colour"]
    assert model.model_.encoder.encode(model._dataset(frame).rows).node_names(0)[1].startswith("colour=")
    assert model.predict(frame[:5]).shape == (5, 2)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"size": "weight"}))


def test_a_wide_array_is_a_vector_and_pictures_are_pictures() -> None:
    wide = np.concatenate([X, np.zeros((60, 600))], axis=1)
    assert small(epochs=1).fit(wide, Y).model_.encoder.kind == "vector"
    pictures = RANDOM.integers(0, 255, size=(20, 16, 16), dtype=np.uint8)
    model = small(epochs=1, settings={"input.patch": 8, "input.image_side": 16}).fit(pictures, Y[:20])
    assert model.model_.encoder.kind == "image"
    assert model.predict_proba(pictures[:3]).shape == (3, 3)


def test_molecules() -> None:
    pytest.importorskip("rdkit")
    smiles = ["CCO", "c1ccccc1", "CC(=O)O", "CCN"] * 5
    model = small(input_kind="molecule", epochs=1).fit(smiles, Y[:20])
    assert model.predict_proba(["CCC"]).shape == (1, 3)


def test_unknown_labels_are_left_out() -> None:
    unknown = Y.astype(float)
    unknown[::3, 2] = np.nan
    model = small().fit(X, unknown)
    assert np.isfinite(model.predict_proba(X)).all()
    assert 0 <= model.score(X, unknown) <= 1


def test_one_class_a_row() -> None:
    names = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = small(epochs=25).fit(X, names)
    assert model.score(X, names) > 0.8
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    assert set(model.predict(X)) <= set(names)


def test_pipeline_grid_search_clone_and_pickle(fitted: LaMPClassifier) -> None:
    pipeline = make_pipeline(StandardScaler(), small(epochs=1))
    search = GridSearchCV(pipeline, {"lampclassifier__width": [4, 8]}, cv=2).fit(X, Y)
    assert search.best_params_["lampclassifier__width"] in (4, 8)
    assert clone(fitted).get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_save_and_load(fitted: LaMPClassifier, tmp_path: Path) -> None:
    loaded = LaMPClassifier.load(fitted.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert loaded.metric == fitted.metric


def test_a_random_state_repeats() -> None:
    a, b = (small(random_state=5).fit(X, Y).predict_proba(X) for _ in range(2))
    assert np.array_equal(a, b)


def test_given_edges_become_the_label_graph() -> None:
    model = small(label_graph=np.array([[0, 2]]), epochs=1).fit(X, Y)
    assert model.model_.graph.toarray().astype(int).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_a_taxonomy_file_is_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "labels.taxonomy"
    path.write_text("Root\titaly\nitaly\tsport\n")
    model = small(label_graph=path, epochs=1).fit(TEXTS, SETS)
    assert model.model_.config.label_graph == "tree"
    assert model.model_.graph.toarray().astype(int).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("parameters", "x", "y", "sentence"),
    [
        ({"settings": {"model.widht": 4}}, X, Y, "did you mean 'model.width'"),
        ({"preset": "papr"}, X, Y, "did you mean 'paper'"),
        ({"metric": "f1"}, X, Y, "is not known"),
        ({"label_graph": "ful"}, X, Y, "did you mean 'full'"),
        ({"input_kind": "txt"}, X, Y, "did you mean 'text'"),
        ({"features": "embedding"}, X, Y, "did you mean 'embed'"),
        ({"validation_fraction": 2.0}, X, Y, "between 0 and 1"),
        ({}, X, Y[:50], "X has 60 rows, but y has 50"),
        ({}, X, Y * 0, "nothing to learn from"),
        ({}, X, Y + 1, "must hold 0, 1 or NaN"),
        ({}, X, None, "requires y to be passed"),
        ({}, X[:1], Y[:1], "n_samples=1"),
        ({}, [[1.0, 2.0], [1.0]], Y[:2], "different lengths"),
        ({}, sparse.csr_matrix(np.where(X > 1, np.nan, X)), Y, "NaN"),
        ({}, "one text", Y, "give a list of texts"),
        ({}, TEXTS, [{"a"}] * 3, "X has 60 rows, but y has 3"),
        ({}, TEXTS, [set()] * 60, "nothing to learn from"),
    ],
)
def test_mistakes_get_a_sentence(parameters: dict[str, object], x: object, y: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        small(**parameters).fit(x, y)


def test_a_validation_fraction_that_is_given_is_used_by_a_single_network() -> None:
    X = sparse.csr_matrix(np.random.default_rng(0).random((60, 6)) < 0.5, dtype=np.float32)
    y = np.asarray(X[:, :2].todense())
    options = {"width": 8, "epochs": 1, "n_jobs": 1, "settings": {"training.keep_network": "always"}}
    single = LaMPClassifier(validation_fraction=0.25, **options).fit(X, y).model_
    assert single.metadata["rows"] == {"train": 45, "valid": 15}
    assert single.metadata["networks"] == 1
    assert LaMPClassifier(**options).fit(X, y).model_.metadata["networks"] == 5


def test_predicting_tokenizes_each_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small().fit(TEXTS, SETS)
    tokenized: list[str] = []
    numbers = Tokens.numbers

    def counted(tokens: Tokens, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        tokenized.extend(texts)
        return numbers(tokens, texts)

    monkeypatch.setattr(Tokens, "numbers", counted)
    model.predict_proba(TEXTS)
    assert tokenized == TEXTS
