"""Attention along the edges of a sparse label graph: memory and time by the edges, not by L x L.

Swapped in for MPNN_yy by `model/build.py` where a graph is large and sparse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from lampnet.config import ModelConfig
from lampnet.model.label_graph import LabelNeighbourhood
from lampnet.model.lamp import MessagePassing
from lampnet.model.neighbourhood import Neighbourhood
from lampnet.runtime.torch_state import sparse_csr

# From this many labels on, and below this share of open pairs, walking the edges beats the L x L product.
SPARSE_FROM_LABELS = 512
SPARSE_BELOW_DENSITY = 0.1


def is_worth_it(adjacency: sparse.csr_matrix) -> bool:
    """Whether a label graph is large and sparse enough for this kernel."""
    n_labels = adjacency.shape[0]
    return bool(n_labels >= SPARSE_FROM_LABELS and adjacency.nnz < SPARSE_BELOW_DENSITY * n_labels**2)


class Edges:
    """The edges by receiver (CSR), and where each stands when they are ordered by source.

    Axes: E edges, H heads, L labels, C width of a head. A head at a time, so that its vectors stay in the cache.
    """

    def __init__(self, matrix: sparse.csr_matrix) -> None:
        matrix = sparse.csr_matrix(matrix)
        matrix.sum_duplicates()
        self.n_labels = matrix.shape[0]
        self.starts, self.sources = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
        self.counts = np.diff(self.starts)
        self.receivers = np.repeat(np.arange(self.n_labels), self.counts)
        self.nonempty = np.flatnonzero(self.counts)  # labels that receive from any
        self.by_source = np.argsort(self.sources, kind="stable")
        sent = np.bincount(self.sources, minlength=self.n_labels)
        self.source_starts = np.concatenate([[0], np.cumsum(sent)]).astype(np.int32)
        self.receivers_by_source = self.receivers[self.by_source].astype(np.int32)

    def compared(self, a_HLC: Tensor, b_HLC: Tensor) -> np.ndarray:
        """<a_i, b_j> of every edge (i receives from j) and head, (H, E)."""
        places = sparse_csr(self.starts, self.sources, np.zeros(len(self.sources), np.float32), (self.n_labels,) * 2)
        products = [
            torch.sparse.sampled_addmm(places, a_LC, b_LC.T, beta=0.0).values()
            for a_LC, b_LC in zip(a_HLC, b_HLC, strict=True)
        ]
        return torch.stack(products).numpy()

    def softmax(self, scores_HE: np.ndarray) -> np.ndarray:
        """Over the edges of each receiver; the scores are overwritten."""
        starts, counts = self.starts[self.nonempty], self.counts[self.nonempty]
        scores_HE -= np.repeat(np.maximum.reduceat(scores_HE, starts, axis=1), counts, axis=1)
        np.exp(scores_HE, out=scores_HE)
        scores_HE /= np.repeat(np.add.reduceat(scores_HE, starts, axis=1), counts, axis=1)
        return scores_HE

    def received(self, weights_HE: np.ndarray, x_HLC: np.ndarray) -> np.ndarray:
        """sum_j w_ij x_j for every receiver i."""
        return self._summed(weights_HE, self.sources, self.starts, x_HLC)

    def returned(self, weights_HE: np.ndarray, x_HLC: np.ndarray) -> np.ndarray:
        """sum_i w_ij x_i for every source j."""
        return self._summed(weights_HE[:, self.by_source], self.receivers_by_source, self.source_starts, x_HLC)

    def _summed(self, weights_HE: np.ndarray, columns: np.ndarray, starts: np.ndarray, x_HLC: np.ndarray) -> np.ndarray:
        shape = (self.n_labels, self.n_labels)
        return np.stack(
            [
                sparse.csr_matrix((weights_E, columns, starts), shape=shape) @ x_LC
                for weights_E, x_LC in zip(weights_HE, x_HLC, strict=True)
            ]
        )


class _AlongEdges(torch.autograd.Function):
    """Messages (B, H, L, C) and weights (B, H, E); only the weights are kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, u: Tensor, v: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
        messages, weights = [], []
        for q_HLC, u_HLC, v_HLC in zip(*(_each_row(x) for x in (q, u, v)), strict=True):
            alpha_HE = edges.softmax(edges.compared(q_HLC, u_HLC))
            messages.append(torch.from_numpy(edges.received(alpha_HE, v_HLC.numpy())))
            weights.append(torch.from_numpy(alpha_HE))
        message, alpha = torch.stack(messages), torch.stack(weights)
        ctx.save_for_backward(q, u, v, message, alpha)
        ctx.mark_non_differentiable(alpha)
        ctx.edges = edges
        return message, alpha

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        edges: Edges = ctx.edges
        found: tuple[list[Tensor], ...] = ([], [], [])
        rows = zip(*(_each_row(x) for x in (*ctx.saved_tensors, grads[0])), strict=True)
        for q_HLC, u_HLC, v_HLC, message_HLC, alpha_HE, pull_HLC in rows:
            alpha, pull = alpha_HE.numpy(), pull_HLC.numpy()
            # sum_j alpha_ij <pull_i, v_j> = <pull_i, message_i>: no sum over the edges is needed for it
            middle_HL = (pull_HLC * message_HLC).sum(-1).numpy()
            d_scores = edges.compared(pull_HLC, v_HLC)
            d_scores -= middle_HL[:, edges.receivers]
            d_scores *= alpha
            found[0].append(torch.from_numpy(edges.received(d_scores, u_HLC.numpy())))
            found[1].append(torch.from_numpy(edges.returned(d_scores, q_HLC.numpy())))
            found[2].append(torch.from_numpy(edges.returned(alpha, pull)))
        d_q, d_u, d_v = (torch.stack(part) for part in found)
        return d_q, d_u, d_v, None


def _each_row(x: Tensor) -> Iterator[Tensor]:
    return (row.detach().contiguous() for row in x)


class SparseMessagePassing(MessagePassing):
    """One MPNN among labels along the edges of a fixed sparse graph; it keeps no attention weights."""

    def __init__(self, config: ModelConfig, adjacency: sparse.csr_matrix) -> None:
        super().__init__(config)
        self.edges = Edges(adjacency)

    def attend(
        self, q_BHRC: Tensor, u_BHSC: Tensor, v_BHSC: Tensor, neighbourhood: Neighbourhood
    ) -> tuple[Tensor, Tensor | None]:
        if not isinstance(neighbourhood, LabelNeighbourhood) or neighbourhood.shortlist_BM is not None:
            return super().attend(q_BHRC, u_BHSC, v_BHSC, neighbourhood)
        # Torch gives `apply` no types.
        message_BHLC, _ = _AlongEdges.apply(  # type: ignore[no-untyped-call]
            q_BHRC.float(), u_BHSC.float(), v_BHSC.float(), self.edges
        )
        return message_BHLC.to(q_BHRC.dtype), None
