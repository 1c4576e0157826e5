"""A model is a folder: safetensors, JSON and a model card. Loading executes nothing.

==================== ==========================================================================
weights.safetensors  all numbers: `network.*`, `encoder.*`, `stack.*`, `graph.*`, `label_priors`
model.json           format version, settings, label names, encoder, decisions, facts, digest
README.md            the model card
history.json         one record an epoch
checkpoints/         what `lampnet train --resume` continues from (written by the training)
==================== ==========================================================================

A folder is written beside its place and renamed, so nothing half-written is left; into a folder
that exists (a training's), the files are moved one by one, `model.json` last.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch.overrides import TorchFunctionMode

from lampnet.base_learners.restore import restore_stack
from lampnet.config import Config
from lampnet.encoders import restore_encoder
from lampnet.errors import LampnetError, ModelFolderError
from lampnet.evaluation.choose_rules import Decisions
from lampnet.inference.predictor import FittedModel
from lampnet.model.build import build_network
from lampnet.persistence.model_card import model_card
from lampnet.persistence.tensor_file import Entry, read_arrays, read_header, write_arrays

FORMAT = "lampnet-model"
VERSION = 1
WEIGHTS, MODEL, CARD, HISTORY, CHECKPOINTS = (
    "weights.safetensors",
    "model.json",
    "README.md",
    "history.json",
    "checkpoints",
)
MAX_JSON = 500_000_000
_PARTS = ("config", "label_names", "encoder", "decisions", "facts", "weights_sha256")


def save_model(model: FittedModel, folder: str | Path) -> Path:
    """Write a model folder; an older model there is replaced, any other folder is left alone."""
    folder = Path(folder)
    check_target(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    except OSError as fault:
        raise _unwritable(folder, fault) from None
    try:
        _write(model, fresh)
        if not folder.exists():
            fresh.chmod(0o755)  # mkdtemp's folders are private, a model is not
            os.rename(fresh, folder)
        else:
            for name in (WEIGHTS, CARD, HISTORY, MODEL):  # model.json is what makes the folder a model: last
                os.replace(fresh / name, folder / name)
    except OSError as fault:
        raise _unwritable(folder, fault) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


def check_target(folder: str | Path) -> None:
    """Refuse to write over anything that is not a model or a training of lampnet's."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError(f"{folder} is a file; give the name of a folder for the model")
    try:
        there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as fault:
        raise _unwritable(folder, fault) from None
    if there and MODEL not in there and CHECKPOINTS not in there:
        raise ModelFolderError(
            f"{folder} is not empty and holds no lampnet model ({sorted(there)[0]!r} is there); give another folder"
        )


def _unwritable(folder: Path, fault: OSError) -> ModelFolderError:
    return ModelFolderError(f"{folder} cannot be written ({fault.strerror or fault}); give another folder")


def _write(model: FittedModel, folder: Path) -> None:
    arrays = {f"network.{k}": v.detach().numpy() for k, v in model.network.state_dict().items()}
    arrays |= {f"encoder.{k}": v for k, v in model.encoder.arrays().items()}
    if model.stack is not None:
        arrays |= {f"stack.{k}": v for k, v in model.stack.arrays().items()}
    if model.graph is not None:
        graph = sparse.csr_matrix(model.graph)
        graph.sort_indices()
        arrays |= {"graph.starts": graph.indptr.astype(np.int64), "graph.hears": graph.indices.astype(np.int64)}
    if model.label_priors is not None:
        arrays["label_priors"] = np.asarray(model.label_priors, dtype=np.float32)
    digest = write_arrays(folder / WEIGHTS, arrays)
    facts = dict(model.metadata)
    history = facts.pop("history", [])
    _write_json(folder / HISTORY, history)
    (folder / CARD).write_text(model_card(model), encoding="utf-8")
    _write_json(
        folder / MODEL,
        {
            "format": FORMAT,
            "version": VERSION,
            "config": model.config.to_json(),
            "label_names": list(model.label_names),
            "encoder": {"kind": model.encoder.kind, "state": model.encoder.state()},
            "decisions": model.decisions.to_json(),
            "facts": facts,
            "weights_sha256": digest,
        },
    )


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=True) + "\n", encoding="utf-8")


def load_model(folder: str | Path) -> FittedModel:
    """Read a model folder; anything damaged, foreign or of another version is a `ModelFolderError`."""
    folder = Path(folder)
    described = _described(folder)
    try:
        return _load(folder, described)
    except ModelFolderError:
        raise
    except LampnetError as fault:
        raise ModelFolderError(f"{folder} is damaged or foreign: {fault}") from None


def _described(folder: Path) -> dict[str, Any]:
    """`model.json`, its outer shape checked."""
    path = folder / MODEL
    if not folder.is_dir():
        raise ModelFolderError(f"there is no model folder {folder}; train one with: {_train_into(folder)}")
    try:
        if path.stat().st_size > MAX_JSON:
            raise ModelFolderError(f"{path} is too large to be a model's description")
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFolderError(_no_model(folder)) from None
    except OSError as fault:
        raise ModelFolderError(f"{path} cannot be read ({fault.strerror or fault})") from None
    except (ValueError, RecursionError) as fault:
        if isinstance(fault, ModelFolderError):
            raise
        raise ModelFolderError(f"{path} is damaged: it is not JSON; train or copy the model again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFolderError(f"{path} does not describe a lampnet model")
    if data.get("version") != VERSION:
        raise ModelFolderError(
            f"{folder} has format version {str(data.get('version'))[:20]}, this lampnet reads {VERSION}; "
            "use the lampnet that wrote it or train again"
        )
    lacking = [part for part in _PARTS if part not in data]
    if lacking:
        raise ModelFolderError(f"{path} is damaged: it lacks {lacking[0]!r}")
    return data


def _no_model(folder: Path) -> str:
    resumed = f"with: {_train_into(folder, '--resume')}" if (folder / CHECKPOINTS).is_dir() else ""
    if (folder / WEIGHTS).is_file():
        again = f"write it again {resumed}" if resumed else "train again"
        return f"{folder} is damaged: it has no {MODEL}, though {WEIGHTS} is there; copy the model again, or {again}"
    if resumed:
        return f"{folder} holds an unfinished training; finish it {resumed}"
    return f"{folder} is not a model folder: it has no {MODEL}; train one with: {_train_into(folder)}"


def _train_into(folder: Path, what: str = "DATA") -> str:
    return shlex.join(["lampnet", "train", what, "--out", str(folder)])


def _load(folder: Path, data: Mapping[str, Any]) -> FittedModel:
    config = Config.from_json(data["config"])
    names, digest, facts = data["label_names"], data["weights_sha256"], data["facts"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ModelFolderError(f"{folder / MODEL}: the label names must be a list of texts")
    if len(set(names)) != len(names):
        raise ModelFolderError(f"{folder / MODEL}: a label name occurs twice")
    if not isinstance(digest, str) or not isinstance(facts, dict):
        raise ModelFolderError(f"{folder / MODEL}: the digest or the facts are damaged")
    decisions = Decisions.from_json(data["decisions"], len(names))
    header = read_header(folder / WEIGHTS)
    _check_size(folder, config, len(names), header)
    arrays = read_arrays(folder / WEIGHTS, header, digest)
    described = data["encoder"]
    if not isinstance(described, dict) or not isinstance(described.get("kind"), str):
        raise ModelFolderError(f"{folder / MODEL}: the encoder's description is damaged")
    own = _under(arrays, "encoder.")
    encoder = _restored(lambda: restore_encoder(described["kind"], config.input, described.get("state", {}), own))
    stack = _restored(
        lambda: (
            restore_stack(config.model.base_learners, _under(arrays, "stack."), len(names))
            if config.model.base_learners
            else None
        )
    )
    graph = _graph(config, len(names), arrays)
    state = _under(arrays, "network.")
    with torch.device("meta"), _Unfilled():  # shapes without memory
        wanted = _restored(lambda: build_network(config, len(names), encoder, graph).state_dict())
    _compare(folder, {name: tuple(tensor.shape) for name, tensor in wanted.items()}, state)
    network = build_network(config, len(names), encoder, graph)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    network.eval()
    facts = facts | {"history": _history(folder)}
    shares = arrays.get("label_priors")
    if shares is not None and (shares.shape != (len(names),) or not ((shares > 0) & (shares < 1)).all()):
        raise ModelFolderError(f"{folder} is damaged: its label priors are no shares of the labels")
    return FittedModel(config, tuple(names), encoder, stack, graph, network, decisions, facts, shares)


class _Unfilled(TorchFunctionMode):
    """Tensors without memory are neither filled nor scaled: torch would load its compiler for that, for seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        if func is torch.Tensor.mul and isinstance(args[1], float):
            return args[0]
        return (torch.empty if func is torch.randn else func)(*args, **kwargs)


def _restored(make: Any) -> Any:
    """What `make` returns; the many ways in which forged numbers fail become one error."""
    try:
        return make()
    except LampnetError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError) as fault:
        raise ModelFolderError(f"the model folder is damaged: {str(fault)[:200]}") from None


def _under(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _check_size(folder: Path, config: Config, n_labels: int, header: Mapping[str, Entry]) -> None:
    """What the settings imply must be in the file before anything of that size is made."""
    model = config.model
    members = config.training.folds
    if not 1 <= members <= len(header):
        raise ModelFolderError(f"{folder} is damaged: {members} networks are announced, the weights have fewer")
    for number in range(members):
        vectors = header.get("network.W_y" if members == 1 else f"network.members.{number}.W_y")
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


def _compare(folder: Path, wanted: Mapping[str, tuple[int, ...]], state: Mapping[str, np.ndarray]) -> None:
    for name, shape in wanted.items():
        if name not in state:
            raise ModelFolderError(f"{folder} is damaged: the weights {name!r} are missing")
        if state[name].shape != shape or state[name].dtype.kind != "f":
            raise ModelFolderError(
                f"{folder} is damaged: the weights {name!r} have shape {state[name].shape}, expected {shape}"
            )
    extra = sorted(set(state) - set(wanted))
    if extra:
        raise ModelFolderError(f"{folder} is damaged: the weights {extra[0]!r} belong to no part of this model")


def _graph(config: Config, n_labels: int, arrays: Mapping[str, np.ndarray]) -> sparse.csr_matrix | None:
    if config.label_graph in ("full", "edgeless"):
        return None
    starts, hears = arrays.get("graph.starts"), arrays.get("graph.hears")
    if starts is None or hears is None:
        raise ModelFolderError(f"the label graph {config.label_graph!r} is announced, but its edges are missing")
    ordered = (
        starts.dtype == np.int64 and starts.shape == (n_labels + 1,) and starts[0] == 0 and (np.diff(starts) >= 0).all()
    )
    if not ordered or starts[-1] != len(hears) or hears.dtype != np.int64 or hears.ndim != 1:
        raise ModelFolderError("the label graph of this model is damaged")
    if len(hears) and (hears.min() < 0 or hears.max() >= n_labels):
        raise ModelFolderError("the label graph of this model names labels that do not exist")
    graph = sparse.csr_matrix((np.ones(len(hears), dtype=bool), hears, starts), shape=(n_labels, n_labels))
    if not graph.diagonal().all():
        raise ModelFolderError("the label graph of this model is damaged: a label does not hear itself")
    graph.sort_indices()
    return graph


def _history(folder: Path) -> list[Any]:
    """The epochs' records; a model works without them."""
    try:
        history = json.loads((folder / HISTORY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    return history if isinstance(history, list) else []
