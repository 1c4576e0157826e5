"""How many clicks complete a row's labels, from a list of ten that is static and from one that follows what is known.

    python benchmarks/suggestions.py emotions mediamill     # measure, then write docs/known-labels.md
    python benchmarks/suggestions.py                        # write the page again from the measurements
    python benchmarks/suggestions.py --time delicious MODEL # only take the time again, of a model that was saved
    python benchmarks/suggestions.py --check                # fail where the page differs from the measurements

A person sees ten labels and accepts a true one with a click, until the row has all of its labels. Where none of the
ten is true, another click brings the next ten. The static list is ranked by the input once; ours is ranked again after
every click, by the input, the labels accepted and the labels passed over. The least possible is one click per label.
Also measured: the processor time of one call of `suggest` on one thread, with three true labels known.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import FALSE, TRUE, UNKNOWN, nothing_known
from lampnet.inference.conditional import Conditional
from lampnet.inference.predictor import FittedModel
from pages.measured_section import MeasuredSection, with_missing

#: data sets that the table is to have; the page names those that are not measured yet
PLANNED = ("bibtex", "corel5k", "delicious", "mediamill")
SHOWN, MOST_ROWS, TIMED = 10, 200, 50


def static_clicks(Y_nL: np.ndarray, scores_nL: np.ndarray) -> np.ndarray:
    """Clicks of each row, int (n,), with a list that keeps its order: the labels, and the pages turned.

    >>> static_clicks(np.array([[1] + [0] * 19 + [1]]), -np.arange(21.0)[None]).tolist()
    [4]
    """
    rank = np.argsort(np.argsort(-scores_nL, axis=1, kind="stable"), axis=1)
    last = np.where(Y_nL == 1, rank, 0).max(axis=1)
    return (Y_nL == 1).sum(axis=1) + last // SHOWN


def guided_clicks(Y_nL: np.ndarray, logits_nL: np.ndarray, conditional: Conditional) -> np.ndarray:
    """Clicks of each row, int (n,), with a list that is ranked again after every click."""
    states = nothing_known(*Y_nL.shape)
    clicks = np.zeros(len(Y_nL), dtype=np.int64)
    while (rows := np.flatnonzero(((Y_nL == 1) & (states == UNKNOWN)).any(axis=1))).size:
        ranked = conditional.logits(logits_nL[rows], states[rows])
        ranked = np.where(states[rows] == UNKNOWN, ranked, -np.inf)
        shown = np.argsort(-ranked, axis=1, kind="stable")[:, :SHOWN]
        open_labels = np.take_along_axis(states[rows], shown, axis=1) == UNKNOWN
        true = (np.take_along_axis(Y_nL[rows], shown, axis=1) == 1) & open_labels
        for row, labels, right, still in zip(rows, shown, true, open_labels, strict=True):
            if right.any():
                states[row, labels[np.argmax(right)]] = TRUE
            else:
                states[row, labels[still]] = FALSE
        clicks[rows] += 1
    return clicks


def measure(name: str) -> dict[str, Any]:
    from lampnet.config import Config
    from lampnet.experiments.material import open_material
    from lampnet.pipeline.fit import fit

    material = open_material(name)
    model = fit(material.labelled, Config.preset("quick").updated({"training.threads": 1}))
    test = tagged_rows(material.part("test"))
    Y, logits = np.nan_to_num(test.indicator()), model.logits(test.rows, test.row_edges)
    static, guided = static_clicks(Y, logits), guided_clicks(Y, logits, model.given_known())
    difference = static - guided
    return {
        "rows": len(test),
        "labels": Y.shape[1],
        "least": float(Y.sum(axis=1).mean()),
        "static": float(static.mean()),
        "guided": float(guided.mean()),
        "saved": float(difference.mean()),
        "saved_error": float(difference.std(ddof=1) / np.sqrt(len(difference))),
        "suggest_ms": suggest_ms(model, test),
    }


def tagged_rows(test: Dataset) -> Dataset:
    """Rows with at least two labels, the same ones every time."""
    enough = np.flatnonzero(np.nansum(test.indicator(), axis=1) >= 2)
    return test.take(np.sort(np.random.default_rng(0).permutation(enough)[:MOST_ROWS]))


def suggest_ms(model: FittedModel, test: Dataset) -> float:
    """The median time of one call of `suggest` with three true labels known."""
    from lampnet.explain.input_parts import input_parts
    from lampnet.inference.labelling import suggest

    conditional, priors = model.given_known(), model.label_priors
    assert priors is not None
    Y = np.nan_to_num(test.indicator())
    states = nothing_known(*Y.shape)
    for row in range(len(Y)):
        states[row, np.flatnonzero(Y[row])[:3]] = TRUE
    seconds = []
    for row in range(min(TIMED, len(test))):
        one = test.take(np.array([row]))
        began = time.process_time()
        encoded = model.encoder.encode(one.rows, one.row_edges)
        found = suggest(conditional, model.logits_of(model.views(encoded))[0], states[row], priors, SHOWN)
        input_parts(model, encoded, 0, np.array([each.label for each in found]))
        seconds.append(time.process_time() - began)
    return 1000 * float(np.median(seconds))


def time_again(name: str, folder: str) -> None:
    """Take the time of a saved model on this machine, on one thread."""
    import torch

    from lampnet.experiments.material import open_material
    from lampnet.persistence.model_folder import load_model

    torch.set_num_threads(1)
    measured = SECTION.read()
    measured[name]["suggest_ms"] = suggest_ms(load_model(folder), tagged_rows(open_material(name).part("test")))
    SECTION.keep(measured)
    SECTION.write()


def table(measured: dict[str, Any]) -> str:
    """Markdown; the error is the standard error over rows."""
    lines = [
        "| data | test rows | labels | labels of a row | clicks, static list | clicks, ours | saved | `suggest`, ms |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, one in sorted(measured.items()):
        clicks = f"{one['least']:.1f} | {one['static']:.1f} | {one['guided']:.1f}"
        saved = f"{one['saved']:.2f} ± {one['saved_error']:.2f}"
        lines.append(f"| {name} | {one['rows']} | {one['labels']} | {clicks} | {saved} | {one['suggest_ms']:.0f} |")
    return with_missing(lines, measured, PLANNED)


SECTION = MeasuredSection("suggestions", "known-labels.md", "suggestions", table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--time"]:
        time_again(*sys.argv[2:])
    else:
        SECTION.run(sys.argv[1:], measure)
