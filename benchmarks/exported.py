"""An exported model in onnxruntime beside lampnet's own prediction, both from rows as a user holds them, one thread.

    python benchmarks/exported.py            # measure, then write the table of docs/export.md
    python benchmarks/exported.py --check    # fail where the page differs from the measurements

Data sets are read from LAMPNET_DATA. Each takes turns with the other, and the medians of the ratios are stated.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pages.measured_section import MeasuredSection

#: data set -> preset and rows trained on
MODELS = {"emotions": ("fast", 400), "bibtex": ("quick", 2000), "reuters21578": ("quick", 2000)}
BATCHES, ROUNDS, LEAST_SECONDS = (1, 64), 7, 0.2


def seconds(call: Callable[[], Any]) -> float:
    """Of one call, from as many as take a fifth of a second."""
    calls, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < LEAST_SECONDS:
        call()
        calls += 1
    return passed / calls


def measure_one(name: str, preset: str, rows: int) -> dict[str, Any]:
    import onnxruntime

    from lampnet import LaMPClassifier
    from lampnet.experiments.material import open_material
    from lampnet.export.to_onnx import OnnxModel

    material = open_material(name).labelled
    train, test = material.train, material.test
    truth = train.labels[:rows].toarray()
    kept = truth.sum(axis=0) >= 2
    settings = {"training.keep_network": "always"} if preset == "fast" else {}
    parameters = {"preset": preset, "n_jobs": 1, "settings": settings, "time_budget": "60s", "input_kind": train.kind}
    model = LaMPClassifier(**parameters).fit(train.rows[:rows], truth[:, kept]).model_
    exported = OnnxModel(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    measured: dict[str, Any] = {"preset": preset, "rows_trained": rows, "labels": int(kept.sum()), "batches": {}}
    with tempfile.TemporaryDirectory() as folder:
        file = exported.save(Path(folder) / "model.onnx")
        measured["mb"] = file.stat().st_size / 1e6
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        for size in BATCHES:
            some = test.rows[:size]

            def by_onnx(some: Any = some) -> np.ndarray:
                return np.asarray(session.run(["probabilities"], exported.feeds(some))[0])

            def by_lampnet(some: Any = some) -> np.ndarray:
                return model.proba(some)

            difference = float(np.abs(by_onnx() - by_lampnet()).max())
            pairs = [(seconds(by_lampnet), seconds(by_onnx)) for _ in range(ROUNDS)]
            measured["batches"][str(size)] = {
                "lampnet_ms": 1e3 * statistics.median(own for own, _ in pairs),
                "onnx_ms": 1e3 * statistics.median(other for _, other in pairs),
                "times_as_fast": statistics.median(own / other for own, other in pairs),
                "difference": difference,
            }
    return measured


def section(measured: dict[str, Any]) -> str:
    lines = ["| model | file | rows at once | lampnet | onnxruntime | times as fast | largest difference |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for name, one in measured["models"].items():
        for size, batch in one["batches"].items():
            title = f"{name}, `{one['preset']}`, {one['rows_trained']:,} rows, {one['labels']} labels"
            lines.append(
                f"| {title} | {one['mb']:.1f} MB | {size} | {batch['lampnet_ms']:.1f} ms | {batch['onnx_ms']:.1f} ms "
                f"| {batch['times_as_fast']:.1f} | {batch['difference']:.0e} |"
            )
    return "\n".join(lines)


SECTION = MeasuredSection("exported", "export.md", "speed", section)


def main() -> None:
    import torch

    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    if arguments.parse_args().check:
        SECTION.check()
        return
    torch.set_num_threads(1)
    measured: dict[str, Any] = {"models": {}}
    for name, (preset, rows) in MODELS.items():
        measured["models"][name] = measure_one(name, preset, rows)
        SECTION.keep(measured)
    SECTION.write()


if __name__ == "__main__":
    main()
