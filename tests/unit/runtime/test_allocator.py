"""Freed memory is not fetched from the system again."""

import resource
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from lampnet.runtime.allocator import keep_memory

if sys.argv[1] == "keep" and not keep_memory():
    sys.exit(3)
def step():
    return [np.ones(500_000) for _ in range(40)]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the setting is one of Linux")
def test_five_steps_take_no_new_pages() -> None:
    pages = {}
    for way in ("keep", "usual"):
        done = subprocess.run([sys.executable, "-c", PROGRAM, way], capture_output=True, text=True, check=False)
        if done.returncode == 3:
            pytest.skip("an allocator without the setting")
        pages[way] = int(done.stdout)
    bytes_taken = 5 * 40 * 500_000 * 8
    assert pages["keep"] < 0.1 * bytes_taken / resource.getpagesize()
    assert pages["keep"] < 0.5 * pages["usual"]
