"""Whether a downloaded file is what its name says, before it takes its place."""

from __future__ import annotations

import gzip
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

from lampnet.errors import FormatError
from lampnet.readers.files import MAX_BYTES

_BLOCK = 1 << 20
# Comments are not divided in another way once they were passed: that would take exponential time.
_WEB_PAGE = re.compile(
    rb"\s*+(?:<!--(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body|script)\b", re.IGNORECASE | re.DOTALL
)
_RAR = b"Rar!\x1a\x07"
#: what Python raises for an archive that is damaged, encrypted, or of a version that it does not know
DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, struct.error,
    NotImplementedError, RuntimeError, ValueError, OverflowError, LookupError,
)  # fmt: skip


def check_content(path: Path, name: str) -> None:
    """Raise a `FormatError` for an empty file, a web page, a damaged archive, or binary data under a name of text."""
    with path.open("rb") as stream:
        start = stream.read(4096)
    if not start:
        raise FormatError(name, "the downloaded file is empty; fetch it again later")
    if _WEB_PAGE.match(start.removeprefix(b"\xef\xbb\xbf")):
        raise FormatError(name, "a web page was downloaded instead of the file (a login page?); fetch it again later")
    suffix = Path(name).suffix
    if suffix == ".gz":
        _check_gzip(path, name)
    elif suffix == ".zip":
        _check_zip(path, name)
    elif suffix == ".rar":
        if not start.startswith(_RAR):
            raise FormatError(name, "the downloaded file is not a RAR archive; fetch it again later")
    else:
        _check_text(path, name)


def _check_gzip(path: Path, name: str) -> None:
    """Decompress everything: the checksum and the length at the end of each gzip member are compared."""
    total = 0
    try:
        with gzip.open(path) as stream:
            while block := stream.read(_BLOCK):
                total += len(block)
                if total > MAX_BYTES:
                    raise FormatError(name, f"the file decompresses to more than {MAX_BYTES:,} bytes")
    except FormatError:
        raise
    except DAMAGED as error:
        raise FormatError(name, f"the gzip data is damaged ({what_is_wrong(error)}); fetch it again") from None


def _check_zip(path: Path, name: str) -> None:
    try:
        with zipfile.ZipFile(path):  # its table of contents is at the end; members are compared when unpacked
            pass
    except DAMAGED as error:
        raise FormatError(name, f"the downloaded archive is damaged ({what_is_wrong(error)}); fetch it again") from None


def what_is_wrong(error: BaseException) -> str:
    """What Python says of a damaged archive, in one short line.

    >>> what_is_wrong(tarfile.ReadError("it cannot be opened:\\n- method gz"))
    'it cannot be opened'
    """
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0][:100].rstrip(":")


def _check_text(path: Path, name: str) -> None:
    last = b""
    has_data = not name.endswith(".arff")
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            if b"\0" in block:
                raise FormatError(name, "the downloaded file is binary; text was expected: fetch it again later")
            has_data = has_data or b"@data" in (last[-8:] + block).lower()
            last = block
    if not has_data:
        raise FormatError(name, "the downloaded ARFF file has no @data; fetch it again later")
