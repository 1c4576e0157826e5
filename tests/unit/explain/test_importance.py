"""What matters over a set of rows: the sizes are those of a slow loop over explanations, and the right feature wins."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet import LaMPClassifier
from lampnet.explain.attention import predict_rows
from lampnet.explain.importance import MESSAGES_FROM_LABELS, importance_of


@pytest.fixture(scope="module")
def classifier() -> LaMPClassifier:
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lampnet.base_learners.forest.TREES", 24)
        settings = {"model.base_learners": "linear,knn,forest", "known.method": "none"}
        model = LaMPClassifier(preset="quick", input_kind="columns", random_state=0, settings=settings)
        return model.fit(X, (X[:, [1, 3]] > 0).astype(int))


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 1000))
def test_sizes_are_those_of_a_slow_loop(classifier: LaMPClassifier, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(18, 5))  # more than are computed at once
    found, model = classifier.importance(X), classifier.model_
    predicted = predict_rows(model, classifier._dataset(X))
    assert model.stack is not None
    expected, by_learner = np.zeros((5, 2)), {name: np.zeros(2) for name in model.stack.names}
    for row in range(len(X)):
        _, learners = model.stack.terms(predicted.encoded.features, np.array([row]), np.array([0, 1]))
        sums = np.zeros((5, 2))
        for name, terms in zip(model.stack.names, learners, strict=True):
            for column, values in zip(terms.columns_E, terms.values_EK, strict=True):
                sums[column] += values
            by_learner[name] += np.abs(terms.logits() - terms.start_nK)[0] / len(X)
        expected += np.abs(sums) / len(X)
    assert [feature.name for feature in found.features] == [f"c{i}" for i in range(5)]
    np.testing.assert_allclose(found.by_feature, expected, rtol=1e-6)
    np.testing.assert_allclose(found.by_part, expected, rtol=1e-6)  # every column is a part
    for name, sizes in by_learner.items():
        np.testing.assert_allclose(found.by_learner[name], sizes, rtol=1e-6)


def test_the_column_that_makes_a_label_is_its_most_important_feature(classifier: LaMPClassifier) -> None:
    X = np.random.default_rng(1).normal(size=(50, 5))
    found = classifier.importance(X)
    for label, column in zip(found.labels, (1, 3), strict=True):
        (name, part, size), (_, _, second) = found.top(label, most=2)
        assert name == part == f"c{column}"
        assert size > 2 * second
    json.dumps(found.to_json(), allow_nan=False)
    alone = classifier.importance(X, labels=classifier.classes_[1])
    assert alone.labels == found.labels[1:]
    np.testing.assert_allclose(alone.by_feature, found.by_feature[:, 1:])


def test_parts_are_added_up_before_their_size_is_taken_and_messages_are_parts() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    random = np.random.default_rng(0)
    words = random.choice(["red", "blue", "green", "sea", "sky"], (60, 3))
    X = pandas.DataFrame({"title": [" ".join(row) for row in words], "size": random.normal(size=60)})
    y = np.stack([(words == "red").any(axis=1), X["size"] > 0], axis=1).astype(int)
    columns = {"text": "title", "number": "size"}
    options = {"training.keep_network": "always", "training.folds": 1, "input.min_count": 1, "known.method": "none"}
    model = LaMPClassifier(columns=columns, width=8, epochs=1, random_state=0, settings=options).fit(X, y)
    found = importance_of(predict_rows(model.model_, model._dataset(X)))
    assert {"title", "size", MESSAGES_FROM_LABELS} <= set(found.parts)
    title = [i for i, feature in enumerate(found.features) if feature.part == "title"]
    whole = found.by_part[found.parts.index("title")]
    assert (whole <= found.by_feature[title].sum(axis=0) + 1e-9).all()
    assert found.top(found.labels[0])[0][:2] == ("red", "title")
    assert found.top(found.labels[1])[0][:2] == ("size", "size")
