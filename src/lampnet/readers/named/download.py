"""Fetch a named data set from its publisher: progress, resuming, checksums, clear words when offline."""

from __future__ import annotations

import fnmatch
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from lampnet.errors import DataError, FormatError, MissingExtra, did_you_mean
from lampnet.readers.files import MAX_BYTES
from lampnet.readers.named.addresses import ADDRESSES, NOT_OFFERED, Address
from lampnet.readers.named.registry import NAMES
from lampnet.readers.named.registry import data_root as chosen_root

#: file name, bytes so far, bytes in all (0 when the server does not state them)
Progress = Callable[[str, int, int], None]

_TIMEOUT = 30
_BLOCK = 1 << 16
#: Programs that unpack RAR archives, with what they are to do (the folder is where they run).
_UNRAR = {"bsdtar": ("-xf",), "unar": ("-f",), "7z": ("x", "-y"), "unrar": ("x", "-o+")}


def fetch(
    name: str, data_root: str | Path | None = None, base_url: str | None = None, progress: Progress | None = None
) -> Path:
    """Download the files of a named data set into `data_root/name`.

    Files that are there already are kept; a download that was cut off goes on where it stopped.
    With `base_url`, a mirror, every file is taken from `base_url/FILE`. Returns the data set's folder.
    """
    if name not in NAMES:
        raise DataError(f"there is no data set named {name!r}; {did_you_mean(name, NAMES)}")
    folder = chosen_root(data_root) / name
    if name in NOT_OFFERED:
        raise DataError(f"{name} cannot be fetched: {NOT_OFFERED[name]} (folder {folder})")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be made ({error.strerror}); choose another --data-root") from None
    for address in ADDRESSES[name]:
        url = f"{base_url.rstrip('/')}/{address.file}" if base_url else address.url
        if address.unpack and all(
            any((folder / sub).glob(PurePosixPath(member).name)) for member, sub in address.unpack
        ):
            continue
        file = _download(url, address, folder, progress)
        if address.unpack:
            _unpack(file, address, folder)
            file.unlink()
    return folder


def _download(url: str, address: Address, folder: Path, progress: Progress | None) -> Path:
    try:
        import pooch
        import requests
    except ImportError:
        raise MissingExtra("pooch", "fetch", "fetching data sets") from None
    pooch.get_logger().setLevel("ERROR")
    downloader = _Resuming(folder / f"{address.file}.part", address.file, progress)
    by_hand = f"or put the file into {folder} by hand"
    host = urlsplit(url).hostname
    file, known_hash = address.file, address.sha256
    try:
        return Path(pooch.retrieve(url, known_hash=known_hash, fname=file, path=folder, downloader=downloader))
    except requests.exceptions.ChunkedEncodingError:
        raise DataError(
            f"the connection to {host} broke while {address.file} came; what has come is kept, fetch again to go on"
        ) from None
    except (requests.ConnectionError, requests.Timeout):
        raise DataError(
            f"{host} cannot be reached (offline?) to fetch {address.file}; try again when connected, what has come "
            f"is kept, {by_hand}"
        ) from None
    except requests.RequestException as error:
        raise DataError(f"{host} refused {address.file} ({error}); try again later, {by_hand}") from None
    except OSError as error:
        raise DataError(f"{address.file} cannot be written to {folder} ({error.strerror or error})") from None
    except ValueError:
        downloader.part.unlink(missing_ok=True)
        raise DataError(
            f"{address.file} from {host} does not have the checksum {address.sha256}; it was not kept, fetch again"
        ) from None


class _Resuming:
    """A pooch downloader that keeps a `.part` file and asks only for what is missing."""

    def __init__(self, part: Path, name: str, progress: Progress | None) -> None:
        self.part, self.name, self.progress = part, name, progress

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> bool | None:
        import requests

        have = self.part.stat().st_size if self.part.exists() else 0
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code == 416:  # the part is complete already, or not of this file
                self.part.unlink()
                return self(url, output_file, pooch, check_only)
            response.raise_for_status()
            have = have if response.status_code == 206 else 0
            coming = int(response.headers.get("content-length", 0))
            total = have + coming if coming else 0
            with self.part.open("ab" if have else "wb") as stream:
                for block in response.iter_content(_BLOCK):
                    stream.write(block)
                    have += len(block)
                    if self.progress is not None:
                        self.progress(self.name, have, total)
            if total and have < total:
                raise requests.exceptions.ChunkedEncodingError(f"{have} of {total} bytes came")
        shutil.move(self.part, output_file)
        return None


def _unpack(archive: Path, address: Address, folder: Path) -> None:
    """Keep the wanted members of an archive, each under its bare name."""
    if archive.suffix == ".rar":
        _unpack_rar(archive, address, folder)
        return
    budget, kept = MAX_BYTES, 0
    try:
        for name, size, stream in _members(archive):
            target = _target(name, address, folder)
            if target is None:
                continue
            budget -= size
            if budget < 0:
                raise FormatError(archive, f"the archive holds more than {MAX_BYTES:,} bytes")
            target.parent.mkdir(exist_ok=True)
            part = target.with_name(target.name + ".part")
            with part.open("wb") as out:
                shutil.copyfileobj(stream, out)
            part.replace(target)
            kept += 1
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        archive.unlink(missing_ok=True)
        raise FormatError(archive, f"the archive is damaged ({error}); fetch again") from None
    if not kept:
        raise FormatError(archive, f"the archive holds none of {', '.join(p for p, _ in address.unpack)}")


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


def _target(name: str, address: Address, folder: Path) -> Path | None:
    """Where a member goes; its folders are dropped, so no archive can write elsewhere."""
    for pattern, sub in address.unpack:
        if fnmatch.fnmatch(name, f"*/{pattern}") or fnmatch.fnmatch(name, pattern):
            return folder / sub / PurePosixPath(name.replace("\\", "/")).name
    return None


def _unpack_rar(archive: Path, address: Address, folder: Path) -> None:
    program = next((program for program in _UNRAR if shutil.which(program)), None)
    if program is None:
        raise DataError(
            f"{archive} was fetched, but no program that unpacks RAR was found; install one of {', '.join(_UNRAR)} "
            f"and fetch again, or unpack it into {folder} by hand"
        )
    inside = folder / "unpacked.part"
    inside.mkdir(exist_ok=True)
    try:
        done = subprocess.run(
            [program, *_UNRAR[program], str(archive.resolve())], cwd=inside, capture_output=True, check=False
        )
        if done.returncode:
            raise FormatError(archive, f"{program} cannot unpack the archive (exit code {done.returncode})")
        for file in sorted(inside.rglob("*")):
            target = _target(file.relative_to(inside).as_posix(), address, folder) if file.is_file() else None
            if target is not None and not file.is_symlink():
                target.parent.mkdir(exist_ok=True)
                file.replace(target)
    finally:
        shutil.rmtree(inside, ignore_errors=True)
