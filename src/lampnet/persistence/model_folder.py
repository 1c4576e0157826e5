"""A model is a folder: safetensors, JSON and a model card. Loading executes nothing.

One rename replaces a model. The weights' file is named by its digest, so the old and the new one lie side by
side; `model.json` names one of them by that digest, and is renamed last. Whenever a process is killed or the
power fails, the folder holds the old model or the new one, whole. This needs nothing but the rename of a file,
which is atomic everywhere, where swapping whole folders would need calls that differ between systems and that
network and container file systems lack. What a killed process left is removed by the next one that saves.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.overrides import TorchFunctionMode

from lampnet.base_learners.restore import restore_stack
from lampnet.config import Config
from lampnet.data.label_hierarchy import LabelHierarchy
from lampnet.encoders import restore_encoder
from lampnet.errors import LampnetError, ModelFolderError
from lampnet.evaluation.choose_rules import Decisions
from lampnet.inference.predictor import FittedModel
from lampnet.inference.shown_labels import ShownLabels
from lampnet.model.build import build_ensemble
from lampnet.model.label_states import LabelStates
from lampnet.persistence.conditional_parts import (
    check_size,
    conditional_arrays,
    conditional_json,
    restore_conditional,
)
from lampnet.persistence.model_card import model_card
from lampnet.persistence.probability_parts import promise_arrays, restore_calibration, restore_promises
from lampnet.persistence.tensor_file import Entry, arrays_under, encode_arrays, read_arrays, read_header
from lampnet.runtime.atomic_files import is_temporary, remove_file, replace_files
from lampnet.runtime.folder_lock import LOCK, claimed
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import read_regular

FORMAT = "lampnet-model"
#: version 4 adds the calibration and the promises, version 5 what the rows of a kNN count; older models have none.
#: From version 6 on, what a shift by known labels counts depends on how much is known.
VERSION, READABLE = 6, (3, 4, 5, 6)
MODEL, CARD = "model.json", "README.md"
CHECKPOINTS = "checkpoints"
MAX_JSON = 64_000_000
_PARTS = ("config", "label_names", "encoder", "decisions", "network_weight", "metadata", "weights_sha256")
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: metadata that is made when a model is loaded
_OF_THE_FOLDER = ("model_sha256",)


def save_model(model: FittedModel, folder: str | Path) -> Path:
    """Write a model folder. A model that is there already is replaced; any other folder is left alone."""
    folder = Path(folder)
    check_target(folder)
    weights, described = _encoded(model)
    if len(described) > MAX_JSON:
        raise ModelFolderError(f"the model's description takes {len(described):,} bytes, more than {MAX_JSON:,}")
    with claimed(folder):
        check_target(folder)
        path = folder / weights_name(hashlib.sha256(weights).hexdigest())
        card = model_card(model).encode()
        try:
            replace_files({path: (weights,), folder / CARD: (card,), folder / MODEL: (described,)})
        except OSError as fault:
            raise _unwritable(folder, fault) from None
        finally:
            _remove_unused(folder)
    return folder


def _remove_unused(folder: Path) -> None:
    """Remove weights that `model.json` does not name, and a card where there is no model."""
    try:
        named = weights_name(read_description(folder)["weights_sha256"])
    except ModelFolderError:
        if (folder / MODEL).exists():  # damaged: perhaps it can be put right
            return
        named = ""
        remove_file(folder / CARD)
    for path in weights_files(folder):
        if path.name != named:
            remove_file(path)


def weights_name(digest: str) -> str:
    """The weights' file of a model whose weights have this SHA-256 digest.

    >>> weights_name("0123456789abcdef" * 4)
    'weights-0123456789abcdef.safetensors'
    """
    return f"weights-{digest[:16]}.safetensors"


def weights_files(folder: Path) -> list[Path]:
    """All weights in a folder: those of its model, and what a process left that was killed while saving."""
    return sorted(folder.glob("weights-*.safetensors"))


def check_target(folder: str | Path) -> None:
    """Refuse to write over anything but a lampnet model or an unfinished training."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError(f"{folder} is a file; give the name of a folder for the model")
    try:
        there = {path.name for path in folder.iterdir()} if folder.exists() else set()
        weights = {path.name for path in weights_files(folder)}
    except OSError as fault:
        raise _unwritable(folder, fault) from None
    # A first save that was killed leaves weights and perhaps a card.
    own = weights | ({CARD} if weights else set()) | {LOCK}
    foreign = sorted(name for name in there - own if not is_temporary(name))
    if foreign and MODEL not in there and CHECKPOINTS not in there:
        raise ModelFolderError(
            f"{folder} is not empty and holds no lampnet model ({foreign[0]!r} is there); give another folder"
        )


def _unwritable(folder: Path, fault: OSError) -> ModelFolderError:
    return ModelFolderError(f"{folder} cannot be written ({fault.strerror or fault}); give another folder")


def _encoded(model: FittedModel) -> tuple[bytes, bytes]:
    """The contents of the weights' file and of `model.json`."""
    network = {} if model.network is None else model.network.state_dict()
    arrays = {f"network.{k}": v.detach().numpy() for k, v in network.items()}
    arrays |= {f"encoder.{k}": v for k, v in model.encoder.arrays().items()}
    if model.stack is not None:
        arrays |= {f"stack.{k}": v for k, v in model.stack.arrays().items()}
    if model.graph is not None:
        graph = sparse.csr_matrix(model.graph)
        graph.sort_indices()
        arrays |= {"graph.offsets": graph.indptr.astype(np.int64), "graph.sources": graph.indices.astype(np.int64)}
    if model.conditional is not None:
        arrays |= conditional_arrays(model.conditional)
    if model.calibration is not None:
        arrays |= {f"calibration.{name}": array for name, array in vars(model.calibration).items()}
    if model.promises is not None:
        arrays |= promise_arrays(model.promises)
    if model.shown is not None:
        arrays["shown.priors"] = model.shown.priors_S
    arrays["label_priors"] = np.asarray(model.label_priors, dtype=np.float32)
    weights = encode_arrays(arrays)
    described = {
        "format": FORMAT,
        "version": VERSION,
        "config": model.config.to_json(),
        "label_names": list(model.label_names),
        "encoder": {"kind": model.encoder.kind, "state": model.encoder.state()},
        "decisions": model.decisions.to_json(),
        "network_weight": model.network_weight,
        "shown": None if model.shown is None else model.shown.to_json(),
        "hierarchy": None if model.hierarchy is None else model.hierarchy.to_json(),
        "known": None if model.conditional is None else conditional_json(model.conditional),
        "metadata": {key: value for key, value in model.metadata.items() if key not in _OF_THE_FOLDER},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    text = json.dumps(described, indent=1, ensure_ascii=False, allow_nan=True) + "\n"
    return weights, text.encode()


def load_model(folder: str | Path, pretrained: str | None = None) -> FittedModel:
    """Read a model folder; anything damaged, foreign or of another version is a `ModelFolderError`.

    pretrained  the folder of the text encoder that it was trained with, if it was; by default LAMPNET_PRETRAINED
    """
    folder = Path(folder)
    try:
        described = read_description(folder)
        while True:
            try:
                return _load(folder, described, pretrained)
            except ModelFolderError:
                # Was the model replaced between reading its description and its weights? Then the new one is read.
                again = read_description(folder)
                if again["weights_sha256"] == described["weights_sha256"]:
                    raise
                described = again
    except ModelFolderError:
        raise
    except LampnetError as fault:
        raise ModelFolderError(f"{folder} cannot be loaded: {fault}") from None


def read_description(folder: Path) -> dict[str, Any]:
    """`model.json`, its outer shape checked."""
    path = folder / MODEL
    if not folder.is_dir():
        raise ModelFolderError(f"there is no model folder {folder}; train one with: {_train_into(folder)}")
    try:
        data = parse_json(read_regular(path, MAX_JSON))
    except FileNotFoundError:
        raise ModelFolderError(_no_model(folder)) from None
    except OSError as fault:
        raise ModelFolderError(f"{path} cannot be read ({fault.strerror or fault})") from None
    except ValueError as fault:
        raise ModelFolderError(f"{path} is damaged: {fault}; train or copy the model again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFolderError(f"{path} does not describe a lampnet model")
    version = data.get("version")
    if type(version) is not int or version not in READABLE:
        raise ModelFolderError(
            f"{folder} has format version {str(version)[:20]}, this lampnet reads {' and '.join(map(str, READABLE))}; "
            "use the lampnet that wrote it or train again"
        )
    lacking = [part for part in _PARTS if part not in data]
    if lacking:
        raise ModelFolderError(f"{path} is damaged: it lacks {lacking[0]!r}")
    digest = data["weights_sha256"]
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ModelFolderError(f"{path} is damaged: the digest of the weights is none")
    return data


def _no_model(folder: Path) -> str:
    resumed = f"with: {_train_into(folder, '--resume')}" if (folder / CHECKPOINTS).is_dir() else ""
    weights = weights_files(folder)
    if weights:
        again = f"write it again {resumed}" if resumed else "train again"
        there = f"though {weights[0].name} is there"
        return f"{folder} is damaged: it has no {MODEL}, {there}; copy the model again, or {again}"
    if resumed:
        return f"{folder} holds an unfinished training; finish it {resumed}"
    return f"{folder} is not a model folder: it has no {MODEL}; train one with: {_train_into(folder)}"


def _train_into(folder: Path, what: str = "DATA") -> str:
    return shlex.join(["lampnet", "train", what, "--out", str(folder)])


def _load(folder: Path, data: Mapping[str, Any], pretrained: str | None) -> FittedModel:
    config = Config.from_json(data["config"])
    names, digest, metadata = data["label_names"], data["weights_sha256"], data["metadata"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ModelFolderError(f"{folder / MODEL}: the label names must be a list of texts")
    if len(set(names)) != len(names):
        raise ModelFolderError(f"{folder / MODEL}: a label name occurs twice")
    if not isinstance(metadata, dict):
        raise ModelFolderError(f"{folder / MODEL}: the metadata is damaged")
    described = data["encoder"] if isinstance(data["encoder"], dict) else {}
    kind, state = described.get("kind"), described.get("state")
    if not isinstance(kind, str) or not isinstance(state, dict):
        raise ModelFolderError(f"{folder / MODEL}: the encoder's description is damaged")
    hierarchy = None  # models of an older lampnet have none
    if data.get("hierarchy") is not None:
        hierarchy = LabelHierarchy.from_json(data["hierarchy"], names)
    decisions = Decisions.from_json(data["decisions"], len(names)).under(hierarchy)
    weights = folder / weights_name(digest)
    header = read_header(weights)
    shown_data, n_trained = data.get("shown"), len(names)
    if shown_data is not None:
        priors_there = header.get("shown.priors")
        count = shown_data.get("trained") if isinstance(shown_data, dict) else None
        if type(count) is not int or priors_there is None:
            raise ModelFolderError(f"{folder / MODEL}: the description of changed labels is damaged")
        n_trained = count
    _check_size(folder, config, n_trained, header)
    known = data.get("known")
    if known is not None:
        check_size(known, config, header)
    arrays = read_arrays(weights, header, digest)
    shown = None if shown_data is None else ShownLabels.from_json(shown_data, arrays.get("shown.priors"), len(names))
    n_columns = len(names) if shown is None else len(shown.priors_S)
    encoder = _restored(
        lambda: restore_encoder(kind, config.input, state, arrays_under(arrays, "encoder."), pretrained)
    )
    stack = None
    if config.model.base_learners:
        stack = _restored(lambda: restore_stack(config.model.base_learners, arrays_under(arrays, "stack."), n_columns))
    graph = _graph(config, n_trained, arrays)
    network = None
    if config.model.network:
        with torch.device("meta"), _Unfilled():  # shapes without memory: the stored weights are put in below
            network = _restored(lambda: build_ensemble(config, n_trained, encoder, graph))
        stored = arrays_under(arrays, "network.")
        network.load_state_dict(_weights(folder, network.state_dict(), stored), assign=True)
        network.eval()
    conditional = None
    if known is not None:

        def filled(make: Callable[[], LabelStates], stored: Mapping[str, np.ndarray]) -> LabelStates:
            with torch.device("meta"), _Unfilled():
                made: LabelStates = _restored(make)
            made.load_state_dict(_weights(folder, made.state_dict(), stored), assign=True)
            return made.eval()

        own_graph = graph if shown is None else None  # labels that were changed exchange no messages
        conditional = _restored(lambda: restore_conditional(known, config, own_graph, len(names), arrays, filled))
        conditional = replace(conditional, hierarchy=hierarchy)
    weight = data["network_weight"]
    if not isinstance(weight, float) or not 0 <= weight <= 1 or (weight > 0 and network is None):
        raise ModelFolderError(f"{folder / MODEL}: the weight of the network is damaged")
    if weight < 1 and stack is None:
        raise ModelFolderError(f"{folder / MODEL}: a part of each prediction would come from no model")
    priors = arrays.get("label_priors")
    if priors is None or priors.shape != (len(names),) or not ((priors > 0) & (priors < 1)).all():
        raise ModelFolderError(f"{folder} is damaged: it needs one prior between 0 and 1 for each label")
    metadata = metadata | {"model_sha256": _identity(data)}
    return FittedModel(
        config=config,
        label_names=tuple(names),
        encoder=encoder,
        stack=stack,
        graph=graph,
        network=network,
        decisions=decisions,
        metadata=metadata,
        label_priors=priors,
        network_weight=weight,
        conditional=conditional,
        calibration=restore_calibration(arrays_under(arrays, "calibration."), n_trained),
        promises=restore_promises(arrays_under(arrays, "promises.")),
        shown=shown,
        hierarchy=hierarchy,
    )


class _Unfilled(TorchFunctionMode):
    """Skips filling and scaling tensors on the meta device, for which torch would load its compiler, for seconds.

    Tensors with memory (a pretrained transformer) are made as usual.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensor = args[0] if args else kwargs.get("tensor")
        if getattr(func, "__module__", "") == "torch.nn.init" and tensor.is_meta:
            return tensor
        if func in (torch.Tensor.normal_, torch.Tensor.uniform_) and tensor.is_meta:
            return tensor
        if func is torch.Tensor.mul and isinstance(args[1], float) and tensor.is_meta:
            return tensor
        if func is torch.randn and kwargs.get("device") is None:
            func = torch.empty
        return func(*args, **kwargs)


def _restored(make: Any) -> Any:
    """What `make` returns. Forged numbers fail in many ways; all of them become one error."""
    try:
        return make()
    except LampnetError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError) as fault:
        raise ModelFolderError(f"the model folder is damaged: {str(fault)[:200]}") from None


def _check_size(folder: Path, config: Config, n_labels: int, header: Mapping[str, Entry]) -> None:
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


def _weights(folder: Path, wanted: Mapping[str, Tensor], stored: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """The stored weights as tensors, checked against the shapes and types that the network needs."""
    weights = {name: torch.from_numpy(array).clone() for name, array in stored.items()}
    for name, tensor in wanted.items():
        if name not in weights:
            raise ModelFolderError(f"{folder} is damaged: the weights {name!r} are missing")
        found = weights[name]
        if (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
            raise ModelFolderError(
                f"{folder} is damaged: the weights {name!r} have shape {tuple(found.shape)} and type {found.dtype}, "
                f"expected {tuple(tensor.shape)} and {tensor.dtype}"
            )
    extra = sorted(set(weights) - set(wanted))
    if extra:
        raise ModelFolderError(f"{folder} is damaged: the weights {extra[0]!r} belong to no part of this model")
    return weights


def _graph(config: Config, n_labels: int, arrays: Mapping[str, np.ndarray]) -> sparse.csr_matrix | None:
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


def _identity(data: Mapping[str, Any]) -> str:
    """A digest of all that decides a prediction; times and scores of the training are left out."""
    deciding = {part: data[part] for part in _PARTS if part != "metadata"}
    deciding |= {part: data[part] for part in ("shown", "hierarchy", "known") if data.get(part) is not None}
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()
