"""Embeddings of texts on disk while a training runs: what was computed is not computed again.

A file that only grows: one line of JSON with the encoder's digest, what is kept and the width, then a record per text:
the digest of the text, how many vectors it has, and these in half precision. A process that is killed leaves at most
half a record, which is cut off. A file of another encoder, or of other vectors, is begun anew. A training folder may
come from anywhere: what is no regular file there is neither waited for, nor followed, nor written to.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lampnet.runtime.atomic_files import remove_file
from lampnet.runtime.regular_files import read_regular

KEY_BYTES = 16
COUNT_BYTES = 4
#: the first line is padded to this length
HEAD_BYTES = 256
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class EmbeddingFile:
    """The vectors of texts, float16 (k, width), by text.

    path  None keeps them in memory only
    kept  what the vectors are: files of others are not read
    """

    def __init__(self, path: Path | None, encoder_sha256: str, kept: str, width: int) -> None:
        self.path, self.width = path, width
        head = {"encoder": encoder_sha256, "kept": kept, "width": width}
        self.head = json.dumps(head).encode().ljust(HEAD_BYTES - 1) + b"\n"
        self.known: dict[bytes, np.ndarray] = {}
        if path is not None:
            self._open(path)

    def get(self, text: str) -> np.ndarray | None:
        return self.known.get(_key(text))

    def add(self, texts: Sequence[str], vectors: Sequence[np.ndarray]) -> None:
        """Keep the vectors (k, width) of each text; a full disk costs the file, not the training."""
        records = []
        for text, own in zip(texts, vectors, strict=True):
            key, half = _key(text), np.ascontiguousarray(own, dtype="<f2")
            self.known[key] = half
            records.append(key + len(half).to_bytes(COUNT_BYTES, "little") + half.tobytes())
        if self.path is not None:
            try:
                with open(os.open(self.path, os.O_WRONLY | os.O_APPEND | _NO_LINK), "ab") as file:
                    file.write(b"".join(records))
            except OSError:
                remove_file(self.path)
                self.path = None

    def _open(self, path: Path) -> None:
        try:
            stored = read_regular(path) if os.path.lexists(path) else b""
            if stored[:HEAD_BYTES] == self.head:
                os.truncate(path, self._read(stored))
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # it may have a second name elsewhere, whose content stays
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(self.head)
        except OSError:
            self.path = None

    def _read(self, stored: bytes) -> int:
        """Take over the whole records; returns where the last of them ends."""
        end = HEAD_BYTES
        while (begin := end + KEY_BYTES + COUNT_BYTES) <= len(stored):
            count = int.from_bytes(stored[begin - COUNT_BYTES : begin], "little")
            if begin + 2 * count * self.width > len(stored):
                break
            vectors = np.frombuffer(stored, dtype="<f2", count=count * self.width, offset=begin)
            if np.isfinite(vectors).all():
                self.known[stored[end : end + KEY_BYTES]] = vectors.reshape(count, self.width)
            end = begin + 2 * count * self.width
        return end


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
