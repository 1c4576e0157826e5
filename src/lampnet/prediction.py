"""Rows -> probabilities, a batch at a time, without gradients."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lampnet import distributed
from lampnet.batching import sorted_batches
from lampnet.inputs.nodes import NodeRows
from lampnet.kept_memory import keep_memory
from lampnet.model import LaMP
from lampnet.prepared import prepared

# Label states (floats) of one batch when predicting: more leave the cache between two layers and cost a third.
BATCH_STATES = 400_000
NODE_ARRAYS = ("offsets", "ids", "values", "vectors", "positions", "edges", "edge_offsets")


@dataclass(frozen=True, kw_only=True)
class Examples:
    """Encoded rows with what training and scoring need of them.

    nodes     the rows as nodes
    targets   (n, L) float32, NaN = unknown; None where labels are not known
    evidence  (n, L, K) float32 opinions; None for a model without evidence
    known_digest  the digest, where it was computed when the rows were prepared
    """

    nodes: NodeRows
    targets: Any = None
    evidence: Any = None
    known_digest: str = ""

    def __len__(self) -> int:
        return len(self.nodes)

    def opinions(self, rows: np.ndarray) -> torch.Tensor | None:
        """evidence_BLK of these rows."""
        return None if self.evidence is None else torch.from_numpy(np.ascontiguousarray(self.evidence[rows]))

    def truth(self, rows: np.ndarray) -> torch.Tensor:
        """targets_BL of these rows."""
        part = self.targets[rows]
        return torch.from_numpy(np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float32))

    def take(self, rows: np.ndarray) -> Examples:
        """These rows, copied into memory; labels dense (n, L)."""
        evidence = None if self.evidence is None else self.evidence[rows]
        return Examples(nodes=self.nodes.take(rows), targets=self.truth(rows).numpy(), evidence=evidence)

    @classmethod
    def joined(cls, parts: Sequence[Examples]) -> Examples:
        """The rows of several, one below the other, in memory; labels dense (n, L)."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            nodes=NodeRows.joined([part.nodes for part in parts]),
            targets=np.concatenate([part.truth(np.arange(len(part))).numpy() for part in parts]),
            evidence=None if parts[0].evidence is None else np.concatenate([part.evidence for part in parts]),
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


def rows_a_batch(model: LaMP) -> int:
    """How many rows are predicted together: what the cache holds, 8 to 128."""
    labels = min(model.n_labels, model.candidates or model.n_labels)
    return min(128, max(8, BATCH_STATES // (labels * model.config.width)))


def predict_logits(model: LaMP, examples: Examples, batch_size: int = 0) -> np.ndarray:
    """Final logits (n, L), float32, in the rows' order; several processes share the batches."""
    logits = np.zeros((len(examples), model.n_labels), dtype=np.float32)
    us = distributed.team()
    training = model.training
    model.eval()
    lengths = examples.nodes.lengths()
    batches = sorted_batches(lengths, batch_size or rows_a_batch(model))[us.rank :: us.size]
    ready = model
    if len(batches) > 1:  # a few rows are answered sooner than a network is laid out
        keep_memory()
        ready = prepared(model, nodes=int(lengths.sum()) // us.size)
    try:
        with torch.inference_mode():
            for rows in batches:
                output = ready(examples.nodes.batch(rows), examples.opinions(rows), last_only=True)
                logits[rows] = output.stages[-1].float().numpy()
    finally:
        model.train(training)
    return distributed.merged(logits)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """The logistic function, without overflow."""
    from scipy.special import expit

    return np.asarray(expit(logits), dtype=logits.dtype)
