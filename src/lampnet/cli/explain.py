"""`lampnet explain`: why rows got their labels, as pages, pictures and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.cli import options
from lampnet.cli.training_rows import part_of_training
from lampnet.errors import ConfigError

if TYPE_CHECKING:
    from lampnet.data.dataset import Dataset
    from lampnet.inference.predictor import FittedModel
    from lampnet.readers.sources import Source


def command(
    model: options.ModelArgument,
    data: options.InputArgument,
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="0,3,7", help="Row numbers and ranges such as 5-9; by default the first 20."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option("--labels", metavar="NAME,...", help="Labels to show whatever their attention.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write.")] = Path("report"),
    pictures: Annotated[int, typer.Option("--pictures", min=0, help="Rows to draw as PNG and SVG.")] = 1,
    split: options.Split = "test",
    data_root: options.DataRoot = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    pretrained: options.Pretrained = None,
) -> None:
    """Explain rows: a page to open in a browser, one for the whole set, pictures, and all of it as JSON."""
    from lampnet.explain.report.folder import write_folder
    from lampnet.inference.match_schema import match_rows
    from lampnet.persistence.model_folder import load_model

    chosen = None if rows is None else row_numbers(rows)
    fitted = load_model(model, pretrained)
    source = options.source_of(
        data, data_root, None, columns, text_column, label_columns, on_bad_row, encoding=encoding
    )
    part = match_rows(fitted, _rows(fitted, source, split))
    wanted = None if labels is None else [name.strip() for name in labels.split(",") if name.strip()]
    which = part_of_training(fitted.metadata.get("source"), source) or split
    if which != "test":
        options.log(f"lampnet: warning: the model was trained on the {which} rows; explain rows that it has not seen")
    files = write_folder(fitted, part, out, chosen, wanted, pictures=pictures, part=which, log=options.log)
    typer.echo(f"open {files.report} in a browser")
    typer.echo(f"the whole set: {files.test_set}")
    if files.pictures:
        typer.echo(f"pictures: {files.pictures[0].parent} ({len(files.pictures)} files)")
    typer.echo(f"data: {files.data}")


def _rows(fitted: FittedModel, source: Source, split: str) -> Dataset:
    """The rows, read as those of the training; without labels where its label columns are missing."""
    from lampnet.data.schema import NoLabels
    from lampnet.inference.match_schema import as_trained
    from lampnet.readers.column_roles import MissingColumn

    def read(unlabelled: bool) -> Dataset:
        log = None if unlabelled else options.log
        return as_trained(fitted, source, unlabelled).part(split, fitted.config.training.seed, log)

    try:
        part = read(unlabelled=False)
    except (MissingColumn, NoLabels) as fault:
        if "labels" in source.columns or (isinstance(fault, MissingColumn) and fault.role != "labels"):
            raise
        return options.without_labels(read(unlabelled=True))
    if "labels" in source.columns or part.labels is None or set(part.label_names) & set(fitted.label_names):
        return part
    # The reader of the table took other columns for labels.
    options.log(f"{part.name}: {part.label_names[0]!r} is not a label of the model; explained without labels")
    return options.without_labels(part)


def row_numbers(text: str) -> list[int]:
    """Row numbers as people write them.

    >>> row_numbers("0,3,7-9")
    [0, 3, 7, 8, 9]
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 24:
            raise ConfigError(f"--rows {text!r:.80} must be whole numbers and ranges from 0, as in 0,3,7-9")
        low, high = int(first), int(last or first)
        if high < low or high - low > 10_000:
            raise ConfigError(f"--rows {part.strip()!r:.80} is not a range of up to 10,000 rows, as in 7-9")
        numbers += range(low, high + 1)
    return list(dict.fromkeys(numbers))
