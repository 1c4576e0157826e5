"""Text for the base learners twice: tf-idf of its words, and the mean of static vectors of its sub-words.

A static model is a table with one pretrained vector for each sub-word, such as those of the packages wordllama and
model2vec: no transformer is run, so a text is read many times as fast. Its vectors do not depend on the other words, so
they are pooled and never the nodes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from tokenizers import Tokenizer

from lampnet.encoders.pooled import PooledEncoder
from lampnet.encoders.pretrained_folder import static_files
from lampnet.errors import DataError


class StaticEncoder(PooledEncoder):
    """Word nodes; tf-idf and, in the last columns, mean sub-word vectors as features."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._table: np.ndarray = np.zeros((0, 0), dtype=np.float32)

    def _open(self) -> Tokenizer:
        if self._tokenizer is None:
            files = static_files(self.folder)
            if files is None:
                raise DataError(
                    f"input.pretrained={self.config.pretrained!r} is not a static text model; pip install "
                    "wordllama, or "
                    "give a folder with tokenizer.json and model.safetensors"
                )
            self._table = _table(files[1])
            try:
                tokenizer = Tokenizer.from_str(files[0].read_text(encoding="utf-8"))
            except Exception as problem:  # tokenizers raises nothing more precise
                raise _unusable(files[0], problem) from None
            n, known = len(self._table), tokenizer.get_vocab_size()
            if known > n:
                raise DataError(
                    f"{files[1]}: {n} vectors cannot be those of {known} sub-words; give a complete static text model"
                )
            tokenizer.no_padding()
            tokenizer.no_truncation()
            self._tokenizer = tokenizer
        found: Tokenizer = self._tokenizer
        return found

    def _vocabulary(self) -> int:
        return self._open().get_vocab_size()

    def _hidden(self) -> int:
        self._open()
        return int(self._table.shape[1])

    def _digest(self) -> str:
        """Of the tokenizer and of the table."""
        tokenizer = self._open()
        digest = hashlib.sha256(tokenizer.to_str().encode())
        digest.update(f"static {self._table.shape}".encode())
        digest.update(self._table.tobytes())
        return digest.hexdigest()

    def _embedded(self, texts: list[str]) -> list[np.ndarray]:
        encodings = self._open().encode_batch_fast(texts, add_special_tokens=False)
        found = []
        for encoding in encodings:
            if not encoding.ids:
                found.append(np.zeros((0, self._hidden()), dtype=np.float16))
                continue
            mean = self._table[encoding.ids].mean(axis=0)
            found.append((mean / max(float(np.linalg.norm(mean)), 1e-12))[None].astype(np.float16))
        return found


def _table(path: Path) -> np.ndarray:
    """float32 (V, H): the only matrix of the file."""
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as problem:
        raise _unusable(path, problem) from None
    tables = [array for array in arrays.values() if array.ndim == 2 and array.dtype.kind == "f"]
    if len(tables) != 1 or not tables[0].size or not np.isfinite(tables[0]).all():
        raise DataError(f"{path}: {len(tables)} tables of vectors; a static text model has one, of finite numbers")
    return tables[0].astype(np.float32)


def _unusable(path: Path, problem: Exception) -> DataError:
    first_line = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    return DataError(f"{path}: the static text model cannot be read ({first_line[:200]}); download it again")
