"""The page of the paper's tables: published numbers, ours, and claims that intervals support."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lampnet.evaluation.metrics import METRICS
from lampnet.experiments.paper_networks import Network
from lampnet.experiments.result_files import write_json, write_result
from lampnet.experiments.row_scores import packed
from pages.paper_tables import systems as published_systems
from pages.reproduction import (
    Networks,
    answer,
    finding,
    given_graphs_section,
    reproduction_page,
    write_page,
)
from pages.speed_section import operations_section, speed_section
from pages.summary import Summary
from pages.training_costs import Costs, epochs_table, missing_table

MakeResult = Callable[..., dict[str, Any]]


@pytest.fixture
def network(result: MakeResult) -> Callable[..., dict[str, Any]]:
    """A result of one of the paper's networks."""

    def make(
        dataset: str, form: str, seed: int = 0, value: float = 0.5, weight: float = 0.2, width: int = 128,
        start: str = "random", rows: np.ndarray | None = None, validation: float = 0.5, **scores: float,
    ) -> dict[str, Any]:  # fmt: skip
        one = Network(dataset, form, width, start, seed, weight)
        made = result(dataset, form, seed, value, **scores)
        made |= {"system": one.system, "form": form, "lambda": weight}
        made["config"] = one.lamp().config("cooccurrence").to_json()
        made["validation"] = {"paper": {"example_f1": validation}}
        made["history"] = [{"scores": dict.fromkeys(METRICS, value)}] * 3
        if rows is not None:
            made["example_f1_by_row"] = packed(rows)
        return made

    return make


def row_of(page: str, start: str, after: str = "") -> list[str]:
    line = next(line for line in page[page.index(after) :].splitlines() if line.startswith(f"| {start} |"))
    return [part.strip() for part in line.strip("|").split("|")]


def test_published_and_ours_side_by_side(result: MakeResult, network: MakeResult) -> None:
    networks = Networks([network("bibtex", "fmp-pr", seed, 0.40 + 0.01 * seed) for seed in range(3)])
    names = ("fmp-pr", "lamp", "constant", "spen", "logistic", "rakel")
    summary = Summary([result("bibtex", name, 0, 0.3 + 0.01 * i) for i, name in enumerate(names)])
    page = reproduction_page(networks, summary, {})
    # Published: FMP + LaMP_pr has 0.447 on Bibtex; the columns are Reuters, Bibtex, Delicious, SIDER.
    assert row_of(page, "FMP + LaMP_pr", "### Table 1")[4:7] == ["0.447", "0.410 ± 0.010", "0.300"]
    assert row_of(page, "SPEN", "### Table 1")[4:7] == ["0.422", "", "0.330"]
    assert row_of(page, "Madjarov", "### Table 1")[4:7] == ["0.434", "", "0.350 (rakel, of 2)"]
    assert row_of(page, "**lampnet's default**", "### Table 1")[4:7] == ["", "", "0.310"]
    assert row_of(page, "**label priors**", "### Table 1")[4:7] == ["", "", "0.320"]


def test_every_published_system_is_in_every_table(network: MakeResult) -> None:
    page = reproduction_page(Networks([network("bibtex", "emb-el")]), Summary([]), {})
    sections = re.split(r"^### ", page, flags=re.MULTILINE)
    for metric, title in zip(METRICS, ("subset", "Hamming", "example-F1", "micro-F1", "macro-F1"), strict=True):
        own = next(part for part in sections if title in part.splitlines()[0])
        for system in published_systems(metric):
            assert f"| {system} |" in own
    assert "a misprint" in page
    for absent in ("Bookmarks", "RCV1", "TFBS", "NUS-WIDE"):
        assert f"| {absent} |" in page.split("## What is absent")[1]


def test_a_difference_is_claimed_only_with_an_interval_that_supports_it(network: MakeResult) -> None:
    rng = np.random.default_rng(0)
    rows = rng.random(800) * 0.8
    shift = {"emb-el": 0.0, "emb-fc": 0.1, "emb-pr": 0.0}
    results = [
        network("bibtex", form, rows=np.clip(rows + extra + rng.normal(0, 0.05, 800), 0, 1))
        for form, extra in shift.items()
    ]
    text = answer(Networks(results))
    assert "Of 2 comparisons with the edgeless graph, label messages raise example-F1 clearly in 1 and lower" in text
    assert re.search(r"Clear gains: Bibtex \(Emb \+ LaMP_fc, d = 128: \+9\.\d", text)
    assert "Clear losses" not in text


def test_the_finding_weighs_data_sets_equally_and_claims_what_its_interval_supports(
    result: MakeResult, network: MakeResult
) -> None:
    rng = np.random.default_rng(0)

    def pair(dataset: str, rows: int, gain: float, width: int = 128) -> list[dict[str, Any]]:
        base, noise = 0.3 + 0.1 * rng.random(rows), rng.normal(0, 0.02, rows)
        made = {"emb-el": base, "emb-fc": base + gain + noise - noise.mean()}
        return [network(dataset, form, value=0.4, rows=scores, width=width) for form, scores in made.items()]

    summary = Summary([result("bibtex", "stack", 0, 0.5), result("scene", "stack", 0, 0.3)])
    text = finding(Networks([*pair("bibtex", 2000, 0.1), *pair("scene", 200, 0.06)]), summary)
    assert re.search(r" raise example-F1 on average over 2 data sets: the change is \+(19|20)\.\d% \(", text)
    assert re.search(r", or \+[78]\.\d \(\+[56]\.\d to \+(9|10)\.\d\) points \(Bib", text)
    assert re.search(
        r"; clear by itself on Bibtex \+(9\.\d|10\.\d) \([^)]*\), one seed, Scene .*\), one seed; not", text
    )
    assert "not trained on Reuters-21578, Delicious, SIDER" in text
    assert text.endswith("stays below lampnet's stack of base learners on 1 of 2.")
    # A gain of one data set of two claims nothing about the next one.
    mixed = Networks([*pair("bibtex", 2000, 0.1), *pair("scene", 200, -0.01)])
    assert "do not clearly raise example-F1" in finding(mixed, summary)
    level = finding(Networks([*pair("scene", 200, -0.001), *pair("scene", 200, 0.1, width=256)]), Summary([]))
    assert "with d = 128, messages among all labels do not raise example-F1" in level
    assert "clear by itself on none" in level
    assert finding(Networks([]), summary) == ""


def test_the_finding_takes_splits_with_other_test_rows_as_its_sample(network: MakeResult) -> None:
    results = [network("sider", "emb-el", s, 0.5 + 0.1 * s) for s in range(3)]
    results += [network("sider", "emb-fc", s, 0.48 + 0.1 * s) for s in range(3)]
    text = finding(Networks(results), Summary([]))
    said = "lower example-F1 on average over 1 data set: the change is -3.3% (-3.3% to -3.3%), or -2.0 (-2.0 to -2.0)"
    assert f"{said} points" in text


def test_one_run_without_rows_claims_nothing(network: MakeResult) -> None:
    text = answer(Networks([network("scene", "emb-el", value=0.1), network("scene", "emb-fc", value=0.9)]))
    assert "clearly in 0 and lower it clearly in 0; in 1 the" in text
    assert "| Scene | Emb + LaMP_fc | 128 | +80.0 | +80.0 | +80.0 | 1 |" in text


def test_splits_with_other_test_rows_are_compared_split_by_split(network: MakeResult) -> None:
    rows = np.random.default_rng(0).random(100)
    results = [network("sider", "emb-el", s, 0.5 + 0.1 * s, rows=rows) for s in range(3)]
    results += [network("sider", "emb-fc", s, 0.52 + 0.1 * s, rows=rows) for s in range(3)]
    found = Networks(results).difference("sider", "emb-fc", "emb-el", "example_f1", 128)
    assert found is not None
    assert found[1] == 3
    assert str(found[0]) == "+2.0 (+2.0 to +2.0)"


def test_a_complete_prior_graph_is_the_full_one(network: MakeResult) -> None:
    """SIDER's: one training stands for both forms, and differs from the edgeless one once."""
    page = reproduction_page(Networks([network("sider", form) for form in ("emb-el", "emb-fc")]), Summary([]), {})
    assert row_of(page, "Emb + LaMP_pr", "### Table 1")[11] == row_of(page, "Emb + LaMP_fc", "### Table 1")[11]
    assert "the prior graph is the full one, and LaMP_pr has the runs of LaMP_fc" in page
    assert "Of 1 comparisons" in page
    assert page.count("| SIDER | Emb + LaMP_pr |") == 0


def test_lambda_and_width_are_chosen_by_validation_not_by_test(network: MakeResult) -> None:
    networks = Networks(
        [
            network("bibtex", "emb-fc", weight=0.0, value=0.9, validation=0.4),
            network("bibtex", "emb-fc", weight=0.3, value=0.6, validation=0.5),
            network("bibtex", "emb-fc", weight=0.3, value=0.8, validation=0.3, width=256),
            network("bibtex", "emb-fc", weight=0.2, value=0.7, validation=0.9, width=256),  # not the chosen lambda
        ]
    )
    found = networks.score("bibtex", "emb-fc", "example_f1")
    assert found is not None
    assert found.mean == 0.6
    page = reproduction_page(networks, Summary([]), {})
    assert row_of(page, "Bibtex", "## The runs")[:8] == [
        "Bibtex", "Emb + LaMP_fc", "128", "random", "1", "0.3 of 2", "3", "1",
    ]  # fmt: skip


def test_the_topic_tree_beside_the_edgeless_graph() -> None:
    rows, settings = np.linspace(0.2, 0.6, 50), {"model.width": 64, "training.learning_rate": 0.001}
    data = {"labels": 103, "rows": {"train": 1800, "test": 2000}}
    runs = [
        {"form": form, "epochs": 7, "data": data, "paper": dict.fromkeys(METRICS, 0.4 + gain),
         "example_f1_by_row": packed(rows + gain)}
        for form, gain in (("emb-el", 0.0), ("emb-pr", 0.2))
    ]  # fmt: skip
    section = given_graphs_section({"topics": {"settings": settings, "edges": 99, "runs": runs}})
    assert "99 edges between 103 topics" in section
    assert "STRING is read and tested as a label graph, but no training with it has been measured" in section
    assert "| Emb + LaMP_el | 0.400 | 0.400 | 0.400 | – | 7 |" in section
    assert re.search(r"\| Emb \+ LaMP_pr \| 0.600 \| 0.600 \| 0.600 \| \*\*\+20.0 \(", section)


def test_the_averages_that_the_paper_states_beside_ours(result: MakeResult, network: MakeResult) -> None:
    results = [network("bibtex", "emb-el", value=0.4), network("bibtex", "emb-fc", value=0.44)]
    results += [
        network("sider", form, seed, value) for form, value in (("emb-el", 0.2), ("emb-fc", 0.1)) for seed in (0, 1)
    ]
    mlp = [result("bibtex", "mlp", 0, 0.5), result("sider", "mlp", 0, 0.9)]  # SIDER: one split against two
    page = reproduction_page(Networks(results), Summary(mlp), {}).split("## The paper's averages")[1]
    assert row_of(page, "ebF1, LaMP_fc over LaMP_el")[1:] == ["+1.8%", "+3.3%", "-20.0% (2 pairs: Bibtex, SIDER)"]
    assert row_of(page, "maF1, LaMP_fc over Emb + MLP")[3] == "-12.0% (1 pairs: Bibtex)"
    assert row_of(page, "maF1, LaMP_pr over Emb + MLP")[1:] == ["+56.7%", "+53.8%", "–"]


def test_what_an_epoch_costs_beside_the_epochs_that_were_needed(network: MakeResult) -> None:
    seconds = {"bibtex": {"emb-fc": {"128": 41.96, "512": 300.0}, "fmp-fc": {"128": 55.0}}}
    section = epochs_table(Costs(seconds, [network("bibtex", "emb-fc")]))
    assert "| Bibtex | Emb + LaMP_fc | 42.0 | 300.0 | 3 |" in section
    assert "| Bibtex | FMP + LaMP_fc | 55.0 | – | – |" in section


def test_what_is_missing_and_its_hours(network: MakeResult) -> None:
    seconds = {"bibtex": {"emb-fc": {"128": 1200.0, "512": 4800.0}, "fmp-fc": {"128": 3600.0, "512": 14_400.0}}}
    finished = [network("bibtex", "emb-fc"), network("bibtex", "emb-pr", weight=0.1)]  # three epochs each
    wanted = [
        Network("bibtex", "emb-fc", weight=0.2),
        Network("bibtex", "emb-fc", weight=0.3),
        Network("bibtex", "emb-pr", seed=1),
        Network("bibtex", "emb-pr"),
        Network("bibtex", "emb-fc", width=256),
        Network("scene", "emb-fc", weight=0.0),
    ]
    section = missing_table(Costs(seconds, finished), finished, wanted)
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert lines == [
        "| Bibtex | 128 |  | 1.0 h | 1.0 h |  |  |  | 2 | 2.0 h |",
        "| Bibtex | 256 |  | 2.0 h |  |  |  |  | 1 | 2.0 h |",
        "| Scene | 128 |  | not timed |  |  |  |  | 1 | not timed |",
    ]
    assert "Together that is 4.0 h of one core, without what was not timed (Scene)." in section
    assert missing_table(Costs(seconds, finished), finished, wanted[:1]) == ""
    page = reproduction_page(Networks(finished), Summary([]), {}, measured={"paper_epochs": {"seconds": seconds}})
    assert row_of(page, "FMP + LaMP_pr", "### Table 1")[4:7] == ["0.447", "(3.0 h)", "–"]


def test_comparators_that_did_not_run_finish_or_converge_are_told_apart(result: MakeResult) -> None:
    late = result("sider", "fastxml") | {"finished": False, "status": "did not finish in 60 seconds"}
    stopped = result("bibtex", "spen", 0, 0.4) | {"status": "time budget", "time_budget_minutes": 10.0}
    page = reproduction_page(Networks([]), Summary([late, stopped, result("bibtex", "stack", 0, 0.6)]), {})
    assert row_of(page, "SPEN", "### Table 1")[4:10] == ["0.422", "", "0.400 (stopped)", "0.375", "", "not run"]
    assert row_of(page, "RNN Seq2Seq", "### Table 1")[10:] == ["0.356", "", "not run"]
    own = page.split("## The comparators")[1]
    assert row_of(own, "FastXML")[4] == "did not finish in 60 seconds"
    assert row_of(own, "SPEN, end to end")[2] == ".400 / .400 / .400 (stopped after 10 minutes)"
    assert row_of(own, "GAML")[1:] == ["not run"] * 6
    assert row_of(own, "**its base learners alone**")[2:4] == [".600 / .600 / .600", "– / – / –"]
    costs = {"bibtex": {"seq2seq": {"hours": 2.04, "at_least": False}, "gaml": {"hours": 0.2, "at_least": True}}}
    timed = reproduction_page(Networks([]), Summary([]), {}, measured={"comparator_costs": {"costs": costs}})
    assert row_of(timed, "RNN Seq2Seq", "### Table 1")[4:7] == ["0.393", "", "not run (2.0 h)"]
    assert row_of(timed, "GAML", "## The comparators")[2] == "not run (over 12 min)"


def test_other_tools_are_named_where_they_have_results() -> None:
    tools = [
        {"dataset": dataset, "system": name, "finished": True}
        for dataset, name in (("bibtex", "napkinxc"), ("emotions", "napkinxc"), ("emotions", "omikuji"))
    ]
    page = reproduction_page(Networks([]), Summary([]), {}, tools=tools)
    assert "with results: napkinXC on Bibtex; napkinXC, Omikuji on Emotions." in page
    assert "PECOS is absent" in page
    assert "CatBoost" not in page


def test_published_and_counted_statistics() -> None:
    spread = {"mean": 2.4017, "median": 2.0, "max": 28}
    counted = {
        "bibtex": {
            "train": 4392, "valid": 488, "test": 2515, "labels": 159, "features": 1836, "prior_graph": "cooccurrence",
            "labels_per_sample": spread, "samples_per_label": spread,
        }
    }  # fmt: skip
    page = reproduction_page(Networks([]), Summary([]), counted)
    assert "| Bibtex | 4,377 / 4,392 | 487 / 488 | 2,515 / 2,515 | 159 / 159 | 1,836 / 1,836 | cooccurrence |" in page
    assert "| Bibtex | 2.38 / 2.4 | 2 / 2 | 28 / 28 |" in page
    assert "No network has been trained yet" in page


def test_the_page_and_its_curves_come_from_files_alone(result: MakeResult, network: MakeResult, tmp_path: Path) -> None:
    folder, page = tmp_path / "results", tmp_path / "docs" / "reproduction.md"
    write_result(folder, result("emotions", "lamp"))
    one = network("emotions", "fmp-fc")
    write_json(Network("emotions", "fmp-fc", weight=0.2).path(folder / "paper"), one)
    write_page(folder, page)
    text = page.read_text()
    assert "| Emotions | FMP + LaMP_fc | 128 | random | 1 |" in text
    picture = page.parent / "images" / "paper_curves_emotions.svg"
    assert "(images/paper_curves_emotions.svg)" in text
    first = picture.read_bytes()
    write_page(folder, page)
    assert (page.read_text(), picture.read_bytes()) == (text, first)


def test_the_speed_table(tmp_path: Path) -> None:
    own = {
        "width": 128, "beams": 5, "shortlist": 40, "labels_named": 2.4, "labels_true": 2.38,
        "training_minutes": {"seq2seq": 3.0, "paper": 2.0, "single": 1.0},
        "testing_minutes": {"seq2seq": 2.0, "paper": 0.5, "single": 1.0, "single_shortlist": 0.25, "default": 4.0},
        "operations": {"seq2seq": 10e6, "paper": 100e6, "single": 50e6},
    }  # fmt: skip
    speed = {"machine": {"cpu": "Abacus 3", "threads": 1}, "datasets": {"bibtex": own}}
    section = speed_section(speed)
    assert "| Bibtex | training | the paper's network | 2.000 | 3.000 | 1.50x | 2.1x |" in section
    assert "| Bibtex | testing | the same, 40 labels shortlisted | 0.250 | 2.000 | 8.00x |  |" in section
    assert "| Bibtex | testing | default as shipped | 4.000 | 2.000 | 0.50x |  |" in section
    assert "| Bibtex | 2.38 | 2.40 | 10.0 | 100.0 | 50.0 | 0.10x |" in section
    assert "1.50 times as fast as Seq2Seq in training and 4.00 times in testing" in section
    assert "the paper's text states 1.7x and 5.0x (the mean of its table: 1.7x and 5.45x)" in section
    write_json(tmp_path / "results" / "speed.json", speed)
    write_page(tmp_path / "results", tmp_path / "reproduction.md")
    assert "## Speed" in (tmp_path / "reproduction.md").read_text()


def test_the_operations_behind_the_published_speed() -> None:
    own = {
        "width": 512, "nodes": 70, "labels": 159, "labels_per_row": 2.44,
        "operations": {"paper": 2.4e9, "seq2seq_training": 2e8, "seq2seq_testing": 3e8},
        "dependent_steps": {"paper": 4, "seq2seq": 73},
    }  # fmt: skip
    section = operations_section({"beams": 5, "datasets": {"bibtex": own}})
    assert "| Bibtex | 159 (2.4) | 70 | 2,400 | 200 | 300 | 12.0x / 2.1x | 8.0x / 2.1x | 4 / 73 |" in section
    assert "8.0 to 12.0 times as many operations" in section
