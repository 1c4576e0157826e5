"""The Dockerfile: linted, not run by root, and a health check that tells a service from none."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_service_is_not_run_by_root() -> None:
    users = re.findall(r"^USER (\S+)$", TEXT, re.MULTILINE)
    assert users
    assert users[-1] not in ("root", "0")
    assert TEXT.index("USER ") < TEXT.index("ENTRYPOINT")


def test_what_is_copied_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for line in re.findall(r"^COPY (?!--)(.*)$", TEXT, re.MULTILINE) for name in line.split()[:-1]]
    assert set(copied) == kept
    assert all((ROOT / name).exists() for name in copied)


class _Health(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (None, False)])
def test_the_health_check(status: int | None, healthy: bool) -> None:
    found = re.search(r"HEALTHCHECK.*?CMD (\[.*?\])\n", TEXT, re.DOTALL)
    assert found
    command = json.loads(found[1])
    server = None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    if status is not None:
        handler = type("Handler", (_Health,), {"status": status})
        server = HTTPServer(("127.0.0.1", 0), handler)
        port = server.server_port
        threading.Thread(target=server.serve_forever, daemon=True).start()
    code = command[2].replace(":8000", f":{port}")
    assert code != command[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    if server is not None:
        server.shutdown()
        server.server_close()
    assert (done.returncode == 0) is healthy
