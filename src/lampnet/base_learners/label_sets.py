"""Label sets: which labels complete what is known, by the label sets of labelled rows.

Two labels that are known together can say more than each of them does. The label sets of labelled rows are weighted by
how well they match what is known: a rare label that both have counts more than a frequent one, and a set with a
refused label counts less. The weighted share of sets that have label i, smoothed by one pseudo-count at the prior,
gives the shift

    log-odds P(i | sets like this one) - log-odds P(i)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.special import logit

from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN
from lampnet.data.label_priors import label_priors
from lampnet.errors import ModelFolderError

#: label sets that are kept at most
MOST_SETS = 20_000
PSEUDO_COUNT = 1.0
MARGIN = 1e-5


@dataclass(frozen=True)
class LabelSets:
    """Different label sets of labelled rows, and how many rows have each.

    sets_Sm     CSR float32, 1 where a label is true
    unknown_Sm  CSR float32, 1 where a label is unknown
    count_S     float32
    prior_m     float32, how often each label is true
    """

    sets_Sm: sparse.csr_matrix
    unknown_Sm: sparse.csr_matrix
    count_S: np.ndarray
    prior_m: np.ndarray

    def shift(self, states_BL: np.ndarray) -> np.ndarray:
        """The shift of every label's log-odds by what is known of the others, float32 (B, m).

        It is 0 for rows with nothing known. A label that is known itself is shifted by the others alone.

        >>> sets = label_sets(np.array([[1, 1, 0, 1]] * 3 + [[1, 0, 1, 0]] * 3 + [[0, 1, 1, 0]] * 3, np.float32))
        >>> one, both = sets.shift(np.array([[1, 0, 0, 0], [1, 1, 0, 0]], np.int8))[:, 3]
        >>> bool(both > one > 0)
        True
        """
        shift_BL = np.zeros(states_BL.shape, dtype=np.float32)
        some = np.flatnonzero((states_BL != UNKNOWN).any(axis=1))
        if not len(some) or not len(self.count_S):
            return shift_BL
        states = states_BL[some]
        # A match is worth the surprise of the label; a refused label of the set counts one against it.
        worth_Bm = np.where(states == TRUE, -np.log(self.prior_m), np.where(states == FALSE, -1.0, 0.0))
        known = np.flatnonzero((states != UNKNOWN).any(axis=0))
        match_BS = np.asarray((self._with_label[known].T @ worth_Bm[:, known].T.astype(np.float32)).T)
        weight_BS = np.exp(match_BS - match_BS.max(axis=1, keepdims=True))
        rows_BS = weight_BS * self.count_S
        # What a set owes to the label's own state is taken back: the factor exp(worth) of the sets that have the label.
        owed_Bm = np.exp(-worth_Bm)
        squares_BS = rows_BS * weight_BS
        with_label_Bm, squared_Bm = np.split((self._with_label @ np.concatenate([rows_BS, squares_BS]).T).T, 2)
        true_Bm = with_label_Bm * owed_Bm
        total_Bm = np.maximum(rows_BS.sum(axis=1, keepdims=True) - with_label_Bm, 0.0) + true_Bm
        known_Bm = total_Bm - (self.unknown_Sm.T @ rows_BS.T).T if self.unknown_Sm.nnz else total_Bm
        # as many rows of equal weight as would give an equally sure share
        squares_Bm = np.maximum(squares_BS.sum(axis=1, keepdims=True) - squared_Bm, 0.0) + squared_Bm * owed_Bm**2
        effective_Bm = total_Bm**2 / np.maximum(squares_Bm, 1e-30)
        share_Bm = true_Bm / np.maximum(known_Bm, 1e-6 * total_Bm)
        share_Bm = (effective_Bm * share_Bm + PSEUDO_COUNT * self.prior_m) / (effective_Bm + PSEUDO_COUNT)
        shift_BL[some] = logit(np.clip(share_Bm, MARGIN, 1 - MARGIN)) - logit(self.prior_m)
        return shift_BL

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything learned, for the model folder."""
        arrays = {"count": self.count_S, "prior": self.prior_m}
        for name, matrix in (("true", self.sets_Sm), ("unknown", self.unknown_Sm)):
            arrays[f"{name}.offsets"] = matrix.indptr.astype(np.int64)
            arrays[f"{name}.labels"] = matrix.indices.astype(np.int32)
        return arrays

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray], n_labels: int) -> LabelSets:
        """What `arrays` returned, checked: the folder is untrusted."""
        try:
            count, prior = arrays["count"], arrays["prior"]
            matrices = [_matrix(arrays, name, len(count), n_labels) for name in ("true", "unknown")]
        except KeyError as missing:
            raise ModelFolderError(f"the label sets of this model lack {missing}; train it again") from None
        sound = count.ndim == 1 and count.dtype == prior.dtype == np.float32 and prior.shape == (n_labels,)
        if not sound or not (count > 0).all() or not np.isfinite(count).all() or not ((prior > 0) & (prior < 1)).all():
            raise ModelFolderError("the label sets of this model have damaged counts; train it again")
        return cls(matrices[0], matrices[1], count, prior)

    @cached_property
    def _with_label(self) -> sparse.csr_matrix:
        """The sets that have each label, (m, S)."""
        return sparse.csr_matrix(self.sets_Sm.T)


def label_sets(Y_nm: np.ndarray) -> LabelSets:
    """The label sets of labelled rows, NaN where unknown; of very many rows, every k-th."""
    rows = Y_nm[:: max(1, -(-len(Y_nm) // MOST_SETS))]
    coded = np.where(np.isnan(rows), 2, rows > 0).astype(np.uint8)
    different, count = np.unique(coded, axis=0, return_counts=True) if len(coded) else (coded, np.zeros(0))
    return LabelSets(
        sparse.csr_matrix(different == 1, dtype=np.float32),
        sparse.csr_matrix(different == 2, dtype=np.float32),
        count.astype(np.float32),
        label_priors(Y_nm).astype(np.float32),
    )


def _matrix(arrays: Mapping[str, np.ndarray], name: str, n_sets: int, n_labels: int) -> sparse.csr_matrix:
    offsets, labels = arrays[f"{name}.offsets"], arrays[f"{name}.labels"]
    right = (
        offsets.shape == (n_sets + 1,) and offsets.dtype == np.int64 and labels.ndim == 1 and labels.dtype == np.int32
    )
    if not right or offsets[0] != 0 or offsets[-1] != len(labels) or (np.diff(offsets) < 0).any():
        raise ModelFolderError("the label sets of this model do not fit together; train it again")
    if len(labels) and (labels.min() < 0 or labels.max() >= n_labels):
        raise ModelFolderError("the label sets of this model name labels that do not exist; train it again")
    return sparse.csr_matrix((np.ones(len(labels), np.float32), labels, offsets), shape=(n_sets, n_labels))
