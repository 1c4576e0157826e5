"""Pictures of validation scores by epoch, from the histories of the paper's networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lampnet.experiments.paper_networks import chosen_results
from lampnet.experiments.systems import FORMS
from pages.results import dataset_title

#: the file of a data set's picture, beside the page
CURVES = "images/paper_curves_{}.svg"
_COLOURS = {"el": "tab:grey", "fc": "tab:blue", "pr": "tab:orange"}
_STYLES = {128: "-", 256: "--", 512: ":"}


def write_curves(results: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """One picture for each data set: a panel for Emb, one for FMP, where they are trained; seed 0, random start.

    Returns the data sets.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lampnet"  # the same numbers give the same file
    from matplotlib import pyplot as plt

    drawn = []
    chosen = [r for r in chosen_results(list(results)) if r["seed"] == 0]
    for dataset in dict.fromkeys(result["dataset"] for result in chosen):
        own = [r for r in chosen if r["dataset"] == dataset and r["config"]["training"]["start"] == "random"]
        panels = {
            title: lines
            for features, title in (("emb", "Emb"), ("fmp", "FMP"))
            if (lines := [result for result in own if result["form"].startswith(features)])
        }
        if not panels:
            continue
        figure, axes = plt.subplots(
            1, len(panels), figsize=(4.5 * len(panels), 3.2), sharey=True, squeeze=False, layout="constrained"
        )
        for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
            for result in lines:
                width, graph = result["config"]["model"]["width"], result["form"][-2:]
                scores = [epoch["scores"]["example_f1"] for epoch in result["history"]]
                axis.plot(
                    range(1, len(scores) + 1), scores, _STYLES.get(width, "-."), color=_COLOURS[graph], linewidth=1.2,
                    label=f"{FORMS[result['form']]}, d = {width}",
                )  # fmt: skip
            axis.set_title(f"{dataset_title(dataset)}, {title}", fontsize=9)
            axis.set_xlabel("epoch")
            axis.legend(fontsize=7)
        axes[0][0].set_ylabel("validation example-F1")
        picture = folder / CURVES.format(dataset)
        picture.parent.mkdir(exist_ok=True)
        figure.savefig(picture, metadata={"Date": None})
        plt.close(figure)
        drawn.append(dataset)
    return drawn
