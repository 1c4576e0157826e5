"""Rows of several parts on the publishers' files: columns split, texts cut apart, descriptors beside a structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lampnet import LaMPClassifier
from lampnet.data.splits import Splits

Load = Callable[[str], Splits]
Columns = dict[str, Any]


def scores(train: Columns, Y: np.ndarray, test: Columns, truth: np.ndarray, roles: dict[str, Any]) -> dict[str, float]:
    """Mean of micro- and example-F1 with all parts, and with the columns of each role alone."""

    def score(names: list[str], own: dict[str, Any]) -> float:
        model = LaMPClassifier(preset="quick", base_learners=["linear"], n_jobs=1, columns=own)
        model.fit({name: train[name] for name in names}, Y)
        rows = {name: test[name] for name in names}
        return float(np.mean([model.set_params(metric=m).score(rows, truth) for m in ("example_f1", "micro_f1")]))

    alone = {role: score([names] if isinstance(names, str) else names, {role: names}) for role, names in roles.items()}
    return {"all": score(list(train), roles)} | alone


def test_half_of_scenes_columns_beside_the_other_half_as_words(splits: Load) -> None:
    found: list[Any] = []
    parts = splits("scene")
    for part in (parts.train, parts.test):
        assert part is not None
        values = np.asarray(getattr(part.rows, "values", part.rows), dtype=np.float64)
        half = values.shape[1] // 2
        columns: Columns = {f"n{j}": values[:, j] for j in range(half)}
        columns["words"] = [[f"w{j}" for j in np.flatnonzero(row > 0.6)] for row in values[:, half:]]
        found += [columns, part.indicator()]
    numbers = [name for name in found[0] if name != "words"]
    score = scores(*found, {"number": numbers, "words": "words"})
    assert score["all"] > max(score["number"], score["words"]) + 0.02, score


def test_titles_beside_bodies_of_reuters(splits: Load) -> None:
    parts = splits("reuters21578")
    assert parts.test is not None
    train, test = parts.train.take(np.arange(0, len(parts.train), 5)), parts.test.take(np.arange(0, len(parts.test), 5))
    often = train.indicator().sum(axis=0) >= 10
    found: list[Any] = []
    for part in (train, test):
        cut = [text.partition("\n") for text in part.rows]
        found += [{"title": [head for head, _, _ in cut], "body": [body for _, _, body in cut]}]
        found += [part.indicator()[:, often]]
    both = LaMPClassifier(preset="quick", base_learners=["linear"], n_jobs=1, columns={"text": ["title", "body"]})
    score = both.fit(found[0], found[1]).score(found[2], found[3])
    for name in ("title", "body"):
        one = LaMPClassifier(preset="quick", base_learners=["linear"], n_jobs=1)
        assert score > one.fit(found[0][name], found[1]).score(found[2][name], found[3]) + 0.01
    named = both.explain({name: column[:1] for name, column in found[2].items()})[0]
    linear = next(one for one in named.logit_sums[0].contributions if one.source == "linear")
    assert {term.part for term in linear.terms} <= {"title", "body"}


def test_descriptors_beside_the_smiles_of_sider(splits: Load) -> None:
    pytest.importorskip("rdkit")
    from rdkit import Chem
    from rdkit.Chem import Descriptors

    parts = splits("sider")
    assert parts.test is not None
    found: list[Any] = []
    for part in (parts.train.take(np.arange(0, len(parts.train), 2)), parts.test):
        smiles = list(part.rows)
        molecules = [Chem.MolFromSmiles(one) for one in smiles]
        columns: Columns = {"smiles": smiles}
        for name in ("MolWt", "TPSA", "MolLogP", "NumRotatableBonds"):
            of = getattr(Descriptors, name)
            columns[name] = np.array([np.nan if one is None else of(one) for one in molecules])
        found += [columns, part.indicator()]
    numbers = [name for name in found[0] if name != "smiles"]
    score = scores(*found, {"smiles": "smiles", "number": numbers})
    assert score["all"] > score["number"], score
    assert score["all"] > score["smiles"] - 0.01, score  # its features hold such descriptors already
