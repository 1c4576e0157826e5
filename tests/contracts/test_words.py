"""lampnet speaks the field's language: the private terms of its first version occur nowhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: a private term -> what the field says
TERMS = {
    "opinion": "base learner, base logits",
    "committee": "ensemble",
    "loudness": "gate",
    "loudest": "MAX_ABS_LOGIT, strongest",
    "judged": "scored out-of-fold",
    "undrawn": "merged back",
    "strangers": "untrusted files",
    "evidence": "base learners, base logits",
}
#: the file that names the terms
HERE = "tests/contracts/test_words.py"
TEXT = (".py", ".md", ".toml", ".js", ".html", ".css", ".json", ".txt", ".cfg")


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the files are not in a git repository")
    return [ROOT / name for name in listed.stdout.split("\0") if name.endswith(TEXT)]


@pytest.mark.parametrize("term", TERMS)
def test_the_term_occurs_nowhere(term: str) -> None:
    pattern = re.compile(rf"(?<![A-Za-z]){term}s?(?![A-Za-z])", re.IGNORECASE)
    found = []
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if name == HERE or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if pattern.search(line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert not found, f"say {TERMS[term]} instead:\n" + "\n".join(found[:20])
