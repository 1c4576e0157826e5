"""`lampnet bench`: the speed of lampnet on this machine, relative to other code."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from lampnet.cli.clone import import_from_clone
from lampnet.errors import ConfigError, did_you_mean
from lampnet.persistence.whole_file import WholeFile
from lampnet.runtime.atomic_files import write_atomically
from lampnet.runtime.folder_lock import claimed


def command(
    quick: Annotated[bool, typer.Option("--quick", help="About a minute instead of ten.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also save the JSON here.")] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Processor threads.")] = 1,
    whole_fits: Annotated[
        str | None,
        typer.Option(
            "--whole-fits",
            metavar="small|all|NAME,NAME",
            help="Only this section: whole fits beside tuned logistic regression.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="How often a whole fit is repeated.")] = 1,
) -> None:
    """Measure speed and memory beside a plain torch network, Seq2Seq and linear models."""
    bench = import_from_clone("bench.run")
    if bench is None:
        raise ConfigError(
            "lampnet bench runs from a clone of the repository, whose benchmarks/ folder is not installed; "
            "clone it and install it with `make install`"
        )
    if whole_fits is not None:
        with nullcontext() if out is None else claimed(out.absolute().parent, out.name):
            _whole_fits(whole_fits, rounds, as_json, out)
        return
    with nullcontext() if out is None else WholeFile(out) as file:  # it is tried before minutes are spent
        found = bench.run(quick=quick, log=lambda sentence: typer.echo(sentence, err=as_json), threads=threads)
        text = json.dumps(found, indent=1)
        if file is not None:
            file.file.write(text.encode() + b"\n")
            file.finish()
    if as_json:
        typer.echo(text)
        return
    for name in ("latency", "start_up", "memory", "rivals", "batching", "machine"):
        typer.echo(f"{name}: {json.dumps(found[name])}")


def _whole_fits(which: str, rounds: int, as_json: bool, out: Path | None) -> None:
    section = import_from_clone("bench.whole_fits")
    assert section is not None
    known = {"small": section.SMALL, "all": tuple(section.TARGETS)}
    names = known.get(which, tuple(which.split(",")))
    for name in names:
        if name not in section.TARGETS:
            raise ConfigError(f"there is no whole fit {name!r}; {did_you_mean(name, section.TARGETS)}")
    measured: dict[str, Any] = {}
    for name in names:
        measured |= section.whole_fits((name,), rounds, log=lambda sentence: typer.echo(sentence, err=as_json))
        if out is not None:
            # Cases that were measured before stay, and each is kept at once: long ones need not be repeated.
            before = json.loads(out.read_text()) if out.exists() else {}
            write_atomically(out, (json.dumps(before | measured, indent=1) + "\n").encode())
    if as_json:
        typer.echo(json.dumps(measured, indent=1))
