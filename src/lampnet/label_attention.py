"""G_yy as the model uses it: who hears whom among the labels, and attention along sparse edges."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

# From this many labels on, and below this share of open pairs, walking the edges beats the L x L product.
SPARSE_FROM_LABELS = 512
SPARSE_BELOW_DENSITY = 0.1


# Edges whose two ends are compared at once: enough to be quick, few enough to stay near the cache.
PIECE = 16_384


class Edges:
    """The edges by receiver (CSR), and where each stands when they are ordered by sender."""

    def __init__(self, matrix: sparse.csr_matrix) -> None:
        matrix = sparse.csr_matrix(matrix)
        matrix.sum_duplicates()
        self.n_labels = matrix.shape[0]
        self.starts, self.senders = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
        self.counts = np.diff(self.starts)
        self.receivers = np.repeat(np.arange(self.n_labels), self.counts)
        self.hearing = np.flatnonzero(self.counts)  # labels that hear anybody
        self.by_sender = np.argsort(self.senders, kind="stable")
        sent = np.bincount(self.senders, minlength=self.n_labels)
        self.sender_starts = np.concatenate([[0], np.cumsum(sent)]).astype(np.int32)
        self.heard_by = self.receivers[self.by_sender].astype(np.int32)

    def compared(self, a_LHC: np.ndarray, b_LHC: np.ndarray) -> np.ndarray:
        """<a_i, b_j> of every edge (i hears j) and head, (E, H)."""
        products = np.empty((len(self.senders), a_LHC.shape[1]), dtype=np.float32)
        for first in range(0, len(products), PIECE):
            part = slice(first, first + PIECE)
            np.einsum("ehc,ehc->eh", a_LHC[self.receivers[part]], b_LHC[self.senders[part]], out=products[part])
        return products

    def softmax(self, scores_EH: np.ndarray) -> np.ndarray:
        """Over the edges of each receiver."""
        starts, counts = self.starts[self.hearing], self.counts[self.hearing]
        grown = np.exp(scores_EH - np.repeat(np.maximum.reduceat(scores_EH, starts, axis=0), counts, axis=0))
        alpha: np.ndarray = grown / np.repeat(np.add.reduceat(grown, starts, axis=0), counts, axis=0)
        return alpha

    def received(self, weights_EH: np.ndarray, x_LHC: np.ndarray) -> np.ndarray:
        """sum_j w_ij x_j for every receiver i."""
        return self._summed(weights_EH, self.senders, self.starts, x_LHC)

    def returned(self, weights_EH: np.ndarray, x_LHC: np.ndarray) -> np.ndarray:
        """sum_i w_ij x_i for every sender j."""
        return self._summed(weights_EH[self.by_sender], self.heard_by, self.sender_starts, x_LHC)

    def _summed(self, weights_EH: np.ndarray, columns: np.ndarray, starts: np.ndarray, x_LHC: np.ndarray) -> np.ndarray:
        total = np.empty_like(x_LHC)
        shape = (self.n_labels, self.n_labels)
        for head in range(x_LHC.shape[1]):
            weights = sparse.csr_matrix((np.ascontiguousarray(weights_EH[:, head]), columns, starts), shape=shape)
            total[:, head] = weights @ np.ascontiguousarray(x_LHC[:, head])
        return total


class _AlongEdges(torch.autograd.Function):
    """Messages (B, L, H, C) and weights (B, E, H); only the weights are kept for the way back."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, u: Tensor, v: Tensor, edges: Edges) -> tuple[Tensor, Tensor]:
        messages, weights = [], []
        for q_LHC, u_LHC, v_LHC in zip(*(x.detach().contiguous().numpy() for x in (q, u, v)), strict=True):
            alpha_EH = edges.softmax(edges.compared(q_LHC, u_LHC))
            messages.append(torch.from_numpy(edges.received(alpha_EH, v_LHC)))
            weights.append(torch.from_numpy(alpha_EH))
        message, alpha = torch.stack(messages), torch.stack(weights)
        ctx.save_for_backward(q, u, v, message, alpha)
        ctx.mark_non_differentiable(alpha)
        ctx.edges = edges
        return message, alpha

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        edges: Edges = ctx.edges
        found: tuple[list[Tensor], ...] = ([], [], [])
        rows = zip(*(x.detach().contiguous().numpy() for x in (*ctx.saved_tensors, grads[0])), strict=True)
        for q_LHC, u_LHC, v_LHC, message_LHC, alpha_EH, pull_LHC in rows:
            # sum_j alpha_ij <pull_i, v_j> = <pull_i, message_i>: no sum over the edges is needed for it
            middle_LH = (pull_LHC * message_LHC).sum(-1)
            d_scores_EH = alpha_EH * (edges.compared(pull_LHC, v_LHC) - middle_LH[edges.receivers])
            found[0].append(torch.from_numpy(edges.received(d_scores_EH, u_LHC)))
            found[1].append(torch.from_numpy(edges.returned(d_scores_EH, q_LHC)))
            found[2].append(torch.from_numpy(edges.returned(alpha_EH, pull_LHC)))
        d_q, d_u, d_v = (torch.stack(part) for part in found)
        return d_q, d_u, d_v, None


class LabelGraph(nn.Module):
    """The label graph; an edge (i, j) lets label i hear label j. Every label hears itself."""

    def __init__(self, kind: str, adjacency: sparse.csr_matrix | None, n_labels: int) -> None:
        super().__init__()
        self.kind = kind if kind in ("edgeless", "full") else "edges"
        self.n_labels = n_labels
        self.sparse = False
        if self.kind == "edges":
            assert adjacency is not None
            matrix = sparse.csr_matrix(adjacency)
            self.sparse = n_labels >= SPARSE_FROM_LABELS and matrix.nnz < SPARSE_BELOW_DENSITY * n_labels**2
            self.edges = Edges(matrix)
            self.register_buffer("starts", torch.from_numpy(matrix.indptr.astype("int64")), persistent=False)
            self.register_buffer("hears", torch.from_numpy(matrix.indices.astype("int64")), persistent=False)

    def open_pairs(self, chosen_BM: Tensor | None) -> Tensor:
        """bool (L, L), or (B, M, M) among chosen labels: True where the first hears the second."""
        starts, hears = cast(Tensor, self.starts), cast(Tensor, self.hears)
        receivers = torch.repeat_interleave(torch.arange(self.n_labels), starts.diff())
        if chosen_BM is None:
            pairs = torch.zeros(self.n_labels, self.n_labels, dtype=torch.bool)
            pairs[receivers, hears] = True
            return pairs
        keys = receivers * self.n_labels + hears  # sorted, as CSR rows are
        wanted = chosen_BM[:, :, None] * self.n_labels + chosen_BM[:, None, :]
        found = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        return keys[found] == wanted

    def forward(self, q_BHLC: Tensor, u_BHLC: Tensor, v_BHLC: Tensor, record: bool) -> tuple[Tensor, Tensor | None]:
        """Attention along the edges only: memory and time by the edges."""
        q, u, v = (x.transpose(1, 2).float() for x in (q_BHLC, u_BHLC, v_BHLC))  # label by label: B, L, H, C
        message_BLHC, alpha_BEH = _AlongEdges.apply(q, u, v, self.edges)  # type: ignore[no-untyped-call]
        weights = torch.stack([self._dense(alpha.T) for alpha in alpha_BEH]) if record else None
        return message_BLHC.transpose(1, 2).to(q_BHLC.dtype), weights

    def _dense(self, alpha_HE: Tensor) -> Tensor:
        starts, hears = cast(Tensor, self.starts), cast(Tensor, self.hears)
        receivers = torch.repeat_interleave(torch.arange(self.n_labels), starts.diff())
        full = torch.zeros(alpha_HE.shape[0], self.n_labels, self.n_labels)
        full[:, receivers, hears] = alpha_HE
        return full
