"""`lampnet predict`: label sets of rows, streamed."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lampnet.cli import options
from lampnet.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from lampnet.evaluation.asked_sets import AskedSets
    from lampnet.persistence.prediction_formats import PredictedChunk
    from lampnet.readers.sources import Source

#: stands for stdin and stdout
PIPE = "-"


def command(
    model: options.ModelArgument,
    rows: Annotated[
        str, typer.Argument(metavar="INPUT", help="A data set's name, a folder or a file; - for rows from stdin.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; stdout by default, or for -.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="jsonl|csv|parquet", help="Of the predictions; by default what FILE's ending says."
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="K", help="The K most probable labels of each row.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", metavar="P", help="Labels at least this probable.")
    ] = None,
    at_least_one: Annotated[
        bool, typer.Option("--at-least-one", help="A row that would get no label gets its most probable one.")
    ] = False,
    decision: options.Decision = None,
    all_scores: Annotated[bool, typer.Option("--all-scores", help="Write the scores of all labels.")] = False,
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
            help="How many labels per row, the most promising ones, exchange messages; 0 for all.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that FILE has and continue.")] = False,
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input-format",
            metavar="jsonl|csv|tsv|parquet|...",
            help="Of rows from stdin; by default what their beginning says.",
        ),
    ] = None,
    split: options.Split = "test",
    data_root: options.DataRoot = None,
    columns: options.Columns = None,
    encoding: options.Encoding = None,
    text_column: options.TextColumn = None,
    known_column: options.KnownColumn = None,
    on_bad_row: options.OnBadRow = "error",
    max_memory: options.MaxMemory = None,
    pretrained: options.Pretrained = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="ray", help="Predict a folder of Parquet files with Ray, on many machines."),
    ] = None,
    actors: Annotated[
        int, typer.Option("--actors", min=0, help="With --engine ray: models side by side; 0 for one per processor.")
    ] = 0,
) -> None:
    """Predict label sets: JSON lines {"id", "labels", "scores"} (its labels and the next five), CSV or Parquet.

    Labels that a row is known to have, or not to have, are taken from its "known" in JSON lines, or --known-column.
    """
    from lampnet.evaluation.asked_sets import AskedSets
    from lampnet.evaluation.metrics import METRICS
    from lampnet.inference.asked_decision import check_kept
    from lampnet.inference.match_schema import as_trained
    from lampnet.persistence.model_folder import load_model
    from lampnet.persistence.prediction_formats import format_of
    from lampnet.readers.row_chunks import chunks
    from lampnet.readers.standard_input import spooled
    from lampnet.runtime import distributed
    from lampnet.scoring.predictor import CHUNK_ROWS, predicted

    if metric not in METRICS:
        raise ConfigError(f"there is no metric {metric!r}; {did_you_mean(metric, METRICS)}")
    asked = AskedSets(top_k=top_k, threshold=threshold, at_least_one=at_least_one)
    if decision is not None:
        options.check_decision(decision, asked.anything, known_column is not None)
    if engine is not None:
        plain = precision == "float32" and shortlist is None and decision is None and form in (None, "parquet")
        source = options.source_of(
            rows, data_root, None, columns, text_column, None, on_bad_row, known_column, encoding=encoding
        )
        _with_engine(engine, model, source, out, resume, actors, metric, asked, all_scores, pretrained, plain)
        return
    out = None if out is not None and str(out) == PIPE else out
    form = format_of(form, out)
    if resume:
        _check_resumable(rows, out, form)
    with distributed.joined() as team, ExitStack() as opened:
        data = opened.enter_context(spooled(input_format)) if rows == PIPE else rows
        source = options.source_of(
            data, data_root, None, columns, text_column, None, on_bad_row, known_column, encoding=encoding
        )
        if out is not None and not source.named and rows != PIPE:
            _check_apart(Path(rows), out)
        fitted = load_model(model, pretrained)
        if decision is not None:
            check_kept(fitted, decision)
        origin = {"model": fitted.metadata["model_sha256"], "input": source.to_json(), "metric": metric}
        origin |= {"decision": decision, "precision": precision, "shortlist": shortlist, "split": split}
        origin |= {"choice of label sets": vars(asked), "choice of scores": "all" if all_scores else "some"}
        output = _Output(opened, out, form, fitted.label_names, all_scores, origin) if team.leads else None
        if precision != "float32" or shortlist is not None:
            fitted = fitted.for_prediction(precision, shortlist)
        done = distributed.from_leader(output.rows_to_keep() if resume and output is not None else 0)
        source = as_trained(fitted, source, unlabelled=True)
        notice = options.log if team.leads else None
        stream = chunks(source, split, fitted.config.training.seed, done, CHUNK_ROWS, notice=notice)
        first = [*islice(stream, 1)]  # a mistake in the input must not empty the file
        empty = 0
        if output is not None and (first or not done):
            output.begin()
        for chunk in chain(first, stream):
            found, unknown = predicted(fitted, chunk, decision or metric, asked, done)
            if output is not None:
                output.write(found)
            done, empty = done + len(chunk), empty + unknown
        if output is not None:
            output.finish()
    if empty and team.leads:
        priors = "had nothing that the model knows and were predicted from the label priors"
        options.log(f"lampnet: warning: {empty} row(s) {priors}")


class _Output:
    """Where predictions go: JSON lines into a file that can be continued, the rest into one that is whole or not."""

    def __init__(
        self,
        opened: ExitStack,
        out: Path | None,
        form: str,
        names: tuple[str, ...],
        all_scores: bool,
        origin: dict[str, object],
    ) -> None:
        from lampnet.persistence.prediction_file import PredictionFile
        from lampnet.persistence.prediction_formats import FORMATS

        self.opened, self.out, self.all_scores = opened, out, all_scores
        self.file = PredictionFile(out, origin) if out is not None and form == "jsonl" else None
        if self.file is not None:
            opened.enter_context(self.file)
        if form == "parquet" and out is None and sys.stdout.isatty():
            raise ConfigError(
                "Parquet is binary and is not written to a terminal; give --out FILE, or pipe it into a program"
            )
        self.format = FORMATS[form]
        self.names = names

    def rows_to_keep(self) -> int:
        return 0 if self.file is None else self.file.whole_rows()

    def begin(self) -> None:
        """The input can be read: from here on there is something to write."""
        from lampnet.persistence.whole_file import WholeFile

        if self.file is not None:
            self.file.begin()
            return
        self.whole = None if self.out is None else self.opened.enter_context(WholeFile(self.out))
        binary = sys.stdout.buffer if self.whole is None else self.whole.file
        self.writer = self.format(binary, self.names, self.all_scores)

    def write(self, chunk: PredictedChunk) -> None:
        from lampnet.persistence.prediction_formats import json_lines

        if self.file is not None:
            self.file.write(json_lines(chunk, self.all_scores))
        else:
            self.writer.write(chunk)

    def finish(self) -> None:
        if self.file is not None:
            self.file.finish()
            return
        self.writer.close()
        if self.whole is not None:
            self.whole.finish()


def _with_engine(
    engine: str,
    model: Path,
    source: Source,
    out: Path | None,
    resume: bool,
    actors: int,
    metric: str,
    asked: AskedSets,
    all_scores: bool,
    pretrained: str | None,
    plain: bool,
) -> None:
    """Predict a folder of Parquet files elsewhere."""
    from lampnet.scoring.on_ray import predict_folder

    if engine != "ray":
        raise ConfigError(f"--engine {engine!r} is not known; {did_you_mean(engine, ('ray',))}")
    if out is None or not plain:
        raise ConfigError(
            "--engine ray writes a folder of Parquet files; give --out DIR, and leave out --format, --precision, "
            "--shortlist and --decision"
        )
    settings = {
        "metric": metric,
        "asked": vars(asked),
        "columns": dict(source.columns),
        "all_scores": all_scores,
        "on_bad_row": source.on_bad_row,
        "pretrained": pretrained,
    }
    target = re.sub(r"^(\w+):/(?!/)", r"\1://", str(out))  # a Path has made s3:/ of s3://
    done = predict_folder(model, source.data, target, settings, actors, resume, options.log)
    kept = f"; {done.kept} were there" if done.kept else ""
    cost = f"; {done.processor_seconds / done.rows * 1e6:,.0f} processor seconds per million rows" if done.rows else ""
    options.log(
        f"{done.files} files with {done.rows:,} rows predicted on {done.nodes} machine(s){kept}: {target}{cost}"
    )


def _check_resumable(rows: str, out: Path | None, form: str) -> None:
    if out is None:
        raise ConfigError("--resume needs --out FILE: only a file can be continued")
    if form != "jsonl":
        raise ConfigError(f"--resume continues JSON lines; a {form} file is written whole or not at all: predict again")
    if rows == PIPE:
        raise ConfigError("--resume needs rows from a file: what was read from stdin is gone")


def _check_apart(rows: Path, out: Path) -> None:
    """Refuse to overwrite the rows that are read, also through a link."""
    read = [*rows.iterdir()] if rows.is_dir() else [rows]
    if out.exists() and any(file.exists() and os.path.samefile(file, out) for file in read):
        raise ConfigError(f"--out {out} is the file with the rows; give another file, or it would be lost")
