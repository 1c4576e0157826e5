"""Audits: labels predicted from the row's other labels by what never saw the row, and the findings ranked by it."""

from __future__ import annotations

import csv
import io
import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from lampnet import LaMPClassifier
from lampnet.base_learners.label_dependence import cross_fit_dependence
from lampnet.config import Config
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import UNKNOWN, states_of_truth
from lampnet.errors import DataError, LampnetError
from lampnet.explain.report.audit_folder import DATA, PAGE, TABLE, write_audit
from lampnet.pipeline.audit import audit
from lampnet.pipeline.given_others import given_others
from lampnet.runtime.folder_lock import claimed


def related_labels(n=200, L=6, unknown=0.0, seed=0):
    """Labels of which two always come together, their noisy out-of-fold logits, and folds."""
    random = np.random.default_rng(seed)
    Y = (random.random((n, L)) < 0.3).astype(np.float32)
    Y[:, 1] = Y[:, 0]
    logits = (Y * 2 - 2 + random.normal(0, 1.5, Y.shape)).astype(np.float32)
    Y[random.random(Y.shape) < unknown] = np.nan
    return Y, logits, np.arange(n) % 5


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000), unknown=st.sampled_from([0.0, 0.3]), row=st.integers(0, 59), label=st.integers(0, 5)
)
def test_a_label_is_scored_as_if_it_alone_were_unknown(seed, unknown, row, label):
    Y, logits, fold_n = related_labels(60, unknown=unknown, seed=seed)
    tables = cross_fit_dependence(Y, logits, fold_n).whole
    states = states_of_truth(Y)
    quick = tables.shifts_by_others(logits, states)[row, label]
    states[row, label] = UNKNOWN
    slow = tables.shifts(logits[row : row + 1], states[row : row + 1])[0, label]
    np.testing.assert_allclose(quick, slow, rtol=2e-3, atol=2e-4)


@settings(max_examples=20, deadline=None)
@given(row=st.integers(0, 199), label=st.integers(0, 5), unknown=st.sampled_from([0.0, 0.2]))
def test_what_a_row_was_given_does_not_move_its_own_score(row, label, unknown):
    Y, logits, fold_n = related_labels(unknown=unknown)
    before = given_others(Y, logits, fold_n)
    Y[row, label] = 1 - np.nan_to_num(Y[row, label])
    after = given_others(Y, logits, fold_n)
    assert after.log_odds_nL[row, label] == pytest.approx(before.log_odds_nL[row, label], abs=1e-4)
    # Nor does it move any label of the other rows of its fold, whose tables and weights never saw it.
    fellows = (fold_n == fold_n[row]) & (np.arange(len(Y)) != row)
    np.testing.assert_array_equal(after.log_odds_nL[fellows], before.log_odds_nL[fellows])
    others = fold_n != fold_n[row]
    assert (after.log_odds_nL[others] != before.log_odds_nL[others]).any()


def test_what_each_label_moved_adds_up_where_there_is_one_other():
    Y, logits, fold_n = related_labels()
    found = given_others(Y, logits, fold_n)
    one = int(np.flatnonzero((Y.sum(axis=1) == 2) & (Y[:, 0] == 1))[0])
    moved = found.from_others(one, 0)
    assert list(moved) == [1]
    assert moved[1] > 1


def test_where_each_row_has_one_class_the_others_give_nothing_away():
    classes = np.arange(100) % 4
    Y = np.eye(4, dtype=np.float32)[classes]
    logits = np.full(Y.shape, -1.0, dtype=np.float32)
    found = given_others(Y, logits, np.arange(100) % 5)
    np.testing.assert_array_equal(found.log_odds_nL, logits)
    assert found.from_others(0, 1) == {}


def words(n=120, seed=0):
    """Rows whose words give their labels away, two labels that always come together, and noise to find."""
    random = np.random.default_rng(seed)
    Y = (random.random((n, 4)) < 0.4).astype(np.float32)
    Y[:, 1] = Y[:, 0]
    names = np.array(["red", "round", "small", "old"])
    texts = [" ".join([*np.repeat(names[row == 1], 3), f"noise{i % 7}"]) for i, row in enumerate(Y)]
    return texts, Y


def as_rows(texts, Y, names=("red", "round", "small", "old"), ids=None):
    labels = sparse.csr_matrix(Y)
    return Dataset(name="rows", kind="text", rows=texts, labels=labels, label_names=tuple(names), ids=ids)


def test_removed_and_added_labels_come_first_and_unknown_ones_never():
    texts, Y = words()
    given = Y.copy()
    removed = [int(np.flatnonzero(Y[:, 0])[k]) for k in (2, 9, 17)]
    added = [int(np.flatnonzero(Y[:, 2] == 0)[k]) for k in (4, 11, 30)]
    unknown = [int(np.flatnonzero(Y[:, 3])[k]) for k in (1, 7)]
    given[removed, 0] = 0
    given[added, 2] = 1
    given[unknown, 3] = np.nan
    found = audit(as_rows(texts, given), Config.preset("quick"))
    first = {(one.row, one.label, one.kind) for one in found.findings[:6]}
    assert first == {(r, "red", "missing") for r in removed} | {(r, "small", "wrong") for r in added}
    assert not {(one.row, one.label) for one in found.findings} & {(r, "old") for r in unknown}
    assert [one.kind for one in found.findings[:6]] == ["missing", "wrong"] * 3
    assert all(one.given == (one.kind == "wrong") for one in found.findings)
    assert "round" in found.findings[0].from_labels
    assert found.proba.shape == Y.shape
    assert len(audit(as_rows(texts, given), Config.preset("quick"), most=3).findings) == 3


def test_the_classifier_audits_without_being_fitted_and_stays_as_it_was():
    texts, Y = words()
    Y[5] = 1
    Y[5, 3] = 0
    model = LaMPClassifier(preset="quick")
    found = model.audit(texts, Y)
    assert not hasattr(model, "model_")
    assert {one["label"] for one in found} <= {0, 1, 2, 3}  # columns without names are numbers
    tags = [{name for name, true in zip("abcd", row, strict=True) if true} for row in Y]
    named = model.audit(texts, tags)
    assert [one["label"] for one in named] == ["abcd"[one["label"]] for one in found]
    with pytest.raises(LampnetError, match="at least one"):
        model.audit(texts, Y, most=0)
    with pytest.raises(DataError, match="at least 10 are needed"):
        model.audit(texts[:6], Y[:6])


def test_both_tables_and_the_page_hold_the_findings_whatever_the_names_are(tmp_path):
    texts, Y = words(60)
    names = ('"quoted", <b>', "=1+1\nnext", "</script><script>alert(1)</script>", "שלום")
    texts[3] = "</script><img src=x onerror=alert(1)>" + texts[3]
    rows = as_rows(texts, Y, names, ids=tuple(f"<i>{i}</i>" for i in range(60)))
    found = audit(rows, Config.preset("quick"))
    files = write_audit(found, rows, tmp_path / "report")
    read = list(csv.DictReader(io.StringIO(files.table.read_text(encoding="utf-8"), newline="")))
    plain = json.loads(files.data.read_text(encoding="utf-8"))
    assert plain == [one.to_json() for one in found.findings]
    assert [(int(r["row"]), r["id"], r["label"], json.loads(r["labels"])) for r in read] == [
        (one["row"], one["id"], one["label"], one["labels"]) for one in plain
    ]
    page = files.page.read_text(encoding="utf-8")
    assert page.count("</script>") == 2  # the data's element and the script's
    assert "<img" not in page


def test_a_report_is_only_replaced_when_asked_and_never_written_by_two(tmp_path):
    texts, Y = words(60)
    Y[:3] = 1 - Y[:3]
    rows = as_rows(texts, Y)
    found = audit(rows, Config.preset("quick"))
    out = tmp_path / "report"
    write_audit(found, rows, out)
    before = {name: (out / name).read_bytes() for name in (PAGE, TABLE, DATA)}
    with pytest.raises(DataError, match="add --overwrite"):
        write_audit(found, rows, out)
    write_audit(audit(rows, Config.preset("quick"), most=1), rows, out, overwrite=True)
    assert {name: (out / name).read_bytes() for name in before} != before
    assert sorted(path.name for path in out.iterdir()) == sorted(before)
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="is a file"):
        write_audit(found, rows, tmp_path / "file")

    faults = []

    def write():
        try:
            write_audit(found, rows, out, overwrite=True)
        except LampnetError as fault:
            faults.append(str(fault))

    with claimed(out):
        other = threading.Thread(target=write)
        other.start()
        other.join()
    assert len(faults) == 1
    assert "another run" in faults[0]
