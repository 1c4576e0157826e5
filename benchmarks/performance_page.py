"""Write docs/performance.md and its plots from docs/measurements/{bench,candidates,profile}.json.

python benchmarks/performance_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lampnet.config import ModelConfig
from lampnet.experiments.flops import forward_flops

DOCS = Path(__file__).parent.parent / "docs"
PLOTS = "![labels](growth_labels.svg)\n![nodes](growth_nodes.svg)"
TARGETS = {
    ("train", 128): (2.6, 0.5),
    ("train", 256): (2.1, 0.68),
    ("train", 512): (1.6, 0.8),
    ("infer", 128): (1.5, None),
    ("infer", 256): (1.25, None),
    ("infer", 512): (1.15, None),
}


def read(name: str) -> Any:
    path = DOCS / "measurements" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def met(reached: float, wanted: float | None) -> str:
    if wanted is None:
        return ""
    return f"{'met' if reached >= wanted else 'not met'} ({wanted:g})"


def speed_section(results: list[dict[str, Any]]) -> str:
    rows = []
    for line in results:
        ratio, share = (
            TARGETS.get((line["mode"], line["width"]), (None, None)) if line["shape"] == "bibtex" else (None,) * 2
        )
        rows.append(
            [
                line["shape"],
                line["width"],
                line["mode"],
                f"{line['rows_per_second']:.0f}",
                f"{line['utilisation']:.2f} {met(line['utilisation'], share)}",
                f"{line['vs_torch']:.2f} {met(line['vs_torch'], ratio)}",
                f"{line['vs_torch_without_dropout']:.2f}" if "vs_torch_without_dropout" in line else "",
                f"{line['vs_torch_bound']:.2f}",
                f"{line['int8_vs_torch']:.2f}" if "int8_vs_torch" in line else "",
            ]
        )
    head = [
        "shape",
        "d",
        "mode",
        "rows/s",
        "utilisation",
        "x torch",
        "x torch without dropout",
        "bound",
        "int8 x torch",
    ]
    return table(head, rows)


def candidate_section(found: dict[str, Any]) -> str:
    rows = []
    for entry in found.values():
        for way, score in entry["example_f1"].items():
            rows.append(
                [
                    entry["data"],
                    entry["candidates"] if "candidates" in way else "all",
                    way,
                    f"{score:.4f}",
                    f"{100 * (score - entry['example_f1']['exact']):+.2f}",
                    f"{entry['times_faster_than_exact'][way]:.2f}",
                    f"{entry['rows_per_second'][way]:.0f}",
                ]
            )
    return table(["data", "labels taking part", "way", "test example-F1", "points", "x exact", "rows/s"], rows)


def profile_section(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    groups = list(found[0]["shares"])
    rows = [[e["width"], e["mode"], *(f"{100 * e['shares'][g]:.0f}%" for g in groups)] for e in found]
    return table(["d", "mode", *groups], rows)


def attention_share(width: int) -> float:
    """The share of scores and weighted sums in the operations at Bibtex's shape."""
    labels, nodes, steps = 159, 70, 2
    config = ModelConfig(width=width, steps=steps, evidence=())
    return 2 * steps * 2 * labels * (labels + nodes) * width / forward_flops(config, labels, nodes)


def growth_section(points: list[dict[str, Any]]) -> str:
    rows = [
        [
            p["labels"],
            p["nodes"],
            p.get("mode", ""),
            p.get("candidates") or (f"{p['edges_a_label']} edges" if p.get("edges_a_label") else "all"),
            p["rows"],
            p.get("failed") or f"{1e3 / p['rows_per_second']:.1f}",
            "" if "failed" in p else f"{p['peak_mb']:.0f}",
        ]
        for p in points
    ]
    return table(["L", "S", "mode", "labels heard", "rows a batch", "ms a row", "peak MB of the process"], rows)


def plots(points: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    points = [p for p in points if "failed" not in p and p["mode"] == "infer"]
    for axis, name in (("labels", "labels"), ("nodes", "nodes")):
        figure, panes = plt.subplots(1, 2, figsize=(9, 3.5))
        chosen = [p for p in points if (p["labels"] == 159) == (axis == "nodes")]
        kinds = {
            "all labels": [p for p in chosen if not p["candidates"] and not p["edges_a_label"]],
            "200 candidates": [p for p in chosen if p["candidates"]],
            "20 edges a label": [p for p in chosen if p["edges_a_label"]],
        }
        for kind, line in kinds.items():
            if line:
                x = [p[axis] for p in line]
                panes[0].loglog(x, [1e3 / p["rows_per_second"] for p in line], marker="o", label=kind)
                panes[1].loglog(x, [max(p["mb_a_row"], 0.01) for p in line], marker="o", label=kind)
        for pane, unit in zip(panes, ("ms a row", "MB a row"), strict=True):
            pane.set(xlabel=name, ylabel=unit)
            pane.legend(fontsize=8)
        figure.tight_layout()
        figure.savefig(DOCS / f"growth_{name}.svg", metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    bench, candidates, profile = read("bench"), read("candidates"), read("profile")
    if bench["growth"]:
        plots(bench["growth"])
    rivals = bench["rivals"]
    rival_rows = (
        [[n, f"{rivals['fit_seconds'][n]:.2f}", f"{rivals['predict_seconds'][n]:.3f}"] for n in rivals["fit_seconds"]]
        if "fit_seconds" in rivals
        else []
    )
    quick, batching, memory = bench["latency"], bench["batching"], bench["memory"]
    page = f"""# Performance

This page is written by `benchmarks/performance_page.py` from `docs/measurements/`; take the measurements again with
`lampnet bench --json --out docs/measurements/bench.json`, `benchmarks/profile_step.py` and
`benchmarks/candidate_scores.py`. All comparisons were taken in turns in one run
(A, B, A, B, ...) and are medians; with one thread they are processor time, which other programs cannot spoil.
Machine: {json.dumps(bench["machine"])}.

## Beside a plain torch network

The same network from `nn.TransformerDecoderLayer` (labels hear the input) and `nn.TransformerEncoderLayer` (labels
hear each other), same sizes, data, loss and optimiser. *Utilisation*: the products that the equations need, counted, a
second, over what the machine's own matrix product reaches at that width. *Bound*: the ratio that a network would reach
which did nothing but those products at that rate; a target above the bound cannot be reached on this machine. The plain
network has dropout at every place its constructor puts it; *without dropout* it has none, lampnet keeps its own.

{speed_section(bench["results"])}

## Where the time goes (Bibtex's shape, one thread)

{profile_section(profile)}

What stands between the utilisation and 1: attention with heads of d/4 numbers, {attention_share(128):.0%} of the
necessary operations at width 128 and {attention_share(512):.0%} at 512 but takes the share of the time above, and layer
norms, dropout and residual sums, which are passes over memory.

## Candidates and int8

Scores of the test rows with the thresholds chosen on validation rows for the exact model. Candidates are chosen by
the first opinion (the evidence), which costs nothing. int8 is measured when a model is loaded and refused where a
product gains less than 1.15x.

{candidate_section(candidates)}

## Other methods (Bibtex, {rivals.get("fit_rows", 0)} training rows, {rivals.get("test_rows", 0)} rows predicted)

{rivals.get("note", rivals.get("skipped", ""))}

{table(["method", "fit s", "predict s"], rival_rows)}

## One row, start-up, memory, batches

- single row: p50 {quick["p50_ms"]:.1f} ms, p95 {quick["p95_ms"]:.1f} ms, first prediction {quick["first_ms"]:.1f} ms
- `lampnet --version` {bench["start_up"]["command_seconds"]:.2f} s (Python alone
  {bench["start_up"]["python_seconds"]:.2f} s, importing torch {bench["start_up"]["import_torch_seconds"]:.2f} s)
- batches of Reuters: {json.dumps(batching)}

{growth_section(memory)}

## Growth

{PLOTS if bench["growth"] else "Only in the full bench."}

{growth_section(bench["growth"])}
"""
    (DOCS / "performance.md").write_text(page)


if __name__ == "__main__":
    main()
