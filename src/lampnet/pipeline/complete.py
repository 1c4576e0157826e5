"""Filling half-labelled rows: what is known stays, what is unknown gets its probability given the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import TRUE, UNKNOWN, states_of_truth
from lampnet.evaluation.choose_rules import choose_paper_thresholds
from lampnet.inference.predictor import FittedModel
from lampnet.pipeline.control import IN_MEMORY, FitRun
from lampnet.pipeline.given_others import cross_fit_given_others


@dataclass(frozen=True)
class Completed:
    """Filled rows.

    proba   float32 (n, L): 1 and 0 where a label is known
    chosen  bool (n, L): known labels, and unknown ones that are decided to be true
    """

    proba: np.ndarray
    chosen: np.ndarray


def complete_by_model(model: FittedModel, data: Dataset) -> Completed:
    """Fill rows that the model has not learned from; they have its labels, in its order."""
    states = states_of_truth(data.indicator())
    proba = model.proba_given(model.logits(data.rows, data.row_edges), states)
    return Completed(proba, model.decided("example_f1", proba, states))


def complete_by_themselves(data: Dataset, config: Config, run: FitRun = IN_MEMORY) -> Completed:
    """Fill rows by what is known of them together: each by what was learned without it.

    An unknown label is true from that threshold on which gives the known ones, predicted alike, the best example-F1.
    """
    found = cross_fit_given_others(data, config, run)
    Y, proba = data.indicator(), found.proba()
    threshold = choose_paper_thresholds(Y, proba)["example_f1"]
    unknown = found.states_nL == UNKNOWN
    chosen = np.where(unknown, threshold.apply(proba), found.states_nL == TRUE)
    return Completed(np.where(unknown, proba, Y).astype(np.float32), chosen)
