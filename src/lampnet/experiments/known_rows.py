"""The rows of the comparison on known labels: features, labels and the stack's logits, the same for every system.

Base learners take most of the time of a small experiment and give the same logits every time, so the logits of a data
set and seed are kept in a file, and all systems start from them.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import logit

from lampnet.base_learners.protocol import Features
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.experiments.material import Material
from lampnet.pipeline.fit import fit, resolve
from lampnet.pipeline.plan import ensemble_folds
from lampnet.runtime.atomic_files import write_atomically

#: labelled and test rows at most; of larger data sets a random sample
MOST_LABELLED, MOST_TEST = 5_000, 1_000
#: the base learners alone: what every system starts from
SETTINGS = {"training.threads": 1, "known.method": "none"}
LEAST_PROBA = 1e-5


@dataclass(frozen=True)
class KnownRows:
    """Labelled rows and test rows of one data set and seed.

    X, X_test            features of the base learners, dense or CSR
    Y, Y_test            labels (n, L), NaN where unknown
    logits, logits_test  of the stack, nothing known; of labelled rows out-of-fold
    """

    X: Features
    Y: np.ndarray
    logits: np.ndarray
    X_test: Features
    Y_test: np.ndarray
    logits_test: np.ndarray

    def metadata(self) -> dict[str, int]:
        return {"labelled": len(self.Y), "test": len(self.Y_test), "labels": self.Y.shape[1]}


def known_rows(path: Path, open_data: Callable[[], Material], seed: int) -> KnownRows:
    """What the file holds, or made and stored there; a file of other settings or a damaged one is replaced."""
    config = Config.preset("quick").updated(SETTINGS | {"training.seed": seed})
    settings = {name: value for name, value in config.to_json().items() if name != "known"}
    identity = json.dumps([settings, MOST_LABELLED, MOST_TEST, seed])
    found = _read(path, identity)
    if found is None:
        found = make_known_rows(open_data(), config, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, found, identity)
    return found


def make_known_rows(material: Material, config: Config, seed: int) -> KnownRows:
    """Fit the base learners on the labelled rows; validation rows of the publisher are not used."""
    train = sample(material.labelled.merged_back().train, MOST_LABELLED, seed)
    test = sample(material.part("test"), MOST_TEST, seed)
    splits, settings = resolve(Splits(train=train), config)
    model = fit(splits, settings)
    assert model.valid_truth is not None
    assert model.valid_proba is not None
    # A fit holds its rows fold after fold; here they are in the order in which they came.
    order = np.argsort(ensemble_folds(splits, settings), kind="stable")
    proba = np.empty_like(model.valid_proba)
    proba[order] = model.valid_proba
    Y = train.indicator()
    assert np.array_equal(Y[order], model.valid_truth, equal_nan=True)

    def features(data: Dataset) -> Features:
        return model.encoder.encode(data.rows, data.row_edges).features

    return KnownRows(
        X=features(train),
        Y=Y,
        logits=logit(np.clip(proba, LEAST_PROBA, 1 - LEAST_PROBA)).astype(np.float32),
        X_test=features(test),
        Y_test=test.indicator(),
        logits_test=model.logits(test.rows, test.row_edges).astype(np.float32),
    )


def sample(data: Dataset, most: int, seed: int) -> Dataset:
    """At most `most` of the rows, sampled with the seed, in their order."""
    if len(data) <= most:
        return data
    return data.take(np.sort(np.random.default_rng(seed).permutation(len(data))[:most]))


def _write(path: Path, rows: KnownRows, identity: str) -> None:
    arrays: dict[str, Any] = {"identity": np.array(identity)}
    for name, value in vars(rows).items():
        if sparse.issparse(value):
            held = sparse.csr_matrix(value)
            arrays |= {f"{name}.{part}": getattr(held, part) for part in ("data", "indices", "indptr")}
            arrays[f"{name}.shape"] = np.array(held.shape)
        else:
            arrays[name] = np.asarray(value)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def _read(path: Path, identity: str) -> KnownRows | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        if str(arrays["identity"]) != identity:
            return None
        return KnownRows(**{name: _array(arrays, name) for name in KnownRows.__dataclass_fields__})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):  # not there, or damaged
        return None


def _array(arrays: dict[str, np.ndarray], name: str) -> Any:
    if name in arrays:
        return arrays[name]
    parts = [arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")]
    return sparse.csr_matrix(tuple(parts), shape=tuple(arrays[f"{name}.shape"]))
