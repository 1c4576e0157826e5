"""Molecules and pictures, which come as lampnet's encoders give them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lampnet.encoders.base import EncodedRows
from lampnet.encoders.molecule_features import ATOM_FEATURES
from lampnet.export.graph import Value
from lampnet.export.nodes import Nodes
from lampnet.export.rows.base import Arrays, RowInput


class MoleculeInput(RowInput):
    """Atoms and bonds as lampnet's encoder gives them, and the fingerprints."""

    @cached_property
    def present_BS(self) -> Value:
        return self.input("present", bool, "rows", "atoms")

    def has_nodes(self) -> Value | None:
        return self.present_BS.any(1) if self.name else None  # only a part of a row may lack its molecule

    def views(self) -> list[Nodes]:
        encoder, present = self.encoder, self.present_BS
        ids = self.input("ids", np.int64, "rows", "atoms")
        edges = self.input("edges", np.int64, "rows", "atoms", "atoms")
        if encoder.elements_only:
            return [Nodes(present, ids, present.cast(np.float32), edge_types_BSS=edges)]
        vectors = self.input("vectors", np.float32, "rows", "atoms", ATOM_FEATURES)
        return [Nodes(present, ids, vectors_BSF=vectors, edge_types_BSS=edges)]

    @cached_property
    def features(self) -> Value:
        return self.input("features", np.float32, "rows", "features")

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        batch = encoded.nodes.batch(np.arange(len(encoded.nodes)))
        assert batch.ids_BS is not None
        assert batch.edge_types_BSS is not None
        feeds = {"present": batch.present_BS.numpy(), "ids": batch.ids_BS.numpy()}
        feeds |= {"edges": batch.edge_types_BSS.long().numpy(), "features": np.asarray(encoded.features)}
        return feeds if batch.vectors_BSF is None else feeds | {"vectors": batch.vectors_BSF.float().numpy()}


class ImageInput(RowInput):
    """Patches and features as lampnet's encoder gives them."""

    def views(self) -> list[Nodes]:
        encoder = self.encoder
        across = -(-encoder.width // encoder.patch)
        count = -(-encoder.height // encoder.patch) * across
        patches = self.input("patches", np.uint8, "rows", count, len(encoder.mean)).cast(np.float32)
        return [Nodes(vectors_BSF=patches, positions=np.stack(np.divmod(np.arange(count), across), axis=1))]

    @cached_property
    def features(self) -> Value:
        return self.input("features", np.float32, "rows", len(self.encoder.feature_mean))

    def feeds(self, rows: Any, encoded: EncodedRows) -> Arrays:
        vectors = encoded.nodes.vectors
        assert vectors is not None
        return {"patches": vectors.reshape(len(encoded.nodes), -1, vectors.shape[1]), "features": encoded.features}
