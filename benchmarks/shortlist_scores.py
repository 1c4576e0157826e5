"""What a shortlist of labels and int8 cost in example-F1, and how much faster they are, on trained models.

    python benchmarks/shortlist_scores.py bibtex=40 delicious=200 --epochs 3

Trains one model per data set, then scores its test rows exactly, with a shortlist and with int8, and times these in
turns. With --train-shortlist training uses the shortlist too, and the entry is a separate one. Writes
docs/measurements/shortlist.json.
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
from lampnet.model.kernels.int8 import WORTH_IT, int8_gain, quantised
from lampnet.persistence.model_folder import load_model
from lampnet.pipeline.fit import FitRun, fit
from lampnet.readers.named.registry import load

TIMED_ROWS = 192
OUT = Path(__file__).parent.parent / "docs" / "measurements" / "shortlist.json"


def measure(name: str, shortlist: int, settings: dict[str, Any], folder: Path | None, rows: int) -> dict[str, Any]:
    splits = load(name)
    started = time.process_time()
    config = Config.preset("fast").updated(settings)
    model = fit(splits, config, run=FitRun(log=print)) if folder is None else load_model(folder)
    learned = time.process_time() - started
    assert splits.test is not None
    test = model.check(splits.test)
    test = test.take(np.arange(min(rows or len(test), len(test))))
    truth, examples = test.indicator(), model.examples(test.rows)
    (network,) = model.network.networks
    # Only its time counts where the network was trained with a shortlist, which `for_prediction` would refuse to lift.
    whole = copy.copy(network)
    whole.shortlist = 0
    (short,) = model.for_prediction(shortlist=shortlist).network.networks
    networks = {
        "exact": whole.eval(),
        "shortlist": short.eval(),
        "int8": quantised(whole),
        "int8 shortlist": quantised(short),
    }
    rule = model.decisions.paper["example_f1"]
    scores = {
        way: float(METRICS["example_f1"](truth, rule.apply(probabilities(predict_logits(ready, examples)))))
        for way, ready in networks.items()
        # A network trained with a shortlist gives no useful scores without it; only its time counts.
        if "shortlist" in way or not model.config.model.shortlist
    }
    rows = np.arange(min(TIMED_ROWS, len(examples)))
    some = Examples(nodes=examples.nodes.take(rows), base_logits=examples.base_logits[rows])
    taken = interleaved({way: lambda n=n: predict_logits(n, some) for way, n in networks.items()}, seconds=10)
    return {
        "data": name,
        "labels": len(model.label_names),
        "shortlist": shortlist,
        "settings": settings if folder is None else {},
        "trained_with_shortlist": model.config.model.shortlist,
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
    parser.add_argument("data", nargs="+", help="name=length of the shortlist")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--train-shortlist", action="store_true")
    parser.add_argument("--minutes", type=float, help="time limit of each training")
    parser.add_argument("--model", type=Path, help="a trained model's folder, instead of training")
    parser.add_argument("--rows", type=int, default=0, help="score only the first test rows; 0 for all")
    arguments = parser.parse_args()
    found = json.loads(OUT.read_text()) if OUT.exists() else {}
    for entry in arguments.data:
        name, _, shortlist = entry.partition("=")
        # One network: an ensemble costs as many times more as it has members, each way.
        settings = {"training.epochs": arguments.epochs, "training.threads": 1, "training.folds": 1}
        settings["model.shortlist"] = int(shortlist) if arguments.train_shortlist else 0
        if arguments.minutes:
            settings["training.time_budget"] = 60 * arguments.minutes
        key = f"{name} trained with a shortlist" if arguments.train_shortlist else name
        found[key] = measure(name, int(shortlist), settings, arguments.model, arguments.rows)
        OUT.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps(found[key], indent=1))


if __name__ == "__main__":
    main()
