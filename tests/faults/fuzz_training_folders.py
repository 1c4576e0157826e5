"""Damaged and forged training folders and prepared folders.

    python fuzz_training_folders.py training|prepared FOLDER CASES SEED

`training` changes a file beside the checkpoints of a training that was interrupted, mostly with its digest put right,
and resumes it; `prepared` changes a file of a prepared folder, some with their digests put right, and trains on it, or
prepares rows there again. Files and folders also become links to files of somebody else, which must stay as they are.
Prints the summary of `bounded_cases.run_cases` as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from bounded_cases import run_cases
from damage import changed_json, damaged
from fuzz_model_folders import EXTREMES
from small_encoders import small_static

from lampnet.config import Config
from lampnet.pipeline.base_learner_files import EMBEDDINGS
from lampnet.pipeline.mapped_rows import open_prepared
from lampnet.pipeline.prepare import prepare_source
from lampnet.pipeline.run import Resume, Run, train_into
from lampnet.readers.sources import Source
from lampnet.training.checkpoint import read_checkpoint, write_checkpoint

SMALL = {
    "model.width": 8, "model.heads": 2, "model.steps": 1, "model.base_learners": "linear", "input.min_count": 1,
    "training.epochs": 2, "training.threads": 1, "training.patience": 0, "training.batch_size": 16,
}  # fmt: skip
WORDS = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree"])
#: what a link leads to
LETTER = b"of somebody else"


def run_on(rows: Path, folds: int, encoder: Path | None = None) -> Run:
    config = Config().updated({**SMALL, "training.folds": folds})
    if encoder is not None:
        reads = {"input.pretrained": str(encoder), "input.pretrained_use": "pooled"}
        config = config.updated(reads | {"model.base_learners": "linear,pretrained_linear"})
    return Run(source=Source(data=str(rows)), config=config, label_graph="full")


def write_rows(path: Path) -> Path:
    draw = np.random.default_rng(0)
    texts = [list(draw.choice(WORDS, size=4)) for _ in range(40)]
    lines = [json.dumps({"text": " ".join(words), "labels": sorted(set(words) & set(WORDS[:3]))}) for words in texts]
    path.write_text("\n".join(lines) + "\n")
    return path


def interrupted(folder: Path, asked_for: Run) -> None:
    """A training of two networks that stands after the first epoch of each."""
    with patch("lampnet.pipeline.run._forget_state"):
        train_into(asked_for, folder)
    asked = folder / "checkpoints" / "run.json"
    asked.write_text(json.dumps(json.loads(asked.read_text()) | {"finished": False}))
    for path in (folder / "checkpoints").rglob("checkpoint-*"):
        found = read_checkpoint(path)
        found.state["progress"] |= {"status": "interrupted", "epoch": 1, "batch": 0}
        write_checkpoint(path, found.tensors, found.state)


def not_regular(path: Path, elsewhere: Path, draw: random.Random) -> None:
    """A file becomes a pipe, a link to a device or to a file elsewhere, or a second name of it; a folder, a link."""
    kind = draw.randrange(5)
    if path.is_dir() or kind == 4:
        path.rename(elsewhere / path.name)  # the good one is there: only a write would show
        path.symlink_to(elsewhere / path.name)
        return
    path.unlink()
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.symlink_to("/dev/zero")
    elif kind == 2:
        path.symlink_to(elsewhere / "letter")
    else:
        os.link(elsewhere / "letter", path)


@contextmanager
def unchanged(elsewhere: Path) -> Iterator[None]:
    """What is elsewhere once links lead there stays: no file more, none less, none with another content."""
    before = contents_of(elsewhere)
    try:
        yield
    finally:
        assert contents_of(elsewhere) == before, "written to through a link"


def contents_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def emptied(folder: Path) -> Path:
    """A folder of somebody else's that holds a letter."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "letter").write_bytes(LETTER)
    return folder


def forged(path: Path, draw: random.Random) -> None:
    """A checkpoint, or the file of a base learner, with other contents and the right digest."""
    found = read_checkpoint(path)
    tensors, state = dict(found.tensors), found.state
    if draw.random() < 0.6:
        state = changed_json(state, draw)
    else:
        name = draw.choice(sorted(tensors))
        tensor = tensors.pop(name).clone()
        kind = draw.randrange(4)
        if kind == 0:
            tensors[name] = torch.full_like(tensor, float(draw.choice(EXTREMES)) if tensor.is_floating_point() else -1)
        elif kind == 1:
            tensors[name] = tensor.reshape(-1)[: draw.randrange(tensor.numel() + 1)].clone()
        elif kind == 2:
            tensors[draw.choice((f"{name}9", f"more.{name}", "x"))] = tensor
    write_checkpoint(path, tensors, state)


def training_case(folder: Path, draw: random.Random, rows: Path) -> None:
    target, elsewhere = folder / "case", emptied(folder / "elsewhere")
    shutil.rmtree(target, ignore_errors=True)
    encoder = draw.choice((None, folder / "encoder"))
    shutil.copytree(folder / ("good" if encoder is None else "embedded"), target)
    files = sorted(path for path in (target / "checkpoints").rglob("*") if path.is_file())
    path = draw.choice(files)
    kind = draw.random()
    if kind < 0.1:
        folders = [target / "checkpoints", target / "checkpoints" / "network-2"]
        not_regular(draw.choice((*files, *folders)), elsewhere, draw)
    elif path.name == "run.json" and kind < 0.7:
        path.write_text(json.dumps(changed_json(json.loads(path.read_text()), draw)))
    elif path.name not in ("run.json", EMBEDDINGS) and kind < 0.8:
        forged(path, draw)
    else:
        path.write_bytes(damaged(path.read_bytes(), draw))
    begins_anew = draw.random() < 0.05
    with unchanged(elsewhere):
        train_into(run_on(rows, 2, encoder), target, None if begins_anew else Resume(any_run=True), begins_anew)


def forged_array(path: Path, draw: random.Random) -> str:
    """One number of an array replaced; returns the new digest."""
    array = np.load(path)
    with np.errstate(all="ignore"):
        array.reshape(-1)[draw.randrange(array.size)] = np.array(draw.choice(EXTREMES)).astype(array.dtype)
    path.write_bytes(path.read_bytes()[: -array.nbytes] + array.tobytes())
    return hashlib.sha256(array.tobytes()).hexdigest()


def prepared_case(folder: Path, draw: random.Random, rows: Path) -> None:
    target, model, elsewhere = folder / "case", folder / "model", emptied(folder / "elsewhere")
    for path in (target, model):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder / draw.choice(("texts", "molecules")), target)
    manifest = target / "prepared.json"
    described: Any = json.loads(manifest.read_text())
    kind = draw.random()
    files = sorted(path for path in target.rglob("*") if path.is_file())
    if kind < 0.1:
        not_regular(draw.choice((*files, target / "train", target / "valid")), elsewhere, draw)
    elif kind < 0.4:
        manifest.write_text(json.dumps(changed_json(described, draw)))
    elif kind < 0.7:
        part, name = draw.choice(
            [(part, name) for part in described["parts"] for name in described["parts"][part]["arrays"]]
        )
        described["parts"][part]["arrays"][name]["sha256"] = forged_array(target / part / f"{name}.npy", draw)
        manifest.write_text(json.dumps(described))
    elif kind < 0.85:
        learned = target / "encoder.safetensors"
        learned.write_bytes(damaged(learned.read_bytes(), draw))
        described["learned_sha256"] = hashlib.sha256(learned.read_bytes()).hexdigest()
        manifest.write_text(json.dumps(described))
    else:
        path = draw.choice(files)
        path.write_bytes(damaged(path.read_bytes(), draw))
    source, config = Source(data=str(rows)), Config().updated(SMALL)
    with unchanged(elsewhere):
        if draw.random() < 0.1:
            prepare_source(source, target, config, lambda sentence: None, overwrite=True)
        open_prepared(target)
        train_into(run_on(target, 1), model)


def main() -> None:
    kind, folder, cases, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    rows = write_rows(folder / "rows.jsonl")
    if kind == "training":
        small_static(folder / "encoder")
        interrupted(folder / "good", run_on(rows, 2))
        interrupted(folder / "embedded", run_on(rows, 2, folder / "encoder"))
    else:
        molecules = folder / "molecules.jsonl"
        molecules.write_text('{"smiles": "CCO", "labels": ["x"]}\n{"smiles": "c1ccccc1C", "labels": ["y"]}\n' * 20)
        for name, data in (("texts", rows), ("molecules", molecules)):
            prepare_source(Source(data=str(data)), folder / name, Config().updated(SMALL), lambda sentence: None)
    case = training_case if kind == "training" else prepared_case
    print(json.dumps(run_cases(lambda number: case(folder, random.Random(f"{seed} {number}"), rows), cases)))


if __name__ == "__main__":
    main()
