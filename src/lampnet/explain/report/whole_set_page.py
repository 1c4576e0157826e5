"""The page of a whole test set, as one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lampnet.explain.importance import Importance
from lampnet.explain.report.escaping import fill
from lampnet.explain.report.whole_set import WholeSet, whole_set_data


def whole_set_page(
    found: WholeSet,
    explained: Sequence[int] = (),
    report_link: str | None = None,
    of: int | None = None,
    part: str = "test",
    importance: Importance | None = None,
) -> str:
    """The HTML: attention against co-occurrence, what messages changed, scores, confusions, rows.

    The rows `explained` get a link to the report page, `report_link`; `of` is how many rows the set has, where
    only some of them were summarised; `part` says whether the model was trained on them ("train", "valid");
    `importance` is that of some of these rows.
    """
    data = whole_set_data(found, part)
    data |= {"importance": None if importance is None else importance_data(importance)}
    data |= {"report": report_link, "explained": list(explained), "of": of if of is not None else len(found.ids)}
    return fill("test_set.html", data["title"], data, ("shared.js", "test_set.js"))


def importance_data(importance: Importance) -> dict[str, Any]:
    """What the page shows of it, names cut to what can be read."""
    found = importance.to_json()
    for listed in (found["features"], *found["by_label"].values()):
        for feature in listed:
            feature["name"], feature["part"] = feature["name"][:120], feature["part"][:60]
    by_label = [[label[:200], listed] for label, listed in found["by_label"].items()]
    parts = [{"part": part["part"][:120], "mean": part["mean"]} for part in found["parts"]]
    return {"rows": found["rows"], "parts": parts, "features": found["features"], "byLabel": by_label}
