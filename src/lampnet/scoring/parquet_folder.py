"""A folder of Parquet files: on a disk that every machine sees, or in an object store (s3://bucket/folder)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lampnet.errors import DataError
from lampnet.runtime.atomic_files import write_atomically


class ParquetFolder:
    """Files by name; in an object store each is there whole or not at all, as an upload is.

    >>> ParquetFolder("rows").is_local, ParquetFolder("s3://bucket/rows").is_local
    (True, False)
    """

    def __init__(self, where: str) -> None:
        self.is_local = "://" not in where
        self.where = str(Path(where).resolve()) if self.is_local else where.rstrip("/")

    def __str__(self) -> str:
        return self.where

    def names(self) -> list[str]:
        """The names of its Parquet files, sorted; none where there is no such folder."""
        if self.is_local:
            return sorted(path.name for path in Path(self.where).glob("*.parquet") if path.is_file())
        found: list[str] = self._asked(self._listed)
        return found

    def make(self) -> None:
        """See to it that files can be written."""
        try:
            if self.is_local:
                Path(self.where).mkdir(parents=True, exist_ok=True)
        except OSError as fault:
            raise DataError(f"{self} cannot be made ({fault.strerror or fault}); give another folder") from None

    def read(self, name: str) -> bytes | None:
        """What a small file holds, None where there is none."""
        if self.is_local:
            path = Path(self.where) / name
            return path.read_bytes() if path.is_file() else None
        content: bytes | None = self._asked(lambda files, folder: self._content(files, f"{folder}/{name}"))
        return content

    def write(self, name: str, content: bytes) -> None:
        """Replace a small file."""
        if self.is_local:
            write_atomically(Path(self.where) / name, content)
            return

        def upload(files: Any, folder: str) -> None:
            with files.open_output_stream(f"{folder}/{name}") as stream:
                stream.write(content)

        self._asked(upload)

    def download(self, name: str, local: str) -> None:
        """Copy one of its files to this machine."""

        def copy(files: Any, folder: str) -> None:
            with files.open_input_stream(f"{folder}/{name}") as stream, open(local, "wb") as file:
                shutil.copyfileobj(stream, file, 1 << 20)

        self._asked(copy)

    def upload(self, local: str, name: str) -> None:
        """Copy a file of this machine to it."""
        from pyarrow import fs

        here = fs.LocalFileSystem()
        self._asked(
            lambda files, folder: fs.copy_files(
                local, f"{folder}/{name}", source_filesystem=here, destination_filesystem=files
            )
        )

    def _listed(self, files: Any, folder: str) -> list[str]:
        from pyarrow import fs

        found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(one.base_name for one in found if one.is_file and one.base_name.endswith(".parquet"))

    def _content(self, files: Any, path: str) -> bytes | None:
        if not files.get_file_info(path).is_file:
            return None
        with files.open_input_stream(path) as stream:
            return bytes(stream.read())

    def _asked(self, call: Callable[[Any, str], Any]) -> Any:
        """What the store answers; a store that cannot be reached or refuses is a sentence."""
        from pyarrow import fs

        try:
            return call(*fs.FileSystem.from_uri(self.where))
        except (OSError, ValueError) as fault:
            said = " ".join(str(fault).split())[:300]
            raise DataError(f"{self} cannot be used: {said}; check the address and the credentials") from None


def predict_between(rows: ParquetFolder, out: ParquetFolder, name: str, predict: Callable[[str, str], int]) -> int:
    """`predict(file, file)` from one folder to another; files of an object store take the way over this machine."""
    with tempfile.TemporaryDirectory(prefix="lampnet-") as made:
        source, target = f"{rows}/{name}", f"{out}/{name}"
        if not rows.is_local:
            source = f"{made}/rows.parquet"
            rows.download(name, source)
        if out.is_local:
            return predict(source, target)
        target = f"{made}/out.parquet"
        count = predict(source, target)
        out.upload(target, name)
        return count
