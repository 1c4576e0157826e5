"""Encoded rows -> logits, one batch at a time, without gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np
import torch
from scipy.special import expit, logit

from lampnet.encoders.nodes import NodeRows
from lampnet.inference.examples import Examples
from lampnet.model.ensemble import Ensemble
from lampnet.model.stacked import StackedLaMP
from lampnet.runtime import distributed
from lampnet.runtime.allocator import kept_memory

# Label states (floats) of one batch when predicting: more leave the cache between two layers and cost a third.
BATCH_STATES = 400_000
Network = StackedLaMP | Ensemble


def predict_logits(network: Network, examples: Examples, batch_size: int = 0) -> np.ndarray:
    """Final logits (n, L), float32, in the rows' order; several processes share the batches.

    The network must be in evaluation mode and is not changed.
    """
    assert not network.training, "prediction needs a network in evaluation mode"
    logits = np.zeros((len(examples), network.n_labels), dtype=np.float32)
    us = distributed.team()
    batches = sorted_batches(examples.nodes.lengths(), batch_size or rows_per_batch(network))[us.rank :: us.size]
    with torch.inference_mode(), kept_memory() if len(batches) > 1 else nullcontext():
        for rows in batches:
            output = network(examples.nodes.batch(rows), examples.label_input(rows), final_stage_only=True)
            logits[rows] = output.stages[-1].float().numpy()
    return distributed.merged(logits)


def logits_of_views(network: Callable[[int], Network], views: Sequence[Examples]) -> np.ndarray:
    """(n, L) final logits, the mean over the views of the rows.

    network  gives the network laid out for prediction from that many nodes
    """
    logits: np.ndarray = np.mean([predict_logits(network(view.n_nodes()), view) for view in views], axis=0)
    return logits


def with_priors_for_empty_rows(logits: np.ndarray, nodes: NodeRows, label_priors: np.ndarray | None) -> np.ndarray:
    """Rows without any node are predicted from the label priors (L,): far from all training data, logits mean little.

    `logits` (n, L) is changed in place.
    """
    empty = nodes.lengths() == 0
    if label_priors is not None and empty.any():
        logits[empty] = logit(label_priors)
    return logits


def probabilities(logits: np.ndarray) -> np.ndarray:
    """The logistic function, in the type of the logits."""
    return np.asarray(expit(logits), dtype=logits.dtype)


def rows_per_batch(network: Network) -> int:
    """How many rows are predicted together: what the cache holds, 8 to 128."""
    labels = min(network.n_labels, network.shortlist or network.n_labels)
    return min(128, max(8, BATCH_STATES // (labels * network.config.width)))


def sorted_batches(lengths: np.ndarray, batch_size: int) -> list[np.ndarray]:
    """All rows once, shortest first: the least padding."""
    order = np.argsort(lengths, kind="stable")
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
