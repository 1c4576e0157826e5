"""Preparing rows: progress, interruptions that cost no base learner, and the time budget."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from lampnet.base_learners import streamed_stack
from lampnet.base_learners.linear import LinearLearner
from lampnet.cli.app import run as command
from lampnet.cli.display import TrainingDisplay
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.errors import DataError
from lampnet.pipeline.base_learner_files import has_base_learner_files
from lampnet.pipeline.control import FitRun
from lampnet.pipeline.mapped_rows import MappedRows, is_prepared, open_prepared
from lampnet.pipeline.prepare import WholeInChunks, prepare
from lampnet.pipeline.run import Resume, Run, train_into
from lampnet.readers.sources import Source
from lampnet.training.progress import Stopped

CONFIG = Config.preset("fast").updated(
    {"model.base_learners": "linear,knn,forest", "model.width": 8, "training.epochs": 1, "training.threads": 1}
)


def rows_of_words(n: int = 200, seed: int = 0) -> Dataset:
    random = np.random.default_rng(seed)
    Y = np.float32(random.random((n, 4)) < 0.3)
    words = (random.random((n, 30)) < 0.2) | (np.pad(Y, ((0, 0), (0, 26))) > 0)
    X = sparse.csr_matrix(words.astype(np.float32))
    return Dataset(name="toy", kind="wordset", rows=X, labels=sparse.csr_matrix(Y), label_names=tuple("abcd"))


@pytest.fixture(params=["in memory", "streamed"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "streamed":
        monkeypatch.setattr("lampnet.pipeline.prepare.ROWS_IN_MEMORY", 60)
    return str(request.param)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often a linear base learner was fitted."""
    counted: list[str] = []
    of_memory, of_stream = LinearLearner.fit, streamed_stack._linear
    monkeypatch.setattr(LinearLearner, "fit", lambda *a, **k: (counted.append("memory"), of_memory(*a, **k))[1])
    monkeypatch.setattr(streamed_stack, "_linear", lambda *a, **k: (counted.append("stream"), of_stream(*a, **k))[1])
    return counted


def interrupt_at(words: str, number: int = signal.SIGINT) -> Callable[[float, str], None]:
    def phase(share: float, doing: str) -> None:
        if doing.startswith(words):
            os.kill(os.getpid(), number)

    return phase


def assert_same(one: MappedRows, other: MappedRows) -> None:
    assert one.stack is not None
    assert other.stack is not None
    for part in one.parts:
        np.testing.assert_array_equal(one.parts[part].base_logits, other.parts[part].base_logits)
    theirs = other.stack.arrays()
    for name, array in one.stack.arrays().items():
        np.testing.assert_array_equal(array, theirs[name])


def test_every_phase_reports_what_is_done(how: str, tmp_path: Path) -> None:
    reported: dict[str, list[float]] = {}

    def phase(share: float, doing: str) -> None:
        reported.setdefault(doing.partition(":")[0], []).append(share)

    prepare(WholeInChunks(rows_of_words(), size=40), tmp_path / "rows", CONFIG, run=FitRun(phase=phase))
    (logits,) = (doing for doing in reported if doing.startswith("base logits of 180"))
    for doing in ("fitting the encoder", "encoding", "base learners"):
        shares = reported[doing]
        assert shares == sorted(shares)
        assert shares[0] == 0.0
        assert shares[-1] > 0.5
    assert reported[logits][0] == 0.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_is_fitted_and_preparing_again_does_not_fit_it_again(
    how: str, number: int, tmp_path: Path, fits: list[str]
) -> None:
    data = rows_of_words()
    prepare(WholeInChunks(data, size=40), tmp_path / "whole", CONFIG)
    whole, ended = open_prepared(tmp_path / "whole"), tmp_path / "ended"
    assert not has_base_learner_files(tmp_path / "whole")
    with pytest.raises(Stopped) as stopped:
        prepare(
            WholeInChunks(data, size=40), ended, CONFIG, run=FitRun(phase=interrupt_at("base learners: knn", number))
        )
    assert stopped.value.signal_number == number
    assert not is_prepared(ended)
    assert (ended / "base-linear").is_file()
    fits.clear()
    said: list[str] = []
    prepare(WholeInChunks(data, size=40), ended, CONFIG, log=said.append)  # nothing is lost, so no --overwrite
    assert not fits
    assert "fitted before the interruption: linear" in said
    assert_same(open_prepared(ended), whole)
    assert not has_base_learner_files(ended)


def test_what_was_fitted_on_other_rows_or_is_damaged_is_fitted_again(how: str, tmp_path: Path, fits: list[str]) -> None:
    data, folder = rows_of_words(), tmp_path / "rows"
    other = rows_of_words(seed=1)
    prepare(WholeInChunks(data), tmp_path / "whole", CONFIG)
    for ruin in (False, True):
        before = data if ruin else other
        with pytest.raises(Stopped):
            prepare(WholeInChunks(before), folder, CONFIG, run=FitRun(phase=interrupt_at("base learners: forest")))
        if ruin:
            for path in folder.glob("base-*"):
                path.write_bytes(path.read_bytes()[:-60] + b"x" * 60)
        fits.clear()
        prepare(WholeInChunks(data), folder, CONFIG)
        assert fits
        assert_same(open_prepared(folder), open_prepared(tmp_path / "whole"))
        (folder / "prepared.json").unlink()


def test_a_folder_with_files_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "base-camp.txt").write_text("mine")
    with pytest.raises(DataError, match="base-camp"):
        prepare(WholeInChunks(rows_of_words()), tmp_path, CONFIG, overwrite=True)
    assert (tmp_path / "base-camp.txt").read_text() == "mine"


def table(folder: Path) -> Path:
    arrow = pytest.importorskip("pyarrow")
    data = rows_of_words()
    words, Y = data.rows.toarray(), data.indicator()
    texts = [" ".join(f"w{number}" for number in np.flatnonzero(row)) or "none" for row in words]
    tags = ["|".join(name for name, has in zip("abcd", row, strict=True) if has) for row in Y]
    made = arrow.table({"text": texts, "tags": tags})
    path = folder / "rows.arrow"
    with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_file(sink, made.schema) as writer:
        writer.write_table(made)
    return path


def test_ctrl_c_ends_the_command_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TrainingDisplay, "phase", lambda self, *at: interrupt_at("base learners: knn")(*at))
    arguments = [
        "prepare",
        str(table(tmp_path)),
        "--out",
        str(tmp_path / "rows"),
        "--set",
        "model.base_learners=linear,knn",
    ]
    assert command(arguments) == 130
    assert "lampnet: stopped; the same command goes on behind the base learners" in capsys.readouterr().err
    monkeypatch.undo()
    assert command(arguments) == 0
    assert "fitted before the interruption: linear" in capsys.readouterr().err


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every Arrow file were large."""
    monkeypatch.setattr("lampnet.pipeline.prepare.LARGE_BYTES", 1)


@pytest.mark.usefixtures("large")
def test_a_training_on_a_large_table_that_is_stopped_while_it_prepares_is_resumed(
    tmp_path: Path, fits: list[str]
) -> None:
    asked = Run(source=Source(data=str(table(tmp_path))), config=CONFIG, label_graph="full")
    with pytest.raises(Stopped):
        train_into(asked, tmp_path / "m", phase=interrupt_at("base learners: knn"))
    assert fits
    fits.clear()
    said: list[str] = []
    outcome = train_into(asked, tmp_path / "m", resume=Resume(), log=said.append)
    assert not fits
    assert "fitted before the interruption: linear" in said
    assert outcome.model.stack.names == ("linear", "knn", "forest")


@pytest.mark.usefixtures("large")
def test_preparing_a_large_table_counts_in_the_time_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on only while rows are prepared, a second with every report."""
    now, given = [0.0], list[float]()
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("lampnet.runtime.budget.time", clock)
    monkeypatch.setattr("lampnet.pipeline.run.time", clock)
    monkeypatch.setattr("lampnet.pipeline.fit.train_members", lambda *args: given.append(args[-1]) or [])

    def tick(share: float, doing: str) -> None:
        now[0] += doing.startswith(("base learners", "base logits", "encoding"))

    config = CONFIG.updated({"training.time_budget": 1e6})
    train_into(
        Run(source=Source(data=str(table(tmp_path))), config=config, label_graph="full"), tmp_path / "m", phase=tick
    )
    assert now[0] > 5
    assert given == [pytest.approx(1e6 - now[0])]


def test_base_learners_of_streamed_rows_keep_a_time_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on with every step of the linear learner."""
    monkeypatch.setattr("lampnet.pipeline.prepare.ROWS_IN_MEMORY", 60)
    monkeypatch.setattr("lampnet.base_learners.streamed_linear.BATCH", 4)
    now, steps = [0.0], [0]
    original: Any = streamed_stack.fit_streamed.__globals__["_Problem"].step

    def step(self: Any, *args: Any) -> None:
        now[0] += 1.0
        steps[0] += 1
        original(self, *args)

    monkeypatch.setattr("lampnet.base_learners.streamed_linear._Problem.step", step)
    made = streamed_stack.FitContext
    monkeypatch.setattr(
        "lampnet.pipeline.prepare.FitContext", lambda **given: made(**{**given, "clock": lambda: now[0]})
    )
    monkeypatch.setattr("lampnet.runtime.budget.time", SimpleNamespace(monotonic=lambda: now[0]))
    config = CONFIG.updated({"model.base_learners": "linear", "model.network": False})
    prepare(WholeInChunks(rows_of_words()), tmp_path / "free", config)
    free, steps[0] = steps[0], 0
    prepare(WholeInChunks(rows_of_words()), tmp_path / "rows", config.updated({"training.time_budget": 100}))
    assert free > 300
    assert 50 < steps[0] <= 84  # four fifths of a hundred seconds, and at most a step more in each of the solutions
    stack = open_prepared(tmp_path / "rows").stack
    assert stack is not None
    assert np.isfinite(stack.learners[0].weights).all()
