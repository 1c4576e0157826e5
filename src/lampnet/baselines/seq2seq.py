"""RNN Seq2Seq (Nam et al. 2017): encodes the input, then decodes the positive labels one by one until "stop".

A bidirectional GRU over the input nodes, a GRU over the labels decoded so far with attention to the input
(Luong et al. 2015), labels in the order of their training frequency, beam search when predicting. Texts are read word
by word; a set of words, which has no order, from frequent to rare ones. Training ends when the example-F1 of the label
sets that beam search finds for the validation rows no longer rises.

Axes: B rows, S input nodes, T labels of a sequence, K beams, L labels, D width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lampnet.baselines.node_networks import MakeEmbedding, PlainEmbedding, train
from lampnet.baselines.rows import check_labels, held_out_tenth
from lampnet.encoders.nodes import NodeBatch, NodeRows
from lampnet.errors import ConfigError
from lampnet.evaluation.metrics import example_f1
from lampnet.inference.logits import sorted_batches


class _Network(nn.Module):
    def __init__(self, embedding: nn.Module, width: int, n_labels: int, dropout: float) -> None:
        super().__init__()
        self.n_labels = n_labels  # also the index of "stop"; "start" is the next
        self.embedding = embedding
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.labels = nn.Embedding(n_labels + 2, width)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.attend = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(2 * width, width)
        self.readout = nn.Linear(width, n_labels + 1)

    def encode(self, batch: NodeBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Encoded nodes (B, S, D), which are there (B, S), and the decoder's first state (1, B, D)."""
        z_BSD, present_BS, _ = self.embedding(batch)
        # Nodes that are there move to the front: packed sequences know lengths, not gaps.
        order = torch.argsort(present_BS.to(torch.int8), dim=1, descending=True, stable=True)
        z_BSD = torch.gather(z_BSD, 1, order.unsqueeze(-1).expand_as(z_BSD))
        lengths = present_BS.sum(dim=1)
        # A row without nodes is encoded as one zero vector.
        z_BSD = torch.where((lengths == 0)[:, None, None], torch.zeros_like(z_BSD), z_BSD)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(z_BSD), lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
        )
        encoded, last = self.encoder(packed)
        memory_BSD, _ = nn.utils.rnn.pad_packed_sequence(encoded, batch_first=True, total_length=z_BSD.shape[1])
        present_BS = torch.arange(z_BSD.shape[1]) < lengths.clamp(min=1)[:, None]
        return memory_BSD, present_BS, torch.cat([last[0], last[1]], dim=-1).unsqueeze(0)

    def decode(self, labels_BT: Tensor, state: Tensor, memory_BSD: Tensor, present_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, T, L + 1) of the next label after each given one, and the new state."""
        hidden_BTD, state = self.decoder(self.dropout(self.labels(labels_BT)), state)
        scores_BTS = self.attend(hidden_BTD) @ memory_BSD.transpose(1, 2)
        weights_BTS = torch.softmax(scores_BTS.masked_fill(~present_BS.unsqueeze(1), -torch.inf), dim=-1)
        mixed_BTD = torch.tanh(self.combine(torch.cat([hidden_BTD, weights_BTS @ memory_BSD], dim=-1)))
        return torch.log_softmax(self.readout(self.dropout(mixed_BTD)), dim=-1), state


def _reading_rank(X: NodeRows) -> np.ndarray | None:
    """For each node id its place, from frequent to rare, where rows are sets; None where rows have an order."""
    if X.ids is None or X.positions is not None or X.edges is not None or not len(X.ids):
        return None
    counts = np.bincount(X.ids, minlength=int(X.ids.max()) + 2)  # the last: ids that no training row has
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return rank


@dataclass(eq=False)
class Seq2Seq:
    """`predict` gives the label sets of the best beam; `predict_proba` the beams' shares of each label.

    Unknown labels cannot be left out of a sequence; in training they count as absent.
    """

    tuned_: ClassVar[dict[str, Any]] = {}
    embedding: MakeEmbedding | None = None
    width: int = 256
    dropout: float = 0.3
    beams: int = 5
    epochs: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    patience: int = 6
    time_budget: float = 0.0
    seed: int = 0

    def fit(
        self, X: NodeRows, Y: np.ndarray, X_valid: NodeRows | None = None, Y_valid: np.ndarray | None = None
    ) -> Seq2Seq:
        if self.width % 2 or self.beams < 1:
            raise ConfigError(f"seq2seq needs an even width and at least one beam; got {self.width} and {self.beams}")
        Y = check_labels(X, Y)
        if X_valid is None or Y_valid is None:
            learn, tune = held_out_tenth(len(Y), self.seed)
            X, X_valid, Y, Y_valid = X.take(learn), X.take(tune), Y[learn], Y[tune]
        self.reading_rank_ = _reading_rank(X)
        X, valid_rows, valid_Y = self._in_order(X), X_valid, check_labels(X_valid, Y_valid)
        self.n_labels_ = Y.shape[1]
        #: label indices from frequent to rare
        self.order_ = np.argsort(-np.nansum(Y, axis=0), kind="stable")
        sequences = self._sequences(Y)
        self.longest_ = max(len(labels) for labels in sequences)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            make: Any = self.embedding or (lambda width: PlainEmbedding(X, width))
            self.network_ = _Network(make(self.width), self.width, self.n_labels_, self.dropout)

            self.history_ = train(
                self.network_,
                lambda index: self._loss(X, sequences, index),
                lambda: self._validation(valid_rows, valid_Y),
                X.lengths(),
                self,
            )
        return self

    def _validation(self, X: NodeRows, Y: np.ndarray) -> float:
        """What picks the epoch that is kept."""
        return example_f1(Y, self.predict(X))

    def predict(self, X: NodeRows) -> np.ndarray:
        """Label sets, bool (n, L), of the most probable beam."""
        return self._search(self._in_order(X))[0][:, 0]

    def predict_proba(self, X: NodeRows) -> np.ndarray:
        """The share of the beams' probability that has each label, float (n, L)."""
        sets, shares = self._search(self._in_order(X))
        return np.asarray(np.clip(np.einsum("nk,nkl->nl", shares, sets), 0.0, 1.0))

    def _in_order(self, X: NodeRows) -> NodeRows:
        """The nodes of each row as they are read."""
        if self.reading_rank_ is None:
            return X
        assert X.ids is not None
        rank = self.reading_rank_[np.minimum(X.ids, len(self.reading_rank_) - 1)]
        order = np.lexsort((rank, np.repeat(np.arange(len(X)), X.lengths())))
        values, vectors = (None if part is None else part[order] for part in (X.values, X.vectors))
        return replace(X, ids=X.ids[order], values=values, vectors=vectors)

    def _sequences(self, Y: np.ndarray) -> list[np.ndarray]:
        """The positive labels of each row in the order of frequency, then "stop"."""
        return [np.append(self.order_[row[self.order_] == 1], self.n_labels_) for row in Y]

    def _loss(self, X: NodeRows, sequences: list[np.ndarray], index: np.ndarray) -> Tensor:
        """Cross-entropy per label, given the true earlier labels."""
        longest = max(len(sequences[i]) for i in index)
        wanted = torch.full((len(index), longest), -1)
        for b, i in enumerate(index):
            wanted[b, : len(sequences[i])] = torch.from_numpy(sequences[i])
        start = torch.full((len(index), 1), self.n_labels_ + 1)
        named = torch.cat([start, wanted[:, :-1].clamp(min=0)], dim=1)
        memory, there, state = self.network_.encode(X.batch(index))
        log_p, _ = self.network_.decode(named, state, memory, there)
        return nn.functional.nll_loss(log_p.flatten(0, 1), wanted.flatten(), ignore_index=-1)

    def _search(self, X: NodeRows) -> tuple[np.ndarray, np.ndarray]:
        """Sets bool (n, K, L) of the K best beams, best first, and their shares (n, K) of the probability."""
        sets = np.zeros((len(X), self.beams, self.n_labels_), dtype=bool)
        shares = np.zeros((len(X), self.beams))
        self.network_.eval()
        with torch.inference_mode():
            for index in sorted_batches(X.lengths(), 64):
                found, scores = self._beams(X.batch(index))
                sets[index] = found.numpy()
                shares[index] = torch.softmax(scores.double(), dim=1).numpy()
        return sets, shares

    def _beams(self, batch: NodeBatch) -> tuple[Tensor, Tensor]:
        K, L = self.beams, self.n_labels_
        memory, there, state = self.network_.encode(batch)
        B = memory.shape[0]
        memory, there = memory.repeat_interleave(K, dim=0), there.repeat_interleave(K, dim=0)
        state = state.repeat_interleave(K, dim=1)
        named = torch.full((B * K, 1), L + 1)
        scores = torch.full((B, K), -torch.inf)
        scores[:, 0] = 0.0  # all beams start equal; only one may continue
        taken = torch.zeros(B, K, L, dtype=torch.bool)
        done = torch.zeros(B, K, dtype=torch.bool)
        row = torch.arange(B)[:, None]
        for step in range(self.longest_ + 1):
            log_p, state = self.network_.decode(named, state, memory, there)
            log_p = log_p[:, 0].view(B, K, L + 1)
            log_p[..., :L] = log_p[..., :L].masked_fill(taken | done.unsqueeze(-1), -torch.inf)
            log_p[..., L] = log_p[..., L].masked_fill(done, 0.0)
            if step == self.longest_:  # longer than any training row: stop here
                log_p[..., :L] = -torch.inf
            scores, flat = (scores.unsqueeze(-1) + log_p).view(B, -1).topk(K, dim=1)
            beam, label = flat // (L + 1), flat % (L + 1)
            done = done[row, beam] | (label == L)
            taken = taken[row, beam] | nn.functional.one_hot(label, L + 1)[..., :L].bool()
            state = state.view(1, B, K, -1)[:, row, beam].reshape(1, B * K, -1)
            named = label.view(B * K, 1)
            if bool((done | scores.isneginf()).all()):
                break
        return taken, scores
