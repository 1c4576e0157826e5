"""`lampnet predict`: one JSON line a row, streamed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from lampnet.cli.options import Columns, DataRoot, ModelArgument, OnBadRow, TextColumn, source_of

if TYPE_CHECKING:
    import numpy as np

NEXT_LABELS = 5


def command(
    model: ModelArgument,
    rows: Annotated[str, typer.Argument(metavar="INPUT", help="A file, or a data set's name.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the lines go; else to stdout.", show_default=False),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", help="Predict the label sets that are best for this metric.")
    ] = "example_f1",
    precision: Annotated[
        str, typer.Option("--precision", help="float32, or int8 where this processor is faster with it.")
    ] = "float32",
    candidates: Annotated[
        int | None,
        typer.Option(
            "--candidates", help="Only so many promising labels a row exchange messages; 0 for all.", show_default=False
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that FILE already has and go on.")] = False,
    split: Annotated[str, typer.Option("--split", help="Which part, where INPUT is a data set or a folder.")] = "test",
    data_root: DataRoot = None,
    columns: Columns = None,
    text_column: TextColumn = None,
    on_bad_row: OnBadRow = "error",
) -> None:
    """Predict label sets: {"id", "labels", "scores"} a line, scores of these labels and the next five."""
    from lampnet.errors import ConfigError, did_you_mean
    from lampnet.evaluation.metrics import METRICS
    from lampnet.inference.logits import probabilities
    from lampnet.inference.match_schema import as_trained, match_rows
    from lampnet.persistence.model_folder import load_model
    from lampnet.readers.row_chunks import chunks
    from lampnet.runtime import distributed

    if metric not in METRICS:
        raise ConfigError(f"there is no metric {metric!r}; {did_you_mean(metric, METRICS)}")
    if resume and out is None:
        raise ConfigError("--resume needs --out FILE: only a file can be continued")
    source = source_of(rows, data_root, None, columns, text_column, None, on_bad_row)
    if out is not None and not source.named:
        _check_apart(Path(rows), out)
    with distributed.joined() as team:
        fitted = load_model(model)
        if precision != "float32" or candidates is not None:
            from lampnet.model.ensemble import made_ready

            fitted.network = made_ready(fitted.network, precision, candidates)
        source = as_trained(fitted, source, unlabelled=True)
        rule = fitted.decisions.best[metric]
        done = distributed.from_leader(_rows_in(out) if resume and out is not None and team.leads else 0)
        empty = 0
        stream = chunks(source, split, fitted.config.training.seed, done, notice=_say if team.leads else None)
        first = next(stream, None)  # a mistake in the input must not empty the file
        with _sink(out if team.leads else Path(os.devnull), append=bool(done)) as sink:
            while first is not None:
                chunk = match_rows(fitted, _unlabelled(first))
                encoded = fitted.encoder.encode(chunk.rows, chunk.row_edges)
                if chunk.kind in ("wordset", "text"):
                    empty += int((encoded.nodes.lengths() == 0).sum())
                proba = probabilities(fitted.logits_of(encoded))
                ids = chunk.ids or tuple(str(done + i) for i in range(len(chunk)))
                for line in _lines(ids, fitted.label_names, proba, rule.apply(proba)):
                    sink.write(line + "\n")
                sink.flush()  # whatever happens next, these rows are kept
                done += len(chunk)
                first = next(stream, None)
        if empty and team.leads:
            print(
                f"lampnet: warning: {empty} row(s) had nothing that the model knows and were predicted from the "
                "label priors",
                file=sys.stderr,
            )


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _check_apart(rows: Path, out: Path) -> None:
    """Refuse to write over the rows that are read, whatever the two paths look like."""
    from lampnet.errors import ConfigError

    read = [*rows.iterdir()] if rows.is_dir() else [rows]
    if out.exists() and any(file.exists() and os.path.samefile(file, out) for file in read):
        raise ConfigError(f"--out {out} is the file with the rows; give another file, or it would be lost")


def _unlabelled(data: Any) -> Any:
    """Labels are not looked at, so a file may hold labels that the model does not know."""
    from dataclasses import replace

    return replace(data, labels=None, label_names=())


def _lines(ids: tuple[str, ...], names: tuple[str, ...], proba: np.ndarray, chosen: np.ndarray) -> Iterator[str]:
    import numpy as np

    order_nL = np.argsort(-proba, axis=1, kind="stable")
    for row, name in enumerate(ids):
        ranked = order_nL[row]
        taken = [label for label in ranked if chosen[row, label]]
        others = [label for label in ranked[: len(taken) + NEXT_LABELS] if not chosen[row, label]][:NEXT_LABELS]
        scores = {names[label]: round(float(proba[row, label]), 6) for label in (*taken, *others)}
        yield json.dumps(
            {"id": name, "labels": [names[label] for label in taken], "scores": scores}, ensure_ascii=False
        )


def _rows_in(path: Path) -> int:
    """Whole lines in the file; a line that a crash cut off is removed."""
    from lampnet.errors import DataError

    if not path.exists():
        return 0
    count, end = 0, 0
    try:
        with path.open("rb+") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                count, end = count + 1, end + len(line)
            file.truncate(end)
    except OSError as fault:
        raise DataError(f"{path} cannot be continued ({fault.strerror or fault})") from None
    return count


@contextmanager
def _sink(path: Path | None, append: bool) -> Iterator[IO[str]]:
    from lampnet.errors import DataError

    if path is None:
        yield sys.stdout
        return
    try:
        file = path.open("a" if append else "w", encoding="utf-8")
    except OSError as fault:
        raise DataError(f"{path} cannot be written ({fault.strerror or fault}); give another file") from None
    try:
        with file:
            yield file
            if path.is_file():  # not a device, which cannot be flushed
                os.fsync(file.fileno())
    except OSError as fault:
        raise DataError(
            f"{path} could not be written to the end ({fault.strerror or fault}); its whole lines are good: "
            "make room and go on with --resume"
        ) from None
