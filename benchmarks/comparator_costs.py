"""What the comparators that have not been run would cost, from fits on a few rows.

    python benchmarks/comparator_costs.py [DATASET ...] --data-root DIR    # keeps what else is in
                                                                           # docs/measurements/comparator_costs.json

Methods on features are fitted, tuning included, on 100 training rows with all labels, on twice as many, and so on, for
`LIMIT` seconds each; the time of all rows follows the growth of the last two. Where fewer than two sizes are done in
time, the cost is a lower bound. A network is trained for one epoch on 200 rows, which is scaled to all rows and to the
epochs that it took on Emotions. Cross-fitting and the test rows are not counted.
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
#: Training rows to begin with, training rows of a network, and validation rows.
FIRST, NETWORK, VALID = 100, 200, 100
LIMIT = 6.0


def seconds_of_fit(name: str, material: Material, rows: int) -> tuple[float, bool]:
    """Processor seconds of one fit on so many training rows, and whether it was done after `LIMIT` seconds."""
    entry, config = REGISTRY[name], Config.preset("fast")
    rng = np.random.default_rng(0)
    if entry.reads_in_order:
        config = config.updated(WORDS_IN_ORDER)
    encoded = (material.nodes if entry.input == "nodes" else material.features)(config)
    given: dict[str, Any] = {"seed": 0}
    if entry.input == "nodes":
        given |= {"embedding": encoded.encoder.embedding, "epochs": 1}
    learn = np.sort(rng.permutation(len(material.truth["train"]))[:rows])
    check = np.arange(min(VALID, len(material.truth["valid"])))

    def some(part: Any, index: np.ndarray) -> Any:
        return part.take(index) if entry.input == "nodes" else part[index]

    began = time.process_time()
    try:
        with at_most(LIMIT):
            baseline(name, **given).fit(
                some(encoded.train, learn), material.truth["train"][learn],
                some(encoded.valid, check), material.truth["valid"][check],
            )  # fmt: skip
    except OutOfTime:
        return time.process_time() - began, False
    return time.process_time() - began, True


def cost(name: str, material: Material) -> dict[str, Any]:
    """Hours of one core, and whether they are a lower bound."""
    total = len(material.truth["train"])
    if REGISTRY[name].input == "nodes":
        seconds, done = seconds_of_fit(name, material, NETWORK)
        stored = read_result(ROOT / "results" / file_name("emotions", name, 0))
        epochs = max(1, len(stored.get("history", ())))
        return {"hours": round(seconds * epochs * total / NETWORK / 3600, 3), "at_least": not done, "epochs": epochs}
    rows, fits = FIRST, []
    while True:
        seconds, done = seconds_of_fit(name, material, rows)
        if done:
            fits.append((rows, max(seconds, 1e-3)))
        if not done or rows == total:
            break
        rows = min(2 * rows, total)
    if len(fits) < 2:
        return {"hours": round(seconds * total / rows / 3600, 3), "at_least": True, "rows": rows}
    (few, before), (more, after) = fits[-2:]
    power = min(2.0, max(1.0, math.log(after / before) / math.log(more / few)))
    return {"hours": round(after * (total / more) ** power / 3600, 3), "at_least": False, "rows": more}


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
