"""Untrained networks for given settings, inputs and labels."""

from __future__ import annotations

from scipy import sparse

from lampnet.config import Config
from lampnet.encoders.base import Encoder
from lampnet.model.ensemble import Ensemble, heard_as_one
from lampnet.model.label_edges import LabelGraph
from lampnet.model.lamp import LaMP
from lampnet.runtime.torch_state import seeded

#: how far the seeds of a committee's members lie apart
MEMBER_SEEDS = 1000


def build_network(config: Config, n_labels: int, encoder: Encoder, graph: sparse.csr_matrix | None) -> LaMP | Ensemble:
    """An untrained network, or committee of networks, for these settings, inputs and labels."""
    members = range(max(1, config.training.folds))
    return heard_as_one([build_member(config, n_labels, encoder, graph, number) for number in members])


def build_member(
    config: Config, n_labels: int, encoder: Encoder, graph: sparse.csr_matrix | None, number: int = 0
) -> LaMP:
    """One untrained network; each number starts from other random weights."""
    seed = member_seed(config.training.seed, number)
    with seeded(seed):
        return LaMP(
            config.model,
            n_labels,
            encoder.embedding(config.model.width),
            LabelGraph(config.label_graph, graph, n_labels),
            edge_types=encoder.edge_types,
            seed=seed,
        )


def member_seed(seed: int, number: int) -> int:
    """A member's own seed; it stays in the range that every generator takes.

    >>> member_seed(1, 2), member_seed(2**32 - 1, 1)
    (2001, 999)
    """
    return (seed + MEMBER_SEEDS * number) % 2**32
