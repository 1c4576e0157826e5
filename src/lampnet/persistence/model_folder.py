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
from pathlib import Path

import numpy as np
from scipy import sparse

from lampnet.errors import LampnetError, ModelFolderError
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.conditional_parts import conditional_arrays, conditional_json
from lampnet.persistence.model_card import model_card
from lampnet.persistence.model_description import (
    CHECKPOINTS,
    FORMAT,
    MAX_JSON,
    MODEL,
    VERSION,
    read_description,
    weights_files,
    weights_name,
)
from lampnet.persistence.probability_parts import promise_arrays
from lampnet.persistence.read_model import read_model
from lampnet.persistence.tensor_file import encode_arrays
from lampnet.runtime.atomic_files import is_temporary, remove_file, replace_files
from lampnet.runtime.folder_lock import LOCK, claimed

CARD = "README.md"
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
                return read_model(folder, described, pretrained)
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
