"""A small training run in its own process, for tests that kill it, limit its disk space or start it twice.

    python toy_training.py once FOLDER [resume] [lose_worker_at=STEP,STEP,...] [setting=value ...]
    python toy_training.py killed FOLDER KILLS SEED

`once` trains and prints one line per event and, at the end, the digest of the weights. Of the processes that torchrun
started, one is killed at the first of the steps, after the first restart at the second, and so on.
`killed` trains once without interruption, then in child processes that are killed with SIGKILL after a random
number of lines and resumed until the run ends; it prints both digests and the number of kills survived.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.errors import LampnetError
from lampnet.inference.predictor import FittedModel
from lampnet.pipeline.fit import FitRun, fit
from lampnet.runtime import distributed
from lampnet.training.progress import Progress, Stopped

SMALL = {
    "model.width": 16,
    "model.heads": 2,
    "training.epochs": 6,
    "training.batch_size": 16,
    "training.warmup_steps": 10,
    "training.threads": 1,
    "training.patience": 0,
    "training.checkpoint_minutes": 0,  # after every step
    "training.keep_network": "always",
}


def toy_splits(rows: int = 220, seed: int = 0, unknown: float = 0.0) -> Splits:
    """Word sets whose labels are noisy functions of a few words; a share of `unknown` labels is NaN."""
    draw = np.random.default_rng(seed)
    words = (draw.random((rows, 40)) < 0.2).astype(np.float32)
    labels = np.maximum(words[:, :6], words[:, 6:12] * (draw.random((rows, 6)) < 0.5))
    labels[draw.random((rows, 6)) < unknown] = np.nan
    data = Dataset(
        name="toy",
        kind="wordset",
        rows=sparse.csr_matrix(words),
        labels=sparse.csr_matrix(labels.astype(np.float32)),
        label_names=tuple("abcdef"),
    )
    return Splits(train=data)


def digest_of(model: FittedModel) -> str:
    """A digest of all weights, to the last bit."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.network.state_dict().items()):
        digest.update(name.encode() + weight.numpy().tobytes())
    return digest.hexdigest()


def train(folder: Path, resume: bool, log: Any, changes: dict[str, Any], unknown: float = 0.0) -> FittedModel:
    """Train the toy model; `log` receives one line per event."""

    def on_event(event: str, progress: Progress) -> None:
        if event == "epoch":
            record = progress.history[-1]
            event = f"epoch {record.epoch} loss {record.loss!r} score {record.score!r}"
        log(f"{event} at {progress.step}" if event in ("step", "resumed", "step back") else event)

    config = Config().updated({**SMALL, **changes})
    return fit(toy_splits(unknown=unknown), config, run=FitRun(folder=folder, resume=resume, callback=on_event))


def print_line(line: str) -> None:
    print(line, flush=True)


def once(arguments: argparse.Namespace) -> int:
    resume = "resume" in arguments.settings
    changes = dict(setting.split("=", 1) for setting in arguments.settings if setting != "resume")
    unknown = float(changes.pop("unknown", 0))
    steps = changes.pop("lose_worker_at", "").split(",")
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    lose_at = f"step at {steps[restarts]}" if restarts < len(steps) else "no step"

    def log(line: str) -> None:
        print_line(line)
        if line == lose_at:  # the other process and the leader itself take turns
            os.kill(os.getpid() if restarts % 2 else other_worker(), signal.SIGKILL)

    try:
        with distributed.joined() as us:
            model = train(arguments.folder, resume, log, changes, unknown)
            if us.leads:
                print_line(f"weights {digest_of(model)}")
    except Stopped as stopped:
        print_line("stopped")
        return 128 + stopped.signal_number
    except LampnetError as fault:
        print_line(f"error: {type(fault).__name__}: {fault}")
        return 2
    return 0


def other_worker() -> int:
    """The other process that torchrun started."""
    children = Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read_text().split()
    return next(int(child) for child in children if int(child) != os.getpid())


def killed(arguments: argparse.Namespace) -> int:
    print_line(digest_of(train(arguments.folder / "uninterrupted", False, lambda line: None, {})))
    moments, survived = random.Random(arguments.seed), 0
    while True:
        lines = moments.randrange(1, 9) if survived < arguments.kills else 10**9
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as pipe:
                model = train(arguments.folder / "killed", True, lambda line: print(line, file=pipe, flush=True), {})
                print(digest_of(model), file=pipe, flush=True)
            os._exit(0)
        os.close(writer)
        final = ""
        with os.fdopen(reader) as pipe:
            for number, line in enumerate(pipe, 1):
                final = line.strip()
                if number == lines:
                    os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            survived += 1
            continue
        print_line(final)
        print_line(str(survived))
        return 0 if os.WIFEXITED(status) else 1


def main() -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("once")
    one.add_argument("folder", type=Path)
    one.add_argument("settings", nargs="*", help="resume or setting=value")
    one.set_defaults(run=once)
    many = commands.add_parser("killed")
    many.add_argument("folder", type=Path)
    many.add_argument("kills", type=int)
    many.add_argument("seed", type=int)
    many.set_defaults(run=killed)
    arguments = parser.parse_args()
    code: int = arguments.run(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())
