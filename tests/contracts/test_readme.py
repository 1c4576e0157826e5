"""README's Python runs as printed, in an empty folder, without a download."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_python_of_the_readme_runs_as_printed(tmp_path: Path) -> None:
    code = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)
    assert len(code) == 2
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.findall(r"#\s*(\[\[.*\]\])$", code[0], re.M)[0] in done.stdout.splitlines()
    assert (tmp_path / "emotions-model" / "model.json").is_file()
