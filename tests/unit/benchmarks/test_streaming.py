"""The benchmark of data larger than memory: every stage runs, on few documents."""

from __future__ import annotations

from pathlib import Path

import pytest

import streaming


def test_every_stage_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BLOCK_STEPS", 1)
    monkeypatch.setattr(streaming, "BLOCKS", 1)
    streaming.generate(tmp_path / "documents.parquet", 400, seed=0)
    streaming.prepare_rows(tmp_path / "documents.parquet", tmp_path / "prepared")
    trained = streaming.train(tmp_path / "prepared", seconds=2.0)
    assert 0 < trained["train_rows"] < 400
    speed = streaming.compare_speed(tmp_path / "prepared")
    assert speed["rows_per_second_mapped"] > 0 < speed["rows_per_second_in_memory"]
