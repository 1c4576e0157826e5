"""What of the speed targets is reached, and what the profile and the machine leave room for.

>>> verdict([2.0, 2.2], wanted=2.1, bound=3.0)
'met in 1 of 2 runs'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pages import summary

#: (mode, width) -> times plain torch, utilisation; at Bibtex's shape
TARGETS = {
    ("train", 128): (2.6, 0.5),
    ("train", 256): (2.1, 0.68),
    ("train", 512): (1.6, 0.8),
    ("infer", 128): (1.5, None),
    ("infer", 256): (1.25, None),
    ("infer", 512): (1.15, None),
}
INT8_TARGET, INT8_FROM_WIDTH = 2.0, 256
#: length of the shortlist, the points of example-F1 that may be lost, and the speed-up that is wanted
SHORTLIST_TARGETS, MOST_LOST, LEAST_GAIN = {"bibtex": 40, "delicious": 200}, 0.3, 3.0
#: groups of the profile that no arrangement of a step can do without
NEEDED = ("products", "softmax", "layer norm")


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return summary.table(head, [[str(cell) for cell in row] for row in rows]) + "\n"


def verdict(reached: list[float], wanted: float, bound: float) -> str:
    good = sum(value >= wanted for value in reached)
    if good == len(reached):
        return "met"
    if good:
        return f"met in {good} of {len(reached)} runs"
    return "not met, above the measured bound" if wanted > bound else "not met"


def shown(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def target_section(runs: list[dict[str, Any]], profile: list[dict[str, Any]]) -> str:
    """All whole benches at Bibtex's shape."""
    rows = []
    for (mode, width), (wanted, share) in TARGETS.items():
        what = f"{'training' if mode == 'train' else 'exact inference'}, d={width}"
        lines = [bibtex_line(run, mode, width) for run in runs]
        reached, bound = [line["vs_torch"] for line in lines], max(line["vs_torch_bound"] for line in lines)
        kept = [line["vs_torch_kept_memory"] for line in lines if mode == "infer"]
        free = max(reached) / needed_share(profile, mode, width)
        cells = [wanted, shown(reached), shown(kept), f"{free:.2f}", f"{bound:.2f}"]
        rows.append([what, "x torch", *cells, verdict(reached, wanted, min(free, bound))])
        if share is not None:
            used = [line["utilisation"] for line in lines]
            rows.append([what, "utilisation", share, shown(used), "", "", "1", verdict(used, share, 1.0)])
        if mode == "infer" and width >= INT8_FROM_WIDTH:
            int8, bound = [line["int8_vs_torch"] for line in lines], max(line["int8_vs_torch_bound"] for line in lines)
            free = max(int8) / needed_share(profile, "int8", width)
            outcome = verdict(int8, INT8_TARGET, min(free, bound))
            cells = [INT8_TARGET, shown(int8), "", f"{free:.2f}", f"{bound:.2f}", outcome]
            rows.append([f"int8 inference, d={width}", "x torch", *cells])
    head = ["what", "measure", "wanted", "reached", "vs. torch that keeps memory", "all else free", "bound", ""]
    return table(head, rows)


def room_sentences(runs: list[dict[str, Any]], profile: list[dict[str, Any]]) -> str:
    """For each target that is missed, what it would leave for all that is neither product, softmax nor layer norm."""
    lines = []
    for (mode, width), (wanted, _) in TARGETS.items():
        best = max(bibtex_line(run, mode, width)["vs_torch"] for run in runs)
        if best < wanted:
            needed = needed_share(profile, mode, width)
            left = best / wanted - needed
            room = f"{left:.0%} of the time" if left > 0 else "nothing"
            lines.append(
                f"- {'training' if mode == 'train' else 'inference'}, d={width}: {wanted}x would leave {room} for all "
                f"that is neither product, softmax nor layer norm, which now takes {1 - needed:.0%}"
            )
    return "\n".join(lines)


def bibtex_line(run: dict[str, Any], mode: str, width: int) -> dict[str, Any]:
    found = (e for e in run["results"] if (e["shape"], e["mode"], e["width"]) == ("bibtex", mode, width))
    return next(found)


def needed_share(profile: list[dict[str, Any]], mode: str, width: int) -> float:
    """The share of the time that goes into products, softmax and layer norms."""
    (entry,) = (e for e in profile if (e["mode"], e["width"]) == (mode, width))
    share = sum(part for group, part in entry["shares"].items() if group.startswith(NEEDED))
    return float(share)


def kept_verdict(runs: list[dict[str, Any]]) -> str:
    """Which inference targets hold, in all runs, beside a plain network that keeps its memory."""
    held = [
        str(width)
        for (mode, width), (wanted, _) in TARGETS.items()
        if mode == "infer" and all(bibtex_line(run, mode, width)["vs_torch_kept_memory"] >= wanted for run in runs)
    ]
    return f"the inference targets are met at {' and '.join(held)} only" if held else "no inference target is met"


def shortlist_verdicts(found: dict[str, Any]) -> str:
    """For each data set, whether some way to use a shortlist is fast and accurate enough."""
    sentences = []
    for name, wanted in SHORTLIST_TARGETS.items():
        exact = found.get(name)
        if exact is None:
            sentences.append(f"- {name}, shortlist of {wanted}: not measured")
            continue
        ways = []
        for entry in (e for e in found.values() if e["data"] == name):
            lost = 100 * (exact["example_f1"]["exact"] - entry["example_f1"]["shortlist"])
            gain = entry["times_faster_than_exact"]["shortlist"]
            trained = entry["trained_with_shortlist"]
            how = f"trained with {trained} too" if trained else "trained with all labels"
            good = lost <= MOST_LOST and gain >= LEAST_GAIN and entry["shortlist"] == wanted
            ways.append((good, f"{how}: {gain:.1f}x, {-lost:+.2f} points"))
        met = "met" if any(good for good, _ in ways) else "not met"
        sentences.append(f"- {name}, shortlist of {wanted}: **{met}** ({'; '.join(way for _, way in ways)})")
    return "\n".join(sentences)
