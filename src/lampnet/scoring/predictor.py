"""Predictor: a saved model that predicts files and frames, made once per process and called for every part of the rows.

It is what `lampnet predict` does, without the command line: the same rows get the same label sets and scores wherever
they are predicted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lampnet.data.dataset import Dataset
from lampnet.errors import ConfigError, did_you_mean
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.evaluation.metrics import METRICS
from lampnet.inference.asked_decision import label_sets
from lampnet.inference.match_schema import as_trained, known_states, match_rows
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model
from lampnet.persistence.prediction_formats import Parquet, PredictedChunk
from lampnet.persistence.whole_file import WholeFile
from lampnet.readers.row_chunks import chunks
from lampnet.readers.sources import Source

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS = 1024


class Predictor:
    """Label sets of rows.

    Parameters
    ----------
    model : a model folder
    metric : predict the label sets that are best for this metric
    asked : label sets as asked for instead: ``{"top_k": 3}``, ``{"threshold": 0.5}``, ``{"at_least_one": True}``
    columns : what columns are for, role -> name(s); by default as in training
    all_scores : a column "score: LABEL" for every label instead of the scores of the predicted ones
    on_bad_row : "error" or "skip"
    pretrained : the folder of the text encoder that the model was trained with, if it was
    """

    def __init__(
        self,
        model: str | Path,
        *,
        metric: str = "example_f1",
        asked: Mapping[str, Any] | None = None,
        columns: Mapping[str, str] | None = None,
        all_scores: bool = False,
        on_bad_row: str = "error",
        pretrained: str | None = None,
    ) -> None:
        if metric not in METRICS:
            raise ConfigError(f"there is no metric {metric!r}; {did_you_mean(metric, METRICS)}")
        self.metric, self.asked, self.all_scores = metric, AskedSets(**dict(asked or {})), all_scores
        self.model = load_model(model, pretrained)
        self._source = partial(Source, columns=dict(columns or {}), on_bad_row=on_bad_row)

    def file(self, rows: str | Path, out: str | Path) -> int:
        """Predict the rows of a file into a Parquet file, which is there whole or not at all; how many rows."""
        source, done = as_trained(self.model, self._source(data=str(rows)), unlabelled=True), 0
        with WholeFile(Path(out)) as whole:
            writer = Parquet(whole.file, self.model.label_names, self.all_scores)
            for chunk in chunks(source, "test", self.model.config.training.seed, 0, CHUNK_ROWS):
                writer.write(predicted(self.model, chunk, self.metric, self.asked, done)[0])
                done += len(chunk)
            writer.close()
            whole.finish()
        return done

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A frame with the columns id, labels and scores, one row for each row and the same index."""
        import pyarrow as pa
        from pyarrow import parquet

        with tempfile.TemporaryDirectory(prefix="lampnet-") as folder:
            rows, out = Path(folder) / "rows.parquet", Path(folder) / "out.parquet"
            parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), rows)
            self.file(rows, out)
            found: pd.DataFrame = parquet.read_table(out).to_pandas()
        found.index = frame.index
        return found


def predicted(
    model: FittedModel, chunk: Dataset, decision: str, asked: AskedSets, first: int
) -> tuple[PredictedChunk, int]:
    """The predictions of a chunk of rows, numbered from `first`, and how many of these rows have no node."""
    # A file may hold labels that the model does not know.
    chunk = match_rows(model, replace(chunk, labels=None, label_names=()))
    encoded = model.encoder.encode(chunk.rows, chunk.row_edges)
    empty = int((encoded.nodes.lengths() == 0).sum()) if chunk.kind in ("wordset", "text") else 0
    logits, states = model.logits_of(model.views(encoded)), known_states(model, chunk)
    proba, chosen = label_sets(model, decision, logits, states, asked)
    ids = chunk.ids or tuple(str(first + i) for i in range(len(chunk)))
    return PredictedChunk(ids, model.label_names, proba, chosen), empty
