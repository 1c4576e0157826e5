"""The command line `lampnet`: one short file a command, wired in `app`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command; 0 done, 2 the caller's mistake (one line on stderr), 1 anything else."""
    from lampnet.cli.app import run

    sys.exit(run(sys.argv[1:]))
