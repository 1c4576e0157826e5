"""Write the figures of docs/reliability.md from the measurements, so that no number is typed by hand.

    python benchmarks/reliability_page.py [--check]

`make reliability` runs the fault tests, which record docs/measurements/reliability.json, and then this script.
`--check` writes nothing and fails if the page differs from the measurements.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "reliability.md"
BLOCK = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def figures(folder: Path) -> dict[str, Any]:
    """The measurements that exist, by file name."""
    names = ("reliability", "streaming")
    return {
        name: json.loads((folder / f"{name}.json").read_text()) for name in names if (folder / f"{name}.json").exists()
    }


def table(measured: dict[str, Any]) -> str:
    """The figures as a Markdown table; missing measurements are marked."""
    faults, stream = measured.get("reliability", {}), measured.get("streaming", {})
    missing = "not measured on this version"

    def one(value: Any, form: str) -> str:
        return missing if value is None else form.format(value)

    train, prepare, speed = (stream.get(stage, {}) for stage in ("train", "prepare", "speed"))
    lines = {
        "kills (SIGKILL at random moments) survived by one run, with bit-identical weights": one(
            faults.get("kills_survived"), "{}"
        ),
        "damaged data files read or refused, without a crash": one(faults.get("data_files_fuzzed"), "{:,}"),
        "damaged model folders loaded or refused, without a crash": one(faults.get("model_folders_fuzzed"), "{:,}"),
        "rows streamed by one `lampnet predict`": one(faults.get("rows_streamed"), "{:,}"),
        "peak resident memory of that prediction": one(faults.get("stream_peak_mb"), "{:,} MB"),
        "memory-mapped documents prepared and trained on": one(stream.get("rows"), "{:,}"),
        "peak resident memory while preparing them": one(prepare.get("peak_gb"), "{:.2f} GB"),
        "peak resident memory while training on them": one(train.get("peak_gb"), "{:.2f} GB"),
        "training speed of mapped rows relative to rows in memory": one(speed.get("speed_ratio"), "{:.2f}"),
    }
    return "| what | figure |\n|---|---|\n" + "".join(f"| {what} | {figure} |\n" for what, figure in lines.items())


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    filled = BLOCK.sub(lambda found: found[1] + table(figures(DOCS / "measurements")) + found[2], page)
    if "--check" in sys.argv[1:]:
        print("docs/reliability.md " + ("states" if filled == page else "does not state") + " the recorded figures")
        return int(filled != page)
    PAGE.write_text(filled, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
