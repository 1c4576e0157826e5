"""G_yy as the model uses it: who hears whom among the labels, and attention along sparse edges."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

# From this many labels on, and below this share of open pairs, walking the edges beats the L x L product.
SPARSE_FROM_LABELS = 512
SPARSE_BELOW_DENSITY = 0.1


class Edges:
    """The edges by receiver (CSR), and where each stands when they are ordered by sender.

    Axes: E edges, H heads, L labels, C width of a head. A head at a time, so that its vectors stay in the cache.
    """

    def __init__(self, matrix: sparse.csr_matrix) -> None:
        matrix = sparse.csr_matrix(matrix)
        matrix.sum_duplicates()
        self.n_labels = matrix.shape[0]
        self.starts, self.sources = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
        self.counts = np.diff(self.starts)
        self.receivers = np.repeat(np.arange(self.n_labels), self.counts)
        self.hearing = np.flatnonzero(self.counts)  # labels that hear anybody
        self.by_sender = np.argsort(self.sources, kind="stable")
        sent = np.bincount(self.sources, minlength=self.n_labels)
        self.sender_starts = np.concatenate([[0], np.cumsum(sent)]).astype(np.int32)
        self.heard_by = self.receivers[self.by_sender].astype(np.int32)

    def compared(self, a_HLC: Tensor, b_HLC: Tensor) -> np.ndarray:
        """<a_i, b_j> of every edge (i hears j) and head, (H, E)."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
            places = torch.sparse_csr_tensor(
                torch.from_numpy(self.starts),
                torch.from_numpy(self.sources),
                torch.zeros(len(self.sources)),
                size=(self.n_labels, self.n_labels),
                check_invariants=False,
            )
        products = [
            torch.sparse.sampled_addmm(places, a_LC, b_LC.T, beta=0.0).values()
            for a_LC, b_LC in zip(a_HLC, b_HLC, strict=True)
        ]
        return torch.stack(products).numpy()

    def softmax(self, scores_HE: np.ndarray) -> np.ndarray:
        """Over the edges of each receiver; the scores are overwritten."""
        starts, counts = self.starts[self.hearing], self.counts[self.hearing]
        scores_HE -= np.repeat(np.maximum.reduceat(scores_HE, starts, axis=1), counts, axis=1)
        np.exp(scores_HE, out=scores_HE)
        scores_HE /= np.repeat(np.add.reduceat(scores_HE, starts, axis=1), counts, axis=1)
        return scores_HE

    def received(self, weights_HE: np.ndarray, x_HLC: np.ndarray) -> np.ndarray:
        """sum_j w_ij x_j for every receiver i."""
        return self._summed(weights_HE, self.sources, self.starts, x_HLC)

    def returned(self, weights_HE: np.ndarray, x_HLC: np.ndarray) -> np.ndarray:
        """sum_i w_ij x_i for every sender j."""
        return self._summed(weights_HE[:, self.by_sender], self.heard_by, self.sender_starts, x_HLC)

    def _summed(self, weights_HE: np.ndarray, columns: np.ndarray, starts: np.ndarray, x_HLC: np.ndarray) -> np.ndarray:
        shape = (self.n_labels, self.n_labels)
        return np.stack(
            [
                sparse.csr_matrix((weights_E, columns, starts), shape=shape) @ x_LC
                for weights_E, x_LC in zip(weights_HE, x_HLC, strict=True)
            ]
        )


class _AlongEdges(torch.autograd.Function):
    """Messages (B, H, L, C) and weights (B, H, E); only the weights are kept for the way back."""

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
        q, u, v = (x.float() for x in (q_BHLC, u_BHLC, v_BHLC))
        # Torch gives `apply` no types.
        message_BHLC, alpha_BHE = _AlongEdges.apply(q, u, v, self.edges)  # type: ignore[no-untyped-call]
        weights = torch.stack([self._dense(alpha_HE) for alpha_HE in alpha_BHE]) if record else None
        return message_BHLC.to(q_BHLC.dtype), weights

    def _dense(self, alpha_HE: Tensor) -> Tensor:
        starts, hears = cast(Tensor, self.starts), cast(Tensor, self.hears)
        receivers = torch.repeat_interleave(torch.arange(self.n_labels), starts.diff())
        full = torch.zeros(alpha_HE.shape[0], self.n_labels, self.n_labels)
        full[:, receivers, hears] = alpha_HE
        return full
