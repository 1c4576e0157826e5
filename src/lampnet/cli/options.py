"""What several commands share: options and arguments, the data they name, and notes on stderr."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.errors import ConfigError

if TYPE_CHECKING:
    from lampnet.data.dataset import Dataset
    from lampnet.readers.sources import Source

DataArgument = Annotated[
    str | None, typer.Argument(metavar="DATA", help="A data set's name, a folder or a file; none means digit scenes.")
]
InputArgument = Annotated[str, typer.Argument(metavar="INPUT", help="A data set's name, a folder or a file.")]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")]
DataRoot = Annotated[
    str | None, typer.Option("--data-root", help="The folder of the named data sets (or LAMPNET_DATA, or ./data).")
]
LabelsFile = Annotated[
    str | None, typer.Option("--labels", help="A file of label names: Mulan XML, or one name per line.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="ROLE=NAME",
        help="Tables: what columns are for (text, number, category, date, smiles, dna, image, words, vector, labels, "
        "id, separator); repeated options add up, and several inputs are parts of one row.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", help="CSV and TSV: the encoding, such as latin-1; by default that of the training, or UTF-8."
    ),
]
TextColumn = Annotated[str | None, typer.Option("--text-column", help="Tables: the column with the text.")]
LabelColumns = Annotated[
    str | None, typer.Option("--label-columns", metavar="NAME,...", help="Tables: the column(s) with the labels.")
]
KnownColumn = Annotated[
    str | None,
    typer.Option("--known-column", metavar="NAME", help="Tables: the column with labels known to be true."),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(
        "--group-column", metavar="NAME", help="Tables and JSON lines: rows with the same value here stay together."
    ),
]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time-column", metavar="NAME", help="Tables and JSON lines: the time of a row; what is held out is later."
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option("--weight-column", metavar="NAME", help="Tables and JSON lines: what a row counts, at least 0."),
]
OnBadRow = Annotated[
    str, typer.Option("--on-bad-row", metavar="error|skip", help="What to do with a row that cannot be read.")
]


def _limit_memory(context: typer.Context, given: str | None) -> str | None:
    """The limit holds for this command, in all readers."""
    if given is not None:
        from lampnet.runtime.memory_limit import bytes_of, limited_to

        context.with_resource(limited_to(bytes_of(given)))
    return given


MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="16GB",
        callback=_limit_memory,
        help="Refuse files that need more memory to read; by default half of the machine's (or LAMPNET_MAX_MEMORY).",
    ),
]
Pretrained = Annotated[
    str | None,
    typer.Option(
        "--pretrained",
        metavar="DIR",
        help="The pretrained text encoder that the model was trained with (or LAMPNET_PRETRAINED).",
    ),
]
Split = Annotated[
    str, typer.Option("--split", metavar="train|valid|test", help="Which part of a data set or a folder.")
]
Preset = Annotated[str, typer.Option("--preset", metavar="fast|quick|paper", help="Which settings to start from.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting, such as model.width=256.")
]
Decision = Annotated[
    str | None,
    typer.Option(
        "--decision",
        metavar="recall>=P|precision>=P|whole set",
        help="Cut off where this is promised for new rows, with 90% confidence; or the most probable whole sets.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def check_decision(decision: str, other: bool, known: bool = False) -> None:
    """Refuse what is no decision, and a decision beside other choices of the label sets."""
    from lampnet.inference.asked_decision import WHOLE_SET, check_decision

    check_decision(decision)
    if other or (known and decision != WHOLE_SET):
        leave_out = "--top-k, --threshold and --at-least-one" + (" and --known-column" if decision != WHOLE_SET else "")
        raise ConfigError(f"--decision {decision} chooses the label sets; leave out {leave_out}")


def log(sentence: str) -> None:
    """A note for a person; stdout is left to the results."""
    typer.echo(sentence, err=True)


def log_unless(quiet: bool) -> Callable[[str], None]:
    return (lambda sentence: None) if quiet else log


def without_labels(data: Dataset) -> Dataset:
    """The same rows, unlabelled: a file may hold labels that a model does not know."""
    from dataclasses import replace

    return replace(data, labels=None, label_names=())


def source_of(
    data: str | None,
    root: str | None,
    labels: str | None = None,
    columns: list[str] | None = None,
    text_column: str | None = None,
    label_columns: str | None = None,
    on_bad_row: str = "error",
    known_column: str | None = None,
    group_column: str | None = None,
    time_column: str | None = None,
    weight_column: str | None = None,
    encoding: str | None = None,
) -> Source:
    """The data that these options name."""
    from lampnet.readers.sources import DEFAULT, Source

    if on_bad_row not in ("error", "skip"):
        raise ConfigError(f"--on-bad-row {on_bad_row!r} must be error or skip")
    roles: dict[str, str] = {}
    for text in columns or []:  # repeated options add up
        role, names = _pair(text, "--columns", "ROLE=NAME")
        roles[role] = f"{roles[role]},{names}" if role in roles and role != "separator" else names
    if text_column is not None:
        roles["text"] = text_column
    if label_columns is not None:
        roles["labels"] = label_columns
    by_row = {"known": known_column, "group": group_column, "time": time_column, "weight": weight_column}
    for role, name in {**by_row, "encoding": encoding}.items():
        if name is not None:
            roles[role] = name
    return Source(data=data or DEFAULT, root=root, labels=labels, columns=roles, on_bad_row=on_bad_row)


def source_arguments(source: Source) -> list[str]:
    """The arguments that name this data, to print a command with.

    >>> from lampnet.readers.sources import Source
    >>> source_arguments(Source(data="my films.csv", columns={"text": "plot"}, on_bad_row="skip"))
    ['my films.csv', '--columns', 'text=plot', '--on-bad-row', 'skip']
    """
    arguments = [source.data]
    for option, value in (("--data-root", source.root), ("--labels", source.labels)):
        arguments += [option, value] if value is not None else []
    for role, name in source.columns.items():
        arguments += ["--columns", f"{role}={name}"]
    return arguments + (["--on-bad-row", source.on_bad_row] if source.on_bad_row != "error" else [])


def settings_of(texts: list[str] | None) -> dict[str, str]:
    """`--set model.width=256` as a mapping."""
    return dict(_pair(text, "--set", "NAME=VALUE") for text in texts or [])


def _pair(text: str, option: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{option} {text!r} must have the form {form}")
    # A separator may be a space.
    return name.strip(), value if name.strip() == "separator" else value.strip()
