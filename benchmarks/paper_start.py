"""The loss at which the paper's preset starts, by the length of its label vectors: docs/measurements/paper_start.json.

    python benchmarks/paper_start.py [--data-root DIR]

Emb + LaMP_fc, untrained, on 256 training rows of Bibtex: the loss of each stage. And on Mediamill, where an epoch takes
seconds: the training loss and validation example-F1 of the first epochs.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lampnet.config import Config
from lampnet.data.label_priors import label_priors
from lampnet.encoders import make_encoder
from lampnet.experiments.material import open_material
from lampnet.experiments.result_files import write_json
from lampnet.model.build import build_member
from lampnet.pipeline.fit import FitRun, fit
from lampnet.training.progress import Progress

OUT = Path(__file__).parent.parent / "docs" / "measurements" / "paper_start.json"
ROWS, EPOCHS = 256, 8
EMB_FC = {"model.feature_steps": 0, "label_graph": "full"}
#: named by the standard deviation of an entry of a label vector
STARTS = ("unit", "short")


def first_losses(width: int, vectors: str) -> list[float]:
    """Of the stages 1.1, 1.2, 2.1, 2.2 before the first step."""
    train = open_material("bibtex").part("train")
    config = Config.preset("paper").updated(EMB_FC | {"model.width": width, "model.label_vectors": vectors})
    encoder = make_encoder(train.kind, config.input).fit(train.rows, train.feature_names)
    network = build_member(config, len(train.label_names), encoder, None).eval()
    rows = np.arange(ROWS)
    with torch.inference_mode():
        stages = network(encoder.encode(train.rows).nodes.batch(rows)).stages
    truth = torch.from_numpy(train.indicator()[rows])
    return [round(torch.nn.functional.binary_cross_entropy_with_logits(s, truth).item(), 3) for s in stages]


def constant_loss() -> float:
    """Of the label priors, on all training rows."""
    truth = torch.from_numpy(open_material("bibtex").part("train").indicator())
    prior = torch.from_numpy(label_priors(truth.numpy())).expand_as(truth)
    return round(torch.nn.functional.binary_cross_entropy(prior, truth).item(), 3)


def first_epochs(vectors: str) -> list[dict[str, float]]:
    """Training loss and validation score of the first epochs on Mediamill, d = 128."""
    changes: dict[str, Any] = EMB_FC | {"model.width": 128, "model.label_vectors": vectors}
    changes |= {"training.epochs": EPOCHS, "training.patience": 0, "training.threads": 1}
    found: list[dict[str, float]] = []

    def keep(event: str, progress: Progress) -> None:
        if event == "epoch":
            record = progress.history[-1]
            found.append({"loss": round(record.loss, 4), "validation_example_f1": round(record.score, 4)})

    fit(open_material("mediamill").labelled, Config.preset("paper").updated(changes), run=FitRun(callback=keep))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    given = parser.parse_args()
    if given.data_root:
        os.environ["LAMPNET_DATA"] = given.data_root
    torch.set_num_threads(1)
    untrained = {f"d = {d}": {vectors: first_losses(d, vectors) for vectors in STARTS} for d in (128, 512)}
    trained = {vectors: first_epochs(vectors) for vectors in STARTS}
    write_json(
        OUT,
        {
            "bibtex, loss of each stage before the first step": untrained,
            "bibtex, loss of the label priors": constant_loss(),
            "mediamill, d = 128, by epoch": trained,
        },
    )
    print(OUT)


if __name__ == "__main__":
    main()
