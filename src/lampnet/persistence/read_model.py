"""The parts of a stored model, each checked before it is used: the folder is untrusted.

What the settings imply is compared with the header of the weights before memory of that size is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from lampnet.base_learners.restore import restore_stack
from lampnet.base_learners.stack import Stack
from lampnet.config import Config
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.encoders import restore_encoder
from lampnet.encoders.base import Encoder
from lampnet.errors import LampnetError, ModelFolderError
from lampnet.evaluation.choose_rules import Decisions
from lampnet.inference.conditional import Conditional
from lampnet.inference.predictor import FittedModel
from lampnet.inference.shown_labels import ShownLabels
from lampnet.model.build import build_ensemble
from lampnet.model.ensemble import Ensemble
from lampnet.model.label_states import LabelStates
from lampnet.persistence.conditional_parts import check_size, restore_conditional
from lampnet.persistence.model_description import MODEL, identity, weights_name
from lampnet.persistence.network_weights import with_weights, without_memory
from lampnet.persistence.probability_parts import restore_calibration, restore_promises
from lampnet.persistence.tensor_file import Entry, arrays_under, read_arrays, read_header

Arrays = Mapping[str, np.ndarray]
Made = TypeVar("Made")


def read_model(folder: Path, data: Mapping[str, Any], pretrained: str | None) -> FittedModel:
    """The model that a folder's `model.json` describes.

    data  what `read_description` returned
    """
    config = Config.from_json(data["config"])
    names = _label_names(folder, data)
    metadata = _metadata(folder, data)
    kind, state = _encoder_description(folder, data)
    hierarchy = _hierarchy(data, names)
    decisions = Decisions.from_json(data["decisions"], len(names)).under(hierarchy)

    weights = folder / weights_name(data["weights_sha256"])
    header = read_header(weights)
    n_trained = _trained_labels(folder, data, len(names), header)
    _check_sizes(folder, data, config, n_trained, header)
    arrays = read_arrays(weights, header, data["weights_sha256"])

    shown = _shown_labels(data, arrays, len(names))
    n_columns = len(names) if shown is None else len(shown.priors_S)
    encoder = _restored(
        lambda: restore_encoder(kind, config.input, state, arrays_under(arrays, "encoder."), pretrained)
    )
    stack = _stack(config, arrays, n_columns)
    graph = _graph(config, n_trained, arrays)
    network = _network(folder, config, n_trained, encoder, graph, arrays)
    own_graph = graph if shown is None else None  # labels that were changed exchange no messages
    conditional = _conditional(folder, data, config, own_graph, hierarchy, len(names), arrays)
    return FittedModel(
        config=config,
        label_names=names,
        encoder=encoder,
        stack=stack,
        graph=graph,
        network=network,
        decisions=decisions,
        network_weight=_network_weight(folder, data, stack, network),
        label_priors=_label_priors(folder, arrays, len(names)),
        metadata=metadata | {"model_sha256": identity(data)},
        conditional=conditional,
        calibration=restore_calibration(arrays_under(arrays, "calibration."), n_trained),
        promises=restore_promises(arrays_under(arrays, "promises.")),
        shown=shown,
        hierarchy=hierarchy,
    )


def _label_names(folder: Path, data: Mapping[str, Any]) -> tuple[str, ...]:
    names = data["label_names"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ModelFolderError(f"{folder / MODEL}: the label names must be a list of texts")
    if len(set(names)) != len(names):
        raise ModelFolderError(f"{folder / MODEL}: a label name occurs twice")
    return tuple(names)


def _metadata(folder: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    metadata = data["metadata"]
    if not isinstance(metadata, dict):
        raise ModelFolderError(f"{folder / MODEL}: the metadata is damaged")
    return metadata


def _encoder_description(folder: Path, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of the encoder, and its state."""
    described = data["encoder"] if isinstance(data["encoder"], dict) else {}
    kind, state = described.get("kind"), described.get("state")
    if not isinstance(kind, str) or not isinstance(state, dict):
        raise ModelFolderError(f"{folder / MODEL}: the encoder's description is damaged")
    return kind, state


def _hierarchy(data: Mapping[str, Any], names: tuple[str, ...]) -> LabelHierarchy | None:
    """Models of an older lampnet have none."""
    return None if data.get("hierarchy") is None else LabelHierarchy.from_json(data["hierarchy"], names)


def _trained_labels(folder: Path, data: Mapping[str, Any], n_labels: int, header: Mapping[str, Entry]) -> int:
    """The number of labels that the model was trained with, before any were changed."""
    shown = data.get("shown")
    if shown is None:
        return n_labels
    count = shown.get("trained") if isinstance(shown, dict) else None
    if type(count) is not int or header.get("shown.priors") is None:
        raise ModelFolderError(f"{folder / MODEL}: the description of changed labels is damaged")
    return count


def _check_sizes(
    folder: Path, data: Mapping[str, Any], config: Config, n_trained: int, header: Mapping[str, Entry]
) -> None:
    _check_network_size(folder, config, n_trained, header)
    if data.get("known") is not None:
        check_size(data["known"], config, header)


def _check_network_size(folder: Path, config: Config, n_labels: int, header: Mapping[str, Entry]) -> None:
    """What the settings imply must be in the file before anything of that size is made."""
    if not config.model.network:
        return
    model, members = config.model, config.training.folds
    if not 1 <= members <= len(header):
        raise ModelFolderError(f"{folder} is damaged: {members} networks are announced, the weights have fewer")
    for number in range(members):
        vectors = header.get(f"network.members.{number}.W_y")
        if vectors is None or vectors.shape != (n_labels, model.width):
            found = "none" if vectors is None else f"shape {vectors.shape}"
            raise ModelFolderError(
                f"{folder} is damaged: {n_labels} labels of width {model.width} are announced, label vectors: {found}"
            )
    passes = sum(name.startswith("network.") and name.endswith(".W_q.weight") for name in header)
    widest = max(max(entry.shape, default=0) for entry in header.values())
    if members * (2 * model.steps + model.feature_steps) != passes or model.width * model.hidden_multiple > widest:
        raise ModelFolderError(
            f"{folder} is damaged: the settings announce other steps or widths than the weights have"
        )


def _shown_labels(data: Mapping[str, Any], arrays: Arrays, n_labels: int) -> ShownLabels | None:
    if data.get("shown") is None:
        return None
    return ShownLabels.from_json(data["shown"], arrays.get("shown.priors"), n_labels)


def _stack(config: Config, arrays: Arrays, n_columns: int) -> Stack | None:
    learners = config.model.base_learners
    if not learners:
        return None
    return _restored(lambda: restore_stack(learners, arrays_under(arrays, "stack."), n_columns))


def _graph(config: Config, n_labels: int, arrays: Arrays) -> sparse.csr_matrix | None:
    if config.label_graph in ("full", "edgeless"):
        return None
    offsets, sources = arrays.get("graph.offsets"), arrays.get("graph.sources")
    if offsets is None or sources is None:
        raise ModelFolderError(f"the label graph {config.label_graph!r} is announced, but its edges are missing")
    rising = offsets.dtype == np.int64 and offsets.shape == (n_labels + 1,) and (np.diff(offsets, prepend=0) >= 0).all()
    if not rising or offsets[0] or offsets[-1] != len(sources) or sources.dtype != np.int64 or sources.ndim != 1:
        raise ModelFolderError("the label graph of this model is damaged")
    if len(sources) and (sources.min() < 0 or sources.max() >= n_labels):
        raise ModelFolderError("the label graph of this model names labels that do not exist")
    graph = sparse.csr_matrix((np.ones(len(sources), dtype=bool), sources, offsets), shape=(n_labels, n_labels))
    if not graph.diagonal().all():
        raise ModelFolderError("the label graph of this model is damaged: a label has no edge to itself")
    graph.sort_indices()
    return graph


def _network(
    folder: Path, config: Config, n_labels: int, encoder: Encoder, graph: sparse.csr_matrix | None, arrays: Arrays
) -> Ensemble | None:
    if not config.model.network:
        return None
    empty = _restored(lambda: without_memory(lambda: build_ensemble(config, n_labels, encoder, graph)))
    return with_weights(folder, empty, arrays_under(arrays, "network."))


def _conditional(
    folder: Path,
    data: Mapping[str, Any],
    config: Config,
    graph: sparse.csr_matrix | None,
    hierarchy: LabelHierarchy | None,
    n_labels: int,
    arrays: Arrays,
) -> Conditional | None:
    """What predicts labels from known labels."""
    if data.get("known") is None:
        return None

    def filled(build: Callable[[], LabelStates], stored: Arrays) -> LabelStates:
        return with_weights(folder, without_memory(build), stored)

    made = _restored(lambda: restore_conditional(data["known"], config, graph, n_labels, arrays, filled))
    return replace(made, hierarchy=hierarchy)


def _network_weight(folder: Path, data: Mapping[str, Any], stack: Stack | None, network: Ensemble | None) -> float:
    weight = data["network_weight"]
    if not isinstance(weight, float) or not 0 <= weight <= 1 or (weight > 0 and network is None):
        raise ModelFolderError(f"{folder / MODEL}: the weight of the network is damaged")
    if weight < 1 and stack is None:
        raise ModelFolderError(f"{folder / MODEL}: a part of each prediction would come from no model")
    return weight


def _label_priors(folder: Path, arrays: Arrays, n_labels: int) -> np.ndarray:
    """(L,)"""
    priors = arrays.get("label_priors")
    if priors is None or priors.shape != (n_labels,) or not ((priors > 0) & (priors < 1)).all():
        raise ModelFolderError(f"{folder} is damaged: it needs one prior between 0 and 1 for each label")
    return priors


def _restored(make: Callable[[], Made]) -> Made:
    """What `make` returns. Forged numbers fail in many ways; all of them become one error."""
    try:
        return make()
    except LampnetError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError) as fault:
        raise ModelFolderError(f"the model folder is damaged: {str(fault)[:200]}") from None
