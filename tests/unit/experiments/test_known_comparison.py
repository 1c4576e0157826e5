"""The comparison on known labels: what is scored, what systems share, and that a stopped run goes on."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config, TrainingConfig
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ConfigError, DataError
from lampnet.evaluation.known_regimes import mean_row_precision, reveal, row_precision, unrevealed
from lampnet.experiments import known_comparison, known_rows
from lampnet.experiments.known_comparison import KnownTask, compare_known, known_plan, run_known, score_known
from lampnet.experiments.known_rows import KnownRows, make_known_rows, sample
from lampnet.experiments.known_systems import KNOWN_SYSTEMS, REGIMES
from lampnet.experiments.material import Material
from lampnet.experiments.result_files import read_result


def labels(n: int, seed: int, unknown: float = 0.0) -> np.ndarray:
    """Labels in two groups that come together."""
    random = np.random.default_rng(seed)
    group = random.random((n, 1)) < 0.5
    Y = (random.random((n, 6)) < np.where(np.arange(6) < 3, np.where(group, 0.9, 0.1), np.where(group, 0.1, 0.8))) * 1.0
    Y[random.random(Y.shape) < unknown] = np.nan
    return Y.astype(np.float32)


def rows(n: int = 120, unknown: float = 0.0) -> KnownRows:
    random = np.random.default_rng(1)
    Y, Y_test = labels(n, 2, unknown), labels(40, 3, unknown)

    def logits(Y: np.ndarray) -> np.ndarray:
        return (np.nan_to_num(Y, nan=0.5) - 0.5 + random.normal(0, 1, Y.shape)).astype(np.float32)

    X, X_test = (random.normal(size=(len(y), 3)) for y in (Y, Y_test))
    return KnownRows(X, Y, logits(Y), X_test, Y_test, logits(Y_test))


def toy(dataset: str, seed: int) -> Material:
    random = np.random.default_rng(seed)
    Y = labels(80, seed)
    words = sparse.csr_matrix(np.hstack([random.random((80, 3)) < 0.3, np.ones((80, 1)), Y[:, :2]]).astype(np.float32))
    data = Dataset(name="toy", kind="wordset", rows=words, labels=sparse.csr_matrix(Y), label_names=tuple("abcdef"))
    return Material(dataset, Splits(train=data), seed)


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lampnet.baselines.label_states.EPOCHS", (2, 2))
    once = TrainingConfig(epochs=1, batch_size=64)
    monkeypatch.setattr("lampnet.pipeline.known.known_training", lambda config, n_rows, seed: once)


@pytest.mark.usefixtures("short_trainings")
@pytest.mark.parametrize("name", KNOWN_SYSTEMS)
def test_every_system_scores_every_regime(name: str) -> None:
    for unknown in (0.0, 0.2):
        result = run_known(KNOWN_SYSTEMS[name], rows(unknown=unknown), 0)
        assert [score["regime"] for score in result["known"]] == [str(regime) for regime in REGIMES]
        assert all(0 < score["map"] <= 1 for score in result["known"])


def test_what_a_system_says_of_revealed_labels_is_never_scored() -> None:
    given = rows()

    def saying(value: float):
        return lambda some, states: np.where(states != 0, value, given.logits_test[some])

    high, low = (score_known(saying(value), given.Y_test, 0) for value in (1e9, -1e9))
    assert high == low


def test_the_true_labels_that_are_left_are_what_is_scored() -> None:
    """A system that knows the answers gets 1, and one that says their opposite far less."""
    Y = rows().Y_test
    assert {score["map"] for score in score_known(lambda some, states: Y[some], Y, 0)} == {1.0}
    assert all(score["map"] < 0.8 for score in score_known(lambda some, states: -Y[some], Y, 0))


def test_all_systems_are_scored_on_the_same_reveals_and_other_seeds_on_others() -> None:
    given, seen = rows(), {}
    for name in ("nothing", "cooccurrence", "chain"):
        fitted = KNOWN_SYSTEMS[name].fit(given, 0)

        def watched(some, states, name=name, fitted=fitted):
            seen.setdefault(name, []).append((some.tolist(), states.tolist()))
            return fitted(some, states)

        digests = [score["revealed"] for score in score_known(watched, given.Y_test, 0)]
    assert seen["nothing"] == seen["cooccurrence"] == seen["chain"]
    assert digests != [score["revealed"] for score in score_known(fitted, given.Y_test, 1)]


@pytest.mark.usefixtures("short_trainings")
def test_no_system_learns_from_test_labels() -> None:
    given = rows()
    hidden = replace(given, Y_test=np.full_like(given.Y_test, np.nan))
    states, some = np.zeros((2, 6), np.int8), np.array([0, 1])
    states[:, 0] = 1
    for name in KNOWN_SYSTEMS:
        said, blind = (KNOWN_SYSTEMS[name].fit(r, 0)(some, states) for r in (given, hidden))
        assert np.array_equal(said, blind)


def test_row_precision_against_a_slow_version() -> None:
    random = np.random.default_rng(0)
    Y = labels(30, 5, unknown=0.2)
    scores = random.random(Y.shape)
    for own, truth, said in zip(row_precision(Y, scores), Y, scores, strict=True):
        ranked = [truth[i] for i in np.argsort(-said) if not np.isnan(truth[i])]
        hits = [k for k, true in enumerate(ranked) if true]
        slow = np.mean([(j + 1) / (k + 1) for j, k in enumerate(hits)]) if hits else np.nan
        assert own == pytest.approx(slow, nan_ok=True)
    kept = (Y == 1).any(axis=1)
    assert mean_row_precision(Y, scores) == pytest.approx(row_precision(Y, scores)[kept].mean())


def test_a_stopped_comparison_goes_on_and_shares_the_base_learners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, shared = tmp_path / "known", tmp_path / "shared"
    tasks = [KnownTask("toy", name, 0) for name in ("nothing", "cooccurrence", "chain")]
    fits: list[int] = []
    real = known_rows.make_known_rows
    monkeypatch.setattr(known_rows, "make_known_rows", lambda *given: fits.append(1) or real(*given))

    def stop(system, *given):
        if system.name == "cooccurrence":
            raise KeyboardInterrupt
        return run_known(system, *given)

    with monkeypatch.context() as stopping:
        stopping.setattr(known_comparison, "run_known", stop)
        with pytest.raises(KeyboardInterrupt):
            compare_known(tasks, folder, shared, open_data=toy)
    first = tasks[0].path(folder)
    before = first.read_bytes()
    assert [path.name for path in folder.glob("*.json")] == [first.name]
    written = compare_known(tasks, folder, shared, open_data=toy)
    assert written == [task.path(folder) for task in tasks[1:]]
    assert first.read_bytes() == before
    assert fits == [1], "the base learners were fitted twice"
    assert compare_known(tasks, folder, shared, open_data=toy) == []
    result = read_result(written[1])
    assert result["command"] == "lampnet reproduce --known toy --model chain --seed 0 --again"
    digests = [[s["revealed"] for s in read_result(task.path(folder))["known"]] for task in tasks]
    assert digests[0] == digests[1] == digests[2]


def test_shared_rows_come_back_as_they_were_and_damaged_ones_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    made = known_rows.known_rows(path, lambda: toy("toy", 0), 0)

    def refused() -> Material:
        raise AssertionError("the file was not used")

    read = known_rows.known_rows(path, refused, 0)
    for field in fields(KnownRows):
        first, second = (getattr(r, field.name) for r in (made, read))
        dense = [a.toarray() if sparse.issparse(a) else a for a in (first, second)]
        assert np.array_equal(*dense, equal_nan=True), field.name
    path.write_bytes(path.read_bytes()[:-200])
    again = known_rows.known_rows(path, lambda: toy("toy", 0), 0)
    assert np.array_equal(again.logits, made.logits)
    with pytest.raises(AssertionError, match="not used"):  # logits of another seed are not taken for these
        known_rows.known_rows(path, refused, 1)


def test_out_of_fold_logits_stand_beside_their_own_labels() -> None:
    """Words that give a label away must rank its rows first; logits of other rows would not."""
    made = make_known_rows(toy("toy", 0), Config.preset("quick").updated(known_rows.SETTINGS), 0)
    true = made.Y[:, 0] == 1
    assert made.logits[true, 0].min() > made.logits[~true, 0].max()
    assert len(made.Y) + len(made.Y_test) == 80


def test_a_sample_keeps_the_order_and_depends_on_the_seed() -> None:
    data = toy("toy", 0).labelled.train
    assert sample(data, 1000, 0) is data
    some = sample(data, 10, 0)
    assert len(some) == 10
    assert (sample(data, 10, 1).rows != some.rows).nnz
    full = [row.toarray().tobytes() for row in data.rows]
    places = [full.index(row.toarray().tobytes()) for row in some.rows]
    assert len(places) == 10


def test_unknown_names_are_refused() -> None:
    with pytest.raises(DataError, match="emotions"):
        known_plan(["emotion"])
    with pytest.raises(ConfigError, match="messages"):
        known_plan(systems=["message"])


def test_reveals_leave_a_true_label_to_find() -> None:
    Y = labels(50, 9)
    for regime in REGIMES:
        states, counts = reveal(Y, regime, 0)
        assert (unrevealed(Y, states)[counts] == 1).any(axis=1).all()
