"""`lampnet complete`: fill half-labelled rows with probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.cli import options
from lampnet.errors import ConfigError, DataError

if TYPE_CHECKING:
    from lampnet.data.dataset import Dataset
    from lampnet.inference.predictor import FittedModel
    from lampnet.pipeline.complete import Completed


def command(
    data: options.InputArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="What to write: .jsonl or .csv.")],
    model: Annotated[
        Path | None, typer.Option("--model", metavar="MODEL", help="A model folder; none learns from DATA itself.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="quick|fast|paper", help="Without MODEL: which settings to start from."),
    ] = None,
    settings: options.Settings = None,
    split: options.Split = "train",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE.")] = False,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing while training.")] = False,
) -> int:
    """Fill unknown labels: what is known stays, the rest gets its probability given the input and what is known.

    Without a model, each row is filled by what was learned from the others.
    """
    from lampnet.inference.match_schema import as_trained, match_rows
    from lampnet.persistence.completed_file import check_completed_target, write_completed
    from lampnet.persistence.model_folder import load_model
    from lampnet.pipeline.complete import complete_by_model
    from lampnet.training.progress import Stopped

    check_completed_target(out, overwrite)
    if model is not None and (preset is not None or settings):
        raise ConfigError("--preset and --set are for a training, but --model gives a trained model; leave them out")
    source = options.source_of(
        data, data_root, labels, columns, text_column, label_columns, on_bad_row, encoding=encoding
    )
    if model is not None:
        fitted: FittedModel = load_model(model)
        fitted.given_known()  # a model that cannot take known labels says so before anything is read
        rows = match_rows(fitted, as_trained(fitted, source).part(split, 0, options.log_unless(quiet)))
        _check_labels(rows)
        found = complete_by_model(fitted, rows)
    else:
        rows = source.part(split, 0, options.log_unless(quiet))
        _check_labels(rows)
        try:
            found = _learned(rows, preset or "quick", settings, quiet)
        except Stopped as stopped:
            options.log("lampnet: stopped; nothing was written")
            return 128 + int(stopped.signal_number)
    ids = rows.ids or tuple(map(str, range(len(rows))))
    write_completed(out, ids, rows.label_names, found.proba, found.chosen, overwrite)
    assert rows.labels is not None
    unknown = int((rows.labels.data != rows.labels.data).sum())
    typer.echo(f"{unknown:,} unknown labels of {len(rows):,} rows are filled in {out}")
    return 0


def _learned(rows: Dataset, preset: str, settings: list[str] | None, quiet: bool) -> Completed:
    from lampnet.cli.display import TrainingDisplay
    from lampnet.config import Config
    from lampnet.pipeline.complete import complete_by_themselves
    from lampnet.pipeline.control import FitRun

    config = Config.preset(preset).updated(options.settings_of(settings))
    with TrainingDisplay(config.training, quiet) as display:
        run = FitRun(callback=display.event, log=display.log, phase=display.phase)
        return complete_by_themselves(rows, config, run)


def _check_labels(rows: Dataset) -> None:
    if rows.labels is None:
        raise DataError(f"{rows.name}: the rows have no labels; use lampnet predict where nothing is known of any row")
