"""Data larger than memory: prepare and train on RCV1-size text from a seeded generator.

    python benchmarks/streaming.py --rows 800000 --out docs/measurements/streaming.json

Writes 800,000 documents as Parquet, prepares them in a process of its own, trains from the prepared
rows in another (both with their peak resident memory), and compares the speed of training steps on
memory-mapped rows with the same rows copied into memory: blocks of steps of either kind take turns,
so that what else the machine does falls on both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from reliability_page import measured_code

VOCABULARY, LABELS, MEAN_LABELS, MEAN_TOKENS = 47_236, 103, 3.2, 120
GENERATED_ROWS = 20_000
BLOCK_STEPS, BLOCKS = 40, 9


def generate(path: Path, rows: int, seed: int) -> None:
    """Documents of Zipf-distributed words, a third of them from the topics of the document."""
    import pyarrow as arrow
    from pyarrow import parquet

    draw = np.random.default_rng(seed)
    words = np.array([f"w{number:05d}" for number in range(VOCABULARY)], dtype=object)
    names = np.array([f"T{label:03d}" for label in range(LABELS)], dtype=object)
    zipf = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    own_words = draw.integers(0, VOCABULARY, size=(LABELS, 60))
    weight = 1 / np.arange(1, LABELS + 1) ** 0.7
    schema = arrow.schema([("text", arrow.string()), ("topics", arrow.string())])
    with parquet.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, GENERATED_ROWS):
            n = min(GENERATED_ROWS, rows - first)
            has = draw.random((n, LABELS)) < weight * (MEAN_LABELS / weight.sum())
            has[np.arange(n), draw.choice(LABELS, size=n, p=weight / weight.sum())] = True
            lengths = 20 + draw.poisson(MEAN_TOKENS - 20, size=n)
            ends, count = np.cumsum(lengths), int(lengths.sum())
            drawn = np.searchsorted(zipf, draw.random(count) * zipf[-1])
            # A third of the words come from the own words of one of the document's topics.
            rows_of, labels_of = np.nonzero(has)
            per_row = np.bincount(rows_of, minlength=n)
            row = np.repeat(np.arange(n), lengths)
            pick = (np.cumsum(per_row) - per_row)[row] + (draw.random(count) * per_row[row]).astype(np.int64)
            topical = draw.random(count) < 1 / 3
            drawn[topical] = own_words[labels_of[pick[topical]], draw.integers(0, 60, size=int(topical.sum()))]
            spelled = words[drawn]
            texts = [" ".join(spelled[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
            named = names[labels_of]
            bounds = np.cumsum(per_row)
            topics = ["|".join(named[end - k : end]) for end, k in zip(bounds, per_row, strict=True)]
            writer.write_table(arrow.table({"text": texts, "topics": topics}, schema=schema))


def prepare_rows(parquet: Path, folder: Path) -> dict[str, Any]:
    from lampnet.config import Config
    from lampnet.pipeline.prepare import prepare_source
    from lampnet.readers.sources import Source

    prepare_source(
        Source(data=str(parquet)), folder, Config(), lambda sentence: print(sentence, flush=True), overwrite=True
    )
    return {}


def train(folder: Path, seconds: float) -> dict[str, Any]:
    from lampnet.config import Config
    from lampnet.pipeline.fit import FitRun, fit
    from lampnet.pipeline.mapped_rows import open_prepared

    config = Config().updated({"training.time_budget": seconds, "training.epochs": 1, "training.threads": 1})
    with tempfile.TemporaryDirectory() as checkpoints:
        model = fit(open_prepared(folder), config, run=FitRun(folder=Path(checkpoints)))
    return {
        "valid_example_f1": round(model.metadata["valid_scores"]["example_f1"], 4),
        "train_rows": model.metadata["rows"]["train"],
    }


def compare_speed(folder: Path) -> dict[str, Any]:
    import torch

    from lampnet.config import Config
    from lampnet.model.build import build_member
    from lampnet.pipeline.mapped_rows import LabelRows, open_prepared
    from lampnet.pipeline.plan import mapped as mapped_plan
    from lampnet.training.batches import shuffled_batches
    from lampnet.training.trainer import Trainer

    torch.set_num_threads(1)
    prepared = open_prepared(folder)
    fold = mapped_plan(prepared).folds[0]
    mapped, valid = fold.train, fold.valid[0]
    nodes = mapped.nodes
    copies = {name: np.array(value) for name, value in vars(nodes).items() if value is not None}
    labels = mapped.targets
    held = replace(
        mapped,
        nodes=replace(nodes, **copies),
        targets=LabelRows(np.array(labels.offsets), np.array(labels.ids), np.array(labels.values), labels.n_labels),
        base_logits=None if mapped.base_logits is None else np.array(mapped.base_logits),
    )
    config = replace(Config(), input=prepared.config.input, model=prepared.config.model)
    network = build_member(config, len(prepared.label_names), prepared.encoder, None)
    network.train()
    runs = {
        name: Trainer(network, config.training, rows, valid) for name, rows in (("mapped", mapped), ("memory", held))
    }
    batches = iter(shuffled_batches(nodes.lengths(), config.training.batch_size, 0, 0))
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for block in range(BLOCKS + 1):
        prepared.release()  # as after every few hundred steps of a training on more than a gigabyte
        for name, run in runs.items():
            chosen = [next(batches) for _ in range(BLOCK_STEPS)]
            began = time.perf_counter()
            for rows in chosen:
                run._step(rows)
            if block:  # the first block warms up
                speeds[name].append(sum(map(len, chosen)) / (time.perf_counter() - began))
    middle = {name: float(np.median(values)) for name, values in speeds.items()}
    return {
        "rows_per_second_mapped": round(middle["mapped"], 1),
        "rows_per_second_in_memory": round(middle["memory"], 1),
        "speed_ratio": round(middle["mapped"] / middle["memory"], 3),
        "steps_each": BLOCK_STEPS * BLOCKS,
    }


def measured(*arguments: str) -> dict[str, Any]:
    """Run a stage in a process of its own; its answer, seconds and peak resident memory."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, __file__, "--stage", *arguments, "--answer", str(answer)])
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"the stage {arguments[0]} failed")
        taken = {"seconds": round(time.perf_counter() - began, 1), "peak_gb": round(usage.ru_maxrss / 2**20, 3)}
        found: dict[str, Any] = json.loads(answer.read_text())
        return found | taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of training from the prepared rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="keep the generated files here")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--stage", choices=("generate", "prepare", "train", "speed"))
    parser.add_argument("--answer", type=Path)
    arguments = parser.parse_args()
    work = arguments.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    parquet, folder = work / "documents.parquet", work / "prepared"
    if arguments.stage:
        stages = {
            "generate": lambda: generate(parquet, arguments.rows, arguments.seed) or {},
            "prepare": lambda: prepare_rows(parquet, folder),
            "train": lambda: train(folder, arguments.seconds),
            "speed": lambda: compare_speed(folder),
        }
        arguments.answer.write_text(json.dumps(stages[arguments.stage]()))
        return
    same = ("--rows", str(arguments.rows), "--seconds", str(arguments.seconds), "--work", str(work))
    figures: dict[str, Any] = {
        "rows": arguments.rows,
        "labels": LABELS,
        "vocabulary": VOCABULARY,
        "seed": arguments.seed,
    }
    for stage in ("generate", "prepare", "train", "speed"):
        figures[stage] = measured(stage, *same)
        print(stage, figures[stage], flush=True)
    figures["parquet_gb"] = round(parquet.stat().st_size / 2**30, 3)
    figures["prepared_gb"] = round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 2**30, 3)
    figures["measured_on"] = measured_code()
    figures["machine"] = {"processors": os.cpu_count(), "python": platform.python_version(), "threads": 1}
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
