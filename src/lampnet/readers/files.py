"""Files as bytes and text: compression, size limits, encodings; every failure names the file.

All readers take their bytes from here, so a decompression bomb, a cut-off archive or a
Latin-1 file that claims to be UTF-8 is reported the same way everywhere.
"""

from __future__ import annotations

import bz2
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lampnet.errors import DataError, FormatError
from lampnet.runtime.memory_limit import STRING, MemoryBudget

#: A compressed file that is read line by line may always decompress to this many bytes.
MAX_BYTES = 2 << 30
#: Header dimensions above this are taken for damage, not for data.
MAX_DIMENSION = 50_000_000
#: Rows are kept as float32; what is larger would become infinite.
LARGEST = 3.4028234663852886e38
#: Endings of the tables that are not text.
ARROW_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")

#: A line of a file that is read line by line has at most this many bytes.
MAX_LINE = 1 << 26
#: It may decompress to more than MAX_BYTES, but no text is packed more tightly than this.
MAX_RATIO = 200

_STEP = 1 << 20
#: The bytes of a file are in memory twice while they are joined, decoded or split.
_COPIES = 2


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file; gzip and bz2 are recognised by their content and decompressed."""
    path = Path(path)
    if path.is_dir():
        raise FormatError(path, "this is a folder; give a file")
    budget = MemoryBudget(path)
    try:
        with path.open("rb") as stream:
            chunks = _decompressed(path, stream, _STEP)
            if chunks is None:
                budget.check(_COPIES * path.stat().st_size)
                chunks = iter(lambda: stream.read(16 * _STEP), b"")  # a device states no size
            return b"".join(_counted(budget, chunks))
    except OSError as error:
        raise _unreadable(path, error) from None


def read_start(path: str | Path, size: int) -> bytes:
    """The first bytes of a file, decompressed as by `read_bytes`."""
    path, found = Path(path), b""
    try:
        with path.open("rb") as stream:
            for chunk in _decompressed(path, stream, size) or iter([stream.read(size)]):
                found += chunk
                if len(found) >= size:
                    break
    except OSError as error:
        raise _unreadable(path, error) from None
    return found[:size]


def read_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of a file, without their ends, in the memory of a few of them; decompressed as by `read_bytes`."""
    path, rest, length = Path(path), [b""], 0
    try:
        with path.open("rb") as stream:
            chunks = _decompressed(path, stream, _STEP)
            if chunks is None:
                chunks = iter(lambda: stream.read(_STEP), b"")
            else:
                chunks = _bounded(path, chunks, max(MAX_BYTES, MAX_RATIO * path.stat().st_size))
            for chunk in chunks:
                # A line of many chunks is joined once, at its end.
                first, *lines = chunk.split(b"\n")
                rest.append(first)
                length += len(first)
                if max(length, *map(len, lines), 0) > MAX_LINE:
                    raise FormatError(path, f"a line is longer than {MAX_LINE:,} bytes; write one row per line")
                if lines:
                    yield b"".join(rest)
                    yield from lines[:-1]
                    rest, length = lines[-1:], len(lines[-1])
            if length:
                yield b"".join(rest)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> FormatError:
    if isinstance(error, FileNotFoundError):
        return FormatError(path, "there is no such file; check the path")
    return FormatError(path, f"the file cannot be read ({error.strerror or error})")


def _decompressed(path: Path, stream: IO[bytes], step: int) -> Iterator[bytes] | None:
    """A gzip or bz2 file's content, at most `step` bytes at a time; None for other files."""
    magic = stream.read(3)
    stream.seek(0)
    engine = _gunzip if magic[:2] == b"\x1f\x8b" else _bunzip if magic == b"BZh" else None
    return None if engine is None else engine(path, iter(lambda: stream.read(_STEP), b""), step)


def _counted(budget: MemoryBudget, chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        budget.take(_COPIES * len(chunk))
        yield chunk


def _bounded(path: Path, chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > most:
            raise FormatError(
                path,
                f"the content is larger than {most:,} bytes, the limit against decompression bombs; decompress it "
                "yourself if the file is genuine",
            )
        yield chunk


def _gunzip(path: Path, blocks: Iterator[bytes], step: int) -> Iterator[bytes]:
    """Decompress with a bound on every step; several gzip members may follow one another."""
    engine = zlib.decompressobj(wbits=31)
    try:
        for block in blocks:
            data = block
            while data:
                if engine.eof:
                    if not data.strip(b"\0"):  # zero padding after the last member is legal
                        break
                    engine = zlib.decompressobj(wbits=31)
                yield engine.decompress(data, step)
                data = engine.unused_data if engine.eof else engine.unconsumed_tail
    except zlib.error as error:
        raise FormatError(path, f"the gzip data is damaged ({error}); fetch the file again") from None
    if not engine.eof:
        raise FormatError(path, "the gzip data ends too early (a truncated file?); fetch the file again")


def _bunzip(path: Path, blocks: Iterator[bytes], step: int) -> Iterator[bytes]:
    engine = bz2.BZ2Decompressor()
    try:
        for block in blocks:
            data = block
            while data or not (engine.needs_input or engine.eof):
                if engine.eof:
                    engine = bz2.BZ2Decompressor()
                yield engine.decompress(data, step)
                data = engine.unused_data if engine.eof else b""
    except (OSError, ValueError) as error:
        raise FormatError(path, f"the bz2 data is damaged ({error}); fetch the file again") from None
    if not engine.eof:
        raise FormatError(path, "the bz2 data ends too early (a truncated file?); fetch the file again")


def decode(path: str | Path, raw: bytes, encoding: str = "utf-8", first_line: int = 1) -> str:
    """Bytes as text with bare line feeds, without a byte order mark.

    >>> decode("a.txt", b"\\xef\\xbb\\xbfone\\r\\ntwo")
    'one\\ntwo'
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        raise FormatError(
            path,
            f"the bytes {raw[error.start : error.start + 4]!r} are not {encoding}; save the file as UTF-8, or name its "
            "encoding with --encoding latin-1 (CSV and TSV; older files of western languages are Latin-1)",
            line,
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def transcoded(path: str | Path, raw: bytes, encoding: str, unless_utf8: bool = False) -> bytes:
    """Bytes of another encoding as UTF-8; with `unless_utf8`, only those that are no UTF-8 already.

    >>> transcoded("a.csv", "café".encode("latin-1"), "latin-1").decode()
    'café'
    """
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise DataError(f"there is no text encoding {encoding[:40]!r}; give one such as latin-1 or cp1252") from None
    if unless_utf8:
        try:
            raw.decode()
            return raw
        except UnicodeDecodeError:
            pass
    return decode(path, raw, encoding).encode()


def utf8_lines(path: str | Path, raw: bytes) -> bytes:
    """The content of a text file with bare line feeds, the last line ended too, without a byte order mark."""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raw = decode(path, raw).encode()
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in raw else raw
    return raw if raw.endswith(b"\n") else raw + b"\n"


def read_text(path: str | Path, encoding: str = "utf-8") -> str:
    """The text of a file, decompressed where need be."""
    return decode(path, read_bytes(path), encoding)


def read_text_lines(path: str | Path, encoding: str = "utf-8") -> list[str]:
    """The lines of a text file, without their ends; the last one is empty where the file ends with a line feed."""
    text = read_text(path, encoding)
    MemoryBudget(path).check(2 * sys.getsizeof(text) + STRING * (text.count("\n") + 1))
    return text.split("\n")


def text_fields_size(text: str) -> int:
    """Bytes of memory that Python's csv module takes for a text: four for a character, and the fields of one line.

    >>> text_fields_size("a,b") > 3 * 4
    True
    """
    signs = max(map(text.count, ",\t"))  # at worst all are in one line
    return 2 * sys.getsizeof(text) + 4 * len(text) + STRING * signs


def plain_suffix(path: str | Path) -> str:
    """The ending of a file's name, compression left aside.

    >>> plain_suffix("Imdb.ARFF.bz2")
    '.arff'
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while suffixes and suffixes[-1] in (".gz", ".bz2"):
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def plain_stem(path: str | Path) -> str:
    """The name of a file without its endings.

    >>> plain_stem("data/Imdb.arff.bz2")
    'Imdb'
    """
    name = re.sub(r"(?i)\.gz$", "", Path(path).name)
    name = re.sub(r"(?i)\.bz2$", "", name)
    # A file's name may hold bytes that are no text, which could not be written to a model folder.
    return (Path(name).stem or name).encode("utf-8", "replace").decode()


def is_file(path: Path) -> bool:
    """Whether there is such a file; none has a name that is too long for one.

    >>> is_file(Path("n" * 5_000))
    False
    """
    try:
        return path.is_file()
    except OSError:
        return False
