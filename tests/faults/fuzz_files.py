"""Thousands of damaged files, in a process with little memory and an alarm for every case.

    python fuzz_files.py readers|model FOLDER CASES SEED

Every case must end within seconds with a result or a `LampnetError`. Prints a JSON summary; `failures`
holds what went otherwise: another exception, no memory, no end.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import random
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.errors import LampnetError

SECONDS_A_CASE = 20
MORE_MEMORY = 1_500_000_000
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**18, -(10**18), 1e308, float("nan"), float("inf"), "", "x", "../../x",
    "/etc/passwd", "\x00", "💥", [], {}, [[]], {"a": 1}, [0], [-1], ["x"], ["x", "x"], [2**40], "9" * 400, [[[[1]]]],
)  # fmt: skip


class TooSlow(Exception):
    """A case that did not end."""


def _alarm(number: int, frame: Any) -> None:
    raise TooSlow(f"no end after {SECONDS_A_CASE} s")


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Bytes flipped, cut out, doubled, overwritten, moved or cut off."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 5, 20))):
        place = draw.randrange(max(1, len(changed)))
        length = draw.choice((1, 2, 4, 8, 50))
        kind = draw.randrange(7)
        if not changed:
            break
        if kind == 0:
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[place] = draw.choice(b"\x00\xff\x7f 0919-:,{}[]\"'\n\r\t@%.eE")
        elif kind == 2:
            del changed[place : place + length]
        elif kind == 3:
            changed[place:place] = changed[place : place + length] * draw.choice((1, 3, 100))
        elif kind == 4:
            del changed[place:]
        elif kind == 5:
            words = (b"99999999999", b"-1", b"nan", b"1e999", b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n", b'"', b"\xc3")
            changed[place:place] = draw.choice(words)
        else:
            changed[place : place + length] = bytes(draw.randrange(256) for _ in range(length))
    return bytes(changed)


def seeds_of_readers(folder: Path) -> list[Path]:
    """One small good file of every format."""
    import pyarrow as arrow
    from pyarrow import parquet
    from scipy import io, sparse

    folder.mkdir(parents=True, exist_ok=True)
    xml = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="y1"/><label name="y2"/></labels>'
    head = "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@attribute y1 {0,1}\n@attribute y2 {0,1}\n@data\n"
    texts = {
        "dense.arff": head + "1.5,0,1,0\n2,1,0,1\n?,0,1,1\n",
        "sparse.arff": head + "{0 1.5,2 1}\n{1 1,3 1}\n{}\n",
        "meka.arff": head.replace("relation r", "relation 'r: -C 2'") + "1,0,1,0\n0,1,0,1\n",
        "rows.jsonl": '{"text": "red fox", "labels": ["a", "b"]}\n{"text": "blue sea", "labels": []}\n',
        "table.csv": "text,labels\nred fox at sea,a|b\nblue sea and sky,a\n",
        "numbers.csv": "f1,f2,label_a,label_b\n1.5,2,0,1\n2.5,3,1,0\n",
        "table.tsv": "text\tlabels\nred fox at sea\ta;b\nblue sea and sky\tb\n",
        "rows.libsvm": "0,1 1:0.5 7:1\n1 2:1\n 3:2.5\n",
        "rows.svm": "a,b 1:0.5 7:1\nb 2:1\n",
        "xc.txt": "2 5 3\n0,2 1:0.5 4:1\n1 0:2\n",
        "windows.fa": ">one\nACGTNACGTA\n>two\nTTTTACGTAC\n",
        "plain.txt": "red fox\nblue sea\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "labels.xml").write_text(xml)
    draw = np.random.default_rng(0)
    table = arrow.table({"text": ["red fox", "blue sea"] * 5, "labels": ["a|b", "b"] * 5, "n": draw.random(10)})
    parquet.write_table(table, folder / "rows.parquet")
    np.savez(folder / "dense.npz", X=draw.random((4, 3)), Y=np.eye(4, 2))
    X = sparse.csr_matrix(np.eye(4, 6))
    sparse.save_npz(folder / "sparse.npz", X)
    io.savemat(folder / "rows.mat", {"data": X, "target": np.eye(2, 4)})
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(texts["rows.jsonl"].encode()))
    (folder / "table.csv.bz2").write_bytes(bz2.compress(texts["table.csv"].encode()))
    return sorted(path for path in folder.iterdir() if path.name != "labels.xml")


def reader_case(folder: Path, draw: random.Random, seeds: list[Path]) -> Callable[[], None]:
    from lampnet.readers.any_format import read_file

    seed = draw.choice(seeds)
    target = folder / "case" / seed.name
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(damaged(seed.read_bytes(), draw))
    labels = folder / "seeds" / "labels.xml" if seed.suffix == ".arff" and seed.name != "meka.arff" else None

    def run() -> None:
        try:
            read_file(target, labels=labels, on_bad_row=draw.choice(("error", "skip")))
        finally:
            target.unlink()

    return run


def small_model(folder: Path) -> list[str]:
    """A trained model of every part a folder can hold; returns rows it can predict."""
    from lampnet.config import Config
    from lampnet.data.dataset import Dataset
    from lampnet.data.schema import label_matrix
    from lampnet.data.splits import Splits
    from lampnet.persistence.model_folder import save_model
    from lampnet.pipeline.fit import fit

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


def changed_json(data: Any, draw: random.Random) -> Any:
    """One entry, somewhere inside, replaced, removed or doubled."""
    inner = data
    while True:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            return data
        key = draw.choice(list(keys))
        if isinstance(inner[key], (dict, list)) and inner[key] and draw.random() < 0.75:
            inner = inner[key]
            continue
        if draw.random() < 0.2:
            del inner[key]
        else:
            inner[key] = draw.choice(NASTY)
        return data


def model_case(folder: Path, draw: random.Random, rows: list[str]) -> Callable[[], None]:
    from lampnet.persistence.model_folder import load_model

    good, target = folder / "model", folder / "case"
    target.mkdir(exist_ok=True)
    contents = {path.name: path.read_bytes() for path in good.iterdir() if path.is_file()}
    name = draw.choice(("model.json", "model.json", "weights.safetensors", "history.json"))
    described = json.loads(contents["model.json"])
    kind = draw.randrange(4)
    if name == "model.json" and kind:
        contents[name] = json.dumps(changed_json(described, draw)).encode()
    elif name == "weights.safetensors" and kind:
        # With the digest put right, the damage reaches the checks behind it.
        length = int.from_bytes(contents[name][:8], "little")
        header, body = contents[name][8 : 8 + length], contents[name][8 + length :]
        if kind == 1:
            header = json.dumps(changed_json(json.loads(header), draw)).encode()
            contents[name] = len(header).to_bytes(8, "little") + header + body
        else:
            contents[name] = damaged(contents[name], draw)
        described["weights_sha256"] = hashlib.sha256(contents[name]).hexdigest()
        contents["model.json"] = json.dumps(described).encode()
    else:
        contents[name] = damaged(contents[name], draw)
    for file, content in contents.items():
        (target / file).write_bytes(content)

    def run() -> None:
        model = load_model(target)
        proba = model.proba(rows)
        assert proba.shape == (2, len(model.label_names))
        for rule in model.decisions.best.values():
            rule.apply(np.nan_to_num(proba))

    return run


def main() -> None:
    kind, folder, cases, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    seeds = seeds_of_readers(folder / "seeds") if kind == "readers" else []
    rows = small_model(folder / "model") if kind == "model" else []

    def case(number: int) -> Callable[[], None]:
        draw = random.Random(f"{seed} {number}")
        return reader_case(folder, draw, seeds) if kind == "readers" else model_case(folder, draw, rows)

    for number in range(20):  # what is loaded on first use is loaded before the limit
        try:
            case(-number)()
        except Exception:
            continue
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, _alarm)
    summary: dict[str, Any] = {"cases": cases, "refused": 0, "accepted": 0, "failures": []}
    for number in range(cases):
        run = case(number)
        signal.alarm(SECONDS_A_CASE)
        try:
            run()
            summary["accepted"] += 1
        except LampnetError:
            summary["refused"] += 1
        except BaseException as fault:  # also MemoryError, TooSlow, RecursionError
            last = traceback.extract_tb(fault.__traceback__)[-3:]
            where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(last))
            summary["failures"].append(f"case {number}: {type(fault).__name__}: {str(fault)[:150]} ({where})")
        finally:
            signal.alarm(0)
    summary["peak_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
