"""Several worker processes: each takes up a new model, and each answers what it has accepted before it stops."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from running_service import Running, model_of, serving, topic_rows, worker_of, workers_of

from lampnet import LaMPClassifier

ROWS = [{"text": text} for text in topic_rows(8)[0]]
BODY = json.dumps({"rows": ROWS}).encode()
#: seconds in which a busy machine must have done what is waited for
DEADLINE = 300


def connected(service: Running) -> http.client.HTTPConnection:
    """A connection that a worker has accepted: it has answered on it."""
    where = urlsplit(service.url)
    opened = http.client.HTTPConnection(where.hostname or "", where.port, timeout=DEADLINE)
    opened.request("GET", "/health")
    assert opened.getresponse().read()
    return opened


def owner(service: Running, opened: http.client.HTTPConnection) -> int:
    found = worker_of(service, opened.sock.getsockname()[1])
    assert found is not None
    return found


def one_to_each_worker(service: Running, stack: ExitStack) -> list[http.client.HTTPConnection]:
    """Two connections, each to a worker of its own: while the first one's is stopped the other worker accepts."""
    first = stack.enter_context(closing(connected(service)))
    busy = owner(service, first)
    os.kill(busy, signal.SIGSTOP)
    try:
        second = stack.enter_context(closing(connected(service)))
    finally:
        os.kill(busy, signal.SIGCONT)
    assert {busy, owner(service, second)} == set(workers_of(service))
    return [first, second]


def both_run(service: Running) -> None:
    """Wait until both workers have loaded their models: only then do both accept connections."""
    assert service.log.seen("Application startup complete", DEADLINE, lines=2)


def test_a_new_model_reaches_every_worker_without_a_dropped_request(tmp_path: Path) -> None:
    folder = model_of(tmp_path / "topics")
    models = {}

    def keep() -> None:
        model = LaMPClassifier.load(folder)
        models[model.model_.metadata["model_sha256"]] = model.predict_labels([row["text"] for row in ROWS])

    keep()
    (old,) = models
    with serving(folder, "--workers", 2) as running, ExitStack() as stack:
        both_run(running)
        connections = one_to_each_worker(running, stack)
        end = time.monotonic() + DEADLINE

        def ask(opened: http.client.HTTPConnection) -> list[tuple[str, list[list[str]]]]:
            """Ask one worker on one connection, which is never opened again, until it has answered by the new model."""
            opened.auto_open = 0
            answers: list[tuple[str, list[list[str]]]] = []
            while not answers or answers[-1][0] == old:
                assert time.monotonic() < end, "the worker still serves the former model"
                opened.request("POST", "/predict", BODY)
                answer = opened.getresponse()
                text = answer.read()
                assert answer.status == 200, text
                found = json.loads(text)
                answers.append((found["version"], [one["labels"] for one in found["predictions"]]))
            return answers

        with ThreadPoolExecutor(2) as threads:
            going = [threads.submit(ask, opened) for opened in connections]
            model_of(folder, seed=1, n=40)
            keep()
            answered = [one.result() for one in going]
    (new,) = models.keys() - {old}
    for answers in answered:
        changed = [version for version, _ in answers].index(new)
        assert [version for version, _ in answers] == [old] * changed + [new] * (len(answers) - changed)
        assert all(labels == models[version] for version, labels in answers)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stopped_service_leaves_no_temporary_files(
    topics: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving(topics, "--workers", workers) as running:
        assert running.predictions(ROWS)
    assert list(tmp_path.iterdir()) == []


HEAD = b"POST /predict HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"


def test_both_workers_answer_what_they_have_accepted_before_they_stop(tmp_path: Path) -> None:
    folder = model_of(tmp_path / "topics")
    expected = LaMPClassifier.load(folder).predict_labels([row["text"] for row in ROWS])
    with serving(folder, "--workers", 2) as running, ExitStack() as stack:
        both_run(running)
        workers = workers_of(running)
        sockets = [opened.sock for opened in one_to_each_worker(running, stack)]
        for one in sockets:
            one.sendall(HEAD % len(BODY))
        for one in sockets:  # the service waits for the body
            assert one.recv(1000).startswith(b"HTTP/1.1 100 ")
        running.process.send_signal(signal.SIGTERM)
        assert running.log.seen("Shutting down", DEADLINE, lines=2)
        for one in sockets:
            one.sendall(BODY)
        for one in sockets:
            answer = http.client.HTTPResponse(one)
            answer.begin()
            text = answer.read()
            assert answer.status == 200, text
            assert [row["labels"] for row in json.loads(text)["predictions"]] == expected
        assert running.process.wait(DEADLINE) in (0, -signal.SIGTERM)
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
        where = urlsplit(running.url)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((where.hostname, where.port), timeout=60)
