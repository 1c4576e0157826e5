"""DataFrames and dicts whose rows have several parts, from fit to a saved model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.errors import DataError

RANDOM = np.random.default_rng(0)
N = 90
GENRE, OLD = RANDOM.integers(0, 3, N), RANDOM.integers(0, 2, N)
SAID = ("soldiers march to war", "two people fall in love", "a storm sinks the ship")
COLUMNS: dict[str, Any] = {
    "title": [f"{('medal', 'kiss', 'anchor')[g]} number {i}" for i, g in enumerate(GENRE)],
    "plot": [f"film {i} in which {SAID[g]}" for i, g in enumerate(GENRE)],
    "year": (1930 + 60 * (1 - OLD) + RANDOM.integers(0, 20, N)).tolist(),
    "country": RANDOM.choice(["US", "New Zealand"], N).tolist(),
    "tags": [["sad", "long"] if g == 0 else ["short"] for g in GENRE],
    "drug": ["CCO" if g else None for g in GENRE],
}
Y = np.c_[GENRE == 0, GENRE == 1, GENRE == 2, OLD].astype(int)


def quick(**parameters: Any) -> LaMPClassifier:
    usual = {"preset": "quick", "columns": {"smiles": "drug"}, "base_learners": ["linear", "knn"]}
    return LaMPClassifier(**(usual | parameters))


@pytest.fixture(scope="module")
def model() -> LaMPClassifier:
    return quick().fit(COLUMNS, Y)


def test_texts_are_texts_and_every_part_counts() -> None:
    """Each of the labels needs another part: without one of them the score falls."""
    held_out = {name: values[60:] for name, values in COLUMNS.items()}
    fitted = {name: values[:60] for name, values in COLUMNS.items()}
    both = quick().fit(fitted, Y[:60]).score(held_out, Y[60:])
    year = {"year": fitted["year"]}, {"year": held_out["year"]}
    text = {"plot": fitted["plot"]}, {"plot": held_out["plot"]}
    assert both > 0.95
    for own, other in (year, text):
        alone = LaMPClassifier(preset="quick").fit(
            own["plot"] if "plot" in own else np.array(own["year"])[:, None], Y[:60]
        )
        rows = other["plot"] if "plot" in other else np.array(other["year"])[:, None]
        assert alone.score(rows, Y[60:]) < both - 0.1


def test_frames_dicts_and_arrays_mean_the_same(model: LaMPClassifier) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(COLUMNS, index=range(7, 7 + N))
    wanted = model.predict_proba(COLUMNS)
    np.testing.assert_array_equal(model.predict_proba(frame), wanted)
    shuffled = {name: COLUMNS[name] for name in reversed(COLUMNS)}
    np.testing.assert_array_equal(model.predict_proba(shuffled), wanted)
    again = quick().fit(frame, Y)
    assert again.feature_names_in_.tolist() == list(COLUMNS)
    np.testing.assert_array_equal(again.predict_proba(frame), wanted)
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame[list(reversed(COLUMNS))])
    array = LaMPClassifier(preset="quick", base_learners=["linear"]).fit(frame.to_numpy(), Y)
    assert array.model_.encoder.kind == "parts"
    assert array.predict(frame.to_numpy()).shape == (N, 4)


def test_one_row_equals_the_row_among_others(model: LaMPClassifier) -> None:
    wanted = model.predict_proba(COLUMNS)
    for row in (0, 5, int(np.flatnonzero(GENRE == 0)[0])):
        one = {name: [values[row]] for name, values in COLUMNS.items()}
        np.testing.assert_allclose(model.predict_proba(one)[0], wanted[row], atol=1e-6)
    found = model.suggest({name: values[0] for name, values in COLUMNS.items()}, most=4)
    assert len(found) == 4
    pandas = pytest.importorskip("pandas")
    assert model.suggest(pandas.DataFrame(COLUMNS).iloc[0], most=4) == found


def test_what_training_never_saw(model: LaMPClassifier) -> None:
    strange = {"title": [None, ""], "plot": ["unseen words", None], "year": [None, 1e9], "country": ["Mars", None]}
    strange |= {"tags": [["new"], None], "drug": [None, "CC"]}
    assert np.isfinite(model.predict_proba(strange)).all()
    with pytest.raises(DataError, match="'drug': row 0: 'no' is not valid SMILES"):
        model.predict({name: ["no"] if name == "drug" else values[:1] for name, values in strange.items()})
    with pytest.raises(DataError, match="no column 'plot'"):
        model.predict({name: values for name, values in strange.items() if name != "plot"})
    with pytest.raises(DataError, match="X is list, but the model was trained on several columns"):
        model.predict(["a text"])


def test_a_saved_model_keeps_the_roles(model: LaMPClassifier, tmp_path: Path) -> None:
    loaded = LaMPClassifier.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(COLUMNS), model.predict_proba(COLUMNS))
    assert loaded.columns == {"smiles": "drug"}
    assert dict(loaded.model_.encoder.roles)["drug"] == "smiles"
    assert loaded.feature_names_in_.tolist() == list(COLUMNS)


def test_roles_are_stated(capsys: pytest.CaptureFixture[str]) -> None:
    quick(verbose=1, base_learners=["linear"]).fit(COLUMNS, Y)
    said = capsys.readouterr().out
    assert "columns: text from 'title', 'plot'; number from 'year'; category from 'country'" in said
    with pytest.raises(DataError, match="both columns and input_kind='text' were given"):
        quick(input_kind="text").fit(COLUMNS, Y)


def test_explanations_name_the_part(model: LaMPClassifier) -> None:
    whole = quick(preset="fast", width=8, epochs=1, settings={"training.keep_network": "always"}).fit(COLUMNS, Y)
    row = int(np.flatnonzero(GENRE == 2)[0])
    (found,) = whole.explain(COLUMNS, rows=row)
    names = {node.name for node in found.nodes}
    plot = next(part for part in found.input["parts"] if part["name"] == "plot")
    storm = next(node for node in found.nodes if node.name == "plot: storm")
    assert [plot["text"][start:end] for start, end in storm.places] == ["storm"]
    assert {"plot: storm", f"year = {COLUMNS['year'][row]}", "tags: short", "drug: C0"} <= names


def test_rows_of_a_request_and_chunks_of_a_file_give_the_same(model: LaMPClassifier, tmp_path: Path) -> None:
    """A service's rows, and JSON lines read seven at a time, are the rows of the table."""
    from lampnet.inference.match_schema import as_trained, match_rows
    from lampnet.readers.row_chunks import chunks
    from lampnet.readers.sources import Source
    from lampnet.service.request_rows import read_rows

    wanted = model.model_.proba(model._dataset(COLUMNS).rows)
    rows = [{name: values[row] for name, values in COLUMNS.items() if values[row] is not None} for row in range(N)]
    np.testing.assert_array_equal(model.model_.proba(read_rows(model.model_, rows).rows), wanted)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = as_trained(model.model_, Source(data=str(path)), unlabelled=True)
    parts = [match_rows(model.model_, chunk) for chunk in chunks(source, "test", 0, size=7)]
    assert max(map(len, parts)) == 7
    np.testing.assert_allclose(np.concatenate([model.model_.proba(part.rows) for part in parts]), wanted, atol=1e-6)
    for row, problem in (
        ({"other": 1}, "no row has any"),
        ({"plot": ["a"]}, "'plot' is list"),
        ({"year": "x"}, "'year' is 'x'; this column holds numbers"),
    ):
        with pytest.raises(DataError, match=problem):
            read_rows(model.model_, [row])


def test_tables_of_arrow_mean_the_same(model: LaMPClassifier) -> None:
    """Their texts were read as categories."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table(COLUMNS)
    wanted = model.predict_proba(COLUMNS)
    np.testing.assert_array_equal(model.predict_proba(table), wanted)
    pytest.importorskip("pandas")
    named = pa.table({name: Y[:, number] for number, name in enumerate("abcd")})
    again = quick().fit(table, named)
    assert again.classes_.tolist() == list("abcd")
    np.testing.assert_array_equal(again.predict_proba(table), wanted)
    assert again.score(table, named) == model.score(COLUMNS, Y)
    with pytest.raises(DataError, match="two columns called 'a'"):
        quick().fit(pa.table([[1, 2], [3, 4]], names=["a", "a"]), Y[:2])


def test_numbers_in_texts_are_numbers_where_the_model_has_numbers(model: LaMPClassifier) -> None:
    texts = COLUMNS | {"year": [str(year) for year in COLUMNS["year"]]}
    np.testing.assert_array_equal(model.predict_proba(texts), model.predict_proba(COLUMNS))
    with pytest.raises(DataError, match="'year' is read as a number, but holds 'soon'; give numbers"):
        model.predict(COLUMNS | {"year": ["1950", "soon"] * 45})


def test_importance_of_a_label_by_what_the_caller_calls_it(model: LaMPClassifier) -> None:
    importance = model.importance(COLUMNS)
    assert importance.top(model.classes_[0]) == importance.top("0")
    with pytest.raises(DataError, match="no label '9'; known: 0, 1, 2, 3"):
        importance.top(9)


def test_what_columns_became_is_told(model: LaMPClassifier, tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    wanted = {
        "text": ["title", "plot"],
        "number": ["year"],
        "category": ["country"],
        "words": ["tags"],
        "smiles": ["drug"],
    }
    assert model.columns_ == wanted
    assert LaMPClassifier.load(model.save(tmp_path / "model")).columns_ == wanted
    quickly = LaMPClassifier(preset="quick", base_learners=["linear"])
    table = pd.DataFrame({"year": COLUMNS["year"], "country": COLUMNS["country"]})
    assert quickly.fit(table, Y).columns_ == {"number": ["year"], "category": ["country"]}
    assert quickly.fit({"plot": COLUMNS["plot"]}, Y).columns_ == {"text": ["plot"]}
    assert not hasattr(quickly.fit(table[["year"]].to_numpy(), Y), "columns_")


def test_a_guessed_category_that_may_be_text_is_warned_of() -> None:
    words = ["storm", "ship", "war", "love", "kiss", "gun", "sea", "sun"]
    plots = [f"{words[i % 8]} {words[i % 5]}" for i in range(N)]  # each comes again: no text by the rule
    names = [f"name{i}" for i in range(N)]
    rows = {"plot": plots, "director": names, "country": COLUMNS["country"], "year": COLUMNS["year"]}
    with pytest.warns(UserWarning, match=r"may be texts: 'director' \(90 of 90.*'plot' \(40 of 90 distinct, 2.0 words"):
        fitted = LaMPClassifier(preset="quick", base_learners=["linear"]).fit(rows, Y)
    assert fitted.columns_["category"] == ["plot", "director", "country"]
    given = {"text": "plot", "category": ["director"]}
    sure = LaMPClassifier(preset="quick", base_learners=["linear"], columns=given).fit(rows, Y)
    assert sure.columns_["category"] == ["director", "country"]
