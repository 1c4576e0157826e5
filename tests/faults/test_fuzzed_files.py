"""Untrusted files: thousands of damaged ones, and malicious ones."""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import fuzzed
from peak_memory import growth_of_peak

from lampnet.errors import LampnetError
from lampnet.persistence.model_folder import load_model
from lampnet.readers.any_format import read
from lampnet.readers.files import read_bytes
from lampnet.runtime.memory_limit import limited_to, machine_memory


@pytest.mark.parametrize("cases", [300, pytest.param(50_000, marks=[pytest.mark.faults, pytest.mark.long])])
def test_damaged_data_files_are_read_or_refused(cases: int, tmp_path: Path, record: Callable[[str, Any], None]) -> None:
    summary = fuzzed("fuzz_files.py", "damage", tmp_path, cases, cases)
    assert summary["failures"] == []
    assert summary["accepted"] > cases / 20  # otherwise no case got past the first check
    assert summary["refused"] > cases / 20
    if cases == 50_000:
        record("data_files_fuzzed", cases)
        record("data_files_peak_gb", summary["peak_gb"])
        record("data_files_most_cpu_seconds", summary["most_cpu_seconds"])


@pytest.mark.parametrize("cases", [12, pytest.param(1000, marks=[pytest.mark.faults, pytest.mark.long])])
def test_ten_times_the_input_takes_at_most_twelve_times_the_time(
    cases: int, tmp_path: Path, record: Callable[[str, Any], None]
) -> None:
    summary = fuzzed("fuzz_files.py", "growth", tmp_path, cases, cases)
    assert summary["failures"] == []
    if cases == 1000:
        record("data_files_grown_tenfold", cases)


@pytest.mark.parametrize("cases", [15, pytest.param(1000, marks=[pytest.mark.faults, pytest.mark.long])])
def test_small_files_that_stand_for_much_stay_within_the_memory(
    cases: int, tmp_path: Path, record: Callable[[str, Any], None]
) -> None:
    summary = fuzzed("fuzz_files.py", "expansion", tmp_path, cases, cases)
    assert summary["failures"] == []
    assert summary["accepted"] > cases / 50
    assert summary["refused"] > cases / 20
    if cases == 1000:
        record("expanding_files_read_or_refused", cases)


BEYOND_32_BITS = """
import sys
import pyarrow as pa
from lampnet.readers.arrow_sizes import plain

rows, texts = 2200, pa.array(["x" * 10**6, "y"])
if "bytes" in sys.argv[1]:
    texts = texts.cast(pa.binary())
if "runs" in sys.argv[1]:
    many = pa.RunEndEncodedArray.from_arrays(pa.array([rows, rows + 1], pa.int32()), texts)
else:
    many = pa.DictionaryArray.from_arrays(pa.array([0] * rows + [1], pa.int8()), texts)
found = plain(many.slice(1))
print(len(found), len(found[0].as_py()), len(found[rows - 2].as_py()), len(found[rows - 1].as_py()))
"""


@pytest.mark.faults
@pytest.mark.skipif(machine_memory() < 8e9, reason="two gigabytes of text are made")
@pytest.mark.parametrize("form", ["runs", "runs of bytes", "dictionary", "dictionary of bytes"])
def test_more_text_than_32_bits_count_is_repeated_rightly(form: str) -> None:
    done = subprocess.run([sys.executable, "-c", BEYOND_32_BITS, form], capture_output=True, text=True)
    assert done.stdout.split() == ["2200", "1000000", "1000000", "1"], (done.returncode, done.stderr)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_decompression_bomb_is_bounded(pack: Any, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.csv"
    bomb.write_bytes(pack(bytes(200_000_000)))
    assert bomb.stat().st_size < 1_000_000
    refused = pytest.raises(LampnetError, match="above the limit of 20 MB")
    with growth_of_peak() as growth, limited_to(20_000_000), refused:
        read_bytes(bomb)
    assert growth.megabytes < 100


def _npz_claiming(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode().ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", array)
    return out.getvalue()


def _pickled_npz(marker: Path) -> bytes:
    class Malicious:
        def __reduce__(self) -> Any:
            return (Path.touch, (marker,))

    out = io.BytesIO()
    np.save(out, np.array([Malicious()], dtype=object), allow_pickle=True)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("X.npy", out.getvalue())
    return archive.getvalue()


MALICIOUS = {
    "a billion-row index.libsvm": b"0 1:1\n1 999999999999:1\n",
    "huge header.xc.txt": b"999999999999 999999999999 999999999999\n0 1:1\n",
    "huge shape.npz": _npz_claiming("(1000000, 1000000)"),
    "negative shape.npz": _npz_claiming("(-1, 3)"),
    "many axes.npz": _npz_claiming("(" + "1000," * 40 + ")"),
    "deep.jsonl": b"[" * 100_000,
    "cut.csv.gz": gzip.compress(b"text,labels\nred fox,a\n" * 1000)[:-20],
    "cut.csv.bz2": bz2.compress(b"text,labels\nred fox,a\n" * 1000)[:-20],
    "latin.jsonl": '{"text": "café", "labels": ["a"]}'.encode("latin-1"),
    "attributes.arff": b"@relation r\n" + b"@attribute a numeric\n" * 3 + b"@data\n1,2\n",
    "sparse index.arff": b"@relation 'r: -C 1'\n@attribute y {0,1}\n@attribute a numeric\n@data\n{999999999999 1}\n",
    "bomb.mat": b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + struct.pack("<II", 15, 9) + zlib.compress(bytes(99))[:9],
    "empty.parquet": b"PAR1PAR1",
    "empty.csv": b"",
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_absurd_sizes_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(MALICIOUS[name])
    with growth_of_peak() as growth, pytest.raises(LampnetError) as refusal:
        read(path)
    assert "\n" not in str(refusal.value)
    assert growth.megabytes < 300


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    marker, pickled = tmp_path / "executed", tmp_path / "pickled.npz"
    pickled.write_bytes(_pickled_npz(marker))
    with pytest.raises(LampnetError):
        read(pickled)
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("model.json", "weights-0123456789abcdef.safetensors"):
        (folder / name).write_bytes(pickle.dumps(Path))
    with pytest.raises(LampnetError):
        load_model(folder)
    assert not marker.exists()


@pytest.mark.parametrize("line_end", ["\r\n", "\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks_do_not_matter(line_end: str, mark: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(mark + line_end.join(["text,labels", "red fox at sea,a|b", "blue sea and sky,b", ""]).encode())
    data = read(path)
    assert list(data.rows) == ["red fox at sea", "blue sea and sky"]
    assert data.label_names == ("a", "b")
