"""The bench's stored model: really stored, loaded and asked in a process of its own."""

from __future__ import annotations

import pytest

from bench import start
from bench.networks import Shape


def test_the_first_prediction_of_a_stored_model_is_timed_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "TURNS", 1)
    found = start.first_prediction(Shape("tiny", labels=4, nodes=6, words=40, true_labels=1.5))
    assert list(found) == ["import_seconds", "load_seconds", "first_seconds", "second_seconds"]
    assert all(seconds > 0 for seconds in found.values())


def test_start_up_is_timed_for_python_the_command_and_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "TURNS", 1)
    found = start.start_up()
    assert set(found) == {"python_seconds", "command_seconds", "import_torch_seconds"}
