"""`lampnet predict`: one JSON line per row, streamed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.cli import options
from lampnet.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    from lampnet.data.dataset import Dataset
    from lampnet.inference.predictor import FittedModel

NEXT_LABELS = 5
CHUNK_ROWS = 1024


def command(
    model: options.ModelArgument,
    rows: options.InputArgument,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write the lines; stdout by default.")
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", help="Predict the label sets that are best for this metric.")
    ] = "example_f1",
    precision: Annotated[
        str, typer.Option("--precision", help="float32, or int8, which is faster on some processors.")
    ] = "float32",
    shortlist: Annotated[
        int | None,
        typer.Option(
            "--shortlist",
            "--candidates",
            help="How many labels per row, the most promising ones, exchange messages; 0 for all.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that FILE has and continue.")] = False,
    split: options.Split = "test",
    data_root: options.DataRoot = None,
    columns: options.Columns = None,
    text_column: options.TextColumn = None,
    known_column: options.KnownColumn = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
) -> None:
    """Predict label sets, one line {"id", "labels", "scores"} per row: scores of its labels and the next five.

    Labels that a row is known to have, or not to have, are taken from its "known" in JSON lines, or --known-column.
    """
    from lampnet.evaluation.metrics import METRICS
    from lampnet.inference.match_schema import as_trained
    from lampnet.persistence.model_folder import load_model
    from lampnet.persistence.prediction_file import PredictionFile
    from lampnet.readers.row_chunks import chunks
    from lampnet.runtime import distributed

    if metric not in METRICS:
        raise ConfigError(f"there is no metric {metric!r}; {did_you_mean(metric, METRICS)}")
    if resume and out is None:
        raise ConfigError("--resume needs --out FILE: only a file can be continued")
    source = options.source_of(rows, data_root, None, columns, text_column, None, on_bad_row, known_column)
    if out is not None and not source.named:
        _check_apart(Path(rows), out)
    with distributed.joined() as team, ExitStack() as opened:
        fitted = load_model(model)
        output = None
        if out is not None and team.leads:
            chosen = {"metric": metric, "precision": precision, "shortlist": shortlist, "split": split}
            origin = {"model": fitted.metadata["model_sha256"], "input": source.to_json(), **chosen}
            output = opened.enter_context(PredictionFile(out, origin))
        if precision != "float32" or shortlist is not None:
            fitted = fitted.for_prediction(precision, shortlist)
        done = distributed.from_leader(output.whole_rows() if resume and output is not None else 0)
        source = as_trained(fitted, source, unlabelled=True)
        notice = options.log if team.leads else None
        stream = chunks(source, split, fitted.config.training.seed, done, CHUNK_ROWS, notice=notice)
        first = [*islice(stream, 1)]  # a mistake in the input must not empty the file
        empty = 0
        if output is not None and (first or not done):
            output.begin()
        for chunk in chain(first, stream):
            lines, unknown = _predicted(fitted, chunk, metric, done)
            if output is not None:
                output.write(lines)
            elif team.leads:
                sys.stdout.writelines(lines)
                sys.stdout.flush()
            done, empty = done + len(chunk), empty + unknown
        if output is not None:
            output.finish()
    if empty and team.leads:
        priors = "had nothing that the model knows and were predicted from the label priors"
        options.log(f"lampnet: warning: {empty} row(s) {priors}")


def _predicted(model: FittedModel, chunk: Dataset, metric: str, first: int) -> tuple[Iterator[str], int]:
    """The lines of a chunk of rows, numbered from `first`, and how many of these rows have no node."""
    from lampnet.inference.logits import probabilities
    from lampnet.inference.match_schema import known_states, match_rows

    chunk = match_rows(model, options.without_labels(chunk))
    encoded = model.encoder.encode(chunk.rows, chunk.row_edges)
    empty = int((encoded.nodes.lengths() == 0).sum()) if chunk.kind in ("wordset", "text") else 0
    logits, states = model.logits_of(model.views(encoded)), known_states(model, chunk)
    proba = probabilities(logits) if states is None else model.proba_given(logits, states)
    ids = chunk.ids or tuple(str(first + i) for i in range(len(chunk)))
    return _lines(ids, model.label_names, proba, model.decided(metric, proba, states)), empty


def _check_apart(rows: Path, out: Path) -> None:
    """Refuse to overwrite the rows that are read, also through a link."""
    read = [*rows.iterdir()] if rows.is_dir() else [rows]
    if out.exists() and any(file.exists() and os.path.samefile(file, out) for file in read):
        raise ConfigError(f"--out {out} is the file with the rows; give another file, or it would be lost")


def _lines(ids: tuple[str, ...], names: tuple[str, ...], proba: np.ndarray, chosen: np.ndarray) -> Iterator[str]:
    import numpy as np

    order_nL = np.argsort(-proba, axis=1, kind="stable")
    for row, name in enumerate(ids):
        ranked = order_nL[row]
        taken = [label for label in ranked if chosen[row, label]]
        others = [label for label in ranked[: len(taken) + NEXT_LABELS] if not chosen[row, label]][:NEXT_LABELS]
        scores = {names[label]: round(float(proba[row, label]), 6) for label in (*taken, *others)}
        line = {"id": name, "labels": [names[label] for label in taken], "scores": scores}
        yield json.dumps(line, ensure_ascii=False) + "\n"
