"""What candidates and int8 cost in example-F1, and what they gain in speed, on trained models.

    python benchmarks/candidate_scores.py bibtex=40 delicious=200 --epochs 3

Trains each data set once, then scores its test rows exactly, with candidates and with int8, and times these in
turns. With --train-candidates only the candidates take part in training too, and the entry is one of its own.
Writes docs/measurements/candidates.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.timing import interleaved, medians, ratio
from lampnet.config import Config
from lampnet.evaluation.metrics import METRICS
from lampnet.inference.examples import Examples
from lampnet.inference.logits import predict_logits, probabilities
from lampnet.model.ensemble import networks_of
from lampnet.model.kernels.int8 import WORTH_IT, for_prediction, int8_gain, quantised
from lampnet.persistence.model_folder import load_model
from lampnet.pipeline.fit import fit
from lampnet.readers.named.registry import load

TIMED_ROWS = 192
OUT = Path(__file__).parent.parent / "docs" / "measurements" / "candidates.json"


def measure(name: str, candidates: int, settings: dict[str, Any], folder: Path | None, rows: int) -> dict[str, Any]:
    splits = load(name)
    started = time.process_time()
    model = fit(splits, Config.preset("fast").updated(settings), say=print) if folder is None else load_model(folder)
    learned = time.process_time() - started
    assert splits.test is not None
    test = model.check(splits.test)
    test = test.take(np.arange(min(rows or len(test), len(test))))
    truth, examples = test.indicator(), model.examples(test.rows)
    (network,) = networks_of(model.network)
    whole = copy.copy(network)
    whole.candidates = 0
    networks = {
        "exact": whole.eval(),
        "candidates": for_prediction(network, candidates=candidates),
        "int8": quantised(whole),
        "int8 candidates": quantised(for_prediction(network, candidates=candidates)),
    }
    rule = model.decisions.paper["example_f1"]
    scores = {
        way: float(METRICS["example_f1"](truth, rule.apply(probabilities(predict_logits(ready, examples)))))
        for way, ready in networks.items()
        # A network that learned with few labels a row says nothing sensible when all of them talk; its time counts.
        if "candidates" in way or not model.config.model.candidates
    }
    rows = np.arange(min(TIMED_ROWS, len(examples)))
    some = Examples(nodes=examples.nodes.take(rows), evidence=examples.stack[rows])
    taken = interleaved({way: lambda n=n: predict_logits(n, some) for way, n in networks.items()}, seconds=10)
    return {
        "data": name,
        "labels": len(model.label_names),
        "candidates": candidates,
        "settings": settings if folder is None else {},
        "trained_with_candidates": model.config.model.candidates,
        "width": model.config.model.width,
        "int8_product_gain": (gain := int8_gain(model.config.model.width)),
        "int8_allowed": gain >= WORTH_IT,
        "fit_minutes_of_processor": learned / 60,
        "epochs": len(model.metadata["history"]),
        "test_rows": len(examples),
        "example_f1": scores,
        "times_faster_than_exact": {way: ratio(taken, "exact", way) for way in networks},
        "rows_per_second": {way: len(some) / seconds for way, seconds in medians(taken).items()},
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", help="name=candidates")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train-candidates", action="store_true")
    parser.add_argument("--minutes", type=float, help="at most this long a training")
    parser.add_argument("--model", type=Path, help="a trained model's folder, instead of training")
    parser.add_argument("--rows", type=int, default=0, help="score only the first test rows; 0 for all")
    arguments = parser.parse_args()
    found = json.loads(OUT.read_text()) if OUT.exists() else {}
    for entry in arguments.data:
        name, _, candidates = entry.partition("=")
        # One network: a committee costs each way as many times more as it has members.
        settings = {"training.epochs": arguments.epochs, "training.threads": 1, "training.folds": 1}
        settings["model.candidates"] = int(candidates) if arguments.train_candidates else 0
        if arguments.minutes:
            settings["training.time_budget"] = 60 * arguments.minutes
        key = f"{name} trained with candidates" if arguments.train_candidates else name
        found[key] = measure(name, int(candidates), settings, arguments.model, arguments.rows)
        OUT.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found[key], indent=1))


if __name__ == "__main__":
    main()
