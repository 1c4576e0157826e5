"""Results by data set and system, averaged over seeds, and the tables that show them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lampnet.experiments.compare import score_of


@dataclass(frozen=True)
class Cell:
    """A score over seeds: mean, standard deviation (None for a single seed) and how many."""

    mean: float
    spread: float | None
    seeds: int

    def __str__(self) -> str:
        """For a table.

        >>> str(Cell(0.4567, 0.0042, 3)), str(Cell(0.5, None, 1))
        ('0.457 ± 0.004', '0.500')
        """
        return f"{self.mean:.3f}" if self.spread is None else f"{self.mean:.3f} ± {self.spread:.3f}"


def cell(values: Iterable[float | None]) -> Cell | None:
    """Mean and spread of what is there; None where nothing is.

    >>> cell([0.4, None, 0.6])
    Cell(mean=0.5, spread=0.1414..., seeds=2)
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Cell(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


class Summary:
    """Results by data set and system."""

    def __init__(self, results: Iterable[Mapping[str, Any]]) -> None:
        self.rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for result in results:
            self.rows.setdefault((result["dataset"], result["system"]), []).append(result)

    def datasets(self) -> list[str]:
        """The data sets that have any result."""
        return list(dict.fromkeys(dataset for dataset, _ in self.rows))

    def has(self, dataset: str, system: str) -> bool:
        return (dataset, system) in self.rows

    def runs(self, dataset: str, system: str) -> list[Mapping[str, Any]]:
        """The finished results of a row."""
        return [row for row in self.rows.get((dataset, system), []) if row["finished"]]

    def unfinished(self, dataset: str, system: str) -> str | None:
        """The status of a row without a finished result: "did not finish in 60 minutes"."""
        rows = self.rows.get((dataset, system), [])
        return str(rows[0]["status"]) if rows and not self.runs(dataset, system) else None

    def score(self, dataset: str, system: str, name: str, group: str = "best") -> Cell | None:
        """A score of a row: `group` is best, paper or oracle; ranking scores belong to none."""
        return cell(score_of(row, name, group) for row in self.runs(dataset, system))

    def minutes(self, dataset: str, system: str, what: str = "fit") -> Cell | None:
        return cell(row["minutes"][what] for row in self.runs(dataset, system))

    def weights(self, dataset: str, system: str) -> Cell | None:
        return cell(row["size"]["weights"] for row in self.runs(dataset, system))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its first column left, the others right.

    >>> print(table(["system", "F1"], [["a|b", "0.5"]]))
    | system | F1 |
    |---|--:|
    | a\\|b | 0.5 |
    """
    lines = [_line(headings), "|---|" + "--:|" * (len(headings) - 1)]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
