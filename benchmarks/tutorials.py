"""Run the code of the tutorials and write its output into them: `python benchmarks/tutorials.py [PAGE ...]`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from pages.tutorials import DOCS, PAGES, run, with_outputs


def main() -> None:
    asked = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for page in asked:
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(DOCS.parent / "examples")
            text = page.read_text(encoding="utf-8")
            page.write_text(with_outputs(text, run(page, Path(folder))), encoding="utf-8")
        print(f"{page.relative_to(DOCS)}: {time.process_time() - began:.1f} s of processor time")


if __name__ == "__main__":
    main()
