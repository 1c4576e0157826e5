"""The paper's speed table: minutes per epoch of LaMP and RNN Seq2Seq, on the same rows and machine.

An epoch is measured on a sample of its rows and scaled up. The two take turns, so that a busy machine slows
both, and the median of the turns counts. Only the networks are timed: rows are encoded and base learners
fitted once, not in every epoch.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.base_learners.stacking_weights import StackingWeights
from lampnet.baselines.seq2seq import Seq2Seq
from lampnet.encoders.nodes import NodeRows
from lampnet.experiments.machine import machine, version
from lampnet.experiments.material import Material, open_material
from lampnet.experiments.protocol import Log
from lampnet.experiments.result_files import SPEED_FILE, write_json
from lampnet.experiments.systems import SYSTEMS
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits
from lampnet.model.build import build_member
from lampnet.model.label_graph import label_graph
from lampnet.readers.sources import Source
from lampnet.training.trainer import Trainer

#: The data sets of the paper's table that lampnet can measure.
SPEED_DATASETS = ("bibtex", "reuters21578", "delicious", "sider")
SAMPLE = 320
TURNS = 3
BEAMS = 5
#: An untrained decoder does not know when to stop, so it is trained this long before it is timed.
DECODER_EPOCHS = 40


def measure(
    material: Material,
    *,
    sample: int = SAMPLE,
    turns: int = TURNS,
    settings: Mapping[str, Any] | None = None,
    log: Log = lambda sentence: None,
) -> dict[str, Any]:
    """Minutes per epoch of training and of testing of both systems, and their ratios.

    Both have the width of LaMP's default settings and its batch size; `sample` rows are timed in each turn.
    """
    config = SYSTEMS["lamp"].config(material.prior_graph, settings)
    train = material.part("train")
    config = config.resolved(train.kind, len(train), len(train.label_names))
    config = replace(config, training=replace(config.training, epochs=1, patience=0, seed=material.seed))
    encoded = material.nodes(config)
    rng = np.random.default_rng(material.seed)
    parts = {}
    for name in ("train", "test"):
        nodes: NodeRows = getattr(encoded, name)
        chosen = np.sort(rng.permutation(len(nodes))[:sample])
        parts[name] = (nodes.take(chosen), material.truth[name][chosen])
    few = np.arange(min(4, len(parts["test"][0])))
    check = (parts["test"][0].take(few), parts["test"][1][few])
    labels = len(train.label_names)
    graph = label_graph(config.label_graph, labels, labels=train.labels, edges=material.edges)
    network = build_member(config, labels, encoded.encoder, graph)

    def examples(rows: tuple[NodeRows, np.ndarray]) -> Examples:
        # Random base logits: their values do not change the time.
        shape = (*rows[1].shape, len(config.model.base_learners))
        base_logits = rng.standard_normal(shape, dtype=np.float32) if config.model.base_learners else None
        weights = None if base_logits is None else StackingWeights.equal(*shape[1:])
        return Examples(nodes=rows[0], targets=rows[1], base_logits=base_logits, weights=weights)

    learn, valid, test = examples(parts["train"]), examples(check), examples(parts["test"])

    def decoder(epochs: int) -> Seq2Seq:
        made = Seq2Seq(
            embedding=encoded.encoder.embedding,
            width=config.model.width + config.model.width % 2,
            batch_size=config.training.batch_size,
            beams=BEAMS,
            epochs=epochs,
            seed=material.seed,
        )
        return made.fit(*parts["train"], *check)

    trained = decoder(DECODER_EPOCHS)
    clocks: dict[str, list[float]] = {name: [] for name in ("lamp_train", "rnn_train", "lamp_test", "rnn_test")}
    for turn in range(turns + 1):
        taken = {
            "lamp_train": _seconds(lambda: Trainer(network, config.training, learn, valid).run()),
            "rnn_train": _seconds(lambda: decoder(1)),
            "lamp_test": _seconds(lambda: predict_logits(network, test)),
            "rnn_test": _seconds(lambda: trained.predict(parts["test"][0])),
        }
        if turn:  # the first turn warms up
            for name, seconds in taken.items():
                clocks[name].append(seconds)
    scale = {name: len(getattr(encoded, name)) / len(parts[name][0]) / 60 for name in parts}
    minutes = {
        name: statistics.median(values) * scale["train" if name.endswith("train") else "test"]
        for name, values in clocks.items()
    }
    log(f"{material.name}: an epoch of training takes LaMP {minutes['lamp_train']:.3f} minutes")
    return {
        "rows_timed": {name: len(rows[0]) for name, rows in parts.items()},
        "turns": turns,
        "width": config.model.width,
        "batch_size": config.training.batch_size,
        "beams": BEAMS,
        "labels_named": round(float(trained.predict(parts["test"][0]).sum(axis=1).mean()), 3),
        "labels_true": round(float(np.nansum(parts["test"][1], axis=1).mean()), 3),
        "training_minutes_per_epoch": round(minutes["lamp_train"], 5),
        "testing_minutes_per_epoch": round(minutes["lamp_test"], 5),
        "seq2seq_training_minutes_per_epoch": round(minutes["rnn_train"], 5),
        "seq2seq_testing_minutes_per_epoch": round(minutes["rnn_test"], 5),
        "training_speedup_over_seq2seq": round(minutes["rnn_train"] / minutes["lamp_train"], 3),
        "testing_speedup_over_seq2seq": round(minutes["rnn_test"] / minutes["lamp_test"], 3),
    }


def measure_into(
    folder: Path,
    datasets: Sequence[str] = (),
    *,
    data_root: str | None = None,
    settings: Mapping[str, Any] | None = None,
    log: Log = lambda sentence: None,
) -> Path:
    """Measure the data sets (by default `SPEED_DATASETS`) and write `speed.json` in the folder."""
    measured: dict[str, Any] = {}
    for name in datasets or SPEED_DATASETS:
        log(f"{name}: measuring")
        measured[name] = measure(open_material(Source(data=name, root=data_root)), settings=settings, log=log)
    path = folder / SPEED_FILE
    write_json(path, {"version": version(), "machine": machine(), "datasets": measured})
    return path


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
