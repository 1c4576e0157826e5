"""G_yy as the model uses it: who hears whom among the labels, and attention along sparse edges."""

from __future__ import annotations

from typing import cast

import torch
from scipy import sparse
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# From this many labels on, and below this share of open pairs, walking the edges beats the L x L product.
SPARSE_FROM_LABELS = 512
SPARSE_BELOW_DENSITY = 0.1


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
        """Attention along the edges only, one row at a time so that memory grows with the edges."""
        messages, weights = [], []
        for q, u, v in zip(q_BHLC, u_BHLC, v_BHLC, strict=True):
            if torch.is_grad_enabled():
                message, alpha = checkpoint(self._one_row, q, u, v, use_reentrant=False)
            else:
                message, alpha = self._one_row(q, u, v)
            messages.append(message)
            if record:
                weights.append(self._dense(alpha))
        return torch.stack(messages), torch.stack(weights) if record else None

    def _one_row(self, q_HLC: Tensor, u_HLC: Tensor, v_HLC: Tensor) -> tuple[Tensor, Tensor]:
        starts, hears = cast(Tensor, self.starts), cast(Tensor, self.hears)
        receivers = torch.repeat_interleave(torch.arange(self.n_labels), starts.diff())
        scores_HE = (q_HLC[:, receivers] * u_HLC[:, hears]).sum(-1)
        index = receivers.expand_as(scores_HE)
        top = torch.full(q_HLC.shape[:2], -torch.inf).scatter_reduce(1, index, scores_HE.detach(), "amax")
        grown_HE = (scores_HE - top.gather(1, index)).exp()
        total = torch.zeros(q_HLC.shape[:2]).scatter_add(1, index, grown_HE)
        alpha_HE = grown_HE / total.gather(1, index)
        sent = alpha_HE.unsqueeze(-1) * v_HLC[:, hears]
        message = torch.zeros_like(q_HLC).index_add(1, receivers, sent)
        return message, alpha_HE

    def _dense(self, alpha_HE: Tensor) -> Tensor:
        starts, hears = cast(Tensor, self.starts), cast(Tensor, self.hears)
        receivers = torch.repeat_interleave(torch.arange(self.n_labels), starts.diff())
        full = torch.zeros(alpha_HE.shape[0], self.n_labels, self.n_labels)
        full[:, receivers, hears] = alpha_HE
        return full
