"""Everything about a set of rows in one folder: both pages, the pictures and the data behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError
from lampnet.explain.explanation import checked_rows, explain
from lampnet.explain.faithfulness import measure
from lampnet.explain.report.page import write_report
from lampnet.explain.report.pictures import write_pictures
from lampnet.explain.report.whole_set import summarise
from lampnet.explain.report.whole_set_page import write_whole_set
from lampnet.inference.predictor import FittedModel

REPORT, TEST_SET, DATA, PICTURES = "report.html", "test_set.html", "explanations.json", "pictures"
#: Rows explained when none are named; a page holds fifty easily.
ROWS, MOST_PAGE_ROWS = 20, 50
#: Rows of the whole-set page; more are drawn from, with a seed, and the page says so.
MOST_SET_ROWS = 2000


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """What was written."""

    report: Path
    test_set: Path
    data: Path
    pictures: list[Path]


def write_folder(
    model: FittedModel,
    data: Dataset,
    out: str | Path,
    rows: Sequence[int] | None = None,
    labels: Sequence[str] | None = None,
    *,
    pictures: int = 1,
    seed: int = 0,
    log: Callable[[str], None] = lambda sentence: None,
) -> ReportFiles:
    """Explain rows and write everything about them.

    Parameters
    ----------
    model, data, rows, labels
        As for `lampnet.explain.explanation.explain`; by default the first 20 rows.
    out : path
        A folder; made where it does not exist.
    pictures : int
        For how many of the rows to draw the static pictures.
    seed : int
        Of the honesty checks' random baseline, and of the rows drawn from a very large set.
    """
    data = model.check(data)
    if not len(data):
        raise DataError(f"{data.name}: there are no rows to explain; give at least one")
    index = checked_rows(data, range(min(ROWS, len(data))) if rows is None else rows)
    if len(index) > MOST_PAGE_ROWS:
        raise DataError(f"{len(index)} rows were asked for; a page holds at most {MOST_PAGE_ROWS}: name fewer rows")
    out = Path(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        log(f"explaining {len(index)} rows")
        explanations = explain(model, data, index.tolist(), labels)
        log("checking how far attention can be trusted")
        checks = measure(model, data, index.tolist(), seed=seed)
        report = write_report(out / REPORT, explanations, faithfulness=checks, test_set_link=TEST_SET)
        written = out / DATA
        told = {"explanations": [e.to_json() for e in explanations], "faithfulness": checks.to_json()}
        written.write_text(json.dumps(told, ensure_ascii=True) + "\n", encoding="utf-8")
        chosen = np.arange(len(data))
        if len(data) > MOST_SET_ROWS:
            chosen = np.sort(np.random.default_rng(seed).permutation(len(data))[:MOST_SET_ROWS])
        log(f"going through {len(chosen)} rows for the whole set's page")
        found = summarise(model, data.take(chosen))
        test_set = write_whole_set(
            out / TEST_SET,
            found,
            explained=index.tolist(),
            report_link=REPORT,
            numbers=chosen.tolist(),
            of=len(data),
        )
        log(f"drawing the pictures of {min(pictures, len(explanations))} rows")
        drawn = [path for e in explanations[:pictures] for path in write_pictures(e, out / PICTURES)]
    except OSError as fault:
        raise DataError(f"{out} cannot be written ({fault.strerror or fault}); give another folder") from None
    return ReportFiles(report=report, test_set=test_set, data=written, pictures=drawn)
