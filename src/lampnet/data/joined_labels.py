"""Labels that stand in one cell: `drama;war`, `drama / war`, `["drama", "war"]`."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Collection, Sequence

#: signs between labels, those that labels themselves hold least often first
SEPARATORS = ("|", ";", "\t", "\n", " / ", ",")
#: signs that names hold as often: they are asked about, not taken
DOUBTFUL = (" - ", "•", "·", " and ", "/", "+", "&", ":", "、", "，", "；", "_", "-", " ")
#: signs inside names, too (sci-fi, B-PER): parts that always stand first or always later are no labels
INSIDE_NAMES = ("_", "-")
#: how people write signs that are hard to write
SIGNS = {"tab": "\t", "\\t": "\t", "newline": "\n", "\\n": "\n", "comma": ",", "semicolon": ";"}


#: bytes of memory that a label takes, and that each sign of a Python list takes while it is parsed
_PER_LABEL, _PER_SIGN = 96, 512


def _unlimited(size: int) -> None:
    """Any size is fine."""


def found_separator(cells: Sequence[str]) -> str:
    """The sign between the labels of these cells: "none" for one label per cell, "list" for JSON and Python lists.

    >>> found_separator(["drama / war", "comedy"]), found_separator(["['a', 'b']", "[]"]), found_separator(["a", "b"])
    (' / ', 'list', 'none')
    """
    cells = [cell.strip() for cell in cells if cell.strip()]
    if cells and all(cell.startswith(("[", "(", "{")) and cell.endswith(("]", ")", "}")) for cell in cells):
        return "list"
    return next((sign for sign in SEPARATORS if any(sign in cell for cell in cells)), "none")


def doubtful_separator(cells: Sequence[str]) -> str:
    """A sign that joins what other cells name alone, in a tenth of these distinct cells; "" where there is none.

    So does a sign between few parts that make many cells, if it is not part of names.

    >>> doubtful_separator(["war", "drama", "war+drama"]), doubtful_separator(["New York", "New Delhi", "Rome"])
    ('+', '')
    >>> doubtful_separator(["a b", "b c", "a c", "b d", "d a", "c d", "a b c", "b c d"])
    ' '
    >>> doubtful_separator(["sci-fi", "war"]), doubtful_separator(["fi-war", "war", "fi"])
    ('', '-')
    """
    alone = {cell.strip() for cell in cells}
    for sign in DOUBTFUL:
        joined = [parts for cell in alone if len(parts := set(taken_apart(cell, sign) or ())) > 1]
        known = sum(parts <= alone for parts in joined)
        if known * 2 >= len(joined) and known * 10 >= len(alone) > 0:
            return sign
        parts = set().union(*joined)
        few = len(joined) * 2 >= len(alone) and len(parts) * 2 <= len(joined)
        if few and (sign not in INSIDE_NAMES or _change_places(alone, sign)):
            return sign
    return ""


def _change_places(cells: Collection[str], sign: str) -> bool:
    """Whether half of the parts that are not numbers stand first in one cell and later in another."""
    rows = [parts for cell in cells if len(parts := taken_apart(cell, sign) or []) > 1]
    first, later = {parts[0] for parts in rows}, {part for parts in rows for part in parts[1:]}
    words = {part for part in first | later if not part.isdecimal()}
    return len(words & first & later) * 2 >= max(len(words), 1)


def taken_apart(cell: str, separator: str, check: Callable[[int], None] = _unlimited) -> list[str] | None:
    """The labels of one cell; None where it is no list although it should be.

    check  is given the bytes of memory that it may take, before it does

    >>> taken_apart("a; b;", ";"), taken_apart('["a", 5, null]', "list"), taken_apart("['its', 'b']", "list")
    (['a', 'b'], ['a', '5'], ['its', 'b'])
    """
    if separator != "list":
        if separator != "none":
            check(_PER_LABEL * cell.count(separator))
        parts = [cell] if separator == "none" else cell.split(separator)
        return [part.strip() for part in parts if part.strip()]
    check(_PER_LABEL * (cell.count(",") + cell.count("[") + cell.count("{")))
    try:
        names = json.loads(cell)
    except (ValueError, RecursionError):
        check(_PER_SIGN * len(cell))
        try:
            names = ast.literal_eval(cell.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            return None
    if not isinstance(names, (list, tuple, set)):
        return None
    return [str(name) for name in names if name is not None]
