"""Rows -> probabilities, a batch at a time, without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch

from lampnet.inference.examples import Examples
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels.prediction_layout import prepared
from lampnet.model.lamp import LaMP
from lampnet.runtime import distributed
from lampnet.runtime.allocator import keep_memory

# Label states (floats) of one batch when predicting: more leave the cache between two layers and cost a third.
BATCH_STATES = 400_000


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
                output = ready(examples.nodes.batch(rows), examples.base_batch(rows), final_stage_only=True)
                logits[rows] = output.stages[-1].float().numpy()
    finally:
        model.train(training)
    return distributed.merged(logits)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """The logistic function, without overflow."""
    from scipy.special import expit

    return np.asarray(expit(logits), dtype=logits.dtype)


def logits_of_views(network: LaMP | Ensemble, views: Sequence[Examples], label_priors: np.ndarray | None) -> np.ndarray:
    """(n, L) final logits, the mean over the views of the rows."""
    called = cast(LaMP, network)  # a committee is called as its members are
    logits: np.ndarray = np.mean([predict_logits(called, view) for view in views], axis=0)
    empty = views[0].nodes.lengths() == 0
    if label_priors is not None and empty.any():
        # Nothing is known of such a row; what the network says without an input is a guess far from its data.
        logits[empty] = np.log(label_priors) - np.log1p(-label_priors)
    return logits


def sorted_batches(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """All rows once, shortest first: the least padding, for prediction."""
    order = np.argsort(lengths, kind="stable")
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
