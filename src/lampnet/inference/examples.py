"""Encoded rows with what training, prediction and scoring need of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lampnet.encoders.base import EncodedRows
from lampnet.encoders.nodes import NodeRows

NODE_ARRAYS = ("offsets", "ids", "values", "vectors", "positions", "edges", "edge_offsets")


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Encoded rows with what training and scoring need of them.

    nodes     the rows as nodes
    targets   (n, L) float32, NaN = unknown; None where labels are not known
    base_logits  (n, L, K) float32; None for a model without base_logits
    known_digest  the digest, where it was computed when the rows were prepared
    """

    nodes: NodeRows
    targets: Any = None
    base_logits: Any = None
    known_digest: str = ""

    def __len__(self) -> int:
        return len(self.nodes)

    def base_batch(self, rows: np.ndarray) -> torch.Tensor | None:
        """base_logits_BLK of these rows."""
        return None if self.base_logits is None else torch.from_numpy(np.ascontiguousarray(self.base_logits[rows]))

    def truth(self, rows: np.ndarray) -> torch.Tensor:
        """targets_BL of these rows."""
        part = self.targets[rows]
        return torch.from_numpy(np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float32))

    def take(self, rows: np.ndarray) -> Examples:
        """These rows, copied into memory; labels dense (n, L)."""
        base_logits = None if self.base_logits is None else self.base_logits[rows]
        return Examples(nodes=self.nodes.take(rows), targets=self.truth(rows).numpy(), base_logits=base_logits)

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """The rows of several, one below the other, in memory; labels dense (n, L)."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            nodes=NodeRows.joined([part.nodes for part in parts]),
            targets=np.concatenate([part.truth(np.arange(len(part))).numpy() for part in parts]),
            base_logits=None if parts[0].base_logits is None else np.concatenate([part.base_logits for part in parts]),
        )

    def digest(self) -> str:
        """A fingerprint of nodes and targets: the same rows, in the same order, have the same."""
        if self.known_digest:
            return self.known_digest
        digest = hashlib.sha256()
        arrays = [getattr(self.nodes, name) for name in NODE_ARRAYS]
        targets = self.targets
        if hasattr(targets, "indptr"):
            arrays += [targets.indptr, targets.indices, targets.data]
        else:
            arrays.append(targets)
        for array in arrays:
            digest.update(b"-" if array is None else str((array.dtype, array.shape)).encode())
            if array is not None:
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()


def examples_of_views(encoded: EncodedRows, targets: Any, base_logits: np.ndarray | None) -> list[Examples]:
    """The rows, and the same rows seen from the other side where the input has a second view.

    Both have the same base logits: their features count both sides as one (k-mers of both DNA strands).
    """
    return [Examples(nodes=nodes, targets=targets, base_logits=base_logits) for nodes in encoded.views()]
