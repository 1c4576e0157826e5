"""Damaged and forged training folders and prepared folders.

    python fuzz_training_folders.py training|prepared FOLDER CASES SEED

`training` changes a file beside the checkpoints of a training that was interrupted, mostly with its digest put right,
and resumes it; `prepared` changes a file of a prepared folder, some with their digests put right, and trains on it.
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
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from bounded_cases import run_cases
from damage import changed_json, damaged
from fuzz_model_folders import EXTREMES

from lampnet.config import Config
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


def run_on(rows: Path, folds: int) -> Run:
    config = Config().updated({**SMALL, "training.folds": folds})
    return Run(source=Source(data=str(rows)), config=config, label_graph="full")


def write_rows(path: Path) -> Path:
    draw = np.random.default_rng(0)
    texts = [list(draw.choice(WORDS, size=4)) for _ in range(40)]
    lines = [json.dumps({"text": " ".join(words), "labels": sorted(set(words) & set(WORDS[:3]))}) for words in texts]
    path.write_text("\n".join(lines) + "\n")
    return path


def interrupted(folder: Path, rows: Path) -> None:
    """A training of two networks that stands after the first epoch of each."""
    with patch("lampnet.pipeline.run._forget_state"):
        train_into(run_on(rows, 2), folder)
    asked = folder / "checkpoints" / "run.json"
    asked.write_text(json.dumps(json.loads(asked.read_text()) | {"finished": False}))
    for path in (folder / "checkpoints").rglob("checkpoint-*"):
        found = read_checkpoint(path)
        found.state["progress"] |= {"status": "interrupted", "epoch": 1, "batch": 0}
        write_checkpoint(path, found.tensors, found.state)


def not_regular(path: Path, draw: random.Random) -> None:
    path.unlink()
    if draw.random() < 0.5:
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


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
    target = folder / "case"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder / "good", target)
    files = sorted(path for path in (target / "checkpoints").rglob("*") if path.is_file())
    path = draw.choice(files)
    kind = draw.random()
    if kind < 0.03:
        not_regular(path, draw)
    elif path.name == "run.json" and kind < 0.7:
        path.write_text(json.dumps(changed_json(json.loads(path.read_text()), draw)))
    elif path.name != "run.json" and kind < 0.8:
        forged(path, draw)
    else:
        path.write_bytes(damaged(path.read_bytes(), draw))
    train_into(run_on(rows, 2), target, Resume(any_run=True))


def forged_array(path: Path, draw: random.Random) -> str:
    """One number of an array replaced; returns the new digest."""
    array = np.load(path)
    with np.errstate(all="ignore"):
        array.reshape(-1)[draw.randrange(array.size)] = np.array(draw.choice(EXTREMES)).astype(array.dtype)
    path.write_bytes(path.read_bytes()[: -array.nbytes] + array.tobytes())
    return hashlib.sha256(array.tobytes()).hexdigest()


def prepared_case(folder: Path, draw: random.Random, rows: Path) -> None:
    target, model = folder / "case", folder / "model"
    for path in (target, model):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(folder / draw.choice(("texts", "molecules")), target)
    manifest = target / "prepared.json"
    described: Any = json.loads(manifest.read_text())
    kind = draw.random()
    files = sorted(path for path in target.rglob("*") if path.is_file())
    if kind < 0.03:
        not_regular(draw.choice(files), draw)
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
    open_prepared(target)
    train_into(run_on(target, 1), model)


def main() -> None:
    kind, folder, cases, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    rows = write_rows(folder / "rows.jsonl")
    if kind == "training":
        interrupted(folder / "good", rows)
    else:
        molecules = folder / "molecules.jsonl"
        molecules.write_text('{"smiles": "CCO", "labels": ["x"]}\n{"smiles": "c1ccccc1C", "labels": ["y"]}\n' * 20)
        for name, data in (("texts", rows), ("molecules", molecules)):
            prepare_source(Source(data=str(data)), folder / name, Config().updated(SMALL), lambda sentence: None)
    case = training_case if kind == "training" else prepared_case
    print(json.dumps(run_cases(lambda number: case(folder, random.Random(f"{seed} {number}"), rows), cases)))


if __name__ == "__main__":
    main()
