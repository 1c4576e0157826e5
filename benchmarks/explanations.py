"""Measure explanations and write the page about them: `python benchmarks/explanations.py --data-root FOLDER`.

Digit scenes know the truth: which cell holds a digit, and which labels follow from which. Writes
`docs/measurements/digits_faithfulness.json` and, from that file alone, `docs/explanations.md`
(`--page` only writes the page again).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gallery import ROOT, SEED, trained
from lampnet.evaluation.metrics import five_metrics
from lampnet.explain.attention import RowAttention, decision_rule, predict_rows
from lampnet.explain.explain_rows import explain
from lampnet.explain.faithfulness import measure
from lampnet.inference.predictor import FittedModel
from lampnet.readers.named.digit_scenes import LABEL_NAMES, SceneTruth, digit_truth, planted_dependencies
from lampnet.readers.named.registry import load

MEASURED = ROOT / "docs" / "measurements" / "digits_faithfulness.json"
PAGE = ROOT / "docs" / "explanations.md"
TEXT = Path(__file__).with_name("explanations_text.md")


def attention_of_test(model: FittedModel, test: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean over heads of attention to patches, (n, T, L, 9), and, averaged over rows, to labels, (T, L, L)."""
    every = np.arange(len(LABEL_NAMES))
    to_input = np.zeros((len(test), model.config.model.steps, len(every), 9), dtype=np.float32)
    to_labels = np.zeros((model.config.model.steps, len(every), len(every)))
    for batch, output in predict_rows(model, test).attention_batches():
        for b, row in enumerate(batch):
            attention = RowAttention(output, b, len(every))
            to_input[row] = attention.to_input(every).mean(axis=1)
            to_labels += attention.to_labels(every).mean(axis=1)
    return to_input, to_labels / len(test)


def top_patch(to_patches: np.ndarray, truth: SceneTruth, chosen: np.ndarray, names: list[str]) -> dict[str, Any]:
    """How often the most attended patch is one that makes the label true, and what chance would give.

    to_patches is (n, L, 9); only labels that are true and were chosen count.
    """
    hits, any_cell, filled_cell = [], [], []
    for row in range(len(to_patches)):
        filled = int((truth.cells[row] >= 0).sum())
        for name in names:
            label = LABEL_NAMES.index(name)
            cells = truth.supporting_cells(row, name)
            if not cells or not chosen[row, label]:
                continue
            hits.append(int(to_patches[row, label].argmax()) in cells)
            any_cell.append(len(cells) / 9)
            filled_cell.append(len(cells) / filled)
    return {
        "cases": len(hits),
        "right": round(float(np.mean(hits)), 4),
        "random_patch": round(float(np.mean(any_cell)), 4),
        "random_filled_patch": round(float(np.mean(filled_cell)), 4),
    }


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Chance that a positive pair scores higher than another one; ties count half."""
    from scipy.stats import rankdata

    ranks = rankdata(scores)
    n_positive = int(positive.sum())
    above = ranks[positive].sum() - n_positive * (n_positive + 1) / 2
    return round(float(above / (n_positive * (len(scores) - n_positive))), 4)


def planted(to_labels: np.ndarray, train_labels: np.ndarray) -> dict[str, Any]:
    """Areas under the ROC curve for separating planted pairs (the effect attends to its cause) from the others."""
    n = len(LABEL_NAMES)
    given: dict[str, np.ndarray] = {rule: np.zeros((n, n), dtype=bool) for rule in ("implies", "excludes")}
    for d in planted_dependencies():
        given[d.rule][LABEL_NAMES.index(d.effect), LABEL_NAMES.index(d.cause)] = True
    y = train_labels.astype(np.float64)
    both = y.T @ y
    each = y.sum(axis=0)
    scores = {
        "attention": to_labels.mean(axis=0),
        **{f"attention_step_{t + 1}": step for t, step in enumerate(to_labels)},
        "cooccurrence_count": both,
        "cooccurrence_share": both / each,  # [i, j]: share of the rows with j (the cause) that have i (the effect)
        "correlation_size": np.abs(np.corrcoef(y.T)),
    }
    others = ~np.eye(n, dtype=bool)
    every = given["implies"] | given["excludes"]
    return {
        "pairs": int(every.sum()),
        "of": int(others.sum()),
        "auc": {name: auc(s[others], every[others]) for name, s in scores.items()},
        "auc_implies": {name: auc(s[others], given["implies"][others]) for name, s in scores.items()},
        "auc_excludes": {name: auc(s[others], given["excludes"][others]) for name, s in scores.items()},
    }


def measured(data_root: str | None, models: Path | None) -> dict[str, Any]:
    """Everything the page states."""
    splits = load("digits", None, SEED)
    assert splits.test is not None
    model = trained("digits", splits, models)
    truth, test = digit_truth("test", SEED), splits.test
    proba = model.proba(test.rows)
    chosen = decision_rule(model).apply(proba)
    to_input, to_labels = attention_of_test(model, test)
    digits, derived = list(LABEL_NAMES[:10]), list(LABEL_NAMES[10:])
    found: dict[str, Any] = {
        "model": {"preset": "fast", "epochs": model.metadata["epochs"], "seed": SEED, "test_rows": len(test),
                  "example_f1": round(five_metrics(test.indicator(), chosen)["example_f1"], 4)},
        "top_patch": {
            f"step_{t + 1}": {
                "digits": top_patch(to_input[:, t], truth, chosen, digits),
                "facts": top_patch(to_input[:, t], truth, chosen, derived),
            }
            for t in range(to_input.shape[1])
        },
        "planted": planted(to_labels, splits.train.indicator()),
        "interventions": measure(model, test, seed=SEED, most_rows=200).to_json(),
    }  # fmt: skip
    return found | {"bibtex_100_rows": bibtex_rows(data_root, models)}


def bibtex_rows(data_root: str | None, models: Path | None, checked: dict[str, Any] | None = None) -> dict[str, Any]:
    """How long a hundred rows take (wall-clock and processor time), and their checks."""
    bibtex = load("bibtex", data_root, SEED)
    assert bibtex.test is not None
    model = trained("bibtex", bibtex, models)
    clock, processor = time.perf_counter(), time.process_time()
    explanations = explain(model, bibtex.test, range(100))
    return {
        "seconds": round(time.perf_counter() - clock, 2),
        "processor_seconds": round(time.process_time() - processor, 2),
        "threads": torch.get_num_threads(),
        "rows": len(explanations),
        "width": model.config.model.width,
        "interventions": checked or measure(model, bibtex.test, seed=SEED, most_rows=100).to_json(),
    }


def page(found: dict[str, Any]) -> str:
    """`docs/explanations.md`: the text with every number put in from the measurement."""
    return TEXT.read_text(encoding="utf-8").replace("@@MEASURED@@", measured_section(found))


def measured_section(found: dict[str, Any]) -> str:
    """The part of the page that holds numbers."""
    model, planted_pairs = found["model"], found["planted"]
    lines = [
        f"Digit scenes, {model['test_rows']} test rows, preset `{model['preset']}`, {model['epochs']} epochs, seed "
        f"{model['seed']}; example-F1 {model['example_f1']:.3f}. All numbers come from",
        "`docs/measurements/digits_faithfulness.json`, written by `python benchmarks/explanations.py`.",
        "",
        "### Does the most attended patch hold the digit?",
        "",
        "For labels that are true and predicted. A derived label such as `has_prime` counts as right when the patch",
        "holds one of the digits that it follows from.",
        "",
        "| stage | labels | cases | top patch right | random patch | random non-blank patch |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for step, parts in found["top_patch"].items():
        for kind, r in parts.items():
            name = "digits" if kind == "digits" else "derived labels"
            lines.append(
                f"| {step[-1]}.1 | {name} | {r['cases']:,} | {r['right']:.1%} | {r['random_patch']:.1%} | "
                f"{r['random_filled_patch']:.1%} |"
            )
    areas = planted_pairs["auc"]
    rival = max(("cooccurrence_count", "cooccurrence_share", "correlation_size"), key=lambda name: areas[name])
    words = {
        "attention": "attention, mean over steps and heads",
        "cooccurrence_count": "co-occurrence: rows with both",
        "cooccurrence_share": "co-occurrence: share of the cause's rows with the effect",
        "correlation_size": "size of the correlation",
    }
    verdict = "recovers the planted rules better than" if areas["attention"] > areas[rival] else "does not beat"
    lines += [
        "",
        "### Does label-to-label attention find the planted rules?",
        "",
        f"{planted_pairs['pairs']} of {planted_pairs['of']} ordered pairs are planted: the effect should attend to its "
        "cause. Area under the ROC curve for",
        "separating them from the others; 0.5 is chance.",
        "",
        "| score of a pair | all rules | implies | excludes |",
        "|---|---:|---:|---:|",
    ]
    for name, value in areas.items():
        shown = words.get(name) or f"attention at stage {name[-1]}.2"
        lines.append(
            f"| {shown} | {value:.3f} | {planted_pairs['auc_implies'][name]:.3f} | "
            f"{planted_pairs['auc_excludes'][name]:.3f} |"
        )
    lines += [
        "",
        f"Here attention ({areas['attention']:.3f}) {verdict} the best of the co-occurrence scores "
        f"({words[rival]}, {areas[rival]:.3f}).",
        "",
        "### Do the attended parts matter to the prediction?",
        "",
        "| rows | removed | cases | most attended | random | standard error of the gap | larger than random |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    bibtex = found["bibtex_100_rows"]
    for name, checks in (("digit scenes", found["interventions"]), ("Bibtex", bibtex["interventions"])):
        for key, what in (("nodes", "input nodes"), ("labels", "label messages")):
            c = checks[key]
            if c["attended"] is None:
                lines.append(f"| {name} | {what} | 0 | not measured: {c['skipped']} | | | |")
                continue
            lines.append(
                f"| {name} | {what} | {c['cases']:,} | {100 * c['attended']:.2f} | {100 * c['random']:.2f} | "
                f"{100 * c['error']:.2f} | {c['wins']:.0%} |"
            )
    lines += [
        "",
        "In percentage points of the label's probability: how far it falls without a tenth of the nodes, and how far",
        "it moves without a tenth of the label messages.",
        "",
        "### How long does it take?",
        "",
        f"Explaining {bibtex['rows']} Bibtex rows (159 labels, width {bibtex['width']}) took "
        f"{bibtex['processor_seconds']:.1f} s of processor time",
        f"on {bibtex['threads']} thread{'s' if bibtex['threads'] > 1 else ''}; {bibtex['seconds']:.1f} s by the clock, "
        "on a machine that was also doing other work.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", help="the folder of the named data sets (else LAMPNET_DATA)")
    parser.add_argument("--models", type=Path, help="keep the trained models here and use them again")
    parser.add_argument("--page", action="store_true", help="only write the page again from the measurement")
    parser.add_argument("--timing", action="store_true", help="only measure the time again")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.timing:
        found = json.loads(MEASURED.read_text(encoding="utf-8"))
        checks = found["bibtex_100_rows"]["interventions"]
        found["bibtex_100_rows"] = bibtex_rows(given.data_root, given.models, checks)
        MEASURED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    elif not given.page:
        MEASURED.parent.mkdir(parents=True, exist_ok=True)
        MEASURED.write_text(json.dumps(measured(given.data_root, given.models), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(MEASURED.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
