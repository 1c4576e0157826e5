"""Time and peak memory of one network; to be run in its own process, so that no other memory counts."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from bench import networks
from lampnet.config import ModelConfig
from lampnet.model.kernels.fused_training import with_training_kernels
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.model.label_graph import LabelGraph
from lampnet.runtime.random_bytes import RandomBytes

WORDS = 5000


def measure(
    labels: int,
    nodes: int,
    width: int = 128,
    rows: int = 8,
    candidates: int = 0,
    edges_a_label: int = 0,
    train: bool = False,
    threads: int = 1,
) -> dict[str, Any]:
    """Rows per second and peak memory (MB, the interpreter and torch included) of predictions or training steps.

    edges_a_label  0 for a full graph, else a random sparse one
    """
    torch.set_num_threads(threads)
    graph = None
    if edges_a_label:
        random = np.random.default_rng(0)
        sources = random.integers(labels, size=labels * edges_a_label)
        receivers = np.repeat(np.arange(labels), edges_a_label)
        pairs = sparse.csr_matrix((np.ones(len(sources), dtype=np.int8), (receivers, sources)), shape=(labels, labels))
        graph = LabelGraph("given", sparse.csr_matrix(pairs + sparse.identity(labels, dtype=np.int8)), labels)
    config = ModelConfig(width=width, shortlist=candidates, base_learners=())
    shape = networks.Shape("growth", labels, nodes, WORDS, min(5.0, labels / 10))
    model = networks.lamp(config, shape, graph)
    batch, truth = networks.random_batch(shape, rows)
    before = _peak()
    if not train:
        model = laid_out(model.eval(), n_nodes=2**60)
    if train:
        model = with_training_kernels(model, RandomBytes())
        action = networks.training_step(model, lambda: model(batch).stages, lambda: truth)
    else:
        action = networks.prediction(model, lambda: model(batch, final_stage_only=True))
    clock = time.process_time if threads == 1 else time.perf_counter
    began = clock()
    action()
    first = clock() - began
    times: list[float] = []
    while not times or (sum(times) < 0.6 and len(times) < 20):
        began = clock()
        action()
        times.append(clock() - began)
    return {
        "labels": labels,
        "nodes": nodes,
        "width": width,
        "rows": rows,
        "candidates": candidates,
        "edges_a_label": edges_a_label,
        "mode": "train" if train else "infer",
        "threads": threads,
        "rows_per_second": rows / sorted(times)[len(times) // 2],
        "first_ms": 1e3 * first,
        "peak_mb": _peak(),
        "mb_a_row": (_peak() - before) / rows,
    }


def _peak() -> float:
    """Peak resident memory of this process so far, MB."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # getrusage would give the parent's peak where that was higher.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
