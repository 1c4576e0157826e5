"""How long an epoch of the paper's networks takes on one core, from a few training steps.

    python benchmarks/paper_epochs.py [DATASET ...]    # writes docs/measurements/paper_epochs.json, keeping other sets

The median of `STEPS` steps on random batches, times the steps of an epoch; validation is not counted.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from lampnet.experiments.machine import machine
from lampnet.experiments.paper_networks import SEEDS, Network, open_as_published
from lampnet.experiments.result_files import write_json
from lampnet.model.build import build_member
from lampnet.model.kernels.fused_training import with_training_kernels
from lampnet.model.label_graph import label_graph
from lampnet.runtime.random_bytes import RandomBytes
from lampnet.training.loss import lamp_loss
from lampnet.training.optimizer import make_optimizer

OUT = Path(__file__).resolve().parent.parent / "docs" / "measurements" / "paper_epochs.json"
FORMS = ("emb-el", "emb-fc", "fmp-el", "fmp-fc")
WIDTHS = (128, 512)
STEPS, WARM_UP = 5, 2


def seconds_per_epoch(dataset: str) -> dict[str, dict[str, float]]:
    """Seconds by form and width."""
    material = open_as_published(dataset, 0)
    truth = torch.from_numpy(material.truth["train"])
    found: dict[str, dict[str, float]] = {}
    for form in FORMS:
        for width in WIDTHS:
            config = Network(dataset, form, width, weight=0.2).lamp().config(material.prior_graph)
            encoded = material.nodes(config)
            adjacency = label_graph(config.label_graph, truth.shape[1])
            network = build_member(config, truth.shape[1], encoded.encoder, adjacency)
            random = RandomBytes()
            fast = with_training_kernels(network, random).train()
            optimizer = make_optimizer(list(network.parameters()), config.training)
            chooser, clocks, batch = np.random.default_rng(0), [], config.training.batch_size
            for step in range(WARM_UP + STEPS):
                rows = chooser.choice(len(truth), min(batch, len(truth)), replace=False)
                began = time.process_time()
                random.reseed((0, step, 0))
                torch.autograd.backward(lamp_loss(fast(encoded.train.batch(rows)).stages, truth[rows], 0.2))
                optimizer.step()
                optimizer.zero_grad()
                clocks.append(time.process_time() - began)
            seconds = statistics.median(clocks[WARM_UP:]) * len(truth) / batch
            found.setdefault(form, {})[str(width)] = round(seconds, 2)
            print(dataset, form, width, found[form][str(width)], flush=True)
    return found


def main() -> None:
    torch.set_num_threads(1)
    stored = json.loads(OUT.read_text(encoding="utf-8")) if OUT.is_file() else {"machines": {}, "seconds": {}}
    for dataset in sys.argv[1:] or SEEDS:
        stored["seconds"][dataset] = seconds_per_epoch(dataset)
        stored["machines"][dataset] = machine()
        write_json(OUT, stored)


if __name__ == "__main__":
    main()
