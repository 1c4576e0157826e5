"""Scores of false labels that were tried for audits, on a draw of the noise that docs/known-labels.md does not report.

python benchmarks/audit_trials.py corel5k mediamill bibtex   # measure, then write docs/known-labels.md
python benchmarks/audit_trials.py                            # write the page again from the measurements
python benchmarks/audit_trials.py --check                    # fail where the page differs from the measurements
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
from scipy import sparse

from audits import NOISE, labelled_rows, precision, spoiled
from pages.measured_section import MeasuredSection

#: of the noise
SEED = 100
TITLES = {"input": "input alone", "today": "input and other labels, today", "either": "whichever doubts more"}


def measure(name: str) -> dict[str, dict[str, float]]:
    """By kind of noise, the average precision of finding the added labels."""
    from lampnet.config import Config
    from lampnet.pipeline.given_others import cross_fit_given_others

    data, config = labelled_rows(name), Config.preset("quick").updated({"training.threads": 1})
    found = {}
    for noise in NOISE:
        given = spoiled(data, noise, SEED)
        fitted = cross_fit_given_others(replace(data, labels=sparse.csr_matrix(given)), config)
        found[noise] = scores(data.indicator(), given, fitted.logits_nL, fitted.log_odds_nL)
    return found


def scores(Y: np.ndarray, given: np.ndarray, logits: np.ndarray, log_odds: np.ndarray) -> dict[str, float]:
    """Of each way to doubt a given label, by its log-odds."""
    tried = {"input": logits, "today": log_odds, "either": np.minimum(logits, log_odds)}
    return {trial: precision(Y, given, -z)["added"] for trial, z in tried.items()}


def table(measured: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = ["| data | noise | " + " | ".join(TITLES.values()) + " |", "|---|---|" + "--:|" * len(TITLES)]
    for name, by_noise in sorted(measured.items()):
        for noise, found in by_noise.items():
            lines.append(f"| {name} | {noise} | " + " | ".join(f"{found[trial]:.3f}" for trial in TITLES) + " |")
    return "\n".join(lines)


SECTION = MeasuredSection("audit_trials", "known-labels.md", "audit trials", table)


if __name__ == "__main__":
    SECTION.run(sys.argv[1:], measure)
