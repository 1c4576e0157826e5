"""How well a fitted model predicts labels where others are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from lampnet.evaluation.known_regimes import Prediction, Regime, known_scores, reveal
from lampnet.inference.logits import probabilities
from lampnet.inference.predictor import FittedModel


def scores_given_known(
    model: FittedModel, regime: Regime, Y_nL: np.ndarray, logits_nL: np.ndarray, seed: int
) -> dict[str, Any]:
    """The scores of labels that a regime does not reveal, with and without knowledge of the others.

    Y_nL, logits_nL  labels of the rows, and the model's logits with nothing known
    """
    states, rows = reveal(Y_nL, regime, seed)
    Y, states, logits = Y_nL[rows], states[rows], logits_nL[rows]
    if not rows.any():
        empty = dict.fromkeys(("map", "map_without", "example_f1", "example_f1_without"))
        return {"regime": str(regime), "rows": 0, **empty}
    informed, alone = model.proba_given(logits, states), probabilities(logits)
    return known_scores(
        regime,
        Y,
        states,
        Prediction(informed, model.decided("example_f1", informed, states)),
        Prediction(alone, model.decided("example_f1", alone)),
    )
