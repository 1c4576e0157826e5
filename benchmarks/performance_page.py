"""Write docs/performance.md and its plots from docs/measurements/{bench,shortlist,profile}.json.

python benchmarks/performance_page.py
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.flops import attention_flops, forward_flops
from bench.other_programs import QUIET
from lampnet.config import ModelConfig
from pages.performance_targets import (
    LEAST_GAIN,
    MOST_LOST,
    kept_verdict,
    room_sentences,
    shortlist_verdicts,
    table,
    target_section,
)

DOCS = Path(__file__).parent.parent / "docs"
RIVALS_NOTE = (
    "Fitting is one pass over the rows for lampnet and Seq2Seq, and the whole fit, with C given, for linear methods."
)
PLOTS = "![labels](images/growth_labels.svg)\n![nodes](images/growth_nodes.svg)"


def read(name: str) -> Any:
    path = DOCS / "measurements" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def speed_section(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            line["shape"],
            line["width"],
            line["mode"],
            f"{line['rows_per_second']:.0f}",
            f"{line['utilisation']:.2f}",
            f"{line['vs_torch']:.2f}",
            f"{line['vs_torch_bound']:.2f}",
            f"{line['vs_torch_without_dropout']:.2f}" if "vs_torch_without_dropout" in line else "",
            f"{line['vs_torch_kept_memory']:.2f}" if "vs_torch_kept_memory" in line else "",
            f"{line['int8_vs_torch']:.2f}" if "int8_vs_torch" in line else "",
        ]
        for line in results
    ]
    head = ["shape", "d", "mode", "rows/s", "utilisation", "x torch", "bound"]
    head += ["x torch, no dropout", "x torch, kept memory", "int8 x torch"]
    return table(head, rows)


def int8_section(results: list[dict[str, Any]]) -> str:
    lines = [line for line in results if line["shape"] == "bibtex" and line["mode"] == "infer"]
    rows = [
        [
            line["width"],
            f"{line['product_gflops_a_second']:.0f}",
            f"{line['product_gflops_a_second'] * line['int8_product_gain']:.0f}",
            f"{line['int8_product_gain']:.2f}",
            f"{line['int8_vs_float32']:.2f}",
        ]
        for line in lines
    ]
    head = ["d", "float32 products, 10^9 operations/s", "int8 products", "gain of a product", "gain of the network"]
    return table(head, rows)


def shortlist_section(found: dict[str, Any]) -> str:
    rows = []
    for entry in found.values():
        exact = found[entry["data"]]["example_f1"]["exact"]
        for way, score in entry["example_f1"].items():
            rows.append(
                [
                    entry["data"],
                    entry["trained_with_shortlist"] or "all",
                    entry["shortlist"] if "shortlist" in way else "all",
                    "int8" if "int8" in way else "float32",
                    f"{score:.4f}",
                    f"{100 * (score - exact):+.2f}",
                    f"{entry['times_faster_than_exact'][way]:.2f}",
                    f"{entry['rows_per_second'][way]:.0f}",
                    f"{entry['fit_minutes_of_processor']:.1f}",
                ]
            )
    head = ["data", "labels in training", "labels in prediction", "products"]
    return table([*head, "test example-F1", "points", "x exact", "rows/s", "fit, CPU minutes"], rows)


def profile_section(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    groups = list(found[0]["shares"])
    rows = [[e["width"], e["mode"], *(f"{100 * e['shares'][g]:.0f}%" for g in groups)] for e in found]
    return table(["d", "mode", *groups], rows)


def machine_sentence(bench: dict[str, Any]) -> str:
    m = bench["machine"]
    return (
        f"{m['processor']} with {m['vector_width']}, torch {m['torch']}, Python {m['python']}, "
        f"{m['threads']} thread(s), {m['clock']}"
    )


def attention_share(width: int) -> float:
    """The share of scores and weighted sums in the operations at Bibtex's shape."""
    config = ModelConfig(width=width, base_learners=())
    return attention_flops(config, 159, 70) / forward_flops(config, 159, 70)


def growth_section(points: list[dict[str, Any]]) -> str:
    rows = [
        [
            p["labels"],
            p["nodes"],
            p["width"],
            p["mode"],
            p["candidates"] or (f"{p['edges_a_label']} edges" if p["edges_a_label"] else "all"),
            p["rows"],
            f"{1e3 / p['rows_per_second']:.1f}",
            f"{p['rows_per_second']:.1f}",
            f"{p['peak_mb']:.0f}",
        ]
        for p in points
    ]
    head = [
        "L",
        "S",
        "d",
        "mode",
        "sources per label",
        "rows per batch",
        "ms per row",
        "rows/s",
        "peak MB of the process",
    ]
    return table(head, rows)


def batching_section(found: dict[str, Any]) -> str:
    if "skipped" in found:
        return f"- batches of Reuters: {found['skipped']}"
    return (
        f"- Reuters ({found['rows']} rows): {found['padding_share']:.2%} of the node slots are padding "
        f"(target: under 5%), and making batches takes {found['loading_share']:.1%} of a step (target: under 3%)"
    )


def plots(points: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "growth"  # the same points give the same file
    points = [p for p in points if p["mode"] == "infer"]
    for axis, name in (("labels", "labels"), ("nodes", "nodes")):
        figure, panes = plt.subplots(1, 2, figsize=(9, 3.5))
        chosen = [p for p in points if (p["labels"] == 159) == (axis == "nodes")]
        kinds = {
            "all labels": [p for p in chosen if not p["candidates"] and not p["edges_a_label"]],
            "shortlist of 200": [p for p in chosen if p["candidates"]],
            "20 edges per label": [p for p in chosen if p["edges_a_label"]],
        }
        for kind, line in kinds.items():
            if line:
                x = [p[axis] for p in line]
                panes[0].loglog(x, [1e3 / p["rows_per_second"] for p in line], marker="o", label=kind)
                panes[1].semilogx(x, [p["peak_mb"] for p in line], marker="o", label=kind)
        for pane, unit in zip(panes, ("ms per row", "peak MB of the process"), strict=True):
            pane.set(xlabel=name, ylabel=unit)
            pane.legend(fontsize=8)
        panes[1].set_ylim(0, 1.1 * max(p["peak_mb"] for p in chosen))
        figure.tight_layout()
        figure.savefig(DOCS / "images" / f"growth_{name}.svg", metadata={"Date": None})
        plt.close(figure)


def first_section(found: dict[str, float]) -> str:
    whole = sum(found[part] for part in ("import_seconds", "load_seconds", "first_seconds"))
    return (
        f"- a saved model (Bibtex's shape, with base learners) predicts its first label set {whole:.2f} s after its "
        f"process starts:\n  {found['import_seconds']:.2f} s importing torch and SciPy, "
        f"{found['load_seconds']:.2f} s importing lampnet and loading,\n  "
        f"{1e3 * found['first_seconds']:.0f} ms predicting; the second prediction takes "
        f"{1e3 * found['second_seconds']:.0f} ms (processor time"
        + (f"; other programs used {others:.1f} cores)" if (others := found.get("others", 0)) >= QUIET else ")")
    )


def duration(runs: list[dict[str, Any]]) -> str:
    clock = " and ".join(f"{run['seconds'] / 60:.1f}" for run in runs)
    busy = " and ".join(f"{run['processor_seconds'] / 60:.1f}" for run in runs)
    return f"Full benches took {clock} minutes of wall-clock time, {busy} of CPU time."


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    runs = [run for run in (read("bench"), read("bench_second")) if run]
    bench, shortlist, profile = runs[0], read("shortlist"), read("profile")
    if bench["growth"]:
        plots(bench["growth"])
    rivals = bench["rivals"]
    rival_rows = (
        [[n, f"{rivals['fit_seconds'][n]:.2f}", f"{rivals['predict_seconds'][n]:.3f}"] for n in rivals["fit_seconds"]]
        if "fit_seconds" in rivals
        else []
    )
    quick, batching, memory, start = bench["latency"], bench["batching"], bench["memory"], bench["start_up"]
    page = f"""# Performance

`benchmarks/performance_page.py` writes this page from `docs/measurements/`. To measure again, run
`lampnet bench --json --out docs/measurements/bench.json`, `benchmarks/profile_step.py` and
`benchmarks/shortlist_scores.py`. The programs that are compared take turns (A, B, A, B, ...), each in its own process,
and ratios are medians over the rounds. With one thread, CPU time is measured instead of wall-clock time: other programs
cannot add to it, though they still share the caches. Machine: {machine_sentence(bench)}.

## Targets

All full benches of this version are shown ({len(runs)}). Two columns tell how much room is left:

- *Bound*: the ratio of a network that does nothing but its necessary matrix products, at the rate of the machine's own
  matrix product in the same run (the higher of the runs).
- *All else free*: the best ratio, divided by the share of products, softmax and layer norms in the
  [profile](#where-the-time-goes-bibtexs-shape-one-thread). It is what lampnet would reach if dropout, residual sums,
  relu, loss, copies, clipping, optimizer, running average and Python took no time.

A target above either of them cannot be reached on this machine by rearranging the work.

Inference also depends on the memory allocator. lampnet predicts in small batches and keeps freed memory, which avoids
page faults that a plain script with large arrays has. Against a script that keeps its memory too,
{kept_verdict(runs)}.

{target_section(runs, profile)}
{room_sentences(runs, profile)}

Attention with heads of width d/4 consists of small products and exponentials: {attention_share(128):.0%} of the
operations at d=128 and {attention_share(512):.0%} at d=512. The products already run at the machine's rate, so a faster
step needs fewer or smaller products. The int8 targets were set for a processor with VNNI; this one has
{bench["machine"]["vector_width"]} only, and the [table](#shortlist-and-int8) shows what an 8-bit product gains on it.

## Compared with a plain torch network

The plain network has the same sizes, data, loss and optimizer. It is built from `nn.TransformerDecoderLayer` (messages
from the input to the labels) and `nn.TransformerEncoderLayer` (messages among labels).

- *Utilisation*: the operations per second that the equations need, divided by what the machine's own matrix product
  reaches at that width. Keys and values that are looked up instead of computed count as needed, so it can exceed 1.
- *No dropout*: the plain network has dropout wherever its constructor puts it; here it has none, while lampnet keeps
  its own.
- *Kept memory*: the plain network in a process whose allocator keeps freed memory, as lampnet's does.

{speed_section(bench["results"])}

## Where the time goes (Bibtex's shape, one thread)

{profile_section(profile)}

What makes the difference (all in `model/kernels/` unless named otherwise):

- training: one operation per MPNN with a hand-written backward pass (`fused_training.py`), and dropout from random
  bytes (`byte_dropout.py`);
- prediction: layer norm scales are folded into the next product, rows of one length attend without a mask, and keys and
  values of words are looked up (`prediction_layout.py`);
- batches that fit the cache (`inference/logits.py`), and freed memory that is kept (`runtime/allocator.py`).

Tests compare each of them with the plain equations: the losses of fifty training steps, every gradient, every
prediction.

## Shortlist and int8

With a shortlist, only the labels with the highest base logits of a row exchange messages; the others keep their base
logits. Test rows are scored at the threshold that validation rows chose for the model as trained; *points* are the
difference to the exact model. The target, with a shortlist of 40 on Bibtex and 200 on Delicious, is
{LEAST_GAIN:.0f} times the speed of the exact model at a loss of at most {MOST_LOST} points.

{shortlist_verdicts(shortlist)}

{shortlist_section(shortlist)}

int8 is measured when a model is loaded, and refused with the reason where a product gains less than 1.15x.

{int8_section(bench["results"])}

## Other methods (Bibtex, {rivals.get("fit_rows", 0)} training rows, {rivals.get("test_rows", 0)} rows predicted)

{RIVALS_NOTE if rival_rows else rivals.get("skipped", "")}

{table(["method", "fit s", "predict s"], rival_rows)}

## Single rows, start-up, memory, batches

- a single row (L=159, S=70, d=128): p50 {quick["p50_ms"]:.1f} ms, p95 {quick["p95_ms"]:.1f} ms
{first_section(bench["first_prediction"])}
- `lampnet --version` takes {start["command_seconds"]:.2f} s of CPU time; Python alone takes
  {start["python_seconds"]:.2f} s, and importing torch, which it avoids, {start["import_torch_seconds"]:.2f} s
{batching_section(batching)}

{growth_section(memory)}

## Growth

{PLOTS if bench["growth"] else "Only in the full bench."}

{growth_section(bench["growth"])}

A batch of 32 rows over a sparse graph of 30,000 labels is trained in parts (`training.accumulate`); the memory is that
of one part.

{duration(runs)}
"""
    (DOCS / "performance.md").write_text(page)


if __name__ == "__main__":
    main()
