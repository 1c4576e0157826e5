"""The table of scores in README.md and the sentence on the reproduction, from the files in results/.

    python benchmarks/readme_scores.py [--check]

Replaces everything between the marks; with --check it writes nothing and fails where something is out of date.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from lampnet.experiments.paper_networks import FOLDER
from lampnet.experiments.reproduce import SEEDS
from lampnet.experiments.result_files import read_results
from pages.reproduction import Networks, finding
from pages.results import dataset_title
from pages.summary import Summary, table
from pages.targets import best_baseline

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
SCORES = "<!-- scores: written by benchmarks/readme_scores.py -->", "<!-- end of scores -->"
FOUND = "<!-- found: written by benchmarks/readme_scores.py -->", "<!-- end of found -->"
F1 = {"example_f1": "example-F1", "micro_f1": "micro-F1", "macro_f1": "macro-F1"}


def scores_table(summary: Summary) -> str:
    """One line per data set: LaMP's score, in bold where it is the highest, beside the best baseline and the stack."""
    rows = []
    for dataset in (name for name in SEEDS if summary.runs(name, "lamp")):
        data, minutes = summary.runs(dataset, "lamp")[0]["data"], summary.minutes(dataset, "lamp")
        assert minutes is not None
        cells = [_beside(summary, dataset, score) for score in F1]
        stack = [summary.score(dataset, "stack", score) for score in F1]
        alone = " / ".join("–" if cell is None else f"{cell.mean:.3f}" for cell in stack) if any(stack) else "–"
        rows.append([dataset_title(dataset), f"{data['labels']}", *cells, f"{minutes.mean:.1f}", alone])
    return table(["data", "labels", *F1.values(), "minutes", "the stack alone"], rows)


def _beside(summary: Summary, dataset: str, score: str) -> str:
    own, rival = summary.score(dataset, "lamp", score), best_baseline(summary, dataset, score)
    assert own is not None
    if rival is None:
        return f"{own.mean:.3f}"
    name, best = rival
    shown, other = f"{own.mean:.3f}", f"{best.mean:.3f}"
    mark = "**" if shown > other else ""  # as a reader sees them: level is not ahead
    return f"{mark}{shown}{mark} ({name} {other})"


def with_part(page: str, marks: tuple[str, str], written: str) -> str:
    """The page with everything between the marks replaced."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        sys.exit(f"README.md lacks the lines {marks[0]} and {marks[1]}; put them where the part belongs")
    return f"{before}{begin}\n{written}\n{end}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    page = README.read_text(encoding="utf-8")
    summary, networks = Summary(read_results(ROOT / "results")), Networks(read_results(ROOT / "results" / FOLDER))
    wanted = with_part(page, SCORES, scores_table(summary))
    wanted = with_part(wanted, FOUND, textwrap.fill(finding(networks, summary), 130))
    if given.check and page != wanted:
        sys.exit("README.md and results/ disagree; run benchmarks/readme_scores.py")
    if not given.check:
        README.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
