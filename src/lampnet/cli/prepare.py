"""`lampnet prepare`: encode rows once into memory-mapped arrays that trainings read."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli import options


def command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, a folder or a file.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the prepared rows go.")],
    preset: options.Preset = "fast",
    settings: options.Settings = None,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace prepared rows that DIR holds.")] = False,
) -> int:
    """Encode data larger than memory once. Then run: lampnet train DIR --out MODEL."""
    from lampnet.cli.display import TrainingDisplay
    from lampnet.config import Config
    from lampnet.pipeline.base_learner_files import has_base_learner_files
    from lampnet.pipeline.control import FitRun
    from lampnet.pipeline.mapped_rows import open_prepared
    from lampnet.pipeline.prepare import prepare_source
    from lampnet.training.progress import Stopped

    config = Config.preset(preset).updated(options.settings_of(settings))
    source = options.source_of(
        data, data_root, labels, columns, text_column, label_columns, on_bad_row, encoding=encoding
    )
    with TrainingDisplay(config.training) as display:
        try:
            prepare_source(source, out, config, display.log, overwrite, FitRun(phase=display.phase))
        except Stopped as stopped:
            kept = "; the same command goes on behind the base learners that are fitted"
            display.warn(f"stopped{kept if has_base_learner_files(out) else ''}")
            return 128 + stopped.signal_number
    pretrained = config.input.pretrained
    parts = open_prepared(out, verify=False, pretrained=pretrained).parts
    typer.echo(f"{len(parts['train']):,} training and {len(parts['valid']):,} validation rows are in {out}")
    named = ["--set", f"input.pretrained={pretrained}"] if pretrained else []
    typer.echo(f"next: {shlex.join(['lampnet', 'train', str(out), '--out', 'MODEL', *named])}")
    return 0
