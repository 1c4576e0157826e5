"""The model card: what a model was trained on, how well it does, and what it does not promise."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lampnet.encoders.pretrained_folder import PACKAGES
from lampnet.evaluation.metrics import METRICS
from lampnet.inference.predictor import FittedModel

LABELS_SHOWN = 50
#: how model hubs call what a kind of rows is for, and the metrics that they know
TASKS = {"text": "text-classification", "columns": "tabular-classification", "image": "image-classification"}
KNOWN_METRICS = {"subset_accuracy": "accuracy", "example_f1": "f1", "micro_f1": "f1", "macro_f1": "f1"}


def model_card(model: FittedModel) -> str:
    """Markdown for the README.md of a model folder."""
    metadata, config = model.metadata, model.config
    lines = [
        *_front_matter(model),
        f"# A lampnet model for {_plain(metadata.get('data', 'unnamed data'))}",
        "",
        "Predicts sets of labels by Label Message Passing. Load it with `LaMPClassifier.load(folder)` or use",
        "`lampnet predict`, `lampnet evaluate` and `lampnet explain` on the folder. Loading executes no code.",
        "",
        "## Data",
        "",
        f"- rows of kind `{model.encoder.kind}`; {len(model.label_names)} labels",
        *_hierarchy_line(model),
        *_pretrained_line(model),
        _rows(metadata.get("rows", {}), metadata.get("folds", 1)),
        f"- seed {config.training.seed} for the split and the initial weights",
        "",
        "## Training",
        "",
        f"- preset `{_plain(config.preset_name)}`, label graph `{_plain(config.label_graph)}`, width "
        f"{config.model.width}, {config.model.steps} steps, {config.model.heads} heads, "
        f"feature steps {config.model.feature_steps}, base learners: {', '.join(config.model.base_learners) or 'none'}",
        f"- {metadata.get('minutes', '?')} minutes ({_plain(metadata.get('status', 'finished'))}); "
        f"{metadata.get('networks_trained', '?')} networks of up to {metadata.get('epochs', '?')} epochs, the best by "
        f"{_plain(config.training.metric)} on held-out rows; {metadata.get('networks', '?')} with "
        f"{metadata.get('weights', '?')} weights are in the model",
        *_stack_lines(metadata, model.network_weight > 0),
        "",
        "## Scores on held-out rows, and the decision rules chosen there",
        "",
        "| metric | score at the threshold | threshold | best decision rule |",
        "|---|---|---|---|",
    ]
    scores = metadata.get("valid_scores", {})
    for metric in METRICS:
        score, rule = scores.get(metric), model.decisions.paper[metric]
        shown = f"{score:.4f}" if isinstance(score, float) else "?"
        lines.append(f"| {metric} | {shown} | {rule.value:g} | {model.decisions.best[metric].describe()} |")
    lines += [
        *_calibration_lines(metadata.get("calibration"), model.calibration is not None),
        "",
        "## Limits",
        "",
        "- The thresholds were chosen on the same held-out rows as the scores above, so these scores are slightly",
        "  optimistic. Measure on rows that were never used with `lampnet evaluate`.",
        "- A label without training rows cannot be predicted; a rare one is predicted poorly.",
        "- Probabilities follow the label priors of the training rows; where those differ, choose new decision rules.",
        "- Attention shows what the network read, which is not always why it decided.",
        "",
        "## Labels",
        "",
        ", ".join(f"`{_plain(name)}`" for name in model.label_names[:LABELS_SHOWN])
        + (f" and {len(model.label_names) - LABELS_SHOWN} more" if len(model.label_names) > LABELS_SHOWN else ""),
        "",
    ]
    return "\n".join(lines)


def _front_matter(model: FittedModel) -> list[str]:
    """Metadata as model hubs read it: YAML, of which JSON is a part, so that no name can break it."""
    name = _plain(model.metadata.get("data", "unnamed data"))
    scores = model.metadata.get("valid_scores", {})
    measured = [
        {"type": KNOWN_METRICS.get(metric, metric), "name": f"{metric} on held-out rows", "value": round(score, 4)}
        for metric in METRICS
        if isinstance(score := scores.get(metric), float) and math.isfinite(score)
    ]
    task = {"type": TASKS.get(model.encoder.kind, "other"), "name": "multi-label classification"}
    result = {"task": task, "dataset": {"type": name, "name": name}, "metrics": measured}
    fields: dict[str, Any] = {
        "library_name": "lampnet",
        "license": "unknown",  # that of the data decides, which lampnet does not know
        "tags": ["lampnet", "multi-label-classification", "label-message-passing", model.encoder.kind],
        "metrics": sorted({one["type"] for one in measured}),
        "model-index": [{"name": f"lampnet on {name}", "results": [result]}],
    }
    if model.encoder.kind in TASKS:
        fields["pipeline_tag"] = TASKS[model.encoder.kind]
    return ["---", *(f"{key}: {json.dumps(value)}" for key, value in fields.items()), "---", ""]


def _stack_lines(metadata: Mapping[str, Any], counts: bool) -> list[str]:
    """What the base learners reach alone, and what the network adds to them."""
    stack, gain = metadata.get("stack_scores"), metadata.get("network_gain")
    if not isinstance(stack, Mapping):
        return []
    alone = ", ".join(f"{metric} {stack[metric]:.4f}" for metric in METRICS if isinstance(stack.get(metric), float))
    lines = [f"- the base learners alone, stacked, by their best decisions on held-out rows: {alone}"]
    if isinstance(gain, Mapping):
        added = ", ".join(f"{name} {value:+.4f}" for name, value in gain.items() if isinstance(value, float))
        lines.append(f"- the network adds {added} (90% interval of the mean {gain.get('interval')}): ")
        lines[-1] += "it is kept" if counts else "not clearly better, so it does not enter the predictions"
    return lines


def _calibration_lines(measured: Any, changed: bool) -> list[str]:
    """How well the probabilities are calibrated."""
    if not isinstance(measured, Mapping):
        return []
    how = (
        "calibrated on out-of-fold rows"
        if changed
        else "as the model gives them: calibration was no better on held-out rows"
    )
    named = {"ece": "of all", "ece_above_.01": "of those above .01", "ece_by_chance": "by chance alone above .01"}
    errors = ", ".join(f"{measured[key]:.4f} {name}" for key, name in named.items() if _is_number(measured.get(key)))
    lines = ["", "## Probabilities", "", f"- {how}; expected calibration error on held-out rows: {errors}"]
    if _is_number(measured.get("brier")):
        lines.append(f"- Brier score {measured['brier']:.4f}")
    bins = measured.get("bins")
    if not isinstance(bins, list):
        return lines
    lines += ["", "| probabilities above .01, mean | true | (row, label) pairs |", "|--:|--:|--:|"]
    for one in bins:
        if isinstance(one, Mapping) and all(_is_number(one.get(key)) for key in ("mean_p", "true", "pairs")):
            lines.append(f"| {one['mean_p']:.3f} | {one['true']:.3f} | {one['pairs']} |")
    return lines


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _pretrained_line(model: FittedModel) -> list[str]:
    """The name of a pretrained text encoder, without the rest of its path, and its digest."""
    named = model.config.input.pretrained
    digest = model.encoder.state().get("encoder_sha256") if named else None
    if digest is None:
        return []
    name = "of an installed package" if named in PACKAGES else f"`{_plain(Path(named).name)}`"
    return [f"- reads the pretrained text encoder {name}, SHA-256 `{digest}`; no other is accepted"]


def _hierarchy_line(model: FittedModel) -> list[str]:
    if model.hierarchy is None:
        return []
    return [f"- label hierarchy: {len(model.hierarchy.edges)} pairs; no label is predicted without its parents"]


def _rows(rows: Any, folds: Any) -> str:
    if folds == 1:
        return f"- {rows.get('train', '?')} training and {rows.get('valid', '?')} validation rows; no test row was used"
    return (
        f"- {rows.get('train', '?')} training rows in {folds} folds, each scored by models that did not learn from it; "
        "no test row was used"
    )


def _plain(value: Any) -> str:
    """Names come from untrusted files: one line, no markup.

    >>> _plain("a`b|<i>")
    'a b i'
    """
    cleaned = "".join(c if c.isprintable() and c not in "`|<>[]\\" else " " for c in str(value)[:200])
    return " ".join(cleaned.split())
