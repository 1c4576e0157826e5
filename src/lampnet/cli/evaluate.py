"""`lampnet evaluate`: the scores of a model on rows whose labels are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lampnet.cli import options
from lampnet.cli.training_rows import part_of_training
from lampnet.errors import DataError

#: the labels' own scores are those of the label sets that are best for this metric
LABEL_METRIC = "example_f1"
#: a table by label is printed for so many labels
LABELS_PRINTED = 40

if TYPE_CHECKING:
    from lampnet.readers.sources import Source


def command(
    model: options.ModelArgument,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="A data set's name, a folder or a file; none means the named data set of the training."
        ),
    ] = None,
    split: options.Split = "test",
    as_json: options.AsJson = False,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    pretrained: options.Pretrained = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            "--known",
            metavar="REGIME",
            help="Also score with labels revealed, at random: positives:1, positives:3, share:25, ...; several times.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the labels that --known reveals.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Also write a page of all scores, report.html, into DIR."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the page that DIR holds.")] = False,
    decision: options.Decision = None,
) -> None:
    """Score a model by the five metrics, each at its stored threshold; by default on the data of the training."""
    import numpy as np

    from lampnet.evaluation.known_regimes import Regime
    from lampnet.explain.report.score_page import write_score_page
    from lampnet.inference.known_labels import scores_given_known
    from lampnet.inference.match_schema import as_trained, match_rows, with_label_edits
    from lampnet.inference.row_scores import row_scores
    from lampnet.persistence.model_folder import load_model
    from lampnet.runtime import distributed

    if decision is not None:
        options.check_decision(decision, False)
    regimes = [Regime.read(text) for text in known or []]
    fitted = load_model(model, pretrained)
    if regimes:
        fitted.given_known()  # a model that cannot take known labels says so before anything is read
    source = options.source_of(
        data, data_root, labels, columns, text_column, label_columns, on_bad_row, encoding=encoding
    )
    described = fitted.metadata.get("source")
    source = _as_in_training(described, model, source, is_given=data is not None)
    part = as_trained(fitted, source).part(split, fitted.config.training.seed, options.log)
    part, edited = with_label_edits(fitted, part)
    if edited:
        options.log(edited)
    rows = match_rows(fitted, part)
    split = part_of_training(described, source) or split
    if rows.labels is None:
        raise DataError(f"{source.data}: the rows have no labels, so there is nothing to compare with")
    with distributed.joined() as team:  # several processes share the rows; the first one prints
        truth, logits = rows.indicator(), fitted.logits(rows.rows, rows.row_edges)
    if not team.leads:
        return
    if fitted.hierarchy is not None:
        given, truth = truth, fitted.hierarchy.truth_with_parents(truth)
        lacking = int((np.nan_to_num(truth) != np.nan_to_num(given)).any(axis=1).sum())
        if lacking:
            options.log(f"label hierarchy: {lacking} rows have a label without its parents, which are added")
    head = {"dataset": rows.name, "split": split, "rows": len(rows), "labels": len(rows.label_names)}
    scores, calibration = row_scores(fitted, truth, logits, LABEL_METRIC, decision)
    if regimes:
        scores["known"] = [scores_given_known(fitted, regime, truth, logits, seed) for regime in regimes]
    if split != "test":
        options.log(
            f"lampnet: warning: the model may have been trained on the {split} rows, so the scores are too good; "
            "give rows that it has not seen"
        )
    if out is not None:
        page = write_score_page(out, f"{rows.name}, {split}", head | scores, overwrite)
        options.log(f"the report is in {page}")
    if as_json:
        typer.echo(json.dumps(head | scores))
        return
    from rich.console import Console

    from lampnet.cli.display import known_table, label_table, score_table

    console = Console(soft_wrap=True)
    console.print(score_table(f"{rows.name}, {split}: {len(rows)} rows, {len(rows.label_names)} labels", scores))
    ranking = scores["ranking"]
    shown = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in ranking.items() if isinstance(value, float)]
    console.print("without a decision rule: " + ", ".join(shown), markup=False)
    console.print(f"calibration: {calibration.describe()}", markup=False)
    if "promise" in scores:
        kept = ", ".join(f"{name} {scores['promise'][name]:.4f}" for name in ("recall", "precision"))
        console.print(f"{decision}: {kept} at threshold {scores['promise']['threshold']:.4f}", markup=False)
    if len(rows.label_names) <= LABELS_PRINTED:
        console.print(label_table(scores["by_label"], scores["label_sets"]))
    elif out is None:
        options.log("--out DIR writes a page with the scores of every label and what labels are taken for")
    if regimes:
        console.print(known_table(scores["known"]))


def _as_in_training(known: Any, model: Path, source: Source, is_given: bool) -> Source:
    """The data to score, read as in the training where it is the training's.

    A model folder may come from anywhere, so no path that only the folder names is opened: neither data that was not
    asked for, nor a file of label names that does not lie beside the data.
    """
    known = known if isinstance(known, dict) else {}
    trained_on = known.get("data")
    if not isinstance(trained_on, str):
        trained_on = None
    if not is_given:
        source = replace(source, data=trained_on or "")
        if not source.named:
            stated = f"was trained on {trained_on!r:.300}" if trained_on else "does not state what it was trained on"
            raise DataError(f"{model} {stated}; give the data to score it on after the model's folder")
    if source.to_json()["data"] != trained_on:
        return source
    names = known.get("labels")
    if source.labels is None and isinstance(names, str) and not source.named:
        rows = Path(source.data).resolve()
        if Path(names).parent != (rows if rows.is_dir() else rows.parent):
            raise DataError(f"{model} was trained with the label names of {names!r:.300}; give them with --labels FILE")
        source = replace(source, labels=names)
    skips = "skip" in (source.on_bad_row, known.get("on_bad_row"))
    return replace(source, on_bad_row="skip" if skips else "error")
