"""Thousands of damaged and forged model folders, of every kind of input.

    python fuzz_model_folders.py FOLDER CASES SEED

Each case changes one file of a good folder: bytes, entries of its JSON, arrays and their headers (with the digests put
right, so that the forgery reaches the checks behind them), or what the file is. Whatever still loads must predict.
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
from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from bounded_cases import run_cases
from damage import changed_json, damaged
from safetensors.numpy import load, save
from scipy import sparse
from small_encoders import small_static, small_transformer

from lampnet.config import Config
from lampnet.data.dataset import Dataset, Table
from lampnet.data.schema import label_matrix
from lampnet.data.splits import Splits
from lampnet.errors import LampnetError
from lampnet.estimator import LaMPClassifier
from lampnet.inference.match_schema import as_trained
from lampnet.persistence.model_description import weights_name
from lampnet.persistence.model_folder import load_model, save_model
from lampnet.pipeline import plan
from lampnet.pipeline.fit import fit
from lampnet.readers.sources import Source

ROWS = 40
SMALL = {"model.width": 8, "model.heads": 2, "training.epochs": 1, "training.threads": 1, "training.folds": 1}
LEARNERS = {
    "text": "linear,knn",
    "wordset": "linear,forest",
    "vector": "linear,knn,forest,boosted,kernel",
    "columns": "forest",
    "dna": "none",
    "image": "linear",
}
#: classifiers that were saved: what each is made with, beside `SMALL`
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "estimator": {},
    "molecule": {"input_kind": "molecule"},
    "parts": {"base_learners": "linear,knn"},
    "known labels": {"settings": SMALL | {"known.method": "messages", "known.width": 8, "known.train_steps": 5}},
    "hierarchy": {"label_hierarchy": {"b": "a", "c": "a"}},
    "changed labels": {},
}
_READS = {"base_learners": "linear,pretrained_linear,pretrained_knn,label_names"}
#: classifiers that read a small pretrained encoder beside the folder: who makes it, and what they are made with
PRETRAINED: dict[str, tuple[Callable[[Path], str], dict[str, Any]]] = {
    "pooled": (small_transformer, _READS | {"settings": SMALL | {"input.pretrained_use": "pooled"}}),
    "tokens": (
        small_transformer,
        _READS | {"settings": SMALL | {"input.pretrained_use": "tokens", "training.keep_network": "always"}},
    ),
    "token nodes": (small_transformer, {"settings": SMALL | {"input.pretrained_use": "nodes"}}),
    "static": (small_static, _READS | {"settings": SMALL | {"input.pretrained_use": "pooled"}}),
}
KINDS = (*LEARNERS, *CLASSIFIERS, *PRETRAINED)
#: values that arrays are filled with, as far as their types hold them
EXTREMES = (0, 1, -1, 127, 2**31 - 1, -(2**31), 1e30, -1e30, 1e-30, float("nan"), float("inf"))


def rows_of(kind: str) -> Any:
    """Rows of one kind of input, by the first of which labels can be learned."""
    draw = np.random.default_rng(0)
    if kind == "text" or kind in PRETRAINED:
        words = np.array(["red", "green", "blue", "fox", "sea", "sky", "tree"])
        return [" ".join(draw.choice(words, size=4)) for _ in range(ROWS)]
    if kind == "wordset":
        return sparse.random(ROWS, 12, 0.4, format="csr", random_state=0, dtype=np.float32)
    if kind == "columns":
        values = np.column_stack([draw.normal(size=(ROWS, 2)), draw.integers(0, 3, ROWS)])
        return Table(values=values, names=("a", "b", "c"), categories={2: ("x", "y", "z")})
    if kind == "dna":
        return draw.integers(0, 4, (ROWS, 24)).astype(np.uint8)
    if kind == "image":
        return list(draw.integers(0, 255, (ROWS, 12, 12, 1)).astype(np.uint8))
    if kind == "molecule":
        return ["C" * (1 + row % 6) + draw.choice(["O", "N", "c1ccccc1"]) for row in range(ROWS)]
    if kind == "parts":
        return pandas.DataFrame({"words": rows_of("text"), "size": draw.normal(size=ROWS), "shade": list("abcd" * 10)})
    return draw.normal(size=(ROWS, 5)).astype(np.float32)


def encoder_of(folder: Path, kind: str) -> Path:
    """Where the pretrained encoder of a model is."""
    return folder / f"encoder of {kind}"


def loaded(folder: Path, target: Path, kind: str) -> LaMPClassifier:
    return LaMPClassifier.load(target, pretrained=str(encoder_of(folder, kind)) if kind in PRETRAINED else None)


def write_models(folder: Path, only: Container[str] = KINDS) -> dict[str, Any]:
    """A small model of every kind; returns two rows for each that it can predict."""
    plan.ON_TRIAL = ()  # labels are random: boosted trees would be left out
    draw = np.random.default_rng(1)
    sets = [[name for name in "abc" if draw.random() < 0.5] for _ in range(ROWS)]
    examples = {}
    for kind, learners in LEARNERS.items():
        if kind not in only:
            continue
        rows = rows_of(kind)
        labels = label_matrix(sets, tuple("abc"))
        data = Dataset(name=kind, kind=kind, rows=rows, labels=labels, label_names=tuple("abc"))
        graph = {"text": "cooccurrence", "vector": "edgeless"}.get(kind, "full")
        config = Config().updated({**SMALL, "model.base_learners": learners, "label_graph": graph})
        save_model(fit(Splits(train=data), config), folder / kind)
        examples[kind] = replace(rows, values=rows.values[:2]) if isinstance(rows, Table) else rows[:2]
    for kind in (*CLASSIFIERS, *PRETRAINED):
        if kind not in only:
            continue
        rows, wishes = rows_of(kind), CLASSIFIERS.get(kind, {})
        if kind in PRETRAINED:
            make, wishes = PRETRAINED[kind]
            wishes = wishes | {"pretrained": make(encoder_of(folder, kind))}
        usual = {"base_learners": "linear", "settings": SMALL, "random_state": 0, "validation_fraction": 0.5}
        made = LaMPClassifier(**usual | wishes)
        made.fit(rows, [[*one, "a"] for one in sets] if kind == "hierarchy" else sets)
        if kind == "changed labels":
            made.add_label("d", rows, draw.integers(0, 2, ROWS)).merge_labels(["a", "b"], into="e")
        made.save(folder / kind)
        examples[kind] = rows[:2]
    return examples


Contents = dict[str, bytes]


def with_weights(contents: Contents, weights: bytes) -> None:
    """Put other weights into a folder, their digest and name put right."""
    described = json.loads(contents["model.json"])
    del contents[weights_name(described["weights_sha256"])]
    described["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    contents[weights_name(described["weights_sha256"])] = weights
    contents["model.json"] = json.dumps(described).encode()


def name_of_weights(contents: Contents) -> str:
    return next(name for name in contents if name.startswith("weights"))


def bytes_changed(contents: Contents, draw: random.Random) -> None:
    name = draw.choice(sorted(contents))
    contents[name] = damaged(contents[name], draw)


def entries_changed(contents: Contents, draw: random.Random) -> None:
    described = json.loads(contents["model.json"])
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        described = changed_json(described, draw)
    contents["model.json"] = json.dumps(described).encode()


def numbers_changed(contents: Contents, draw: random.Random) -> None:
    """A number of the description becomes another plausible one: sizes that are not those of the weights."""
    described = json.loads(contents["model.json"])
    found: list[tuple[Any, Any]] = []

    def collect(inner: Any) -> None:
        for key in inner if isinstance(inner, dict) else range(len(inner)):
            if isinstance(inner[key], (dict, list)):
                collect(inner[key])
            elif type(inner[key]) in (int, float):
                found.append((inner, key))

    collect({name: described[name] for name in ("config", "encoder", "decisions", "network_weight")})
    inner, key = draw.choice(found)
    inner[key] = draw.choice((0, 1, 2, 3, 5, 64, 1000, 8192, 10**6, inner[key] + 1, inner[key] * 2, -inner[key]))
    contents["model.json"] = json.dumps(described).encode()


def header_changed(contents: Contents, draw: random.Random) -> None:
    weights = contents[name_of_weights(contents)]
    length = int.from_bytes(weights[:8], "little")
    header = json.dumps(changed_json(json.loads(weights[8 : 8 + length]), draw)).encode()
    with_weights(contents, len(header).to_bytes(8, "little") + header + weights[8 + length :])


def weights_damaged(contents: Contents, draw: random.Random) -> None:
    with_weights(contents, damaged(contents[name_of_weights(contents)], draw))


def arrays_changed(contents: Contents, draw: random.Random) -> None:
    """One array: other values, another length, another type, another name, or gone."""
    arrays = load(contents[name_of_weights(contents)])
    name = draw.choice(sorted(arrays))
    array = arrays[name].copy()
    kind = draw.randrange(6)
    if kind == 0 and array.size:
        with np.errstate(all="ignore"):
            array.reshape(-1)[draw.randrange(array.size)] = np.array(draw.choice(EXTREMES)).astype(array.dtype)
    elif kind == 1:
        with np.errstate(all="ignore"):
            array[...] = np.array(draw.choice(EXTREMES)).astype(array.dtype)
    elif kind == 2 and array.ndim:
        array = np.concatenate([array, array[: draw.choice((1, 2, 100))]])
    elif kind == 3 and array.ndim:
        array = array[: draw.randrange(len(array) + 1)].copy()
    elif kind == 4:
        array = array.astype(draw.choice((np.float64, np.float32, np.int64, np.int32, np.uint8, bool)))
    else:
        arrays[f"{name}x"] = arrays.pop(name)
    if name in arrays:
        arrays[name] = np.ascontiguousarray(array)
    with_weights(contents, save(arrays))


def text_of_json_changed(contents: Contents, draw: random.Random) -> None:
    """JSON that other programs would read: keys twice, deep nesting, long lists."""
    text = contents["model.json"].decode()
    keys = [part for part in text.split('"')[1::2] if part]
    key = draw.choice(keys)
    value = draw.choice(("0", "null", "[" * 40 + "]" * 40, "[" + "0," * 1000 + "0]", "1e999", '"\\ud800"', "-0"))
    contents["model.json"] = text.replace("{", f'{{"{key}": {value}, ', draw.choice((1, 3))).encode()


CHANGES: tuple[Callable[[Contents, random.Random], None], ...] = (
    bytes_changed,
    entries_changed,
    entries_changed,
    numbers_changed,
    header_changed,
    weights_damaged,
    arrays_changed,
    arrays_changed,
    text_of_json_changed,
)


def not_regular(target: Path, draw: random.Random) -> None:
    """One file becomes a pipe, a link to itself or elsewhere, or a folder."""
    path = target / draw.choice(sorted(path.name for path in target.iterdir()))
    path.unlink()
    kind = draw.randrange(4)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 3:
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == 1 else path)


def use_classifier(made: LaMPClassifier, rows: Any, draw: random.Random) -> None:
    """One of the things that a loaded classifier is for."""
    known = [[made.classes_[0]], []]
    uses: tuple[Callable[[], object], ...] = (
        lambda: made.predict(rows),
        lambda: made.predict(rows, known=known),
        lambda: made.predict_proba(rows, known=known),
        lambda: made.model_.whole_sets(made.model_logits(rows)),
        lambda: made.suggest(rows.iloc[0] if hasattr(rows, "iloc") else rows[0], known=known[0]),
        lambda: made.model_.shown or made.explain(rows, rows=[0]),  # changed labels are not explained
    )
    draw.choice(uses)()


def model_case(folder: Path, draw: random.Random, examples: dict[str, Any]) -> None:
    kind = draw.choice(sorted(examples))
    good, target = folder / kind, folder / "case"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    contents = {path.name: path.read_bytes() for path in good.iterdir()}
    draw.choice(CHANGES)(contents, draw)
    for name, content in contents.items():
        (target / name).write_bytes(content)
    if draw.random() < 0.02:
        not_regular(target, draw)
    if kind not in LEARNERS:
        use_classifier(loaded(folder, target, kind), examples[kind], draw)
        return
    model = load_model(target)
    proba = model.proba(examples[kind])
    assert proba.shape == (2, len(model.label_names))
    for rule in model.decisions.best.values():
        rule.apply(np.nan_to_num(proba))
    as_trained(model, Source(data="rows.csv"))
    if draw.random() < 0.1:
        save_model(model, folder / "again")


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    examples = write_models(folder)
    for kind in examples:
        try:
            if kind in LEARNERS:
                load_model(folder / kind).proba(examples[kind])
                continue
            for number in range(20):  # all that may be asked of it
                use_classifier(loaded(folder, folder / kind, kind), examples[kind], random.Random(number))
        except LampnetError as fault:
            raise AssertionError(f"the good model {kind} is refused") from fault
    print(json.dumps(run_cases(lambda number: model_case(folder, random.Random(f"{seed} {number}"), examples), cases)))


if __name__ == "__main__":
    main()
