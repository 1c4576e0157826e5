"""`lampnet data list|info|fetch`: the named data sets."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lampnet.cli.options import AsJson, Columns, DataRoot, Encoding, LabelsFile, MaxMemory, OnBadRow, source_of

app = typer.Typer(help="List, describe and download data sets.", no_args_is_help=True, pretty_exceptions_enable=False)
BARS = 20
BAR_WIDTH = 50


@app.command("list")
def list_names(data_root: DataRoot = None, as_json: AsJson = False) -> None:
    """The named data sets, and whether their files are on this machine."""
    from lampnet.readers.named.registry import NAMES, describe
    from lampnet.readers.named.registry import data_root as chosen_root

    root = chosen_root(data_root)
    found = {}
    for name in NAMES:
        known = describe(name)
        here = not known.files or (root is not None and (root / name).is_dir())
        kind, split, graph = known.kind, known.parts, known.graph
        found[name] = {"title": known.title, "kind": kind, "split": split, "graph": graph, "here": here}
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="named data sets", title_justify="left")
    for heading in ("name", "input", "prior graph", "here", "what it is"):
        table.add_column(heading, no_wrap=heading == "name")
    for name, entry in found.items():
        table.add_row(
            name, str(entry["kind"]), str(entry["graph"]), ("no", "yes")[bool(entry["here"])], str(entry["title"])
        )
    Console().print(table)
    typer.echo("download one with: lampnet data fetch NAME; set its folder with --data-root or LAMPNET_DATA")


@app.command("info")
def info(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set's name, a folder or a file.")],
    data_root: DataRoot = None,
    labels: LabelsFile = None,
    columns: Columns = None,
    encoding: Encoding = None,
    on_bad_row: OnBadRow = "error",
    max_memory: MaxMemory = None,
    as_json: AsJson = False,
) -> None:
    """Rows, labels and features of a data set, and how often each label occurs."""
    from lampnet.data.statistics import label_counts, statistics

    splits = source_of(name, data_root, labels, columns, on_bad_row=on_bad_row, encoding=encoding).splits(
        0, None if as_json else typer.echo
    )
    found = statistics(splits)
    counts = label_counts(splits.train)
    if as_json:
        counted = dict(zip(splits.train.label_names, map(int, counts), strict=True))
        typer.echo(json.dumps(found.to_json() | {"train_label_counts": counted}))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{found.name} ({found.kind})", title_justify="left", show_header=False)
    per_sample, per_label = found.labels_per_sample, found.samples_per_label
    for what, value in (
        ("training / validation / test rows", f"{found.train:,} / {found.valid:,} / {found.test:,}"),
        ("labels", f"{found.labels:,}"),
        ("features", "-" if found.features is None else f"{found.features:,}"),
        ("labels per sample: mean / median / max", f"{per_sample.mean:.2f} / {per_sample.median:g} / {per_sample.max}"),
        ("samples per label: mean / median / max", f"{per_label.mean:.2f} / {per_label.median:g} / {per_label.max:,}"),
        ("unknown labels", f"{found.unknown:.1%}"),
    ):
        table.add_row(what, value)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"training rows per label{'' if len(counts) <= BARS else f', {BARS} of {len(counts)} by rank'}:")
    order = counts.argsort(kind="stable")[::-1]
    shown = order if len(order) <= BARS else order[[round(i * (len(order) - 1) / (BARS - 1)) for i in range(BARS)]]
    top = max(1, int(counts.max(initial=1)))
    for label in shown:
        bar = "█" * max(1 if counts[label] else 0, round(BAR_WIDTH * int(counts[label]) / top))
        label_name = splits.train.label_names[label]
        console.print(f"{escape(label_name[:24]):>24} {bar} {counts[label]:,}", soft_wrap=True)


@app.command("fetch")
def fetch_files(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set's name.")],
    data_root: DataRoot = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Download from this mirror.")] = None,
) -> None:
    """Download a data set from its publisher; an interrupted download is continued."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from lampnet.readers.named.download import fetch

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(file: str, done: int, total: int) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total or None)
            bars.update(tasks[file], completed=done, total=total or None)

        folder = fetch(name, data_root, base_url, show)
    typer.echo(f"{name} is in {folder}")
