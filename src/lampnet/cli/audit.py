"""`lampnet audit`: which given labels look wrong, and which are missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli import options


def command(
    data: options.InputArgument,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write.")],
    preset: options.Preset = "quick",
    most: Annotated[int, typer.Option("--most", min=1, help="How many findings to list.")] = 1000,
    split: options.Split = "train",
    seed: Annotated[int | None, typer.Option("--seed", help="For folds, initial weights and row order.")] = None,
    time_budget: Annotated[
        str | None, typer.Option("--time-budget", metavar="10m", help="Fit the models within this time.")
    ] = None,
    settings: options.Settings = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the audit that DIR holds.")] = False,
    as_json: options.AsJson = False,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
) -> int:
    """List the given labels that look wrong or missing: a table (CSV, JSON) and a page to go through them.

    Each label is predicted from the row's input and its other labels, by what was learned without the row.
    """
    from lampnet.cli.display import TrainingDisplay
    from lampnet.config import Config
    from lampnet.explain.report.audit_folder import check_audit_target, write_audit
    from lampnet.pipeline.audit import audit
    from lampnet.pipeline.control import FitRun
    from lampnet.runtime.durations import seconds_of
    from lampnet.training.progress import Stopped

    check_audit_target(out, overwrite)
    changes: dict[str, object] = dict(options.settings_of(settings))
    changes |= {} if seed is None else {"training.seed": seed}
    changes |= {} if time_budget is None else {"training.time_budget": seconds_of(time_budget)}
    config = Config.preset(preset).updated(changes)
    source = options.source_of(
        data, data_root, labels, columns, text_column, label_columns, on_bad_row, encoding=encoding
    )
    rows = source.part(split, config.training.seed, options.log_unless(as_json))
    with TrainingDisplay(config.training, quiet=as_json) as display:
        run = FitRun(callback=display.event, log=display.log, phase=display.phase)
        try:
            found = audit(rows, config, run, most)
        except Stopped as stopped:
            display.warn("stopped; nothing was written")
            return 128 + int(stopped.signal_number)
    files = write_audit(found, rows, out, overwrite)
    kinds = {kind: sum(one.kind == kind for one in found.findings) for kind in ("missing", "wrong")}
    if as_json:
        head = {"dataset": rows.name, "rows": len(rows), "labels": len(rows.label_names), **kinds}
        typer.echo(json.dumps(head | {"findings": [one.to_json() for one in found.findings]}))
        return 0
    typer.echo(f"{kinds['missing']:,} labels may be missing, {kinds['wrong']:,} may be wrong, the likeliest first")
    typer.echo(f"open {files.page} in a browser")
    typer.echo(f"tables: {files.table}, {files.data}")
    return 0
