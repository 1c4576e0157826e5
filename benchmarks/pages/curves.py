"""Pictures of validation scores by epoch, from the histories of the paper's networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lampnet.experiments.paper_networks import chosen_results
from lampnet.experiments.systems import FORMS

#: the file of a data set's picture, beside the page
CURVES = "paper_curves_{}.svg"
_COLOURS = {"el": "tab:grey", "fc": "tab:blue", "pr": "tab:orange"}
_STYLES = {128: ":", 256: "--", 512: "-"}


def write_curves(results: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """One picture for each data set: a panel for Emb and one for FMP; seed 0, random start. Returns the data sets."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lampnet"  # the same numbers give the same file
    from matplotlib import pyplot as plt

    drawn = []
    chosen = [r for r in chosen_results(list(results)) if r["seed"] == 0]
    for dataset in dict.fromkeys(result["dataset"] for result in chosen):
        own = [r for r in chosen if r["dataset"] == dataset and r["config"]["training"]["start"] == "random"]
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
        for axis, features in zip(axes, ("emb", "fmp"), strict=True):
            for result in own:
                if not result["form"].startswith(features):
                    continue
                width, graph = result["config"]["model"]["width"], result["form"][-2:]
                scores = [epoch["scores"]["example_f1"] for epoch in result["history"]]
                axis.plot(
                    range(1, len(scores) + 1), scores, _STYLES.get(width, "-."), color=_COLOURS[graph], linewidth=1,
                    label=f"{FORMS[result['form']]}, d = {width}",
                )  # fmt: skip
            axis.set_xlabel("epoch")
            if axis.lines:
                axis.legend(fontsize=6)
        axes[0].set_ylabel("validation example-F1")
        figure.suptitle(dataset, fontsize=9)
        figure.savefig(folder / CURVES.format(dataset), metadata={"Date": None})
        plt.close(figure)
        drawn.append(dataset)
    return drawn
