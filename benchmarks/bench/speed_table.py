"""The paper's speed table: processor time of LaMP and RNN Seq2Seq on the same rows, and the operations behind it.

Measured are one epoch of training and the prediction of the test rows, on a sample that is scaled up: by the paper's
network, by lampnet's single network, and by the default as it ships, base learners and ensemble included. Seq2Seq is
trained until, on validation rows, beam search names as many labels as the rows have: its time depends on that number.
All have the same width and take turns, so that a busy machine slows all of them; the median of the turns counts.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.flops import forward_flops, seq2seq_flops
from lampnet.baselines.seq2seq import Seq2Seq
from lampnet.config import Config
from lampnet.encoders.nodes import NodeRows
from lampnet.errors import ConfigError
from lampnet.experiments.machine import machine, version
from lampnet.experiments.material import Material, open_material
from lampnet.experiments.paper_networks import DATASET_SETTINGS
from lampnet.experiments.protocol import WORDS_IN_ORDER, Log
from lampnet.experiments.result_files import SPEED_FILE, write_json
from lampnet.experiments.systems import SYSTEMS, lamp_settings
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_member
from lampnet.model.ensemble import Ensemble
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.model.label_graph import label_graph
from lampnet.model.stacked import StackedLaMP
from lampnet.pipeline.fit import fit
from lampnet.readers.sources import Source
from lampnet.training.trainer import Trainer

#: The data sets of the paper's table that lampnet can measure.
SPEED_DATASETS = ("bibtex", "reuters21578", "delicious", "sider")
SAMPLE = 320
TURNS = 3
BEAMS = 5
#: Rows from which Seq2Seq learns how many labels to name, for how many epochs: longer where that was too short.
DECODER_ROWS, DECODER_EPOCHS = 2000, (12, 40, 160)
#: How far the mean number of labels that it names may be from the true one.
OFF = 0.15
#: The labels that exchange messages where a shortlist is timed.
SHORTLIST = 40


@dataclass(eq=False)
class CountingDecoder(Seq2Seq):
    """Keeps the epoch whose label sets have, on average, the size of the true ones."""

    def _validation(self, X: NodeRows, Y: np.ndarray) -> float:
        return -abs(float(self.predict(X).sum()) - float(np.nansum(Y))) / max(1.0, float(np.nansum(Y)))


@dataclass(frozen=True)
class Rows:
    """Rows of one part with their labels, and how many times as many the whole part has."""

    nodes: NodeRows
    truth: np.ndarray
    scale: float

    @classmethod
    def of(cls, nodes: NodeRows, truth: np.ndarray, count: int, seed: int) -> Rows:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(nodes))[:count])
        return cls(nodes.take(chosen), truth[chosen], len(nodes) / len(chosen))


def measure(
    material: Material,
    *,
    sample: int = SAMPLE,
    turns: int = TURNS,
    decoder_rows: int = DECODER_ROWS,
    settings: Mapping[str, Any] | None = None,
    log: Log = lambda sentence: None,
) -> dict[str, Any]:
    """Processor minutes of one epoch and of the test rows, by system, and operations per test row."""
    config = SYSTEMS["lamp"].config(material.prior_graph, settings)
    train = material.part("train")
    n_labels, seed = len(train.label_names), material.seed
    config = config.resolved(train.kind, len(train), n_labels)
    still = {"training.epochs": 1, "training.patience": 0, "training.seed": seed, "training.keep_network": "always"}
    width = config.model.width
    paper = Config.preset("paper").updated(
        {"model.width": width, "model.heads": config.model.heads} | DATASET_SETTINGS.get(material.name, {}) | still
        | {k: v for k, v in lamp_settings(settings).items() if k == "training.threads"}
    )  # fmt: skip
    log(f"{material.name}: the default model, for its base learners")
    model = fit(material.labelled, config.updated(still), label_edges=material.edges)
    ensemble = model.trained_network()
    single = replace(model, network=Ensemble([ensemble.members[0]]))
    shortened = single.for_prediction(shortlist=SHORTLIST) if 0 < SHORTLIST < n_labels else None

    test = material.part("test")
    chosen = np.sort(np.random.default_rng(seed).permutation(len(test))[:sample])
    some = test.take(chosen)
    test_scale = len(test) / len(chosen)
    views = model.views(model.encoder.encode(some.rows, some.row_edges))

    in_order = material.nodes(Config.preset("fast").updated(WORDS_IN_ORDER))
    learn = Rows.of(in_order.train, material.truth["train"], sample, seed)
    check = Rows.of(in_order.valid, material.truth["valid"], sample, seed)
    asked = in_order.test.take(chosen)
    log(f"{material.name}: Seq2Seq learns how many labels to name")
    taught = Rows.of(in_order.train, material.truth["train"], decoder_rows, seed)
    decoder = _trained_decoder(in_order.encoder.embedding, config, seed, taught, check)

    own = material.nodes(paper)
    paper_rows = _examples(Rows.of(own.train, material.truth["train"], sample, seed))
    paper_test = Examples(nodes=own.test.take(chosen))
    graph = label_graph("full", n_labels)
    paper_network = build_member(paper, n_labels, own.encoder, graph)
    lampnet_rows = _with_base_logits(material, model, sample, seed)
    lampnet_network = build_member(model.config, n_labels, model.encoder, graph)

    def epoch_of(network: StackedLaMP, settings_of: Config, rows: Examples) -> Callable[[], object]:
        few = rows.take(np.arange(min(4, len(rows))))
        return lambda: Trainer(network, settings_of.training, rows, few).run()

    def predicted(fitted: FittedModel) -> Callable[[], object]:
        return lambda: fitted.logits_of(views)

    one_epoch = _decoder(in_order.encoder.embedding, config, seed, epochs=1)
    training: dict[str, Callable[[], object]] = {
        "seq2seq": lambda: one_epoch.fit(learn.nodes, learn.truth, check.nodes.take(_FEW), check.truth[_FEW]),
        "paper": epoch_of(paper_network, paper, paper_rows),
        "single": epoch_of(lampnet_network, config.updated(still), lampnet_rows),
    }
    testing: dict[str, Callable[[], object]] = {
        "seq2seq": lambda: decoder.predict(asked),
        "paper": lambda: predict_logits(laid_out(paper_network.eval(), paper_test.n_nodes()), paper_test),
        "single": predicted(single),
        "ensemble": predicted(model),
        "base_learners": lambda: replace(model, network_weight=0.0).logits(some.rows, some.row_edges),
        "default": lambda: model.logits(some.rows, some.row_edges),
    }
    if shortened is not None:
        testing["single_shortlist"] = predicted(shortened)
    log(f"{material.name}: timing")
    train_minutes = _medians(training, turns, learn.scale)
    test_minutes = _medians(testing, turns, test_scale)
    named, true = float(decoder.predict(check.nodes).sum(1).mean()), float(np.nansum(check.truth, axis=1).mean())
    steps = 1 + float(decoder.predict(asked).sum(1).mean())
    return {
        "rows_timed": {"train": len(learn.truth), "test": len(chosen)},
        "turns": turns,
        "width": width,
        "beams": BEAMS,
        "members": len(ensemble.members),
        "shortlist": SHORTLIST,
        "labels_named": round(named, 3),
        "labels_true": round(true, 3),
        "training_minutes": train_minutes,
        "testing_minutes": test_minutes,
        "operations": {
            "paper": forward_flops(paper.model, n_labels, _nodes_per_row(own.test)),
            "single": forward_flops(model.config.model, n_labels, _nodes_per_row(views[0].nodes)),
            "seq2seq": seq2seq_flops(width, n_labels, _nodes_per_row(in_order.test), BEAMS, steps),
        },
    }


_FEW = np.arange(2)


def _examples(rows: Rows) -> Examples:
    return Examples(nodes=rows.nodes, targets=rows.truth)


def _with_base_logits(material: Material, model: FittedModel, sample: int, seed: int) -> Examples:
    """Training rows for lampnet's network, with the base logits of the fitted learners."""
    train = material.part("train")
    chosen = np.sort(np.random.default_rng(seed).permutation(len(train))[:sample])
    some = train.take(chosen)
    return model.views(model.encoder.encode(some.rows, some.row_edges), material.truth["train"][chosen])[0]


def _decoder(embedding: Any, config: Config, seed: int, epochs: int) -> CountingDecoder:
    width, batch = config.model.width + config.model.width % 2, config.training.batch_size
    return CountingDecoder(
        embedding=embedding, width=width, batch_size=batch, beams=BEAMS, epochs=epochs, patience=epochs, seed=seed
    )


def _trained_decoder(embedding: Any, config: Config, seed: int, taught: Rows, check: Rows) -> CountingDecoder:
    """Seq2Seq that names about as many labels as the validation rows have."""
    for epochs in DECODER_EPOCHS:
        decoder = _decoder(embedding, config, seed, epochs)
        decoder.fit(taught.nodes, taught.truth, check.nodes, check.truth)
        off = max(epoch["validation"] for epoch in decoder.history_)
        if off >= -OFF:
            return decoder
    raise ConfigError(
        f"after {epochs} epochs Seq2Seq names {abs(off):.0%} too few or too many labels, on which its time depends"
    )


def _nodes_per_row(nodes: NodeRows) -> int:
    return max(1, round(float(nodes.lengths().mean())))


def _medians(work: Mapping[str, Callable[[], object]], turns: int, scale: float) -> dict[str, float]:
    """Minutes of each, scaled up; a first turn warms up."""
    clocks: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(turns + 1):
        for name, run in work.items():
            began = time.process_time()
            run()
            if turn:
                clocks[name].append(time.process_time() - began)
    return {name: round(statistics.median(seconds) * scale / 60, 5) for name, seconds in clocks.items()}


def measure_into(
    folder: Path,
    datasets: Sequence[str] = (),
    *,
    data_root: str | None = None,
    settings: Mapping[str, Any] | None = None,
    log: Log = lambda sentence: None,
) -> Path:
    """Measure the data sets (by default `SPEED_DATASETS`) into `speed.json`, after each of them; others stay in it."""
    path = folder / SPEED_FILE
    measured: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8"))["datasets"]) if path.is_file() else {}
    for name in datasets or SPEED_DATASETS:
        log(f"{name}: measuring")
        source = Source(data=name, root=data_root, on_bad_row="skip")
        measured[name] = measure(open_material(source), settings=settings, log=log)
        write_json(path, {"version": version(), "machine": machine(), "datasets": measured})
    return path
