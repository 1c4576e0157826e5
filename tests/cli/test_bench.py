"""`lampnet bench --whole-fits`, whose fits run in processes of their own."""

from __future__ import annotations

from pathlib import Path

from lampnet_command import lampnet


def test_absent_data_are_told_in_one_sentence_and_leave_no_file(tmp_path: Path) -> None:
    finished = lampnet("bench", "--whole-fits", "emotions", "--out", "measured.json", folder=tmp_path)
    sentence = finished.mistake()
    assert "the data set emotions was looked for in" in sentence
    assert "lampnet data fetch emotions" in sentence
    assert not list(tmp_path.iterdir())


def test_a_fit_that_is_not_known_is_told_with_those_that_are() -> None:
    assert "synthetic" in lampnet("bench", "--whole-fits", "synthetik").mistake()
