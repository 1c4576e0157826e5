"""`lampnet evaluate`: the scores of a model on rows whose labels are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lampnet.cli import options
from lampnet.errors import DataError, LampnetError

if TYPE_CHECKING:
    from lampnet.readers.sources import Source


def command(
    model: options.ModelArgument,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="A data set's name, a folder or a file; none means the data of the training."
        ),
    ] = None,
    split: options.Split = "test",
    as_json: options.AsJson = False,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            "--known",
            metavar="REGIME",
            help="Also score with labels revealed, at random: positives:1, positives:3, share:25, ...; several times.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the labels that --known reveals.")] = 0,
) -> None:
    """Score a model by the five metrics, each at its stored threshold; by default on the data of the training."""
    from lampnet.evaluation.known_regimes import Regime
    from lampnet.evaluation.scores import all_scores
    from lampnet.inference.known_labels import scores_given_known
    from lampnet.inference.logits import probabilities
    from lampnet.inference.match_schema import as_trained, match_rows
    from lampnet.persistence.model_folder import load_model
    from lampnet.readers.sources import Source
    from lampnet.runtime import distributed

    regimes = [Regime.read(text) for text in known or []]
    fitted = load_model(model)
    if regimes:
        fitted.given_known()  # a model that cannot take known labels says so before anything is read
    source = options.source_of(data, data_root, labels, columns, text_column, label_columns, on_bad_row)
    described = fitted.metadata.get("source")
    if isinstance(described, dict) and (data is None or described.get("data") == source.to_json()["data"]):
        try:
            trained_on = Source(**described, root=data_root)
        except TypeError:
            raise DataError(f"{model} does not state what it was trained on; give the data") from None
        source = replace(
            trained_on,
            columns=source.columns,
            labels=labels or trained_on.labels,
            on_bad_row="skip" if on_bad_row == "skip" else trained_on.on_bad_row,
        )
    elif data is None:
        raise DataError(f"{model} does not state what it was trained on; give the data after the model's folder")
    part = as_trained(fitted, source).part(split, fitted.config.training.seed, options.log)
    rows = match_rows(fitted, part)
    split = _part_of_training(described, source) or split
    if rows.labels is None:
        raise DataError(f"{source.data}: the rows have no labels, so there is nothing to compare with")
    with distributed.joined() as team:  # several processes share the rows; the first one prints
        truth, logits = rows.indicator(), fitted.logits(rows.rows, rows.row_edges)
    if not team.leads:
        return
    scores = all_scores(truth, probabilities(logits), fitted.decisions)
    if regimes:
        scores["known"] = [scores_given_known(fitted, regime, truth, logits, seed) for regime in regimes]
    if split != "test":
        options.log(
            f"lampnet: warning: the model may have been trained on the {split} rows, so the scores are too good; "
            "give rows that it has not seen"
        )
    if as_json:
        head = {"dataset": rows.name, "split": split, "rows": len(rows), "labels": len(rows.label_names)}
        typer.echo(json.dumps(head | scores))
        return
    from rich.console import Console

    from lampnet.cli.display import known_table, score_table

    console = Console(soft_wrap=True)
    console.print(score_table(f"{rows.name}, {split}: {len(rows)} rows, {len(rows.label_names)} labels", scores))
    ranking = scores["ranking"]
    shown = [f"{name.replace('_', ' ')} {value:.4f}" for name, value in ranking.items() if isinstance(value, float)]
    console.print("without a decision rule: " + ", ".join(shown), markup=False)
    if regimes:
        console.print(known_table(scores["known"]))


def _part_of_training(known: Any, source: Source) -> str | None:
    """Which part of the training's data this file is; None for another file, or none."""
    from lampnet.readers.any_format import find_parts

    rows, trained_on = Path(source.data), Path(str(known.get("data"))) if isinstance(known, dict) else None
    if trained_on is None or source.named or not rows.is_file():
        return None
    try:
        files = {"train": trained_on} if trained_on.is_file() else find_parts(trained_on)
    except LampnetError:  # the data of the training is no longer there
        return None
    return next((part for part, file in files.items() if file.samefile(rows)), None)
