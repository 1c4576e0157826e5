"""The floor: no model ends below the stack of its own base learners, out-of-fold."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit

from lampnet import load_data
from lampnet.base_learners import forest
from lampnet.base_learners.linear import LinearLearner
from lampnet.base_learners.protocol import FOLDS
from lampnet.base_learners.stack import Stack
from lampnet.base_learners.stacking_weights import cross_fit_weights, fit_weights
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import TRUE, UNKNOWN
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.data.splits import Splits, fold_numbers
from lampnet.errors import ConfigError, DataError
from lampnet.evaluation.choose_rules import choose_decisions
from lampnet.evaluation.gain import GAIN_METRICS
from lampnet.evaluation.metrics import METRICS
from lampnet.explain.explain_rows import explain
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline import members
from lampnet.pipeline.control import IN_MEMORY, Control, FitRun
from lampnet.pipeline.fit import AFTER_NETWORKS, fit
from lampnet.pipeline.known import fit_conditional
from lampnet.pipeline.members import Member, train_members
from lampnet.pipeline.plan import REFIT_SHARE, Plan, single_split
from lampnet.runtime.budget import Budget
from lampnet.training.progress import Stopped
from lampnet.training.trainer import Trainer

TINY = {"model.width": 8, "training.epochs": 2, "training.threads": 1, "model.base_learners": "linear,knn"}


def random_rows(n: int, n_labels: int, noise: float, seed: int, unknown: float = 0.0) -> Dataset:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)).astype(np.float32)
    Y = (X @ random.normal(size=(6, n_labels)) + noise * random.normal(size=(n, n_labels)) > 0.8).astype(np.float32)
    Y[0] = 1.0  # every label has a row
    Y[random.random(Y.shape) < unknown] = np.nan
    names = tuple(f"l{i}" for i in range(n_labels))
    return Dataset(name="random", kind="vector", rows=X, labels=sparse.csr_matrix(Y), label_names=names)


def out_of_fold(model: FittedModel) -> dict[str, float]:
    truth, proba = model.valid_truth, model.valid_proba
    assert truth is not None
    assert proba is not None
    return {m: METRICS[m](truth, model.decisions.best[m].apply(proba)) for m in GAIN_METRICS}


@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(20, 90),
    n_labels=st.integers(1, 5),
    noise=st.floats(0.1, 3.0),
    seed=st.integers(0, 1000),
    unknown=st.sampled_from([0.0, 0.2]),
)
def test_no_model_ends_below_its_stack_out_of_fold(
    n: int, n_labels: int, noise: float, seed: int, unknown: float
) -> None:
    # A rate this high makes bad networks, which must not be kept.
    config = Config.preset("fast").updated({**TINY, "training.learning_rate": 0.05, "training.folds": 3})
    check_floor(fit(Splits(train=random_rows(n, n_labels, noise, seed, unknown)), config))


def check_floor(model: FittedModel) -> None:
    scores, stack = out_of_fold(model), model.metadata["stack_scores"]
    assert np.mean([scores[m] for m in GAIN_METRICS]) >= np.mean([stack[m] for m in GAIN_METRICS]) - 1e-9
    assert scores["example_f1"] >= stack["example_f1"] - 1e-9


#: the data sets of README's table, and how many of their rows a fit takes
OF_THE_TABLE = {
    "bibtex": 150, "reuters21578": 300, "sider": 100, "delicious": 100, "yeast_chipexo": 80, "emotions": 150,
    "scene": 150, "mediamill": 150, "corel5k": 200, "tox21": 200, "goemotions": 400, "imdb": 300,
}  # fmt: skip


@pytest.fixture(scope="module")
def some_rows(data_root: Path) -> Callable[[str], Dataset]:
    """Consecutive labelled rows of a named data set; the test is skipped where it is not there."""

    @cache
    def loaded(name: str) -> Dataset:
        try:
            labelled = load_data(name, data_root=data_root).merged_back().train
        except DataError as absent:
            pytest.skip(f"{name} is not there: {absent}")
        return labelled.take(np.arange(OF_THE_TABLE[name]))

    return loaded


@pytest.mark.parametrize("rate", [1e-3, 0.05])
@pytest.mark.parametrize("name", OF_THE_TABLE)
def test_no_data_set_of_the_tables_ends_below_its_stack_out_of_fold(
    name: str, rate: float, some_rows: Callable[[str], Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real rows, with the learners that the preset chooses for them."""
    if name in ("sider", "tox21"):
        pytest.importorskip("rdkit", reason="molecules need rdkit")
    monkeypatch.setattr(forest, "TREES", 24)
    changes = {"training.learning_rate": rate, "training.folds": 2, "training.epochs": 2, "training.threads": 1}
    check_floor(fit(Splits(train=some_rows(name)), Config.preset("fast").updated(changes)))


def test_a_useless_network_is_left_out_and_the_model_is_the_stack(tmp_path: Path) -> None:
    data, said = random_rows(60, 3, 1.0, seed=0), []
    ruined = {**TINY, "training.learning_rate": 5.0, "training.clip": 0, "training.warmup_steps": 0}
    model = fit(Splits(train=data), Config.preset("fast").updated(ruined), run=FitRun(log=said.append))
    stack = fit(Splits(train=data), Config.preset("quick").updated(TINY))
    assert model.network_weight == 0.0
    assert any("no more" in line or "left out" in line for line in said)
    np.testing.assert_array_equal(model.proba(data.rows), stack.proba(data.rows))
    assert model.decisions == stack.decisions
    loaded = load_model(save_model(model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.proba(data.rows), model.proba(data.rows))
    assert "the base learners alone, stacked" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    (explained,) = explain(loaded, data, [0])  # the messages of the network can still be looked at
    assert "predicts by its base learners" in explained.note
    np.testing.assert_array_equal(explained.proba, model.proba(data.rows[:1])[0, explained.label_index])
    (alone,) = explain(stack, data, [0])
    assert "it has no network" in alone.note
    with pytest.raises(ConfigError, match="has no network"):
        stack.trained_network()


def test_a_network_that_helps_is_kept_and_the_card_says_what_it_adds(tmp_path: Path) -> None:
    """Labels that depend on pairs of words, which neither a linear model nor cosine neighbours can learn."""
    random = np.random.default_rng(0)
    bits = random.random((600, 4)) < 0.5
    Y = np.stack([bits[:, 0] ^ bits[:, 1], bits[:, 2] ^ bits[:, 3]], axis=1).astype(np.float32)
    words = np.concatenate([bits, ~bits], axis=1).astype(np.float32)
    rows, labels = sparse.csr_matrix(words), sparse.csr_matrix(Y)
    data = Dataset(name="xor", kind="wordset", rows=rows, labels=labels, label_names=("a", "b"))
    changes = {"model.width": 16, "model.base_learners": "linear", "model.feature_steps": 1, "training.epochs": 30,
               "training.folds": 2, "model.dropout": 0.0, "model.node_dropout": 0.0, "training.patience": 0,
               "training.learning_rate": 5e-3, "training.threads": 2, "input.tfidf": "false"}  # fmt: skip
    model = fit(Splits(train=data), Config.preset("fast").updated(changes))
    assert model.network is not None
    assert model.network_weight == 1.0
    gain = model.metadata["network_gain"]
    assert gain["interval"][0] > 0
    card = (save_model(model, tmp_path / "m") / "README.md").read_text(encoding="utf-8")
    assert f"mean {gain['mean']:+.4f}" in card
    assert "it is kept" in card


def test_network_and_stack_have_half_each_where_that_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks whose errors are those of the stack, the other way round: the mean of both is right everywhere."""
    data = random_rows(80, 3, 1.0, seed=2)

    def opposite(plan: Plan, *rest: Any) -> list[Member]:
        members = train_members(plan, *rest)
        changed = []
        for member in members:
            valid = plan.folds[member.number].valid[0]
            right = 0.6 * valid.all_targets() - 0.3
            changed.append(replace(member, held_out_logits=2 * right - valid.stacked(), is_kept=True))
        return changed

    monkeypatch.setattr("lampnet.pipeline.fit.train_members", opposite)
    config = Config.preset("fast").updated({**TINY, "training.folds": 2})
    model = fit(Splits(train=data), config)
    assert model.network is not None
    assert model.network_weight == len(model.network.members) / 4
    assert out_of_fold(model)["micro_f1"] == 1.0
    whole, none = (replace(model, network_weight=weight, calibration=None).logits(data.rows) for weight in (1.0, 0.0))
    mixed = replace(model, calibration=None).logits(data.rows)
    weight = model.network_weight
    np.testing.assert_allclose(mixed, weight * whole + (1 - weight) * none, atol=1e-5)


def test_members_side_by_side_are_those_trained_one_after_the_other() -> None:
    data = random_rows(80, 3, 0.5, seed=1)
    config = Config.preset("fast").updated({**TINY, "training.folds": 4, "training.keep_network": "always"})
    alone = fit(Splits(train=data), config)
    together = fit(Splits(train=data), config.updated({"training.threads": 3}))
    np.testing.assert_array_equal(alone.proba(data.rows), together.proba(data.rows))
    assert alone.decisions == together.decisions


def test_a_signal_during_the_second_base_learner_leaves_the_stack_of_the_first(tmp_path: Path) -> None:
    data = random_rows(80, 3, 0.5, seed=1)
    config = Config.preset("fast").updated({**TINY, "training.folds": 2})

    def interrupt(share: float, doing: str) -> None:
        if doing.startswith("base learners: knn"):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped) as stopped:
        fit(Splits(train=data), config, run=FitRun(folder=tmp_path, phase=interrupt))
    model = stopped.value.model
    assert model.stack.names == ("linear",)
    assert model.network is None
    assert load_model(save_model(model, tmp_path / "m")).proba(data.rows).shape == (80, 3)


def test_resuming_never_fits_a_base_learner_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_rows(80, 3, 0.5, seed=1)
    config = Config.preset("fast").updated({**TINY, "training.folds": 2, "training.keep_network": "always"})
    whole = fit(Splits(train=data), config)

    def interrupt(event: str, progress: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped):
        fit(Splits(train=data), config, run=FitRun(folder=tmp_path, callback=interrupt))
    fitted: list[int] = []
    original = LinearLearner.fit
    monkeypatch.setattr(LinearLearner, "fit", lambda *args, **more: (fitted.append(1), original(*args, **more))[1])
    resumed = fit(Splits(train=data), config, run=FitRun(folder=tmp_path, resume=True))
    assert not fitted
    np.testing.assert_array_equal(resumed.proba(data.rows), whole.proba(data.rows))
    other = data.take(np.arange(70))  # other rows are another fit
    fit(Splits(train=other), config.updated({"model.network": False}), run=FitRun(folder=tmp_path, resume=True))
    assert fitted


def test_a_damaged_base_learner_file_is_fitted_again(tmp_path: Path) -> None:
    data = random_rows(60, 2, 0.5, seed=2)
    config = Config.preset("quick").updated(TINY)
    whole = fit(Splits(train=data), config, run=FitRun(folder=tmp_path))
    path = tmp_path / "base-linear"
    path.write_bytes(path.read_bytes()[:-40] + b"x" * 40)
    resumed = fit(Splits(train=data), config, run=FitRun(folder=tmp_path, resume=True))
    np.testing.assert_array_equal(resumed.proba(data.rows), whole.proba(data.rows))


def test_quick_without_base_learners_is_refused() -> None:
    with pytest.raises(ConfigError, match="leaves no model"):
        Config.preset("quick").updated({"model.base_learners": "none"})


@pytest.mark.parametrize("refit", [True, False])
def test_networks_leave_time_for_what_follows_them(refit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on only while the linear base learner is fitted, a second per report."""
    now = [0.0]
    monkeypatch.setattr("lampnet.runtime.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    given: list[float] = []
    monkeypatch.setattr("lampnet.pipeline.fit.train_members", lambda *args: given.append(args[-1]) or [])

    def tick(share: float, doing: str) -> None:
        now[0] += doing.startswith("base learners: linear")

    changes = {**TINY, "training.folds": 1, "training.time_budget": 1e6, "training.refit_base_learners": refit}
    data = Splits(train=random_rows(80, 3, 0.5, seed=1))
    fit(data, Config.preset("fast").updated(changes), run=FitRun(phase=tick))
    spent = now[0]
    assert spent > 0
    assert given == [pytest.approx(1e6 - spent - (REFIT_SHARE * spent if refit else 0.0))]


def test_no_other_network_is_begun_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on only while weights are initialised: three networks use up the time of five."""
    now, said = [0.0], list[str]()
    monkeypatch.setattr("lampnet.runtime.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    initialise = members._initialise

    def slow(*args: Any) -> None:
        initialise(*args)
        now[0] += 400.0

    monkeypatch.setattr(members, "_initialise", slow)
    changes = {**TINY, "training.folds": 5, "training.time_budget": 1000, "training.keep_network": "always"}
    config = Config.preset("fast").updated(changes)
    model = fit(Splits(train=random_rows(80, 3, 0.5, seed=1)), config, run=FitRun(log=said.append))
    assert model.network is not None
    assert len(model.network.networks) == 3
    assert model.network_weight == pytest.approx(3 / 5)
    assert "3 of 5 networks trained in the time that was left" in said
    assert model.metadata["status"] == "time budget"


def test_the_start_of_the_weights_counts_as_a_member_s_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on only while weights are initialised, a hundred seconds for each member."""
    now, given = [0.0], list[float]()
    monkeypatch.setattr("lampnet.runtime.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    initialise = members._initialise

    def slow(*args: Any) -> None:
        initialise(*args)
        now[0] += 100.0

    def trainer(network: Any, training: Any, *more: Any) -> Trainer:
        given.append(training.time_budget)
        return Trainer(network, training, *more)

    monkeypatch.setattr(members, "_initialise", slow)
    monkeypatch.setattr(members, "Trainer", trainer)
    changes = {**TINY, "training.time_budget": 1e6, "training.keep_network": "always"}
    data = Splits(train=random_rows(80, 3, 0.5, seed=1))
    fit(data, Config.preset("fast").updated({**changes, "training.folds": 1}))
    assert given == [pytest.approx(1e6 - 100)]
    given.clear()
    fit(data, Config.preset("fast").updated({**changes, "training.folds": 3}))
    # What one took from the others' time, they share.
    assert given == [pytest.approx(1e6 / 3 - 100), pytest.approx((1e6 - 100) / 2 - 100), pytest.approx(1e6 - 300)]


USELESS = {**TINY, "training.learning_rate": 5.0, "training.clip": 0, "training.warmup_steps": 0}


def news(days: int = 100, rows_a_day: int = 5, seed: int = 0) -> Dataset:
    """Serially correlated rows: those of a day are about one topic, which noisy numbers tell."""
    random = np.random.default_rng(seed)
    Y = np.eye(4, dtype=np.float32)[np.repeat(random.integers(4, size=days), rows_a_day)]
    Y[np.arange(len(Y)), random.integers(4, size=len(Y))] = 1
    X = (Y @ np.random.default_rng(99).normal(size=(4, 6)) + 0.7 * random.normal(size=(len(Y), 6))).astype(np.float32)
    return Dataset(name="news", kind="vector", rows=X, labels=sparse.csr_matrix(Y), label_names=tuple("abcd"))


def fitted_news(data: Dataset, run: FitRun = IN_MEMORY, hierarchy: Any = None, **changes: Any) -> FittedModel:
    changed = {**USELESS, **{name.replace("__", "."): value for name, value in changes.items()}}
    splits = Splits(train=data)
    assert splits.serially_correlated
    return fit(splits, Config.preset("fast").updated(changed), run=run, hierarchy=hierarchy)


def test_serially_correlated_rows_all_choose_the_decisions_where_the_network_is_left_out(tmp_path: Path) -> None:
    data = news()
    model = fitted_news(data)
    assert model.network_weight == 0.0
    assert model.valid_proba is not None
    np.testing.assert_array_equal(model.valid_truth, data.indicator())  # folds are blocks: in the order of the rows
    assert model.metadata["stack_scores"] == pytest.approx(
        {m: METRICS[m](data.indicator(), rule.apply(model.valid_proba)) for m, rule in model.decisions.best.items()}
    )
    loaded = load_model(save_model(model, tmp_path / "m"))
    assert loaded.decisions == model.decisions
    np.testing.assert_array_equal(loaded.proba(data.rows), model.proba(data.rows))
    # A network that is kept was scored on the last rows alone, and so are its decisions.
    kept = fitted_news(data, training__keep_network="always")
    np.testing.assert_array_equal(kept.valid_truth, data.indicator()[450:])


def test_validation_rows_that_came_are_not_mixed_with_training_rows() -> None:
    data = news()
    splits = Splits(train=data.take(np.arange(400)), valid=data.take(np.arange(400, 500)))
    model = fit(splits, Config.preset("fast").updated(USELESS))
    assert model.network_weight == 0.0
    np.testing.assert_array_equal(model.valid_truth, data.indicator()[400:])


def test_every_row_is_scored_by_weights_and_base_logits_that_did_not_see_it() -> None:
    data, config = news(), Config.preset("fast").updated(USELESS)
    splits = Splits(train=data)
    plan = single_split(splits, config, 0.1, Control(IN_MEMORY, Budget(0)))
    assert plan.every_row is not None
    *blocks, last = plan.every_row()
    assert sum(map(len, blocks)) == 450
    assert len(last) == 50
    fold_n = fold_numbers(450, FOLDS, 0, serially_correlated=True)
    X, Y = data.rows[:450], data.indicator()[:450]
    features = plan.encoder.encode(X).features
    base_logits = Stack(("linear", "knn")).fit(features, Y, 0, fold_n)
    fitted = cross_fit_weights(base_logits, Y, fold_n)
    assert plan.stack is not None
    for number, block in enumerate(blocks):
        own = np.flatnonzero(fold_n == number)
        np.testing.assert_array_equal(block.all_targets(), Y[own])
        np.testing.assert_allclose(block.base_logits, base_logits[own], atol=1e-5)
        assert not np.allclose(block.base_logits, plan.stack.logits(features[own]), atol=1e-2)  # by who saw them
        rest = np.flatnonzero(fold_n != number)
        apart = fit_weights(base_logits[rest], Y[rest], fitted.pull, fitted.weights)
        np.testing.assert_allclose(block.weights.weights_LK, apart.weights_LK, atol=1e-5)
        assert not np.array_equal(block.weights.weights_LK, plan.stack.weights.weights_LK)


def test_quick_and_fast_end_with_close_scores_on_serially_correlated_rows() -> None:
    data, later = news(), news(seed=1)
    # In the last tenth the numbers tell nothing, so that decisions chosen there alone would be far off.
    rows = np.array(data.rows)
    rows[450:] = rows[450:][np.random.default_rng(5).permutation(50)] + np.float32(3.0)
    data = replace(data, rows=rows)
    fast = fitted_news(data)
    quick = fit(Splits(train=data), Config.preset("quick").updated({**TINY}))
    scores = [
        METRICS[metric](later.indicator(), model.decisions.best[metric].apply(model.proba(later.rows)))
        for model in (fast, quick)
        for metric in ("example_f1", "micro_f1", "macro_f1")
    ]
    np.testing.assert_allclose(scores[:3], scores[3:], atol=0.02)


@pytest.mark.parametrize("method", ["shifts", "messages"])
def test_known_labels_learn_from_each_serially_correlated_row_once(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, learned = news(), []
    original = fit_conditional

    def watched(Y: np.ndarray, logits: np.ndarray, *rest: Any) -> Any:
        learned.append((Y, logits))
        return original(Y, logits, *rest)

    monkeypatch.setattr("lampnet.pipeline.fit.fit_conditional", watched)
    hierarchy = LabelHierarchy.of([("a", "b")], tuple("abcd"))
    weights = np.where(np.arange(500) % 2, 1.0, 3.0)
    data = replace(data, weights=tuple(weights.tolist()))
    model = fitted_news(data, hierarchy=hierarchy, known__method=method, known__train_steps=20, known__members=2)
    [(Y, logits)] = learned
    truth = hierarchy.completed(data)[0].indicator()
    np.testing.assert_array_equal(Y, truth)
    np.testing.assert_array_equal(model.valid_truth, truth)
    np.testing.assert_allclose(expit(logits), np.clip(model.valid_proba, 1e-5, 1 - 1e-5), atol=1e-4)
    assert (model.valid_proba[:, 0] <= model.valid_proba[:, 1] + 1e-6).all()
    states = np.full((500, 4), UNKNOWN)
    states[:, 0] = TRUE
    given = model.proba_given(model.logits(data.rows), states)
    assert np.isfinite(given).all()
    assert (given[:, :2] == 1.0).all()  # the label that is known, and its parent
    loaded = load_model(save_model(model, tmp_path / "m"))
    np.testing.assert_allclose(loaded.proba_given(loaded.logits(data.rows), states), given, atol=1e-6)


def test_row_weights_count_where_every_row_is_chosen_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is chosen on with its own weight."""
    data, seen = news(), []
    original = choose_decisions

    def watched(truth: np.ndarray, proba: np.ndarray, **more: Any) -> Any:
        seen.append((truth, more["weights"]))
        return original(truth, proba, **more)

    monkeypatch.setattr("lampnet.pipeline.fit.choose_decisions", watched)
    weights = np.where(np.arange(500) % 3, 1.0, 4.0)
    weights[450:] *= 3  # later rows count more, as they often do
    fitted_news(replace(data, weights=tuple(weights.tolist())))
    truth, counts = seen[-1]
    assert truth.shape == (500, 4)
    np.testing.assert_allclose(counts.row_n / counts.row_n[1], weights)


def test_a_time_budget_that_is_over_before_the_network_still_chooses_on_every_row() -> None:
    said: list[str] = []
    model = fitted_news(news(), FitRun(log=said.append), training__time_budget=1e-6, known__method="messages")
    assert model.network is None
    assert model.metadata["status"] == "time budget"
    assert model.valid_truth is not None
    assert len(model.valid_truth) == 500
    assert model.conditional is not None
    assert not model.conditional.members  # their networks had no time
    division = said[-1]
    assert division.startswith("time: ")
    for stage in ("encoding", "base learners", "stacking weights", "decisions", "known labels", "base learners again"):
        assert f"{stage} " in division


def test_a_network_leaves_time_to_choose_on_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on only while decisions are chosen, ten seconds each time."""
    now, given, original = [0.0], list[float](), choose_decisions
    monkeypatch.setattr("lampnet.runtime.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("lampnet.pipeline.fit.train_members", lambda *args: given.append(args[-1]) or [])

    def slow(*args: Any, **more: Any) -> Any:
        now[0] += 10.0
        return original(*args, **more)

    monkeypatch.setattr("lampnet.pipeline.fit.choose_decisions", slow)
    fitted_news(news(), training__time_budget=1e6)
    # 50 of 500 rows took ten seconds, so all of them are expected to take a hundred.
    assert given == [pytest.approx(1e6 - 10 - AFTER_NETWORKS * 10 - 100)]


@pytest.mark.parametrize("n", [3, 5, 12])
def test_few_rows_in_the_order_of_their_times_have_decisions_too(n: int) -> None:
    data = random_rows(n, 2, 0.5, seed=n)
    model = fit(Splits.in_time(data, np.arange(n)), Config.preset("fast").updated(USELESS))
    assert model.valid_proba is not None
    assert np.isfinite(model.valid_proba).all()
    assert len(model.valid_proba) == (n if model.network_weight == 0 else 1)
