"""A million rows: how long a fit by mapped rows takes, all rows learned from, and how it grows.

    python benchmarks/many_rows.py --rows 10000 100000 1000000 --out docs/measurements/many_rows.json

Texts of 100 words with 1,000 labels come from a seeded generator with planted structure: labels come in families that
share words, each label has words of its own, the rest is noise. Rows are generated and prepared in chunks. Each stage
runs in a process of its own, which gives its seconds, processor seconds and peak resident memory. A stage that the file
has already is not run again, so an interrupted run continues with the stage that it was in.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

LABELS, FAMILY, MORE_LABELS = 1_000, 10, 2.2
WORDS, VOCABULARY, OWN_WORDS = 100, 30_000, 60
#: of the words of a row, those that come from its labels; of these, those that all labels of the family share
TOPICAL, SHARED = 0.25, 0.4
CHUNK, TEST_ROWS = 20_000, 5_000
STAGES = ("generate", "prepare", "train", "predict")


def rows_of(rows: int, seed: int, part: int) -> Iterator[tuple[list[str], list[str]]]:
    """Chunks of texts and of their labels, joined by |; `part` 0 is for training, 1 for test rows."""
    planted = np.random.default_rng(seed)
    own = planted.integers(0, VOCABULARY, size=(LABELS, OWN_WORDS))
    shared = planted.integers(0, VOCABULARY, size=(LABELS // FAMILY, OWN_WORDS))
    often = np.cumsum((1 / np.arange(1, LABELS + 1) ** 0.7)[planted.permutation(LABELS)])
    zipf = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    words = np.array([f"w{number:05d}" for number in range(VOCABULARY)], dtype=object)
    names = np.array([f"L{label:04d}" for label in range(LABELS)], dtype=object)
    draw = np.random.default_rng((seed, part))
    for first in range(0, rows, CHUNK):
        n = min(CHUNK, rows - first)
        counts = 1 + draw.poisson(MORE_LABELS, size=n)
        starts = np.cumsum(counts) - counts
        label_E = np.searchsorted(often, draw.random(int(counts.sum())) * often[-1])
        # Half of a row's other labels are of the family of its first one.
        family_E = np.repeat(label_E[starts] // FAMILY, counts)
        related = draw.random(len(label_E)) < 0.5
        related[starts] = False
        label_E[related] = family_E[related] * FAMILY + draw.integers(0, FAMILY, size=int(related.sum()))
        row = np.repeat(np.arange(n), WORDS)
        drawn = np.searchsorted(zipf, draw.random(len(row)) * zipf[-1])
        about = label_E[starts[row] + (draw.random(len(row)) * counts[row]).astype(np.int64)]
        topical = draw.random(len(row)) < TOPICAL
        common = topical & (draw.random(len(row)) < SHARED)
        place = draw.integers(0, OWN_WORDS, size=len(row))
        drawn[topical] = own[about[topical], place[topical]]
        drawn[common] = shared[about[common] // FAMILY, place[common]]
        texts = [" ".join(own_words) for own_words in words[drawn].reshape(n, WORDS)]
        yield texts, ["|".join(sorted(set(names[label_E[s : s + c]]))) for s, c in zip(starts, counts, strict=True)]


def generate(work: Path, rows: int, seed: int) -> dict[str, Any]:
    import pyarrow as arrow
    from pyarrow import parquet

    schema = arrow.schema([("text", arrow.string()), ("labels", arrow.string())])
    for part, (name, count) in enumerate((("train", rows), ("test", TEST_ROWS))):
        with parquet.ParquetWriter(work / f"{name}.parquet", schema) as writer:
            for texts, labels in rows_of(count, seed, part):
                writer.write_table(arrow.table({"text": texts, "labels": labels}, schema=schema))
    return {}


def prepare(work: Path) -> dict[str, Any]:
    from lampnet.config import Config
    from lampnet.pipeline.mapped_rows import open_prepared
    from lampnet.pipeline.prepare import prepare_source
    from lampnet.readers.sources import Source

    began = time.perf_counter()
    phases: list[tuple[float, str]] = []

    def log(sentence: str) -> None:
        phases.append((round(time.perf_counter() - began, 1), sentence))
        print(*phases[-1], flush=True)

    prepare_source(Source(data=str(work / "train.parquet")), work / "prepared", Config.preset("quick"), log, True)
    parts = open_prepared(work / "prepared", verify=False).parts
    return {"train_rows": len(parts["train"]), "valid_rows": len(parts["valid"]), "phases": phases}


def train(work: Path) -> dict[str, Any]:
    from lampnet.config import Config
    from lampnet.persistence.model_folder import save_model
    from lampnet.pipeline.fit import fit
    from lampnet.pipeline.mapped_rows import open_prepared

    model = fit(open_prepared(work / "prepared"), Config.preset("quick"))
    save_model(model, work / "model")
    return {"valid_scores": {name: round(score, 4) for name, score in model.metadata["stack_scores"].items()}}


def predict(work: Path) -> dict[str, Any]:
    from lampnet.evaluation.metrics import METRICS
    from lampnet.persistence.model_folder import load_model
    from lampnet.readers.sources import Source

    model = load_model(work / "model")
    test = Source(data=str(work / "test.parquet")).part("train", 0)
    index = {name: number for number, name in enumerate(test.label_names)}
    truth = np.zeros((len(test), len(model.label_names)), dtype=np.float32)
    held = test.indicator()
    for number, name in enumerate(model.label_names):
        if name in index:
            truth[:, number] = held[:, index[name]]
    began = time.perf_counter()
    proba = model.proba(test.rows)
    rate = len(test) / (time.perf_counter() - began)
    best = model.decisions.best
    scores = {
        m: round(float(METRICS[m](truth, best[m].apply(proba))), 4) for m in ("example_f1", "micro_f1", "macro_f1")
    }
    return {"rows_per_second": round(rate), "test_scores": scores}


def in_process(stage: str, work: Path, rows: int, seed: int) -> dict[str, Any]:
    """Run a stage in a child process; its answer, seconds by the clock and of the processor, and peak memory."""
    stages: dict[str, Callable[[], dict[str, Any]]] = {
        "generate": lambda: generate(work, rows, seed),
        "prepare": lambda: prepare(work),
        "train": lambda: train(work),
        "predict": lambda: predict(work),
    }
    answer = work / f"{stage}.json"
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        try:
            answer.write_text(json.dumps(stages[stage]()))
            os._exit(0)
        except BaseException as fault:  # the parent goes on in no case
            print(f"{stage}: {fault!r}", file=sys.stderr, flush=True)
            os._exit(1)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"the stage {stage} of {rows:,} rows failed")
    return json.loads(answer.read_text()) | {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_gb": round(usage.ru_maxrss / 2**20, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, default=Path("many_rows"), help="where rows and models are kept")
    parser.add_argument("--out", type=Path, default=Path("docs/measurements/many_rows.json"))
    arguments = parser.parse_args()
    found: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for rows in arguments.rows:
        work = arguments.work / str(rows)
        work.mkdir(parents=True, exist_ok=True)
        own = found.setdefault(str(rows), {"labels": LABELS, "words": WORDS, "vocabulary": VOCABULARY})
        for stage in STAGES:
            if stage in own:
                continue
            own[stage] = in_process(stage, work, rows, arguments.seed)
            own["machine"] = {"processors": os.cpu_count(), "python": platform.python_version()}
            print(rows, stage, json.dumps(own[stage]), flush=True)
            arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
