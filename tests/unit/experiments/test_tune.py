"""The search looks at validation rows only, resumes, and is never worse than the default."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits, random_split
from lampnet.errors import ConfigError
from lampnet.evaluation.metrics import micro_f1
from lampnet.experiments.tune import BEST, JOURNAL, Found, Search, defaults, objective, tune

# Few epochs of a narrow network, and no forest: seconds, not minutes.
FIXED = {
    "training.epochs": 1,
    "training.threads": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.base_learners": "none",
    "model.steps": 1,
}

ONE = Search(trials=1)


def word_splits(n: int = 90) -> Splits:
    rng = np.random.default_rng(0)
    Y = (rng.random((n, 3)) < 0.4).astype(np.float32)
    words = rng.random((n, 8)) < 0.2
    words[:, :3] = Y
    words[:, 7] = True
    rows = sparse.csr_matrix(words.astype(np.float32))
    data = Dataset(name="toy", kind="wordset", rows=rows, labels=sparse.csr_matrix(Y), label_names=tuple("abc"))
    index = np.arange(n)
    return Splits(train=data.take(index[: n // 2]), valid=data.take(index[n // 2 :]))


def test_trials_are_scored_on_held_out_rows_even_where_these_were_sampled(tmp_path: Path) -> None:
    parts = random_split(word_splits().train, valid=15, test=0, seed=0)
    given = Splits(train=parts.train, valid=parts.valid)
    assert parts.valid_is_sampled
    both = [tune(splits, tmp_path / str(n), ONE, FIXED) for n, splits in enumerate((parts, given))]
    assert both[0].value == both[1].value


@pytest.mark.parametrize("kind", ["a pipe", "a symbolic link", "a dangling link", "a folder"])
def test_a_journal_that_is_no_file_is_neither_waited_for_nor_written_through(kind: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "search", tmp_path / "letter.txt"
    folder.mkdir()
    if kind == "a symbolic link":
        other.write_text("of somebody else")
    if kind == "a pipe":
        os.mkfifo(folder / JOURNAL)
    elif kind == "a folder":
        (folder / JOURNAL).mkdir()
    else:
        (folder / JOURNAL).symlink_to(other)
    said = "a symbolic link" if "link" in kind else kind
    with pytest.raises(ConfigError, match=rf"cannot be the folder of a search \(it is {said}, not a regular file\)"):
        tune(word_splits(), folder, ONE, FIXED)
    assert not other.exists() if kind != "a symbolic link" else other.read_text() == "of somebody else"


def test_trials_are_scored_by_base_learners_that_were_not_fitted_on_the_validation_rows(tmp_path: Path) -> None:
    values = [
        tune(word_splits(), tmp_path / str(refit), Search("roc_auc_macro", trials=1), settings).value
        for refit in (True, False)
        for settings in [FIXED | {"model.base_learners": "knn", "training.refit_base_learners": refit}]
    ]
    assert values[0] == values[1] < 1


def test_the_search_resumes_and_keeps_its_best(tmp_path: Path) -> None:
    logged: list[str] = []
    first = tune(word_splits(), tmp_path, Search(trials=2), FIXED, logged.append)
    assert first.trials == 2
    assert [sentence.partition(":")[0] for sentence in logged] == ["trial 1", "trial 2"]
    assert first.default is not None
    assert first.value >= first.default
    storage = JournalStorage(JournalFileBackend(str(tmp_path / JOURNAL)))
    drawn = optuna.load_study(study_name="lampnet", storage=storage).trials
    preset = defaults(Config.preset("fast"), FIXED)
    assert drawn[0].params == preset
    assert drawn[1].params != preset
    again = tune(word_splits(), tmp_path, Search(trials=2), FIXED, logged.append)
    assert again == first
    assert len(logged) == 2
    more = tune(word_splits(), tmp_path, Search(trials=3), FIXED, logged.append)
    assert more.trials == 3
    assert more.default == first.default
    assert more.value >= first.value
    best = json.loads((tmp_path / BEST).read_text())
    assert best["settings"] == more.settings
    assert best["flags"] == more.flags()
    # What is printed can be given to `lampnet train`, and fixed settings are among it, unchanged.
    config = Config.preset("fast").updated(best["settings"])
    assert (config.model.width, config.model.base_learners, config.training.epochs) == (16, (), 1)


def test_test_rows_are_never_read(tmp_path: Path) -> None:
    class Untouchable:
        shape = (5, 8)

        def __getitem__(self, index: object) -> object:
            raise AssertionError("test rows were read")

    splits = word_splits()
    poisoned = replace(splits.train.take(np.arange(5)), rows=Untouchable())
    with_test = Splits(train=splits.train, valid=splits.valid, test=poisoned)
    plain = tune(splits, tmp_path / "a", ONE, FIXED)
    assert tune(with_test, tmp_path / "b", ONE, FIXED) == plain


def test_another_search_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    tune(word_splits(), tmp_path, ONE, FIXED)
    with pytest.raises(ConfigError, match="another metric"):
        tune(word_splits(), tmp_path, Search("micro_f1", trials=1), FIXED)
    with pytest.raises(ConfigError, match="another base"):
        tune(word_splits(), tmp_path, ONE, FIXED | {"training.epochs": 2})


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs an end"):
        Search()
    with pytest.raises(ConfigError, match="did you mean 'mean_f1'"):
        Search("mean_f2", trials=1)
    with pytest.raises(ConfigError, match="at least 1"):
        Search(trials=0)
    with pytest.raises(ConfigError, match="did you mean"):
        tune(word_splits(), tmp_path, ONE, {"model.widht": 3})
    assert list(tmp_path.iterdir()) == []


def test_the_first_trial_is_the_preset_itself() -> None:
    base = Config.preset("fast")
    values = {name: str(value) for name, value in defaults(base).items()}
    assert base.updated(values) == base
    assert "model.width" not in defaults(base, {"model.width": 3})


def test_objectives() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random((30, 3)) < 0.5).astype(float)
    proba = np.clip(0.5 * truth + 0.5 * rng.random(truth.shape), 0, 1)
    by_hand = max(micro_f1(truth, proba >= cut) for cut in (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6))
    assert objective("micro_f1", truth, proba) >= by_hand
    assert 0.5 < objective("roc_auc_macro", truth, proba) <= 1
    assert objective("roc_auc_macro", np.ones((4, 1)), np.full((4, 1), 0.3)) == 0.0


def test_flags_are_what_train_takes() -> None:
    found = Found({"model.base_learners": "linear,knn", "training.learning_rate": 0.00123}, 0.5, 0.4, 9, "mean_f1")
    assert found.flags() == "--set model.base_learners=linear,knn --set training.learning_rate=0.00123"
