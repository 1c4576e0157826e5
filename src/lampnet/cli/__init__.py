"""The command line `lampnet`: one short file per command, wired in `app`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command. Exit codes: 0 done, 2 a mistake of the caller (one line on stderr), 1 anything else."""
    from lampnet.cli.app import run

    sys.exit(run(sys.argv[1:]))
