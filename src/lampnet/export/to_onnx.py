"""A fitted model as one ONNX file: rows, and what is known of their labels, to probabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit

from lampnet.errors import ConfigError
from lampnet.evaluation.calibration import Calibration
from lampnet.evaluation.under_hierarchy import plain_rule
from lampnet.evaluation.whole_set import WholeSet
from lampnet.export.base_learners import base_logits
from lampnet.export.graph import IR_VERSION, ML, ML_OPSET, OPSET, Graph, Value
from lampnet.export.hierarchy import lowered
from lampnet.export.known import given_known
from lampnet.export.network import BaseLogits, ensemble_logits
from lampnet.export.rows.any_kind import row_input
from lampnet.export.rows.base import RowInput
from lampnet.export.shown_labels import shown_logits
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.whole_file import WholeFile

#: a file of Protocol Buffers holds no more
MOST_BYTES = 2_000_000_000


class OnnxModel:
    """A fitted model as an ONNX graph.

    Inputs are those of the rows' kind (see `export/rows/`) and `known`, int8 (rows, labels): 1 true, -1 false,
    0 unknown; it may be left out. Outputs are `probabilities` and `logits`, float32 (rows, labels).
    """

    def __init__(self, model: FittedModel) -> None:
        if model.precision != "float32":
            raise ConfigError(
                "this model predicts with 8-bit products, which ONNX files do not hold; export the model as it "
                "was trained"
            )
        self.model, self.graph = model, Graph()
        self.rows: RowInput = row_input(self.graph, model.encoder)
        logits = self._shown_logits()
        dims = ("rows", len(model.label_names))
        if model.hierarchy is not None:
            logits = lowered(self.graph, model.hierarchy, logits)
        if model.conditional is None:
            probabilities = self.graph.op("Sigmoid", logits)
        else:
            nothing = np.zeros((1, dims[1]), np.int8)
            known = self.graph.input("known", np.int8, ("known_rows", dims[1]), default=nothing)
            logits, probabilities = given_known(self.graph, model.conditional, logits, known)
        self.graph.output("probabilities", probabilities, np.float32, dims)
        self.graph.output("logits", logits, np.float32, dims)

    def feeds(self, rows: Any) -> dict[str, np.ndarray]:
        """The inputs for rows as the model's encoder takes them."""
        made = self.rows.feeds(rows, self.model.encoder.encode(rows))
        wanted = {one.name for one in self.graph.inputs}
        return {name: np.ascontiguousarray(values) for name, values in made.items() if name in wanted}

    def save(self, file: str | Path) -> Path:
        """Write the file, whole or not at all."""
        file, model = Path(file), self.model
        if self.graph.constant_bytes() > MOST_BYTES:
            raise ConfigError(
                f"this model takes {self.graph.constant_bytes() / 1e9:.1f} GB as ONNX, more than one file can hold; "
                "train with fewer rows or without the base learners knn, forest, boosted and kernel"
            )
        from onnx import helper

        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        made = helper.make_model(
            self.graph.proto("lampnet"), opset_imports=opsets, ir_version=IR_VERSION, producer_name="lampnet"
        )
        metadata = {"labels": list(model.label_names), "kind": model.encoder.kind, **self.rows.metadata()}
        rules = {metric: plain_rule(rule) for metric, rule in model.decisions.best.items()}
        metadata["decisions"] = {m: rule.to_json() for m, rule in rules.items() if not isinstance(rule, WholeSet)}
        if model.hierarchy is not None:
            metadata["label_hierarchy"] = model.hierarchy.to_json()
        helper.set_model_props(
            made, {name: value if isinstance(value, str) else json.dumps(value) for name, value in metadata.items()}
        )
        with WholeFile(file) as whole:
            whole.file.write(made.SerializeToString())
            whole.finish()
        return file

    def _shown_logits(self) -> Value:
        """`FittedModel.logits_of`: calibrated, of the labels that are shown."""
        model, graph, shown = self.model, self.graph, self.model.shown
        base = None if model.stack is None else base_logits(graph, model.stack, self.rows.features)
        if shown is None:
            return self._prior_for_empty_rows(self._calibrated(self._logits(base)), model.label_priors)
        logits = self._calibrated(self._logits(None if base is None else base.first_labels(shown.trained)))
        if len(shown.priors_S) > shown.trained:
            assert base is not None
            added = base.stacked_BL.sliced(shown.trained, len(shown.priors_S), 1)
            logits = graph.joined([logits, added], axis=1)
        return shown_logits(graph, shown, self._prior_for_empty_rows(logits, shown.priors_S))

    def _logits(self, base: BaseLogits | None) -> Value:
        """Of the labels of the training."""
        model, graph = self.model, self.graph
        if model.network_weight == 0:
            assert base is not None
            return base.stacked_BL
        assert model.network is not None
        logits = graph.mean([ensemble_logits(graph, model.network, nodes, base) for nodes in self.rows.views()])
        if model.network_weight == 1:
            return logits
        assert base is not None
        share = np.float32(model.network_weight)
        return logits * share + base.stacked_BL * np.float32(1 - model.network_weight)

    def _calibrated(self, logits: Value) -> Value:
        """`Calibration.apply`: a sum of pieces, each as far as the logit reaches into it."""
        calibration: Calibration | None = self.model.calibration
        if calibration is None:
            return logits
        graph, x, y = self.graph, calibration.knots_K, calibration.values_K
        z = logits.cast(np.float64).unsqueezed(-1)
        low, high = np.append(-np.inf, x[1:-1]), np.append(x[1:-1], np.inf)
        begin = np.clip(x[0], low, high)
        pieces = graph.op("Max", graph.op("Min", z, high), low) - begin
        curve: Value = (pieces * (np.diff(y) / np.diff(x))).summed(-1, keep=False) + y[0]
        calibrated: Value = curve * calibration.slope_L + calibration.shift_L
        return calibrated.cast(np.float32)

    def _prior_for_empty_rows(self, logits: Value, priors: np.ndarray | None) -> Value:
        has_nodes = self.rows.has_nodes()
        if has_nodes is None or priors is None:
            return logits
        return self.graph.where(has_nodes.unsqueezed(1), logits, logit(priors).astype(np.float32)[None])
