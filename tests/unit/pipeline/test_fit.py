"""Ensembles: out-of-fold decisions, folds and validation rows, and runs that end early."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from lampnet.config import Config, folds_for
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits, fold_numbers, parts_of, random_split
from lampnet.errors import ConfigError, TrainingDiverged
from lampnet.model.build import MEMBER_SEEDS
from lampnet.pipeline.fit import FitRun, fit
from lampnet.training.checkpoint import read_checkpoint, write_checkpoint
from lampnet.training.progress import Progress, Stopped

F = 9
SMALL = {
    "model.width": 16,
    "training.epochs": 2,
    "training.threads": 1,
    "training.folds": 3,
    "training.keep_network": "always",
}


def dataset(n: int = 90) -> Dataset:
    random = np.random.default_rng(0)
    labels = np.float32(random.random((n, 4)) < 0.3)
    words = (random.random((n, F)) < 0.2) | (np.pad(labels, ((0, 0), (0, F - 4))) > 0)
    names = tuple(f"l{i}" for i in range(4))
    words[:, -1] = True  # a row without any word would be predicted from the label priors of all rows
    matrix = sparse.csr_matrix(words.astype(np.float32))
    return Dataset(name="toy", kind="wordset", rows=matrix, labels=sparse.csr_matrix(labels), label_names=names)


def test_decisions_are_chosen_on_out_of_fold_predictions() -> None:
    """The same network, trained on the other folds alone, predicts the same for its own fold."""
    data = dataset()
    changes = {**SMALL, "model.base_learners": (), "input.tfidf": "false", "training.calibrate": "false"}
    config = Config.preset("fast").updated(changes)
    model = fit(Splits(train=data), config)
    assert model.valid_proba is not None
    assert model.valid_truth is not None
    done = 0
    for number, (rest, own) in enumerate(parts_of(fold_numbers(len(data), 3, seed=0, labels=data.labels))):
        alone = config.updated({"training.folds": 1, "training.seed": MEMBER_SEEDS * number})
        twin = fit(Splits(train=data.take(rest), valid=data.take(own)), alone)
        here = slice(done, done + len(own))
        np.testing.assert_array_equal(model.valid_truth[here], data.indicator()[own])
        np.testing.assert_allclose(model.valid_proba[here], twin.proba(data.rows[own]), atol=1e-5)
        done += len(own)
    assert done == len(data)


def test_the_number_of_folds_depends_on_the_rows_and_given_validation_rows_are_kept_apart() -> None:
    data = dataset(60)
    open_ = Config.preset("fast").updated({**SMALL, "training.folds": 0})
    assert len(fit(Splits(train=data), open_).network.networks) == folds_for(60) == 5
    parts = Splits(train=data.take(np.arange(40)), valid=data.take(np.arange(40, 60)))
    model = fit(parts, open_)
    assert len(model.network.networks) == 1
    assert model.valid_truth is not None
    assert len(model.valid_truth) == 20
    with pytest.raises(ConfigError, match="20 validation rows"):
        fit(parts, Config.preset("fast").updated(SMALL))


def test_sampled_validation_rows_are_merged_back_where_an_ensemble_is_trained() -> None:
    """A named set without a publisher's validation part learns from as many rows as the methods beside it."""
    data = dataset(60)
    parts = random_split(data, valid=20, test=10, seed=0)
    open_ = Config.preset("fast").updated({**SMALL, "training.folds": 0})
    model = fit(parts, open_)
    assert len(model.network.networks) == folds_for(50)
    assert model.valid_truth is not None
    assert parts.valid is not None
    known = np.concatenate([parts.train.indicator(), parts.valid.indicator()])
    assert sorted(map(tuple, model.valid_truth)) == sorted(map(tuple, known))
    np.testing.assert_array_equal(fit(parts.merged_back(), open_).proba(data.rows), model.proba(data.rows))
    alone = fit(parts, open_.updated({"training.folds": 1}))
    assert len(alone.network.networks) == 1
    np.testing.assert_array_equal(alone.valid_truth, parts.valid.indicator())


def test_a_run_that_is_ended_in_its_second_network_hands_over_two_and_is_finished_by_resume(tmp_path: Path) -> None:
    data, config = dataset(), Config.preset("fast").updated({**SMALL, "training.epochs": 3})
    whole = fit(Splits(train=data), config)

    def interrupt(event: str, progress: Progress) -> None:
        if event == "epoch" and progress.network == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped) as stopped:
        fit(Splits(train=data), config, run=FitRun(folder=tmp_path, callback=interrupt))
    assert len(stopped.value.model.network.networks) == 2
    assert stopped.value.model.config.training.folds == 2
    resumed = fit(Splits(train=data), config, run=FitRun(folder=tmp_path, resume=True))
    np.testing.assert_array_equal(resumed.proba(data.rows), whole.proba(data.rows))
    assert resumed.decisions == whole.decisions


def test_a_forged_network_that_predicts_no_numbers_is_refused(tmp_path: Path) -> None:
    data, config = dataset(), Config.preset("fast").updated({**SMALL, "training.epochs": 3})

    def interrupt(event: str, progress: Progress) -> None:
        if event == "epoch" and progress.network == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Stopped):
        fit(Splits(train=data), config, run=FitRun(folder=tmp_path, callback=interrupt))
    for path in tmp_path.glob("checkpoint-*"):  # of the first network; the others have folders of their own
        found = read_checkpoint(path)
        forged = {name: 1e38 * t if t.is_floating_point() else t for name, t in found.tensors.items()}
        write_checkpoint(path, forged, found.state)
    with pytest.raises(TrainingDiverged, match="network 1 predicts values that are not numbers"):
        fit(Splits(train=data), config, run=FitRun(folder=tmp_path, resume=True))
