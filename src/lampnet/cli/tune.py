"""`lampnet tune`: search for better settings on validation rows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli import options


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the search.")],
    data: options.DataArgument = None,
    time_budget: Annotated[
        str | None, typer.Option("--time-budget", metavar="60m", help="Time for the search (60m).")
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", help="Trials of the search in all.")] = None,
    metric: Annotated[
        str, typer.Option("--metric", help="The score to maximise: mean_f1, a metric, or roc_auc_macro.")
    ] = "mean_f1",
    seed: Annotated[int, typer.Option("--seed", help="Of splits, initial weights and the order of rows.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting for all trials.")
    ] = None,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log nothing while searching.")] = False,
) -> int:
    """Try settings with Optuna, on validation rows only; run it again to continue where it stopped."""
    from lampnet.experiments.tune import BEST, Search, tune
    from lampnet.runtime.durations import seconds_of
    from lampnet.training.progress import Stopped

    log = options.log_unless(quiet)
    if time_budget is None and trials is None:
        time_budget = "60m"
    search = Search(metric, 0.0 if time_budget is None else seconds_of(time_budget), trials, seed)
    source = options.source_of(
        data, data_root, labels, columns, text_column, label_columns, on_bad_row, encoding=encoding
    )
    splits = source.splits(seed, log)
    try:
        found = tune(splits, out, search, options.settings_of(settings), log)
    except Stopped as stopped:
        options.log(f"lampnet: stopped; run the same command to continue, {out / BEST} has the best so far")
        return 128 + int(stopped.signal_number)
    before = "" if found.default is None else f", the default settings {found.default:.4f}"
    typer.echo(f"best of {found.trials} trials: validation {found.metric} {found.value:.4f}{before}")
    typer.echo(found.flags())
    chosen = [part for name, value in found.settings.items() for part in ("--set", f"{name}={value}")]
    train = ["lampnet", "train", *options.source_arguments(source), "--out", "MODEL", "--seed", str(seed), *chosen]
    typer.echo(f"next: {shlex.join(train)}")
    return 0
