"""Scores label by label, and which labels are taken for which.

>>> truth, proba = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.2, 0.9], [0.1, 0.8]])
>>> by_label(("cat", "dog"), truth, proba, proba > 0.5)[1]["recall"]
1.0
>>> confused_pairs(("cat", "dog"), truth, proba > 0.5)
[{'missed': 'cat', 'given': 'dog', 'rows': 1, 'share_of_missed': 1.0}]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

MOST_PAIRS = 30
#: a label with fewer true rows than this says little about itself
FEW_ROWS = 10


def by_label(
    names: Sequence[str], truth_nL: np.ndarray, proba_nL: np.ndarray, chosen_nL: np.ndarray
) -> list[dict[str, Any]]:
    """For each label its support (true rows), predicted rows, precision, recall, F1 and ROC-AUC; None where undefined.

    `few` marks labels whose support is too small for their scores to say much.
    """
    known = ~np.isnan(truth_nL)
    true, given = known & (truth_nL == 1), known & chosen_nL.astype(bool)
    support, predicted, hits = true.sum(axis=0), given.sum(axis=0), (true & given).sum(axis=0)
    return [
        {
            "label": name,
            "support": int(support[j]),
            "predicted": int(predicted[j]),
            "precision": _share(hits[j], predicted[j]),
            "recall": _share(hits[j], support[j]),
            "f1": _share(2 * hits[j], support[j] + predicted[j]),
            "auc": _auc(true[known[:, j], j], proba_nL[known[:, j], j]),
            "few": bool(support[j] < FEW_ROWS),
        }
        for j, name in enumerate(names)
    ]


def confused_pairs(names: Sequence[str], truth_nL: np.ndarray, chosen_nL: np.ndarray) -> list[dict[str, Any]]:
    """Pairs of a label that rows have and were not given, and one that they were given instead, the most rows first."""
    known = ~np.isnan(truth_nL)
    true, given = known & (truth_nL == 1), known & chosen_nL.astype(bool)
    missed, wrong = (sparse.csr_matrix(part, dtype=np.int64) for part in (true & ~given, given & ~true))
    count = sparse.coo_matrix(missed.T @ wrong)
    of_missed = np.asarray(missed.sum(axis=0)).ravel()
    order = np.lexsort((count.col, count.row, -count.data))[:MOST_PAIRS]
    return [
        {
            "missed": names[count.row[i]],
            "given": names[count.col[i]],
            "rows": int(count.data[i]),
            "share_of_missed": round(float(count.data[i] / of_missed[count.row[i]]), 4),
        }
        for i in order
    ]


def _share(part: Any, whole: Any) -> float | None:
    return round(float(part / whole), 6) if whole else None


def _auc(true: np.ndarray, proba: np.ndarray) -> float | None:
    """How often a true row is ranked above a false one; ties count half."""
    positive, negative = int(true.sum()), int((~true).sum())
    if not positive or not negative:
        return None
    from scipy.stats import rankdata  # slow to import

    above = rankdata(proba)[true].sum() - positive * (positive + 1) / 2
    return round(float(above / (positive * negative)), 6)
