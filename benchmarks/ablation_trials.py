"""What single pieces are worth out-of-fold, on labelled rows alone: test rows are never opened here.

    python benchmarks/ablation_trials.py --data-root DIR [KIND ...]

Each KIND compares ways of doing one thing, over three seeds that divide the rows into folds anew. Decision rules are
chosen on one half of the rows and scored on the other, both ways. Writes results/ablations/trials/KIND--DATASET.json
after each seed; existing ones are kept. `benchmarks/ablations.py --page-only` writes the page.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.special import expit

from lampnet.base_learners.stack import LEARNERS
from lampnet.base_learners.stacking_weights import choose_pull, entry_losses, fit_weights
from lampnet.config import Config, base_learners_for
from lampnet.data.splits import fold_numbers, parts_of
from lampnet.evaluation import choose_rules
from lampnet.experiments.material import open_material
from lampnet.experiments.result_files import write_json
from lampnet.readers.sources import Source
from trials import Rows, changed, scores_of, stacked

FOLDER = Path(__file__).parents[1] / "results" / "ablations" / "trials"
SEEDS = 3
FOLDS = 5
#: what one seed found: for each way, its scores and what else is known of it
Found = dict[str, dict[str, Any]]


def scored(Y: np.ndarray, logits: np.ndarray, seed: int, minutes: float | None = None) -> dict[str, Any]:
    """Scores out-of-fold, and the mean log-loss of an entry."""
    loss = float(entry_losses(logits.astype(np.float32), Y).sum() / (~np.isnan(Y)).sum())
    found = {"scores": scores_of(Y, expit(logits), seed=99 + seed), "log_loss": round(loss, 6)}
    return found if minutes is None else found | {"processor_minutes": round(minutes, 3)}


def stacking(name: str, seed: int) -> Found:
    """One weight per base learner that all labels share, and weights per label where held-out rows are for it."""
    rows, G_nLK = base_logits(name, seed)
    Y, fold_n = rows.Y, fold_numbers(len(rows.Y), FOLDS, seed)
    logits = {way: np.zeros(Y.shape, dtype=np.float32) for way in ("shared", "chosen", "per label")}
    pulls = []
    for rest, own in parts_of(fold_n):
        # The pull is chosen without the fold that it is scored on.
        pulls.append(choose_pull(G_nLK[rest], Y[rest], fold_n[rest]))
        for way, pull in (("shared", np.inf), ("chosen", pulls[-1]), ("per label", 30.0)):
            logits[way][own] = fit_weights(G_nLK[rest], Y[rest], pull).stacked(G_nLK[own])
    found = {way: scored(Y, own, seed) for way, own in logits.items()}
    found["chosen"]["folds_with_weights_per_label"] = sum(bool(np.isfinite(pull)) for pull in pulls)
    return found


def at_least_one(name: str, seed: int) -> Found:
    """Per-label thresholds that may leave a row without a label, and the choice between both."""
    rows, G_nLK = base_logits(name, seed)
    logits = stacked([G_nLK[..., k] for k in range(G_nLK.shape[-1])], rows.Y)
    found = {}
    for way, least in (("may be empty", (0,)), ("chosen", (0, 1))):
        with changed(choose_rules, _LEAST_LABELS=least):
            found[way] = scored(rows.Y, logits, seed)
    return found


_KNOWN: dict[tuple[str, int], tuple[Rows, np.ndarray]] = {}


def base_logits(name: str, seed: int) -> tuple[Rows, np.ndarray]:
    """Centred out-of-fold logits (n, L, K) of the quick base learners that suit the data."""
    if (name, seed) not in _KNOWN:
        rows = next((rows for (known, _), (rows, _) in _KNOWN.items() if known == name), None) or Rows(name)
        names = base_learners_for(rows.train.kind, *rows.Y.shape, None)
        columns = [LEARNERS[learner]().fit(rows.X, rows.Y, seed, rows.fold_n) for learner in names]
        _KNOWN[name, seed] = rows, np.stack([own - own.mean(axis=0) for own in columns], axis=-1)
    return _KNOWN[name, seed]


#: ways of training the network, each in settings of its own
NETWORKS: dict[str, dict[str, Any]] = {
    "default": {},
    "T = 1": {"model.steps": 1},
    "batches of 128 rows": {"training.batch_size": 128},
    "batches of 128 rows, learning rate doubled": {"training.batch_size": 128, "training.learning_rate": 2e-3},
}
#: the last epochs whose predictions are averaged
SNAPSHOTS = 3


def networks(name: str, seed: int) -> Found:
    """Networks on the same base learners, kept in any case, and the stack without one."""
    from lampnet.model.label_graph import label_graph
    from lampnet.pipeline import members
    from lampnet.pipeline.control import Control, FitRun
    from lampnet.pipeline.fit import resolve
    from lampnet.pipeline.plan import cross_fitted
    from lampnet.runtime.budget import Budget

    splits = open_material(Source(data=name, on_bad_row="skip"), seed).labelled
    asked = Config.preset("fast").updated({"training.seed": seed, "training.folds": FOLDS, "training.threads": 1})
    splits, config = resolve(splits, asked)
    found: Found = {}
    with Control(FitRun(), Budget(0.0)) as control:
        plan = cross_fitted(splits, config, control)
        assert plan.stack is not None
        config = replace(config, model=replace(config.model, base_learners=plan.stack.names))
        truth = np.concatenate([fold.valid[0].all_targets() for fold in plan.folds])
        held_out = [fold.valid[0].stacked() for fold in plan.folds]
        found["no network"] = scored(truth, np.concatenate([own for own in held_out if own is not None]), seed)
        graph = label_graph(config.label_graph, len(plan.label_names), labels=plan.labels)
        for way, settings in NETWORKS.items():
            began = time.process_time()
            own = resolve(splits, asked.updated({"training.keep_network": "always", **settings}))[1]
            own = replace(own, model=replace(own.model, base_learners=config.model.base_learners))
            snapshots: dict[int, list[np.ndarray]] = {}
            with mock.patch.object(members, "Trainer", keeping(snapshots)):
                trained = members.train_members(plan, own, graph, control, 0.0)
            minutes = (time.process_time() - began) / 60
            found[way] = scored(truth, np.concatenate([member.held_out_logits for member in trained]), seed, minutes)
            if way == "default":
                means = [np.mean(snapshots[number][-SNAPSHOTS:], axis=0) for number in sorted(snapshots)]
                found["the last three epochs averaged"] = scored(truth, np.concatenate(means), seed, minutes)
    return found


def keeping(snapshots: dict[int, list[np.ndarray]]) -> type:
    """A trainer that keeps each epoch's logits of the held-out rows under its network's number."""
    from lampnet.inference.logits import predict_logits, probabilities
    from lampnet.model.kernels.prediction_layout import laid_out
    from lampnet.training.trainer import Trainer

    class Keeping(Trainer):
        def _validate(self) -> dict[str, float]:
            live = [p.detach().clone() for p in self.parameters]
            self._use(self._evaluated())
            self.model.eval()
            logits = predict_logits(laid_out(self.model, self.valid.n_nodes()), self.valid)
            self._use(live)
            snapshots.setdefault(self.progress.network, []).append(logits)
            return self._scores(probabilities(logits))

    return Keeping


def boosters(name: str, seed: int) -> Found:
    """Boosted trees of three libraries in the place of lampnet's: alone, beside the others, and what they cost.

    Fold by fold, each library fits in turn, so that all meet the same machine; rounds end early on the held-out fold.
    The last fit is on all rows with the median number of rounds, as a base learner needs it.
    """
    import trial_features

    rows = Rows(name)
    X, Y = np.asarray(rows.X, dtype=np.float32), rows.Y
    fold_n = fold_numbers(len(Y), FOLDS, seed)
    others = [rows.base_logits(learner) for learner in ("linear", "knn", "forest")]
    makers = trial_features.boosters(seed)
    logits = {way: np.zeros(Y.shape, dtype=np.float32) for way in makers}
    seconds, rounds = dict.fromkeys(makers, 0.0), {way: [] for way in makers}
    for rest, own in parts_of(fold_n):
        for way, fit in makers.items():
            began = time.process_time()
            predict, count = fit(X[rest], Y[rest], (X[own], Y[own]), None)
            seconds[way] += time.process_time() - began
            logits[way][own] = predict(X[own])
            rounds[way].append(count)
    for way, fit in makers.items():
        began = time.process_time()
        fit(X, Y, None, int(np.median(rounds[way])))
        seconds[way] += time.process_time() - began
    began = time.process_time()
    ours = LEARNERS["boosted"]().fit(X, Y, seed, fold_n)
    seconds["lampnet"], logits["lampnet"] = time.process_time() - began, ours
    found = {"linear, kNN and forest": scored(Y, stacked(others, Y), seed)}
    for way, own in logits.items():
        found[f"{way} alone"] = scored(Y, own, seed, seconds[way] / 60)
        found[f"linear, kNN, forest and {way}"] = scored(Y, stacked([*others, own], Y), seed)
    return found


def names(name: str, seed: int) -> Found:
    """Label vectors that start from the training rows, from the labels' names, and from both; the encoder's tokens are
    the nodes, and the names are a base learner in all. The first two of five folds are trained.
    """

    from lampnet.model import initialise
    from lampnet.model.label_graph import label_graph
    from lampnet.pipeline import members
    from lampnet.pipeline.control import Control, FitRun
    from lampnet.pipeline.fit import resolve
    from lampnet.pipeline.plan import cross_fitted, label_texts
    from lampnet.runtime.budget import Budget

    settings = {"input.pretrained": "auto", "input.pretrained_use": "tokens", "training.keep_network": "always"}
    settings |= {"training.threads": 1}
    asked = Config.preset("fast").updated({"training.seed": seed, "training.folds": FOLDS, **settings})
    splits, config = resolve(open_material(Source(data=name, on_bad_row="skip"), seed).labelled, asked)
    found: Found = {}
    with Control(FitRun(), Budget(0.0)) as control:
        plan = cross_fitted(splits, config, control)
        plan = replace(plan, folds=plan.folds[:2])
        truth = np.concatenate([fold.valid[0].all_targets() for fold in plan.folds])
        stacks = [fold.valid[0].stacked() for fold in plan.folds]
        found["no network"] = scored(truth, np.concatenate([own for own in stacks if own is not None]), seed)
        graph = label_graph(config.label_graph, len(plan.label_names), labels=plan.labels)
        named = plan.encoder.encode(label_texts(splits.train)).nodes
        for way, rows_of_name in (("rows", 0.0), ("names", np.inf), ("rows and names", 50.0)):
            began = time.process_time()
            with mock.patch.object(initialise, "_label_vectors", from_names(named, rows_of_name)):
                trained = members.train_members(plan, config, graph, control, 0.0)
            minutes = (time.process_time() - began) / 60
            logits = np.concatenate([member.held_out_logits for member in trained])
            found[way] = scored(truth, logits, seed, minutes)
    return found


def int8(name: str, seed: int) -> Found:
    """The text encoder in float32, and its linear layers in int8 (torch's dynamic quantisation)."""
    import torch
    from torch.ao import quantization

    from lampnet.encoders import make_encoder
    from lampnet.encoders.pooled import PooledEncoder

    rows = Rows(name)
    texts = list(rows.train.rows)
    read = Config.preset("fast").updated({"input.pretrained": "auto", "input.pretrained_use": "pooled"}).input
    encoder = make_encoder("text", read).fit(texts)
    assert isinstance(encoder, PooledEncoder)
    encoder.pooled(texts[:64])
    transformer = encoder._frozen()
    per_row = {torch.nn.Linear: quantization.per_channel_dynamic_qconfig}
    small = quantization.quantize_dynamic(transformer, per_row, dtype=torch.qint8)
    words = [LEARNERS[learner]().fit(rows.X, rows.Y, seed) for learner in ("linear", "knn")]
    found: Found = {"no encoder": scored(rows.Y, stacked(words, rows.Y), seed)}
    states = {}
    for way, network in (("float32", transformer), ("int8", small)):
        began = time.process_time()
        with mock.patch.object(encoder, "_frozen", lambda network=network: network):
            states[way] = encoder.pooled(texts)
        seconds = time.process_time() - began
        own = [
            LEARNERS[learner]().fit(states[way], rows.Y, seed) for learner in ("pretrained_linear", "pretrained_knn")
        ]
        found[way] = scored(rows.Y, stacked([*words, *own], rows.Y), seed)
        found[way]["milliseconds_per_text"] = round(1000 * seconds / len(texts), 2)
        found[way]["cosine"] = round(float((states[way] * states["float32"]).sum(axis=1).mean()), 4)
    return found


def from_names(named: Any, rows_of_name: float) -> Callable[..., Any]:
    """`_label_vectors` in which a label's name counts as so many of its rows."""
    import torch

    from lampnet.model.initialise import mean_nodes

    def label_vectors(network: Any, nodes: Any, Y_nL: np.ndarray) -> Any:
        unit = torch.nn.functional.normalize
        mean_nD, name_LD = mean_nodes(network.embedding, nodes), mean_nodes(network.embedding, named)
        mean_nD = unit(mean_nD - mean_nD.mean(0), dim=1)
        name_LD = unit(name_LD - name_LD.mean(0), dim=1)
        positive = torch.from_numpy((np.nan_to_num(Y_nL) > 0).astype(np.float32))
        count_L1 = positive.sum(0)[:, None]
        centroid = positive.T @ mean_nD / count_L1.clamp(min=1)
        centroid = centroid - centroid.mean(0)
        share = 1.0 if np.isinf(rows_of_name) else rows_of_name / (rows_of_name + count_L1)
        mixed = (1 - share) * unit(centroid, dim=1) + share * name_LD
        length = network.config.width ** (0.5 if network.config.label_vectors == "unit" else -0.5)
        return unit(mixed, dim=1) * length

    return label_vectors


KINDS: dict[str, tuple[Callable[[str, int], Found], tuple[str, ...]]] = {
    "stacking": (stacking, ("emotions", "scene", "mediamill", "sider", "bibtex")),
    "at_least_one": (at_least_one, ("emotions", "scene", "mediamill", "sider", "bibtex")),
    "networks": (networks, ("emotions", "scene")),
    "boosters": (boosters, ("emotions", "scene")),
    "names": (names, ("goemotions-sample",)),
    "int8": (int8, ("goemotions-sample",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", help=f"any of {', '.join(KINDS)}")
    parser.add_argument("--dataset", action="append")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--data-root", default=os.environ.get("LAMPNET_DATA"))
    given = parser.parse_args()
    if given.data_root:
        os.environ["LAMPNET_DATA"] = given.data_root
    FOLDER.mkdir(parents=True, exist_ok=True)
    for kind in given.kind or KINDS:
        measure, datasets = KINDS[kind]
        for dataset in given.dataset or datasets:
            path = FOLDER / f"{kind}--{dataset}.json"
            done = json.loads(path.read_text()) if path.exists() else {"kind": kind, "dataset": dataset, "seeds": {}}
            for seed in range(given.seeds):
                if str(seed) in done["seeds"]:
                    continue
                done["seeds"][str(seed)] = measure(dataset, seed)
                write_json(path, done)
                print(kind, dataset, seed, json.dumps(done["seeds"][str(seed)]), flush=True)


if __name__ == "__main__":
    main()
