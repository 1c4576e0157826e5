"""The page of a whole test set, as one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lampnet.report.escaping import fill
from lampnet.report.whole_set import WholeSet, whole_set_data


def whole_set_page(found: WholeSet, explained: Sequence[int] = (), report_link: str | None = None) -> str:
    """The HTML: leanings against co-occurrence, what messages changed, scores, confusions, rows.

    Parameters
    ----------
    found : WholeSet
        From `lampnet.report.whole_set.summarise`.
    explained : sequence of int
        Rows that the report page explains; they get a link.
    report_link : str, optional
        File name of the report page.
    """
    data = whole_set_data(found, dict.fromkeys(explained, 1)) | {"report": report_link}
    return fill("test_set.html", data["title"], data, ("shared.js", "test_set.js"))


def write_whole_set(
    path: str | Path, found: WholeSet, explained: Sequence[int] = (), report_link: str | None = None
) -> Path:
    """Write the page to a file and return its path."""
    path = Path(path)
    path.write_text(whole_set_page(found, explained, report_link), encoding="utf-8")
    return path
