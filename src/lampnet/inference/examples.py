"""Encoded rows with what training, prediction and scoring need of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lampnet.base_learners.stacking_weights import StackingWeights
from lampnet.data.weights import Weights, taken
from lampnet.encoders.base import EncodedRows
from lampnet.encoders.nodes import ARRAYS, NodeRows
from lampnet.model.lamp import LabelInput


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Encoded rows: made once, and passed on to the network, the explanations and their checks.

    nodes          the rows as nodes
    targets        (n, L) float32, dense, sparse or mapped, NaN = unknown; None where labels are not known
    base_logits    (n, L, K) float32; None for a model without base learners
    weights        the stacking weights; None likewise
    row_weights    what rows and labels count when they are learned from; None where all count the same
    stored_digest  the digest, where it was computed when the rows were prepared
    """

    nodes: NodeRows
    targets: Any = None
    base_logits: Any = None
    weights: StackingWeights | None = None
    row_weights: Weights | None = None
    stored_digest: str = ""

    def __len__(self) -> int:
        return len(self.nodes)

    def n_nodes(self) -> int:
        """How many nodes all n rows have together."""
        return int(self.nodes.lengths().sum())

    def label_input(self, rows: np.ndarray) -> LabelInput:
        """What the network is given about the labels of these rows, int (B,): logits (B, L, K) and stacked (B, L)."""
        if self.base_logits is None:
            return LabelInput()
        assert self.weights is not None
        base_logits = np.ascontiguousarray(self.base_logits[rows])
        return LabelInput(torch.from_numpy(base_logits), torch.from_numpy(self.weights.stacked(base_logits)))

    def stacked(self) -> np.ndarray | None:
        """The base logits of all rows under the stacking weights, float32 (n, L); None without base learners."""
        return None if self.weights is None else self.weights.stacked(self.base_logits)

    def truth(self, rows: np.ndarray) -> torch.Tensor:
        """targets_BL of these rows, int (B,): float32, NaN = unknown."""
        part = self.targets[rows]
        return torch.from_numpy(np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float32))

    def entry_weights(self, rows: np.ndarray) -> torch.Tensor | None:
        """What each (row, label) entry of these rows counts, float32 (B, L); None where all count the same."""
        if self.row_weights is None:
            return None
        counts_BL = self.row_weights.row_n[rows, None] * self.row_weights.entry_L
        return torch.from_numpy(counts_BL.astype(np.float32))

    def all_targets(self) -> np.ndarray:
        """float32 (n, L) of all rows."""
        return self.truth(np.arange(len(self))).numpy()

    def take(self, rows: np.ndarray) -> Examples:
        """These rows, copied into memory; labels dense (n, L)."""
        return Examples(
            nodes=self.nodes.take(rows),
            targets=None if self.targets is None else self.truth(rows).numpy(),
            base_logits=None if self.base_logits is None else self.base_logits[rows],
            weights=self.weights,
            row_weights=taken(self.row_weights, rows),
        )

    def first_labels(self, count: int) -> Examples:
        """The same rows with the base logits of the first labels only; without targets."""
        if self.base_logits is None or self.weights is None:
            return self
        weights = StackingWeights(self.weights.weights_LK[:count], self.weights.bias_L[:count])
        return Examples(nodes=self.nodes, base_logits=self.base_logits[:, :count], weights=weights)

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """The rows of several, one below the other, in memory; labels dense (n, L)."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            nodes=NodeRows.joined([part.nodes for part in parts]),
            targets=np.concatenate([part.all_targets() for part in parts]),
            base_logits=None if parts[0].base_logits is None else np.concatenate([part.base_logits for part in parts]),
            weights=parts[0].weights,
            row_weights=Weights.joined([part.row_weights for part in parts]),
        )

    def digest(self) -> str:
        """A fingerprint of nodes, targets and what they count: the same rows in the same order have the same one."""
        if self.stored_digest:
            return self.stored_digest
        digest = hashlib.sha256()
        arrays = [getattr(nodes, name) for nodes in (self.nodes, *self.nodes.parts) for name in ARRAYS]
        targets = self.targets
        arrays += [targets.indptr, targets.indices, targets.data] if hasattr(targets, "indptr") else [targets]
        if self.row_weights is not None:
            arrays += [self.row_weights.row_n, self.row_weights.entry_L]
        for array in arrays:
            digest.update(b"-" if array is None else str((array.dtype, array.shape)).encode())
            if array is not None:
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        return digest.hexdigest()


def examples_of_views(
    encoded: EncodedRows,
    targets: Any,
    base_logits: np.ndarray | None,
    weights: StackingWeights | None,
    row_weights: Weights | None = None,
) -> list[Examples]:
    """The rows, and the same rows in a second view where the input has one (DNA: the other strand).

    Both have the same base logits: their features count both sides as one (k-mers of both DNA strands).
    """
    return [
        Examples(nodes=nodes, targets=targets, base_logits=base_logits, weights=weights, row_weights=row_weights)
        for nodes in encoded.views()
    ]
