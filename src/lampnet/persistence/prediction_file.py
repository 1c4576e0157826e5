"""A file of predictions that can be continued after a crash, by the same model on the same rows only.

While it is written, FILE.unfinished.json beside it says what the lines come from; it is removed at the end.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from lampnet.errors import DataError
from lampnet.runtime.atomic_files import flush_to_disk, remove_file, write_atomically
from lampnet.runtime.folder_lock import lock_file
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import read_regular

MAX_RECORD = 1_000_000


class PredictionFile:
    """Lines of predictions; closed by `with`, finished by `finish`.

    origin  what the lines come from, by name: the model's digest, the rows, the settings of the prediction
    """

    def __init__(self, path: Path, origin: Mapping[str, Any]) -> None:
        self.path, self.record = path, path.with_name(f"{path.name}.unfinished.json")
        self.origin: dict[str, Any] = json.loads(json.dumps(origin))  # as it is read back
        self.file: IO[bytes] | None = None
        self.kept = 0
        self.is_known = True

    def __enter__(self) -> PredictionFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.file is not None:
            with suppress(OSError):  # a disk that is full was reported when it was written to
                self.file.close()

    def whole_rows(self) -> int:
        """How many lines are there to be continued; a line that was cut off is removed."""
        if not self.path.exists():
            return 0
        file = self._open()
        try:
            end = 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.kept, end = self.kept + 1, end + len(line)
            if self.kept:
                self._compare()
            file.seek(end)
            file.truncate()
        except OSError as fault:
            raise DataError(f"{self.path} cannot be continued ({fault.strerror or fault})") from None
        return self.kept

    def _compare(self) -> None:
        """Refuse to add lines to those of another model, other rows or other settings."""
        try:
            known = parse_json(read_regular(self.record, MAX_RECORD))
        except FileNotFoundError:
            self.is_known = False
            return
        except (OSError, ValueError) as fault:
            raise DataError(f"{self.record} cannot be read ({fault}); predict again without --resume") from None
        changed = [name for name in self.origin if not isinstance(known, dict) or known.get(name) != self.origin[name]]
        if changed:
            raise DataError(
                f"the {self.kept:,} rows in {self.path} were predicted with another {' and another '.join(changed)}; "
                "predict again without --resume, or into another file"
            )

    def begin(self) -> None:
        """Make ready for lines that are not there yet; without `whole_rows` before, the file is emptied."""
        if not self.is_known:
            raise DataError(
                f"{self.path} has {self.kept:,} rows and is finished, or nothing says which model they come from; "
                "predict again without --resume, or into another file"
            )
        file = self.file or self._open()
        if not self._is_regular():
            return
        try:
            if not self.kept:
                file.truncate(0)  # before the record: lines of before must not pass for lines of this model
            write_atomically(self.record, json.dumps(self.origin, indent=1).encode() + b"\n")
        except OSError as fault:
            raise self._unwritable(fault) from None

    def write(self, lines: Iterable[str]) -> None:
        """Add lines; whatever happens next, they are kept."""
        assert self.file is not None
        try:
            for line in lines:
                self.file.write(line.encode())
            self.file.flush()
        except OSError as fault:
            raise self._broken(fault) from None

    def finish(self) -> None:
        """All lines are there."""
        try:
            if self.file is not None and self._is_regular():
                self.file.flush()
                flush_to_disk(self.file.fileno())
        except OSError as fault:
            raise self._broken(fault) from None
        if self.is_known:
            remove_file(self.record)

    def _open(self) -> IO[bytes]:
        try:
            device = self.path.exists() and not self.path.is_file()
            mode = os.O_WRONLY if device else os.O_RDWR | os.O_CREAT
            self.file = os.fdopen(os.open(self.path, mode, 0o666), "wb" if device else "r+b")
        except OSError as fault:
            raise self._unwritable(fault) from None
        if self._is_regular():
            lock_file(self.file.fileno(), self.path)
        return self.file

    def _is_regular(self) -> bool:
        """Not a device or a pipe, which has no lines to keep."""
        return self.file is not None and stat.S_ISREG(os.fstat(self.file.fileno()).st_mode)

    def _unwritable(self, fault: OSError) -> DataError:
        return DataError(f"{self.path} cannot be written ({fault.strerror or fault}); give another file")

    def _broken(self, fault: OSError) -> DataError:
        return DataError(
            f"{self.path} could not be finished ({fault.strerror or fault}); its whole lines are good: "
            "make room and continue with --resume"
        )
