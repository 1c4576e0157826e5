"""Saves of a model, each killed at another of its system calls by strace.

    python killed_saves.py FOLDER EVERY

Takes every EVERY-th system call of two saves: one into a folder that holds another model and the checkpoints of its
training, one into a folder that does not exist yet. After each kill the folder must hold the old model or the new one,
whole (or none, where there was none), and the next save must succeed and remove all that was left. Prints a JSON
summary; `failures` holds what went otherwise.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import ModelFolderError
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline.fit import fit

PR_SET_PTRACER, ANY_PROCESS = 0x59616D61, ctypes.c_ulong(-1)


def trained(seed: int) -> FittedModel:
    words = (np.random.default_rng(seed).random((40, 12)) < 0.4).astype(np.float32)
    data = Dataset(
        name="toy", kind="wordset", rows=sparse.csr_matrix(words), labels=sparse.csr_matrix(words[:, :3]),
        label_names=("a", "b", "c"),
    )  # fmt: skip
    small = {"model.width": 8, "training.epochs": 1, "training.threads": 1, "training.folds": 1, "training.seed": seed}
    return fit(Splits(train=data), Config().updated(small))


def traced_save(model: FittedModel, folder: Path, *options: str) -> int:
    """Save in a process that strace watches from its first system call on; returns the process's end."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY_PROCESS, 0, 0, 0)
        os.close(writer)
        os.read(reader, 1)  # until strace is there
        save_model(model, folder)
        os._exit(0)
    os.close(reader)
    strace = subprocess.Popen(["strace", "-f", *options, "-p", str(child)], stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    first = strace.stderr.readline()
    os.close(writer)  # the child goes on
    rest = strace.stderr.read()
    strace.wait()
    _, status = os.waitpid(child, 0)
    if "attached" not in first:
        print(json.dumps({"refused": (first + rest).strip()}))
        sys.exit(0)
    return os.waitstatus_to_exitcode(status)


def state_of(folder: Path) -> str:
    """The identity of the model in a folder; empty where there is none."""
    try:
        return str(load_model(folder).metadata["model_sha256"])
    except ModelFolderError as fault:
        if not folder.exists() or "it has no model.json" in str(fault):
            return ""
        raise


def main() -> None:
    base, every = Path(sys.argv[1]), int(sys.argv[2])
    old, new = trained(0), trained(1)
    before = save_model(old, base / "before")
    (before / "checkpoints").mkdir()
    (before / "checkpoints" / "run.json").write_text("{}")
    names = {"": "none", state_of(before): "old", state_of(save_model(new, base / "wanted")): "new"}
    assert len(names) == 3
    found: Counter[str] = Counter()
    failures: list[str] = []
    calls: dict[str, int] = {}
    target = base / "model"
    for scenario, start in (("replace", before), ("first", None)):
        log = base / "calls"
        reset(target, start)
        assert traced_save(new, target, "-o", str(log)) == 0
        points = kill_points(log)
        calls[scenario] = len(points)
        for number, (name, when) in list(enumerate(points, 1))[::every]:
            reset(target, start)
            end = traced_save(new, target, "-o", os.devnull, "-e", f"inject={name}:signal=KILL:when={when}")
            problem = check(target, start, new, names, found) if end in (0, -signal.SIGKILL) else f"ended with {end}"
            if problem:
                failures.append(f"{scenario}, call {number} ({name} {when}): {problem}")
    print(json.dumps({"points": sum(found.values()), "calls": calls, "found": found, "failures": failures}))


def kill_points(log: Path) -> list[tuple[str, int]]:
    """The system calls of a save, each by its name and its number among those of that name, as strace counts them."""
    names = re.findall(r"^\d+ +(\w+)\(", log.read_text(errors="replace"), re.MULTILINE)
    seen: Counter[str] = Counter()
    points = []
    for name in names:
        seen[name] += 1
        points.append((name, seen[name]))
    return points


def reset(target: Path, start: Path | None) -> None:
    shutil.rmtree(target, ignore_errors=True)
    if start is not None:
        shutil.copytree(start, target)


def check(target: Path, start: Path | None, new: FittedModel, names: dict[str, str], found: Any) -> str:
    """What is wrong with the folder after a kill; empty where nothing is."""
    try:
        state = names[state_of(target)]
    except (KeyError, ModelFolderError) as fault:
        return f"neither the old nor the new model: {fault}"
    found[state] += 1
    if start is not None and state == "none":
        return "the model is gone"
    save_model(new, target)
    there = {path.name for path in target.iterdir()}
    kept = {"checkpoints"} if start is not None else set()
    if len(there) != 3 + len(kept) or not kept <= there or names[state_of(target)] != "new":
        return f"the next save left {sorted(there)}"
    return ""


if __name__ == "__main__":
    main()
