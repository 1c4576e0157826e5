"""Write docs/reliability.md: the text beside this file, with the recorded figures and links to the tests.

    python benchmarks/reliability_page.py [--check]

`make reliability` runs the fault tests, which record docs/measurements/reliability.json, and then this script.
`--check` writes nothing and fails if the page differs from text and measurements.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "reliability.md"
TEXT = Path(__file__).with_name("reliability_text.md")
MISSING = "(not measured on this version)"
TEST = re.compile(r"\{test ([\w/]+\.py)::(\w+)\}")
FIGURE = re.compile(r"\{(\w+)\}")


def figures(folder: Path) -> dict[str, str]:
    """The figures of the text by name, as far as they were measured."""
    faults, stream = (_read(folder / f"{name}.json") for name in ("reliability", "streaming"))
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
    return found


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
