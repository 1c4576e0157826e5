"""JSON of untrusted files: no key twice, no deep nesting, no more values than a description needs.

A parsed value takes up to eighty times the bytes of its text, so the text is counted before it is parsed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import numpy as np

MAX_DEPTH = 32
MAX_VALUES = 4_000_000
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
#: an escape for half a character, which alone cannot be written anywhere
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(content: bytes, max_values: int = MAX_VALUES) -> Any:
    """What `json.loads` returns, or a `ValueError` that says what is wrong.

    >>> parse_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    lampnet.runtime.limited_json.DoubledKey: the key 'a' occurs twice
    """
    structure = _TEXT.sub(b"", content)
    values = sum(structure.count(sign) for sign in (b",", b"[", b"{"))
    if values > max_values:
        raise ValueError(f"it holds {values:,} values, more than {max_values:,}")
    brackets = np.frombuffer(structure.translate(None, _NO_BRACKET), dtype=np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    if len(brackets) and np.cumsum(np.where(opening, 1, -1)).max() > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    try:
        parsed = json.loads(content.decode(), object_pairs_hook=unique_keys)
    except DoubledKey:
        raise
    except ValueError:
        raise ValueError("it is not JSON") from None
    if _HALF.search(content):
        try:
            json.dumps(parsed, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half a character (an escape such as \\ud800 alone)") from None
    return parsed


class DoubledKey(ValueError):
    """A key that occurs twice; readers differ in which one they take."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs: an `object_pairs_hook` for `json.loads`."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise DoubledKey(f"the key {twice[:60]!r} occurs twice")
    return found
