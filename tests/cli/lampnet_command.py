"""Running the command line as a user does, and small data to run it on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SMALL = ("--set", "model.width=16", "--set", "training.warmup_steps=5", "--set", "training.threads=1")


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str

    def mistake(self) -> str:
        """The one line that explains a caller's mistake."""
        assert self.code == 2, (self.code, self.err)
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if line.startswith("lampnet: ") and "warning" not in line]
        assert len(lines) == 1, self.err
        return lines[0]


def lampnet(*arguments: object, folder: Path | None = None) -> Finished:
    """Run in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "LAMPNET_DATA"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "lampnet", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def here(*arguments: object) -> int:
    """Run in this process, which is quicker; output is left to the test's capture."""
    from lampnet.cli.app import run

    return run([str(argument) for argument in arguments])


def explain_asked(model: Path, rows: Path, out: Path, *options: object) -> int:
    """`lampnet explain` of a file, without pictures."""
    return here("explain", model, rows, "--pictures", 0, "--out", out, *options)


def texts(n: int = 40) -> list[dict[str, Any]]:
    """Rows whose labels are words of theirs."""
    rows: list[dict[str, Any]] = []
    for i in range(n):
        labels = [name for bit, name in enumerate(("rome", "cup", "rain")) if i >> bit & 1]
        rows.append(
            {"id": f"row{i}", "text": f"report {i % 7} about {' and '.join(labels) or 'nothing'}", "labels": labels}
        )
    return rows


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path
