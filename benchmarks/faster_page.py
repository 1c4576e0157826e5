"""Writes docs/faster.md from whole_fits.json, many_rows.json and results/: `python benchmarks/faster_page.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.other_programs import QUIET

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parents[1] / "results"
MEASURED = DOCS / "measurements" / "whole_fits.json"
MANY_ROWS = DOCS / "measurements" / "many_rows.json"
#: how many rows are wanted, and in how long
WANTED_ROWS, WANTED = 1_000_000, "an hour on two cores"
WANTED_ROW_MS = 3
TITLES = {
    "synthetic": "300 rows x 40 numbers x 7 labels",
    "reuters500": "500 Reuters texts x 10 labels",
    "emotions": "Emotions",
    "scene": "Scene",
    "reuters21578": "Reuters-21578",
    "bibtex": "Bibtex",
    "delicious": "Delicious",
}
#: five networks of twice the width beside the default
MODELS = {"five networks, always kept": "ablations/{}--five-folds", "default": "{}--lamp--seed0"}
COMPARED = ("bibtex", "delicious", "emotions", "scene")
F1 = ("example_f1", "micro_f1", "macro_f1")
#: how far a score may fall
ALLOWED = 0.002
TEXT = Path(__file__).with_name("faster_text.md")


def table(measured: dict[str, Any]) -> str:
    """One row per case: seconds of each system, what is wanted, ratios and scores."""
    head = "| data | logistic | quick (wanted) | x logistic | fast (wanted) | x logistic |"
    head += " logistic F1 | quick F1 | fast F1 |"
    lines = [head + "\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, title in TITLES.items():
        if name not in measured:
            continue
        own = measured[name]
        cells = [title, _seconds(own["logistic"])]
        for system in ("quick", "fast"):
            wanted = own["wanted"][f"{system}_seconds"]
            cells += [_seconds(own[system]) + ("" if wanted is None else f" ({wanted:g})")]
            cells += [f"{own[system]['times_logistic']:.1f}"]
        cells += [_scores(own[system]) for system in ("logistic", "quick", "fast")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def prediction_table(measured: dict[str, Any]) -> str:
    """One row per case: test rows per second, and the time of one row."""
    lines = ["| data | quick, rows/s | fast, rows/s (wanted) | quick, one row | fast, one row |\n|---|--:|--:|--:|--:|"]
    for name, title in TITLES.items():
        if name not in measured:
            continue
        own, wanted = measured[name], measured[name]["wanted"]["rows_per_second"]
        rates = [f"{own[system]['rows_per_second']:,.0f}" for system in ("quick", "fast")]
        rates[1] += "" if wanted is None else f" ({wanted:g})"
        lines.append(f"| {title} | " + " | ".join(rates + [_one_row(own[s]) for s in ("quick", "fast")]) + " |")
    return "\n".join(lines)


def missed(measured: dict[str, Any]) -> str:
    """One sentence that names every wanted figure that the measured one misses."""
    found = []
    for name, title in TITLES.items():
        own = measured.get(name)
        if own is None:
            continue
        for system in ("quick", "fast"):
            wanted, seconds = own["wanted"][f"{system}_seconds"], own[system]["seconds"]
            if wanted is not None and seconds > wanted:
                found.append(f"{title}, `{system}`: {seconds:.1f} s instead of {wanted:g}")
            if own[system]["one_row_ms"] > WANTED_ROW_MS:
                found.append(f"{title}, `{system}`: {own[system]['one_row_ms']:.1f} ms for one row")
        wanted = own["wanted"]["rows_per_second"]
        if wanted is not None and own["fast"]["rows_per_second"] < wanted:
            found.append(f"{title}: {own['fast']['rows_per_second']:.0f} predicted rows/s instead of {wanted:g}")
    return "Missed: " + ";\n".join(found) + "." if found else "Every one of these targets is met."


def beside_others(measured: dict[str, Any]) -> str:
    """Which cases were measured while other programs used the machine; nothing where that was not counted."""
    used = {title: own["others"] for name, title in TITLES.items() if "others" in (own := measured[name])}
    busy = [f"{title} ({cores:.1f})" for title, cores in used.items() if cores >= QUIET]
    if busy:
        return (
            "While these were measured, other programs used the cores in brackets, so that they take longer than "
            f"alone: {', '.join(busy)}."
        )
    return "Nothing else used the machine." if len(used) == len(TITLES) else ""


def fallen() -> str:
    """Where the default scores lower than five networks that always count, by more than is allowed."""
    found = []
    for where in ("out-of-fold", "on test rows"):
        cases = []
        for name in COMPARED:
            always, now = (stored_scores(path.format(name))[where == "on test rows"] for path in MODELS.values())
            lost = [f"{m.replace('_f1', '-F1')} {now[m] - always[m]:+.3f}" for m in F1 if now[m] < always[m] - ALLOWED]
            if lost:
                cases.append(f"{TITLES[name]} ({', '.join(lost)})")
        found.append(f"{where}: {'; '.join(cases) or 'nowhere'}")
    where = ";\n".join(found)
    return f"No score was to fall by more than {ALLOWED}. For this seed it does, {where}."


def _seconds(run: dict[str, Any]) -> str:
    """By the clock / of the processor."""
    return f"{run['seconds']:.1f} / {run['cpu_seconds']:.1f}"


def _one_row(run: dict[str, Any]) -> str:
    return f"{run['one_row_ms']:.1f} ms" + (", network" if run["network_weight"] else "")


def _scores(run: dict[str, Any]) -> str:
    return " / ".join(f"{run[metric]:.3f}" for metric in F1)


def stored_scores(name: str) -> tuple[dict[str, float], dict[str, float]]:
    """Out-of-fold and test scores of a stored result, each at its best decision."""
    stored = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return stored["validation"]["best"], stored["best"]


def networks_table() -> str:
    """Five networks that always count, of the first version, beside the default now: out-of-fold and test F1."""
    lines = ["| data | model | out-of-fold F1 | test F1 |\n|---|---|--:|--:|"]
    for name in COMPARED:
        for title, path in MODELS.items():
            held_out, test = map(_scores, stored_scores(path.format(name)))
            lines.append(f"| {TITLES[name]} | {title} | {held_out} | {test} |")
    return "\n".join(lines)


def many_rows_table(measured: dict[str, Any]) -> str:
    """One line per number of rows that was measured to the end."""
    head = "| rows | prepare, s | train, s | peak memory, GB | predicted rows/s | F1 of new rows |"
    lines = [head + "\n|--:|--:|--:|--:|--:|--:|"]
    for rows, own in sorted(measured.items(), key=lambda item: int(item[0])):
        if "predict" in own:
            peak = max(own[stage]["peak_gb"] for stage in ("prepare", "train"))
            scores = " / ".join(f"{score:.3f}" for score in own["predict"]["test_scores"].values())
            times = [f"{own[stage]['seconds']:.0f} ({own[stage]['cpu_seconds']:.0f})" for stage in ("prepare", "train")]
            cells = [f"{int(rows):,}", *times, f"{peak:.1f}", f"{own['predict']['rows_per_second']:,}", scores]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def not_measured(measured: dict[str, Any]) -> str:
    """What is wanted and not in the file."""
    own = measured.get(str(WANTED_ROWS), {})
    if "predict" in own:
        minutes = sum(own[stage]["seconds"] for stage in ("prepare", "train")) / 60
        return f"Wanted are {WANTED_ROWS:,} rows in {WANTED} and 8 GB; it took {minutes:.0f} minutes."
    return f"Wanted are {WANTED_ROWS:,} rows in {WANTED}; this was not measured to the end yet."


def page() -> str:
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    many = json.loads(MANY_ROWS.read_text(encoding="utf-8"))
    return TEXT.read_text(encoding="utf-8").format(
        table=table(measured),
        prediction=prediction_table(measured),
        targets=f"{missed(measured)} {beside_others(measured)}".strip(),
        networks=networks_table(),
        fallen=fallen(),
        many_rows=many_rows_table(many),
        not_measured=not_measured(many),
    )


if __name__ == "__main__":
    (DOCS / "faster.md").write_text(page(), encoding="utf-8")
