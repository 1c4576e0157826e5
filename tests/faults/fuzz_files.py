"""Thousands of damaged data files.

    python fuzz_files.py FOLDER CASES SEED

Prints the summary of `bounded_cases.run_cases` as JSON.
"""

from __future__ import annotations

import bz2
import gzip
import json
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as arrow
from bounded_cases import run_cases
from damage import damaged
from pyarrow import parquet
from scipy import io, sparse

from lampnet.readers.any_format import read_file


def seeds_of_readers(folder: Path) -> list[Path]:
    """One small good file of every format."""
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


def reader_case(folder: Path, draw: random.Random, seeds: list[Path]) -> None:
    seed = draw.choice(seeds)
    target = folder / "case" / seed.name
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(damaged(seed.read_bytes(), draw))
    labels = folder / "seeds" / "labels.xml" if seed.suffix == ".arff" and seed.name != "meka.arff" else None
    read_file(target, labels=labels, on_bad_row=draw.choice(("error", "skip")))


def main() -> None:
    folder, cases, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    seeds = seeds_of_readers(folder / "seeds")
    print(json.dumps(run_cases(lambda number: reader_case(folder, random.Random(f"{seed} {number}"), seeds), cases)))


if __name__ == "__main__":
    main()
