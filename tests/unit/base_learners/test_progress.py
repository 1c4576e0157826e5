"""A fit says how far it is, can be stopped from there, and goes on from learners that were fitted before."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lampnet.base_learners import boosted as boosted_module
from lampnet.base_learners import forest as forest_module
from lampnet.base_learners.protocol import BaseLearner, FitContext
from lampnet.base_learners.stack import LEARNERS, FittedLearner, Stack

NAMES = tuple(LEARNERS)


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest_module, "TREES", 16)
    monkeypatch.setattr(boosted_module, "ROUNDS", 8)


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 6)).astype(np.float32)
    return X, (X[:, :3] + random.normal(size=(n, 3)) > 0.3).astype(np.float32)


class Stop(Exception):
    pass


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_reports_growing_shares_and_what_it_does(name: str) -> None:
    reports: list[tuple[float, str]] = []
    LEARNERS[name]().fit(*rows(), 0, None, FitContext(progress=lambda share, doing: reports.append((share, doing))))
    shares = [share for share, _ in reports]
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    assert all(doing for _, doing in reports)


@pytest.mark.parametrize("name", NAMES)
def test_every_report_can_end_the_fit(name: str) -> None:
    reports = itertools.count()
    LEARNERS[name]().fit(*rows(), 0, None, FitContext(progress=lambda share, doing: next(reports) and None))
    in_all = next(reports)
    for stop_at in {0, in_all // 2, in_all - 1}:
        seen = itertools.count()

        def stop(share: float, doing: str, stop_at: int = stop_at, seen: itertools.count[int] = seen) -> None:
            if next(seen) == stop_at:
                raise Stop

        with pytest.raises(Stop):
            LEARNERS[name]().fit(*rows(), 0, None, FitContext(progress=stop))
        assert next(seen) == stop_at + 1


def test_the_stack_names_the_learner_it_fits() -> None:
    reports: list[tuple[float, str]] = []
    Stack(NAMES).fit(*rows(), 0, context=FitContext(progress=lambda share, doing: reports.append((share, doing))))
    assert [share for share, _ in reports] == sorted(share for share, _ in reports)
    assert list(dict.fromkeys(doing.partition(":")[0] for _, doing in reports)) == list(NAMES)


@pytest.mark.parametrize("done", [0, 1, len(NAMES)])
def test_an_interrupted_stack_goes_on_where_it_was(done: int) -> None:
    X, Y = rows()
    whole = Stack(NAMES)
    expected = whole.fit(X, Y, 0)
    kept: dict[str, FittedLearner] = {}

    def keep(name: str, learner: BaseLearner, out_of_fold: np.ndarray) -> None:
        if len(kept) == done:
            raise Stop
        kept[name] = FittedLearner(learner.arrays(), out_of_fold)

    if done < len(NAMES):
        with pytest.raises(Stop):
            Stack(NAMES).fit(X, Y, 0, on_fitted=keep)
    else:
        Stack(NAMES).fit(X, Y, 0, on_fitted=keep)
    again, fitted_now = Stack(NAMES), []
    logits = again.fit(X, Y, 0, on_fitted=lambda name, *_: fitted_now.append(name), fitted=kept)
    assert fitted_now == list(NAMES[done:])
    np.testing.assert_array_equal(logits, expected)
    np.testing.assert_array_equal(again.logits(X), whole.logits(X))
    for stack in (whole, again):
        stack.refit(X[:100], Y[:100], 0)
    np.testing.assert_array_equal(again.logits(X), whole.logits(X))
