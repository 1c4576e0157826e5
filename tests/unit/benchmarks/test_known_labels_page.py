"""The page of the comparison on known labels: what it says of results that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet.experiments.known_systems import KNOWN_SYSTEMS, REGIMES
from lampnet.experiments.row_scores import packed
from pages.known_labels import BEGIN, END, comparisons, draw, overall_table, page_with, table, verdict


def results(dataset: str, seed: int = 0, **means: float) -> list[dict[str, Any]]:
    """Every system has 0.5 on each of 40 rows, but for those that are named."""
    made = []
    for name in KNOWN_SYSTEMS:
        mean = means.get(name, 0.5)
        known = [
            {
                "regime": str(regime),
                "rows": 40,
                "map": mean,
                "by_row": packed(np.full(40, mean)),
                "revealed": f"{seed}-{regime}",
            }
            for regime in REGIMES
        ]
        data = {"labelled": 100, "test": 40, "labels": 7}
        made.append(
            {"dataset": dataset, "system": name, "seed": seed, "known": known, "data": data, "fit_cpu_seconds": 12.0}
        )
    return made


def test_messages_are_compared_with_the_best_other_method_and_never_with_our_own_closed_form() -> None:
    found = results("corel5k", messages=0.6, shifts=0.9, chain=0.55)
    one = comparisons(found, "positives:3")[0]
    assert one.best_other() == "chain"
    row = table(found, "positives:3").splitlines()[2]
    assert "| **0.900** |" in row
    assert row.endswith("| +5.1 (+5.1 to +5.1) | +9.8 (+9.8 to +9.8) |"), row  # of one byte per row
    assert "against the best other method, messages are ahead on corel5k;" in verdict(found)


def test_a_loss_is_called_a_loss() -> None:
    found = results("corel5k", messages=0.4) + results("mediamill", messages=0.5)
    said = verdict(found)
    assert "against the best other method, messages are level on mediamill, behind on corel5k" in said
    assert "ahead" not in said
    assert "Not measured in this regime: emotions" in said


def test_over_all_regimes_messages_are_compared_with_the_single_other_method_that_is_best_on_average() -> None:
    found = results("corel5k", messages=0.6, linear=0.55, edgeless=0.7) + results("sider", messages=0.6, chain=0.65)
    for result in found:
        if result["dataset"] == "corel5k" and result["system"] == "chain":
            result["known"][0] |= {"map": 0.7, "by_row": packed(np.full(40, 0.7))}  # best in one regime of five
    rows = overall_table(found).splitlines()
    assert rows[3].startswith("| corel5k | 1 | 5 | 0.500 | linear, label states | 0.550 |"), rows[3]
    assert rows[3].endswith("| +5.1 (+5.1 to +5.1) | -9.8 (-9.8 to -9.8) |"), rows[3]
    assert rows[-1] == "Messages are above every other method on 1 of 2 data sets, and above their edgeless form on 1."


def test_a_regime_of_few_rows_is_left_out() -> None:
    found = results("goemotions")
    for result in found:
        result["known"][1] |= {"rows": 19}
    assert comparisons(found, str(REGIMES[1])) == []
    assert len(comparisons(found, str(REGIMES[0]))) == 1


def test_systems_that_were_scored_on_different_labels_are_not_compared() -> None:
    found = results("emotions")
    found[-1]["known"][0]["revealed"] = "forged"
    with pytest.raises(ValueError, match="different labels"):
        comparisons(found, "positives:1")


def test_only_seeds_that_every_system_has_count() -> None:
    found = results("emotions", 0, messages=0.6) + results("emotions", 1, messages=0.8)[:-1]
    assert comparisons(found, "positives:1")[0].seeds == [0]
    assert comparisons(results("emotions")[:-1], "positives:1") == []


def test_writing_the_page_twice_changes_nothing_and_keeps_the_rest(tmp_path: Path) -> None:
    found = results("emotions")
    page = page_with(found, f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert page == page_with(found, page)
    assert page.startswith("before\n")
    assert page.endswith(f"{END}\nafter\n")
    for name in ("first.svg", "second.svg"):
        draw(found, tmp_path / name)
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "second.svg").read_bytes()
