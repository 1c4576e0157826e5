"""Words (or sub-word chunks) of texts, by a tokenizer learned on the training rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lampnet.config import InputConfig
from lampnet.encoders.restore import saved_names
from lampnet.errors import DataError

#: words with inner apostrophes, single marks that carry a mood, and symbols such as emoji
PATTERN = r"\w+(?:['’]\w+)*|[!?]|\p{So}"
UNKNOWN = "[UNK]"
#: halves of characters, left behind where bytes were decoded badly; the tokenizer takes whole ones only
_HALVES = re.compile("[\ud800-\udfff]")
CHUNK = 2_000
#: the same where there is only ASCII, which Python's `re` finds in an eighth of the time
_ASCII_WORDS = re.compile(r"\w+(?:'\w+)*|[!?]", re.ASCII)


class Tokens:
    """A lowercasing tokenizer with a fixed vocabulary; what is not in it has the number -1.

    >>> tokens = Tokens.learn(["A cat sat", "the cat ran"], InputConfig(min_count=2))
    >>> tokens.words
    ('cat',)
    >>> tokens.numbers(["Cat and dog"])
    (array([ 0, -1, -1], dtype=int32), array([0, 3]))
    """

    def __init__(self, words: Sequence[str], merges: Sequence[tuple[str, str]] | None = None) -> None:
        self.words = tuple(words)
        self.merges = None if merges is None else tuple(merges)
        from tokenizers import models

        vocabulary = {UNKNOWN: 0, **{word: number for number, word in enumerate(words, start=1)}}
        model: Any = models.WordLevel(vocabulary, unk_token=UNKNOWN)
        if merges is not None:
            model = models.BPE(vocabulary, list(merges), unk_token=UNKNOWN, continuing_subword_prefix="##")
        self._tokenizer = _tokenizer(model)
        self._number_of = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def learn(cls, texts: Sequence[str], config: InputConfig) -> Tokens:
        """The most frequent words (or chunks) of training texts, most frequent first."""
        from tokenizers import models, trainers

        settings: dict[str, Any] = {
            "vocab_size": config.vocabulary + 1,  # and the unknown word
            "min_frequency": config.min_count,
            "special_tokens": [UNKNOWN],
            "show_progress": False,
        }
        model: Any = models.WordLevel(unk_token=UNKNOWN)
        trainer: Any = trainers.WordLevelTrainer(**settings)
        if config.tokenizer == "bpe":
            model = models.BPE(unk_token=UNKNOWN)
            trainer = trainers.BpeTrainer(continuing_subword_prefix="##", limit_alphabet=1_000, **settings)
        tokenizer = _tokenizer(model)
        tokenizer.train_from_iterator(iter(checked_texts(texts)), trainer)
        by_number = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
        words = [word for word, _ in by_number if word != UNKNOWN]
        if config.tokenizer != "bpe":
            return cls(words)
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        return cls(words, [tuple(pair) if isinstance(pair, list) else tuple(pair.split(" ")) for pair in merges])

    def numbers(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Token numbers of all texts, int32 (N,), and offsets int64 (n + 1,); unknown words are -1."""
        texts = checked_texts(texts)
        parts: list[np.ndarray] = [np.zeros(0, dtype=np.int32)] * (1 + len(texts))
        others = []
        for row, text in enumerate(texts):
            if self.merges is None and text.isascii():
                words = _ASCII_WORDS.findall(text.lower())
                parts[1 + row] = np.array([self._number_of.get(word, -1) for word in words], dtype=np.int32)
            else:
                others.append(row)
        for first in range(0, len(others), CHUNK):
            rows = others[first : first + CHUNK]
            for row, encoding in zip(rows, self._tokenizer.encode_batch_fast([texts[i] for i in rows]), strict=True):
                parts[1 + row] = np.asarray(encoding.ids, dtype=np.int32) - np.int32(1)
        return np.concatenate(parts), np.cumsum([len(part) for part in parts])

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The character span of each token, unknown ones too."""
        return [(int(start), int(end)) for start, end in self._tokenizer.encode(_whole(text)).offsets]

    def tokenizer_json(self) -> str:
        """The tokenizer as the package tokenizers reads it; its numbers are one higher, 0 is an unknown word."""
        return str(self._tokenizer.to_str())

    def state(self) -> dict[str, Any]:
        """The vocabulary as JSON data."""
        merges = None if self.merges is None else [list(pair) for pair in self.merges]
        return {"words": list(self.words), "merges": merges}

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Tokens:
        """Make again what `state` described."""
        words = saved_names(state, "words")
        if len(set(words)) != len(words):
            raise DataError("the saved vocabulary names a word twice; the model folder is damaged")
        merges = state.get("merges")
        if merges is None:
            return cls(words)
        known = set(words)
        if not isinstance(merges, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) and part in known for part in pair)
            and (pair[0] + pair[1].removeprefix("##")) in known
            for pair in merges
        ):  # fmt: skip
            raise DataError("the saved vocabulary's merges are not pairs of its chunks; the model folder is damaged")
        return cls(words, [(pair[0], pair[1]) for pair in merges])


def checked_texts(texts: Any) -> list[str]:
    """The rows as a list; anything but texts is refused."""
    if isinstance(texts, str):
        raise DataError("a single text was given; expected a list of texts: put it in a list")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"row {row} is {type(text).__name__}, not text; give a string for every row")
    return [_whole(text) for text in texts]


def _whole(text: str) -> str:
    """Blanks for lone surrogates, one for one, so that spans in the text stay what they are."""
    return text if text.isascii() else _HALVES.sub(" ", text)


def _tokenizer(model: Any) -> Any:
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="removed", invert=True)
    return tokenizer
