"""`lampnet prepare`: encode rows once, so that trainings read them by memory mapping."""

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
    TextColumn,
    settings_of,
    source_of,
)


def command(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A data set's name, a folder or a file.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the prepared rows go.", show_default=False)],
    preset: Annotated[
        str, typer.Option("--preset", metavar="fast|paper", help="Which settings to start from.")
    ] = "fast",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Settings of the input, the opinions or the seed."),
    ] = None,
    data_root: DataRoot = None,
    labels: LabelsFile = None,
    columns: Columns = None,
    text_column: TextColumn = None,
    label_columns: LabelColumns = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Encode data larger than memory once; then: lampnet train DIR --out MODEL."""
    import shlex
    import sys

    from lampnet.config import Config
    from lampnet.pipeline.mapped_rows import open_prepared
    from lampnet.pipeline.prepare_source import prepare_source

    def say(sentence: str) -> None:
        print(sentence, file=sys.stderr)

    config = Config.preset(preset).updated(settings_of(settings))
    source = source_of(data, data_root, labels, columns, text_column, label_columns, on_bad_row)
    prepare_source(source, out, config, say)
    parts = open_prepared(out).parts
    typer.echo(f"{len(parts['train']):,} training and {len(parts['valid']):,} validation rows are in {out}")
    typer.echo(f"next: {shlex.join(['lampnet', 'train', str(out), '--out', 'MODEL'])}")
