"""Where the time of a step goes at Bibtex's shape: docs/measurements/profile.json.

python benchmarks/profile_step.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from bench.networks import SHAPES, lamp, prediction, random_batch, training_step
from lampnet.config import ModelConfig
from lampnet.model.kernels.int8 import quantised
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.runtime.allocator import keep_memory

OUT = Path(__file__).parent.parent / "docs" / "measurements" / "profile.json"
GROUPS = {
    "products with weights": ("aten::mm", "aten::addmm", "quantized::linear"),
    "products of attention": ("bmm",),
    "softmax (and torch's whole attention where it is used)": ("softmax", "flash_attention"),
    "layer norm": ("layer_norm",),
    "dropout, residual sums, relu": ("addcmul", "clamp", "sub_", "aten::to", "_to_copy", "add_", "threshold", "mul_"),
    "copies": ("aten::copy_", "aten::cat", "clone", "fill", "zero"),
    "optimizer": ("_fused_adamw", "_foreach", "lerp"),
}


def shares(width: int, mode: str) -> dict[str, float]:
    torch.set_num_threads(1)
    shape, train = SHAPES[0], mode == "train"
    keep_memory()
    model = lamp(ModelConfig(width=width, base_learners=()), shape)
    batch, truth = random_batch(shape, 32 if train else 16)
    if train:
        action = training_step(model, lambda: model(batch).stages, lambda: truth)
    else:
        ready = (quantised if mode == "int8" else laid_out)(model.eval(), n_nodes=2**60)
        action = prediction(ready, lambda: ready(batch, final_stage_only=True))
    action()
    with profile(activities=[ProfilerActivity.CPU]) as taken:
        for _ in range(3 if train else 8):
            action()
    events = taken.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    found = dict.fromkeys([*GROUPS, "everything else"], 0.0)
    for event in events:
        group = next((g for g, names in GROUPS.items() if any(n in event.key for n in names)), "everything else")
        found[group] += event.self_cpu_time_total / total
    return found


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = [
        {"width": width, "mode": mode, "shares": shares(width, mode)}
        for width in (128, 256, 512)
        for mode in ("train", "infer", "int8")
    ]
    OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
