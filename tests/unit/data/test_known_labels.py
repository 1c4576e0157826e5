"""Known labels in every form that callers hold them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from lampnet.data.known_labels import as_dicts, nothing_known, read_known, states_of_truth
from lampnet.errors import DataError

LABELS = ["corn", "grain", "wheat"]

states_arrays = hnp.arrays(np.int8, st.tuples(st.integers(0, 5), st.just(3)), elements=st.sampled_from([-1, 0, 1]))


@given(states_arrays)
def test_every_form_reads_to_the_same_states(states):
    n = len(states)
    array = np.where(states == 0, np.nan, states == 1)
    rows, columns = np.nonzero(states)
    csr = sparse.csr_matrix(((states[rows, columns] == 1).astype(float), (rows, columns)), shape=states.shape)
    dicts = [{LABELS[j]: bool(row[j] == 1) for j in np.flatnonzero(row)} for row in states]
    for form in (
        array,
        csr,
        dicts,
        pd.DataFrame(array, columns=LABELS),
        pd.DataFrame(array, columns=LABELS)[LABELS[::-1]],
    ):
        assert read_known(form, LABELS, n).tolist() == states.tolist()
    if (states >= 0).all():
        lists = [[LABELS[j] for j in np.flatnonzero(row)] for row in states]
        assert read_known(lists, LABELS, n).tolist() == states.tolist()


def test_a_stored_zero_of_a_sparse_matrix_is_false_and_an_absent_entry_unknown():
    known = sparse.csr_matrix((np.array([1.0, 0.0, np.nan]), [0, 1, 2], [0, 3]), shape=(1, 3))
    assert read_known(known, LABELS, 1).tolist() == [[1, -1, 0]]
    assert read_known(sparse.csr_matrix((1, 3)), LABELS, 1).tolist() == [[0, 0, 0]]


def test_none_nan_and_missing_values_are_unknown():
    assert read_known(None, LABELS, 2).tolist() == nothing_known(2, 3).tolist()
    assert read_known([None, float("nan")], LABELS, 2).tolist() == nothing_known(2, 3).tolist()
    assert read_known([{"corn": None, "grain": True}], LABELS, 1).tolist() == [[0, 1, 0]]


def test_labels_that_are_numbers_are_named_by_numbers_or_their_text():
    assert read_known([{7: True, "9": False}], [7, 8, 9], 1).tolist() == [[1, 0, -1]]
    assert read_known([[8]], [7, 8, 9], 1).tolist() == [[0, 1, 0]]


def test_lists_of_zeros_and_ones_as_long_as_the_labels_are_an_array():
    assert read_known([[1, 0, None]], LABELS, 1).tolist() == [[1, -1, 0]]


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ([{"grian": True}], "row 0 of known: the model has no label 'grian'; did you mean 'grain'?"),
        ([{"corn": True, "wheat": 2}], "row 0 of known: 'wheat' is 2; give true, false or a probability"),
        ([{"corn": "yes"}], "row 0 of known: 'corn' is 'yes'"),
        (["corn"], "row 0 of known is 'corn'; give a list of labels"),
        ({"corn": True}, "known is one dict; give a list with one dict or one list of labels for each row"),
        ([["corn"], ["wheat"]], "X has 1 rows, but known has 2"),
        (np.array([[1.0, 0.0]]), "known has shape (1, 2); give one row for each of the 1 rows and 3 columns"),
        (np.array([[1.0, 1.5, np.nan]]), "known holds 1.5; give 1 (true), 0 (false), a probability or NaN (unknown)"),
        (np.array([["a", "b", "c"]]), "known holds <U1 values"),
        (pd.DataFrame({"maize": [1]}), "known: the model has no label 'maize'"),
        (pd.DataFrame({"corn": ["x"]}), "the column 'corn' of known must hold 1, 0, probabilities or NaN"),
        (sparse.coo_matrix(([1.0, 0.0], ([0, 0], [1, 1])), shape=(1, 3)), "known holds an entry twice"),
        (5, "known is 5; give a list"),
    ],
)  # fmt: skip
def test_a_mistake_gets_a_sentence(known, sentence):
    with pytest.raises(DataError) as caught:
        read_known(known, LABELS, 1)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_label_that_is_both_true_and_false_is_a_contradiction():
    with pytest.raises(DataError, match="row 0 of known: the label '7' is both true and false"):
        read_known([{7: False, "7": True}], [7, 8], 1)


def test_probabilities_read_alike_in_every_form():
    array = np.array([[0.75, 0.0, np.nan], [1.0, 0.5, 0.2]])
    dicts = [{"corn": 0.75, "grain": False}, {"corn": True, "grain": 0.5, "wheat": 0.2}]
    rows, columns = np.nonzero(~np.isnan(array))
    csr = sparse.csr_matrix((array[rows, columns], (rows, columns)), shape=array.shape)
    wanted = np.array([[0.5, -1, 0], [1, 0, -0.6]])
    for form in (array, dicts, csr, pd.DataFrame(array, columns=LABELS), array.tolist()):
        states = read_known(form, LABELS, 2)
        np.testing.assert_allclose(states, wanted, atol=1e-5)
        assert states[1, 1] != 0  # even odds are not the same as unknown
        assert as_dicts(states, LABELS) == dicts
    with pytest.raises(DataError, match="known holds probabilities, but the rows of this model have exactly one class"):
        read_known(dicts, LABELS, 2, one_class=True)


def test_with_one_class_per_row_a_true_class_excludes_the_others():
    assert read_known([["grain"]], LABELS, 1, one_class=True).tolist() == [[-1, 1, -1]]
    assert read_known([{"corn": False}], LABELS, 1, one_class=True).tolist() == [[-1, 0, 0]]
    assert read_known([{"corn": False, "wheat": False}], LABELS, 1, one_class=True).tolist() == [[-1, 1, -1]]
    with pytest.raises(DataError, match="'corn' and 'wheat' are both true, but the rows of this model have exactly"):
        read_known([["corn", "wheat"]], LABELS, 1, one_class=True)
    with pytest.raises(DataError, match="every class is false"):
        read_known([dict.fromkeys(LABELS, False)], LABELS, 1, one_class=True)


def test_truth_as_states():
    assert states_of_truth(np.array([[1.0, 0.0, np.nan]])).tolist() == [[1, -1, 0]]
