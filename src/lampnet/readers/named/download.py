"""Fetch a named data set from its publisher: whole and checked files, or a sentence on why not."""

from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path, PurePosixPath

from lampnet.errors import DataError, FormatError, did_you_mean
from lampnet.readers.named.addresses import ADDRESSES, NOT_OFFERED, Address
from lampnet.readers.named.checksums import SUMS, record, recorded, sha256_of
from lampnet.readers.named.content_check import check_content
from lampnet.readers.named.registry import NAMES
from lampnet.readers.named.registry import data_root as chosen_root
from lampnet.readers.named.transfer import Progress, Wanted, forget, transfer
from lampnet.readers.named.unpack import unpack
from lampnet.runtime.atomic_files import check_no_link
from lampnet.runtime.folder_lock import claimed


def fetch(
    name: str, data_root: str | Path | None = None, base_url: str | None = None, progress: Progress | None = None
) -> Path:
    """Download the files of a named data set into `data_root/name`.

    Files that are there already are kept; a download that was cut off goes on where it stopped. The checksums of
    what was fetched are recorded, and compared when it is fetched again. With `base_url`, a mirror, every file is
    taken from `base_url/FILE`. Returns the data set's folder.
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
        try:
            if not _is_there(address, folder):
                check_no_link(folder)
                with claimed(folder):
                    _fetch_one(url, address, folder, progress)
        except OSError as error:
            raise DataError(
                f"{address.file} cannot be written to {folder} ({error.strerror or error}); free some space, or "
                "choose another --data-root"
            ) from None
    return folder


def _is_there(address: Address, folder: Path) -> bool:
    """Whether nothing needs to be written."""
    if address.unpack:
        return _members_are_there(address, folder)
    return _has(folder / address.file) and _is_unchanged(address, folder, [address.file])


def _fetch_one(url: str, address: Address, folder: Path, progress: Progress | None) -> None:
    if _is_there(address, folder):  # brought by another process, which has just ended
        return
    file = folder / address.file
    if _has(file):
        _is_unchanged(address, folder, [address.file])
    else:
        _download(url, address, file, progress)
    if address.unpack:
        _put_members(file, address, folder)


def _members_are_there(address: Address, folder: Path) -> bool:
    """Whether an archive needs no fetching: every member that was recorded is there, or some were put there by hand."""
    members = [name for name in recorded(folder) if _is_member(name, address)]
    if not members:
        return all(any((folder / sub).glob(PurePosixPath(pattern).name)) for pattern, sub in address.unpack)
    return all(_has(folder / name) for name in members) and _is_unchanged(address, folder, members)


def _is_member(name: str, address: Address) -> bool:
    return any(
        fnmatch.fnmatch(name, (PurePosixPath(sub) / PurePosixPath(pattern).name).as_posix())
        for pattern, sub in address.unpack
    )


def _has(file: Path) -> bool:
    """Whether a file is there, or a link to one; what would be waited for without end is refused."""
    if not file.exists():
        return False
    if not file.is_file():
        raise FormatError(file, "it is not a regular file; delete it and fetch again")
    return True


def _is_unchanged(address: Address, folder: Path, names: list[str]) -> bool:
    """Files that are there already must be those that were fetched; an error where they are not."""
    sums = recorded(folder)
    if address.sha256:
        sums[address.file] = address.sha256
    for name in names:
        if name in sums and sha256_of(folder / name) != sums[name]:
            raise FormatError(
                folder / name,
                f"the file is not the one that was fetched: its SHA-256 is no longer {sums[name]}; delete it and "
                f"fetch again, or delete its line in {SUMS} if the change is meant",
            )
    return True


def _download(url: str, address: Address, file: Path, progress: Progress | None) -> None:
    """Bring a file here; it takes its place when its content and its checksum are right."""
    part = file.with_name(f"{file.name}.part")
    wanted = Wanted(url, address.file, address.max_bytes, verified=address.sha256 is not None)
    transfer(wanted, part, progress)
    try:
        check_content(part, address.file)
        digest, first = sha256_of(part), recorded(file.parent).get(address.file)
        if address.sha256 not in (None, digest):
            raise DataError(
                f"{address.file} from {wanted.host} does not have the checksum {address.sha256}; it was not kept, "
                "fetch again"
            )
        if first not in (None, digest):
            raise DataError(
                f"{address.file} from {wanted.host} is another file than the one fetched first (SHA-256 {digest}, "
                f"recorded was {first}); it was not kept: if the publisher has really changed it, delete its line in "
                f"{file.parent / SUMS} and fetch again"
            )
    except (DataError, OSError):
        forget(part)
        raise
    record(file.parent, {address.file: digest})
    part.replace(file)


def _put_members(archive: Path, address: Address, folder: Path) -> None:
    """Members are recorded before the first takes its place: a kill in between is noticed by the next fetch."""
    inside = folder / "unpacked.part"
    try:
        names = unpack(archive, address, inside)
        record(folder, {name: sha256_of(inside / name) for name in names})
        for name in names:
            check_no_link((folder / name).parent)
            (folder / name).parent.mkdir(exist_ok=True)
            (inside / name).replace(folder / name)
    except FormatError:
        archive.unlink(missing_ok=True)
        raise
    finally:
        shutil.rmtree(inside, ignore_errors=True)
    archive.unlink()
