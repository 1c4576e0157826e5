"""Columns of labels that are written as words for yes and no, in several languages, or as check marks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

_YES = frozenset((
    "1", "true", "t", "yes", "y", "ja", "j", "jah", "jo", "oui", "si", "sí", "sì", "s", "sim", "da", "да", "tak", "ano",
    "áno", "igen", "evet", "kyllä", "on", "はい", "是", "예", "네",
    "x", "×", "✓", "✔", "✔️", "✅", "☑", "☑️", "☒", "●", "•",
))  # fmt: skip
_NO = frozenset((
    "0", "false", "f", "no", "n", "nein", "nee", "nej", "nei", "non", "não", "nao", "ne", "nu", "нет", "nie", "nem",
    "hayır", "hayir", "ei", "off", "いいえ", "否", "아니오", "아니요", "-", "–", "—", "✗", "✘", "❌", "☐", "○",
))  # fmt: skip


def yes_or_no(values: Sequence[str], blank: Collection[str] = ("",)) -> np.ndarray | None:
    """Words for yes and no as 1 and 0, float64 (n,); None where a value is neither, or all are blank.

    Blank values are NaN, unknown; where a column says only yes, they are no.

    >>> yes_or_no(["ja", "Nein", ""]).tolist(), yes_or_no(["x", "", ""]).tolist(), yes_or_no(["yes", "perhaps"])
    ([1.0, 0.0, nan], [1.0, 0.0, 0.0], None)
    """
    found = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        word = value.strip().lower()
        if word in _YES or word in _NO:
            found[row] = word in _YES
        elif word not in blank:
            return None
    if np.isnan(found).all():
        return None
    return np.nan_to_num(found) if blank_means_no(values) else found


def blank_means_no(values: Sequence[str]) -> bool:
    """Whether these words for yes and no, and blanks, say only yes.

    >>> blank_means_no(["x", "", "X"]), blank_means_no(["yes", "no", ""]), blank_means_no(["yes", "yes"])
    (True, False, False)
    """
    words = {value.strip().lower() for value in values}
    return bool(words & _YES) and bool(words - _YES) and not words & _NO
