"""Systems compared on one data set, and which of them is the best choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.material import Material
from lampnet.experiments.protocol import RANKING, Log, run
from lampnet.experiments.systems import SYSTEMS, check_settings, chosen_systems
from lampnet.experiments.time_limit import stoppable

#: What `lampnet compare` runs by default: what a user would try, fastest first.
DEFAULT_METHODS = ("constant", "logistic", "svm", "mlknn", "forest", "chain", "mlp", "lamp")
#: Every score of a comparison: what a table and what a sentence calls it.
_NAMES = {
    "example_f1": ("ebF1", "example-F1"),
    "micro_f1": ("miF1", "micro-F1"),
    "macro_f1": ("maF1", "macro-F1"),
    "subset_accuracy": ("ACC", "subset accuracy"),
    "hamming_accuracy": ("HA", "Hamming accuracy"),
    "roc_auc_macro": ("maAUC", "macro ROC-AUC"),
    "roc_auc_micro": ("miAUC", "micro ROC-AUC"),
    "average_precision_macro": ("mAP", "mean average precision"),
}
SCORES: dict[str, str] = {name: short for name, (short, _) in _NAMES.items()}


def compare(
    material: Material,
    methods: Iterable[str] = DEFAULT_METHODS,
    *,
    time_budget: float = 0.0,
    settings: Mapping[str, Any] | None = None,
    log: Log = lambda sentence: None,
    done: Callable[[dict[str, Any]], None] = lambda result: None,
) -> list[dict[str, Any]]:
    """The results of `protocol.run` for each method, in the order given.

    time_budget  seconds of fitting for each method; 0 for no limit
    done         called with each result as soon as it is known

    Raises `Stopped` on a signal, whichever method is running.
    """
    results = []
    systems = chosen_systems(methods)
    check_settings(systems, settings)
    with stoppable():
        for chosen in systems:
            result = run(chosen.name, material, time_budget=time_budget, settings=settings, log=log)
            done(result)
            results.append(result)
    return results


def score_of(result: Mapping[str, Any], name: str, decisions: str = "best") -> float | None:
    """One score of a result: a ranking score, or a metric under the decisions `best` or `paper`.

    >>> score_of({"finished": True, "best": {"micro_f1": 0.5}}, "micro_f1")
    0.5
    """
    if not result.get("finished"):
        return None
    # Results of methods without probabilities lack some groups of scores.
    value = result.get("ranking" if name in RANKING else decisions, {}).get(name)
    return None if value is None or not math.isfinite(value) else float(value)


def is_clear(first: Mapping[str, Any], second: Mapping[str, Any], name: str, decisions: str = "best") -> bool:
    """Whether the scores of two results differ by more than the choice of the test rows explains.

    That is where their intervals do not overlap or, for scores without intervals, where they differ by more than the
    largest standard deviation of a share over that many rows.
    """
    ends = [row.get("intervals", {}).get(decisions, {}).get(name) for row in (first, second)]
    if all(ends):
        return bool(ends[0][0] > ends[1][1] or ends[1][0] > ends[0][1])
    one, two = score_of(first, name, decisions), score_of(second, name, decisions)
    rows = first.get("data", {}).get("rows", {}).get("test", 0)
    return one is not None and two is not None and abs(one - two) > (0.5 / math.sqrt(rows) if rows else 0.0)


def verdicts(results: Sequence[Mapping[str, Any]], decisions: str = "best") -> dict[str, dict[str, Any]]:
    """For each score which method is best, and how LaMP stands to it.

    LaMP's best row counts when several of its forms were compared. `margin` is LaMP's score less the best of
    the others: below zero LaMP is not the best choice, where the difference is `clear`. Without LaMP, or without
    others, `lead` is how far the best is ahead of the second. Scores that no method has are left out.

    >>> rows = [{"system": "lamp", "title": "LaMP", "finished": True, "ranking": {}, "best": {"micro_f1": 0.4}},
    ...         {"system": "svm", "title": "SVM", "finished": True, "ranking": {}, "best": {"micro_f1": 0.5}}]
    >>> verdicts(rows)["micro_f1"]["best"], round(verdicts(rows)["micro_f1"]["margin"], 2)
    ('svm', -0.1)
    """
    found: dict[str, dict[str, Any]] = {}
    for name in SCORES:
        scored = [(value, row) for row in results if (value := score_of(row, name, decisions)) is not None]
        if not scored:
            continue
        best_value, best = max(scored, key=lambda pair: pair[0])
        ours = [pair for pair in scored if SYSTEMS[pair[1]["system"]].is_lamp]
        others = [pair for pair in scored if not SYSTEMS[pair[1]["system"]].is_lamp]
        found[name] = {"best": best["system"], "title": best["title"], "score": best_value}
        if ours and others:
            lamp_value, lamp = max(ours, key=lambda pair: pair[0])
            rival_value, rival = max(others, key=lambda pair: pair[0])
            found[name] |= {
                "lamp": lamp["system"],
                "lamp_score": lamp_value,
                "rival": rival["system"],
                "rival_title": rival["title"],
                "rival_score": rival_value,
                "margin": lamp_value - rival_value,
                "clear": is_clear(lamp, rival, name, decisions),
            }
        elif len(scored) > 1:
            second_value, second = max((pair for pair in scored if pair[1] is not best), key=lambda pair: pair[0])
            found[name] |= {
                "second": second["system"],
                "second_title": second["title"],
                "second_score": second_value,
                "lead": best_value - second_value,
                "clear": is_clear(best, second, name, decisions),
            }
    return found


def sentences(results: Sequence[Mapping[str, Any]], decisions: str = "best") -> list[str]:
    """The outcome in sentences that a user can act on."""
    found = verdicts(results, decisions)
    compared = {name: verdict for name, verdict in found.items() if "margin" in verdict}
    lines = [f"{row['title']} {row['status']}." for row in results if not row.get("finished")]
    if not compared:
        return [*lines, *_without_lamp(found), *_how_sure(results if any("lead" in v for v in found.values()) else [])]
    clear = {name: verdict for name, verdict in compared.items() if verdict["clear"]}
    behind = {name: verdict for name, verdict in clear.items() if verdict["margin"] < 0}
    ahead = [_NAMES[name][1] for name, verdict in clear.items() if verdict["margin"] > 0]
    unclear = [_NAMES[name][1] for name in compared if name not in clear]
    if ahead:
        lines.append(f"LaMP is the best choice for {_listed(ahead)}.")
    if unclear:
        lines.append(
            f"No clear winner for {_listed(unclear)}: LaMP and the best of the others differ by no more than the "
            "choice of the test rows explains."
        )
    for name, verdict in behind.items():
        lines.append(
            f"LaMP is NOT the best choice for {_NAMES[name][1]}: {verdict['rival_title']} reaches "
            f"{verdict['rival_score']:.3f}, LaMP {verdict['lamp_score']:.3f} ({verdict['margin']:+.3f})."
        )
    return [*lines, *_how_sure(results)]


def _without_lamp(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which method is the best choice for what, where LaMP was not compared with others."""
    compared = {name: verdict for name, verdict in found.items() if "lead" in verdict}
    ahead: dict[str, list[str]] = {}
    for name, verdict in compared.items():
        if verdict["clear"]:
            ahead.setdefault(verdict["title"], []).append(_NAMES[name][1])
    lines = [f"The best choice for {_listed(scores)} is {title}." for title, scores in ahead.items()]
    unclear = [_NAMES[name][1] for name, verdict in compared.items() if not verdict["clear"]]
    if unclear:
        lines.append(
            f"No clear winner for {_listed(unclear)}: the best two differ by no more than the choice of the test rows "
            "explains."
        )
    return lines


def _how_sure(results: Sequence[Mapping[str, Any]]) -> list[str]:
    test_rows = next((row["data"]["rows"]["test"] for row in results if "data" in row), 0)
    if not test_rows:
        return []
    return [f"One run on {test_rows} test rows; another seed of the training may change the order again."]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


assert set(SCORES) == {*METRICS, *RANKING}
