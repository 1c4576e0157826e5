"""Label graphs that come with the labels, in the paper's network: RCV1's topic tree, and STRING for proteins on DNA.

    python benchmarks/given_graphs.py topics --data-root FOLDER     # writes docs/measurements/given_graphs.json,
    python benchmarks/given_graphs.py proteins --data-root FOLDER   # keeping what else is in it; or --form emb-pr

Topics: RCV1's documents are licensed, so documents are made up. Each has one to three topics of the tree's leaves and
all their ancestors, as RCV1's documents do. Its words are some of the words of its topics' names, among words drawn
from other names. What is measured is therefore whether messages along a tree help where labels do follow that tree; it
says nothing about news.

Proteins: a sample of the windows of yeast ChIP-exo, to be done in half an hour of one core; STRING's pairs of proteins
are the edges.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse

from lampnet.data.dataset import Dataset
from lampnet.data.splits import Splits
from lampnet.experiments.material import Material
from lampnet.experiments.paper_networks import Network, open_as_published
from lampnet.experiments.protocol import run
from lampnet.experiments.result_files import write_json
from lampnet.readers.label_edges import read_taxonomy

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "measurements" / "given_graphs.json"
TRAIN, TEST = 800, 1000
#: Windows of yeast ChIP-exo: of its training, validation and test rows.
WINDOWS = {"train": 800, "valid": 200, "test": 1000}
FORMS = ("emb-el", "emb-fc", "emb-pr")
SEED = 0
#: Chance of each word of a topic's name, how many words of other names a document has, and the settings that differ.
NAMED, OTHERS = 0.5, 6
SETTINGS = {"model.width": 32, "training.learning_rate": 3e-3, "training.patience": 12}
#: On windows of DNA the validation score stays that of the label priors for the first dozen epochs, as the loss falls.
OWN_SETTINGS = {"proteins": {"training.patience": 60}}


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


def some_windows(folder: Path, seed: int) -> Material:
    """A sample of yeast ChIP-exo with STRING's edges."""
    whole = open_as_published("yeast_chipexo", seed, str(folder.parent))
    rng = np.random.default_rng(seed)

    def some(part: str) -> Dataset:
        rows = whole.part(part)
        return rows.take(np.sort(rng.permutation(len(rows))[: WINDOWS[part]]))

    splits = replace(whole.splits, train=some("train"), valid=some("valid"), test=some("test"))
    return Material("yeast_chipexo", splits, seed, whole.prior_graph, whole.edges)


#: What is measured by its name in the file: the folder of its files and what makes its rows.
MATERIALS = {"topics": ("rcv1", made_documents), "proteins": ("yeast_chipexo", some_windows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=MATERIALS)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--form", choices=FORMS, nargs="*", default=FORMS)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    subfolder, make = MATERIALS[given.name]
    material = make(given.data_root / subfolder, SEED)
    assert material.edges is not None
    settings = SETTINGS | OWN_SETTINGS.get(given.name, {})
    for form in given.form:
        network = Network(material.name, form, seed=SEED, weight=0.2)
        result = run(network.lamp(), material, settings=settings, log=print)
        kept = ("seed", "paper", "example_f1_by_row", "minutes", "data", "machine")
        found = {"form": form, "epochs": len(result["history"])} | {key: result[key] for key in kept}
        stored = json.loads(given.out.read_text(encoding="utf-8")) if given.out.is_file() else {}
        before = {one["form"]: one for one in stored.get(given.name, {}).get("runs", ())} | {form: found}
        runs = [before[name] for name in FORMS if name in before]
        stored[given.name] = {"settings": settings, "edges": len(material.edges), "runs": runs}
        write_json(given.out, stored)


if __name__ == "__main__":
    main()
