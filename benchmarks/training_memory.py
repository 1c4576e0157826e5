"""What the advice on docs/how-to/out-of-memory.md saves: the peak memory of trainings that differ in one thing.

    python benchmarks/training_memory.py            # measure (needs LAMPNET_DATA), then write the table
    python benchmarks/training_memory.py --check    # fail where the page differs from the measurements

Each training is `lampnet train` in a process of its own: word sets of Bibtex, one network, one epoch, one thread. The
peak is that of the resident memory, less what a process has that has only loaded lampnet.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pages.measured_section import MeasuredSection

ROWS = 4000
#: what the page calls it, and its arguments
SETTINGS: dict[str, tuple[str, ...]] = {
    "the default": (),
    "`--set model.base_learners=linear`": ("--set", "model.base_learners=linear"),
    "`--set training.batch_size=16`": ("--set", "training.batch_size=16"),
    "`--set training.accumulate=4`": ("--set", "training.accumulate=4"),
    "`--preset quick`": ("--preset", "quick"),
}
PREPARED = "`lampnet prepare`, then `lampnet train`: the larger of the two"
ONE_NETWORK = ("--set", "training.folds=1", "--set", "training.epochs=1", "--set", "training.threads=1")
#: a bare interpreter starts the command: a process has the peak of the one that started it
LAUNCHER = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
said = process.stderr.read()
_, status, usage = os.wait4(process.pid, 0)
process.returncode = 0
print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss / 1024, said.decode()[-2000:]]))
"""


def peak_mb(*command: object) -> float:
    """Peak resident memory of a Python command in megabytes."""
    bare = [sys.executable, "-I", "-S", "-c", LAUNCHER, sys.executable, *map(str, command)]
    done = subprocess.run(bare, capture_output=True, text=True, check=True)
    code, megabytes, said = json.loads(done.stdout)
    if code:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {code}: {said}")
    return float(megabytes)


def write_rows(file: Path) -> None:
    """Rows of Bibtex as JSON lines."""
    from lampnet import load_data

    data = load_data("bibtex").train
    with file.open("w", encoding="utf-8") as lines:
        for row, labels in list(zip(data.rows, data.labels, strict=True))[:ROWS]:
            features = {data.feature_names[j]: 1 for j in row.indices}
            lines.write(
                json.dumps({"features": features, "labels": [data.label_names[j] for j in labels.indices]}) + "\n"
            )


def measure() -> dict[str, Any]:
    measured: dict[str, Any] = {"data": "bibtex", "rows": ROWS, "mb": {}}
    with tempfile.TemporaryDirectory() as made:
        folder, rows = Path(made), Path(made) / "rows.jsonl"
        write_rows(rows)
        idle = peak_mb("-c", "import lampnet.pipeline.fit")
        train = ("-m", "lampnet", "train", "--quiet", "--overwrite", "--out", folder / "model")
        for name, arguments in SETTINGS.items():
            measured["mb"][name] = peak_mb(*train, rows, *ONE_NETWORK, *arguments) - idle
            SECTION.keep(measured)
        prepare = peak_mb("-m", "lampnet", "prepare", rows, "--out", folder / "prepared", *ONE_NETWORK)
        measured["mb"][PREPARED] = max(prepare, peak_mb(*train, folder / "prepared")) - idle
    return measured


def section(measured: dict[str, Any]) -> str:
    whole = measured["mb"]["the default"]
    lines = [
        f"| {measured['rows']:,} rows of {measured['data'].title()} | peak memory | of the default |",
        "|---|--:|--:|",
    ]
    lines += [f"| {name} | {mb:,.0f} MB | {mb / whole:.0%} |" for name, mb in measured["mb"].items()]
    return "\n".join(lines)


SECTION = MeasuredSection("training_memory", "how-to/out-of-memory.md", "memory", section)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    if arguments.parse_args().check:
        SECTION.check()
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    SECTION.keep(measure())
    SECTION.write()


if __name__ == "__main__":
    main()
