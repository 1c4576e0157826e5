"""Durations as people write them and read them."""

from __future__ import annotations

import re

from lampnet.errors import ConfigError

_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([hms]?)\s*")


def seconds_of(text: str | float) -> float:
    """Seconds, from a number or from text.

    >>> seconds_of("10m"), seconds_of("1h30m"), seconds_of("45")
    (600.0, 5400.0, 45.0)
    """
    if not isinstance(text, str):
        return float(text)
    written = text.lower()
    parts = _PART.findall(written)
    if not parts or _PART.sub("", written):
        raise ConfigError(f"{text!r} is not a duration; write 90s, 10m or 1h30m")
    return sum(float(number) * {"h": 3600.0, "m": 60.0}.get(unit, 1.0) for number, unit in parts)


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(42), duration(125), duration(7260)
    ('42 s', '2 min 5 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
