"""DNA letters as numbers: A, C, G, T, N are 0 to 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lampnet.errors import FormatError

BASES = "ACGTN"
#: Every byte's code; 255 for anything that is not a base. Ambiguity letters of IUPAC are read as N.
CODES = np.full(256, 255, dtype=np.uint8)
for _number, _base in enumerate(BASES):
    CODES[ord(_base)] = CODES[ord(_base.lower())] = _number
for _base in "RYSWKMBDHVU":
    CODES[ord(_base)] = CODES[ord(_base.lower())] = 4
CODES[ord("U")] = CODES[ord("u")] = 3


def encode_bases(sequences: Sequence[str], path: Path, lines: Sequence[int]) -> np.ndarray:
    """uint8 (n, W): sequences of one length as base numbers.

    >>> encode_bases(["ACGT", "nTga"], Path("x"), [1, 2]).tolist()
    [[0, 1, 2, 3], [4, 3, 2, 0]]
    """
    width = len(sequences[0]) if sequences else 0
    for sequence, line in zip(sequences, lines, strict=True):
        if len(sequence) != width or not width:
            raise FormatError(
                path, f"the sequence has {len(sequence)} bases, the first one {width}; all must have the same", line
            )
    joined = "".join(sequences).encode("ascii", errors="replace")
    codes: np.ndarray = CODES[np.frombuffer(joined, dtype=np.uint8)].reshape(len(sequences), width)
    if (codes == 255).any():
        row, column = np.argwhere(codes == 255)[0]
        raise FormatError(path, f"{sequences[row][column]!r} is not a base; expected A, C, G, T or N", lines[row])
    return codes
