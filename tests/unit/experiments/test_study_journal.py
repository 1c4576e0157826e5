"""A search is continued with the lines that a search writes, and with no others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ConfigError
from lampnet.experiments import study_journal
from lampnet.experiments.study_journal import MOST_TRIALS
from lampnet.experiments.tune import BEST, JOURNAL, Found, Search, tune

# as in test_tune.py: seconds for a trial
FIXED = {
    "training.epochs": 1,
    "training.threads": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.base_learners": "none",
    "model.steps": 1,
}
Lines = list[Any]  # of JSON


def searched(folder: Path, trials: int = 2) -> Found:
    """A search of very few seconds."""
    labels = sparse.csr_matrix(np.eye(2, dtype=np.float32)[np.arange(24) % 2])
    rows = Dataset(name="toy", kind="wordset", rows=labels, labels=labels, label_names=("a", "b"))
    return tune(Splits(train=rows, valid=rows), folder, Search(trials=trials), FIXED)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of two trials."""
    folder = tmp_path_factory.mktemp("search")
    searched(folder)
    return (folder / JOURNAL).read_bytes()


def operation(lines: Lines, code: int, number: int = 0) -> dict[str, Any]:
    return [line for line in lines if line["op_code"] == code][number]


def forged(code: int, number: int = 0, **change: Any) -> Callable[[Lines], Lines]:
    """The same lines, one of which says something else."""

    def change_line(lines: Lines) -> Lines:
        operation(lines, code, number).update(change)
        return lines

    return change_line


def added(*more: dict[str, Any]) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines, *({"worker_id": "somebody"} | line for line in more)]


NEW = {"op_code": 4, "study_id": 0, "datetime_start": "2026-11-01T00:00:00+00:00"}
FORGED: dict[str, Callable[[Lines], Lines]] = {
    "a score that is no number": forged(6, 1, values=[float("nan")]),
    "a score above 1": forged(6, 1, values=[1e300]),
    "a text as a score": forged(6, 1, values=["1"]),
    "a truth as a score": forged(6, 1, values=[True]),
    "a list of scores": forged(6, 1, values=[0.5, 0.5]),
    "no score": forged(6, 1, values=None),
    "an unknown state": forged(6, 1, state=9),
    "an unknown setting": forged(5, param_name="training.$(reboot)"),
    "a setting out of its range": forged(5, param_value_internal=7.5),
    "a setting that is no number": forged(5, param_value_internal=float("nan")),
    "a choice that does not exist": forged(5, 4, param_value_internal=3),
    "another range": forged(5, distribution='{"name": "CategoricalDistribution", "attributes": {"choices": ["x"]}}'),
    "nested ranges": forged(5, distribution="[" * 100_000),
    "an operation that is none": forged(7, op_code=77),
    "an operation of another type": forged(7, op_code=[1]),
    "a deleted study": added({"op_code": 1, "study_id": 0}),
    "a discarded trial": added({"op_code": 10}),
    "another study": forged(0, study_name="other"),
    "another direction": forged(0, directions=[9]),
    "another first trial": forged(4, system_attrs={"fixed_params": {"model.width": "wide"}}),
    "settings of the first trial that are a list": forged(4, system_attrs=[]),
    "a trial of nowhere": forged(5, trial_id=10**400),
    "a step that is a list": forged(7, step=[1]),
    "a moment that is none": forged(4, 1, datetime_start="yesterday"),
    "a moment before all clocks": forged(4, 1, datetime_start="0001-01-01T00:00:00+23:59"),
    "no worker": forged(4, 1, worker_id=None),
    "what is drawn together": added(
        NEW, {"op_code": 9, "trial_id": 2, "system_attr": {"tpe:relative_params:0": "[1]"}}
    ),
    "what is drawn out of range": added(
        NEW, {"op_code": 9, "trial_id": 2, "system_attr": {"tpe:relative_params:0": '{"label_graph": [0]}'}}
    ),
    "a score for every step of a year": added(
        NEW, *({"op_code": 7, "trial_id": 2, "step": step, "intermediate_value": 0.5} for step in range(9))
    ),
    "a line that is a list": lambda lines: [*lines, []],
    "a line that is a number": lambda lines: [*lines, 5],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_line_is_refused(name: str, journal: bytes, tmp_path: Path) -> None:
    lines = FORGED[name]([json.loads(line) for line in journal.splitlines()])
    content = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / JOURNAL).write_text(content)
    with pytest.raises(ConfigError, match=r"study\.journal, line \d+: .*; a search cannot be continued with this file"):
        searched(tmp_path)
    assert (tmp_path / JOURNAL).read_text() == content


@pytest.mark.parametrize(
    "content",
    [b"\x00\xff" * 50, b"[" * 100_000 + b"\n", b"{}\n", b"my letters", b"x" * 3_000_000, b'{"a": ' * 60 + b"\n"],
    ids=["bytes", "nested lists", "nothing", "a letter", "a long line", "nested objects"],
)
def test_a_file_of_something_else_is_refused_and_left(content: bytes, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    with pytest.raises(ConfigError, match=r"study\.journal, line 1: .*give another folder"):
        searched(tmp_path)
    assert (tmp_path / JOURNAL).read_bytes() == content


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / JOURNAL).open("wb") as file:
        file.truncate(1 << 28)
    with pytest.raises(ConfigError, match=r"it has 268,435,456 bytes, at most 134,217,728 are allowed"):
        searched(tmp_path)


def test_too_many_trials_are_refused(journal: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="at most 10,000"):
        Search(trials=MOST_TRIALS + 1)
    (tmp_path / JOURNAL).write_bytes(journal)
    monkeypatch.setattr(study_journal, "MOST_TRIALS", 1)
    with pytest.raises(ConfigError, match="a search has at most 1 trials"):
        searched(tmp_path)


def test_shared_settings_are_those_of_this_search(journal: bytes, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in journal.splitlines()]
    operation(lines, 2, 1)["user_attr"]["fixed"]["model.width"] = "16; reboot"
    (tmp_path / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ConfigError, match=r"another model\.width; give another folder, or the same options"):
        searched(tmp_path)
    assert Found({"a": "1; reboot"}, 0.5, None, 1, "mean_f1").flags() == "--set 'a=1; reboot'"


@pytest.mark.parametrize("left", ["a link to nothing", "a link to the journal", "a pipe", "a folder"])
def test_a_lock_that_a_killed_search_left_is_not_waited_for(left: str, journal: bytes, tmp_path: Path) -> None:
    """A link to nothing is what is left of a search in a folder that was named from elsewhere."""
    (tmp_path / JOURNAL).write_bytes(journal)
    lock = tmp_path / f"{JOURNAL}.lock"
    if "link" in left:
        lock.symlink_to(tmp_path / JOURNAL if "journal" in left else "nothing")
    elif left == "a pipe":
        os.mkfifo(lock)
    else:
        lock.mkdir()
    assert searched(tmp_path, trials=3).trials == 3
    assert lock.is_symlink() or lock.exists()


@pytest.mark.parametrize("torn", [b'{"op_c', b'{"op_code":5,"worker_id":"a","trial_id":1,"par'])
def test_a_line_that_was_torn_off_is_dropped(torn: bytes, journal: bytes, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(journal + torn)
    assert searched(tmp_path, trials=3).trials == 3
    assert searched(tmp_path, trials=3).trials == 3
    assert all(json.loads(line) for line in (tmp_path / JOURNAL).read_bytes().splitlines())


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_search_that_was_killed_at_its_very_beginning_is_begun(lines: int, journal: bytes, tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(b"".join(journal.splitlines(keepends=True)[:lines]))
    assert searched(tmp_path, trials=1).default is not None
    assert json.loads((tmp_path / BEST).read_text())["trials"] == 1


def test_a_continued_search_reads_what_its_sampler_noted(tmp_path: Path) -> None:
    searched(tmp_path, trials=9)
    assert searched(tmp_path, trials=10).trials == 10
