"""What a column holds, guessed from its name and its first values: one rule for DataFrames and for files.

A column of strings is, in this order,

- `dna` or `image` where all values are windows of bases of one width, or names of picture files;
- `smiles` where the column's name says so and the values may be SMILES;
- `date` where all values are dates whose day and month cannot be confused (2024-05-31, 2024/05/31, 31.05.2024,
  31 May 2024, May 31, 2024, with or without a time);
- `text` where the values have `TEXT_WORDS` words or more on average and more than half of them are distinct, or
  `PROSE_WORDS` words or more and more than a tenth are distinct;
- `category` otherwise.

Lists of strings are `words`, lists of numbers a `vector`, numbers a `number`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

#: values that show what a column holds
SAMPLE = 200
#: a text's mean number of words where most values are distinct, and where many repeat
TEXT_WORDS, PROSE_WORDS = 1.5, 5
#: values from which on it can be told that categories hardly ever come again
ENOUGH = 20
_DNA = re.compile(r"[ACGTNacgtn]{8,}")
_SMILES = re.compile(r"[A-Za-z0-9@+\-\[\]()=#$:/\\.%*~]+")
_PICTURE = re.compile(r".+\.(?:jpe?g|png|gif|bmp|webp|tiff?)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_CLOCK = r"(?:,? (?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?)?"
_MONTH = r"(?P<name>[A-Za-z]{3,9})"
#: other ways to write a date; 05/06/2024 is none of them, for its day may be either
_WRITTEN = tuple(
    re.compile(form + _CLOCK)
    for form in (
        r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})",
        r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
        rf"(?P<day>\d{{1,2}})[ -]{_MONTH}[ -](?P<year>\d{{4}})",
        rf"{_MONTH} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}})",
    )
)
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_UNCLEAR = re.compile(r"\d{1,2}([/-])\d{1,2}\1\d{4}" + _CLOCK)
#: signs of scripts that write without blanks: each counts as a word
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")


def is_text(sample: Sequence[str]) -> bool:
    """Whether strings are running text, not names that come again and again.

    >>> is_text(["A long war story", "Two friends on the road"]), is_text(["United States", "New Zealand"] * 9)
    (True, False)
    >>> is_text(["drama", "comedy"]), is_text(["戦争の長い物語", "二人の友"])
    (False, True)
    >>> is_text(["Alien", "Die Hard", "The Thing"])  # most values come once: as categories they would say nothing
    True
    """
    if not sample:
        return False
    words, distinct = words_per_value(sample), len(set(sample)) / len(sample)
    return (words >= TEXT_WORDS and distinct > 0.5) or (words >= PROSE_WORDS and distinct > 0.1)


def is_doubtful_category(sample: Sequence[str]) -> bool:
    """Whether strings that are taken for categories may be texts or names: of several words each, or mostly distinct.

    >>> is_doubtful_category(["United States", "New Zealand"] * 50), is_doubtful_category(["US", "NZ"] * 50)
    (False, False)
    >>> is_doubtful_category(["no answer at all to this"] * 50), is_doubtful_category([f"id{i}" for i in range(50)])
    (True, True)
    """
    if len(sample) < ENOUGH:
        return False
    words, distinct = words_per_value(sample), len(set(sample)) / len(sample)
    return distinct > 0.5 or words >= PROSE_WORDS or (words >= TEXT_WORDS and distinct > 0.1)


def words_per_value(sample: Sequence[str]) -> float:
    """Mean number of words."""
    return float(np.mean([len(_WORD.findall(value)) for value in sample])) if sample else 0.0


def role_of_strings(name: str, sample: Sequence[str]) -> str:
    """What a column of strings is for; `sample` are its first values that are not missing.

    >>> role_of_strings("sequence", ["ACGTACGT", "TTGACCAN"]), role_of_strings("released", ["2024-05-31"])
    ('dna', 'date')
    >>> role_of_strings("SMILES", ["CCO", "c1ccccc1"]), role_of_strings("poster", ["a.jpg", "b.png"])
    ('smiles', 'image')
    """
    values = [value.strip() for value in sample]
    if values and all(map(_DNA.fullmatch, values)) and len(set(values)) > 1 and len(set(map(len, values))) == 1:
        return "dna"
    if "smiles" in name.lower() and all(map(_SMILES.fullmatch, values)):
        return "smiles"
    if values and all(map(_PICTURE.fullmatch, values)) and not any(re.search(r"\s", value) for value in values):
        return "image"
    if values and all(date_seconds(value) is not None for value in values):
        return "date"
    return "text" if is_text(values) else "category"


def role_of_values(name: str, sample: Sequence[Any]) -> str:
    """The same of values of any type, none of them missing.

    >>> role_of_values("x", [1, 2.5]), role_of_values("x", [["a", "b"], []]), role_of_values("x", [np.ones(3)])
    ('number', 'words', 'vector')
    """
    strings = [value for value in sample if isinstance(value, str)]
    if strings:
        return role_of_strings(name, strings) if len(strings) == len(sample) else "category"
    if sample and all(
        isinstance(value, Path) or (isinstance(value, np.ndarray) and value.ndim > 1) for value in sample
    ):
        return "image"
    if sample and all(isinstance(value, (list, tuple, set, frozenset, np.ndarray)) for value in sample):
        return "words" if any(isinstance(entry, str) for value in sample for entry in value) else "vector"
    if sample and all(isinstance(value, (date, timedelta, np.datetime64)) for value in sample):
        return "date"
    plain = all(isinstance(value, (Number, np.generic)) or hasattr(value, "__float__") for value in sample)
    return "number" if plain else "category"


def date_seconds(value: str) -> float | None:
    """A date as seconds since 1970 (UTC where it has no zone); None for anything else, and where it may be two days.

    >>> date_seconds("1970-01-02"), date_seconds("1970-01-01 00:01"), date_seconds("today")
    (86400.0, 60.0, None)
    >>> date_seconds("02.01.1970"), date_seconds("Jan 2, 1970 00:01"), date_seconds("02/01/1970")
    (86400.0, 86460.0, None)
    """
    try:
        found = datetime.fromisoformat(value) if _DATE.fullmatch(value) else _written_date(value)
    except ValueError:
        return None
    if found is None:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _written_date(value: str) -> datetime | None:
    part = next(filter(None, (form.fullmatch(value) for form in _WRITTEN)), None) if value[-1:].isdigit() else None
    if part is None:
        return None
    given = part.groupdict()
    if (name := given.get("name")) is not None:
        number = next((at for at, month in enumerate(_MONTHS, 1) if name.lower() in (month, month[:3])), 0)
    else:
        number = int(given["month"])
    hour, minute, second = (int(given[unit] or 0) for unit in ("hour", "minute", "second"))
    return datetime(int(given["year"]), number, int(given["day"]), hour, minute, second)


def unclear_dates(sample: Sequence[str]) -> bool:
    """Whether all values are dates whose day and month can be confused.

    >>> unclear_dates(["05/31/2024", "06/01/2024 12:30"]), unclear_dates(["1/2"]), unclear_dates([])
    (True, False, False)
    """
    return bool(sample) and all(_UNCLEAR.fullmatch(value.strip()) for value in sample)
