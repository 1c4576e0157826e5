"""What users call X: texts, tables, dates, paths; names and places; what is refused, and with which sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from lampnet import LaMPClassifier
from lampnet.data.dataset import Table
from lampnet.data.from_arrays import row_numbers, rows_of, table_of
from lampnet.data.kinds import kind_of
from lampnet.errors import DataError

RANDOM = np.random.default_rng(0)
N = 24
X = RANDOM.normal(size=(N, 3))
Y = (X[:, :2] > 0).astype(int)
TEXTS = [f"{'rome' if a else 'oslo'} {'cup' if b else 'rain'} news" for a, b in Y]


def small(**parameters: Any) -> LaMPClassifier:
    settings = {"training.folds": 1, "input.min_count": 1}
    return LaMPClassifier(**({"width": 8, "epochs": 1, "base_learners": "none", "settings": settings} | parameters))


def pandas() -> Any:
    return pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def reader() -> LaMPClassifier:
    return small().fit(TEXTS, Y)


def test_one_text_is_no_list_of_texts(reader: LaMPClassifier) -> None:
    for call in (reader.predict, reader.predict_proba, reader.explain, lambda x: reader.score(x, Y)):
        for one in ("one text", b"one text", Path("one")):
            with pytest.raises(DataError, match="give a list of texts"):
                call(one)
    for kind in ("text", "molecule", "dna", "image"):
        with pytest.raises(DataError, match="give a list of texts"):
            rows_of("ACGT", kind)


def test_texts_come_one_a_row(reader: LaMPClassifier) -> None:
    column = np.array(TEXTS, dtype=object)[:, None]
    assert np.array_equal(reader.predict_proba(column), reader.predict_proba(TEXTS))
    with pytest.raises(DataError, match=r"X has the shape \(12, 2\)"):
        reader.predict(column.reshape(12, 2))
    for kind in ("molecule", "dna", "image"):
        with pytest.raises(DataError, match=r"X has the shape \(12, 2\)"):
            rows_of(column.reshape(12, 2), kind)


def text_containers() -> list[Any]:
    pd = pandas()
    held = [
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS)[:, None],
        pd.Index(TEXTS),
        pd.Series(TEXTS, index=range(5, 29)),
    ]
    held += [pd.array(TEXTS, dtype="string"), pd.DataFrame({"text": TEXTS})]
    if hasattr(np.dtypes, "StringDType"):
        held.append(np.array(TEXTS, dtype=np.dtypes.StringDType()))
    return held


def test_every_container_of_texts_holds_texts() -> None:
    for held in text_containers():
        assert kind_of(held) == "text", type(held)
        assert rows_of(held, "text")[0] == TEXTS


def test_a_missing_text_is_named() -> None:
    for missing in (None, np.nan, pandas().NA):
        for place in (0, 7):
            rows = [*TEXTS]
            rows[place] = missing
            for held in (rows, np.array(rows, dtype=object), np.array(rows, dtype=object)[:, None]):
                with pytest.raises(DataError, match=f"row {place} is missing; rows of kind text"):
                    small().fit(held, Y)
            with pytest.raises(DataError, match=f"row {place} is missing"):
                small().fit(pandas().Series(rows), Y)
    with pytest.raises(DataError, match="row 1 is int, not text"):
        small().fit(["a", 5, *TEXTS[2:]], Y)


def test_half_characters_in_texts_do_no_harm(tmp_path: Path) -> None:
    model = small().fit(["caf\udce9 news", *TEXTS[1:]], Y)
    model.save(tmp_path / "model")
    assert model.predict(["\udce9rome"]).shape == (1, 2)
    (explanation,) = model.explain(["\udce9rome cup"])
    assert {node.name for node in explanation.nodes} == {"rome", "cup"}


def test_half_characters_elsewhere_are_named() -> None:
    for kind in ("molecule", "dna"):
        with pytest.raises(DataError, match=r"row 1.* half a character"):
            rows_of(["CCO", "C\udce9"], kind)
    words = np.array([[1.0, "caf\udce9"], [2.0, "tea"]], dtype=object)
    with pytest.raises(DataError, match=r"row 0: 'c1'.* half a character"):
        table_of(words)


def test_picture_paths_may_have_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "my pictures"
    folder.mkdir()
    paths = [str(folder / f"{i}.png") for i in range(3)]
    assert kind_of(paths) == "text"  # no such file: a sentence, for all we know
    Path(paths[1]).touch()
    assert kind_of(paths) == "image"
    assert kind_of(["one line\nsea.png", "sun.png"]) == "text"
    assert kind_of(["too long a name " * 500 + ".png"] * 2) == "text"
    frame = pandas().DataFrame({"path": paths})
    assert rows_of(frame, "image")[0] == paths


def test_dates_mean_the_same_in_every_unit() -> None:
    pd = pandas()
    days = pd.Series(pd.date_range("2024-01-01", periods=N, freq="h")).astype("datetime64[ns]")
    days[3] = pd.NaT
    seconds = table_of(pd.DataFrame({"t": days})).values
    assert seconds[1] - seconds[0] == 3600
    assert seconds[0] == 1704067200
    assert np.isnan(seconds[3])
    for other in (days.astype("datetime64[s]"), days.dt.tz_localize("UTC"), days.astype("datetime64[ms]")):
        np.testing.assert_array_equal(table_of(pd.DataFrame({"t": other})).values, seconds)
    spans = pd.DataFrame({"a": (days - days[0]).astype("timedelta64[ms]"), "b": days - days[0]})
    np.testing.assert_array_equal(table_of(spans).values, np.hstack([seconds - seconds[0]] * 2))
    # Objects, vectors and bare arrays too.
    frame = pd.DataFrame({"t": days, "zoned": days.dt.tz_localize("Europe/Rome"), "span": days - days[0], "word": "x"})
    held, straight = table_of(frame.to_numpy()), table_of(frame)
    np.testing.assert_array_equal(held.values, straight.values)
    assert held.categories == straight.categories == {3: ("x",)}
    whole = pd.DataFrame({"t": [day.date() for day in days[:3]]})
    assert table_of(whole).values.tolist() == [[1704067200.0]] * 3
    np.testing.assert_array_equal(rows_of(spans.fillna(pd.Timedelta(0)), "vector")[0][1], [3600, 3600])
    model = small().fit(pd.DataFrame({"t": days, "x": X[:, 0]}), Y)
    slow = pd.DataFrame({"t": days.astype("datetime64[s]"), "x": X[:, 0]})
    fast = pd.DataFrame({"t": days, "x": X[:, 0]})
    np.testing.assert_array_equal(model.predict_proba(slow), model.predict_proba(fast))
    bare = days.to_numpy()[:, None]
    dated = small().fit(bare, Y)
    np.testing.assert_array_equal(dated.predict_proba(bare.astype("datetime64[s]")), dated.predict_proba(bare))


def mixed() -> Any:
    return pandas().DataFrame({"size": X[:, 0], "colour": np.where(Y[:, 1], "red", "blue")})


def test_a_row_whose_category_is_missing_is_predicted() -> None:
    frame = mixed()
    frame.loc[2, "colour"] = None
    model = small().fit(frame, Y)
    expected = model.predict_proba(frame)[2:3]
    assert np.allclose(model.predict_proba(frame[2:3]), expected, atol=1e-6)
    assert np.allclose(model.predict_proba(frame[2:3].astype({"colour": "float64"})), expected, atol=1e-6)
    # A column of numbers that came as words without any value.
    nothing = frame[2:3].assign(size=pandas().Categorical([None]))
    assert np.isfinite(model.predict_proba(nothing)).all()


def test_tables_without_names_go_by_place() -> None:
    pd = pandas()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named, bare = small().fit(frame, Y), small().fit(X, Y)
    assert np.array_equal(named.predict_proba(frame), bare.predict_proba(X))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert np.array_equal(named.predict_proba(X), named.predict_proba(frame))
    with pytest.warns(UserWarning, match="X has feature names"):
        assert np.array_equal(bare.predict_proba(frame), bare.predict_proba(X))
    numbered = small().fit(pd.DataFrame(X), Y)
    assert np.array_equal(numbered.predict_proba(X), bare.predict_proba(X))
    assert np.array_equal(numbered.predict_proba(pd.DataFrame(X)), bare.predict_proba(X))
    with pytest.raises(ValueError, match="2 features"):
        numbered.predict(X[:, :2])
    words = small().fit(mixed(), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert np.array_equal(words.predict_proba(mixed().to_numpy()), words.predict_proba(mixed()))


def test_an_object_array_with_words_is_a_table() -> None:
    held = mixed().to_numpy()
    model = small().fit(held, Y)
    assert model.n_features_in_ == 2
    assert np.allclose(model.predict_proba(held), small().fit(mixed(), Y).predict_proba(mixed()))


def test_numbers_of_pandas_own_types_may_be_missing() -> None:
    frame = pandas().DataFrame(X, columns=["a", "b", "c"]).astype("Float64")
    frame.iloc[1, 0] = None
    assert small().fit(frame, Y).predict(frame).shape == (N, 2)
    with pytest.raises(DataError, match="row 1 holds a missing"):
        small(input_kind="vector").fit(frame, Y)
    with pytest.raises(DataError, match="row 1 holds a value that is not a finite"):
        small(input_kind="wordset").fit(frame, Y)
    with pytest.raises(DataError, match="'colour' of X holds words"):
        small(input_kind="vector").fit(mixed(), Y)


def test_a_table_of_a_reader_is_a_table() -> None:
    table = Table(values=X, names=("a", "b", "c"))
    model = small().fit(table, Y)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    expected = model.predict_proba(pandas().DataFrame(X, columns=["a", "b", "c"]))
    turned = Table(values=X[:, ::-1], names=("c", "b", "a"))
    assert np.array_equal(model.predict_proba(table), expected)
    assert np.array_equal(model.predict_proba(turned), expected)
    assert np.array_equal(small().fit(X, Y).predict_proba(table), expected)
    with pytest.raises(DataError, match="lacks the column 'c'"):
        model.predict(Table(values=X[:, :2], names=("a", "b")))
    with pytest.raises(DataError, match="X has 2 columns, the model was fitted with 3"):
        small().fit(X, Y).predict(Table(values=X[:, :2], names=("a", "b")))


def test_a_column_name_that_occurs_twice_is_named() -> None:
    frame = pandas().DataFrame(X, columns=["a", "b", "a"])
    for kind in ("auto", "columns", "vector", "wordset"):
        with pytest.raises(DataError, match="two columns called 'a'"):
            small(input_kind=kind).fit(frame, Y)
    with pytest.raises(DataError, match="half a character"):
        small().fit(pandas().DataFrame(X, columns=pandas().Index(["a\udce9", "b", "c"], dtype=object)), Y)


@pytest.mark.parametrize("kind", ["columns", "vector"])
def test_huge_numbers_leave_other_rows_alone(kind: str) -> None:
    model = small(input_kind=kind).fit(X, Y)
    rows = X.copy()
    rows[3, 1] = 9.96921e36
    proba = model.predict_proba(rows)
    assert np.isfinite(proba).all()
    assert np.allclose(proba[:3], model.predict_proba(X)[:3], atol=1e-5)
    rows[3, 1] = 1e200
    with pytest.raises(DataError, match=r"row 3.*1e\+200"):
        model.predict(rows)
    with pytest.raises(DataError, match="row 0"):
        small(input_kind=kind).fit(X * 1e200, Y)


def test_huge_word_weights_get_a_sentence() -> None:
    with pytest.raises(DataError, match="row 0 holds a value that is not a finite"):
        small().fit(sparse.csr_matrix(np.abs(X) * 1e200), Y)


def test_a_new_fit_forgets_the_features_of_the_old_one() -> None:
    frame = pandas().DataFrame(X, columns=["a", "b", "c"])
    model = small().fit(frame, Y).fit(TEXTS, Y)
    assert not hasattr(model, "n_features_in_")
    assert not hasattr(model, "feature_names_in_")
    model.fit(frame, Y).fit(X, Y)
    assert not hasattr(model, "feature_names_in_")


def test_a_fit_that_fails_changes_nothing() -> None:
    model = small().fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="X has 24 rows, but y has 23"):
        model.fit(X[:, :2], Y[:23])
    assert model.n_features_in_ == 3
    assert np.array_equal(model.predict_proba(X), before)


def test_row_numbers() -> None:
    assert row_numbers(None, 3) is None
    assert row_numbers(pandas().Series([False, True]), 2) == [1]


@pytest.mark.parametrize(
    "columns",
    [
        {"n": X[:, 0].tolist(), "m": X[:, 1]},
        {"n": X[:, 0], "c": ["x", "y"] * 12},
        {"t": TEXTS},
        {"words": [text.split() for text in TEXTS]},
        {"v": list(X)},
    ],
)
def test_a_dict_of_any_columns_is_read_as_its_frame(columns: dict[str, Any], tmp_path: Path) -> None:
    model = LaMPClassifier(preset="quick", base_learners=["linear"]).fit(columns, Y)
    proba = model.predict_proba(columns)
    assert proba.shape == Y.shape
    assert np.allclose(proba, model.fit(pandas().DataFrame(columns), Y).predict_proba(columns), atol=1e-6)
    model.save(tmp_path / "model")
    assert np.allclose(proba, LaMPClassifier.load(tmp_path / "model").predict_proba(columns), atol=1e-6)


def test_what_is_masked_is_missing() -> None:
    hidden = X > 1
    plain = np.where(hidden, np.nan, X)
    masked = np.ma.masked_array(np.where(hidden, 1e6, X), mask=hidden)
    model = LaMPClassifier(preset="quick", base_learners=["linear"]).fit(plain, Y)
    assert np.array_equal(model.predict_proba(masked), model.predict_proba(plain))
    assert np.array_equal(model.fit(masked, Y).predict_proba(plain), model.predict_proba(plain))
    truth = np.ma.masked_array(Y, mask=np.arange(2 * N).reshape(N, 2) % 5 == 0)
    unknown = np.where(np.ma.getmaskarray(truth), np.nan, Y)
    assert np.array_equal(model.fit(X, truth).predict_proba(X), clone(model).fit(X, unknown).predict_proba(X))


@pytest.mark.parametrize("scale", [1e25, 1e-25])
def test_word_sets_of_any_scale_are_learned_from(scale: float) -> None:
    rows = sparse.csr_matrix((np.abs(X) + 0.1) * (X > 0))
    model = LaMPClassifier(preset="quick", base_learners=["linear"])
    expected = model.fit(rows, Y).predict_proba(rows)
    assert np.allclose(clone(model).fit(rows * scale, Y).predict_proba(rows * scale), expected, atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([[10**400, 1], [1, 2]] * 12, "beyond 1e308"),
        ([{"n": 1}] * N, "rows of X are dicts"),
        ([b"a text"] * N, "rows of X are bytes"),
        ([["a", "b"], ["c"]] * 12, "lists with words"),
    ],
)
def test_what_is_no_table_gets_a_sentence(rows: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        small().fit(rows, Y)


def test_columns_that_are_no_dict_get_a_sentence() -> None:
    with pytest.raises(DataError, match="is not a dict"):
        small(columns="text=t").fit({"t": TEXTS, "n": X[:, 0]}, Y)


def test_a_whole_number_beyond_a_float_is_refused() -> None:
    X = np.array([[10**400, "red"], [2, "blue"]] * 4, dtype=object)
    with pytest.raises(DataError, match="infinite"):
        LaMPClassifier(preset="quick", input_kind="columns").fit(X, [["a"], ["b"]] * 4)
