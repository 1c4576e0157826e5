"""Real services: `lampnet serve` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import requests

WORDS = ("rome", "cup", "rain")


def topic_rows(n: int = 64) -> tuple[list[str], list[list[str]]]:
    """Texts whose labels are words of theirs; a row about a cup mostly rains, which only other labels can tell."""
    labels = [[name for bit, name in enumerate(WORDS) if i >> bit & 1] for i in range(n)]
    texts = [f"report {i % 7} about {' and '.join(names) or 'nothing'}" for i, names in enumerate(labels)]
    return texts, [[*names, "match"] if "cup" in names and i % 5 else names for i, names in enumerate(labels)]


class Log:
    """What a process says on stderr, read as it comes so that the process never waits for a reader."""

    def __init__(self, stream: IO[str]) -> None:
        self.lines: list[str] = []
        self.ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._news:
                    self.lines.append(line)
                    self._news.notify_all()
        with self._news:
            self.ended = True
            self._news.notify_all()

    def end(self) -> None:
        """Wait for the last line."""
        self._thread.join()

    def seen(self, pattern: str, seconds: float, lines: int = 1) -> bool:
        """Whether so many lines have this pattern, now or within so many seconds."""
        with self._news:
            return self._news.wait_for(
                lambda: sum(bool(re.search(pattern, one)) for one in self.lines) >= lines, seconds
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that has this pattern, now or later."""
        seen = 0
        with self._news:
            while True:
                for line in self.lines[seen:]:
                    if found := re.search(pattern, line):
                        return found
                seen = len(self.lines)
                assert not self.ended, "".join(self.lines)
                assert self._news.wait(300), "".join(self.lines)


@dataclass
class Running:
    """A service that answers."""

    process: subprocess.Popen[str]
    url: str
    log: Log

    def get(self, path: str, **options: Any) -> requests.Response:
        return requests.get(self.url + path, timeout=30, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> requests.Response:
        return requests.post(self.url + path, json=body, timeout=30, **options)

    def predictions(self, rows: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
        answer = self.post("/predict", {"rows": rows, **more})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["predictions"]
        return found


@contextmanager
def serving(*arguments: object, token: str = "") -> Iterator[Running]:
    """`lampnet serve` on a free port, until the block ends."""
    environment = {k: v for k, v in os.environ.items() if k != "LAMPNET_TOKEN"} | {"OMP_NUM_THREADS": "1"}
    if token:
        environment["LAMPNET_TOKEN"] = token
    command = [sys.executable, "-m", "lampnet", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert process.stderr is not None
    log = Log(process.stderr)
    try:
        url = log.wait_for(r"running on (http://\S+)")[1]
        while not answers(url):  # workers say that they run before they have loaded their models
            assert process.poll() is None, log.lines
        yield Running(process, url, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(300)
        log.end()


def answers(url: str) -> bool:
    try:
        return requests.get(url + "/health", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False


def workers_of(service: Running) -> list[int]:
    """The processes that answer requests: children of the service that hold its socket."""
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def worker_of(service: Running, port: int) -> int | None:
    """The worker that has accepted the connection from this port."""
    own = f"{urlsplit(service.url).port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{own}") and fields[2].endswith(f":{port:04X}"):
            socket = f"socket:[{fields[9]}]"
            for worker in workers_of(service):
                for file in Path(f"/proc/{worker}/fd").iterdir():
                    try:
                        if os.readlink(file) == socket:
                            return worker
                    except OSError:  # closed since
                        continue
    return None


def model_of(folder: Path, preset: str = "quick", seed: int = 0, n: int = 64) -> Path:
    """A small model of texts, saved."""
    from lampnet import LaMPClassifier

    texts, labels = topic_rows(n)
    settings = {"training.warmup_steps": 5, "model.width": 16, "training.threads": 1}
    return LaMPClassifier(preset=preset, random_state=seed, epochs=2, settings=settings).fit(texts, labels).save(folder)
