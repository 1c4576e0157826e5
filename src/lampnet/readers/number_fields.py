"""Fields that are all numbers, checked and converted for a whole block of text at once.

pyarrow's conversion is exact, strict and fast, where it is installed. Without it, a finite automaton run by NumPy
checks the fields: only the signs between digits decide whether a text like ``-1.5,2e-3,?`` is well-formed, and what
a sign may be depends on the sign before it and on whether digits lie between, so two table look-ups over all signs
of a block do; SciPy's parser, which is fast but takes "1x" for 1, then converts what was approved.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lampnet.readers.number_text import checked_floats

_END, _SIGN, _DOT, _EXPONENT, _UNKNOWN, _OTHER = range(6)  # what a sign is
# What a sign is in its place: a sign of the number or of its exponent, a point without or with digits before it.
_ENDED, _SIGNED, _BARE_DOT, _DOTTED, _RAISED, _SIGNED_EXPONENT, _QUESTION, _WRONG = range(8)


def number_rows(text: bytes, columns: int, separator: bytes = b",") -> np.ndarray | None:
    """Lines of numbers as float64 (lines, columns), NaN for ``?`` and empty fields.

    None when a line has another number of fields or a field is not a number (by `number_text.NUMBER`: no blanks
    around it, no names such as inf), so that the caller can look closer. The text must end with a line feed.

    >>> number_rows(b"1,-.5e+3\\n,?\\n", 2).tolist()
    [[1.0, -500.0], [nan, nan]]
    >>> [number_rows(text, 1) for text in (b"1.2.3\\n", b"1-2\\n", b"-\\n", b"1e\\n", b"1 \\n", b"1,2\\n")]
    [None, None, None, None, None, None]
    """
    signs = np.frombuffer(text, dtype=np.uint8)
    breaks = signs == ord("\n")
    ends = np.flatnonzero(breaks | (signs == ord(separator)))
    lines = int(np.count_nonzero(breaks))
    if not lines or text[-1:] != b"\n" or len(ends) != lines * columns:
        return None
    if columns > 1 and not breaks[ends[columns - 1 :: columns]].all():
        return None
    try:
        values = _by_pyarrow(text, ends, separator)
    except ImportError:
        values = by_automaton(text, separator)
    return None if values is None else values.reshape(lines, columns)


def _by_pyarrow(text: bytes, ends: np.ndarray, separator: bytes) -> np.ndarray | None:
    import pyarrow as arrow

    if b"?" in text or len(text) >= 1 << 31:
        return by_automaton(text, separator)
    fields = text.translate(None, b"\n" + separator)  # one after another
    if b"n" in fields or b"N" in fields:  # nan, inf, infinity: all that pyarrow takes for numbers besides
        return None
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    np.subtract(ends, np.arange(len(ends)), out=offsets[1:], casting="unsafe")
    filled = offsets[1:] > offsets[:-1]
    known = None if filled.all() else arrow.py_buffer(np.packbits(filled, bitorder="little"))
    strings = arrow.StringArray.from_buffers(len(ends), arrow.py_buffer(offsets), arrow.py_buffer(fields), known)
    try:
        values: np.ndarray = strings.cast(arrow.float64()).to_numpy(zero_copy_only=False)
    except arrow.ArrowInvalid:
        return None
    return values


def by_automaton(text: bytes, separator: bytes = b",") -> np.ndarray | None:
    """All fields of a text as float64 (fields,), by NumPy and SciPy alone; None when one is not a number."""
    signs = np.frombuffer(text, dtype=np.uint8)
    no_digit = (signs - np.uint8(ord("0"))) > 9
    places = np.flatnonzero(no_digit)
    what = np.frombuffer(signs[places].tobytes().translate(_classes(separator)), dtype=np.uint8)
    # The last sign is a line feed, so that before the first sign of all (place -1) there is "no digit" too.
    digits = ~no_digit[places - 1]
    before = np.concatenate([[np.uint8(_END)], what[:-1]])
    state_table, verdict_table = _tables()
    state = np.frombuffer((before * 12 + what * 2 + digits).tobytes().translate(state_table), dtype=np.uint8)
    state_before = np.concatenate([[np.uint8(_ENDED)], state[:-1]])
    verdict = (state_before * 12 + what * 2 + digits).tobytes().translate(verdict_table)
    if b"\2" in verdict:
        return None
    column = text.replace(separator, b"\n")
    if b"\1" in verdict:
        column = (b"\n" + column).replace(b"?", b"nan").replace(b"\n\n", b"\nnan\n").replace(b"\n\n", b"\nnan\n")[1:]
    return checked_floats(column, int(np.count_nonzero(what == _END)))


@cache
def _classes(separator: bytes) -> bytes:
    table = bytearray([_OTHER] * 256)
    for sign, what in ((b"\n" + separator, _END), (b"+-", _SIGN), (b".", _DOT), (b"eE", _EXPONENT), (b"?", _UNKNOWN)):
        for code in sign:
            table[code] = what
    return bytes(table)


@cache
def _tables() -> tuple[bytes, bytes]:
    """Of what was before, what is, and digits between: the state; of the state before, ...: 1 missing, 2 wrong."""
    states, verdicts = bytearray(256), bytearray([2] * 256)
    for what in range(6):
        for digits in (0, 1):
            for before in range(6):
                states[before * 12 + what * 2 + digits] = _state(before, what, digits)
            for state in range(8):
                verdicts[state * 12 + what * 2 + digits] = _verdict(state, what, digits)
    return bytes(states), bytes(verdicts)


def _state(before: int, what: int, digits: int) -> int:
    if what == _SIGN:
        return _SIGNED if before == _END else _SIGNED_EXPONENT
    if what == _DOT:
        return _DOTTED if digits else _BARE_DOT
    return {_END: _ENDED, _EXPONENT: _RAISED, _UNKNOWN: _QUESTION}.get(what, _WRONG)


def _verdict(state: int, what: int, digits: int) -> int:
    if what == _END and not digits and state in (_ENDED, _QUESTION):
        return 1
    right = {
        _END: state == _DOTTED or (digits and state not in (_QUESTION, _WRONG)),
        _SIGN: not digits and state in (_ENDED, _RAISED),
        _DOT: state in (_ENDED, _SIGNED),
        _EXPONENT: state == _DOTTED or (digits and state in (_ENDED, _SIGNED, _BARE_DOT)),
        _UNKNOWN: not digits and state == _ENDED,
        _OTHER: False,
    }[what]
    return 0 if right else 2
