"""`lampnet train`: from data to a model folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.cli import options
from lampnet.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from lampnet.pipeline.run import Resume, Run


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the model goes.")],
    data: options.DataArgument = None,
    preset: options.Preset = "fast",
    label_graph: Annotated[
        str | None,
        typer.Option(
            "--label-graph",
            metavar="edgeless|full|cooccurrence|tree|hierarchy|FILE",
            help="Which labels exchange messages; FILE has two label names per line.",
        ),
    ] = None,
    label_hierarchy: Annotated[
        Path | None,
        typer.Option(
            "--label-hierarchy",
            metavar="FILE",
            help="A label and its parent on each line: no label is predicted without its parents. They exchange "
            "messages, unless --label-graph says otherwise.",
        ),
    ] = None,
    label_descriptions: Annotated[
        Path | None,
        typer.Option(
            "--label-descriptions",
            metavar="FILE",
            help="What labels mean, for --pretrained: a label and a text on each line, or a JSON object.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            "--features",
            metavar="embed|message-passing",
            help="Whether input nodes first exchange messages among themselves.",
        ),
    ] = None,
    pretrained: Annotated[
        str | None,
        typer.Option(
            "--pretrained",
            metavar="DIR|auto|static",
            help="A text encoder whose pooled states base learners read beside tf-idf, and whose tokens are nodes: a "
            "local Hugging Face folder, or auto for an installed package's; static for wordllama's quick table.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over the training rows.")] = None,
    time_budget: Annotated[
        str | None, typer.Option("--time-budget", metavar="10m", help="Stop after this time.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="For splits, initial weights and row order.")] = None,
    settings: options.Settings = None,
    start: Annotated[
        Path | None,
        typer.Option("--start", metavar="MODEL", help="Learn on from this model; DATA are rows that it has not seen."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the training in DIR.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the model in DIR, or start its unfinished training again.")
    ] = False,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    encoding: options.Encoding = None,
    group_column: options.GroupColumn = None,
    time_column: options.TimeColumn = None,
    weight_column: options.WeightColumn = None,
    label_weight: Annotated[
        str | None,
        typer.Option(
            "--label-weight",
            metavar="balanced|FILE|NAME=WEIGHT,...",
            help="What labels count beside each other; balanced: the same, however many rows have them.",
        ),
    ] = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing while training.")] = False,
) -> int:
    """Train a model and write it to a folder."""
    from lampnet.config import Config, feature_steps
    from lampnet.pipeline.run import Resume, Run, holds_run
    from lampnet.readers.label_edges import HIERARCHY
    from lampnet.runtime.durations import seconds_of

    if resume and overwrite:
        raise ConfigError("--resume continues what DIR holds, --overwrite drops it; give one of them")
    if resume and data is None and not holds_run(out):
        raise CheckpointError(f"{out} holds no training to resume; check the folder, or give DATA to start one there")
    changes: dict[str, object] = dict(options.settings_of(settings))
    if features is not None:
        changes["model.feature_steps"] = feature_steps(features)
    given = {"training.epochs": epochs, "training.seed": seed, "input.pretrained": pretrained}
    given["input.pretrained_use"] = None if pretrained is None else "tokens"
    changes |= {name: value for name, value in given.items() if value is not None}
    config = Config.preset(preset).updated(changes)
    if start is not None:
        about_labels: dict[str, object] = {"--label-graph": label_graph, "--label-hierarchy": label_hierarchy}
        about_labels["--label-descriptions"] = label_descriptions
        _check_start(start, out, data, about_labels, changes)
    named = (data, label_graph, label_hierarchy, label_descriptions, label_weight, start)
    anything = bool(changes) or any(given is not None for given in named) or preset != "fast"
    keep_budget = time_budget is None and "training.time_budget" not in changes
    if time_budget is not None:
        config = config.updated({"training.time_budget": seconds_of(time_budget)})
    own_graph = config.label_graph if label_hierarchy is None or "label_graph" in changes else HIERARCHY
    asked = Run(
        source=options.source_of(
            data,
            data_root,
            labels,
            columns,
            text_column,
            label_columns,
            on_bad_row,
            group_column=group_column,
            time_column=time_column,
            weight_column=weight_column,
            encoding=encoding,
        ),
        config=config,
        label_graph=label_graph or own_graph,
        label_weight=label_weight,
        label_hierarchy=None if label_hierarchy is None else str(label_hierarchy),
        label_descriptions=None if label_descriptions is None else str(label_descriptions),
        start=None if start is None else str(start),
    )
    how = Resume(any_run=not anything, keep_budget=keep_budget) if resume else None
    return _train(asked, out, how, overwrite, quiet)


def _check_start(
    start: Path, out: Path, data: str | None, about_labels: dict[str, object], changes: dict[str, object]
) -> None:
    """Refuse what a model to learn on from leaves no choice about."""
    if data is None:
        raise ConfigError("--start learns from more rows; give DATA with rows that the model has not seen")
    if out.resolve() == start.resolve():
        raise ConfigError(f"--start and --out are both {start}; give another folder for the new model")
    fixed = [option for option, given in about_labels.items() if given is not None]
    fixed += [name for name in changes if name.partition(".")[0] in ("model", "input", "known")]
    if fixed:
        raise ConfigError(f"{fixed[0]} is as the model in {start} was trained; leave it out, or train without --start")


def _train(asked: Run, out: Path, how: Resume | None, overwrite: bool, quiet: bool) -> int:
    from rich.console import Console

    from lampnet.cli.display import TrainingDisplay, score_table
    from lampnet.pipeline.run import AlreadyFinished, train_into
    from lampnet.runtime import distributed
    from lampnet.training.progress import Stopped

    with distributed.joined() as team, TrainingDisplay(asked.config.training, quiet or not team.leads) as display:
        try:
            outcome = train_into(asked, out, how, overwrite, display.event, display.log, display.phase)
        except AlreadyFinished:
            display.log(f"the training has finished already; the model is in {out} (--overwrite trains it again)")
            return 0
        except Stopped as stopped:
            kept = "the best model so far is saved" if stopped.model is not None else "nothing was learned yet"
            if team.leads:
                again = shlex.join(["lampnet", "train", "--out", str(out), "--resume"])
                display.warn(f"stopped in epoch {stopped.progress.epoch + 1}; {kept}; continue with: {again}")
            return 128 + int(stopped.signal_number)
    display.log(f"{outcome.model.metadata['status']}; the model is in {out}")
    if not quiet and team.leads:
        Console(soft_wrap=True).print(score_table("held-out rows", outcome.scores))
        # All rows of a single file were trained on: there is nothing to evaluate on.
        scored = [] if outcome.source.named else [outcome.source.data]
        then = ["evaluate", str(out), *scored] if outcome.has_test else ["predict", str(out), "INPUT"]
        typer.echo(f"next: {shlex.join(['lampnet', *then])}")
    return 0
