"""The page of a whole test set, as one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lampnet.explain.report.escaping import fill
from lampnet.explain.report.whole_set import WholeSet, whole_set_data
from lampnet.runtime.atomic_files import replace_files


def whole_set_page(
    found: WholeSet,
    explained: Sequence[int] = (),
    report_link: str | None = None,
    of: int | None = None,
    part: str = "test",
) -> str:
    """The HTML: attention against co-occurrence, what messages changed, scores, confusions, rows.

    The rows `explained` get a link to the report page, `report_link`; `of` is how many rows the set has, where
    only some of them were summarised; `part` says whether the model was trained on them ("train", "valid").
    """
    data = whole_set_data(found, part)
    data |= {"report": report_link, "explained": list(explained), "of": of if of is not None else len(found.ids)}
    return fill("test_set.html", data["title"], data, ("shared.js", "test_set.js"))


def write_whole_set(path: str | Path, found: WholeSet, **options: Any) -> Path:
    """Write the page to a file, whole or not at all, and return its path."""
    path = Path(path)
    replace_files({path: (whole_set_page(found, **options).encode(),)})
    return path
