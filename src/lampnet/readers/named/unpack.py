"""The wanted members of an archive, unpacked into a folder of their own first, each under its bare name."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from lampnet.errors import DataError, FormatError
from lampnet.readers.files import MAX_BYTES
from lampnet.readers.named.addresses import Address
from lampnet.readers.named.content_check import DAMAGED, what_is_wrong

#: Programs that unpack RAR archives, with what they are to do (the folder is where they run).
_UNRAR = {"bsdtar": ("-xf",), "unar": ("-f",), "7z": ("x", "-y"), "unrar": ("x", "-o+")}
#: No file of an archive may grow beyond MAX_BYTES; `ulimit -f` counts blocks of 512 bytes.
_LIMITED = ("sh", "-c", f'ulimit -f {MAX_BYTES // 512} && exec "$@"', "sh") if os.name == "posix" else ()


def unpack(archive: Path, address: Address, inside: Path) -> list[str]:
    """Put the wanted members into the folder `inside`; their names there, folders separated by "/"."""
    shutil.rmtree(inside, ignore_errors=True)  # of a process that was killed
    inside.mkdir()
    kept = (_unpack_rar if archive.suffix == ".rar" else _unpack_members)(archive, address, inside)
    if not kept:
        raise FormatError(archive, f"the archive holds none of {', '.join(p for p, _ in address.unpack)}")
    return kept


def _unpack_members(archive: Path, address: Address, inside: Path) -> list[str]:
    budget, kept = MAX_BYTES, []
    try:
        for member, size, stream in _members(archive):
            name = target(member, address)
            if name is None:
                continue
            budget -= size
            if budget < 0:
                raise FormatError(archive, f"the archive holds more than {MAX_BYTES:,} bytes")
            (inside / name).parent.mkdir(exist_ok=True)
            with (inside / name).open("wb") as out:
                shutil.copyfileobj(stream, out)
            kept.append(name)
    except FormatError:
        raise
    except DAMAGED as error:
        raise FormatError(archive, f"the archive is damaged ({what_is_wrong(error)}); fetch again") from None
    return kept


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                if not info.is_dir():
                    with opened.open(info) as stream:
                        yield info.filename, info.file_size, stream
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, member.size, content


def target(member: str, address: Address) -> str | None:
    """The name of a member here, None where it is not wanted; its folders are dropped, so none can lead elsewhere."""
    for pattern, sub in address.unpack:
        if fnmatch.fnmatch(member, f"*/{pattern}") or fnmatch.fnmatch(member, pattern):
            return (PurePosixPath(sub) / PurePosixPath(member.replace("\\", "/")).name).as_posix()
    return None


def _unpack_rar(archive: Path, address: Address, inside: Path) -> list[str]:
    program = next((program for program in _UNRAR if shutil.which(program)), None)
    if program is None:
        raise DataError(
            f"{archive} was fetched, but no program that unpacks RAR was found; install one of {', '.join(_UNRAR)} "
            f"and fetch again, or unpack it into {archive.parent} by hand"
        )
    whole = inside / "whole"
    whole.mkdir()
    command = [*_LIMITED, program, *_UNRAR[program], str(archive.resolve())]
    done = subprocess.run(command, cwd=whole, capture_output=True, check=False)
    if done.returncode:
        raise FormatError(archive, f"{program} cannot unpack the archive (exit code {done.returncode}); fetch again")
    kept = []
    for file in sorted(whole.rglob("*")):
        name = target(file.relative_to(whole).as_posix(), address) if file.is_file() else None
        if name is not None and not file.is_symlink():
            (inside / name).parent.mkdir(exist_ok=True)
            file.replace(inside / name)
            kept.append(name)
    return kept
