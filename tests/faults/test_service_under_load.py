"""A service under load: requests leave nothing behind, and a worker that dies takes only its own requests along."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")
sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

from running_service import Running, model_of, serving, topic_rows, worker_of, workers_of

pytestmark = pytest.mark.faults

CLIENTS, WORKERS = 8, 3
#: requests are sent in so many parts, after each of which the memory is read
PARTS = 10
#: bytes by which memory may grow in a part (eight pages), and per request: the smallest Python object has 16
SETTLING, LOST_PER_REQUEST = 1 << 15, 8
ROWS = [{"text": text} for text in topic_rows(16)[0]]


class Client:
    """One connection to the service, kept open; what it asked, what came, and what was lost."""

    def __init__(self, service: Running, expected: list[Any]) -> None:
        self.service, self.expected = service, expected
        self.answered = self.lost = self.wrong = 0
        self._open()

    def _open(self) -> None:
        where = urlsplit(self.service.url)
        self.connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
        self.connection.connect()
        self.port = self.connection.sock.getsockname()[1]

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def ask(self) -> None:
        """One request; a connection that was lost is opened again."""
        row = (self.answered + self.lost) % len(ROWS)
        try:
            body = json.dumps({"rows": [ROWS[row]]})
            self.connection.request("POST", "/predict", body, {"content-type": "application/json"})
            answer = self.connection.getresponse()
            text = answer.read()
        except (ConnectionError, http.client.HTTPException):
            self.lost += 1
            self.connection.close()
            self._open()
            return
        self.answered += 1
        self.wrong += answer.status != 200 or json.loads(text)["predictions"][0] != self.expected[row]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_of(tmp_path_factory.mktemp("served") / "topics")


def expected_of(service: Running) -> list[Any]:
    return [service.predictions([row])[0] for row in ROWS]


@pytest.mark.parametrize("requests", [1_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_many_requests_leave_nothing_behind(model: Path, requests: int, record: Callable[[str, Any], None]) -> None:
    with serving(model) as service, ExitStack() as opened:
        expected = expected_of(service)
        clients = [opened.enter_context(closing(Client(service, expected))) for _ in range(CLIENTS)]
        process = Path(f"/proc/{service.process.pid}")

        def resident_kb() -> int:
            return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

        def open_files() -> int:
            return len(list((process / "fd").iterdir()))

        def send(client: Client, count: int) -> None:
            for _ in range(count):
                client.ask()

        with ThreadPoolExecutor(CLIENTS) as threads:
            warm = max(400, requests // PARTS)  # until then batches of all sizes have been predicted once
            part = (requests - warm) // (PARTS - 1)
            list(threads.map(send, clients, [warm // CLIENTS] * CLIENTS))
            files, resident = open_files(), [resident_kb()]
            for _ in range(PARTS - 1):
                list(threads.map(send, clients, [part // CLIENTS] * CLIENTS))
                resident.append(resident_kb())
            grown_files = open_files() - files
    assert [client.lost for client in clients] == [0] * CLIENTS
    assert [client.wrong for client in clients] == [0] * CLIENTS
    answered = sum(client.answered for client in clients)
    assert answered >= requests - PARTS * CLIENTS
    assert grown_files <= 0
    # What is lost with every request is lost in every part. An arena that the allocator takes once is in one of them.
    grown = [after - before for before, after in pairwise(resident)]
    assert median(grown) * 1024 <= SETTLING + LOST_PER_REQUEST * part, grown
    figures = {"requests": answered, "errors": 0, "part": part, "grown_kb": grown, "grown_files": grown_files}
    record("service[requests]", figures)


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.long)])
def test_a_killed_worker_loses_only_its_own_requests(
    model: Path, kills: int, record: Callable[[str, Any], None]
) -> None:
    lost, answered = 0, 0
    with serving(model, "--workers", WORKERS) as service, ExitStack() as opened:
        expected = expected_of(service)
        for _ in range(kills):
            clients = [opened.enter_context(closing(Client(service, expected))) for _ in range(CLIENTS // 2)]
            for client in clients:
                client.ask()
            victim = worker_of(service, clients[0].port)
            assert victim is not None
            os.kill(victim, signal.SIGSTOP)  # an idle worker may accept all connections: these go to the others
            try:
                for _ in range(CLIENTS // 2):
                    clients.append(opened.enter_context(closing(Client(service, expected))))
                    clients[-1].ask()
            finally:
                os.kill(victim, signal.SIGCONT)
            owner = {client: worker_of(service, client.port) for client in clients}
            assert None not in owner.values()
            assert sum(worker != victim for worker in owner.values()) >= CLIENTS // 2
            busy, stop = threading.Barrier(CLIENTS + 1), threading.Event()

            def load(client: Client, busy: threading.Barrier = busy, stop: threading.Event = stop) -> None:
                client.ask()
                busy.wait()
                while not stop.is_set():
                    client.ask()

            with ThreadPoolExecutor(CLIENTS) as threads:
                going = [threads.submit(load, client) for client in clients]
                busy.wait()
                os.kill(victim, signal.SIGKILL)
                service.log.wait_for(rf"Child process \[{victim}\] died")
                stop.set()
                for one in going:
                    one.result()
            for client in clients:
                assert client.wrong == 0
                assert client.lost == 0 or owner[client] == victim, (client.lost, owner[client], victim)
                # A connection that died with its worker is opened again once; the next worker answers it.
                assert client.lost <= 1
                client.close()
            lost += sum(client.lost for client in clients)
            answered += sum(client.answered for client in clients)
    assert lost >= kills  # the worker was busy when it died
    record("service[killed workers]", {"kills": kills, "answered": answered, "lost_with_their_worker": lost})


def test_a_worker_that_is_slow_to_answer_is_not_killed(model: Path) -> None:
    """On a machine with other work a worker may stand still for many seconds; its requests are answered after that."""
    with serving(model, "--workers", 2) as service, closing(Client(service, expected_of(service))) as client:
        client.ask()
        worker = worker_of(service, client.port)
        assert worker is not None
        os.kill(worker, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor(1) as threads:
                waiting = threads.submit(client.ask)
                # uvicorn would take it for dead after five seconds
                died = service.log.seen(rf"Child process \[{worker}\] died", seconds=8)
                os.kill(worker, signal.SIGCONT) if not died else None
                waiting.result()
        finally:
            if worker in workers_of(service):
                os.kill(worker, signal.SIGCONT)
        assert not died
        assert (client.lost, client.wrong, client.answered) == (0, 0, 2)
