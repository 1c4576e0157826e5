"""Embeddings of texts on disk while a training runs: what was computed is not computed again.

A file that only grows: one line of JSON with the encoder's digest and the width, then a record per text, the digest of
the text and its vector in half precision. A process that is killed leaves at most half a record, which is cut off.
A file of another encoder is begun anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np

KEY_BYTES = 16
#: the first line is padded to this length
HEAD_BYTES = 256


class EmbeddingFile:
    """The vectors of texts, float16 (width,), by text.

    path  None keeps them in memory only
    """

    def __init__(self, path: Path | None, encoder_sha256: str, width: int) -> None:
        self.path, self.width = path, width
        self.head = json.dumps({"encoder": encoder_sha256, "width": width}).encode().ljust(HEAD_BYTES - 1) + b"\n"
        self.known: dict[bytes, np.ndarray] = {}
        if path is not None:
            self._open(path)

    def get(self, text: str) -> np.ndarray | None:
        return self.known.get(_key(text))

    def add(self, texts: list[str], vectors: np.ndarray) -> None:
        """Keep vectors (n, width); a full disk costs the file, not the training."""
        half = np.ascontiguousarray(vectors, dtype="<f2")
        records = []
        for text, vector in zip(texts, half, strict=True):
            key = _key(text)
            self.known[key] = vector
            records.append(key + vector.tobytes())
        if self.path is not None:
            try:
                with self.path.open("ab") as file:
                    file.write(b"".join(records))
            except OSError:
                self.path.unlink(missing_ok=True)
                self.path = None

    def _open(self, path: Path) -> None:
        record = KEY_BYTES + 2 * self.width
        try:
            stored = path.read_bytes() if path.is_file() else b""
            if stored[:HEAD_BYTES] != self.head:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.head)
                return
            count = (len(stored) - HEAD_BYTES) // record
            os.truncate(path, HEAD_BYTES + count * record)
        except OSError:
            self.path = None
            return
        for first in range(HEAD_BYTES, HEAD_BYTES + count * record, record):
            vector = np.frombuffer(stored, dtype="<f2", count=self.width, offset=first + KEY_BYTES)
            if np.isfinite(vector).all():
                self.known[stored[first : first + KEY_BYTES]] = vector


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
