"""The bench: how well lampnet uses the machine, and how it compares with what a user would write instead.

All figures are ratios of times taken in turns in one run. `run` returns plain data:
`results` (one line per shape, width and mode), `rivals`, `latency`, `start_up`, `first_prediction`, `memory`,
`growth`, `batching`, `machine`, `seconds` by the clock and `processor_seconds`.
"""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any

import torch

from bench.flops import attention_flops, forward_flops, training_flops
from bench.growth import measure
from bench.networks import (
    SHAPES,
    PlainTransformer,
    Shape,
    lamp,
    prediction,
    random_batch,
    training_step,
)
from bench.rivals import batching, rivals
from bench.start import first_prediction, start_up
from bench.timing import apart, in_turns, interleaved, medians, ratio
from lampnet.config import ModelConfig
from lampnet.inference.logits import rows_per_batch
from lampnet.model.kernels.fused_training import with_training_kernels
from lampnet.model.kernels.int8 import WORTH_IT, Int8Linear, quantised
from lampnet.model.kernels.prediction_layout import laid_out
from lampnet.runtime.allocator import keep_memory
from lampnet.runtime.random_bytes import RandomBytes

WIDTHS = (128, 256, 512)
TRAIN_ROWS = 32
#: rows of a sparse graph of 30,000 labels that are trained at once; a batch of 32 is `training.accumulate=8` such parts
SPARSE_ROWS = 4
#: so many nodes that the time to lay a network out does not count
MANY = 2**60
Log = Callable[[str], None]


def run(quick: bool = False, log: Log = lambda sentence: None, threads: int = 1) -> dict[str, Any]:
    """Measure everything; `quick` measures one width and fewer shapes, in about a minute."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    began = time.monotonic()
    try:
        results: list[dict[str, Any]] = []
        for shape in (s for s in SHAPES if not quick or s.name in ("bibtex", "imdb")):
            for width in (128,) if quick else WIDTHS:
                # The targets concern this shape, so it is measured longest.
                seconds = 2.0 if quick or shape.name != "bibtex" else 12.0
                for one in (measure_training, measure_prediction):
                    results.append(one(shape, width, seconds, _rows(shape, width)))
                    log(sentence(results[-1]))
        log("single rows, start-up and memory")
        found: dict[str, Any] = {
            "results": results,
            "latency": apart(latency, 100 if quick else 400),
            "start_up": start_up(),
            "first_prediction": apart(first_prediction, SHAPES[0]),
            "memory": memory(quick),
            "growth": [] if quick else growth(log),
            "rivals": {"skipped": "only in the full bench"} if quick else apart(rivals, log),
            "batching": {"skipped": "only in the full bench"} if quick else apart(batching),
            "machine": machine(threads),
        }
    finally:
        torch.set_num_threads(before)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    found["seconds"] = time.monotonic() - began
    found["processor_seconds"] = sum(part.ru_utime + part.ru_stime for part in used)
    return found


def _rows(shape: Shape, width: int) -> int:
    """Rows of a training batch: 32, and fewer where a step would take seconds and no target depends on it."""
    if shape.name == "bibtex" or (width == 128 and shape.labels < 500):
        return TRAIN_ROWS
    return 16 if shape.labels < 50 else 8 if shape.labels < 500 else 4


class _Products:
    """The machine's own matrix products at one width: enough to take a good part of a step.

    To be made in its own process: it keeps freed memory, which must not affect what it is compared with.
    """

    def __init__(self, config: ModelConfig, shape: Shape, rows: int) -> None:
        keep_memory()
        d = config.width
        self.x, self.weight = torch.randn(rows * shape.labels, d), torch.randn(d, d)
        self.count = self.number(config, shape)
        self.int8 = Int8Linear(self.weight)
        self.out = torch.empty_like(self.x)

    @staticmethod
    def number(config: ModelConfig, shape: Shape) -> int:
        one = 2 * shape.labels * config.width**2
        return max(1, round(0.1 * training_flops(config, shape.labels, shape.nodes) / one))

    @classmethod
    def flops(cls, config: ModelConfig, shape: Shape, rows: int) -> int:
        return cls.number(config, shape) * 2 * rows * shape.labels * config.width**2

    def run(self) -> None:
        for _ in range(self.count):
            torch.mm(self.x, self.weight.T, out=self.out)

    def run_int8(self) -> None:
        for _ in range(self.count):
            self.int8(self.x)


def measure_training(shape: Shape, width: int, seconds: float, rows: int = TRAIN_ROWS) -> dict[str, Any]:
    """Training steps of one shape at one width beside the plain torch network."""
    config = ModelConfig(width=width, base_learners=())

    def lampnet_step() -> Callable[[], None]:
        keep_memory()  # as the trainer does
        network = with_training_kernels(lamp(config, shape), RandomBytes())
        batch, truth = random_batch(shape, rows)
        return training_step(network, lambda: network(batch).stages, lambda: truth)

    def torch_step(dropout: float) -> Callable[[], None]:
        network = PlainTransformer(config, shape.labels, shape.words, dropout)
        batch, truth = random_batch(shape, rows)
        return training_step(network, lambda: network(batch), lambda: truth)

    taken = in_turns(
        {
            "product": lambda: _Products(config, shape, rows).run,
            "lampnet": lampnet_step,
            "torch": lambda: torch_step(config.dropout),
            "torch without dropout": lambda: torch_step(0.0),
        },
        seconds,
    )
    needed = training_flops(config, shape.labels, shape.nodes) * rows
    line = _line(shape, width, "train", rows, taken, needed, _Products.flops(config, shape, rows))
    return line | {"vs_torch_without_dropout": ratio(taken, "torch without dropout", "lampnet")}


def measure_prediction(shape: Shape, width: int, seconds: float, rows: int = TRAIN_ROWS) -> dict[str, Any]:
    """Predictions, as `predict_logits` makes them: the network laid out once, the batches fitting the cache.

    The plain network gets all rows at once, as its user would write it; "kept" is the same in a process that keeps
    freed memory as lampnet's does.
    """
    config = ModelConfig(width=width, base_learners=())
    small = min(rows, rows_per_batch(lamp(config, shape)))
    while rows % small:
        small -= 1

    def lampnet_rows(int8: bool) -> Callable[[], None]:
        keep_memory()  # as `predict_logits` does
        network = lamp(config, shape).eval()
        ready = quantised(network, n_nodes=MANY) if int8 else laid_out(network, n_nodes=MANY)
        chunks = [random_batch(shape, small, seed)[0] for seed in range(rows // small)]
        return prediction(ready, lambda: [ready(chunk, final_stage_only=True) for chunk in chunks])

    def torch_rows(kept: bool) -> Callable[[], None]:
        if kept:
            keep_memory()
        network = PlainTransformer(config, shape.labels, shape.words, config.dropout)
        batch, _ = random_batch(shape, rows)
        return prediction(network, lambda: network(batch))

    taken = in_turns(
        {
            "product": lambda: _Products(config, shape, rows).run,
            "int8 product": lambda: _Products(config, shape, rows).run_int8,
            "lampnet": lambda: lampnet_rows(int8=False),
            "int8": lambda: lampnet_rows(int8=True),
            "torch": lambda: torch_rows(kept=False),
            "torch kept": lambda: torch_rows(kept=True),
        },
        seconds,
    )
    needed = forward_flops(config, shape.labels, shape.nodes)
    line = _line(shape, width, "infer", rows, taken, needed * rows, _Products.flops(config, shape, rows))
    gain = ratio(taken, "product", "int8 product")
    in_float = attention_flops(config, shape.labels, shape.nodes) / needed  # scores and weighted sums
    return line | {
        "batch_rows": small,
        "vs_torch_kept_memory": ratio(taken, "torch kept", "lampnet"),
        "int8_vs_torch": ratio(taken, "torch", "int8"),
        "int8_vs_float32": ratio(taken, "lampnet", "int8"),
        "int8_product_gain": gain,
        "int8_vs_torch_bound": line["vs_torch_bound"] / (in_float + (1 - in_float) / gain),
        "int8_allowed": gain >= WORTH_IT,
    }


def _line(
    shape: Shape, width: int, mode: str, rows: int, taken: dict[str, list[float]], needed: int, product_flops: int
) -> dict[str, Any]:
    middle = medians(taken)
    # Adjacent measurements are compared, because the load of the machine changes during a run.
    utilisation = needed / product_flops * ratio(taken, "product", "lampnet")
    return {
        "shape": shape.name,
        "width": width,
        "mode": mode,
        "rows": rows,
        "rows_per_second": rows / middle["lampnet"],
        "utilisation": utilisation,
        "vs_torch": ratio(taken, "torch", "lampnet"),
        #: the ratio of a network that does nothing but its necessary products, at the machine's rate
        "vs_torch_bound": ratio(taken, "torch", "product") * product_flops / needed,
        "gflops_a_second": needed / middle["lampnet"] / 1e9,
        "product_gflops_a_second": product_flops / middle["product"] / 1e9,
        "rounds": len(taken["lampnet"]),
    }


def sentence(line: dict[str, Any]) -> str:
    """One result, for a person."""
    text = (
        f"{line['shape']:<10} d={line['width']:<4} {line['mode']:<5} {line['rows_per_second']:8.0f} rows/s  "
        f"utilisation {line['utilisation']:.2f}  {line['vs_torch']:.2f}x torch (bound {line['vs_torch_bound']:.2f}x)"
    )
    if "int8_vs_torch" not in line:
        return text
    return text + f"  int8 {line['int8_vs_torch']:.2f}x (bound {line['int8_vs_torch_bound']:.2f}x)"


def latency(rows: int) -> dict[str, Any]:
    """One row at a time at Bibtex's shape, milliseconds."""
    model = lamp(ModelConfig(base_learners=()), SHAPES[0])
    batch, _ = random_batch(SHAPES[0], 1)
    action = prediction(model, lambda: model(batch, final_stage_only=True))
    times = interleaved({"row": action}, seconds=20, most_rounds=rows)["row"]
    cuts = quantiles(times, n=20)
    return {"p50_ms": 1e3 * cuts[9], "p95_ms": 1e3 * cuts[18], "rows": len(times)}


def memory(quick: bool) -> list[dict[str, Any]]:
    """Peak memory at Bibtex's shape, each in its own process."""
    shape = SHAPES[0]
    return [
        apart(measure, labels=shape.labels, nodes=shape.nodes, width=width, rows=rows, train=train)
        for width in ((128,) if quick else (128, 512))
        for rows, train in ((TRAIN_ROWS, True), (16, False), (1, False))
    ]


def growth(log: Log) -> list[dict[str, Any]]:
    """Time and memory as labels and nodes grow."""
    points: list[dict[str, Any]] = []
    points += [{"labels": n, "nodes": 64, "rows": 2} for n in (100, 300, 1000, 3000)]
    points += [{"labels": n, "nodes": 64, "rows": 32, "candidates": 200} for n in (300, 1000, 3000, 10_000, 30_000)]
    points += [{"labels": n, "nodes": 64, "rows": 1, "edges_a_label": 20} for n in (1000, 3000, 10_000, 30_000)]
    points += [{"labels": 159, "nodes": n, "rows": 8} for n in (16, 64, 256, 1024, 2048)]
    points += [{"labels": 30_000, "nodes": 64, "rows": 32, "candidates": 200, "train": True}]
    points += [{"labels": 30_000, "nodes": 64, "rows": SPARSE_ROWS, "edges_a_label": 20, "train": True}]
    found = []
    for point in points:
        found.append(apart(measure, **point))
        line = found[-1]
        kind = "shortlist" if line["candidates"] else "edges" if line["edges_a_label"] else "all"
        speed = f"{line['rows_per_second']:.1f} rows/s, {line['peak_mb']:.0f} MB"
        log(f"growth L={line['labels']} S={line['nodes']} {kind} {line['mode']}: {speed}")
    return found


def machine(threads: int) -> dict[str, Any]:
    """The machine of the measurements."""
    return {
        "processor": platform.machine(),
        "vector_width": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": threads,
        "clock": "processor time" if threads == 1 else "wall clock",
    }
