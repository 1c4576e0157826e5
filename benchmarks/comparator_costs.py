"""What the comparators that have not been run would cost, from fits on a few rows.

    python benchmarks/comparator_costs.py [DATASET ...] --data-root DIR    # keeps what else is in
                                                                           # docs/measurements/comparator_costs.json

Methods on features are fitted, tuning included, on 100 and on 200 training rows with all labels; the time of all rows
follows the growth between the two. A network is trained for one epoch on 200 rows, which is scaled to all rows and to
the epochs that it took on Emotions. A fit that is not done after `LIMIT` seconds gives a lower bound. Cross-fitting and
the test rows are not counted.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.baselines import REGISTRY, baseline
from lampnet.config import Config
from lampnet.experiments.machine import machine
from lampnet.experiments.material import Material
from lampnet.experiments.protocol import WORDS_IN_ORDER
from lampnet.experiments.reproduce import open_named
from lampnet.experiments.result_files import file_name, read_result, write_json
from lampnet.experiments.time_limit import OutOfTime, at_most

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "measurements" / "comparator_costs.json"
DATASETS = ("scene", "sider", "bibtex", "reuters21578", "delicious")
ROWS = (100, 200)
VALID = 100
LIMIT = 8.0


def seconds_of_fit(name: str, material: Material, rows: int) -> float | None:
    """Processor seconds of one fit on so many training rows; None where it takes longer than `LIMIT`."""
    entry, config = REGISTRY[name], Config.preset("fast")
    rng = np.random.default_rng(0)
    if entry.reads_in_order:
        config = config.updated(WORDS_IN_ORDER)
    encoded = (material.nodes if entry.input == "nodes" else material.features)(config)
    given: dict[str, Any] = {"seed": 0}
    if entry.input == "nodes":
        given |= {"embedding": encoded.encoder.embedding, "epochs": 1}
    learn = np.sort(rng.permutation(encoded.train.shape[0] if entry.input == "features" else len(encoded.train))[:rows])
    check = np.arange(min(VALID, len(material.truth["valid"])))
    take = (lambda part, index: part.take(index)) if entry.input == "nodes" else (lambda part, index: part[index])
    began = time.process_time()
    try:
        with at_most(LIMIT):
            baseline(name, **given).fit(
                take(encoded.train, learn), material.truth["train"][learn],
                take(encoded.valid, check), material.truth["valid"][check],
            )  # fmt: skip
    except OutOfTime:
        return None
    return time.process_time() - began


def cost(name: str, material: Material) -> dict[str, Any]:
    """Hours of one core, and whether they are a lower bound."""
    total = len(material.truth["train"])
    if REGISTRY[name].input == "nodes":
        found = seconds_of_fit(name, material, ROWS[1])
        stored = read_result(ROOT / "results" / file_name("emotions", name, 0))
        epochs = max(1, len(stored.get("history", ())))
        seconds = (LIMIT if found is None else found) * epochs * total / ROWS[1]
        return {"hours": round(seconds / 3600, 3), "at_least": found is None, "epochs": epochs}
    few, more = (seconds_of_fit(name, material, rows) for rows in ROWS)
    if few is None or more is None:
        rows = ROWS[0] if few is None else ROWS[1]
        return {"hours": round(LIMIT * total / rows / 3600, 3), "at_least": True}
    power = min(2.0, max(1.0, math.log2(max(more, 1e-3) / max(few, 1e-3))))
    return {"hours": round(more * (total / ROWS[1]) ** power / 3600, 3), "at_least": False}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="*", default=DATASETS)
    parser.add_argument("--data-root")
    given = parser.parse_args()
    stored = json.loads(OUT.read_text(encoding="utf-8"))["costs"] if OUT.is_file() else {}
    for dataset in given.dataset:
        material = open_named(dataset, 0, given.data_root)
        for name in REGISTRY:
            if not (ROOT / "results" / file_name(dataset, name, 0)).exists():
                try:
                    found = cost(name, material)
                except Exception as problem:
                    print(f"{dataset} {name} is left out: {problem!r}", flush=True)
                    continue
                stored.setdefault(dataset, {})[name] = found
                print(dataset, name, found, flush=True)
                write_json(OUT, {"machine": machine(), "costs": stored})


if __name__ == "__main__":
    main()
