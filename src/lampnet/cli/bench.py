"""`lampnet bench`: the speed of lampnet on this machine, relative to other code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli.clone import import_from_clone
from lampnet.errors import ConfigError


def command(
    quick: Annotated[bool, typer.Option("--quick", help="About a minute instead of ten.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also save the JSON here.")] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Processor threads.")] = 1,
) -> None:
    """Measure speed and memory beside a plain torch network, Seq2Seq and linear models."""
    bench = import_from_clone("bench.run")
    if bench is None:
        raise ConfigError(
            "lampnet bench runs from a clone of the repository, whose benchmarks/ folder is not installed; "
            "clone it and install it with `make install`"
        )
    found = bench.run(quick=quick, log=lambda sentence: typer.echo(sentence, err=as_json), threads=threads)
    text = json.dumps(found, indent=1)
    if out is not None:
        out.write_text(text + "\n")
    if as_json:
        typer.echo(text)
        return
    for name in ("latency", "start_up", "memory", "rivals", "batching", "machine"):
        typer.echo(f"{name}: {json.dumps(found[name])}")
