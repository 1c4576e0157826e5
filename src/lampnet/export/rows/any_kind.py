"""Which inputs rows of an encoder need, also where a row has several parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows, Encoder
from lampnet.encoders.columns import ColumnsEncoder
from lampnet.encoders.dna import DnaEncoder
from lampnet.encoders.image import ImageEncoder
from lampnet.encoders.molecule import MoleculeEncoder
from lampnet.encoders.parts import PartsEncoder
from lampnet.encoders.text import TextEncoder
from lampnet.encoders.vector import VectorEncoder
from lampnet.encoders.wordset import WordSetEncoder
from lampnet.errors import ConfigError
from lampnet.export.graph import Graph, Value
from lampnet.export.nodes import Nodes, without_rows
from lampnet.export.rows.as_encoded import ImageInput, MoleculeInput
from lampnet.export.rows.base import Arrays, RowInput
from lampnet.export.rows.dna import DnaInput
from lampnet.export.rows.numbers import ColumnsInput, VectorInput
from lampnet.export.rows.words import TextInput, WordSetInput


class PartsInput(RowInput):
    """The inputs of every part, each with the part's name and a dot before it.

    Parts that a row may lack, and that do not show it themselves, have an input `present`, bool (B,).
    """

    @cached_property
    def parts(self) -> list[tuple[RowInput, Value | None]]:
        made = []
        for name, encoder in zip(self.encoder.names, self.encoder.part_encoders, strict=True):
            own = row_input(self.graph, encoder, f"{name or 'table'}.")
            lacks = isinstance(own, VectorInput | DnaInput | ImageInput)
            made.append((own, own.input("present", bool, "rows").unsqueezed(1) if lacks else None))
        return made

    def views(self) -> list[Nodes]:
        of_parts = [(own.views(), flag) for own, flag in self.parts]
        count = max(len(views) for views, _ in of_parts)
        made = []
        for number in range(count):
            nodes = [(views[min(number, len(views) - 1)], flag) for views, flag in of_parts]
            made.append(Nodes(parts=tuple(self._present(own, flag) for own, flag in nodes)))
        return made

    def _present(self, nodes: Nodes, flag: Value | None) -> Nodes:
        length = 1 if nodes.positions is None else len(nodes.positions)
        return nodes if flag is None else without_rows(self.graph, nodes, flag, length)

    @cached_property
    def features(self) -> Value:
        blocks = []
        for (own, flag), scale in zip(self.parts, self.encoder.scale, strict=True):
            block = own.features * np.float32(scale)
            blocks.append(block if flag is None else block * flag.cast(np.float32))
        return self.graph.joined(blocks, axis=1)

    def has_nodes(self) -> Value | None:
        each = [
            own.has_nodes() if flag is None else self.graph.op("Squeeze", flag, np.array([1], np.int64))
            for own, flag in self.parts
        ]
        some = [one for one in each if one is not None]
        if len(some) < len(each):
            return None  # a table has all its columns in every row
        found = some[0]
        for one in some[1:]:
            found = found | one
        return found

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        feeds: Arrays = {}
        for (own, flag), (part, parsed) in zip(self.parts, encoded.parsed, strict=True):
            there = part.present()
            for name, values in own.feeds(part.rows, parsed).items():
                whole = np.full((len(part), *values.shape[1:]), -1 if name == "tokens" else 0, values.dtype)
                whole[there] = values
                feeds[own.name + name] = whole
            if flag is not None:
                feeds[f"{own.name}present"] = np.isin(np.arange(len(part)), there)
        return feeds

    def metadata(self) -> dict[str, Any]:
        return {own.name + key: value for own, _ in self.parts for key, value in own.metadata().items()}


INPUTS: dict[type[Encoder], Callable[..., RowInput]] = {
    WordSetEncoder: WordSetInput,
    TextEncoder: TextInput,
    VectorEncoder: VectorInput,
    ColumnsEncoder: ColumnsInput,
    DnaEncoder: DnaInput,
    MoleculeEncoder: MoleculeInput,
    ImageEncoder: ImageInput,
    PartsEncoder: PartsInput,
}


def row_input(graph: Graph, encoder: Encoder, name: str = "") -> RowInput:
    """The inputs that rows of this encoder need."""
    make = INPUTS.get(type(encoder))
    if make is None:
        raise ConfigError(
            "a model with a pretrained text encoder cannot be exported: the transformer is a model of its own; train "
            "without --pretrained, or serve this model with lampnet serve"
        )
    return make(graph, encoder, name)
