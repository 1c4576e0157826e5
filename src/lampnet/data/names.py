"""Names of labels, features, columns, categories and rows: each one once, and such that a file can hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def repeated(names: Iterable[str]) -> str | None:
    """The first name that has come before; None where all differ.

    >>> repeated(["a", "b", "a", "b"])
    'a'
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def utf8(name: str) -> bool:
    """Whether a name can be written to a file: half a character (a lone surrogate) cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def unwritable(names: Sequence[str]) -> int | None:
    r"""The place of the first name with half a character in it; None where there is none.

    >>> unwritable(["a", "b\ud800"]), unwritable(["a", "caf\u00e9"])
    (1, None)
    """
    if utf8("".join(names)):
        return None
    return next(place for place, name in enumerate(names) if not utf8(name))


def half_a_character(what: str, name: str) -> str:
    """The sentence for such a name."""
    return f"{what} {name!r} holds half a character (a lone surrogate), which no file can hold; correct it"
