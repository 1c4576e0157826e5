"""Bars in terminals and notebooks; only sentences elsewhere."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.runtime.progress_line import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    """As the kernel of a notebook names its output."""

    __module__ = "ipykernel.iostream"


@pytest.fixture(params=[Terminal, Notebook])
def out(request: pytest.FixtureRequest) -> io.StringIO:
    made: io.StringIO = request.param()
    return made


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [100.0]
    monkeypatch.setattr("lampnet.runtime.progress_line.time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def screen(written: str) -> list[str]:
    """The lines as a terminal shows them."""
    lines = []
    for line in written.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_a_line_says_what_is_done_and_how_long_the_rest_takes(out: io.StringIO, now: list[float]) -> None:
    with redirect_stdout(out), ProgressLine(shown=True) as line:
        line.phase(0.0, "base learners: linear")
        assert screen(out.getvalue()) == ["base learners: linear [....................]   0%"]
        now[0] += 30
        line.phase(0.25, "base learners: knn")
        assert screen(out.getvalue()) == ["base learners: knn [#####...............]  25%  about 1 min 30 s left"]
        line.log("knn is fitted")
        assert screen(out.getvalue()) == ["knn is fitted", ""]
        now[0] += 30
        line.phase(0.5, "base learners: forest")
        assert screen(out.getvalue())[1] == "base learners: forest [##########..........]  50%  about 1 min 0 s left"
        line.phase(0.0, "stacking weights")  # shorter than what stood there
        assert screen(out.getvalue())[1] == "stacking weights [....................]   0%"
    assert screen(out.getvalue()) == ["knn is fitted", ""]


def test_networks_side_by_side_keep_their_own_time(out: io.StringIO, now: list[float]) -> None:
    with redirect_stdout(out):
        line = ProgressLine(shown=True)
        for network in (1, 2):
            line.phase(0.0, f"network {network}/2: epoch 1")
        now[0] += 10
        for network in (1, 2):
            now[0] += 0.5
            line.phase(0.5, f"network {network}/2: epoch 2")
    assert screen(out.getvalue()) == ["network 2/2: epoch 2 [##########..........]  50%  about 11 s left"]


@pytest.mark.parametrize("shown", [True, False])
def test_a_file_or_a_pipe_gets_sentences_only(shown: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLine(shown) as line:
        line.phase(0.0, "encoding")
        line.log("done")
        line.phase(0.5, "encoding")
    assert capsys.readouterr().out == ("done\n" if shown else "")


def fitted(verbose: int) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4))
    y = (X[:, :2] > 0.3).astype(int)
    LaMPClassifier(verbose=verbose, epochs=1, base_learners=["linear"], random_state=0).fit(X, y)


def test_a_fit_in_python_shows_every_stage(out: io.StringIO) -> None:
    with redirect_stdout(out):
        fitted(verbose=1)
    for stage in (
        "encoding",
        "base learners",
        "stacking weights",
        "choosing the decisions",
        "network 1/5",
        "what known",
    ):
        assert f"\r{stage}" in out.getvalue()
    assert not screen(out.getvalue())[-1]


def test_a_fit_in_python_prints_nothing_where_it_is_not_asked_to(out: io.StringIO) -> None:
    with redirect_stdout(out):
        fitted(verbose=0)
    assert not out.getvalue()
