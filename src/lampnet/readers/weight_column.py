"""What rows and labels count, as files say it: a column of weights, a file of label weights."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from lampnet.data.weights import BALANCED, LabelWeight
from lampnet.errors import ConfigError, FormatError
from lampnet.readers.label_values import read_label_values

FORM = "balanced, a file, or NAME=WEIGHT,NAME=WEIGHT"


def row_weight(path: Path, name: str, value: Any, line: int) -> float:
    """What a row counts: a finite number of at least 0.

    >>> row_weight(Path("rows.csv"), "trust", 0.5, 2)
    0.5
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 <= number < math.inf:
        found = "missing" if value is None or value == "" or value != value else f"{str(value)[:40]!r}"
        raise FormatError(path, f"the weight {name!r} is {found}; give a finite number of at least 0", line)
    return number


def read_label_weight(given: str | None) -> LabelWeight:
    """What `--label-weight` says: "balanced", the name of a file, or names and weights.

    A file is a JSON object, or has a label and its weight on each line, separated by a comma or a tab.

    >>> read_label_weight("rain=2,snow=0.5")
    {'rain': 2.0, 'snow': 0.5}
    """
    if given is None or given == BALANCED:
        return given
    path = Path(given)
    if "=" not in given or path.is_file():
        if not path.is_file():
            raise ConfigError(f"--label-weight {given[:80]!r} is not a file; give {FORM}")
        given_weights = read_label_values(path, "weight")
        return {name: _number(one.value, f"{one.place}: {name[:80]!r}") for name, one in given_weights.items()}
    pairs = [part.rpartition("=") for part in given.split(",")]
    return {name.strip(): _number(value, f"--label-weight {name.strip()[:80]}") for name, _, value in pairs}


def _number(value: Any, what: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{what}: the weight is {str(value)[:40]!r}; give a number above 0") from None
