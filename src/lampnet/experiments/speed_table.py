"""The paper's speed table: minutes an epoch takes LaMP and RNN Seq2Seq, on the same rows and machine.

An epoch is measured on a sample of its rows and scaled up. The two take turns, so that a busy machine slows
both, and the median of the turns counts. Only the networks are timed: encoding the rows and LaMP's first
opinions happen once, not every epoch.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.baselines.seq2seq import Seq2Seq
from lampnet.encoders.nodes import NodeRows
from lampnet.experiments.machine import machine, version
from lampnet.experiments.material import Material, open_material
from lampnet.experiments.paper_tables import DATASETS, paper_speed
from lampnet.experiments.protocol import Say
from lampnet.experiments.result_files import SPEED_FILE, table, write_whole
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
#: A decoder that has learned nothing does not know when to stop, so it is trained this long before it is timed.
DECODER_EPOCHS = 40


def measure(
    material: Material,
    *,
    sample: int = SAMPLE,
    turns: int = TURNS,
    settings: Mapping[str, Any] | None = None,
    say: Say = lambda sentence: None,
) -> dict[str, Any]:
    """Minutes an epoch of training and of testing takes both systems, and their ratios.

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
    labels = material.truth["train"].shape[1]
    graph = label_graph(config.label_graph, labels, labels=material.part("train").labels, edges=material.edges)
    network = build_member(config, labels, encoded.encoder, graph)

    def examples(rows: tuple[NodeRows, np.ndarray]) -> Examples:
        # What the opinions say does not change how long it takes.
        shape = (*rows[1].shape, len(config.model.base_learners))
        opinions = rng.standard_normal(shape, dtype=np.float32) if config.model.base_learners else None
        return Examples(nodes=rows[0], targets=rows[1], base_logits=opinions)

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
    say(f"{material.name}: an epoch of training takes LaMP {minutes['lamp_train']:.3f} minutes")
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
    say: Say = lambda sentence: None,
    **measuring: Any,
) -> Path:
    """Measure the data sets (by default `SPEED_DATASETS`) and write `speed.json` in the folder."""
    measured: dict[str, Any] = {}
    for name in datasets or SPEED_DATASETS:
        say(f"{name}: measuring")
        material = open_material(Source(data=name, root=data_root))
        measured[name] = measure(material, settings=settings, say=say, **measuring)
    path = folder / SPEED_FILE
    whole = {"version": version(), "machine": machine(), "datasets": measured}
    write_whole(path, json.dumps(whole, indent=1) + "\n")
    return path


def speed_section(speed: Mapping[str, Any]) -> str:
    """The table as Markdown, the paper's figures beside the measured ones."""
    rows = []
    for name, own in speed["datasets"].items():
        theirs = paper_speed(name) if name in DATASETS else {}
        rows.append(
            [
                DATASETS.get(name, name),
                *(
                    cell
                    for part in ("training", "testing")
                    for cell in (
                        f"{own[f'{part}_minutes_per_epoch']:.3f}",
                        f"{own[f'seq2seq_{part}_minutes_per_epoch']:.3f}",
                        f"{own[f'{part}_speedup_over_seq2seq']:.1f}x",
                        f"{theirs[f'{part}_speedup_over_seq2seq']:.1f}x" if theirs else "–",
                    )
                ),
            ]
        )
    headings = ["data"]
    for part in ("train", "test"):
        headings += [f"{part}: LaMP, min", "Seq2Seq, min", "ratio", "paper's ratio"]
    averages = {part: _mean_ratio(speed["datasets"].values(), part) for part in ("training", "testing")}
    where = speed["machine"]
    text = (
        f"Minutes an epoch takes (measured on samples and scaled up), LaMP with lampnet's default settings and RNN "
        f"Seq2Seq of the same width with beam {BEAMS}, taking turns on {where['cpu']} ({where['threads']} threads). "
        f"The mean ratio is {averages['training']:.1f}x for training and {averages['testing']:.1f}x for testing; the "
        "paper's, on a graphics card, over all its data sets: "
        f"{_paper_ratio('training'):.1f}x and {_paper_ratio('testing'):.1f}x. Only the networks are timed. "
        "A graphics card works on all labels at once where Seq2Seq must wait for one after the other; a processor "
        "computes them in turn, and Seq2Seq only those it names."
    )
    return f"## Speed\n\n{text}\n\n{table(headings, rows)}"


def _mean_ratio(measured: Any, part: str) -> float:
    return statistics.fmean(entry[f"{part}_speedup_over_seq2seq"] for entry in measured)


def _paper_ratio(part: str) -> float:
    """The mean of the paper's own column.

    >>> round(_paper_ratio("training"), 1)
    1.7
    """
    return statistics.fmean(paper_speed(name)[f"{part}_speedup_over_seq2seq"] for name in DATASETS)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
