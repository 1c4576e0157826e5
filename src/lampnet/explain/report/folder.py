"""Everything about a set of rows in one folder: both pages, the pictures and the data behind them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lampnet.data.dataset import Dataset
from lampnet.errors import DataError
from lampnet.explain.attention import predict_rows
from lampnet.explain.explain_rows import Shown, explain_predicted, label_numbers
from lampnet.explain.faithfulness import measure_predicted
from lampnet.explain.importance import importance_of
from lampnet.explain.report.page import report_page
from lampnet.explain.report.pictures import drawn_pictures
from lampnet.explain.report.whole_set import summarise_predicted
from lampnet.explain.report.whole_set_page import whole_set_page
from lampnet.inference.predictor import FittedModel
from lampnet.runtime.atomic_files import make_folders, remove_leftovers, replace_files
from lampnet.runtime.folder_lock import claimed

REPORT, TEST_SET, DATA, PICTURES = "report.html", "test_set.html", "explanations.json", "pictures"
#: Rows explained when none are named, and at most.
ROWS, MOST_PAGE_ROWS = 20, 50
#: Rows of the whole-set page; of a larger set a random part is shown, and the page states so.
MOST_SET_ROWS = 2000
#: Rows whose contributions are added up for that page, at random.
IMPORTANCE_ROWS = 200


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
    part: str = "test",
    log: Callable[[str], None] = lambda sentence: None,
) -> ReportFiles:
    """Explain rows, by default the first 20, and write everything about them; the folder is made where needed.

    Static pictures are drawn of the first `pictures` rows. `seed` is that of the random baseline of the checks,
    and of the rows drawn from a very large set. `part` is "train" or "valid" for rows of the training, and the page of
    the whole set says so.
    """
    if not len(data):
        raise DataError(f"{data.name}: there are no rows to explain; give at least one")
    wanted = np.arange(min(ROWS, len(data))) if rows is None else np.asarray(list(rows), dtype=np.int64)
    if len(wanted) > MOST_PAGE_ROWS:
        raise DataError(f"{len(wanted)} rows were asked for; a page holds at most {MOST_PAGE_ROWS}: name fewer rows")
    shown = Shown(labels=label_numbers(model.label_names, labels or ()))
    whole = np.arange(len(data))
    if len(data) > MOST_SET_ROWS:
        whole = np.sort(np.random.default_rng(seed).permutation(len(data))[:MOST_SET_ROWS])
    log(f"predicting {len(np.union1d(wanted, whole))} rows")
    predicted = predict_rows(model, data, np.union1d(wanted, whole))
    selected = predicted.where(wanted)
    out = Path(out)
    with claimed(out), _explained_faults(out):
        log(f"explaining {len(wanted)} rows")
        explanations = explain_predicted(predicted, selected, shown=shown)
        checks = None
        if model.network is not None:
            log("checking how far attention can be trusted")
            checks = measure_predicted(predicted, selected, seed=seed)
        report = report_page(explanations, faithfulness=checks, test_set_link=TEST_SET)
        behind = {"explanations": [e.to_json() for e in explanations], "faithfulness": checks and checks.to_json()}
        some = predicted.where(np.random.default_rng(seed).permutation(whole)[:IMPORTANCE_ROWS])
        log(f"adding up what matters in {len(some)} rows")
        matters = importance_of(predicted, np.sort(some))
        behind |= {"importance": matters.to_json()}
        log(f"summarising {len(whole)} rows for the page of the whole set")
        found = summarise_predicted(predicted, predicted.where(whole))
        explained = wanted.tolist()
        test_set = whole_set_page(
            found, explained=explained, report_link=REPORT, of=len(data), part=part, importance=matters
        )
        log(f"drawing the pictures of {min(pictures, len(explanations))} rows")
        drawn = {name: picture for e in explanations[:pictures] for name, picture in drawn_pictures(e).items()}
        if drawn:
            make_folders(out / PICTURES, [])
            remove_leftovers(out / PICTURES)
        texts = {DATA: json.dumps(behind, ensure_ascii=True) + "\n", TEST_SET: test_set, REPORT: report}
        contents = {out / PICTURES / name: (picture,) for name, picture in drawn.items()}
        replace_files(contents | {out / name: (text.encode(),) for name, text in texts.items()})
    return ReportFiles(report=out / REPORT, test_set=out / TEST_SET, data=out / DATA, pictures=[*contents])


@contextmanager
def _explained_faults(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise DataError(f"{out} cannot be written ({fault.strerror or fault}); give another folder") from None
