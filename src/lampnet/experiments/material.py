"""The data of an experiment: the same training, validation and test rows for every system."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lampnet.config import Config, InputConfig
from lampnet.data.dataset import Dataset
from lampnet.data.splits import VALIDATION_FRACTION, Splits
from lampnet.encoders import make_encoder
from lampnet.errors import LampnetError
from lampnet.pipeline.plan import check_training_rows
from lampnet.readers.sources import Source, prior_graph

TEST_FRACTION = 0.1
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Encoded:
    """The three parts, encoded, and the seconds that took.

    fit_seconds      learning the encoder and encoding the training and validation rows
    predict_seconds  encoding the test rows
    """

    encoder: Any
    train: Any
    valid: Any
    test: Any
    fit_seconds: float
    predict_seconds: float


class Material:
    """One data set, split once for one seed.

    name         what results call it
    splits       validation rows are sampled where there are none, as `fit` samples them; so are test rows
    seed         of the parts that the publisher did not provide
    prior_graph  the label graph that `LaMP_pr` uses: "cooccurrence", "tree" or "given"
    edges        int (E, 2), for "tree" and "given"
    """

    def __init__(
        self,
        name: str,
        splits: Splits,
        seed: int = 0,
        prior_graph: str = "cooccurrence",
        edges: np.ndarray | None = None,
    ) -> None:
        check_training_rows(splits.train)
        splits = splits.with_test(TEST_FRACTION, seed)
        #: with the publisher's validation rows or none, for methods that split the rows themselves
        self.labelled = splits
        self.splits = splits.with_validation(VALIDATION_FRACTION, seed)
        self.name, self.seed, self.prior_graph, self.edges = name, seed, prior_graph, edges
        self._encoded: dict[tuple[str, InputConfig], Encoded] = {}

    def part(self, name: str) -> Dataset:
        """The rows of "train", "valid" or "test"."""
        data = getattr(self.splits, name)
        assert isinstance(data, Dataset)
        return data

    @cached_property
    def truth(self) -> dict[str, np.ndarray]:
        """float32 (n, L) of each part, NaN where unknown."""
        return {name: self.part(name).indicator() for name in PARTS}

    def metadata(self) -> dict[str, Any]:
        """The description of the data in a result."""
        return {
            "kind": self.part("train").kind,
            "rows": {name: len(self.part(name)) for name in PARTS},
            "labels": len(self.part("train").label_names),
            "prior_graph": self.prior_graph,
        }

    def features(self, config: Config) -> Encoded:
        """The matrices that LaMP's base learners are fitted on; the same for every baseline."""
        return self._encode("features", config, lambda encoder, data: encoder.encode(data.rows).features)

    def nodes(self, config: Config) -> Encoded:
        """The parts as `NodeRows`."""
        return self._encode("nodes", config, lambda encoder, data: encoder.encode(data.rows, data.row_edges).nodes)

    def _encode(self, what: str, config: Config, encode: Any) -> Encoded:
        key = (what, config.input)
        if key not in self._encoded:
            train = self.part("train")
            began = time.perf_counter()
            encoder = make_encoder(train.kind, config.input).fit(train.rows, train.feature_names)
            learn, check = encode(encoder, train), encode(encoder, self.part("valid"))
            middle = time.perf_counter()
            test = encode(encoder, self.part("test"))
            ended = time.perf_counter()
            self._encoded[key] = Encoded(encoder, learn, check, test, middle - began, ended - middle)
        return self._encoded[key]


def open_material(source: Source | str, seed: int = 0, notice: Callable[[str], None] | None = None) -> Material:
    """The data called by a name of the registry, or read from a folder or a file.

    >>> open_material("digits").metadata()["rows"]
    {'train': 2000, 'valid': 400, 'test': 400}
    """
    source = Source(data=source) if isinstance(source, str) else source
    splits = source.splits(seed, notice)
    try:
        graph, edges = prior_graph("prior", source, splits.train.label_names)
    except LampnetError:
        # RCV1's small subsets have unnamed labels, and STRING's files may be missing: results name the graph used.
        graph, edges = "cooccurrence", None
    return Material(source.data if source.named else splits.train.name, splits, seed, graph, edges)
