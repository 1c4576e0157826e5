"""`lampnet prepare`: encode rows once into memory-mapped arrays that trainings read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli.options import (
    Columns,
    DataRoot,
    LabelColumns,
    LabelsFile,
    OnBadRow,
    Preset,
    Settings,
    TextColumn,
    log,
    settings_of,
    source_of,
)


def command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, a folder or a file.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the prepared rows go.")],
    preset: Preset = "fast",
    settings: Settings = None,
    data_root: DataRoot = None,
    labels: LabelsFile = None,
    columns: Columns = None,
    text_column: TextColumn = None,
    label_columns: LabelColumns = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Encode data larger than memory once. Then run: lampnet train DIR --out MODEL."""
    import shlex

    from lampnet.config import Config
    from lampnet.pipeline.mapped_rows import open_prepared
    from lampnet.pipeline.prepare import prepare_source

    config = Config.preset(preset).updated(settings_of(settings))
    source = source_of(data, data_root, labels, columns, text_column, label_columns, on_bad_row)
    prepare_source(source, out, config, log)
    parts = open_prepared(out).parts
    typer.echo(f"{len(parts['train']):,} training and {len(parts['valid']):,} validation rows are in {out}")
    typer.echo(f"next: {shlex.join(['lampnet', 'train', str(out), '--out', 'MODEL'])}")
