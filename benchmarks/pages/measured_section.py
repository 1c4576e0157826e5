"""A table on a page of docs/ that one script measures and writes between two marks.

The script's measurements are in a JSON file; `--check` fails where the page differs from them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class MeasuredSection:
    """What stands between the marks, as `table` makes it of the measurements.

    script    the name of the script in benchmarks/, and of its measurements
    page      the name of the page in docs/
    what      how the marks call the section
    """

    script: str
    page: str
    what: str
    table: Callable[[dict[str, Any]], str]

    @property
    def measurements(self) -> Path:
        return DOCS / "measurements" / f"{self.script}.json"

    def read(self) -> dict[str, Any]:
        """The measurements that there are."""
        text = self.measurements.read_text(encoding="utf-8") if self.measurements.exists() else "{}"
        found: dict[str, Any] = json.loads(text)
        return found

    def keep(self, measured: dict[str, Any]) -> None:
        """Write the measurements, so that a script that is stopped loses only the one that it was at."""
        self.measurements.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")

    def written(self, page: str) -> str:
        """The page with the section as the measurements say."""
        begin, end = f"<!-- {self.what}: written by benchmarks/{self.script}.py -->", f"<!-- end of {self.what} -->"
        before, begun, rest = page.partition(begin)
        _, ended, after = rest.partition(end)
        if not begun or not ended:
            raise SystemExit(f"docs/{self.page} has no place for the table; put the lines {begin} and {end} there")
        return f"{before}{begin}\n{self.table(self.read())}\n{end}{after}"

    def check(self) -> None:
        """Fail where the page is not as the measurements say."""
        text = (DOCS / self.page).read_text(encoding="utf-8")
        if self.written(text) != text:
            raise SystemExit(f"docs/{self.page} differs from the measurements; run: python benchmarks/{self.script}.py")

    def write(self) -> None:
        """Write the page anew."""
        path = DOCS / self.page
        path.write_text(self.written(path.read_text(encoding="utf-8")), encoding="utf-8")

    def run(self, arguments: list[str], measure: Callable[[str], Any]) -> None:
        """`--check`, or the names of data sets to measure before the page is written."""
        if arguments == ["--check"]:
            self.check()
            return
        measured = self.read()
        for name in arguments:
            measured[name] = measure(name)
            self.keep(measured)
        self.write()

    def run_by_seed(
        self, arguments: list[str], seeds: Iterable[int], measure: Callable[[str, int], list[dict[str, Any]]]
    ) -> None:
        """As `run`, with several seeds: runs that an earlier call has measured are not repeated.

        measure  a data set and a seed to its runs, each of which states its "seed"
        """
        if arguments == ["--check"]:
            self.check()
            return
        measured = self.read()
        for name in arguments:
            runs = measured.setdefault(name, [])
            for seed in seeds:
                if any(run["seed"] == seed for run in runs):
                    continue
                runs.extend(measure(name, seed))
                self.keep(measured)
                print(name, seed, flush=True)
        self.write()


def with_missing(lines: list[str], measured: Collection[str], planned: Iterable[str]) -> str:
    """The lines of a table, and which of the planned data sets it still lacks.

    >>> with_missing(["| data |"], {"scene"}, ["scene", "bibtex"])
    '| data |\\n\\nNot measured yet: bibtex.'
    """
    missing = [name for name in planned if name not in measured]
    if missing:
        lines = [*(lines if measured else []), "", f"Not measured yet: {', '.join(missing)}."]
    return "\n".join(lines)


def by_seed(differences: Sequence[float]) -> str:
    """The mean of a difference, and in brackets that of each seed.

    >>> by_seed([0.01, 0.02])
    '+0.015 (+0.010, +0.020)'
    """
    return f"{sum(differences) / len(differences):+.3f} ({', '.join(f'{one:+.3f}' for one in differences)})"
