"""prepare, tune, compare, reproduce and predict: signals at random moments, no descriptors, no folder, a mad clock.

Whatever happens, a command ends with its result or with one line; and the same command, run again, ends with the
result of a run that nothing happened to.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_process import Ended, Fault, run_command

pytestmark = pytest.mark.faults

#: How many moments of a fault are tried in each command.
some_moments = pytest.mark.parametrize("moments", [1, pytest.param(10, marks=pytest.mark.long)])
TINY = ("--set=model.width=8", "--set=model.heads=2", "--set=model.steps=1", "--set=training.threads=1")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
#: How a command ends that a signal stopped: by its own code, or by the signal itself.
CODES = {signal.SIGINT: {130, -2}, signal.SIGTERM: {143, -15}, signal.SIGKILL: {-9}}


@dataclass(frozen=True)
class Case:
    """A command to run with its results in `work`, and what it leaves there when it is done."""

    arguments: Callable[[Path], list[str]]
    result: Callable[[Path, str], Any]


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def cases(
    tmp_path_factory: pytest.TempPathFactory, write_texts: Any, data_root: Path, run: Callable[..., Ended]
) -> dict[str, Case]:
    root = tmp_path_factory.mktemp("inputs")
    rows = write_texts(root / "rows.jsonl", 80, 0)
    many = write_texts(root / "many.jsonl", 2500, 1)
    learn = ("--set=training.epochs=1", "--set=training.folds=1", "--set=model.base_learners=none", *TINY)
    trained = run(root / "train", "train", rows, "--out", root / "model", "--quiet", *learn)
    assert trained.code == 0, trained.err
    emotions = data_root / "emotions"

    def scores(work: Path, _: str) -> Any:
        stored = [json.loads(path.read_text()) for path in sorted((work / "results").glob("*.json"))]
        return [(one["system"], one["finished"], one["best"], one["ranking"]) for one in stored]

    def best(work: Path, _: str) -> Any:
        return json.loads((work / "search" / "best.json").read_text())["trials"]

    found = {
        "prepare": Case(
            lambda work: [
                *("prepare", str(rows), "--out", str(work / "prepared"), "--overwrite"),
                "--set=model.base_learners=linear",
            ],
            lambda work, _: digests(work / "prepared"),
        ),
        "tune": Case(
            lambda work: ["tune", str(rows), "--out", str(work / "search"), "--trials", "2", "--quiet", *learn],
            best,
        ),
        "compare": Case(
            lambda work: ["compare", str(rows), "--methods", "constant,logistic,lamp", "--json", "--quiet", *learn],
            lambda _, out: [(one["system"], one["best"], one["ranking"]) for one in json.loads(out)["results"]],
        ),
        "predict": Case(
            lambda work: ["predict", str(root / "model"), str(many), "--out", str(work / "out.jsonl"), "--resume"],
            lambda work, _: [
                (row["id"], row["labels"]) for row in map(json.loads, (work / "out.jsonl").read_text().splitlines())
            ],
        ),
    }
    if emotions.is_dir():
        asked = ["--dataset", "emotions", "--model", "constant", "--model", "logistic", "--seed", "0", "--quiet"]
        found["reproduce"] = Case(
            lambda work: [
                *("reproduce", *asked, "--data-root", str(data_root)),
                *("--out", str(work / "results"), "--page", str(work / "page.md")),
            ],
            scores,
        )
    return found


@pytest.fixture(scope="module")
def run(command_context: Any) -> Callable[..., Ended]:
    def start(folder: Path, *arguments: object, fault: Fault = Fault()) -> Ended:  # noqa: B008
        return run_command(command_context, folder, [str(argument) for argument in arguments], fault)

    return start


@pytest.fixture(scope="module")
def undisturbed(
    cases: dict[str, Case], run: Callable[..., Ended], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Ended, Any]]:
    """Of each command: how it ended, and its result."""
    found = {}
    for name, case in cases.items():
        work = tmp_path_factory.mktemp(name)
        ended = run(work / "log", *case.arguments(work))
        assert ended.code == 0, ended.err
        assert ended.calls > 1000
        found[name] = ended, case.result(work, ended.out)
    return found


NAMES = ("prepare", "tune", "compare", "predict", "reproduce")


def case_of(cases: dict[str, Case], name: str) -> Case:
    if name not in cases:
        pytest.skip("the files of the emotions data set are not there")
    return cases[name]


def some_moment(whole: Ended, draw: random.Random, number: int) -> int:
    """Every other moment is one at which files are written, if there are any."""
    return draw.choice(whole.writes) if whole.writes and number % 2 == 0 else draw.randrange(1, whole.calls)


def check_ended_well(ended: Ended) -> None:
    """One sentence, no traceback."""
    assert "Traceback" not in ended.err, ended.err
    assert "Exception ignored" not in ended.err, ended.err
    if ended.code == 2:
        assert len([line for line in ended.err.splitlines() if line.startswith("lampnet: ")]) == 1, ended.err


@some_moments
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("name", NAMES)
def test_a_signal_at_a_random_moment_loses_nothing(
    name: str,
    number: signal.Signals,
    moments: int,
    cases: Any,
    undisturbed: Any,
    run: Any,
    tmp_path: Path,
    record: Any,
) -> None:
    case = case_of(cases, name)
    whole, wanted = undisturbed[name]
    draw = random.Random(f"{name} {number}")
    for moment in range(moments):
        work = tmp_path / str(moment)
        at = some_moment(whole, draw, moment)
        ended = run(work / "log", *case.arguments(work), fault=Fault(at_call=at, signal_number=number))
        where = f"{name}, {number.name} at call {at} of {whole.calls}: {ended}"
        check_ended_well(ended)
        assert ended.code in CODES[number] | {0}, where
        again = run(work / "log", *case.arguments(work))
        assert again.code == 0, (where, again.err)
        check_ended_well(again)
        assert case.result(work, again.out) == wanted, where
        shutil.rmtree(work)
    record(f"signals_survived[{name} {number.name}]", moments)


@some_moments
@pytest.mark.parametrize("name", NAMES)
def test_without_descriptors_a_command_ends_in_one_line_and_runs_again(
    name: str, moments: int, cases: Any, undisturbed: Any, run: Any, tmp_path: Path, record: Any
) -> None:
    case = case_of(cases, name)
    ends = []
    for left in (0, 3) if moments == 1 else range(2 * moments):
        work = tmp_path / str(left)
        ended = run(work / "log", *case.arguments(work), fault=Fault(descriptors=left))
        check_ended_well(ended)
        ends.append(ended.code)
        if ended.code:
            assert "Too many open files" in ended.err, ended.err
            ended = run(work / "log", *case.arguments(work))
        assert ended.code == 0, ended.err
        assert case.result(work, ended.out) == undisturbed[name][1]
    assert ends[0] != 0  # with none at all, not one file can be read
    record(f"descriptors_exhausted[{name}]", len(ends))


@some_moments
@pytest.mark.parametrize("name", [name for name in NAMES if name != "compare"])
def test_a_removed_folder_ends_a_command_in_one_line(
    name: str, moments: int, cases: Any, undisturbed: Any, run: Any, tmp_path: Path, record: Any
) -> None:
    case = case_of(cases, name)
    draw = random.Random(name)
    for moment in range(moments):
        work, log = tmp_path / str(moment), tmp_path / f"log {moment}"
        work.mkdir()
        at = some_moment(undisturbed[name][0], draw, moment)
        ended = run(log, *case.arguments(work), fault=Fault(at_call=at, remove=str(work)))
        check_ended_well(ended)
        assert ended.code in (0, 1, 2), ended
        work.mkdir(exist_ok=True)
        again = run(log, *case.arguments(work))
        assert again.code == 0, (at, again.err)
        assert case.result(work, again.out) == undisturbed[name][1]
    record(f"folders_removed[{name}]", moments)


@pytest.mark.parametrize("name", NAMES)
def test_a_wall_clock_that_jumps_changes_nothing(
    name: str, cases: Any, undisturbed: Any, run: Any, tmp_path: Path
) -> None:
    case = case_of(cases, name)
    ended = run(tmp_path / "log", *case.arguments(tmp_path), fault=Fault(clock_jumps=True))
    assert ended.code == 0, ended.err
    assert case.result(tmp_path, ended.out) == undisturbed[name][1]


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    target = tmp_path_factory.mktemp("mounted")
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", target]).returncode:
        pytest.skip("mounting a file system needs root")
    yield target
    subprocess.run(["umount", target], check=True)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "compare"])
def test_a_read_only_folder_is_reported_in_one_line(
    name: str, cases: Any, read_only: Path, run: Any, tmp_path: Path
) -> None:
    ended = run(tmp_path, *case_of(cases, name).arguments(read_only))
    check_ended_well(ended)
    assert ended.code == 2, ended
    assert "Read-only file system" in ended.err
