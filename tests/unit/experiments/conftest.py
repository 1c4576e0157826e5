"""Results as the protocol makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.protocol import RANKING
from lampnet.experiments.systems import SYSTEMS


@pytest.fixture
def result() -> Callable[..., dict[str, Any]]:
    return make_result


def make_result(dataset: str, system: str, seed: int = 0, value: float = 0.5, **scores: float) -> dict[str, Any]:
    """A result as the protocol makes it, all of whose scores are `value`."""
    metrics = dict.fromkeys(METRICS, value)
    metrics |= {name: score for name, score in scores.items() if name in METRICS}
    ranking = dict.fromkeys(RANKING, value) | {name: score for name, score in scores.items() if name in RANKING}
    return {
        "dataset": dataset,
        "system": system,
        "title": SYSTEMS[system].title,
        "seed": seed,
        "finished": True,
        "status": "finished",
        "version": "9.9",
        "machine": {"cpu": "Abacus 3", "cores": 2, "threads": 1, "python": "3", "torch": "2"},
        "data": {"rows": {"train": 8, "valid": 1, "test": 1}, "labels": 4, "prior_graph": "cooccurrence"},
        "paper": dict(metrics),
        "best": dict(metrics),
        "oracle": {name: score + 0.01 for name, score in metrics.items()},
        "validation": {"paper": dict(metrics), "best": dict(metrics)},
        "decisions": dict.fromkeys(METRICS, "top 3"),
        "ranking": ranking,
        "minutes": {"fit": 1.5, "predict": 0.1},
        "size": {"weights": 1000, "bytes": 4000},
        "config": SYSTEMS[system].config("cooccurrence").to_json() if SYSTEMS[system].is_lamp else {},
    }
