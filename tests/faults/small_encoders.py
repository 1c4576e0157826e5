"""Pretrained text encoders of a few kilobytes, whose numbers are random: a transformer, and a static table."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, digits

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

#: any text of small letters is cut into these
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
SIGNS = ascii_lowercase + digits
PIECES = (*SPECIAL, *SIGNS, *(f"##{sign}" for sign in SIGNS), "red", "rain", "cup")
WIDTH = 8


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def small_static(folder: Path) -> str:
    """A static model: a vector for each piece."""
    folder.mkdir(parents=True)
    _tokenizer().save(str(folder / "tokenizer.json"))
    table = np.random.default_rng(0).normal(size=(len(PIECES), WIDTH)).astype(np.float16)
    save_file({"embeddings": table}, folder / "model.safetensors")
    return str(folder)


def small_transformer(folder: Path) -> str:
    """A transformer of one narrow layer."""
    import torch
    import transformers

    tokenizer, ends = _tokenizer(), [(sign, PIECES.index(sign)) for sign in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(folder)
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.BertConfig(vocab_size=len(PIECES), max_position_embeddings=64, **sizes)
        transformers.BertModel(config).save_pretrained(folder)
    return str(folder)
