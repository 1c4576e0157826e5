"""Toy trainings as real processes that can be signalled and killed, started from a warm fork server."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
from typing import Any


class ToyRun:
    """A toy training in its own process, observed through the lines it prints."""

    def __init__(self, context: Any, arguments: list[str], file_limit: int) -> None:
        reader, writer = context.Pipe(duplex=False)
        self.process = context.Process(target=_run_toy, args=(writer, arguments, file_limit), daemon=True)
        self.process.start()
        writer.close()
        self.output = os.fdopen(os.dup(reader.fileno()), errors="replace")
        reader.close()

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def until(self, wanted: str) -> None:
        """Read the output up to a line."""
        seen = []
        for line in self.output:
            seen.append(line.strip())
            if seen[-1] == wanted:
                return
        raise AssertionError(f"the process ended without printing {wanted!r}: {seen}")

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.process.is_alive():
            self.send(signal.SIGKILL)
        self.end()

    def end(self) -> tuple[list[str], int]:
        """The remaining lines and the exit code."""
        lines = [line.strip() for line in self.output] if not self.output.closed else []
        self.output.close()
        self.process.join()
        return lines, int(self.process.exitcode)


def _run_toy(writer: Any, arguments: list[str], file_limit: int) -> None:
    os.dup2(writer.fileno(), 1)
    os.dup2(writer.fileno(), 2)
    writer.close()
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the fork server ignores it
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    sys.argv = ["toy_training.py", *arguments]
    os._exit(importlib.import_module("toy_training").main())
