"""Whether a downloaded file is what its name says, before it takes its place."""

from __future__ import annotations

import gzip
import re
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


def check_content(path: Path, name: str) -> None:
    """Raise a `FormatError` for an empty file, a web page, a damaged archive, or binary data under a name of text."""
    with path.open("rb") as stream:
        start = stream.read(4096)
    if not start:
        raise FormatError(name, "the file came empty; fetch it again later")
    if _WEB_PAGE.match(start.removeprefix(b"\xef\xbb\xbf")):
        raise FormatError(name, "a web page came instead of the file (a login page?); fetch it again later")
    suffix = Path(name).suffix
    if suffix == ".gz":
        _check_gzip(path, name)
    elif suffix == ".zip":
        _check_zip(path, name)
    elif suffix == ".rar":
        if not start.startswith(_RAR):
            raise FormatError(name, "what came is no RAR archive; fetch it again later")
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
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(name, f"the gzip data that came is damaged ({error}); fetch it again") from None


def _check_zip(path: Path, name: str) -> None:
    try:
        with zipfile.ZipFile(path):  # its table of contents is at the end; members are compared when unpacked
            pass
    except zipfile.BadZipFile as error:
        raise FormatError(name, f"the archive that came is damaged ({error}); fetch it again") from None


def _check_text(path: Path, name: str) -> None:
    last = b""
    has_data = not name.endswith(".arff")
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            if b"\0" in block:
                raise FormatError(name, "binary data came where text was expected; fetch it again later")
            has_data = has_data or b"@data" in (last[-8:] + block).lower()
            last = block
    if not has_data:
        raise FormatError(name, "the ARFF file that came has no @data; fetch it again later")
