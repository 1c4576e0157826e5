"""The paper's tables: complete, spot-checked, consistent with the sentences of the paper that quote them."""

from __future__ import annotations

import numpy as np
import pytest

from lampnet.errors import DataError
from lampnet.evaluation.metrics import METRICS
from pages import paper_tables as tables

LAMP = [f"{features} + LaMP_{graph}" for features in ("Emb", "FMP") for graph in ("el", "fc", "pr")]


def test_tables_are_complete() -> None:
    assert set(tables.paper_tables()["scores"]) == set(METRICS)
    rows = {
        "example_f1": ["FastXML", "Madjarov", "SPEN", "RNN Seq2Seq", "Emb + MLP"],
        "micro_f1": ["FastXML", "SVM", "GAML", "Madjarov", "RNN Seq2Seq", "Emb + MLP"],
        "macro_f1": ["SVM", "FastXML", "GAML", "Madjarov", "RNN Seq2Seq", "Emb + MLP"],
        "subset_accuracy": ["Madjarov", "RNN Seq2Seq", "Emb + MLP"],
        "hamming_accuracy": ["Madjarov", "RNN Seq2Seq", "Emb + MLP"],
    }
    for metric, baselines in rows.items():
        assert list(tables.systems(metric)) == baselines + LAMP
        for system in tables.systems(metric):
            scores = [tables.paper_score(metric, system, dataset) for dataset in tables.DATASETS]
            published = [score for score in scores if score is not None]
            assert published
            assert all(0 <= score <= 1 for score in published)
            if system in ("RNN Seq2Seq", "Emb + MLP") or system.startswith("Emb + LaMP"):
                assert len(published) == 8
            if system.startswith("FMP"):
                assert scores[-1] is None  # NUS-WIDE rows are one vector
                assert len(published) == 7
    for dataset in tables.DATASETS:
        assert len(tables.data_statistics(dataset)) == 8 + 6
        assert len(tables.paper_speed(dataset)) == 4


@pytest.mark.parametrize(
    ("metric", "system", "dataset", "score"),
    [
        ("example_f1", "FastXML", "rcv1", 0.841),
        ("example_f1", "SPEN", "delicious", 0.375),
        ("example_f1", "FMP + LaMP_pr", "bibtex", 0.447),
        ("micro_f1", "SVM", "reuters21578", 0.787),
        ("micro_f1", "GAML", "nuswide", 0.398),
        ("micro_f1", "FMP + LaMP_pr", "sider", 0.797),
        ("macro_f1", "Emb + LaMP_pr", "reuters21578", 0.560),
        ("macro_f1", "FMP + LaMP_fc", "rcv1", 0.743),
        ("subset_accuracy", "RNN Seq2Seq", "rcv1", 0.6798),
        ("subset_accuracy", "RNN Seq2Seq", "sider", 0.0),
        ("hamming_accuracy", "RNN Seq2Seq", "rcv1", 0.9925),
        ("hamming_accuracy", "FMP + LaMP_pr", "sider", 0.747),
        ("example_f1", "FastXML", "bibtex", None),
    ],
)
def test_published_scores(metric: str, system: str, dataset: str, score: float | None) -> None:
    assert tables.paper_score(metric, system, dataset) == score


@pytest.mark.parametrize(
    ("metric", "sum_of_all"),
    [
        # Sums over all cells of each printed table: one wrong digit anywhere changes them.
        ("example_f1", 36.151),
        ("micro_f1", 38.067),
        ("macro_f1", 26.123),
        ("subset_accuracy", 18.6878),
        ("hamming_accuracy", 61.0005),
    ],
)
def test_no_digit_went_missing(metric: str, sum_of_all: float) -> None:
    cells = [tables.paper_score(metric, s, d) for s in tables.systems(metric) for d in tables.DATASETS]
    assert sum(cell for cell in cells if cell is not None) == pytest.approx(sum_of_all, abs=1e-9)


def test_the_delicious_misprint_is_named_and_left_out_of_the_best() -> None:
    for system in ("Emb + MLP", *LAMP):
        assert tables.misprint("subset_accuracy", system, "delicious")
        assert tables.paper_score("subset_accuracy", system, "delicious") == tables.paper_score(
            "macro_f1", system, "delicious"
        )
    assert tables.misprint("subset_accuracy", "RNN Seq2Seq", "delicious") is None
    assert tables.misprint("subset_accuracy", "Emb + MLP", "bibtex") is None
    assert tables.best_paper_score("subset_accuracy", "delicious") == ("Madjarov", 0.018)


def test_best_scores_are_those_to_beat() -> None:
    best = {
        dataset: tuple(tables.best_paper_score(metric, dataset)[1] for metric in ("example_f1", "micro_f1", "macro_f1"))
        for dataset in ("bibtex", "reuters21578", "delicious", "sider")
    }
    assert best == {
        "bibtex": (0.447, 0.473, 0.376),
        "reuters21578": (0.906, 0.889, 0.560),
        "delicious": (0.375, 0.386, 0.196),
        "sider": (0.767, 0.798, 0.668),
    }


def test_mean_training_speedup_is_the_one_the_text_states() -> None:
    speedups = [tables.paper_speed(dataset)["training_speedup_over_seq2seq"] for dataset in tables.DATASETS]
    assert round(float(np.mean(speedups)), 1) == 1.7


def test_statistics() -> None:
    reuters = tables.data_statistics("reuters21578")
    assert (reuters["train"], reuters["valid"], reuters["test"], reuters["labels"]) == (6993, 777, 3019, 90)
    assert tables.data_statistics("tfbs")["samples_per_label_max"] == 466_876


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match="did you mean 'macro_f1'"):
        tables.paper_score("macrof1", "SVM", "rcv1")
    with pytest.raises(DataError, match="no system"):
        tables.paper_score("macro_f1", "SPEN", "rcv1")
    with pytest.raises(DataError, match="did you mean 'bibtex'"):
        tables.paper_score("macro_f1", "SVM", "bibtx")
    with pytest.raises(DataError, match="no data set"):
        tables.paper_speed("digits")
