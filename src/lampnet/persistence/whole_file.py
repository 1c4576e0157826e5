"""A file that grows under a temporary name and is there, whole, only once it is finished."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from lampnet.errors import CheckpointError, DataError
from lampnet.runtime.atomic_files import flush_folder, flush_to_disk, remove_file
from lampnet.runtime.folder_lock import claimed


class WholeFile:
    """What is at `path` stays until `finish`, which replaces it at once; without `finish` nothing changes.

    One process at a time may write it, and what a killed one left is removed. A device or a pipe is written to
    directly.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))  # a link stays, what it points to is replaced
        self.temporary: Path | None = None
        self.held = ExitStack()
        try:
            if self.path.exists() and not stat.S_ISREG(self.path.stat().st_mode):
                self.file: IO[bytes] = open(self.path, "wb")  # noqa: SIM115 (closed by __exit__)
                return
            os.stat(self.path.parent)  # the lock would make the folder
            self.held.enter_context(claimed(self.path.parent, self.path.name))
            self.temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
            self.file = os.fdopen(os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb")
        except (OSError, CheckpointError) as problem:
            self.held.close()
            fault = problem if isinstance(problem, OSError) else problem.__cause__
            if not isinstance(fault, OSError):  # another process is writing there
                raise
            raise DataError(f"{path} cannot be written ({fault.strerror or fault}); give another file") from None

    def __enter__(self) -> WholeFile:
        return self

    def finish(self) -> None:
        """All of it is written."""
        self.file.flush()
        if self.temporary is None:
            return
        flush_to_disk(self.file.fileno())
        self.file.close()
        os.replace(self.temporary, self.path)
        self.temporary = None
        flush_folder(self.path.parent)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a disk that is full was reported when it was written to
            self.file.close()
        if self.temporary is not None:
            remove_file(self.temporary)
        self.held.close()
        if isinstance(fault, OSError) and not isinstance(fault, BrokenPipeError):
            raise DataError(
                f"{self.path} could not be written ({fault.strerror or fault}); what was there before is untouched"
            ) from None
