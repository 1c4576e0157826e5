"""Tutorials whose code is run as it is printed.

The ```python and ```sh blocks of a page are run in order, in one Python and one shell, in a folder of their own. A
```text block right after one of them holds its output; `with_outputs` writes it, and `differences` compares it, numbers
with some room: machines round differently.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "quick-start.md", *sorted((DOCS / "tutorials").glob("*.md")))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d+\.\d+|-?\d+")
_END, _DIED = "end of the block", "end of the shell"
#: how far a number may be from the one that is printed, absolutely or by its share
ROOM = 0.1


@dataclass(frozen=True)
class Block:
    """One block of code on a page.

    end       where it ends on the page
    shown     the output below it, None where there is none
    shown_at  from where to where that block reaches
    """

    language: str
    code: str
    end: int
    shown: str | None = None
    shown_at: tuple[int, int] | None = None


def blocks(page: str) -> list[Block]:
    """The blocks that are run.

    >>> page = "Say:\\n\\n```python\\nprint(1)\\n```\\n\\n```text\\n1\\n```\\n\\n```json\\n{}\\n```\\n"
    >>> [(block.language, block.code, block.shown) for block in blocks(page)]
    [('python', 'print(1)\\n', '1\\n')]
    """
    found: list[Block] = []
    for match in _BLOCK.finditer(page):
        language, content = match.groups()
        if language in ("python", "sh"):
            found.append(Block(language, content, match.end()))
        elif language == "text" and found and not page[found[-1].end : match.start()].strip():
            last = found.pop()
            found.append(Block(last.language, last.code, last.end, content, match.span()))
    return found


def run(page: Path, folder: Path) -> list[str]:
    """What each block of a page prints, run in this folder; an error ends it."""
    printed: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    shell: _Shell | None = None
    try:
        with contextlib.chdir(folder):
            for block in blocks(page.read_text(encoding="utf-8")):
                if block.language == "sh":
                    shell = shell or _Shell(folder)
                    printed.append(shell.run(block.code))
                    continue
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    exec(compile(block.code, page.name, "exec"), names)
                printed.append(said.getvalue())
    finally:
        if shell is not None:
            shell.close()
    return printed


class _Shell:
    """One bash for all blocks of a page, so that what one leaves running is there for the next."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self.errors = (folder / ".stderr").open("w+")
        self.process = subprocess.Popen(
            ["bash", "-e"],
            cwd=folder,
            env=os.environ | {"PATH": path, "COLUMNS": "100"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )

    def run(self, code: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # What the block leaves running holds the pipe open, so the end of the shell has to be written, too.
        self.process.stdin.write(f"trap 'echo; echo \"{_DIED}\"' EXIT\n{code}\necho; echo '{_END}'\n")
        self.process.stdin.flush()
        said: list[str] = []
        for line in self.process.stdout:
            if line.rstrip("\n") == _END:
                return "".join(said).removesuffix("\n")
            if line.rstrip("\n") == _DIED:
                break
            said.append(line)
        self.errors.seek(0)
        raise RuntimeError(f"the shell ended in\n{code}\n{''.join(said)}{self.errors.read()[-2000:]}")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.communicate()
        self.errors.close()


def with_outputs(page: str, printed: list[str]) -> str:
    """The page with what its blocks printed, where it shows output."""
    for block, said in reversed(list(zip(blocks(page), printed, strict=True))):
        if block.shown_at is not None:
            start, end = block.shown_at
            page = f"{page[:start]}```text\n{said.rstrip()}\n```\n{page[end:]}"
    return page


def differences(page: str, printed: list[str]) -> list[str]:
    """Blocks whose output is not the one that the page shows.

    >>> page = "```python\\nprint(score)\\n```\\n\\n```text\\nF1: 0.51\\n```\\n"
    >>> differences(page, ["F1: 0.53"]), differences(page, ["F1: 0.71"])
    ([], ['F1: 0.51 is shown where F1: 0.71 is printed'])
    """
    return [
        f"{(block.shown or '').strip()} is shown where {said.strip()} is printed"
        for block, said in zip(blocks(page), printed, strict=True)
        if block.shown is not None and not _alike(block.shown, said)
    ]


def _alike(shown: str, said: str) -> bool:
    if _NUMBER.sub("#", shown).split() != _NUMBER.sub("#", said).split():
        return False
    pairs = zip(map(float, _NUMBER.findall(shown)), map(float, _NUMBER.findall(said)), strict=True)
    return all(abs(one - other) <= max(ROOM, ROOM * abs(one)) for one, other in pairs)
