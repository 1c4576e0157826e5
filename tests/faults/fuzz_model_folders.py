"""Thousands of damaged model folders.

    python fuzz_model_folders.py FOLDER CASES SEED

Prints the summary of `bounded_cases.run_cases` as JSON.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
from bounded_cases import run_cases
from damage import changed_json, damaged

from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.schema import label_matrix
from lampnet.data.splits import Splits
from lampnet.persistence.model_folder import load_model, save_model, weights_name
from lampnet.pipeline.fit import fit


def small_model(folder: Path) -> list[str]:
    """A trained model of every part a folder can hold; returns rows it can predict."""
    draw = np.random.default_rng(0)
    words = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree"])
    rows = [" ".join(draw.choice(words, size=4)) for _ in range(60)]
    sets = [[word for word in words[:3] if word in row] for row in rows]
    names = tuple(words[:3])
    data = Dataset(name="toy", kind="text", rows=rows, labels=label_matrix(sets, names), label_names=names)
    changes = {"model.width": 8, "model.heads": 2, "training.epochs": 1, "training.threads": 1}
    config = Config().updated({**changes, "model.base_learners": "linear,knn", "label_graph": "cooccurrence"})
    save_model(fit(Splits(train=data), config), folder)
    return rows[:2]


def model_case(folder: Path, draw: random.Random, rows: list[str]) -> None:
    good, target = folder / "model", folder / "case"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    contents = {path.name: path.read_bytes() for path in good.iterdir() if path.is_file()}
    weights = next(name for name in contents if name.startswith("weights"))
    name = draw.choice(("model.json", "model.json", weights))
    described = json.loads(contents["model.json"])
    kind = draw.randrange(4)
    if name == "model.json" and kind:
        contents[name] = json.dumps(changed_json(described, draw)).encode()
    elif name == weights and kind:
        # With the digest put right, the damage reaches the checks behind it.
        length = int.from_bytes(contents[name][:8], "little")
        header, body = contents[name][8 : 8 + length], contents[name][8 + length :]
        if kind == 1:
            header = json.dumps(changed_json(json.loads(header), draw)).encode()
            contents[name] = len(header).to_bytes(8, "little") + header + body
        else:
            contents[name] = damaged(contents[name], draw)
        described["weights_sha256"] = hashlib.sha256(contents[name]).hexdigest()
        contents[weights_name(described["weights_sha256"])] = contents.pop(name)
        contents["model.json"] = json.dumps(described).encode()
    else:
        contents[name] = damaged(contents[name], draw)
    for file, content in contents.items():
        (target / file).write_bytes(content)
    model = load_model(target)
    proba = model.proba(rows)
    assert proba.shape == (2, len(model.label_names))
    for rule in model.decisions.best.values():
        rule.apply(np.nan_to_num(proba))


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    rows = small_model(folder / "model")
    print(json.dumps(run_cases(lambda number: model_case(folder, random.Random(f"{seed} {number}"), rows), cases)))


if __name__ == "__main__":
    main()
