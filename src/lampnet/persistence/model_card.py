"""The model card: what a model was trained on, how well it does, and what it does not promise."""

from __future__ import annotations

from typing import Any

from lampnet.evaluation.metrics import METRICS
from lampnet.inference.predictor import FittedModel

LABELS_SHOWN = 50


def model_card(model: FittedModel) -> str:
    """Markdown for the README.md of a model folder."""
    facts, config = model.metadata, model.config
    rows = facts.get("rows", {})
    lines = [
        f"# A lampnet model for {_plain(facts.get('data', 'unnamed data'))}",
        "",
        "Predicts sets of labels by Label Message Passing. Load it with `LaMPClassifier.load(folder)` or use",
        "`lampnet predict`, `lampnet evaluate` and `lampnet explain` on the folder. Loading executes no code.",
        "",
        "## Data",
        "",
        f"- rows of kind `{model.encoder.kind}`; {len(model.label_names)} labels",
        _rows(rows, facts.get("networks", 1)),
        f"- split and start were drawn with seed {config.training.seed}",
        "",
        "## Training",
        "",
        f"- preset `{_plain(config.preset_name)}`, label graph `{_plain(config.label_graph)}`, width "
        f"{config.model.width}, {config.model.steps} steps, {config.model.heads} heads, "
        f"feature steps {config.model.feature_steps}, base learners: {', '.join(config.model.base_learners) or 'none'}",
        f"- {facts.get('epochs', '?')} epochs in {facts.get('minutes', '?')} minutes "
        f"({_plain(facts.get('status', 'finished'))}); the best was epoch {facts.get('best_epoch', '?')} by "
        f"{_plain(config.training.metric)} on rows that were not learned from",
        f"- {facts.get('weights', '?')} weights",
        "",
        "## Scores on rows that were not learned from, and the decisions chosen there",
        "",
        "| metric | score at the threshold | threshold | best decision |",
        "|---|---|---|---|",
    ]
    scores = facts.get("valid_scores", {})
    for metric in METRICS:
        score, rule = scores.get(metric), model.decisions.paper[metric]
        shown = f"{score:.4f}" if isinstance(score, float) else "?"
        lines.append(f"| {metric} | {shown} | {rule.value:g} | {model.decisions.best[metric].describe()} |")
    lines += [
        "",
        "## Limits",
        "",
        "- The thresholds were chosen on the rows of the scores above, which are a little too good therefore:",
        "  measure on rows that were never used with `lampnet evaluate`.",
        "- A label that the training rows did not have cannot be predicted; a rare one is predicted poorly.",
        "- Probabilities follow the label priors of the training rows; where those differ, choose new decisions.",
        "- Attention shows what the network read, which is not always why it decided.",
        "",
        "## Labels",
        "",
        ", ".join(f"`{_plain(name)}`" for name in model.label_names[:LABELS_SHOWN])
        + (f" and {len(model.label_names) - LABELS_SHOWN} more" if len(model.label_names) > LABELS_SHOWN else ""),
        "",
    ]
    return "\n".join(lines)


def _rows(rows: Any, networks: Any) -> str:
    if networks == 1:
        return f"- {rows.get('train', '?')} training and {rows.get('valid', '?')} validation rows; no test row was used"
    return (
        f"- {rows.get('train', '?')} training rows; a committee of {networks} networks, each of which learned from all "
        "but one part of them and was checked on that part; no test row was used"
    )


def _plain(value: Any) -> str:
    """Names come from strangers' files: one line, no markup.

    >>> _plain("a`b|<i>")
    'a b i'
    """
    cleaned = "".join(c if c.isprintable() and c not in "`|<>[]\\" else " " for c in str(value)[:200])
    return " ".join(cleaned.split())
