"""One fitted model in a server's threads: every answer is the one that a single thread gets, for every input kind."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.utils import validation
from small_encoders import small_static, small_transformer

from lampnet import LaMPClassifier
from lampnet.data.feature_names import checked
from lampnet.model.kernels.int8 import Int8Linear
from lampnet.runtime.torch_state import threads

pytestmark = pytest.mark.faults

THREADS, CALLS = 20, 8
N = 24
DRAW = np.random.default_rng(0)
FIRST, SECOND = DRAW.random(N) < 0.5, DRAW.random(N) < 0.4
TAGS = np.stack([FIRST, SECOND, FIRST & SECOND, DRAW.random(N) < 0.3], axis=1).astype(float)
SETTINGS = {"training.warmup_steps": 5, "training.folds": 1, "model.dropout": 0.5, "input.min_count": 1}


def word_sets() -> Any:
    """Columns in no order, some twice: what a library may be tempted to sort in place."""
    indices = np.concatenate([[7, 3, int(a), 7, 2 + int(b)] for a, b in zip(FIRST, SECOND, strict=True)])
    return sparse.csr_matrix((np.ones(len(indices)), indices, np.arange(0, 5 * N + 1, 5)), shape=(N, 8))


def texts() -> list[str]:
    words = np.array(["rome", "oslo", "cup", "rain", "news", "wins", "falls", "rises", "match", "storm"])
    return [" ".join(words[DRAW.integers(0, 10, size=1 + row % 9)]) + " cup" * bool(b) for row, b in enumerate(FIRST)]


def vectors() -> Any:
    return DRAW.normal(size=(N, 20)) + FIRST[:, None]


def columns() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"size": DRAW.normal(size=N) + FIRST, "colour": np.where(SECOND, "red", "blue")})


def dna() -> list[str]:
    return ["".join(DRAW.choice(list("ACGT"), 40)) + ("TATATATA" if a else "GCGCGCGC") for a in FIRST]


def molecules() -> list[str]:
    pytest.importorskip("rdkit")
    return [("C" * (2 + row % 5)) + ("O" if a else "N") + "c1ccccc1" * (row % 2) for row, a in enumerate(FIRST)]


def pictures() -> list[np.ndarray]:
    return [DRAW.integers(100 * FIRST[row], 220, size=(8, 8 + row % 3, 3), dtype=np.uint8) for row in range(N)]


def parts() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {"text": texts(), "molecule": molecules(), "first": FIRST, "row": [str(r) for r in range(N)]}
    )


KINDS: dict[str, tuple[Callable[[], Any], str]] = {
    "word sets": (word_sets, "wordset"),
    "text": (texts, "text"),
    "vectors": (vectors, "vector"),
    "columns": (columns, "columns"),
    "DNA": (dna, "dna"),
    "molecules": (molecules, "molecule"),
    "images": (pictures, "image"),
    "pretrained text": (texts, "text"),
    "pooled text": (texts, "text"),
    "token states": (texts, "text"),
    "static vectors": (texts, "text"),
    "parts": (parts, "parts"),
}
#: kinds that read a small pretrained encoder, and what they use it for
USES = {"pretrained text": "nodes", "pooled text": "pooled", "token states": "tokens", "static vectors": "pooled"}
READERS = "linear,pretrained_linear,pretrained_knn,label_names"
#: what the columns of rows with several parts are, where that cannot be told from their values
COLUMNS = {"smiles": "molecule", "category": "row"}


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Threads take turns after every few instructions; torch computes on one thread, as exactness needs."""
    before = sys.getswitchinterval(), torch.get_num_threads()
    sys.setswitchinterval(1e-5)
    torch.set_num_threads(1)
    yield
    sys.setswitchinterval(before[0])
    torch.set_num_threads(before[1])


def at_once(tasks: list[Callable[[], Any]]) -> list[Any]:
    """The results of all tasks, shared among threads that start together."""
    start = threading.Barrier(THREADS)

    def work(mine: list[Callable[[], Any]]) -> list[Any]:
        start.wait()
        return [task() for task in mine]

    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(work, [tasks[number::THREADS] for number in range(THREADS)]))
    results: list[Any] = [None] * len(tasks)
    for number, own in enumerate(done):
        results[number::THREADS] = own
    return results


def some_rows(X: Any, chosen: np.ndarray) -> Any:
    if isinstance(X, list):
        return [X[row] for row in chosen]
    return X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]


def plain_data(answer: Any) -> Any:
    """Explanations as plain data; questions and suggestions are that already."""
    parts = answer if isinstance(answer, list) else [answer]
    return [one.to_json() if hasattr(one, "to_json") else one for one in parts]


def one_row(X: Any, row: int) -> Any:
    return X.iloc[row] if hasattr(X, "iloc") else X[row]


@pytest.fixture(scope="module", params=list(KINDS))
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    """A saved model of one input kind, and rows for it."""
    make, kind = KINDS[request.param]
    settings, encoder = dict(SETTINGS), tmp_path_factory.mktemp("encoder") / "small"
    if request.param == "static vectors":
        small_static(encoder)
    elif request.param in USES:
        pytest.importorskip("transformers", reason="the extra lampnet[pretrained] is not installed")
        small_transformer(encoder)
    if request.param in USES:
        settings |= {"input.pretrained": str(encoder), "input.pretrained_use": USES[request.param]}
        settings |= {"model.base_learners": READERS} if USES[request.param] != "nodes" else {}
        settings |= {"training.keep_network": "always"}
    X = make()
    folder = tmp_path_factory.mktemp("concurrent") / "model"
    given = {"columns": COLUMNS} if request.param == "parts" else {}
    model = LaMPClassifier(input_kind=kind, width=16, heads=2, epochs=1, n_jobs=1, settings=settings, **given)
    model.fit(X, TAGS).save(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMPNET_PRETRAINED", settings.get("input.pretrained", ""))
        yield folder, X


def test_predictions_in_twenty_threads_are_those_of_one(
    fitted: tuple[Path, Any], record: Callable[[str, Any], None], request: pytest.FixtureRequest
) -> None:
    folder, X = fitted
    sizes = DRAW.integers(1, 6, size=THREADS * CALLS)
    chosen = [np.sort(DRAW.permutation(N)[:size]) for size in sizes]
    chosen[:THREADS] = [np.arange(N)] * THREADS  # the first call of each thread takes the caller's own rows

    def tasks(model: LaMPClassifier) -> list[Callable[[], Any]]:
        return [
            lambda rows=rows: model.predict_proba(X if len(rows) == N else some_rows(X, rows))  # type: ignore[misc]
            for rows in chosen
        ]

    sequential = [task() for task in tasks(LaMPClassifier.load(folder))]
    concurrent = at_once(tasks(LaMPClassifier.load(folder)))  # loaded anew: nothing is laid out yet
    wrong = [
        number for number, (a, b) in enumerate(zip(sequential, concurrent, strict=True)) if not np.array_equal(a, b)
    ]
    assert wrong == []
    record(f"concurrent_predictions[{request.node.callspec.params['fitted']}]", len(concurrent))


def test_explanations_and_other_layouts_in_twenty_threads_are_those_of_one(fitted: tuple[Path, Any]) -> None:
    folder, X = fitted

    def tasks(model: LaMPClassifier) -> list[Callable[[], Any]]:
        rows = model._dataset(X).rows
        few = model._dataset(some_rows(X, np.arange(3))).rows
        made, labels = model.model_, model.classes_.tolist()
        known = [[{labels[(row + number) % 4]: row % 3 > 0} for row in range(N)] for number in range(THREADS)]
        return [
            *(lambda row=row: model.explain(X, rows=[row % N]) for row in range(THREADS)),  # type: ignore[misc]
            *(lambda size=size: made.for_prediction(shortlist=1 + size % 4).proba(rows) for size in range(THREADS)),  # type: ignore[misc]
            *(lambda: replace(made, precision="int8").proba(few) for _ in range(THREADS)),
            *(lambda: model.predict(X) for _ in range(THREADS)),
            *(lambda given=given: model.predict_proba(X, known=given) for given in known),  # type: ignore[misc]
            *(lambda row=row: model.suggest(one_row(X, row), known=known[row][0]) for row in range(THREADS)),  # type: ignore[misc]
            *(lambda row=row: model.next_question(one_row(X, row), known=known[row][0]) for row in range(THREADS)),  # type: ignore[misc]
        ]

    filters = list(warnings.filters)
    sequential = [task() for task in tasks(LaMPClassifier.load(folder))]
    concurrent = at_once(tasks(LaMPClassifier.load(folder)))
    for number, (a, b) in enumerate(zip(sequential, concurrent, strict=True)):
        if isinstance(a, np.ndarray):
            assert np.array_equal(a, b), number
        else:
            assert plain_data(a) == plain_data(b), number
    assert warnings.filters == filters


def together(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, but a thread inside it waits for a second one to come in as well, for a moment."""
    pair = threading.Barrier(2)

    def waiting(*arguments: Any, **options: Any) -> Any:
        with suppress(threading.BrokenBarrierError):
            pair.wait(timeout=1)
        return call(*arguments, **options)

    return waiting


def test_a_model_is_laid_out_once(fitted: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = LaMPClassifier.load(fitted[0]).model_
    monkeypatch.setattr(model._layouts, "lay_out", together(model._layouts.lay_out))
    networks = at_once([lambda: model._layouts.suited_to(5)] * THREADS)
    assert len({id(network) for network in networks}) == 1


def test_int8_layouts_made_side_by_side_leave_the_warning_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "quantize_per_channel", together(torch.quantize_per_channel))
    filters = list(warnings.filters)
    at_once([lambda: Int8Linear(torch.eye(4))] * THREADS)
    assert warnings.filters == filters


def test_rows_checked_side_by_side_leave_the_warning_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    convert, pair, one_has_left = validation._asarray_with_order, threading.Barrier(2), threading.Event()

    def first_in_first_out(*arguments: Any, **options: Any) -> Any:
        """Inside scikit-learn's own `catch_warnings`: who came first leaves first, the worst order for the filters."""
        came_second = pair.n_waiting == 1
        with suppress(threading.BrokenBarrierError):
            pair.wait(timeout=1)
            if came_second:
                one_has_left.wait(timeout=1)
        return convert(*arguments, **options)

    def check_rows() -> None:
        checked(LaMPClassifier(), np.eye(4), "vector", reset=True)
        one_has_left.set()

    monkeypatch.setattr(validation, "_asarray_with_order", first_in_first_out)
    filters = list(warnings.filters)
    at_once([check_rows] * 2)
    assert warnings.filters == filters


def test_trainings_side_by_side_leave_the_number_of_threads() -> None:
    entered, left = threading.Barrier(2), threading.Event()

    def first() -> int:
        with threads(2):
            entered.wait()
        left.set()
        return torch.get_num_threads()

    def second() -> int:  # enters after the first, leaves after the first
        with threads(2):
            entered.wait()
            left.wait()
            inside.append(torch.get_num_threads())
        return torch.get_num_threads()

    inside: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(first), pool.submit(second)]
        assert [one.result() for one in ended] == [1, 1]
    assert inside == [2]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 1
