"""Damage to good files: bytes changed anywhere, entries of JSON replaced."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**18, -(10**18), 1e308, float("nan"), float("inf"), "", "x", "../../x",
    "/etc/passwd", "\x00", "💥", [], {}, [[]], {"a": 1}, [0], [-1], ["x"], ["x", "x"], [2**40], "9" * 400, [[[[1]]]],
    "\ud800", ["\udfff"],
)  # fmt: skip
_WORDS = (b"99999999999", b"-1", b"nan", b"1e999", b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n", b'"', b"\xc3", b"\\ud800")


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Bytes flipped, cut out, doubled, overwritten, moved or cut off."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
        place = draw.randrange(max(1, len(changed)))
        length = draw.choice((1, 2, 4, 8, 50))
        kind = draw.randrange(7)
        if not changed:
            break
        if kind == 0:
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[place] = draw.choice(b"\x00\xff\x7f 0919-:,{}[]\"'\n\r\t@%.eE")
        elif kind == 2:
            del changed[place : place + length]
        elif kind == 3:
            changed[place:place] = changed[place : place + length] * draw.choice((1, 3, 100))
        elif kind == 4:
            del changed[place:]
        elif kind == 5:
            changed[place:place] = draw.choice(_WORDS)
        else:
            changed[place : place + length] = bytes(draw.randrange(256) for _ in range(length))
    return bytes(changed)


def changed_json(data: Any, draw: random.Random) -> Any:
    """One entry, somewhere inside, replaced, removed or doubled."""
    inner = data
    while True:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            return data
        key = draw.choice(list(keys))
        if isinstance(inner[key], (dict, list)) and inner[key] and draw.random() < 0.75:
            inner = inner[key]
            continue
        if draw.random() < 0.2:
            del inner[key]
        else:
            inner[key] = deepcopy(draw.choice(NASTY))  # it may be changed in its turn
        return data
