"""Write docs/reliability.md: the text beside this file, with the recorded figures and links to the tests.

    python benchmarks/reliability_page.py [--check]

`make reliability` runs the fault tests, which record docs/measurements/reliability.json, and then this script. With
each figure, the code that it was measured on is recorded; a table at the end of the page tells it.
`--check` writes nothing and fails if the page differs from text and measurements.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "reliability.md"
TEXT = Path(__file__).with_name("reliability_text.md")
MISSING = "(not measured on this version)"
TEST = re.compile(r"\{test ([\w/]+\.py)::(\w+)\}")
FIGURE = re.compile(r"\{(\w+)\}")
#: what was measured together, and how the names of its figures begin
MEASURED = {
    "one training, killed again and again": ("kills_survived",),
    "two processes of torchrun": ("torchrun_kills_survived",),
    "killed saves": ("saves_killed",),
    "signals sent to commands": ("signals_survived",),
    "commands without descriptors": ("descriptors_exhausted",),
    "commands whose folder is removed": ("folders_removed",),
    "predictions in twenty threads": ("concurrent_predictions",),
    "long service, default model": ("service[default]",),
    "long service, tiny model": ("service[tiny]",),
    "requests to a service": ("service[requests]",),
    "killed workers": ("service[killed workers]",),
    "streamed predictions": ("rows_streamed", "stream_peak_mb"),
    "streamed predictions of other formats": ("csv_", "parquet_", "arrow_", "libsvm_"),
    "damaged data files": ("data_files_fuzzed", "data_files_most_cpu_seconds", "data_files_peak_gb"),
    "data files with ten times the content": ("data_files_grown_tenfold",),
    "small files that stand for much": ("expanding_files_read_or_refused",),
    "damaged model folders": ("model_folders",),
    "damaged training folders": ("training_folders",),
    "damaged prepared folders": ("prepared_folders",),
    "coverage-guided fuzzing": ("guided_fuzzing",),
    "data larger than memory": ("streaming",),
}


def figures(folder: Path) -> dict[str, str]:
    """The figures of the text by name, as far as they were measured."""
    faults, stream, guided = (_read(folder / f"{name}.json") for name in ("reliability", "streaming", "guided_fuzzing"))
    found = {name: f"{value:,}" for name, value in faults.items() if isinstance(value, (int, float))}
    for name in ("signals_survived", "descriptors_exhausted", "folders_removed", "concurrent_predictions"):
        parts = [value for key, value in faults.items() if key.startswith(f"{name}[")]
        if parts:
            found[name] = f"{sum(parts):,}"
        if parts and name == "concurrent_predictions":
            found["concurrent_kinds"] = str(len(parts))
    for which in ("default", "tiny"):
        service = faults.get(f"service[{which}]")
        if service is not None:
            found[f"service_{which}"] = f"{service['predictions']:,}"
            found[f"service_{which}_grown"] = f"{max(0, service['grown_kb']):,} kB"
    if (load := faults.get("service[requests]")) is not None:
        found["load_requests"], found["load_part"] = f"{load['requests']:,}", f"{load['part']:,}"
        found["load_grown"] = f"{max(0, median(load['grown_kb'])):,.0f} kB"
        found["load_most_grown"] = f"{max(load['grown_kb']):,} kB"
    if (killed := faults.get("service[killed workers]")) is not None:
        found |= {"workers_killed": f"{killed['kills']:,}", "workers_answered": f"{killed['answered']:,}"}
        found["workers_lost"] = f"{killed['lost_with_their_worker']:,}"
    if stream:
        found["stream_rows"] = f"{stream['rows']:,}"
        found["prepare_peak_gb"], found["train_peak_gb"] = (f"{stream[s]['peak_gb']:.2f}" for s in ("prepare", "train"))
        found["speed_ratio"] = f"{stream['speed']['speed_ratio']:.2f}"
    if guided:
        each = guided["targets"].values()
        found["guided_inputs"] = f"{sum(target['inputs'] for target in each):,}"
        found["guided_kept"] = f"{sum(target['inputs_kept'] for target in each):,}"
        found["guided_seconds"] = f"{sum(target['processor_seconds'] for target in each):,}"
        found["guided_failures"] = str(sum(len(target["failures"]) for target in each))
    measured_on = {**faults.get("measured_on", {})}
    measured_on |= {"streaming": stream.get("measured_on"), "guided_fuzzing": guided.get("measured_on")}
    return found | {"measured_on": table({name: code for name, code in measured_on.items() if code})}


def measured_code() -> dict[str, str]:
    """The commit that figures are measured on, "and changes" where the code differs from it, and the day."""
    root = DOCS.parent
    commit = subprocess.run(["git", "describe", "--always"], cwd=root, capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src"], cwd=root, check=False).returncode
    day = datetime.now(UTC).date().isoformat()
    return {"commit": commit + (" and changes" if changed else ""), "day": day}


def table(measured_on: dict[str, dict[str, str]]) -> str:
    """A line for everything that was measured: the day, and the commit; of several, the oldest.

    >>> print(table({"saves_killed": {"day": "2026-11-18", "commit": "0a1b2c3"}}))
    | Measured | on | with the code of |
    |---|---|---|
    | killed saves | 2026-11-18 | `0a1b2c3` |
    """
    lines = ["| Measured | on | with the code of |", "|---|---|---|"]
    for what, beginnings in MEASURED.items():
        codes = [code for name, code in measured_on.items() if name.startswith(beginnings)]
        if codes:
            oldest = min(codes, key=lambda code: code["day"])
            commit, _, changes = oldest["commit"].partition(" ")
            lines.append(f"| {what} | {oldest['day']} | `{commit}`{' ' * bool(changes)}{changes} |")
    return "\n".join(lines)


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return content


def page(text: str, measured: dict[str, str]) -> str:
    """The text with figures and links in place.

    >>> page("Tried: {kills} times, {other}. {test faults/test_x.py::test_it_holds}", {"kills": "20"})
    'Tried: 20 times, (not measured on this version). [held by `test_it_holds`](../tests/faults/test_x.py)'
    """
    linked = TEST.sub(r"[held by `\2`](../tests/\1)", text)
    return FIGURE.sub(lambda found: measured.get(found[1], MISSING), linked)


def main() -> int:
    filled = page(TEXT.read_text(encoding="utf-8"), figures(DOCS / "measurements"))
    if "--check" in sys.argv[1:]:
        same = PAGE.read_text(encoding="utf-8") == filled
        print("docs/reliability.md " + ("states" if same else "does not state") + " the text and the recorded figures")
        return int(not same)
    PAGE.write_text(filled, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
