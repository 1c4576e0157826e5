"""`docs/reproduction.md`: every table and figure of the paper, ours beside it, from result files alone."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.baselines import REGISTRY
from lampnet.experiments.compare import SCORES, score_of
from lampnet.experiments.paper_networks import COMPLETE_PRIOR, FOLDER, chosen_results, is_done, own_form
from lampnet.experiments.paper_networks import networks as all_networks
from lampnet.experiments.reproduce import SEEDS
from lampnet.experiments.result_files import Result, read_results
from lampnet.experiments.row_scores import (
    Difference,
    paired_difference,
    pooled_difference,
    seeds_difference,
    unpacked,
)
from lampnet.experiments.systems import FORMS, SYSTEMS
from pages import paper_tables
from pages.curves import CURVES, write_curves
from pages.other_tools_section import PECOS, read_other_tools, tools_by_dataset
from pages.results import PAPER_ORDER, dataset_title
from pages.speed_section import operations_section, read_speed, speed_section
from pages.summary import Cell, Summary, cell, table
from pages.training_costs import Costs, duration, epochs_table, missing_table

F1 = ("example_f1", "micro_f1", "macro_f1")
#: The data sets of the paper that are to be had, and those that its networks are also trained on.
PUBLISHED = ("reuters21578", "bibtex", "delicious", "sider")
OTHERS = ("emotions", "scene", "mediamill", "yeast_chipexo")
#: Which of our methods stands beside which published row.
BESIDE = {
    "FastXML": ("fastxml",),
    "SVM": ("svm",),
    "SPEN": ("spen",),
    "GAML": ("gaml",),
    "RNN Seq2Seq": ("seq2seq",),
    "Emb + MLP": ("mlp",),
    # The paper takes the best of twelve methods for each metric.
    "Madjarov": (
        "logistic", "svm", "chain", "ecc", "rakel", "homer", "clr", "mlknn", "pct", "forest", "mlc45", "rfmlc45",
    ),
}  # fmt: skip
_TITLES = {
    "example_f1": "Table 1: example-F1 (ebF1)",
    "micro_f1": "Table 2: micro-F1 (miF1)",
    "macro_f1": "Table 3: macro-F1 (maF1)",
    "subset_accuracy": "Appendix: subset accuracy (ACC)",
    "hamming_accuracy": "Appendix: Hamming accuracy (HA)",
}
#: Why a data set of the paper has no rows of ours, what stands in for it, and what runs it where the files are.
ABSENT = {
    "bookmarks": (
        "its files are published by Mulan, which this project does not redistribute",
        "IMDB, of the same kind and larger ([results](results.md#imdb))",
    ),
    "rcv1": (
        "its documents are licensed and not redistributable; what is, five subsets of 6,000 rows, has labels without "
        "names, which do not come with their parents in the topic tree",
        "Reuters-21578 as text; its topic tree [on documents that are made up]"
        "(#a-topic-tree-and-protein-interactions-as-label-graphs)",
    ),
    "tfbs": (
        "the authors' windows of ENCODE are not public",
        "yeast ChIP-exo ([results](results.md#yeast-chip-exo)), "
        "[with STRING as the label graph](#a-topic-tree-and-protein-interactions-as-label-graphs) on a sample",
    ),
    "nuswide": (
        "the cVLAD features of its 269,648 pictures are not public in a form that can be redistributed",
        "Mediamill and Scene, dense vectors too",
    ),
}
_HEAD = """# The paper, reproduced

`lampnet reproduce --page-only` writes this page from result files; no number on it was typed by hand. It sets every
table and figure of "Neural Message Passing for Multi-Label Classification" (Lanchantin, Sekhon and Qi, 2019) beside

- **alone**: the paper's network as published, [its preset](paper-preset.md): no base learners, one network, the best of
  27 thresholds for each metric on the validation rows (`lampnet reproduce --paper`). The published networks have
  d = 512; the width of ours is in [the table of runs](#the-runs);
- **lampnet**: the same form in lampnet's default recipe, base learners included, and in the last rows what
  `lampnet train` does without any setting; the same 27 thresholds;
- for the methods that the paper compares with, lampnet's implementation of the same method, tuned on validation rows.

± is the standard deviation over seeds; (a to b) is a 95% interval. No run makes a choice by test
labels. While the recipe of **lampnet** and its base learners was designed, some test scores were seen, though
([which](results.md#notes-on-what-was-tried)).
"""


class Networks:
    """The results of the paper's networks with the chosen weight lambda; forms that are the same share their runs."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.all = list(results)
        self.rows: dict[tuple[str, str, int, str], dict[int, Result]] = {}
        for result in chosen_results(self.all):
            config = result["config"]
            key = result["dataset"], result["form"], config["model"]["width"], config["training"]["start"]
            self.rows.setdefault(key, {})[result["seed"]] = result

    def widths(self, dataset: str, form: str, start: str = "random") -> list[int]:
        wanted = dataset, own_form(dataset, form), start
        return sorted(width for d, f, width, s in self.rows if (d, f, s) == wanted)

    def runs(self, dataset: str, form: str, width: int, start: str = "random") -> dict[int, Result]:
        return self.rows.get((dataset, own_form(dataset, form), width, start), {})

    def best_width(self, dataset: str, form: str) -> int | None:
        """By the mean validation score, random start."""
        widths = self.widths(dataset, form)

        def validation(width: int) -> float:
            runs = self.runs(dataset, form, width).values()
            return statistics.fmean(run["validation"]["paper"]["example_f1"] for run in runs)

        return max(widths, key=validation, default=None)

    def score(self, dataset: str, form: str, metric: str) -> Cell | None:
        """Of the width that validation prefers."""
        width = self.best_width(dataset, form)
        return None if width is None else self.score_at(dataset, form, metric, width)

    def score_at(self, dataset: str, form: str, metric: str, width: int, start: str = "random") -> Cell | None:
        return cell(score_of(run, metric, "paper") for run in self.runs(dataset, form, width, start).values())

    def datasets(self) -> list[str]:
        known = dict.fromkeys(dataset for dataset, *_ in self.rows)
        return [name for name in (*PUBLISHED, *OTHERS) if name in known]

    def difference(
        self, dataset: str, first: str, second: str, metric: str, width: int, start: str = "random"
    ) -> tuple[Difference | float, int] | None:
        """Of two forms over the seeds that both have, and how many; without an interval where nothing supports one."""
        ours, theirs = self.runs(dataset, first, width, start), self.runs(dataset, second, width, start)
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            return None
        if metric == "example_f1" and dataset != "sider":  # SIDER's seeds have other test rows
            rows = [_by_row(runs, seeds) for runs in (ours, theirs)]
            if rows[0] is not None and rows[1] is not None and rows[0].shape == rows[1].shape:
                return paired_difference(rows[0], rows[1]), len(seeds)
        values = [np.array([runs[seed]["paper"][metric] for seed in seeds]) for runs in (ours, theirs)]
        over_seeds = seeds_difference(*values)
        return (over_seeds if over_seeds is not None else float((values[0] - values[1]).mean())), len(seeds)

    def seeds(self, dataset: str, graph: str, width: int) -> int:
        """How many seeds a label graph and the edgeless one have in common."""
        pairs = (
            (self.runs(dataset, f"{features}-{kind}", width) for kind in (graph, "el")) for features in ("emb", "fmp")
        )
        return len({seed for ours, theirs in pairs for seed in ours.keys() & theirs.keys()})

    def gains_by_unit(self, dataset: str, graph: str, width: int) -> tuple[np.ndarray, float] | None:
        """Example-F1 of a label graph minus that of the edgeless one, and the mean of the edgeless one.

        For each test row, or for each split of SIDER: the mean over Emb and FMP and the seeds that both graphs have.
        None where there are none.
        """
        gains: list[np.ndarray] = []
        by_split: dict[int, list[float]] = {}
        edgeless: list[float] = []
        for features in ("emb", "fmp"):
            ours, theirs = (self.runs(dataset, f"{features}-{kind}", width) for kind in (graph, "el"))
            for seed in ours.keys() & theirs.keys():
                pair = ours[seed], theirs[seed]
                edgeless.append(pair[1]["paper"]["example_f1"])
                by_split.setdefault(seed, []).append(pair[0]["paper"]["example_f1"] - edgeless[-1])
                rows = [_by_row({seed: run}, [seed]) for run in pair]
                if rows[0] is not None and rows[1] is not None:
                    gains.append(rows[0] - rows[1])
        if dataset == "sider":  # its seeds have other test rows
            units = np.array([np.mean(changes) for changes in by_split.values()]) if len(by_split) > 2 else None
        else:
            units = np.mean(gains, axis=0) if gains else None
        return None if units is None else (units, statistics.fmean(edgeless))


def _by_row(runs: Mapping[int, Result], seeds: Iterable[int]) -> np.ndarray | None:
    packed = [runs[seed].get("example_f1_by_row") for seed in seeds]
    if any(text is None for text in packed):
        return None
    rows = [unpacked(str(text)) for text in packed]
    return np.mean(rows, axis=0) if len({len(row) for row in rows}) == 1 else None


def write_page(folder: Path, page: Path) -> None:
    """Write the page, and its curves beside it, from the results in `folder`."""
    networks = Networks(read_results(folder / FOLDER) if (folder / FOLDER).is_dir() else [])
    statistics_file = page.parent / "measurements" / "data_statistics.json"
    counted = json.loads(statistics_file.read_text(encoding="utf-8")) if statistics_file.is_file() else {}
    page.parent.mkdir(parents=True, exist_ok=True)
    drawn = write_curves(networks.all, page.parent)
    measured = {
        name: json.loads(file.read_text(encoding="utf-8"))
        for name in ("given_graphs", "paper_epochs", "paper_operations", "comparator_costs")
        if (file := page.parent / "measurements" / f"{name}.json").is_file()
    }
    summary = Summary(read_results(folder))
    tools = read_other_tools(folder)
    text = reproduction_page(networks, summary, counted, read_speed(folder), drawn, measured, tools)
    page.write_text(text, encoding="utf-8")


def reproduction_page(
    networks: Networks,
    summary: Summary,
    counted: Mapping[str, Any],
    speed: Mapping[str, Any] | None = None,
    drawn: Sequence[str] = (),
    measured: Mapping[str, Any] | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The page as Markdown.

    measured  the files in docs/measurements that it shows, by name
    tools     results of other tools
    """
    measured = measured or {}
    costs = Costs(measured.get("paper_epochs", {}).get("seconds", {}), networks.all)
    comparators: Mapping[str, Any] = measured.get("comparator_costs", {}).get("costs", {})
    found = finding(networks, summary)
    short = f"**{found}** How that was measured, and every pair of networks: [below](#do-label-messages-help)."
    parts = [
        _HEAD,
        short if found else "",
        answer(networks),
        _score_section(networks, summary, costs, comparators),
        _comparators(summary, comparators, tools),
        _claims(networks, summary),
        _runs(networks),
        missing_table(costs, networks.all),
        epochs_table(costs) if costs.seconds else "",
        _curves(drawn),
        _starts(networks),
        _absent(),
        given_graphs_section(measured.get("given_graphs", {})),
        _data_section(counted),
    ]
    if speed is not None and all("operations" in own for own in speed["datasets"].values()):
        parts.append(speed_section(speed))
        if "paper_operations" in measured:
            parts.append(operations_section(measured["paper_operations"]))
    parts.append(_figures())
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


#: What stands below the methods of others: the stack, which is lampnet without a network, and lampnet.
OWN_SYSTEMS = (("its base learners alone", "stack"), ("lampnet's default", "lamp"))
#: The width that the finding is about, trained on every data set; the published networks have d = 512.
WIDTH = 128


def finding(networks: Networks, summary: Summary) -> str:
    """What the reproduction found, in one sentence for README and the top of the page; empty without any run."""
    found = {d: one for d in networks.datasets() if (one := networks.gains_by_unit(d, "fc", WIDTH)) is not None}
    if not found:
        return ""
    gain = pooled_difference([units for units, _ in found.values()])
    relative = pooled_difference([units / edgeless for units, edgeless in found.values()])
    clear = [
        f"{dataset_title(d)} {alone}{', one seed' if networks.seeds(d, 'fc', WIDTH) == 1 else ''}"
        for d, (units, _) in found.items()
        if (alone := _alone(d, units)).is_clear
    ]
    if relative.is_clear:
        verdict = "raise" if relative.mean > 0 else "lower"
    else:
        verdict = "do not clearly raise" if relative.mean > 0 else "do not raise"
    below = []
    for dataset in found:
        best = max(
            (s for form in FORMS if (s := networks.score(dataset, form, "example_f1"))), key=lambda one: one.mean
        )
        stack = summary.score(dataset, "stack", "example_f1", "paper")
        if stack is not None:
            below.append(best.mean < stack.mean)
    beside = f"; its best form stays below lampnet's stack of base learners on {sum(below)} of {len(below)}"
    sets = "1 data set" if len(found) == 1 else f"{len(found)} data sets"
    titles = ", ".join(map(dataset_title, found))
    where = f"clear by itself on {', '.join(clear)}" if clear else "clear by itself on none"
    absent = [dataset_title(name) for name in PUBLISHED if name not in found]
    where += f"; not trained on {', '.join(absent)}" if absent else ""
    return (
        f"In the paper's own network, without base learners and with d = {WIDTH}, messages among all labels {verdict} "
        f"example-F1 on average over {sets}: the change is {relative.in_percent()}, or {gain} points ({titles}; "
        f"{where}), where the paper states +1.8% with d = 512{beside if below else ''}."
    )


def _alone(dataset: str, units: np.ndarray) -> Difference:
    """The gain on one data set: over test rows, or over SIDER's few splits."""
    over_splits = seeds_difference(units, np.zeros(len(units))) if dataset == "sider" else None
    return over_splits if over_splits is not None else paired_difference(units, np.zeros(len(units)))


def answer(networks: Networks) -> str:
    """Do label messages help the paper's network: where, and by how much."""
    rows: list[list[str]] = []
    gains: list[str] = []
    losses: list[str] = []
    for dataset in networks.datasets():
        for features in ("emb", "fmp"):
            for graph in ("fc", "pr"):
                first, second = f"{features}-{graph}", f"{features}-el"
                if own_form(dataset, first) != first:
                    continue
                widths = set(networks.widths(dataset, first)) & set(networks.widths(dataset, second))
                for width in sorted(widths):
                    found = {m: networks.difference(dataset, first, second, m, width) for m in F1}
                    example = found["example_f1"]
                    if example is None:
                        continue
                    rows.append(
                        [
                            dataset_title(dataset),
                            FORMS[first],
                            str(width),
                            *(_difference(found[m]) for m in F1),
                            str(example[1]),
                        ]
                    )
                    if isinstance(example[0], Difference) and example[0].is_clear:
                        side = gains if example[0].mean > 0 else losses
                        side.append(f"{dataset_title(dataset)} ({FORMS[first]}, d = {width}: {example[0]})")
    if not rows:
        return "## Do label messages help?\n\nNo network has been trained yet; run `lampnet reproduce --paper`."
    unclear = len(rows) - len(gains) - len(losses)
    sets = dict.fromkeys(row[0] for row in rows)
    sentence = (
        f"Trained so far on {', '.join(sets)}. Of {len(rows)} comparisons with the edgeless graph, label messages "
        f"raise example-F1 clearly in {len(gains)} and lower it clearly in {len(losses)}; in {unclear} "
        "the 95% interval holds zero, or there is none."
    )
    named = [f"Clear gains: {'; '.join(gains)}."] if gains else []
    named += [f"Clear losses: {'; '.join(losses)}."] if losses else []
    about = (
        "Points (hundredths) by which a full (fc) or prior (pr) label graph is above the edgeless one: test rows, the "
        "paper's protocol. Intervals: of example-F1 by the paired bootstrap over test rows (means over seeds), else by "
        "Student's t over three or more seeds or splits; without either, the bare difference of one or two runs, "
        "which claims nothing. An interval over rows says how far these trained networks differ on other rows; it does "
        "not hold the chance of another seed. The interval on top of the page is that of a bootstrap over data sets "
        f"and, in each, over its test rows (SIDER: splits), at d = {WIDTH}; so few data sets make it rather too narrow."
        + _complete_prior(networks)
    )
    headings = ["data", "form", "d", *(SCORES[m] for m in F1), "seeds"]
    return "\n\n".join(["## Do label messages help?", sentence, *named, about, table(headings, rows)])


def _complete_prior(networks: Networks) -> str:
    named = [dataset_title(name) for name in COMPLETE_PRIOR if name in networks.datasets()]
    if not named:
        return ""
    return (
        f" On {', '.join(named)} every two labels share a training row, in every split: the prior graph is the full "
        "one, and LaMP_pr has the runs of LaMP_fc."
    )


def _difference(found: tuple[Difference | float, int] | None) -> str:
    if found is None:
        return "–"
    value = found[0]
    if isinstance(value, float):
        return f"{100 * value:+.1f}"
    return f"**{value}**" if value.is_clear else str(value)


def _score_section(
    networks: Networks, summary: Summary, costs: Costs, comparators: Mapping[str, Mapping[str, Any]]
) -> str:
    parts = [
        "## The tables of scores",
        "- A dash: there is no number, in the paper or here.\n"
        "- A time in brackets, **(24 min)** or **(2.1 h)**: this network was not trained; its training would take so "
        "long on one core at d = 128 ([how that is counted](#what-is-missing-and-what-it-would-cost)).\n"
        "- **not run (2.1 h)**: the paper has a number, and our version of the method was not run; "
        "`lampnet reproduce --dataset NAME --model METHOD` runs it, and fitting it once would take about so long "
        "([estimated](#the-comparators)).\n"
        "- **(stopped)**: training was stopped after the time that [the table of comparators](#the-comparators) "
        "states, and the best epoch so far was kept.\n"
        "- **(1 of 5 splits)**: each split of SIDER has test rows of its own, some of them harder. Compare such a "
        "number with others of the same split only, not with a mean over five.\n\n"
        "The columns of Bookmarks, RCV1, TFBS and NUS-WIDE are [below](#what-is-absent-and-why)."
        + _complete_prior(networks),
    ]
    parts += [_score_table(networks, summary, metric, costs, comparators) for metric in PAPER_ORDER]
    return "\n\n".join(parts)


def _score_table(
    networks: Networks, summary: Summary, metric: str, costs: Costs, comparators: Mapping[str, Mapping[str, Any]]
) -> str:
    headings = ["system"]
    for dataset in PUBLISHED:
        headings += [f"{paper_tables.DATASETS[dataset]}: published", "alone", "lampnet"]
    rows = []
    misprints: dict[str, None] = {}
    for published in paper_tables.systems(metric):
        form = next((name for name, title in FORMS.items() if title == published), None)
        cells = [published]
        for dataset in PUBLISHED:
            value, note = (f(metric, published, dataset) for f in (paper_tables.paper_score, paper_tables.misprint))
            if note is not None:
                misprints[f"{paper_tables.DATASETS[dataset]}: {note}"] = None
            shown = "–" if value is None else f"{value:.3f}" + ("\\*" if note else "")
            if form is not None:
                alone, lampnet = networks.score(dataset, form, metric), summary.score(dataset, form, metric, "paper")
                hours = costs.hours(dataset, form, 128)
                missing = f"({duration(hours)})"
                cells += [shown, missing if alone is None else str(alone) + _few_splits(dataset, alone), _text(lampnet)]
            else:
                methods = BESIDE.get(published, ())
                ours = _of_methods(summary, dataset, methods, metric)
                if ours == "–" and value is not None:
                    ours = _not_run(comparators, dataset, methods[0])
                cells += [shown, "", ours]
        rows.append(cells)
    for title, name in (("label priors", "constant"), *OWN_SYSTEMS):
        if name in SYSTEMS:
            row = [f"**{title}**"]
            for dataset in PUBLISHED:
                row += ["", "", _text(summary.score(dataset, name, metric, "paper"))]
            rows.append(row)
    notes = "".join(f"\n\n\\* {note}" for note in misprints)
    return f"### {_TITLES[metric]}\n\n{table(headings, rows)}{notes}"


def _of_methods(summary: Summary, dataset: str, names: Sequence[str], metric: str) -> str:
    """The best of these methods; which one it is, where there are several."""
    scored = {}
    for name in names:
        found = summary.score(dataset, name, metric, _group(name))
        if found is not None:
            scored[name] = found
    # SIDER's splits have other test rows: methods are ranked where they have as many.
    most = max((one.seeds for one in scored.values()), default=0)
    scored = {name: one for name, one in scored.items() if one.seeds == most}
    if not scored:
        late = [text for name in names if (text := summary.unfinished(dataset, name))]
        return late[0] if late and len(names) == 1 else "–"
    best = max(scored, key=lambda name: scored[name].mean)
    noted = _few_splits(dataset, scored[best]) + (" (stopped)" if _stopped(summary, dataset, best) else "")
    return f"{scored[best]}{noted}" if len(names) == 1 else f"{scored[best]} ({best}, of {len(scored)})"


def _few_splits(dataset: str, found: Cell | None) -> str:
    """A note on a score of some of SIDER's splits, whose test rows differ."""
    splits = SEEDS["sider"]
    return f" ({found.seeds} of {splits} splits)" if dataset == "sider" and found and found.seeds < splits else ""


def _group(method: str) -> str:
    """Which of a method's scores stand beside published ones: Seq2Seq generates label sets, as in the paper."""
    return "own_sets" if method == "seq2seq" else "paper"


def _stopped(summary: Summary, dataset: str, method: str) -> bool:
    """Whether its time was up before validation scores stopped rising."""
    return any(run["status"] == "time budget" for run in summary.runs(dataset, method))


def _not_run(comparators: Mapping[str, Mapping[str, Any]], dataset: str, method: str) -> str:
    """What a method that was not run would cost."""
    cost = comparators.get(dataset, {}).get(method)
    if cost is None:
        return "not run"
    return f"not run ({'over ' if cost['at_least'] else ''}{duration(cost['hours'])})"


def _three_scores(scores: Sequence[Cell | None]) -> str:
    return " / ".join("–" if one is None else f"{one.mean:.3f}".removeprefix("0") for one in scores)


def _comparators(
    summary: Summary, comparators: Mapping[str, Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> str:
    """Every baseline beside every other on the data sets of the paper that are to be had."""
    datasets = (*PUBLISHED, "emotions", "scene")
    rows = []
    for name, entry in REGISTRY.items():
        cells = []
        for dataset in datasets:
            scores = [summary.score(dataset, name, metric, _group(name)) for metric in F1]
            few = _few_splits(dataset, scores[0])
            if scores[0] is None:
                cells.append(summary.unfinished(dataset, name) or _not_run(comparators, dataset, name))
                continue
            shown = _three_scores(scores) + few
            limit = summary.runs(dataset, name)[0].get("time_budget_minutes", 0)
            cells.append(shown + (f" (stopped after {limit:g} minutes)" if _stopped(summary, dataset, name) else ""))
        rows.append([entry.title, *cells])
    for title, name in OWN_SYSTEMS:
        scores_of_own = [[summary.score(dataset, name, metric, "paper") for metric in F1] for dataset in datasets]
        rows.append([f"**{title}**", *map(_three_scores, scores_of_own)])
    about = (
        "ebF1 / miF1 / maF1 of every method that `lampnet` has beside LaMP, its settings tuned on validation rows, at "
        "the paper's 27 thresholds (Seq2Seq: its own label sets), means over seeds; in the last rows, of lampnet's own "
        "base learners and of its default. A method that was still fitting "
        "when its time was up has no scores; a network keeps its best epoch. Times are those of a busy machine. "
        "A method that was not run has the time in brackets that fitting it once would take on one core, extrapolated "
        "from a few rows (`python benchmarks/comparator_costs.py`); a whole run of a method on features takes several "
        "times as long, for its folds."
    )
    run = tools_by_dataset(tools)
    listed = "; ".join(f"{', '.join(names)} on {dataset_title(dataset)}" for dataset, names in run.items())
    beside = (
        f"[Other tools of today](results.md#compared-with-other-tools) with results: {listed or 'none'}. "
        f"`python benchmarks/other_tools.py` runs the others. {PECOS}"
    )
    columns = ["method", *map(dataset_title, datasets)]
    return f"## The comparators\n\n{about}\n\n{table(columns, rows)}\n\n{beside}"


def _text(found: Cell | None) -> str:
    return "–" if found is None else str(found)


_MLP = "Emb + MLP"
#: Average relative gains in percent that the text states: of which label graph over what, by metric.
_STATED = {
    ("fc", "el"): (1.8, 1.6, 2.4),
    ("pr", "el"): (1.7, 1.8, 2.1),
    ("fc", "mlp"): (18.5, 20.2, 57.0),
    ("pr", "mlp"): (18.4, 20.5, 56.7),
}


def _claims(networks: Networks, summary: Summary) -> str:
    """The averages that the paper states in its text, computed from its tables and from ours."""
    rows = []
    for (graph, other), stated in _STATED.items():
        for metric, value in zip(F1, stated, strict=True):
            published, ours, sets = [], [], set()
            for features in ("emb", "fmp"):
                form, beside = f"{features}-{graph}", "mlp" if other == "mlp" else f"{features}-{other}"
                for dataset in paper_tables.DATASETS:
                    titles = FORMS[form], _MLP if other == "mlp" else FORMS[beside]
                    pair = [paper_tables.paper_score(metric, name, dataset) for name in titles]
                    if pair[0] is not None and pair[1]:
                        published.append(100 * (pair[0] / pair[1] - 1))
                for dataset in networks.datasets():
                    for width in networks.widths(dataset, form):
                        if other == "mlp":
                            theirs = summary.score(dataset, "mlp", metric, "paper")
                        else:
                            theirs = networks.score_at(dataset, beside, metric, width)
                        own = networks.score_at(dataset, form, metric, width)
                        # SIDER's splits have other test rows: as many on both sides, or none.
                        if own is not None and theirs is not None and theirs.mean and own.seeds == theirs.seeds:
                            ours.append(100 * (own.mean / theirs.mean - 1))
                            sets.add(dataset)
            shown = (
                f"{statistics.fmean(ours):+.1f}% ({len(ours)} pairs: {', '.join(map(dataset_title, sorted(sets)))})"
                if ours
                else "–"
            )
            tables = f"{statistics.fmean(published):+.1f}%"
            rows.append(
                [
                    f"{SCORES[metric]}, LaMP_{graph} over {_MLP if other == 'mlp' else 'LaMP_el'}",
                    f"+{value}%",
                    tables,
                    shown,
                ]
            )
    about = (
        "The paper states average relative gains in its text; its own tables give other averages, and it does not say "
        "which rows and data sets were averaged. Ours average over the data sets and widths trained so far."
    )
    return f"## The paper's averages\n\n{about}\n\n" + table(
        ["gain", "stated", "mean over the published tables", "ours"], rows
    )


def _runs(networks: Networks) -> str:
    rows = []
    for (dataset, form, width, start), runs in sorted(
        networks.rows.items(), key=lambda item: (networks.datasets().index(item[0][0]), item[0][1:])
    ):
        epochs = [len(run["history"]) for run in runs.values()]
        best = [
            int(np.argmax([epoch["scores"]["example_f1"] for epoch in run["history"]])) + 1 for run in runs.values()
        ]
        tried = {
            r["lambda"] for r in networks.all if (r["dataset"], r["system"]) == (dataset, f"{form}-d{width}-{start}")
        }
        rows.append(
            [
                dataset_title(dataset),
                FORMS[form],
                str(width),
                start,
                str(len(runs)),
                ", ".join(sorted({f"{run['lambda']:g}" for run in runs.values()})) + f" of {len(tried)}",
                f"{statistics.fmean(epochs):.0f}",
                ", ".join(map(str, best)),
                *(_text(networks.score_at(dataset, form, m, width, start)) for m in F1),
            ]
        )
    if not rows:
        return ""
    headings = [
        "data",
        "form",
        "d",
        "start",
        "seeds",
        "λ, of how many tried",
        "epochs",
        "best epochs",
        *(SCORES[m] for m in F1),
    ]
    queue = all_networks()
    finished = sum(is_done(network, networks.all) for network in queue)
    done = (
        f"{finished} of {len(queue)} trainings are finished; `lampnet reproduce --paper` goes on with the others. λ is "
        "the value with the best validation score of those tried at seed 0, d = 128 and a random start; where one was "
        "tried, nothing was chosen. Where the best epoch by validation example-F1 is among the first, training added "
        "little to what the label priors already give."
    )
    return f"## The runs\n\n{done}\n\n" + table(headings, rows)


def _curves(drawn: Sequence[str]) -> str:
    if not drawn:
        return ""
    pictures = "\n".join(f"![validation score by epoch, {dataset}]({CURVES.format(dataset)})" for dataset in drawn)
    return (
        "## By epoch and width\n\nValidation example-F1 at the best of 27 thresholds after each epoch, seed 0: what "
        f"more epochs and more width bring.\n\n{pictures}"
    )


def _starts(networks: Networks) -> str:
    """Random starts as published, and spectral ones."""
    rows = []
    for dataset in networks.datasets():
        for form in FORMS:
            for width in networks.widths(dataset, form, "spectral"):
                pairs = [[networks.score_at(dataset, form, m, width, s) for s in ("random", "spectral")] for m in F1]
                if pairs[0][0] is not None:
                    cells = [f"{_text(a)} → {_text(b)}" for a, b in pairs]
                    rows.append([dataset_title(dataset), FORMS[form], str(width), *cells])
    if not rows:
        return ""
    about = "Means over the seeds that each start has; ± is the standard deviation where there are several."
    return f"## Random and spectral start\n\n{about}\n\n" + table(["data", "form", "d", *(SCORES[m] for m in F1)], rows)


def _absent() -> str:
    rows = [
        [paper_tables.DATASETS[name], why, instead, f"`lampnet reproduce --dataset {name} --data-root DIR`"]
        for name, (why, instead) in ABSENT.items()
    ]
    headings = ["data", "why there is no row", "what stands in for it", "with its files in DIR/NAME"]
    published = []
    for name in dict.fromkeys(name for metric in F1 for name in paper_tables.systems(metric)):
        cells = []
        for dataset in ABSENT:
            known = [
                paper_tables.paper_score(m, name, dataset) if name in paper_tables.systems(m) else None for m in F1
            ]
            shown = ("–" if one is None else f"{one:.3f}".removeprefix("0") for one in known)
            cells.append(" / ".join(shown) if any(one is not None for one in known) else "–")
        published.append([name, *cells])
    about = "What the paper publishes for them, ebF1 / miF1 / maF1, without anything of ours to set beside it:"
    columns = ["system", *(paper_tables.DATASETS[name] for name in ABSENT)]
    return "\n\n".join(["## What is absent, and why", table(headings, rows), about, table(columns, published)])


#: What is measured with label graphs that come with the labels, by its name in the file of `given_graphs.py`.
_GRAPHS = {
    "topics": (
        "RCV1's topic tree",
        "{edges} edges between {labels} topics, on {train:,} training and {test:,} test documents that are made up of "
        "the words of the topics' names, each with all ancestors of its topics: RCV1's own are licensed. It shows what "
        "a tree is worth where labels follow it exactly, and says nothing about news.",
    ),
    "proteins": (
        "STRING",
        "{edges} pairs of proteins that STRING joins, of {labels}, on a sample of yeast ChIP-exo: {train:,} training "
        "and {test:,} test windows.",
    ),
}


def given_graphs_section(measured: Mapping[str, Any]) -> str:
    """Label graphs that come with the labels; see `benchmarks/given_graphs.py`."""
    parts = ["## A topic tree and protein interactions as label graphs"]
    for name, (title, about) in _GRAPHS.items():
        if name not in measured:
            parts.append(
                f"{title} is read and tested as a label graph, but no training with it has been measured "
                f"(`python benchmarks/given_graphs.py {name} --data-root DIR`)."
            )
            continue
        own = measured[name]
        runs = {run["form"]: run for run in own["runs"]}
        rows = []
        for form, run in runs.items():
            gain = "–"
            if form != "emb-el":
                pair = [unpacked(str(runs[key]["example_f1_by_row"])) for key in (form, "emb-el")]
                gain = _difference((paired_difference(*pair), 1))
            rows.append([FORMS[form], *(f"{run['paper'][m]:.3f}" for m in F1), gain, str(run["epochs"])])
        data, settings = own["runs"][0]["data"], own["settings"]
        said = about.format(edges=own["edges"], labels=data["labels"], **data["rows"])
        parts.append(
            f"{title}: {said} The paper's network with d = {settings['model.width']} and a learning rate of "
            f"{settings['training.learning_rate']:g}, one seed (`python benchmarks/given_graphs.py {name} --data-root "
            "DIR`). The gain is over the edgeless graph in points of example-F1, with a 95% interval over test rows, "
            "which does not hold the chance of another seed."
        )
        parts.append(table(["form", *(SCORES[m] for m in F1), "gain", "epochs"], rows))
    return "\n\n".join(parts)


def _data_section(counted: Mapping[str, Any]) -> str:
    if not counted:
        return ""
    rows, label_rows = [], []
    for dataset, own in counted.items():
        theirs = paper_tables.data_statistics(dataset) if dataset in PUBLISHED else {}
        title = dataset_title(dataset)
        names = ("train", "valid", "test", "labels", "features")
        rows.append([title, *(_pair(theirs.get(name), own[name]) for name in names), own["prior_graph"]])
        pairs = [
            (kind, part) for kind in ("labels_per_sample", "samples_per_label") for part in ("mean", "median", "max")
        ]
        label_rows.append([title, *(_pair(theirs.get(f"{kind}_{part}"), own[kind][part]) for kind, part in pairs)])
    about = (
        "Published / counted in the files (`python benchmarks/data_statistics.py`); data sets that the paper does not "
        "have show the count alone. Reuters' features are the words of the training rows, SIDER's the elements."
    )
    label_headings = [
        f"{of}: {part}" for of in ("labels per row", "rows per label") for part in ("mean", "median", "max")
    ]
    return "\n\n".join(
        [
            "## The tables of data",
            about,
            table(["data", "train", "validation", "test", "labels", "features", "prior graph"], rows),
            table(["data", *label_headings], label_rows),
        ]
    )


def _pair(published: float | None, own: float | None) -> str:
    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")

    return shown(own) if published is None else f"{shown(published)} / {shown(own)}"


def _figures() -> str:
    return (
        "## The figures\n\nThe paper's figures show one row of Bookmarks: predictions after each stage, attention to "
        "the input, and attention among labels, for both steps. The same pictures for rows of Bibtex, Reuters, SIDER, "
        "yeast and digits are in [the gallery](gallery/README.md); `lampnet explain` draws them for any model."
    )
