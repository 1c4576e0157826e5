"""The service as its users see it: what it answers, what it refuses, what it survives."""

from __future__ import annotations

import json
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from running_service import Running, model_of, serving, topic_rows

from lampnet import LaMPClassifier

ROWS = [{"text": text} for text in topic_rows(16)[0]]


def test_predictions_are_those_of_the_loaded_model(service: Running, topics: Path) -> None:
    model = LaMPClassifier.load(topics)
    texts = [row["text"] for row in ROWS]
    for known in (None, [{"cup": True}] * len(ROWS), [["cup"], *[None] * (len(ROWS) - 1)]):
        found = service.predictions(ROWS, **({} if known is None else {"known": known}))
        assert [one["labels"] for one in found] == model.predict_labels(texts, known=known)
        proba = model.predict_proba(texts, known=known)
        for row, one in enumerate(found):
            for label, score in one["scores"].items():
                assert score == pytest.approx(proba[row, model.classes_.tolist().index(label)], abs=2e-6)


def test_known_labels_inside_rows_count_as_beside_them(service: Running) -> None:
    inside = service.predictions([{"text": "nothing", "known": {"cup": True, "rain": False}}])
    beside = service.predictions([{"text": "nothing"}], known=[{"cup": True, "rain": False}])
    assert inside == beside
    assert inside[0]["scores"]["cup"] == 1.0
    clash = service.post("/predict", {"rows": [{"text": "a", "known": ["cup"]}], "known": [{"cup": False}]})
    assert clash.status_code == 400
    assert "contradicts" in clash.json()["error"]


def test_label_sets_as_asked_for(service: Running, topics: Path) -> None:
    model = LaMPClassifier.load(topics)
    texts = [row["text"] for row in ROWS]
    for asked in ({"top_k": 2}, {"threshold": 0.9}, {"threshold": 0.9, "at_least_one": True}):
        for known in (None, [{"rome": False}] * len(ROWS)):
            found = service.predictions(ROWS, **asked, **({} if known is None else {"known": known}))
            assert [one["labels"] for one in found] == model.predict_labels(texts, known=known, **asked)


def test_suggestions_and_questions_are_those_of_the_model(service: Running, topics: Path) -> None:
    model = LaMPClassifier.load(topics)
    body = {"rows": [{"text": "about a cup"}], "known": [["rain"]]}
    found = service.post("/suggest", {**body, "most": 2}).json()["suggestions"][0]
    expected = model.suggest("about a cup", known=["rain"], most=2)
    assert [one["label"] for one in found] == [one["label"] for one in expected]
    assert found[0]["known"]["rain"] == pytest.approx(expected[0]["known"]["rain"], abs=1e-3)
    asked = service.post("/next-question", body).json()["questions"][0]
    assert asked["label"] == model.next_question("about a cup", known=["rain"])


def test_explanations(tmp_path: Path) -> None:
    with serving(model_of(tmp_path / "fast", preset="fast")) as running:
        answer = running.post("/explain", {"rows": ROWS[:2], "labels": ["rain"]})
        assert answer.status_code == 200, answer.text
        explained = answer.json()["explanations"]
        assert [one["labels"].count("rain") for one in explained] == [1, 1]
        assert running.post("/explain", {"rows": ROWS * 2}).status_code == 400


@pytest.mark.parametrize("preset", ["quick", "fast"])
def test_explanations_given_known_labels_are_those_of_the_model(tmp_path: Path, preset: str) -> None:
    folder = model_of(tmp_path / "topics", preset=preset)
    model = LaMPClassifier.load(folder)
    texts = [row["text"] for row in ROWS[:3]]
    known = [{"cup": True, "rome": False}, None, ["rain"]]
    expected = [one.to_json() for one in model.explain(texts, labels=["cup", "match"], known=known)]
    with serving(folder) as running:
        asked = {"rows": ROWS[:3], "labels": ["cup", "match"]}
        answer = running.post("/explain", {**asked, "known": known})
        assert answer.status_code == 200, answer.text
        found = answer.json()["explanations"]
        for row, one, own in zip(texts, found, expected, strict=True):
            assert (one["labels"], one["known"], one["chosen"]) == (own["labels"], own["known"], own["chosen"])
            assert one["proba"] == pytest.approx(own["proba"], abs=1e-5)
            said = known[texts.index(row)]
            for suggested in model.suggest(row, known=said) if said else ():
                if suggested["label"] in one["labels"]:
                    assert one["known_shifts"][suggested["label"]] == pytest.approx(suggested["known"], abs=1e-3)
        place = found[0]["labels"].index
        assert (found[0]["known"][place("cup")], found[0]["known"][place("match")]) == (True, None)
        assert found[0]["proba"][place("cup")] == 1.0
        assert set(found[0]["known_shifts"]["match"]) == {"cup", "rome"}
        assert not {"cup", "rome"} & set(found[0]["known_shifts"])
        assert (found[1]["known"], found[1]["known_shifts"]) == (None, {})
        # inside the rows as beside them, and a probability as well as an answer
        inside = [row | {"known": said} for row, said in zip(ROWS[:3], known, strict=True) if said]
        again = running.post("/explain", asked | {"rows": inside}).json()["explanations"]
        assert [one["proba"] for one in again] == [pytest.approx(found[i]["proba"], abs=1e-5) for i in (0, 2)]
        (soft,) = running.post("/explain", {"rows": ROWS[:1], "known": [{"cup": 0.5}]}).json()["explanations"]
        assert soft["known"][soft["labels"].index("cup")] == 0.5
        assert "cup" in soft["known_shifts"]["match"]
        assert "known_shifts" not in running.post("/explain", {"rows": ROWS[:1]}).json()["explanations"][0]
        refused = running.post("/explain", {"rows": ROWS[:1], "known": [["nope"]]})
        assert refused.status_code == 400
        assert "no label 'nope'" in refused.json()["error"]


def test_what_the_service_tells_of_itself(service: Running, topics: Path) -> None:
    assert service.get("/health").json() == {"status": "ok", "models": ["topics"]}
    labels = service.get("/labels").json()
    assert labels["labels"] == LaMPClassifier.load(topics).classes_.tolist()
    assert labels["kind"] == "text"
    assert set(service.get("/openapi.json").json()["paths"]) >= {"/predict", "/suggest", "/next-question", "/explain"}
    service.predictions(ROWS[:3])
    counted = service.get("/metrics").text
    assert 'lampnet_requests_total{path="/predict",status="200"}' in counted
    assert "lampnet_batch_rows_bucket" in counted


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/predict", {"rows": []}, 400, "at least 1"),
        ("/predict", {"row": ROWS}, 400, "rows"),
        ("/predict", {"rows": [{"txt": "a"}]}, 400, "did you mean 'text'"),
        ("/predict", {"rows": [{}]}, 400, "sequence, image; give exactly one input field"),
        ("/predict", {"rows": [{"text": 5}]}, 400, "must be a string"),
        ("/predict", {"rows": [{"text": "a"}, {"smiles": "C"}]}, 400, "one kind"),
        ("/predict", {"rows": ROWS[:1], "known": [["nope"]]}, 400, "no label 'nope'"),
        ("/predict", {"rows": ROWS[:1], "known": [[], []]}, 400, "same number"),
        ("/predict", {"rows": ROWS[:1], "known": ["cup"]}, 400, "known.0: give for each row {label"),
        ("/predicted", {"rows": ROWS[:1]}, 404, "there is no POST /predicted"),
        ("/health", {}, 405, "there is no POST /health"),
        ("/predict", {"rows": ROWS[:1], "decision": "exmple_f1"}, 400, "did you mean"),
        ("/predict", {"rows": ROWS[:1], "top_k": 0}, 400, "top_k"),
        ("/predict", {"rows": ROWS[:1], "threshold": 1.5}, 400, "threshold"),
        ("/predict", {"rows": ROWS[:1], "model": "other"}, 404, "no model 'other'"),
        ("/predict", {"rows": [{"text": "a"}] * 65}, 400, "65 rows"),
        ("/predict", {"rows": [{"text": "x" * 70000}]}, 413, "larger than"),
        ("/predict", {"rows": [{"image": "/etc/passwd"}]}, 400, "image"),
        ("/suggest", {"rows": ROWS[:1], "most": -1}, 400, "most"),
        ("/v2/models/other/infer", {"inputs": []}, 404, "no model 'other'"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(service: Running, path: str, body: Any, status: int, words: str) -> None:
    answer = service.post(path, body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]


@pytest.mark.parametrize("decision", ["whole set", "recall>=0.3"])
def test_decisions_are_those_of_the_model(service: Running, topics: Path, decision: str) -> None:
    model = LaMPClassifier.load(topics).set_params(decision=decision)
    found = service.predictions(ROWS, decision=decision)
    assert [one["labels"] for one in found] == model.predict_labels([row["text"] for row in ROWS])
    if decision == "whole set":
        known = [{"cup": True}] * len(ROWS)
        found = service.predictions(ROWS, decision=decision, known=known)
        assert [one["labels"] for one in found] == model.predict_labels([row["text"] for row in ROWS], known=known)


def test_promises_and_whole_sets_are_refused_beside_other_choices(service: Running) -> None:
    for more, words in (
        ({"decision": "recall>=5"}, "is not a promise"),
        ({"decision": "recall>=0.3", "known": [["cup"]]}, "nothing is known"),
        ({"decision": "whole set", "top_k": 2}, "leave out top_k"),
    ):
        answer = service.post("/predict", {"rows": ROWS[:1], **more})
        assert answer.status_code == 400
        assert words in answer.json()["error"]


def test_explanations_add_up_to_the_logit(service: Running) -> None:
    (row,) = service.post("/explain", {"rows": ROWS[:1]}).json()["explanations"]
    assert row["stages"] == ["0"]
    for one in row["logit_sums"]:
        assert sum(source["value"] for source in one["contributions"]) == pytest.approx(one["logit"], abs=1e-4)


def test_bodies_without_a_stated_length_are_limited_too(service: Running) -> None:
    pieces = (b"x" * 1000 for _ in range(1000))
    answer = requests.post(service.url + "/predict", data=pieces, timeout=30)
    assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"", b"[", b"\xff\xfe", b"null", b"5", b"[" * 50_000, b'{"rows": [], "rows": []}'])
def test_what_is_no_request_is_refused(service: Running, body: bytes) -> None:
    for path in ("/predict", "/v2/models/topics/infer"):
        answer = requests.post(service.url + path, data=body, timeout=30)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]


NAMES = ["rows", "known", "text", "features", "image", "labels", "top_k", "decision", "model", "inputs", "data", "id"]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["cup", "rome", "recall>=nan", "recall>=1e400", 10**400, -(10**30), 2**63]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)
bodies = st.fixed_dictionaries(
    {"rows": st.lists(st.dictionaries(st.sampled_from(NAMES), values, max_size=3) | values, max_size=3)},
    optional=dict.fromkeys(
        ("known", "top_k", "threshold", "at_least_one", "decision", "most", "labels", "model"), values
    ),
)
tensors = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["text", "known"]) | values,
        "shape": st.lists(st.integers(-1, 3), max_size=3) | values,
        "datatype": st.sampled_from(["BYTES", "INT8", "FP32"]) | values,
        "data": values,
        "parameters": st.dictionaries(st.sampled_from(["binary_data_size"]), values),
    },
)
inferences = st.fixed_dictionaries({"inputs": st.lists(tensors, max_size=3) | values}, optional={"outputs": values})


@settings(max_examples=60, deadline=None)
@given(body=bodies, path=st.sampled_from(["/predict", "/suggest", "/next-question", "/explain"]))
def test_no_request_makes_the_service_fail(service: Running, body: Any, path: str) -> None:
    check_answered(service, path, body)


@settings(max_examples=60, deadline=None)
@given(body=inferences)
def test_no_inference_request_makes_the_service_fail(service: Running, body: Any) -> None:
    check_answered(service, "/v2/models/topics/infer", body)


def check_answered(service: Running, path: str, body: Any) -> None:
    answer = requests.post(service.url + path, data=json.dumps(body).encode(), timeout=30)
    assert answer.status_code in (200, 400, 404, 413), (body, answer.text)
    assert answer.status_code == 200 or answer.json()["error"]


TEXT = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}
KNOWN = {"name": "known", "shape": [1, 4], "datatype": "INT8"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"inputs": [{**TEXT, "shape": []}]}, "has 0 numbers"),
        ({"inputs": [{**TEXT, "shape": [1] * 20_000}]}, "has 20000 numbers"),
        ({"inputs": [TEXT], "id": float("nan")}, "must be a text"),
        ({"inputs": [TEXT], "outputs": [{"name": "labels"}] * 1_000}, "asked for twice"),
        ({"inputs": [{**TEXT, "name": "other"}, {**TEXT, "shape": [65], "data": ["a"] * 65}]}, "65 rows"),
        ({"inputs": [TEXT, {**KNOWN, "data": [0.9, 0, 0, 0]}]}, "do not fit"),
        ({"inputs": [TEXT, {**KNOWN, "data": ["1", 0, 0, 0]}]}, "do not fit"),
    ],
    ids=["no axis", "many axes", "id", "outputs", "rows of the second tensor", "cut off numbers", "texts as numbers"],
)
def test_hostile_inference_requests_are_refused(service: Running, body: Any, words: str) -> None:
    answer = requests.post(service.url + "/v2/models/topics/infer", data=json.dumps(body).encode(), timeout=30)
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]


def test_a_stated_length_of_thousands_of_digits_is_refused(service: Running) -> None:
    headers = {"inference-header-content-length": "9" * 5_000}
    answer = service.post("/v2/models/topics/infer", {"inputs": [TEXT]}, headers=headers)
    assert answer.status_code == 400, answer.text


def test_errors_do_not_send_back_what_was_sent(service: Running) -> None:
    for path, body in (("/predict", {"rows": ROWS[:1], "x" * 50_000: 1}), ("/explain", {"labels": ["x" * 50_000]})):
        answer = service.post(path, {"rows": ROWS[:1], **body})
        assert answer.status_code == 400
        assert len(answer.text) < 2_000


def test_many_clients_at_once_get_what_each_would_get_alone(service: Running) -> None:
    asked = [
        {"rows": ROWS[i % 9 : i % 9 + 1 + i % 4], **({"known": [["cup"]] * (1 + i % 4)} if i % 3 else {})}
        for i in range(48)
    ]
    alone = [service.predictions(**body) for body in asked]
    with ThreadPoolExecutor(24) as threads:
        together = list(threads.map(lambda body: service.predictions(**body), asked))
    assert together == alone


def test_a_full_queue_says_when_to_come_again(topics: Path) -> None:
    with serving(topics, "--max-queue", 1) as running, ThreadPoolExecutor(24) as threads:
        expected = running.predictions(ROWS[:1])
        statuses: set[int] = set()
        for _ in range(50):  # rounds of 24 requests at once, of which one may wait
            for answer in threads.map(lambda _: running.post("/predict", {"rows": ROWS[:1]}), range(24)):
                statuses.add(answer.status_code)
                if answer.status_code == 429:
                    assert answer.headers["retry-after"].isdigit()
                    assert "try again" in answer.json()["error"]
                else:
                    assert answer.json()["predictions"] == expected
            if 429 in statuses:
                break
        assert statuses == {200, 429}
        assert running.predictions(ROWS[:1]) == expected


def test_a_request_that_takes_too_long_is_ended_with_a_sentence(topics: Path) -> None:
    with serving(topics, "--timeout", "0.001") as running:
        answer = running.post("/predict", {"rows": ROWS * 60})
        assert answer.status_code == 503
        assert "no answer within 0.001 s" in answer.json()["error"]
        assert running.get("/health").status_code == 200


def unfinished(service: Running, sent: bytes) -> socket.socket:
    """A connection on which something was sent that is no whole request."""
    where = urlsplit(service.url)
    opened = socket.create_connection((where.hostname, where.port), timeout=60)
    opened.sendall(sent)
    return opened


HEAD = b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"


def test_requests_that_do_not_come_to_an_end_are_ended(topics: Path) -> None:
    with serving(topics, "--timeout", 1) as service, ExitStack() as opened:
        sent = (b"", HEAD[:20], HEAD % 9 + b"{")
        silent, half_a_head, half_a_body = (opened.enter_context(unfinished(service, part)) for part in sent)
        assert silent.recv(100) == b""
        assert half_a_head.recv(100) == b""
        answer = opened.enter_context(half_a_body.makefile("rb")).read()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 5 s" in answer
        with requests.Session() as kept:  # a connection that waits for a further request is left alone
            for _ in range(2):
                assert kept.post(service.url + "/predict", json={"rows": ROWS[:1]}).status_code == 200
                assert half_a_head.recv(100) == b""


def test_bodies_of_all_requests_together_are_bounded(topics: Path) -> None:
    size = 1 << 20
    with serving(topics, "--max-body", size) as service, ExitStack() as opened:
        sent = HEAD % size + b" " * (size - 1)
        held = [opened.enter_context(unfinished(service, sent)) for _ in range(9)]  # one more than there is room for
        (refused,) = select.select(held, [], [], 60)[0]
        answer = refused.recv(1000)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after" in answer
        for one in held:
            one.close()
        while service.post("/predict", {"rows": ROWS[:1]}).status_code == 429:  # until it has noticed
            pass
        assert service.predictions(ROWS[:1])


def test_a_token_is_asked_for(topics: Path) -> None:
    with serving(topics, token="secret") as running:
        assert running.get("/health").status_code == 200
        assert running.get("/").status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            refused = running.post("/predict", {"rows": ROWS[:1]}, headers=headers)
            assert refused.status_code == 401
            assert "token" in refused.json()["error"]
        allowed = running.post("/predict", {"rows": ROWS[:1]}, headers={"Authorization": "Bearer secret"})
        assert allowed.status_code == 200


def test_foreign_names_of_this_machine_are_refused(service: Running) -> None:
    assert service.get("/labels", headers={"Host": "rebound.example"}).status_code == 400


def test_a_new_model_is_served_without_a_dropped_request(tmp_path: Path) -> None:
    folder = model_of(tmp_path / "topics")
    with serving(folder) as running:
        first = running.get("/labels").json()["version"]
        stop, failures = threading.Event(), []

        def ask() -> None:
            while not stop.is_set():
                answer = running.post("/predict", {"rows": ROWS[:2]})
                if answer.status_code != 200:
                    failures.append(answer.text)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        model_of(folder, seed=1, n=40)
        while running.get("/labels").json()["version"] == first:
            assert running.process.poll() is None
        stop.set()
        for thread in threads:
            thread.join()
        assert not failures
        assert (
            running.predictions(ROWS[:2])[0]["labels"]
            == LaMPClassifier.load(folder).predict_labels(["report 0 about nothing"])[0]
        )


def test_a_damaged_model_leaves_the_former_one(tmp_path: Path) -> None:
    folder = model_of(tmp_path / "topics")
    with serving(folder) as running:
        before = running.predictions(ROWS[:2])
        damaged = tmp_path / "model.json"
        damaged.write_text("{}")
        damaged.replace(folder / "model.json")
        running.log.wait_for("cannot be loaded")
        assert running.predictions(ROWS[:2]) == before


def test_a_stopped_service_answers_what_it_has_accepted(topics: Path) -> None:
    with serving(topics) as running:
        with ThreadPoolExecutor(1) as thread:
            body = {"rows": ROWS * 60}
            pending = thread.submit(running.post, "/predict", body)
            while "lampnet_batch_rows_count 0.0" in running.get("/metrics").text and not pending.done():
                pass
            running.process.send_signal(signal.SIGTERM)
            answer = pending.result()
        assert answer.status_code == 200
        assert running.process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere"),
        (["{topics}", "--workers", "0"], "--workers"),
        (["{topics}", "--port", "70000"], "--port"),
        (["{topics}", "--max-rows", "0"], "--max-rows"),
        (["{topics}", "{topics}"], "two models"),
    ],
)
def test_mistakes_at_the_start(topics: Path, arguments: list[str], words: str) -> None:
    command = [sys.executable, "-m", "lampnet", "serve", *(one.format(topics=topics) for one in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_open_service_without_a_token_is_warned_of(topics: Path) -> None:
    with serving(topics, "--host", "0.0.0.0") as running:
        running.log.wait_for("no token is set")
