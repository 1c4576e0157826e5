"""JSON of untrusted files."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lampnet.runtime.limited_json import parse_json

texts = st.text(st.characters(), max_size=6)  # half characters too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def writable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@settings(suppress_health_check=[HealthCheck.too_slow])  # the first draw lists all characters
@given(value=values, escaped=st.booleans())
def test_what_can_be_written_is_parsed_and_half_characters_are_refused(value: object, escaped: bool) -> None:
    content = json.dumps(value, ensure_ascii=escaped).encode(errors="surrogatepass")
    if writable(value):
        assert parse_json(content) == value
    else:
        with pytest.raises(ValueError, match=r"half a character|not JSON"):
            parse_json(content)


@pytest.mark.parametrize("content", [b"[" * 40 + b"]" * 40, b'{"a": 1, "a": 2}', b"[1,", b"\xff"])
def test_other_json_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"nested|twice|not JSON"):
        parse_json(content)
