"""`lampnet compare`: LaMP side by side with the methods a user could train instead."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from lampnet.cli import options
from lampnet.errors import ConfigError

WIDE = 120  # characters that the whole table needs


def command(
    data: options.DataArgument = None,
    methods: Annotated[
        list[str] | None, typer.Option("--methods", metavar="NAME,...", help="Which methods; `all` for every one.")
    ] = None,
    time_budget: Annotated[
        str, typer.Option("--time-budget", metavar="10m", help="Time limit for fitting each method.")
    ] = "30m",
    decisions: Annotated[
        str,
        typer.Option(
            "--decisions", metavar="best|paper", help="Label sets by the best rule, or by the paper's 27 thresholds."
        ),
    ] = "best",
    seed: Annotated[int, typer.Option("--seed", help="Of splits, initial weights and the order of rows.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting of LaMP; of another method with its name first (mlp.width=64).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    data_root: options.DataRoot = None,
    labels: options.LabelsFile = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    label_columns: options.LabelColumns = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log nothing while training.")] = False,
) -> int:
    """Train several methods on the same rows and name the best, even where it is not LaMP."""
    from rich.console import Console

    from lampnet.experiments.compare import DEFAULT_METHODS, compare, sentences, verdicts
    from lampnet.experiments.material import open_material
    from lampnet.experiments.systems import EVERYWHERE, SYSTEMS, chosen_systems
    from lampnet.runtime.durations import seconds_of
    from lampnet.training.progress import Stopped

    if decisions not in ("best", "paper"):
        raise ConfigError(f"--decisions {decisions!r} must be best or paper")
    names = list(EVERYWHERE) if methods == ["all"] else [s.name for s in chosen_systems(methods or DEFAULT_METHODS)]
    if not names:
        raise ConfigError(f"--methods {','.join(methods or ())!r} names no method; give some of {', '.join(SYSTEMS)}")
    budget, changes = seconds_of(time_budget), typed_settings(options.settings_of(settings))
    log = options.log_unless(quiet)
    source = options.source_of(
        data, data_root, labels, columns, text_column, label_columns, on_bad_row, encoding=encoding
    )
    material = open_material(source, seed, log)
    results: list[dict[str, Any]] = []
    code = 0
    try:
        compare(material, names, time_budget=budget, settings=changes, log=log, done=results.append)
    except Stopped as stopped:
        code = 128 + int(stopped.signal_number)
        options.log(f"lampnet: stopped; {len(results)} of {len(names)} methods were finished")
    if as_json:
        typer.echo(json.dumps({"results": results, "verdicts": verdicts(results, decisions)}))
        return code
    rows = material.metadata()["rows"]
    title = f"{material.name}: {rows['train']} training, {rows['valid']} validation, {rows['test']} test rows"
    console = Console(soft_wrap=True)
    for table in comparison_tables(title, results, decisions, console.width):
        console.print(table)
    for sentence in sentences(results, decisions):
        console.print(sentence, markup=False)
    return code


def typed_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Settings of baselines as numbers where they are numbers; those of LaMP stay text, for its own parser.

    >>> typed_settings({"mlp.width": "64", "training.epochs": "2"})
    {'mlp.width': 64, 'training.epochs': '2'}
    """
    from lampnet.baselines import REGISTRY

    return {name: _number(text) if name.partition(".")[0] in REGISTRY else text for name, text in settings.items()}


def _number(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def comparison_tables(
    title: str, results: Sequence[Mapping[str, Any]], decisions: str = "best", width: int = WIDE
) -> list[Any]:
    """One row per method: scores, ranking, minutes and size; a star marks the best of each column.

    On a narrow terminal, minutes and sizes go to a second table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from lampnet.experiments.compare import SCORES, score_of

    def table(heading: str, columns: Sequence[str]) -> Any:
        made = Table(title=heading, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        made.add_column("method", no_wrap=True)
        for column in columns:
            made.add_column(column, justify="right", no_wrap=True)
        return made

    costs = ("fit min", "predict s", "weights", "MB")
    wide = width >= WIDE
    first = table(title, [*SCORES.values(), *(costs if wide else ())])
    second = first if wide else table("cost", costs)
    scores = {name: [score_of(row, name, decisions) for row in results] for name in SCORES}
    highest = {name: max((v for v in values if v is not None), default=None) for name, values in scores.items()}
    for index, row in enumerate(results):
        if not row["finished"]:
            first.add_row(row["system"], *["-"] * len(first.columns[1:]))
            continue
        shown = [_score_cell(scores[name][index], highest[name]) for name in SCORES]
        minutes, size = row["minutes"], row["size"]
        cost = [f"{minutes['fit']:.2f}", f"{60 * minutes['predict']:.1f}"]
        cost += [f"{size['weights']:,}", f"{size['bytes'] / 1e6:.1f}"]
        first.add_row(row["system"], *shown, *(cost if wide else ()))
        if not wide:
            second.add_row(row["system"], *cost)
    return [first] if wide else [first, second]


def _score_cell(value: float | None, best: float | None) -> str:
    if value is None:
        return "-"
    return f"[bold]{value:.3f}*[/bold]" if value == best else f"{value:.3f}"
