"""Every input kind on a few hundred rows of the publishers' files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from lampnet.base_learners.newton import Matrix, fit_linear
from lampnet.config import InputConfig, ModelConfig
from lampnet.data.splits import Splits
from lampnet.encoders import make_encoder
from lampnet.encoders.base import Encoder
from lampnet.model.build import build_network
from lampnet.model.label_graph import LabelGraph

ROWS = 300
#: data set -> C of a linear model and the mean AUC it must reach (chance is .5)
SETS = {
    "bibtex": (10.0, 0.75),
    "reuters21578": (10.0, 0.90),
    "goemotions": (10.0, 0.55),
    "sider": (1.0, 0.55),
    "tox21": (1.0, 0.60),
    "miml_images": (0.01, 0.80),
    "digits": (0.01, 0.65),
    "yeast_chipexo": (1.0, 0.55),
    "emotions": (0.1, 0.75),
    "mediamill": (0.1, 0.60),
}


@pytest.fixture(scope="module")
def parts(splits: Callable[[str], Splits]) -> Callable[[str], Splits]:
    """300 training and 300 test rows of a data set."""

    @cache
    def sampled(name: str) -> Splits:
        whole = splits(name)
        assert whole.test is not None
        random = np.random.default_rng(0)
        train, test = (np.sort(random.permutation(len(d))[:ROWS]) for d in (whole.train, whole.test))
        return Splits(train=whole.train.take(train), test=whole.test.take(test))

    return sampled


@pytest.fixture(scope="module")
def fitted(parts: Callable[[str], Splits]) -> Callable[[str], Encoder]:
    """The encoder of a data set, fitted on its training rows."""
    return cache(lambda name: make_encoder(parts(name).train.kind, InputConfig()).fit(parts(name).train.rows))


@pytest.mark.parametrize("name", SETS)
def test_a_linear_model_learns_from_the_features(name, parts, fitted):
    train, test = parts(name).train, parts(name).test
    assert test is not None
    encoder = fitted(name)
    C, wanted = SETS[name]
    features = encoder.encode(train.rows).features
    assert features.shape[0] == len(train)
    weights, intercepts = fit_linear(Matrix(features), train.indicator(), C)
    frequent = np.nansum(train.indicator(), axis=0) >= 5
    logits, truth = encoder.encode(test.rows).features @ weights + intercepts, test.indicator()
    scores = []
    for label in np.flatnonzero(frequent):
        known = ~np.isnan(truth[:, label])
        if 0 < truth[known, label].sum() < known.sum():
            scores.append(roc_auc_score(truth[known, label], logits[known, label]))
    assert len(scores) >= 3
    assert np.mean(scores) >= wanted


@pytest.mark.parametrize("name", SETS)
def test_the_network_reads_the_nodes(name, parts, fitted):
    test = parts(name).test
    assert test is not None
    encoder = fitted(name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".* rows had more than 512 nodes")
        encoded = encoder.encode(test.rows)
        nodes = encoded.nodes
        names = [encoded.node_names(row) for row in range(3)]
    assert len(nodes) == len(test)
    torch.manual_seed(0)
    module = encoder.embedding(16)
    module.spectral_start(nodes, 0)
    config = ModelConfig(width=16, heads=2, feature_steps=1, base_learners=())
    n_labels = len(test.label_names)
    network = build_network(config, module, LabelGraph("full", None, n_labels), encoder.edge_types).eval()
    with torch.inference_mode():
        z, present, _ = module(nodes.batch(np.arange(3)))
        output = network(nodes.batch(np.arange(3)), return_attention=True)
        alone = network(nodes.batch(np.array([2])))
    assert [len(n) for n in names] == present.sum(1).tolist()
    assert all(name for row in names for name in row)
    assert torch.isfinite(z[present]).all()
    assert output.to_input[-1].shape == (3, 2, n_labels, present.shape[1])
    torch.testing.assert_close(output.stages[-1][2], alone.stages[-1][0], atol=1e-4, rtol=1e-3)


def test_vocabularies_come_from_training_rows_only(parts, fitted):
    splits = parts("reuters21578")
    assert splits.test is not None
    encoder = fitted("reuters21578")
    text = " ".join(splits.train.rows).lower()
    assert all(word in text for word in encoder.state()["words"])
    only_in_test = set(" ".join(splits.test.rows).lower().split()) - set(text.split())
    assert len(only_in_test) > 100
