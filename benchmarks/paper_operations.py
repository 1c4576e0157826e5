"""Operations behind the paper's table of speed, counted: docs/measurements/paper_operations.json.

    python benchmarks/paper_operations.py [--data-root DIR]

For each data set of that table that is to be had: products per row of the published network and of RNN Seq2Seq at the
published width, and how many of their steps wait for one another. Seq2Seq is given the labels that test rows have, so
nothing has to be trained. What one processor core has to compute decides there; on a GPU, the steps that wait.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from bench.flops import forward_flops, seq2seq_flops
from bench.speed_table import BEAMS, SPEED_DATASETS
from lampnet.config import Config
from lampnet.experiments.material import Material
from lampnet.experiments.paper_networks import DATASET_SETTINGS
from lampnet.experiments.protocol import WORDS_IN_ORDER
from lampnet.experiments.reproduce import open_named
from lampnet.experiments.result_files import write_json

OUT = Path(__file__).parent.parent / "docs" / "measurements" / "paper_operations.json"


def counted(material: Material) -> dict[str, Any]:
    """Of one row of mean size."""
    paper = Config.preset("paper").updated(DATASET_SETTINGS.get(material.name, {}))
    width, labels = paper.model.width, len(material.part("test").label_names)
    read = material.nodes(Config.preset("fast").updated(WORDS_IN_ORDER)).test.lengths()
    nodes, words = (round(float(np.mean(x))) for x in (material.nodes(paper).test.lengths(), read))
    named = 1 + float(np.nansum(material.truth["test"], axis=1).mean())  # "stop" included
    return {
        "width": width,
        "nodes": nodes,
        "labels": labels,
        "labels_per_row": round(named - 1, 2),
        "operations": {
            "paper": forward_flops(paper.model, labels, nodes),
            "seq2seq_training": seq2seq_flops(width, labels, words, 1, named),
            "seq2seq_testing": seq2seq_flops(width, labels, words, BEAMS, named),
        },
        # The GRU reads word by word, then names label by label; LaMP's updates of a step are done all at once.
        "dependent_steps": {"paper": 2 * paper.model.steps, "seq2seq": round(words + named)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root")
    root = parser.parse_args().data_root
    write_json(OUT, {"beams": BEAMS, "datasets": {name: counted(open_named(name, 0, root)) for name in SPEED_DATASETS}})
    print(OUT)


if __name__ == "__main__":
    main()
