"""What each part of the default recipe is worth: one part is changed, everything else stays the same.

    python benchmarks/ablations.py --data-root DIR [--dataset bibtex] [--only NAME ...] [--page-only | --check]
    python benchmarks/ablations.py --data-root DIR --base-learners

Writes results/ablations/DATASET--NAME.json, one file per run (existing ones are kept), and docs/ablations.md. With
--base-learners, the stacks with and without boosted trees and kernel regression go to results/ablations/base_learners/.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from pages.out_of_fold_section import out_of_fold_sections

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
FOLDER = RESULTS / "ablations"
PAGE = ROOT / "docs" / "ablations.md"
SCORES = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")

#: One network, so that a run takes minutes; ensembles of such networks have rows of their own.
BASE = {"training.folds": 1}
# name -> (what is different, settings)
ABLATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "default": ("a single network", {}),
    "three-folds": ("an ensemble of three", {"training.folds": 3}),
    "five-folds": ("an ensemble of five", {"training.folds": 5}),
    "edgeless": ("no messages among labels", {"label_graph": "edgeless"}),
    "no-refit": ("base learners not refitted with the validation rows", {"training.refit_base_learners": False}),
    "linear-only": ("base learners: linear only", {"model.base_learners": "linear"}),
    "knn-only": ("base learners: kNN only", {"model.base_learners": "knn"}),
    "no-forest": ("base learners: linear and kNN", {"model.base_learners": "linear,knn"}),
    "no-base-learners": ("no base learners, spectral initialisation", {"model.base_learners": "none"}),
    "random-start": (
        "no base learners, random initialisation",
        {"model.base_learners": "none", "training.start": "random"},
    ),
    "no-average": ("no running average of the weights", {"training.average": 0.0}),
    "no-node-dropout": ("no node dropout", {"model.node_dropout": 0.0}),
    "one-step": ("T = 1", {"model.steps": 1}),
    "width-64": ("d = 64", {"model.width": 64}),
    "width-256": ("d = 256", {"model.width": 256}),
    "sequence": ("text: every token with its position", {"input.text_nodes": "sequence"}),
    "learning-rate-3e-3": ("learning rate 3e-3", {"training.learning_rate": 3e-3}),
    "messages-among-features": ("FMP: two steps among the input nodes", {"model.feature_steps": 2}),
}
#: Base learners that have to earn their place, each in stacks that are told their base learners one by one.
STACKS = FOLDER / "base_learners"
STACK_SEEDS = 3
# a learner on trial -> (the data sets, the base learners beside it)
ON_TRIAL: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "boosted": (("scene", "emotions"), ("linear", "knn", "forest")),
    "kernel": (("mediamill", "scene", "emotions"), ("linear", "knn", "forest", "boosted")),
}
TITLES = {
    "boosted": (
        "Boosted trees",
        (
            "The stack of linear model, kNN and forest (no network) with boosted trees on trial, and without them.",
            "Where the trial leaves them out, both are the same. Scores are means over three seeds, differences with",
            "their standard deviation; held-out scores are out-of-fold, over all labelled rows.",
        ),
    ),
    "kernel": (
        "Kernel regression",
        (
            "The same with kernel regression on trial and without it, beside linear model, kNN, forest and boosted",
            "trees on trial. Mediamill's seeds also divide its rows anew.",
        ),
    ),
}
#: What reading texts by pretrained models adds, from benchmarks/pretrained_text.py: a title, with it, without it.
READ = ROOT / "docs" / "measurements" / "pretrained_text.json"
READ_PAIRS = (
    ("a pretrained encoder's pooled states, beside tf-idf", "both", "words"),
    ("a static model's vectors, beside tf-idf", "static", "words"),
    ("networks on word nodes, beside the stack", "word nodes", "both"),
    ("networks on the encoder's tokens instead of words", "token nodes", "word nodes"),
    ("the labels' names as a base learner, beside both", "names", "both"),
)
#: What was tried, from results/trials: a title, the data set, with it, beside what.
TRIED = (
    ("four more fingerprints", "sider", "linear and kNN, with four more fingerprints", "linear and kNN"),
    ("path fingerprints", "sider", "linear and kNN, with path fingerprints", "linear and kNN"),
    (
        "atoms summed along directed bonds",
        "sider",
        "linear and kNN, with atoms summed along directed bonds",
        "linear and kNN",
    ),
    ("a hidden layer", "sider", "linear, kNN, forest and a hidden layer", "linear, kNN and forest"),
    ("boosted trees", "sider", "linear, kNN, forest and boosted trees", "linear, kNN and forest"),
    ("path fingerprints", "tox21", "linear and kNN, with path fingerprints", "linear and kNN"),
    (
        "atoms summed along directed bonds",
        "tox21",
        "linear and kNN, with atoms summed along directed bonds",
        "linear and kNN",
    ),
    ("boosted trees", "tox21", "linear, kNN, forest and boosted trees", "linear, kNN and forest"),
    ("input.gaps=3", "yeast_chipexo", "linear and kNN, with input.gaps=3", "linear and kNN"),
    ("input.gaps=3,9", "yeast_chipexo", "linear and kNN, with input.gaps=3,9", "linear and kNN"),
    (
        "3+3-mers around gaps of 1 to 12",
        "yeast_chipexo",
        "linear and kNN, with 3+3-mers around gaps of 1 to 12",
        "linear and kNN",
    ),
    ("5-, 7- and 8-mers", "yeast_chipexo", "linear and kNN, with 5-, 7- and 8-mers", "linear and kNN"),
)
#: The same runs under their names in the tables of results.
TABLED = {"default": "emb-fc", "edgeless": "emb-el", "messages-among-features": "fmp-fc"}


def run_missing(dataset: str, names: list[str]) -> None:
    """Run what has no file yet."""
    from lampnet.experiments.material import open_material
    from lampnet.experiments.protocol import run
    from lampnet.experiments.result_files import write_json
    from lampnet.readers.sources import Source

    material = open_material(Source(data=dataset, on_bad_row="skip"), 0)
    for name in names:
        path = FOLDER / f"{dataset}--{name}.json"
        if path.exists() or tabled(dataset, name).exists():
            continue
        result = run("lamp", material, settings={**BASE, **ABLATIONS[name][1]}) | {"ablation": name}
        write_json(path, result)
        print(f"{dataset} {name}: example-F1 {result['best']['example_f1']:.4f}", flush=True)


def stack_path(dataset: str, learners: tuple[str, ...], seed: int) -> Path:
    """Where the run of a stack is stored."""
    return STACKS / f"{dataset}--{'-'.join(learners)}--seed{seed}.json"


def run_stacks() -> None:
    """Run what has no file yet."""
    from lampnet.experiments.material import open_material
    from lampnet.experiments.protocol import run
    from lampnet.experiments.result_files import write_json
    from lampnet.readers.sources import Source

    STACKS.mkdir(exist_ok=True)
    for learner, (datasets, others) in ON_TRIAL.items():
        for dataset in datasets:
            for seed in range(STACK_SEEDS):
                for learners in (others, (*others, learner)):
                    path = stack_path(dataset, learners, seed)
                    if path.exists():
                        continue
                    material = open_material(Source(data=dataset, on_bad_row="skip"), seed)
                    write_json(path, run("stack", material, settings={"model.base_learners": ",".join(learners)}))
                    print(path.name, flush=True)


def stack_section(learner: str) -> list[str]:
    """The stack with and without a learner on trial, over the seeds."""
    from lampnet.experiments.row_scores import paired_difference, unpacked

    title, text = TITLES[learner]
    datasets, others = ON_TRIAL[learner]
    lines, found = [], []
    for dataset in datasets:
        paths = [
            [stack_path(dataset, names, seed) for names in (others, (*others, learner))] for seed in range(STACK_SEEDS)
        ]
        pairs = [[json.loads(path.read_text()) for path in pair] for pair in paths if all(p.exists() for p in pair)]
        if len(pairs) < STACK_SEEDS:
            continue
        scores = [[_held_out_and_test(row) for row in pair] for pair in pairs]  # seeds x (without, with) x scores
        for name, number in (("without", 0), ("with", 1)):
            means = [statistics.mean(seed[number][k] for seed in scores) for k in range(len(scores[0][0]))]
            lines.append(f"| {dataset} | {name} | {' | '.join(f'{mean:.3f}' for mean in means)} |")
        gains = [[given - without for without, given in zip(*seed, strict=True)] for seed in scores]
        cells = [f"{statistics.mean(gain):+.3f} ± {statistics.stdev(gain):.3f}" for gain in zip(*gains, strict=True)]
        lines.append(f"| {dataset} | *difference* | {' | '.join(cells)} |")
        rows = [[unpacked(row["example_f1_by_row"]) for row in pair] for pair in pairs]
        kept = [pair[0]["validation"] != pair[1]["validation"] for pair in pairs]
        of_seed = [paired_difference(given, without) for without, given in rows]
        said = ", ".join(
            f"{gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})" if stays else "left out"
            for gain, stays in zip(of_seed, kept, strict=True)
        )
        found.append(f"- {dataset}: kept in {sum(kept)} of {len(kept)} fits; {said}")
    if not lines:
        return []
    return [
        "",
        f"## {title}",
        "",
        *text,
        "",
        "| | | held-out | | | test | | |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        "| **data** | **stack** | **ebF1** | **miF1** | **maF1** | **ebF1** | **miF1** | **maF1** |",
        *lines,
        "",
        "How often the trial keeps it, and the gain in example-F1 on the test rows under the paper's protocol, seed by",
        "seed, with a 95% bootstrap interval over the rows:",
        "",
        *found,
    ]


def _held_out_and_test(row: dict[str, Any]) -> list[float]:
    return [part[metric] for part in (row["validation"]["best"], row["best"]) for metric in SCORES[:3]]


def read_section() -> list[str]:
    """What pretrained models add, mean and spread of the differences over the seeds."""
    measured = json.loads(READ.read_text()) if READ.exists() else {}
    lines: list[str] = []
    for data, seeds in measured.items():
        for title, given, without in READ_PAIRS:
            runs = [run["systems"] for run in seeds.values() if {given, without} <= set(run["systems"])]
            if len(runs) < 2:
                continue
            cells = []
            for part in ("out_of_fold", "test"):
                for metric in SCORES[:3]:
                    gains = [run[given][part][metric] - run[without][part][metric] for run in runs]
                    cells.append(f"{statistics.mean(gains):+.3f} ± {statistics.stdev(gains):.3f}")
            lines.append(f"| {data} | {len(runs)} | {title} | {' | '.join(cells)} |")
    if not lines:
        return []
    return [
        "",
        "## Pretrained text and the labels' names",
        "",
        "What each adds to the scores: mean and standard deviation of the difference over the seeds, each of which",
        "draws its own training texts and order. Networks that add nothing out-of-fold are left out, and their line",
        "is zero. The scores themselves, seconds and rare labels stand",
        "[with the inputs](inputs.md#a-pretrained-text-encoder-beside-tf-idf).",
        "",
        "| | | | out-of-fold | | | test | | |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
        f"| **data** | **seeds** | **what is added** |{' **ebF1** | **miF1** | **maF1** |' * 2}",
        *lines,
    ]


def tried_section() -> list[str]:
    """What was tried for molecules and DNA."""
    lines: list[str] = []
    for title, dataset, given, without in TRIED:
        path = RESULTS / "trials" / f"{dataset}.json"
        found = json.loads(path.read_text()) if path.exists() else {"trials": {}}
        tried = found["trials"]
        if given not in tried or without not in tried:
            continue
        gains = [tried[given]["scores"][metric] - tried[without]["scores"][metric] for metric in SCORES[:3]]
        cells = " | ".join(f"{gain:+.3f}" for gain in gains)
        taken = tried[given]["processor_minutes"]
        minutes = f"{taken:.1f}" if taken >= 0.05 else ""  # what an earlier trial had fitted is not fitted again
        lines.append(f"| {dataset} | {found['rows']:,} | {title} | {cells} | {minutes} |")
    if not lines:
        return []
    return [
        "",
        "## Molecules and DNA: what was tried",
        "",
        "What each adds to the out-of-fold scores of the labelled rows",
        "([all trials](results.md#what-was-tried-where-a-target-is-missed)), and the minutes of the processor it",
        "took; the trials with gaps of 1 to 12 and with 5- to 8-mers are older, and the same fits took 2.6 times as",
        "long then. No test row was predicted with them. On yeast, words of three and three bases around gaps of 1 to",
        "12 gain about a point, for more than ten times the time of the base learners without them. A gap of 3 alone",
        "takes twice the time and gains less, not in every score. So `input.gaps` asks for such words, and the default",
        "is without them.",
        "",
        "| data | rows | what is added | ebF1 | miF1 | maF1 | minutes |",
        "|---|--:|---|--:|--:|--:|--:|",
        *lines,
    ]


def tabled(dataset: str, name: str) -> Path:
    """Where `lampnet reproduce` stores the same run; a path that does not exist where it has none."""
    return RESULTS / f"{dataset}--{TABLED.get(name, 'none')}--seed0.json"


def runs_of(dataset: str) -> dict[str, dict[str, Any]]:
    """The finished runs on a data set by the ablation's name, in the order of `ABLATIONS`."""
    paths = {name: (FOLDER / f"{dataset}--{name}.json", tabled(dataset, name)) for name in ABLATIONS}
    found = {name: next((path for path in both if path.exists()), None) for name, both in paths.items()}
    return {name: json.loads(path.read_text()) for name, path in found.items() if path is not None}


def page() -> str:
    """docs/ablations.md."""
    lines = [
        "# What each part is worth",
        "",
        "`benchmarks/ablations.py` writes this page from stored results. It has two halves: what each part of a",
        "network is worth, data set by data set, and what base learners and features add to the stack of the base",
        "learners: [boosted trees](#boosted-trees), [kernel regression](#kernel-regression),",
        "[pretrained text and the labels' names](#pretrained-text-and-the-labels-names), single choices compared",
        "out-of-fold ([stacking weights](#stacking-weights-per-label) and what follows), and what was",
        "[tried for molecules and DNA](#molecules-and-dna-what-was-tried). ebF1, miF1 and maF1 are example-based,",
        "micro- and macro-averaged F1, ACC is subset accuracy, maAUC the area under the ROC curve, averaged over",
        "labels.",
        "",
        "In the first half, each row is a single network of the default recipe with one part changed, or an ensemble",
        "of such networks, on the same labelled and test rows and with the same seed. The default is an ensemble of",
        "five; on Reuters, whose rows are serially correlated, it is a single network. **These rows are older than",
        "the stack as a model of its own**: networks twice as wide, without calibration, and kept in any case. What",
        "networks add today is in [results.md](results.md), `lamp` beside `stack`.",
        "",
        "Scores are those of the best decision rule for each metric, chosen on held-out rows. Choices were made by the",
        "scores on the held-out rows, which come first: the validation rows of a single network, all labelled rows of",
        "an ensemble, so the two are not comparable with each other. Differences below about half a point are within",
        "the noise of one seed. Minutes are wall-clock time on a shared machine. Scores over several seeds are in",
        "[results.md](results.md).",
    ]
    for dataset in sorted({path.name.partition("--")[0] for path in FOLDER.glob("*.json")}):
        lines += ["", f"## {dataset}", "", "| | held-out | | | test | | | | | |"]
        lines += ["|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
        heads = ["ebF1", "miF1", "maF1", "ebF1", "miF1", "maF1", "ACC", "maAUC", "minutes"]
        lines += ["| **what is different** | " + " | ".join(f"**{head}**" for head in heads) + " |"]
        for name, row in runs_of(dataset).items():
            own = [row["validation"]["best"][metric] for metric in SCORES[:3]]
            tested = [row["best"][metric] for metric in SCORES] + [row["ranking"]["roc_auc_macro"]]
            cells = " | ".join(f"{score:.3f}" for score in own + tested)
            lines.append(f"| {ABLATIONS[name][0]} | {cells} | {row['minutes']['fit']:.1f} |")
    stacks = [line for learner in ON_TRIAL for line in stack_section(learner)]
    return "\n".join([*lines, *stacks, *read_section(), *out_of_fold_sections(RESULTS), *tried_section()]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", default=os.environ.get("LAMPNET_DATA"))
    parser.add_argument("--dataset", default="bibtex")
    parser.add_argument("--only", action="append", choices=list(ABLATIONS))
    parser.add_argument("--base-learners", action="store_true")
    parser.add_argument("--page-only", action="store_true")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is out of date")
    options = parser.parse_args()
    if options.check:
        sys.exit(None if PAGE.read_text() == page() else "docs/ablations.md is out of date; run with --page-only")
    if not options.page_only:
        if options.data_root:
            os.environ["LAMPNET_DATA"] = options.data_root
        if options.base_learners:
            run_stacks()
        else:
            run_missing(options.dataset, options.only or list(ABLATIONS))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
