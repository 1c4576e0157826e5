"""Headers of safetensors files are checked before anything is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lampnet.errors import ModelFolderError
from lampnet.persistence.tensor_file import read_header


@settings(max_examples=80, deadline=None)
@given(
    shape=st.lists(st.integers(0, 2**62), max_size=9),
    begin=st.integers(0, 2**62),
    end=st.integers(0, 2**62),
    dtype=st.sampled_from(["F32", "I64", "U8", "F128", "BOOL"]),
    name=st.text(max_size=8),
)
def test_a_header_cannot_claim_what_the_file_does_not_hold(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], begin: int, end: int, dtype: str, name: str
) -> None:
    path = tmp_path_factory.mktemp("header") / "w.safetensors"
    header = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 16)
    try:
        entries = read_header(path)
    except ModelFolderError:
        return
    assert sum(entry.end - entry.begin for entry in entries.values()) == 16
