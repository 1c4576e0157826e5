"""One self-contained page of scores: the five metrics with intervals, calibration, labels and confused pairs.

It has no script. Everything that comes from the data is escaped, and the page's policy lets nothing load or run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from lampnet.errors import DataError
from lampnet.runtime.atomic_files import replace_files
from lampnet.runtime.folder_lock import claimed

PAGE = "report.html"
#: labels shown in the table; the rest are counted
MOST_LABELS = 1000
LONGEST_NAME = 200
STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--dim:#5c6675;--line:#dfe4ea;--back:#fff;--accent:#2458c5;--soft:#e8eefb}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--dim:#9aa5b4;--line:#333c48;--back:#14181e;--accent:#86abff;
--soft:#22304d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:0 auto;max-width:62rem;
padding:1.5rem 1.25rem 4rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.25rem 0 .4rem}p{max-width:46rem}.dim{color:var(--dim)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .8rem .3rem 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;color:var(--dim)}th:first-child,td:first-child,.text{text-align:left;overflow-wrap:anywhere}
.pair td:nth-child(2),.pair th:nth-child(2){text-align:left}
svg{max-width:100%;height:auto}svg text{fill:var(--dim);font:12px system-ui,sans-serif}.axis{stroke:var(--line)}
.ideal{stroke:var(--dim);stroke-dasharray:4 4}.seen{stroke:var(--accent);fill:none;stroke-width:2}
.dot{fill:var(--accent);fill-opacity:.75}.few{color:var(--dim)}
"""


def write_score_page(out: Path, title: str, scores: Mapping[str, Any], overwrite: bool = False) -> Path:
    """Write the page into a folder, whole or not at all."""
    path = out / PAGE
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is a file; give a folder for the report")
    with claimed(out):
        if path.exists() and not overwrite:
            raise DataError(f"{path} is there already; add --overwrite to replace it, or give another folder")
        try:
            replace_files({path: (score_page(title, scores).encode("utf-8", "replace"),)})
        except OSError as fault:
            raise DataError(f"{out} cannot be written ({fault.strerror or fault}); give another folder") from None
    return path


def score_page(title: str, scores: Mapping[str, Any]) -> str:
    """The HTML of `lampnet evaluate`'s scores."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    parts = [
        _metrics(scores),
        _calibration(scores["calibration"]),
        _labels(scores["by_label"], scores["label_sets"]),
        _pairs(scores["confused_pairs"]),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{_text(title)}</h1>\n"
        f'<p class="dim">{scores["rows"]:,} rows, {scores["labels"]:,} labels. {_warning(scores)}</p>\n'
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _warning(scores: Mapping[str, Any]) -> str:
    if scores["split"] == "test":
        return "Intervals hold 95% of the scores of resampled rows."
    return f"The model may have been trained on these {_text(scores['split'])} rows, so the scores are too good."


def _metrics(scores: Mapping[str, Any]) -> str:
    rows = []
    for metric, value in scores["best"].items():
        (low, high), rule = scores["intervals"]["best"][metric], scores["decisions"][metric]
        paper, at = scores["metrics"][metric], scores["thresholds"][metric]
        shown = [f"{value:.4f}", f"{low:.4f} to {high:.4f}", rule, f"{paper:.4f}", f"{at:g}"]
        rows.append([metric.replace("_", " "), *shown])
    ranking = ", ".join(
        f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores["ranking"].items() if isinstance(value, float)
    )
    head = ("metric", "score", "95% interval", "by the rule", "at the paper's threshold", "threshold")
    return f"<h2>Scores</h2>{_table(head, rows)}<p class='dim'>Without a decision rule: {_text(ranking)}.</p>"


def _calibration(found: Mapping[str, Any]) -> str:
    lead = (
        f"Expected error of the probabilities {found['ece']:.4f}; of those above .01 {found['ece_above_.01']:.4f}, "
        f"where {found['ece_by_chance']:.4f} would be chance alone. Brier score {found['brier']:.4f}. Each dot is the "
        "probabilities of one bin above .01, the larger the more (row, label) pairs; on the dashed line they are as "
        "often true as they say."
    )
    return f"<h2>Are the probabilities calibrated?</h2><p>{_text(lead)}</p>{reliability_picture(found)}"


def reliability_picture(found: Mapping[str, Any]) -> str:
    """An SVG: predicted probability across, share that is true upwards."""
    size, left, top = 320, 46, 12

    def place(p: float, true: float) -> tuple[float, float]:
        return round(left + size * p, 1), round(top + size * (1 - true), 1)

    most = max((one["pairs"] for one in found["bins"]), default=1)
    points = [place(one["mean_p"], one["true"]) for one in found["bins"]]
    line = " ".join(f"{x},{y}" for x, y in points)
    dots = "".join(
        f'<circle class="dot" cx="{x}" cy="{y}" r="{2.5 + 6.5 * (one["pairs"] / most) ** 0.5:.1f}">'
        f"<title>{one['pairs']:,} pairs: mean probability {one['mean_p']:.3f}, true {one['true']:.3f}</title></circle>"
        for (x, y), one in zip(points, found["bins"], strict=True)
    )
    ticks = []
    for step in range(6):
        x, y = place(step / 5, step / 5)
        ticks.append(
            f'<line class="axis" x1="{left}" y1="{y}" x2="{left + size}" y2="{y}"/>'
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{step / 5:.1f}</text>'
            f'<text x="{x}" y="{top + size + 18}" text-anchor="middle">{step / 5:.1f}</text>'
        )
    (x0, y0), (x1, y1) = place(0, 0), place(1, 1)
    middle = top + size / 2
    return (
        f'<svg viewBox="0 0 {left + size + 16} {top + size + 44}" width="{left + size + 16}" role="img" '
        f'aria-label="Reliability: share true by predicted probability">{"".join(ticks)}'
        f'<line class="ideal" x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}"/><polyline class="seen" points="{line}"/>{dots}'
        f'<text x="{left + size / 2}" y="{top + size + 38}" text-anchor="middle">predicted probability</text>'
        f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">share true</text></svg>'
    )


def _labels(labels: Sequence[Mapping[str, Any]], label_sets: str) -> str:
    shown = sorted(labels, key=lambda one: -one["support"])[:MOST_LABELS]
    rows, few = [], []
    for one in shown:
        values = (one[name] for name in ("precision", "recall", "f1", "auc"))
        cells = ["–" if value is None else f"{value:.3f}" for value in values]
        rows.append([one["label"], f"{one['support']:,}", f"{one['predicted']:,}", *cells])
        few.append(one["few"])
    more = f" The other {len(labels) - len(shown):,} labels have fewer rows." if len(labels) > len(shown) else ""
    pale = " Pale rows have fewer than ten true rows: too few to say much." if any(few) else ""
    note = f"Label sets by {label_sets}.{pale}{more}"
    head = ("label", "true rows", "predicted", "precision", "recall", "F1", "AUC")
    return f"<h2>Label by label</h2><p class='dim'>{_text(note)}</p>{_table(head, rows, few)}"


def _pairs(pairs: Sequence[Mapping[str, Any]]) -> str:
    if not pairs:
        return "<h2>Taken for each other</h2><p>No row missed one label and was given another instead.</p>"
    rows = [[one["missed"], one["given"], f"{one['rows']:,}", f"{one['share_of_missed']:.0%}"] for one in pairs]
    head = ("missed", "given instead", "rows", "of the rows that missed it")
    return f'<h2>Taken for each other</h2><div class="pair">{_table(head, rows)}</div>'


def _table(head: Iterable[str], rows: Iterable[Sequence[str]], few: Sequence[bool] = ()) -> str:
    heads = "".join(f'<th scope="col">{_text(name)}</th>' for name in head)
    lines = []
    for number, row in enumerate(rows):
        pale = ' class="few"' if number < len(few) and few[number] else ""
        lines.append(f"<tr{pale}>" + "".join(f'<td dir="auto">{_text(cell)}</td>' for cell in row) + "</tr>")
    body = "\n".join(lines)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _text(value: str) -> str:
    cut = value if len(value) <= LONGEST_NAME or " " in value else value[:LONGEST_NAME] + "…"
    return escape(cut)
