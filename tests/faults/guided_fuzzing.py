"""Fuzzing that keeps the inputs by which code is reached that no input reached before (atheris, libFuzzer).

    pip install --target /tmp/atheris atheris
    PYTHONPATH=/tmp/atheris python tests/faults/guided_fuzzing.py --seconds 150 --out FILE.json [TARGET ...]

Each target runs in a process of its own, and begins with the good files of the other fuzzers. An input must be read,
or refused with a `LampnetError` of one line. The file gets, for each target, how many inputs there were, how many
places of lampnet's code they reached, how many inputs reached new ones, and what went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: what libFuzzer ends a process for: seconds of one input, megabytes of all
SECONDS, MEGABYTES = 20, 3000
#: what the readers may take
READERS_MEMORY = 400_000_000
_STATISTIC = re.compile(r"stat::(\w+):\s+(\d+)")
_COVERED = re.compile(r"#\d+.*? cov: (\d+) ft: \d+ corp: (\d+)")
Use = Callable[[bytes], None]


def of_files(folder: Path, names: tuple[str, ...], read: Callable[[Path], object]) -> tuple[Use, list[bytes]]:
    """Content under the name of the first of these good files, and the good files."""
    import fuzz_files

    from lampnet.runtime.memory_limit import limited_to

    fuzz_files.write_seeds(folder / "seeds")
    target = folder / "case" / names[0]

    def use(content: bytes) -> None:
        target.write_bytes(content)
        with limited_to(READERS_MEMORY):
            read(target)

    return use, [(folder / "seeds" / name).read_bytes() for name in names]


def arff(folder: Path) -> tuple[Use, list[bytes]]:
    from lampnet.readers.any_format import read

    names = ("dense.arff", "sparse.arff", "numbers.arff", "meka.arff")
    return of_files(folder, names, lambda path: read(path, labels=("y1", "y2")))


def csv_roles(folder: Path) -> tuple[Use, list[bytes]]:
    from lampnet.readers.any_format import read

    return of_files(folder, ("table.csv", "lists.csv", "numbers.csv", "python.csv"), read)


def label_hierarchy(folder: Path) -> tuple[Use, list[bytes]]:
    from lampnet.readers.label_edges import read_label_hierarchy

    names = ("parents.csv", "edges.csv", "edges.tsv")
    return of_files(folder, names, lambda path: read_label_hierarchy(path, ("alpha", "beta", "gamma")))


class Guided(random.Random):
    """A random generator whose choices are the bytes of an input, so that libFuzzer makes them."""

    def __init__(self, content: bytes) -> None:
        super().__init__(0)
        self.content, self.place = content, 0

    def random(self) -> float:
        return self.getrandbits(16) / 65536

    def getrandbits(self, count: int) -> int:
        taken = self.content[self.place : self.place + (count + 7) // 8]
        self.place += len(taken)
        return int.from_bytes(taken, "little") & ((1 << count) - 1)

    def _randbelow(self, below: int) -> int:
        return self.getrandbits(max(8, below.bit_length())) % below


def model_json(folder: Path) -> tuple[Use, list[bytes]]:
    """The bytes choose a model, and what changes in its description."""
    import fuzz_model_folders as models
    from damage import changed_json

    from lampnet.persistence.model_folder import load_model

    kinds = ("columns", "parts", "hierarchy", "changed labels", "known labels")
    if not (folder / "models").exists():
        models.write_models(folder / "models", kinds)
    good = [(folder / "models" / kind / "model.json").read_bytes() for kind in kinds]

    def use(content: bytes) -> None:
        draw = Guided(content)
        which = draw.randrange(len(kinds))
        described = json.loads(good[which])
        for _ in range(1 + draw.randrange(3)):
            described = changed_json(described, draw)
        path = folder / "models" / kinds[which]
        (path / "model.json").write_text(json.dumps(described))
        load_model(path)

    return use, [bytes(draw) for draw in ([0] * 8, *(list(random.Random(i).randbytes(40)) for i in range(200)))]


TARGETS: dict[str, Callable[[Path], tuple[Use, list[bytes]]]] = {
    "ARFF": arff,
    "CSV": csv_roles,
    "label hierarchy": label_hierarchy,
    "model.json": model_json,
}


def fuzz(target: str, seconds: int, folder: Path) -> None:
    """Run one target; libFuzzer ends the process. Each kind of failure is written to a file once."""
    import atheris

    if target == "model.json":  # made by code that is not watched, which takes half the time
        code = f"import fuzzing, guided_fuzzing as g; from pathlib import Path; g.model_json(Path({str(folder)!r}))"
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": _search_path()})
    with atheris.instrument_imports(include=["lampnet"]):
        use, seeds = TARGETS[target](folder)
    from lampnet.errors import LampnetError

    warnings.simplefilter("ignore")
    corpus, found = folder / "corpus", folder / "failures"
    for path in (corpus, found):
        path.mkdir()
    for number, content in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(content)

    def one(content: bytes) -> None:
        try:
            use(content)
        except LampnetError as refusal:
            if "\n" in str(refusal):
                (found / "a refusal of several lines").write_bytes(content)
        except Exception as fault:
            frame = fault.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            where = "" if frame is None else f"{Path(frame.tb_frame.f_code.co_filename).name} {frame.tb_lineno}"
            (found / f"{type(fault).__name__} {where}").write_bytes(content)

    limits = [f"-timeout={SECONDS}", f"-rss_limit_mb={MEGABYTES}", f"-max_total_time={seconds}", "-max_len=4096"]
    options = ["-print_final_stats=1", f"-artifact_prefix={found}/", str(corpus)]
    atheris.Setup([sys.argv[0], *limits, *options], one)
    atheris.Fuzz()


def summary_of(target: str, seconds: int, folder: Path) -> dict[str, Any]:
    """Run one target in a process and read what libFuzzer says."""
    command = [sys.executable, __file__, "--inside", str(folder), "--seconds", str(seconds), target]
    began = sum(os.times()[2:4])
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=alone)
    taken = sum(os.times()[2:4]) - began
    statistics = {name: int(value) for name, value in _STATISTIC.findall(done.stderr)}
    covered = _COVERED.findall(done.stderr)
    if not covered:
        raise RuntimeError(done.stderr[-2000:])
    failures = sorted(path.name for path in (folder / "failures").iterdir())
    if done.returncode and not failures:
        failures = [f"exit code {done.returncode}: {done.stderr[-300:]}"]
    for path in (folder / "failures").iterdir():
        print(f"{target}: {path.name}: {path.read_bytes()[:300]!r}", file=sys.stderr)
    inputs = statistics.get("number_of_executed_units", 0)
    return {
        "seconds": seconds,
        "processor_seconds": round(taken),
        "inputs": inputs,
        "places": int(covered[-1][0]),
        "places_of_good_files": int(covered[0][0]),
        "inputs_kept": int(covered[-1][1]),
        "failures": failures,
    }


def _search_path() -> str:
    return os.pathsep.join((str(HERE), os.environ.get("PYTHONPATH", "")))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inside", type=Path)
    parser.add_argument("targets", nargs="*", default=[])
    given = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if given.inside is not None:
        fuzz(given.targets[0], given.seconds, given.inside)
        return
    sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
    from reliability_page import measured_code

    measured: dict[str, Any] = {"atheris": version("atheris"), "measured_on": measured_code(), "targets": {}}
    for target in given.targets or TARGETS:
        with tempfile.TemporaryDirectory(prefix="lampnet-guided-") as folder:
            measured["targets"][target] = summary_of(target, given.seconds, Path(folder))
        print(target, json.dumps(measured["targets"][target]), file=sys.stderr)
    if given.out is not None:
        given.out.write_text(json.dumps(measured, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
