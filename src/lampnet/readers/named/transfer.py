"""One file over HTTP, so that what arrives is what the server holds, or nothing.

A download that was cut off goes on only where the server proves that it still holds the same file: by the validator
(entity tag or date) of the first answer, by the stated range, and by the same length. Otherwise it begins again.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lampnet.errors import DataError, MissingExtra
from lampnet.runtime.limited_json import parse_json
from lampnet.runtime.regular_files import append_regular, read_regular

#: file name, bytes so far, bytes in all (0 when the server does not state them)
Progress = Callable[[str, int, int], None]

_TIMEOUT = 30
_BLOCK = 1 << 16
_MOST_OF_A_NOTE = 1 << 16
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


@dataclass(frozen=True)
class Wanted:
    """A file to bring here.

    url        where it is
    file       its name here
    max_bytes  more is refused
    verified   whether a checksum will be compared: only then a body may come without any sign of its end
    """

    url: str
    file: str
    max_bytes: int
    verified: bool = False

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or self.url

    def fault(self, what: str, advice: str = "try again later, or put the file there by hand") -> DataError:
        return DataError(f"{self.host} {what}; {advice}")


@dataclass(frozen=True)
class _Begun:
    """What is known of a download that has begun; kept beside the part that has come."""

    url: str
    validator: str
    total: int

    @classmethod
    def read(cls, path: Path) -> _Begun | None:
        """What was noted; None where there is no note, or one that `transfer` does not write."""
        try:
            begun = cls(**parse_json(read_regular(path, _MOST_OF_A_NOTE)))
        except (OSError, ValueError, TypeError):
            return None
        texts = all(isinstance(text, str) and text.isascii() for text in (begun.url, begun.validator))
        sound = texts and begun.validator.isprintable() and type(begun.total) is int and begun.total >= 0
        return begun if sound else None


def transfer(wanted: Wanted, part: Path, progress: Progress | None = None) -> None:
    """Bring a file to `part`; what an earlier call left there is continued where that is safe."""
    note = part.with_name(f"{part.name}.json")
    begun = _Begun.read(note)
    have = _size(part) if begun is not None and begun.url == wanted.url else 0
    with _explained(wanted):
        if begun is not None and have and have == begun.total:
            pass  # it had come to its end, but was not moved to its place yet
        elif not (begun is not None and have and begun.validator and _receive(wanted, part, note, begun, progress)):
            _receive(wanted, part, note, None, progress)
    note.unlink(missing_ok=True)


def _size(part: Path) -> int:
    """What has come of a file; 0 where that is a link to one elsewhere, or anything else but a file of its own."""
    try:
        found = part.lstat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 else 0


def forget(part: Path) -> None:
    """Remove what has come of a file."""
    for path in (part, part.with_name(f"{part.name}.json")):
        path.unlink(missing_ok=True)


def _receive(wanted: Wanted, part: Path, note: Path, begun: _Begun | None, progress: Progress | None) -> bool:
    """Ask for the file, or for the rest of one that has begun; False where the rest does not fit what is here."""
    import requests

    have = 0 if begun is None else _size(part)
    headers = {"Accept-Encoding": "identity"}
    if begun is not None:
        headers |= {"Range": f"bytes={have}-", "If-Range": begun.validator}
    with requests.get(wanted.url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
        _check_secure(wanted, response)
        if begun is not None and response.status_code in (206, 416):
            if not _continues(response, begun, have):
                return False
        elif response.status_code == 200:
            have = 0
        else:
            raise _unwanted(wanted, response)
        _check_type(wanted, response)
        total = begun.total if have and begun is not None else _stated_length(wanted, response)
        if total > wanted.max_bytes:
            raise _too_large(wanted, f"{total:,}")
        if not have:
            forget(part)
            with append_regular(note) as stream:
                stream.write(json.dumps(asdict(_Begun(wanted.url, _validator(response), total))).encode())
        with append_regular(part) as stream:
            for block in response.raw.stream(_BLOCK, decode_content=False):
                have += len(block)
                if have > wanted.max_bytes:
                    forget(part)
                    raise _too_large(wanted, "more")
                stream.write(block)
                if progress is not None:
                    progress(wanted.file, have, total)
            stream.flush()
            os.fsync(stream.fileno())
    if total and have != total:
        raise _broken(wanted)
    return True


def _continues(response: Any, begun: _Begun, have: int) -> bool:
    """Whether an answer to a request for the rest holds exactly the rest of the file that has begun."""
    stated = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    if response.status_code != 206 or stated is None or _validator(response) != begun.validator:
        return False
    first, last, total = map(int, stated.groups())
    return first == have and last == total - 1 and total == begun.total


def _validator(response: Any) -> str:
    """A strong entity tag, else the date of the last change, else nothing: what If-Range can be asked with."""
    tag: str = response.headers.get("ETag", "")
    if tag.startswith('"') and tag.endswith('"') and len(tag) > 2:
        return tag
    changed: str = response.headers.get("Last-Modified", "")
    return changed


def _stated_length(wanted: Wanted, response: Any) -> int:
    """The length of the whole file; 0 where it comes in chunks that end with a mark of their own."""
    if response.headers.get("Transfer-Encoding", "").lower() == "chunked":
        return 0
    stated = response.headers.get("Content-Length")
    if stated is None:
        if wanted.verified:
            return 0
        raise wanted.fault(
            f"does not state how long {wanted.file} is, so that a download that was cut short would not be noticed",
            "take it from another mirror with --base-url, or put the file there by hand",
        )
    if not stated.strip().isdecimal():
        raise wanted.fault(f"states a length of {stated[:40]!r} for {wanted.file}, which is not a number of bytes")
    return int(stated)


def _check_type(wanted: Wanted, response: Any) -> None:
    kind = response.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        raise wanted.fault(
            f"sent a web page instead of {wanted.file}",
            "a login page of this network, perhaps: open the address in a browser, then try again",
        )
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity") and not wanted.file.endswith(".gz"):
        raise wanted.fault(f"sent {wanted.file} in the encoding {encoding[:40]!r}, which was not asked for")


def _check_secure(wanted: Wanted, response: Any) -> None:
    if wanted.url.startswith("https:") and not all(
        answer.url.startswith("https:") for answer in (*response.history, response)
    ):
        raise wanted.fault(f"sends {wanted.file} over a connection that is not encrypted ({response.url[:200]})")


def _unwanted(wanted: Wanted, response: Any) -> DataError:
    answer = f"{response.status_code} {response.reason}"
    if response.status_code >= 400 and response.status_code != 416:
        return wanted.fault(f"refused {wanted.file} ({answer})")
    return wanted.fault(f"answered {answer} to a request for the whole of {wanted.file}")


def _too_large(wanted: Wanted, came: str) -> DataError:
    return wanted.fault(
        f"sends {came} bytes as {wanted.file}, at most {wanted.max_bytes:,} are expected",
        "if the file has really grown, put it there by hand",
    )


def _broken(wanted: Wanted) -> DataError:
    return DataError(
        f"the connection to {wanted.host} broke while {wanted.file} was downloaded; what has arrived is kept, "
        "fetch again to continue"
    )


@contextmanager
def _explained(wanted: Wanted) -> Iterator[None]:
    """Turn the errors of the network and of the disk into a sentence."""
    try:
        import requests
        import urllib3
    except ImportError:
        raise MissingExtra("requests", "fetch", "fetching data sets") from None
    try:
        yield
    except (urllib3.exceptions.HTTPError, requests.exceptions.ChunkedEncodingError):
        raise _broken(wanted) from None
    except requests.exceptions.SSLError:
        raise DataError(
            f"the certificate of {wanted.host} cannot be trusted, so {wanted.file} was not fetched; check the clock of "
            "this machine and its network, or put the file there by hand"
        ) from None
    except (requests.ConnectionError, requests.Timeout):
        raise DataError(
            f"{wanted.host} cannot be reached (offline?) to fetch {wanted.file}; try again when connected, what has "
            "arrived is kept, or put the file there by hand"
        ) from None
    except requests.RequestException as error:
        raise wanted.fault(f"sent an answer that cannot be read instead of {wanted.file} ({error})") from None
    except OSError as error:
        raise DataError(f"{wanted.file} cannot be written ({error.strerror or error}); free some space") from None
