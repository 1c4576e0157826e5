"""RCV1's topic tree as the label graph of the paper's network, on documents that are made up: RCV1's are licensed.

    python benchmarks/topic_tree.py --data-root FOLDER     # writes docs/measurements/topic_tree.json

A document has one to three topics of the tree's leaves and all their ancestors, as RCV1's documents do. Its words are
some of the words of its topics' names, among words drawn from other names. What is measured is therefore whether
messages along a tree help where labels do follow that tree; it says nothing about news.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.experiments.material import Material
from lampnet.experiments.paper_networks import Network
from lampnet.experiments.protocol import run
from lampnet.experiments.result_files import write_json
from lampnet.readers.label_edges import read_taxonomy

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "measurements" / "topic_tree.json"
TRAIN, TEST = 1600, 2000
SEEDS = (0,)
#: Chance of each word of a topic's name, how many words of other names a document has, and the settings that differ.
NAMED, OTHERS = 0.5, 6
SETTINGS = {"model.width": 64, "training.learning_rate": 1e-3, "training.patience": 6}


def made_documents(folder: Path, seed: int) -> Material:
    """Documents of the topics' own vocabulary, and the tree's edges."""
    names = json.loads((folder / "rcv1_topic_codes.json").read_text(encoding="utf-8"))
    parents = read_taxonomy(folder / "rcv1.taxonomy")
    topics = tuple(sorted(names))
    number = {topic: i for i, topic in enumerate(topics)}
    edges = np.array([(number[t], number[p]) for t, p in parents.items() if t in number and p in number])
    leaves = [topic for topic in topics if topic not in parents.values()]
    words = {topic: re.findall(r"[a-z]+", names[topic].lower()) for topic in topics}
    vocabulary = {word: i for i, word in enumerate(sorted({w for own in words.values() for w in own}))}
    rng = np.random.default_rng(seed)
    X = np.zeros((TRAIN + TEST, len(vocabulary)), dtype=np.float32)
    Y = np.zeros((TRAIN + TEST, len(topics)), dtype=np.float32)
    for row in range(TRAIN + TEST):
        X[row, rng.choice(len(vocabulary), OTHERS, replace=False)] = 1
        for topic in rng.choice(leaves, rng.integers(1, 4), replace=False):
            node = str(topic)
            while node in number:
                Y[row, number[node]] = 1
                X[row, [vocabulary[word] for word in words[node] if rng.random() < NAMED]] = 1
                node = parents.get(node, "")
    whole = Dataset(
        name="rcv1-made",
        kind="wordset",
        rows=sparse.csr_matrix(X),
        labels=sparse.csr_matrix(Y),
        label_names=topics,
        feature_names=tuple(vocabulary),
    )
    splits = Splits(train=whole.take(np.arange(TRAIN)), test=whole.take(np.arange(TRAIN, TRAIN + TEST)))
    return Material("rcv1-made", splits, seed, "tree", edges)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", type=Path, required=True)
    folder = parser.parse_args().data_root / "rcv1"
    found = []
    for seed in SEEDS:
        material = made_documents(folder, seed)
        for form in ("emb-el", "emb-fc", "emb-pr"):
            result = run(Network("rcv1-made", form, weight=0.2).lamp(), material, settings=SETTINGS, log=print)
            kept = ("seed", "paper", "example_f1_by_row", "minutes", "data", "machine")
            found.append({"form": form, "epochs": len(result["history"])} | {key: result[key] for key in kept})
            write_json(OUT, {"settings": SETTINGS, "runs": found})


if __name__ == "__main__":
    main()
