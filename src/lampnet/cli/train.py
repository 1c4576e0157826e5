"""`lampnet train`: from data to a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.cli.options import (
    Columns,
    DataArgument,
    DataRoot,
    LabelColumns,
    LabelsFile,
    OnBadRow,
    TextColumn,
    settings_of,
    source_of,
)

if TYPE_CHECKING:
    from lampnet.run_folder import Run


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the model goes.", show_default=False)],
    data: DataArgument = None,
    preset: Annotated[
        str, typer.Option("--preset", metavar="fast|paper", help="Which settings to start from.")
    ] = "fast",
    label_graph: Annotated[
        str | None,
        typer.Option(
            "--label-graph",
            metavar="edgeless|full|cooccurrence|tree|FILE",
            help="Which labels exchange messages; FILE has two label names a line.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="embed|message-passing",
            help="Whether input nodes exchange messages among themselves first.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Rounds over the training rows.", show_default=False)
    ] = None,
    time_budget: Annotated[
        str | None, typer.Option("--time-budget", metavar="10m", help="Stop after this time.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Draws splits, start and order.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting, e.g. model.width=256.", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the training that DIR holds.")] = False,
    data_root: DataRoot = None,
    labels: LabelsFile = None,
    columns: Columns = None,
    text_column: TextColumn = None,
    label_columns: LabelColumns = None,
    on_bad_row: OnBadRow = "error",
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing while training.")] = False,
) -> int:
    """Train a model and write it to a folder."""
    from lampnet.config import Config
    from lampnet.duration import seconds_of
    from lampnet.run_folder import Run, feature_steps

    changes: dict[str, object] = dict(settings_of(settings))
    if features is not None:
        changes["model.feature_steps"] = feature_steps(features)
    if epochs is not None:
        changes["training.epochs"] = epochs
    if seed is not None:
        changes["training.seed"] = seed
    config = Config.preset(preset).updated(changes)
    anything = bool(changes or data or label_graph or preset != "fast")
    if time_budget is not None:
        config = config.updated({"training.time_budget": seconds_of(time_budget)})
    asked = Run(
        source=source_of(data, data_root, labels, columns, text_column, label_columns, on_bad_row),
        config=config,
        label_graph=label_graph or config.label_graph,
    )
    return _train(asked, out, resume, any_run=not anything, quiet=quiet)


def _train(asked: Run, out: Path, resume: bool, any_run: bool, quiet: bool) -> int:
    from rich.console import Console

    from lampnet import distributed
    from lampnet.cli.display import TrainingDisplay, score_table
    from lampnet.run_folder import train_into
    from lampnet.training import Stopped

    with distributed.joined() as team, TrainingDisplay(asked.config.training, quiet or not team.leads) as display:
        try:
            outcome = train_into(asked, out, resume=resume, any_run=any_run, callback=display.event, say=display.say)
        except Stopped as stopped:
            kept = "the best model so far is there" if stopped.model is not None else "no epoch was finished yet"
            if team.leads:
                display.warn(
                    f"stopped in epoch {stopped.progress.epoch + 1}; {kept}; "
                    f"go on with: lampnet train --out {out} --resume"
                )
            return 128 + int(stopped.signal_number)
    display.say(f"{outcome.model.facts['status']}; the model is in {out}")
    if not quiet and team.leads:
        Console(soft_wrap=True).print(score_table("rows that were not learned from", outcome.scores))
        typer.echo(f"next: lampnet evaluate {out}")
    return 0
