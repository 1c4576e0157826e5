"""The numbers of the paper's two data tables, counted in the files: docs/measurements/data_statistics.json.

    python benchmarks/data_statistics.py [--data-root DIR]

The same rows as in every experiment (seed 0). Features of texts are the words of the training rows, of molecules their
elements.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from lampnet.config import Config
from lampnet.data.statistics import statistics
from lampnet.encoders import make_encoder
from lampnet.encoders.molecule import MoleculeEncoder
from lampnet.encoders.text import TextEncoder
from lampnet.errors import LampnetError
from lampnet.experiments.material import Material
from lampnet.experiments.reproduce import open_named
from lampnet.experiments.result_files import write_json

OUT = Path(__file__).parent.parent / "docs" / "measurements" / "data_statistics.json"
#: The paper's own data sets, then those that stand in for the others.
DATASETS = ("reuters21578", "bibtex", "delicious", "sider", "rcv1", "yeast_chipexo", "imdb", "mediamill", "scene")


def counted(material: Material) -> dict[str, Any]:
    found = statistics(material.splits).to_json()
    train = material.part("train")
    encoder = make_encoder(train.kind, Config.preset("paper").input)
    if isinstance(encoder, TextEncoder):
        found["features"] = len(encoder.fit(train.rows).tokens.words)
    if isinstance(encoder, MoleculeEncoder):
        found["features"] = len(encoder.fit(train.rows).surroundings)
    return found | {
        "prior_graph": material.prior_graph,
        "edges": None if material.edges is None else len(material.edges),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    given = parser.parse_args()
    if given.data_root:
        os.environ["LAMPNET_DATA"] = given.data_root
    found = {}
    for dataset in DATASETS:
        try:
            found[dataset] = counted(open_named(dataset, 0))
        except LampnetError as problem:
            print(f"{dataset} is left out: {problem}")
    write_json(OUT, found)
    print(OUT)


if __name__ == "__main__":
    main()
