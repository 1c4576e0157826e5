"""`lampnet reproduce`: the paper's tables, run again with lampnet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli import options
from lampnet.cli.clone import import_from_clone
from lampnet.cli.compare import typed_settings
from lampnet.errors import ConfigError

#: the page of the paper's own tables, beside the page of results
REPRODUCTION = "reproduction.md"


def command(
    data: Annotated[
        list[str] | None, typer.Argument(metavar="[DATA]...", help="Only these data sets, as --dataset.")
    ] = None,
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", metavar="NAME", help="Only this data set (may be repeated).")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Only this system, e.g. fmp-fc, lamp, logistic; or baselines, variants, all (may be repeated).",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Seeds per row; by default 1 to 5.")] = None,
    seed: Annotated[list[int] | None, typer.Option("--seed", help="Only this seed (may be repeated).")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the results go.")] = Path("results"),
    page: Annotated[Path, typer.Option("--page", metavar="FILE", help="The page of tables.")] = Path("docs/results.md"),
    time_budget: Annotated[
        str, typer.Option("--time-budget", metavar="60m", help="Time limit for fitting each run.")
    ] = "60m",
    again: Annotated[bool, typer.Option("--again", help="Repeat runs that have a result, too.")] = False,
    page_only: Annotated[bool, typer.Option("--page-only", help="Run nothing; write the page from DIR.")] = False,
    speed: Annotated[bool, typer.Option("--speed", help="Measure the speed table instead.")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Train the paper's own networks instead, into DIR/paper; takes days.")
    ] = False,
    known: Annotated[
        bool,
        typer.Option("--known", help="Compare methods that take known labels instead, into DIR/known."),
    ] = False,
    width: Annotated[
        list[int] | None, typer.Option("--width", metavar="D", help="With --paper: only this d (may be repeated).")
    ] = None,
    form: Annotated[
        list[str] | None,
        typer.Option("--form", metavar="NAME", help="With --paper: only this form, e.g. fmp-fc (may be repeated)."),
    ] = None,
    weight: Annotated[
        list[float] | None,
        typer.Option("--lambda", metavar="X", help="With --paper: of the lambdas tried, only this (may be repeated)."),
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option("--start", metavar="NAME", help="With --paper: only random, or only spectral."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="For trials: change a setting; use another DIR."),
    ] = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            "--checkpoints",
            metavar="DIR",
            help="Where unfinished trainings of --paper, or the rows that systems of --known share, are kept.",
        ),
    ] = None,
    data_root: options.DataRoot = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log nothing while running.")] = False,
) -> int:
    """Run the missing results of the paper's tables and write the page that shows them.

    Each result is a file, DIR/DATASET--SYSTEM--seedK.json. Existing results are not repeated, so a stopped run
    continues where it was.
    """
    from lampnet.experiments.paper_networks import FOLDER, networks, open_as_published, train_all
    from lampnet.experiments.reproduce import open_named, plan, reproduce
    from lampnet.experiments.time_limit import stoppable
    from lampnet.runtime.durations import seconds_of
    from lampnet.training.progress import Stopped

    log = options.log_unless(quiet)
    dataset = [*(data or ()), *(dataset or ())]
    if known:
        return _known_labels(
            dataset, model or (), seeds, seed or (), out, page, checkpoints, data_root, again, page_only, log
        )
    changes = typed_settings(options.settings_of(settings))
    results_page = import_from_clone("pages.results")
    if page_only and results_page is None:
        raise ConfigError("the page is written in a clone of the repository only; clone it and run this command there")
    if page_only and not out.is_dir():
        raise ConfigError(f"--out {out} is not a folder of results, so {page} is left as it is; give the folder")
    if speed and not page_only:
        speed_table = import_from_clone("bench.speed_table")
        if speed_table is None:
            raise ConfigError("--speed runs in a clone of the repository only; clone it and run this command there")
        speed_table.measure_into(out, dataset, data_root=data_root, settings=changes, log=log)
    elif not page_only:
        open_data = partial(open_as_published if paper else open_named, data_root=data_root)
        tasks = plan(dataset, model or (), seeds, seed or ()) if not paper else []
        budget = seconds_of(time_budget)
        only_seeds = seed or range(seeds or 0)
        try:
            with stoppable():
                if paper:
                    wanted = networks(dataset, width or (), form or (), only_seeds, weight or (), start or ())
                    train_all(
                        wanted, out / FOLDER, checkpoints or out / FOLDER / "running", log=log, open_data=open_data
                    )
                else:
                    reproduce(
                        tasks, out, time_budget=budget, settings=changes, again=again, log=log, open_data=open_data
                    )
        except Stopped as stopped:
            options.log("lampnet: stopped; run the same command to continue")
            return 128 + int(stopped.signal_number)
    if results_page is None:
        log(f"the results are in {out}; the page of tables is written in a clone of the repository only")
        return 0
    results_page.write_page(out, page, page.parent / "research-notes.md")
    reproduction_page = import_from_clone("pages.reproduction")
    assert reproduction_page is not None
    reproduction_page.write_page(out, page.parent / REPRODUCTION)
    log(f"the tables are in {page} and {page.parent / REPRODUCTION}")
    return 0


def _known_labels(
    datasets: Sequence[str],
    systems: Sequence[str],
    seeds: int | None,
    only_seeds: Sequence[int],
    out: Path,
    page: Path,
    shared: Path | None,
    data_root: str | None,
    again: bool,
    page_only: bool,
    log: Callable[[str], None],
) -> int:
    """Compare methods that take known labels, and write the table and the picture of the page."""
    from lampnet.experiments.known_comparison import FOLDER, SHARED, compare_known, known_plan
    from lampnet.experiments.reproduce import open_named
    from lampnet.experiments.time_limit import stoppable
    from lampnet.training.progress import Stopped

    folder = out / FOLDER
    known_page = import_from_clone("pages.known_labels")
    if page_only and known_page is None:
        raise ConfigError("the page is written in a clone of the repository only; clone it and run this command there")
    if page_only and not folder.is_dir():
        raise ConfigError(f"--out {out} holds no results on known labels, so no page is written; give the folder")
    tasks = known_plan(datasets, systems, seeds, only_seeds)
    if not page_only:
        try:
            with stoppable():
                open_data = partial(open_named, data_root=data_root)
                compare_known(tasks, folder, shared or folder / SHARED, again=again, log=log, open_data=open_data)
        except Stopped as stopped:
            options.log("lampnet: stopped; run the same command to continue")
            return 128 + int(stopped.signal_number)
    if known_page is None:
        log(f"the results are in {folder}; the page is written in a clone of the repository only")
        return 0
    log(f"the tables are in {known_page.write_page(folder, page.parent)}")
    return 0
