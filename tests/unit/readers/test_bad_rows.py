"""Rows that no encoder can read are an error, or are left out when the caller says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lampnet.config import InputConfig
from lampnet.encoders import make_encoder
from lampnet.errors import DataError, FormatError
from lampnet.readers.row_chunks import chunks
from lampnet.readers.sources import Source

SMILES = ["CCO", "c1ccccc1", "C(C", "CCN", "not a molecule", "CC(=O)O"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"id": str(i), "smiles": text, "labels": ["a"]}) for i, text in enumerate(SMILES)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_an_invalid_smiles_names_its_row(rows: Path) -> None:
    data = Source(data=str(rows)).splits().train
    with pytest.raises(DataError, match=r"row 2: 'C\(C' is not valid SMILES"):
        make_encoder("molecule", InputConfig()).fit(data.rows)


def test_skipped_rows_are_gone_with_their_labels_and_ids(rows: Path) -> None:
    notices: list[str] = []
    data = Source(data=str(rows), on_bad_row="skip").splits(notice=notices.append).train
    assert data.ids == ("0", "1", "3", "5")
    assert data.labels is not None
    assert data.labels.shape == (4, 1)
    assert "2 of 6 molecules have invalid SMILES" in notices[-1]


def test_a_compressed_stream_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import bz2

    monkeypatch.setattr("lampnet.readers.files.MAX_BYTES", 1_000_000)
    monkeypatch.setattr("lampnet.readers.files.MAX_LINE", 100_000)
    many, long = tmp_path / "many.jsonl.bz2", tmp_path / "long.jsonl.bz2"
    many.write_bytes(bz2.compress(b'{"text": "again"}\n' + b" \n" * 1_000_000))
    long.write_bytes(bz2.compress(b'{"text": "' + b"0" * 600_000 + b'"}\n'))
    with pytest.raises(FormatError, match="decompression bombs"):
        list(chunks(Source(data=str(many)), "test", 0))
    with pytest.raises(FormatError, match="a line is longer than 100,000 bytes"):
        list(chunks(Source(data=str(long)), "test", 0))


def test_rows_to_predict_are_skipped_chunk_by_chunk(rows: Path) -> None:
    source = Source(data=str(rows), on_bad_row="skip")
    found = [chunk.ids for chunk in chunks(source, "test", 0, size=2)]
    assert [name for ids in found if ids for name in ids] == ["0", "1", "3", "5"]
    resumed = [chunk.ids for chunk in chunks(source, "test", 0, skip=3, size=2)]
    assert [name for ids in resumed if ids for name in ids] == ["5"]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_picture_whose_name_no_file_can_have_is_named_with_its_line(name: str, tmp_path: Path) -> None:
    path, picture = tmp_path / name, "p" * 5_000 + ".png"
    lines = [json.dumps({"image": picture, "labels": ["a"]})] if name == "rows.jsonl" else ["image,a", f"{picture},1"]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError, match=r"line \d: .*picture") as raised:
        Source(data=str(path)).splits()
    assert len(str(raised.value)) < 1000
