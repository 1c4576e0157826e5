"""A folder of results: one JSON file for each data set, system and seed, written whole or not at all.

>>> file_name("bibtex", "fmp-fc", 2)
'bibtex--fmp-fc--seed2.json'
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from lampnet.errors import ConfigError, FormatError
from lampnet.runtime.atomic_files import write_atomically

_NAME = re.compile(r"(?P<dataset>.+)--(?P<system>.+)--seed(?P<seed>\d+)\.json")
SPEED_FILE = "speed.json"
Result = dict[str, Any]


def file_name(dataset: str, system: str, seed: int) -> str:
    """The name of a result's file; what a folder's name cannot be in a file name becomes a dash."""
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', dataset)}--{system}--seed{seed}.json"


def check_writable(folder: Path) -> None:
    """Refuse a folder that results cannot be written to, before hours are spent on them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as fault:
        problem = "it is a file" if folder.is_file() else fault.strerror or fault
        raise ConfigError(f"{folder} cannot be the folder of results ({problem}); give another folder") from None


def write_result(folder: Path, result: Result) -> Path:
    """Store a result under its own name."""
    path = folder / file_name(result["dataset"], result["system"], result["seed"])
    write_json(path, result)
    return path


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, whole or not at all; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_results(folder: Path) -> list[Result]:
    """All results of a folder, in the order of their names."""
    return [read_result(path) for path in sorted(folder.glob("*--seed*.json")) if _NAME.fullmatch(path.name)]


def read_result(path: Path) -> Result:
    """One result; a damaged file is an error that names it."""
    try:
        result: Result = json.loads(path.read_text(encoding="utf-8"))
        complete = isinstance(result, dict) and {"dataset", "system", "seed", "finished"} <= result.keys()
    except (OSError, ValueError) as fault:
        raise FormatError(path, f"the result cannot be read ({fault}); delete it and run it again") from None
    if not complete:
        raise FormatError(path, "this is not a result file of lampnet; delete it and run the command again")
    return result
