"""The comparison on docs/known-labels.md: tables and a picture, from the results of `lampnet reproduce --known`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.experiments.known_comparison import SEEDS
from lampnet.experiments.known_systems import KNOWN_SYSTEMS, REGIMES
from lampnet.experiments.result_files import read_results
from lampnet.experiments.row_scores import Difference, paired_difference, unpacked

PAGE, PICTURE = "known-labels.md", "images/known_labels.svg"
#: the picture on README's first screen: one line of panels
README_PICTURE, README_PANELS = "images/known_labels_readme.svg", ("corel5k", "mediamill", "yeast_chipexo", "bibtex")
BEGIN, END = "<!-- comparison: written by lampnet reproduce --known -->", "<!-- end of comparison -->"
#: the regime of the first table
SHOWN = "positives:3"
#: a mean of fewer test rows than this says nothing and is left out
FEWEST_ROWS = 20
#: the picture: panels side by side, and how each method is drawn
COLUMNS = 5
LOOKS = {
    "nothing": ("o", "tab:gray", "nothing known"),
    "other": ("s", "tab:orange", "best other method with known labels"),
    "shifts": ("D", "tab:cyan", "lampnet, shifts"),
    "messages": ("o", "tab:blue", "lampnet, messages"),
}
OTHERS = tuple(system.name for system in KNOWN_SYSTEMS.values() if system.other)
TITLES = {
    "positives:1": "One true label known",
    "positives:3": "Three true labels known",
    "share:25": "A quarter of all labels known",
    "share:50": "Half of all labels known",
    "share:75": "Three quarters of all labels known",
}


class Compared:
    """The results of one data set in one regime: those seeds that every system has."""

    def __init__(self, results: Sequence[Mapping[str, Any]], dataset: str, regime: str) -> None:
        own = {(r["system"], r["seed"]): r for r in results if r["dataset"] == dataset}
        self.dataset = dataset
        self.seeds = [seed for seed in range(SEEDS[dataset]) if all((name, seed) in own for name in KNOWN_SYSTEMS)]
        self.data = [own["messages", seed]["data"] for seed in self.seeds]
        self.scores: dict[str, list[Mapping[str, Any]]] = {
            name: [next(s for s in own[name, seed]["known"] if s["regime"] == regime) for seed in self.seeds]
            for name in KNOWN_SYSTEMS
        }
        for number, seed in enumerate(self.seeds):
            if len({self.scores[name][number]["revealed"] for name in KNOWN_SYSTEMS}) > 1:
                raise ValueError(f"{dataset}, seed {seed}, {regime}: the systems were scored on different labels")

    def has_rows(self) -> bool:
        rows = [score["rows"] for score in self.scores["messages"]]
        return all(rows) and sum(rows) >= FEWEST_ROWS

    def mean(self, system: str) -> float:
        return float(np.mean([score["map"] for score in self.scores[system]]))

    def best_other(self) -> str:
        return max(OTHERS, key=self.mean)

    def ahead(self, system: str, of: str) -> Difference:
        """The difference with its interval, by the paired bootstrap over the test rows of all seeds."""
        return _paired_difference(*(tuple(score["by_row"] for score in self.scores[name]) for name in (system, of)))


@cache
def _paired_difference(first: tuple[str, ...], second: tuple[str, ...]) -> Difference:
    """Of packed scores; several tables and sentences ask for the same."""
    scores = (np.concatenate([unpacked(text) for text in texts]) for texts in (first, second))
    return paired_difference(*scores, resamples=1000)


def comparisons(results: Sequence[Mapping[str, Any]], regime: str) -> list[Compared]:
    made = [Compared(results, dataset, regime) for dataset in SEEDS]
    return [one for one in made if one.has_rows()]


def table(results: Sequence[Mapping[str, Any]], regime: str) -> str:
    """One row per data set: every system, and how far messages are ahead."""
    titles = [KNOWN_SYSTEMS[name].title for name in KNOWN_SYSTEMS]
    head = ["data", "seeds", *titles, "messages − best other method", "messages − edgeless"]
    lines = [_line(head), "|---|" + "--:|" * (len(head) - 1)]
    for one in comparisons(results, regime):
        means = {name: round(one.mean(name), 3) for name in KNOWN_SYSTEMS}
        cells = [f"**{m:.3f}**" if m == max(means.values()) else f"{m:.3f}" for m in means.values()]
        other, edgeless = one.ahead("messages", one.best_other()), one.ahead("messages", "edgeless")
        lines.append(_line([one.dataset, str(len(one.seeds)), *cells, str(other), str(edgeless)]))
    return "\n".join(lines)


def overall_table(results: Sequence[Mapping[str, Any]]) -> str:
    """One row per data set: the mean of its regimes, of messages and of the single best other method."""
    by_regime = [comparisons(results, str(regime)) for regime in REGIMES]
    head = ["data", "seeds", "regimes", "nothing known", "best other method", "its score", "lampnet, shifts"]
    head += ["lampnet, edgeless", "lampnet, messages", "messages − best other method", "messages − edgeless"]
    lines = [_line(head), "|---|--:|--:|--:|---|" + "--:|" * 6]
    ahead = {"other": [], "edgeless": []}
    for dataset in SEEDS:
        found = [one for regime in by_regime for one in regime if one.dataset == dataset]
        if not found:
            continue
        means = {name: float(np.mean([one.mean(name) for one in found])) for name in KNOWN_SYSTEMS}
        other = max(OTHERS, key=means.__getitem__)
        differences = {"other": _mean_ahead(found, other), "edgeless": _mean_ahead(found, "edgeless")}
        for what, difference in differences.items():
            ahead[what] += [dataset] if difference.mean > 0 else []
        shown = [f"{means[name]:.3f}" for name in ("shifts", "edgeless", "messages")]
        first = [dataset, str(len(found[0].seeds)), str(len(found)), f"{means['nothing']:.3f}"]
        lines.append(
            _line([*first, KNOWN_SYSTEMS[other].title, f"{means[other]:.3f}", *shown, *map(str, differences.values())])
        )
    n = len(lines) - 2
    said = f"Messages are above every other method on {len(ahead['other'])} of {n} data sets, and above their edgeless "
    return "\n".join(lines) + f"\n\n{said}form on {len(ahead['edgeless'])}."


def _mean_ahead(found: Sequence[Compared], of: str) -> Difference:
    """The mean over regimes. Their rows overlap, so the interval is the mean of theirs: wider rather than narrower."""
    each = [one.ahead("messages", of) for one in found]
    return Difference(*(float(np.mean([getattr(d, part) for d in each])) for part in ("mean", "low", "high")))


def cost_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Rows, labels, and the processor seconds of learning, the mean over seeds."""
    lines = [_line(["data", "labelled rows", "test rows", "labels", *(KNOWN_SYSTEMS[n].title for n in KNOWN_SYSTEMS)])]
    lines.append("|---|" + "--:|" * (3 + len(KNOWN_SYSTEMS)))
    for one in comparisons(results, "positives:1"):
        data = one.data[0]
        seconds = [
            np.mean([r["fit_cpu_seconds"] for r in results if (r["dataset"], r["system"]) == (one.dataset, name)])
            for name in KNOWN_SYSTEMS
        ]
        shown = [f"{s:.0f}" if s >= 10 else f"{s:.1f}" for s in seconds]
        lines.append(_line([one.dataset, str(data["labelled"]), str(data["test"]), str(data["labels"]), *shown]))
    return "\n".join(lines)


def verdict(results: Sequence[Mapping[str, Any]], regime: str = SHOWN) -> str:
    """In sentences: where messages are ahead, and where not."""
    compared = comparisons(results, regime)
    others = {one.dataset: one.ahead("messages", one.best_other()) for one in compared}
    edgeless = {one.dataset: one.ahead("messages", "edgeless") for one in compared}
    sentences = []
    for what, found in (("the best other method", others), ("their edgeless form", edgeless)):
        ahead = [name for name, d in found.items() if d.low > 0]
        behind = [name for name, d in found.items() if d.high < 0]
        level = [name for name in found if name not in (*ahead, *behind)]
        places = (("ahead", ahead), ("level", level), ("behind", behind))
        where = [f"{place} on {_names(names)}" for place, names in places if names]
        if where:
            sentences.append(f"against {what}, messages are {', '.join(where)}")
    missing = [name for name in SEEDS if name not in others]
    text = f"{TITLES[regime]}: {'; '.join(sentences)} (95% intervals)." if sentences else f"{TITLES[regime]}."
    return text + (f" Not measured in this regime: {_names(missing)}." if missing else "")


def earlier_forms(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence on each system of lampnet with results of an earlier recipe."""
    by_datasets: dict[tuple[str, ...], list[str]] = {}
    for name, system in KNOWN_SYSTEMS.items():
        own = [r for r in results if r["system"] == name and r.get("form", 0) != system.form]
        if own:
            datasets = tuple(dataset for dataset in SEEDS if any(r["dataset"] == dataset for r in own))
            by_datasets.setdefault(datasets, []).append(f"*{system.title}*")
    return [
        f"The results of {_names(titles)} on {_names(datasets)} are of an earlier version, in which what a shift "
        "counts did not depend on how much is known."
        for datasets, titles in by_datasets.items()
    ]


def section(results: Sequence[Mapping[str, Any]]) -> str:
    parts = [verdict(results, regime) for regime in (SHOWN, "positives:1", "share:50")]
    parts += earlier_forms(results)
    parts += ["### The mean of all regimes", overall_table(results)]
    for regime in (SHOWN, *(str(r) for r in REGIMES if str(r) != SHOWN)):
        parts += [f"### {TITLES[regime]}", table(results, regime)]
    return "\n\n".join([*parts, "### Rows and processor seconds of learning", cost_table(results)])


def page_with(results: Sequence[Mapping[str, Any]], text: str) -> str:
    """The page, its comparison written anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{section(results)}\n{END}{rest.partition(END)[2]}"


def write_page(folder: Path, docs: Path) -> Path:
    """Write the comparison into the page of the folder docs, and the picture beside it; the rest of the page stays."""
    results, page, picture = read_results(folder), docs / PAGE, docs / PICTURE
    picture.parent.mkdir(parents=True, exist_ok=True)
    text = page.read_text(encoding="utf-8") if page.exists() else "# Known labels\n\n"
    page.write_text(page_with(results, text), encoding="utf-8")
    draw(results, picture)
    draw(results, docs / README_PICTURE, README_PANELS)
    return page


def draw(results: Sequence[Mapping[str, Any]], path: Path, panels: Sequence[str] = tuple(SEEDS)) -> None:
    """A panel for each of these data sets: what each method makes of more and more known labels."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lampnet"  # the same numbers give the same file
    from matplotlib import pyplot as plt

    by_regime = {str(regime): {c.dataset: c for c in comparisons(results, str(regime))} for regime in REGIMES}
    datasets = [name for name in panels if any(name in found for found in by_regime.values())]
    columns = min(COLUMNS, max(1, len(datasets)))
    rows = -(-max(1, len(datasets)) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(1 + 2.6 * columns, 0.6 + 2.3 * rows), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[len(datasets) :]:
        axis.set_visible(False)
    for axis, dataset in zip(axes.flat, datasets, strict=False):
        for kind in ("positives", "share"):  # two ways of knowing, two lines
            shown = [r for r in REGIMES if r.kind == kind and dataset in by_regime[str(r)]]
            places = [REGIMES.index(regime) for regime in shown]
            for name, (marker, colour, title) in LOOKS.items():
                found = [by_regime[str(regime)][dataset] for regime in shown]
                means = [one.mean(one.best_other() if name == "other" else name) for one in found]
                label = title if (dataset, kind) == (datasets[0], "share") else None
                axis.plot(places, means, marker, linestyle="-", color=colour, markersize=4, linewidth=1, label=label)
        axis.set_title(dataset, fontsize=9)
        ticks = [f"{r.amount}" if r.kind == "positives" else f"{r.amount}%" for r in REGIMES]
        axis.set_xticks(range(len(REGIMES)), ticks, fontsize=7)
        axis.tick_params(axis="y", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("known: true labels of a row (1, 3), or a share of all labels", fontsize=8)
    figure.supylabel("average precision of the rest", fontsize=8)
    if any(axis.get_legend_handles_labels()[0] for axis in figure.axes):  # otherwise there is no line at all
        figure.legend(loc="outside upper center", ncols=2, fontsize=7, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
