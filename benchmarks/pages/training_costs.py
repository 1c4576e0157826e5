"""What the paper's networks cost, finished or missing: seconds of an epoch, epochs, hours of one core."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lampnet.experiments.paper_networks import Network, is_done
from lampnet.experiments.paper_networks import networks as all_networks
from lampnet.experiments.result_files import Result
from lampnet.experiments.systems import FORMS
from pages.results import dataset_title
from pages.summary import table


class Costs:
    """Hours that a training takes.

    seconds   of an epoch by data set, form and width, as `benchmarks/paper_epochs.py` measured them
    finished  the results there are; their epochs are taken for what is missing
    """

    def __init__(
        self, seconds: Mapping[str, Mapping[str, Mapping[str, float]]], finished: Sequence[Mapping[str, Any]]
    ) -> None:
        self.seconds = seconds
        self.epochs: dict[tuple[str, ...], list[int]] = {}
        for result in finished:
            count = len(result["history"])
            for key in ((result["dataset"], result["form"]), (result["dataset"],), ()):
                self.epochs.setdefault(key, []).append(count)

    def epochs_taken(self, dataset: str, form: str) -> float | None:
        """By finished runs of this form; None without any."""
        own = self.epochs.get((dataset, form))
        return statistics.fmean(own) if own else None

    def hours(self, dataset: str, form: str, width: int) -> float | None:
        """None where no epoch was timed or nothing is finished.

        Epochs are those of this form, else of this data set, else of all. A prior graph costs what the full one does;
        a width that was not timed the geometric mean of the two around it.

        >>> done = [{"dataset": "scene", "form": "emb-el", "history": [{}] * 30}]
        >>> costs = Costs({"bibtex": {"emb-fc": {"128": 60.0, "512": 540.0}}}, done)
        >>> costs.hours("bibtex", "emb-pr", 128), costs.hours("bibtex", "emb-pr", 256)
        (0.5, 1.5)
        """
        timed = self.seconds.get(dataset, {}).get(form.replace("-pr", "-fc"), {})
        known = {int(text): value for text, value in timed.items()}
        epochs = next((own for key in ((dataset, form), (dataset,), ()) if (own := self.epochs.get(key))), None)
        if epochs is None or not known or not min(known) <= width <= max(known):
            return None
        narrower, wider = max(w for w in known if w <= width), min(w for w in known if w >= width)
        seconds = math.sqrt(known[narrower] * known[wider])
        return seconds * statistics.fmean(epochs) / 3600


def duration(hours: float | None) -> str:
    """For a table.

    >>> duration(0.001), duration(0.52), duration(0.999), duration(2.14), duration(31.4), duration(None)
    ('1 min', '31 min', '1.0 h', '2.1 h', '31 h', 'not timed')
    """
    if hours is None:
        return "not timed"
    if round(60 * hours) < 60:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.0f} h" if hours >= 10 else f"{hours:.1f} h"


def epochs_table(costs: Costs) -> str:
    """Seconds of an epoch, beside how many epochs the finished runs needed."""
    widths = sorted({int(w) for forms in costs.seconds.values() for own in forms.values() for w in own})
    rows = []
    for dataset, forms in costs.seconds.items():
        for form, own in forms.items():
            needed = costs.epochs_taken(dataset, form)
            seconds = [f"{own[str(w)]:.1f}" if str(w) in own else "–" for w in widths]
            rows.append([dataset_title(dataset), FORMS[form], *seconds, "–" if needed is None else f"{needed:.0f}"])
    about = (
        "Processor seconds of one epoch on one core, from a few steps (`python benchmarks/paper_epochs.py`), and the "
        "epochs that finished runs took until validation example-F1 had not risen for 15."
    )
    headings = ["data", "form", *(f"seconds, d = {width}" for width in widths), "epochs taken"]
    return f"### What an epoch costs\n\n{about}\n\n" + table(headings, rows)


def missing_table(costs: Costs, finished: Sequence[Result], wanted: Iterable[Network] = ()) -> str:
    """Every training that has no result, by data set and width; empty where none is missing."""
    missing: dict[tuple[str, int], list[Network]] = {}
    for network in wanted or all_networks():
        if not is_done(network, finished):
            missing.setdefault((network.dataset, network.width), []).append(network)
    if not missing:
        return ""
    rows, total, untimed = [], 0.0, set()
    for (dataset, width), own in missing.items():
        hours = {form: costs.hours(dataset, form, width) for form in FORMS}
        known = [hours[network.form] for network in own]
        together = None if None in known else sum(one for one in known if one is not None)
        total += together or 0.0
        untimed |= {dataset_title(dataset)} if together is None else set()
        without = {network.form for network in own}
        cells = [duration(hours[form]) if form in without else "" for form in FORMS]
        rows.append([dataset_title(dataset), str(width), *cells, str(len(own)), duration(together)])
    left_out = f", without what was not timed ({', '.join(sorted(untimed))})" if untimed else ""
    about = (
        "The time that one training of a form would take on one core, where at least one is missing (another seed, "
        "start or λ, or all of them): seconds of an epoch times the epochs that finished runs of the form took, else "
        "those of the data set, else of all runs. A prior graph is counted as a full one; d = 256, which was not "
        "timed, as the geometric mean of d = 128 and d = 512. "
        f"Together that is {duration(total)} of one core{left_out}. "
        "`lampnet reproduce --paper --dataset NAME --form FORM --width D` runs a part of it; a run that is stopped "
        "continues where it was."
    )
    headings = ["data", "d", *FORMS.values(), "missing", "together"]
    return f"### What is missing, and what it would cost\n\n{about}\n\n" + table(headings, rows)
