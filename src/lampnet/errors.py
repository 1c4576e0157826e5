"""One exception tree. Every message says what came, what was expected and what to do.

`LampnetError` is the caller's mistake (or a damaged file): the command line prints
its message on one line and exits with 2. Anything else is a defect of lampnet.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

#: Longer names, and more of them, are not compared when a misspelled one is looked up.
_COMPARED, _COMPARED_NAMES = 100, 10_000


class LampnetError(ValueError):
    """Something the caller can put right; the message says how."""


class ConfigError(LampnetError):
    """A setting that does not exist or is out of its range."""


class DataError(LampnetError):
    """Rows, labels or names that do not fit together."""


class FormatError(DataError):
    """A file that is not what its name says; the message names file and line."""

    def __init__(self, path: str | Path, problem: str, line: int | None = None) -> None:
        where = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{where}: {problem}")
        self.path = Path(path)
        self.line = line


class ModelFolderError(LampnetError):
    """A model folder that is damaged, foreign or of another version."""


class CheckpointError(LampnetError):
    """A training folder that cannot be resumed or written."""


class TrainingDiverged(LampnetError):
    """The loss is no longer a number; the last good state was kept."""


class MissingExtra(LampnetError):
    """An optional dependency that this kind of input needs is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed; run: pip install 'lampnet[{extra}]'"
        )


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A closing clause for errors about names.

    >>> did_you_mean("bibtx", ["bibtex", "scene"])
    "did you mean 'bibtex'?"
    >>> did_you_mean("zzz", ["bibtex", "scene"])
    'known: bibtex, scene'
    """
    names = sorted(known)
    # The comparison takes the square of the names' length, for every name.
    close = get_close_matches(
        given[:_COMPARED], [name for name in names[:_COMPARED_NAMES] if len(name) <= _COMPARED], n=1
    )
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(names)
