"""One code path for all systems: same rows, choices on validation rows only, limits that hold."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ConfigError, DataError
from lampnet.evaluation.choose_rules import PAPER_THRESHOLDS
from lampnet.evaluation.metrics import METRICS
from lampnet.experiments import protocol
from lampnet.experiments.compare import SCORES, compare, sentences, verdicts
from lampnet.experiments.machine import machine
from lampnet.experiments.material import Material, open_material
from lampnet.experiments.protocol import OWN_SETS, Run, run, score
from lampnet.experiments.systems import EVERYWHERE, SYSTEMS, chosen_systems, system
from lampnet.experiments.time_limit import OutOfTime, at_most

TINY = {
    "training.epochs": 2,
    "training.warmup_steps": 2,
    "model.width": 16,
    "model.heads": 2,
    "training.threads": 1,
    "mlp.width": 16,
    "mlp.epochs": 2,
    "spen.width": 16,
    "spen.epochs": 2,
    "dvn.width": 16,
    "dvn.epochs": 2,
    "gaml.width": 16,
    "gaml.epochs": 2,
    "seq2seq.width": 16,
    "seq2seq.epochs": 2,
    "forest.trees": 10,
    "rfmlc45.trees": 10,
    "fastxml.trees": 5,
    "ecc.chains": 2,
}
KEYS = {"paper", "best", "decisions", "thresholds", "oracle", "ranking", "validation", "minutes", "size", "config"}


def word_rows(n: int = 160, seed: int = 0) -> Dataset:
    """Label j comes with word j; label 3 is there when labels 0 and 1 are."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, 4)) < 0.4).astype(np.float32)
    Y[:, 3] = Y[:, 0] * Y[:, 1]
    words = rng.random((n, 12)) < 0.2
    words[:, :3] = Y[:, :3]
    words[:, 11] = True
    rows = sparse.csr_matrix(words.astype(np.float32))
    return Dataset(name="toy", kind="wordset", rows=rows, labels=sparse.csr_matrix(Y), label_names=tuple("abcd"))


@pytest.fixture(scope="module")
def material() -> Material:
    return Material("toy", Splits(train=word_rows()), seed=3)


@pytest.mark.parametrize("name", [n for n in EVERYWHERE if n not in ("lamp-paper-preset", "emb-fc", "fmp-el")])
def test_every_system_gives_a_whole_result(name: str, material: Material) -> None:
    result = run(name, material, settings=TINY)
    assert result["finished"]
    assert result.keys() >= KEYS
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    for group in ("paper", "best", "oracle"):
        assert set(result[group]) == set(METRICS)
        assert all(0 <= value <= 1 for value in result[group].values())
    assert all(value in PAPER_THRESHOLDS for value in result["thresholds"].values())
    # The oracle saw the test labels, so no honest threshold can be above it.
    assert all(result["oracle"][m] >= result["paper"][m] - 1e-9 for m in METRICS)
    assert result["size"]["weights"] > 0
    assert result["minutes"]["fit"] >= 0
    assert result["data"]["rows"] == {"train": 130, "valid": 14, "test": 16}
    assert result["seed"] == 3


def test_the_paper_preset_is_the_papers_network(material: Material) -> None:
    small = TINY | {"training.epochs": 1, "model.feature_steps": 1}
    config = run("lamp-paper-preset", material, settings=small)["config"]
    assert config["preset_name"] == "paper"
    assert config["model"]["readout"] == "tied"
    assert config["model"]["base_learners"] == []


def test_names_of_the_paper_mean_what_they_say() -> None:
    forms = {
        name: (c.label_graph, c.model.feature_steps)
        for name in SYSTEMS
        if name[:4] in ("emb-", "fmp-") and (c := SYSTEMS[name].config("tree"))
    }
    assert forms == {
        "emb-el": ("edgeless", 0), "emb-fc": ("full", 0), "emb-pr": ("tree", 0),
        "fmp-el": ("edgeless", 2), "fmp-fc": ("full", 2), "fmp-pr": ("tree", 2),
    }  # fmt: skip
    assert SYSTEMS["lamp-paper-form"].config("tree").model.base_learners == ()


def test_every_system_sees_the_same_rows_and_seeds_change_them() -> None:
    first, again, other = (Material("toy", Splits(train=word_rows()), seed=s) for s in (0, 0, 1))
    for part in ("train", "valid", "test"):
        assert (first.part(part).rows != again.part(part).rows).nnz == 0
    assert (first.part("test").rows != other.part("test").rows).nnz > 0


def test_given_test_rows_stay_the_test_rows() -> None:
    material = Material("toy", Splits(train=word_rows(), test=word_rows(20, seed=9)), seed=1)
    assert material.metadata()["rows"] == {"train": 144, "valid": 16, "test": 20}


def test_test_labels_decide_nothing_but_the_oracle() -> None:
    rng = np.random.default_rng(0)
    valid_truth = (rng.random((60, 5)) < 0.4).astype(np.float32)
    test_truth = (rng.random((60, 5)) < 0.4).astype(np.float32)

    def proba(truth: np.ndarray) -> np.ndarray:
        return np.clip(0.5 * truth + 0.6 * rng.random(truth.shape), 0, 1)

    done = Run(proba(valid_truth), valid_truth, proba(test_truth), 0, 0, 1, 4, {})
    honest = score(test_truth, done, seed=0)
    turned = score(1 - test_truth, done, seed=0)
    assert honest["thresholds"] == turned["thresholds"]
    assert honest["decisions"] == turned["decisions"]
    assert honest["validation"] == turned["validation"]
    assert honest["oracle"] != turned["oracle"]


def test_own_label_sets_are_used_where_validation_prefers_them() -> None:
    rng = np.random.default_rng(1)
    truth = (rng.random((40, 4)) < 0.5).astype(np.float32)
    noise = rng.random(truth.shape)
    done = Run(noise, truth, noise, 0, 0, 1, 4, {}, valid_sets=truth == 1, test_sets=truth == 1)
    scores = score(truth, done, seed=0)
    assert set(scores["decisions"].values()) == {OWN_SETS}
    assert scores["best"]["subset_accuracy"] == 1
    sure = truth.astype(float)
    worse = Run(sure, truth, sure, 0, 0, 1, 4, {}, valid_sets=noise > 2, test_sets=noise > 2)
    assert OWN_SETS not in score(truth, worse, seed=0)["decisions"].values()


def test_a_method_that_takes_too_long_is_recorded_as_such(material: Material, monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        def fit(self, *rows: object) -> None:
            threading.Event().wait()

    monkeypatch.setattr(protocol, "baseline", lambda name, **settings: Endless())
    result = run("chain", material, time_budget=0.05)
    assert result["finished"] is False
    assert result["status"] == "did not finish in 0.05 seconds"
    assert "paper" not in result


def test_the_limit_is_lifted_after_the_block() -> None:
    with at_most(30):
        pass
    with pytest.raises(OutOfTime), at_most(0.01):
        threading.Event().wait()
    with at_most(0):
        assert threading.Event().wait(0.02) is False


def test_unknown_names_and_settings_are_refused_before_anything_runs(material: Material) -> None:
    with pytest.raises(ConfigError, match="did you mean 'logistic'"):
        system("logistc")
    ran: list[str] = []
    for wrong in ({"model.widht": 3}, {"forest.treees": 3}, {"fores.trees": 3}):
        with pytest.raises(ConfigError, match=r"did you mean|known:"):
            compare(material, ["constant", "forest", "lamp"], settings=wrong, log=ran.append)
    assert not ran
    with pytest.raises(DataError, match="called 'digitz'"):
        open_material("digitz")


def test_the_machine_is_described_without_naming_it() -> None:
    import getpass
    import platform

    described = json.dumps(machine())
    assert set(machine()) == {"cpu", "cores", "threads", "python", "torch"}
    assert not platform.node() or platform.node() not in described
    assert getpass.getuser() not in described.lower().split()


def row(name: str, scores: float, **changes: float) -> dict[str, object]:
    values = dict.fromkeys(SCORES, scores) | changes
    groups = {"best": {m: values[m] for m in METRICS}, "ranking": {m: values[m] for m in SCORES if m not in METRICS}}
    return {"system": name, "title": SYSTEMS[name].title, "finished": True, **groups}


def test_verdicts_say_plainly_where_lamp_is_not_the_best() -> None:
    results = [row("logistic", 0.5, macro_f1=0.7), row("lamp", 0.6), row("emb-fc", 0.55, hamming_accuracy=0.9)]
    found = verdicts(results)
    assert found["macro_f1"]["best"] == "logistic"
    assert found["macro_f1"]["margin"] == pytest.approx(-0.1)
    assert found["hamming_accuracy"]["lamp"] == "emb-fc"
    logged = sentences(results)
    assert [s for s in logged if "NOT" in s] == [
        "LaMP is NOT the best choice for macro-F1: one-vs-rest logistic regression reaches 0.700, LaMP 0.600 (-0.100)."
    ]
    assert "example-F1" in logged[0]
    assert "macro-F1" not in logged[0]


def test_no_winner_is_named_where_intervals_overlap() -> None:
    spread = {name: [0.5, 0.65] for name in METRICS}
    data = {"data": {"rows": {"test": 400}}}
    logistic = row("logistic", 0.58, macro_f1=0.3) | {"intervals": {"best": spread | {"macro_f1": [0.25, 0.35]}}} | data
    lamp = row("lamp", 0.6) | {"intervals": {"best": spread}} | data
    found = verdicts([logistic, lamp])
    assert {name for name, verdict in found.items() if verdict["clear"]} == {"macro_f1"}
    logged = sentences([logistic, lamp])
    assert logged[0] == "LaMP is the best choice for macro-F1."
    assert logged[1].startswith(
        "No clear winner for example-F1, micro-F1, subset accuracy, Hamming accuracy, macro ROC"
    )
    assert not any("NOT" in sentence for sentence in logged)


def test_a_verdict_without_lamp() -> None:
    data = {"data": {"rows": {"test": 400}}}
    results = [row("logistic", 0.6, macro_f1=0.3) | data, row("svm", 0.5, macro_f1=0.5, micro_f1=0.59) | data]
    found = verdicts(results)
    assert found["macro_f1"]["second"] == "logistic"
    assert found["macro_f1"]["lead"] == pytest.approx(0.2)
    logged = sentences(results)
    assert logged[0].startswith("The best choice for example-F1, subset accuracy,")
    assert logged[0].endswith("is one-vs-rest logistic regression.")
    assert logged[1] == f"The best choice for macro-F1 is {SYSTEMS['svm'].title}."
    assert logged[2].startswith("No clear winner for micro-F1: the best two differ")
    assert logged[3].startswith("One run on 400 test rows")
    assert sentences(results[:1]) == []


def test_comparison_of_unfinished_methods_only() -> None:
    late = {"system": "chain", "title": "chain", "finished": False, "status": "did not finish in 5 minutes"}
    assert verdicts([late]) == {}
    assert sentences([late]) == ["chain did not finish in 5 minutes."]


def test_systems_are_taken_once_in_order() -> None:
    assert [s.name for s in chosen_systems(["svm,constant", "svm"])] == ["svm", "constant"]


@pytest.mark.parametrize(("name", "nodes"), [("seq2seq", "sequence"), ("mlp", "set")])
def test_only_a_method_that_reads_in_order_gets_words_in_order(name: str, nodes: str) -> None:
    texts = ["red fox red sea", "blue sea", "red sky", "blue fox sky"] * 10
    labels = sparse.csr_matrix([[1.0, 0], [0, 1], [1, 0], [0, 1]] * 10)
    data = Dataset(name="texts", kind="text", rows=texts, labels=labels, label_names=("a", "b"))
    material = Material("texts", Splits(train=data), seed=0)
    assert len(run(name, material, settings=TINY)["history"]) == 2
    ((_, config),) = material._encoded
    assert config.text_nodes == nodes
