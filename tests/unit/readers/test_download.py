"""Fetching from a real HTTP server on this machine that can misbehave: what is kept is what the server holds."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lampnet.errors import DataError, FormatError, LampnetError
from lampnet.readers.named import content_check
from lampnet.readers.named import unpack as unpacking
from lampnet.readers.named.addresses import ADDRESSES, NOT_OFFERED, Address
from lampnet.readers.named.download import fetch
from lampnet.readers.named.registry import NAMES, load

pytest.importorskip("requests")


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files` with ranges and entity tags as a good server does, unless asked to misbehave."""

    protocol_version = "HTTP/1.1"
    files: dict[str, bytes] = {}  # noqa: RUF012
    seen: list[dict[str, str]] = []  # noqa: RUF012
    hang_up_after: int | None = None
    misbehaviour = ""
    redirect_to = ""

    def do_GET(self) -> None:
        self.close_connection = True
        content = self.files.get(self.path.lstrip("/"))
        type(self).seen.append(dict(self.headers))
        if content is None:
            self.send_error(404)
            return
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        asked = self.headers.get("Range")
        careless = ("ignores If-Range", "wrong range", "no range")
        if asked and self.headers.get("If-Range") != tag and self.misbehaviour not in careless:
            asked = None
        if self.misbehaviour == "always 416":
            self.send_error(416)
            return
        if self.redirect_to and not self.path.endswith("elsewhere"):
            self.send_response(302)
            self.send_header("Location", self.redirect_to)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if asked and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.misbehaviour == "wrong range" and asked:
            start = 0  # the beginning, where the rest was asked for
        self.send_response(206 if asked or self.misbehaviour == "always 206" else 200)
        if asked and self.misbehaviour != "no range":
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.misbehaviour != "no validator":
            self.send_header("ETag", tag)
        if self.misbehaviour == "web page":
            self.send_header("Content-Type", "text/html; charset=utf-8")
        if self.misbehaviour == "encodes":
            self.send_header("Content-Encoding", "br")
        body = content[start:]
        end = len(body) if self.hang_up_after is None else self.hang_up_after
        if self.misbehaviour == "chunks":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for first in range(0, end, 50_000):
                block = body[first : min(first + 50_000, end)]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
            if self.hang_up_after is None:
                self.wfile.write(b"0\r\n\r\n")
            return
        lengths = {"no length": [], "bad length": ["lots"], "negative length": ["-5"], "two lengths": ["5", "7"]}
        for length in lengths.get(self.misbehaviour, [str(len(body))]):
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(body[:end])

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Handler.files, Handler.seen, Handler.hang_up_after = {}, [], None
    Handler.misbehaviour = Handler.redirect_to = ""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


SIDER = b"smiles,a,b\n" + b"".join(f"{'C' * (i + 1)},{i % 2},1\n".encode() for i in range(30))
NOISE = gzip.compress(os.urandom(400_000))  # cannot be compressed, so it comes in many blocks
FILE = "sider.csv.gz"


def half_way(server: str, root: Path, content: bytes = NOISE) -> Path:
    """A download that was cut off; the part that has come."""
    Handler.files[FILE], Handler.hang_up_after = content, 100_000
    with pytest.raises(DataError, match=r"connection to 127\.0\.0\.1 broke.*what has arrived is kept"):
        fetch("sider", root, base_url=server)
    Handler.hang_up_after = None
    part = root / "sider" / f"{FILE}.part"
    assert 0 < part.stat().st_size <= 100_000
    assert not (root / "sider" / FILE).exists()
    return part


def left_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_fetch_then_load(server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = gzip.compress(SIDER)
    progress: list[tuple[str, int, int]] = []
    folder = fetch("sider", tmp_path, base_url=server, progress=lambda *news: progress.append(news))
    assert folder == tmp_path / "sider"
    size = len(Handler.files[FILE])
    assert progress[-1] == (FILE, size, size)
    assert load("sider", tmp_path).train.label_names == ("a", "b")
    assert left_in(folder) == ["SHA256SUMS", FILE]
    digest = hashlib.sha256(Handler.files[FILE]).hexdigest()
    assert (folder / "SHA256SUMS").read_text() == f"{digest}  {FILE}\n"
    fetch("sider", tmp_path, base_url=server)
    assert len(Handler.seen) == 1  # what is there is not fetched again


def test_a_broken_download_goes_on_where_it_stopped(server: str, tmp_path: Path) -> None:
    have = half_way(server, tmp_path).stat().st_size
    progress: list[int] = []
    fetch("sider", tmp_path, base_url=server, progress=lambda name, done, total: progress.append(done))
    assert Handler.seen[1]["Range"] == f"bytes={have}-"
    assert Handler.seen[1]["If-Range"] == f'"{hashlib.md5(NOISE).hexdigest()}"'
    assert progress[0] > have
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE
    assert left_in(tmp_path / "sider") == ["SHA256SUMS", FILE]


OTHER = gzip.compress(os.urandom(400_000))


@pytest.mark.parametrize("misbehaviour", ["", "ignores If-Range", "wrong range", "no range", "no validator"])
def test_a_file_that_changed_on_the_server_is_not_pieced_together(
    misbehaviour: str, server: str, tmp_path: Path
) -> None:
    Handler.misbehaviour = misbehaviour if misbehaviour == "no validator" else ""
    half_way(server, tmp_path)
    Handler.files[FILE], Handler.misbehaviour = OTHER, misbehaviour
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / FILE).read_bytes() == OTHER
    if misbehaviour == "no validator":
        assert "Range" not in Handler.seen[1]


@pytest.mark.parametrize("misbehaviour", ["wrong range", "no range"])
def test_an_answer_with_another_range_is_not_appended(misbehaviour: str, server: str, tmp_path: Path) -> None:
    half_way(server, tmp_path)
    Handler.misbehaviour = misbehaviour
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE


def test_a_part_of_unknown_origin_is_thrown_away(server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = NOISE
    (tmp_path / "sider").mkdir()
    for note in (None, "{", "[]", '{"url": "http://elsewhere/x", "validator": "x", "total": 3}'):
        (tmp_path / "sider" / f"{FILE}.part").write_bytes(b"something else")
        if note is not None:
            (tmp_path / "sider" / f"{FILE}.part.json").write_text(note)
        (tmp_path / "sider" / FILE).unlink(missing_ok=True)
        fetch("sider", tmp_path, base_url=server)
        assert (tmp_path / "sider" / FILE).read_bytes() == NOISE
        assert "Range" not in Handler.seen[-1]


def test_a_part_that_is_longer_than_the_file_is_thrown_away(server: str, tmp_path: Path) -> None:
    part = half_way(server, tmp_path)
    part.write_bytes(NOISE + b"more")
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE


def test_a_part_that_is_complete_needs_no_server(server: str, tmp_path: Path) -> None:
    half_way(server, tmp_path).write_bytes(NOISE)
    fetch("sider", tmp_path, base_url=server)
    assert len(Handler.seen) == 1
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE


@pytest.mark.parametrize(
    ("misbehaviour", "sentence"),
    [
        ("always 416", r"127\.0\.0\.1 answered 416 Request.* to a request for the whole of sider\.csv\.gz; try again"),
        ("always 206", r"127\.0\.0\.1 answered 206 Partial Content to a request for the whole of sider\.csv\.gz"),
        ("no length", r"does not state how long sider\.csv\.gz is.*cut short.*--base-url"),
        ("bad length", r"states a length of 'lots' for sider\.csv\.gz, which is not a number of bytes"),
        ("negative length", r"states a length of '-5' for sider\.csv\.gz"),
        ("two lengths", r"sent an answer that cannot be read instead of sider\.csv\.gz"),
        ("web page", r"sent a web page instead of sider\.csv\.gz"),
    ],
)
def test_an_answer_that_cannot_be_trusted_is_refused(
    misbehaviour: str, sentence: str, server: str, tmp_path: Path
) -> None:
    Handler.files[FILE], Handler.misbehaviour = gzip.compress(SIDER), misbehaviour
    with pytest.raises(DataError, match=sentence):
        fetch("sider", tmp_path, base_url=server)
    assert left_in(tmp_path / "sider") == []


def test_a_known_checksum_makes_up_for_a_missing_length(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(NOISE).hexdigest()
    monkeypatch.setitem(ADDRESSES, "sider", (Address("x", FILE, sha256=digest),))
    Handler.files[FILE], Handler.misbehaviour, Handler.hang_up_after = NOISE, "no length", 1000
    with pytest.raises(FormatError, match="damaged"):
        fetch("sider", tmp_path, base_url=server)
    Handler.hang_up_after = None
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE


def test_chunks_are_whole_or_refused(server: str, tmp_path: Path) -> None:
    Handler.files[FILE], Handler.misbehaviour, Handler.hang_up_after = NOISE, "chunks", 150_000
    with pytest.raises(DataError, match="broke"):
        fetch("sider", tmp_path, base_url=server)
    Handler.hang_up_after = None
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE


def test_an_encrypted_connection_stays_encrypted(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("making a certificate needs openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*make.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    Handler.files[FILE] = NOISE
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as encrypted:
        encrypted.socket = context.wrap_socket(encrypted.socket, server_side=True)
        thread = threading.Thread(target=encrypted.serve_forever, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{encrypted.server_address[1]}"
        with pytest.raises(DataError, match=r"the certificate of 127\.0\.0\.1 cannot be trusted"):
            fetch("sider", tmp_path, base_url=url)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        Handler.redirect_to = f"{server}/elsewhere"
        Handler.files["elsewhere"] = NOISE
        with pytest.raises(DataError, match=r"sends sider\.csv\.gz over a connection that is not encrypted"):
            fetch("sider", tmp_path, base_url=url)
        assert left_in(tmp_path / "sider") == []
        Handler.redirect_to = f"{url}/elsewhere"
        fetch("sider", tmp_path, base_url=url)
        encrypted.shutdown()
        thread.join()
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE


@pytest.mark.parametrize("misbehaviour", ["", "chunks"])
def test_more_bytes_than_expected_are_refused(
    misbehaviour: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ADDRESSES, "sider", (Address("x", FILE, max_bytes=200_000),))
    Handler.files[FILE], Handler.misbehaviour = NOISE, misbehaviour
    with pytest.raises(DataError, match=r"at most 200,000 are expected"):
        fetch("sider", tmp_path, base_url=server)
    assert left_in(tmp_path / "sider") == []


PAGE = b"<!-- portal -->\n <!DOCTYPE html><html><body>Please log in</body></html>"


@pytest.mark.parametrize(
    ("name", "file", "content", "sentence"),
    [
        ("sider", FILE, PAGE, "a web page was downloaded instead"),
        ("goemotions", "train.tsv", PAGE, "a web page was downloaded instead"),
        ("goemotions", "train.tsv", b"", "the downloaded file is empty"),
        ("goemotions", "train.tsv", b"some text\t1\0\n", "the downloaded file is binary"),
        ("sider", FILE, b"smiles,a\nC,1\n", "damaged"),
        ("sider", FILE, NOISE[:-9], "damaged"),
        ("sider", FILE, NOISE[:5000] + b"x" + NOISE[5001:], "damaged"),
        ("imdb", "IMDB-F.arff", b"@relation x\n@attribute a {0,1}\n", "no @data"),
        ("scene", "scene.rar", b"not an archive", "not a RAR archive"),
        ("yeast_chipexo", "2021-Rossi_Nature.zip", b"PK\3\4 cut off", "damaged"),
        ("reuters21578", "reuters21578.tar.gz", b"\x1f\x8b not really", "damaged"),
        ("reuters21578", "reuters21578.tar.gz", gzip.compress(b"no tar at all", mtime=0), "damaged"),
        ("reuters21578", "reuters21578.tar.gz", gzip.compress(bytes(10_240), mtime=0), "holds none of reut2-"),
    ],
)
def test_content_that_is_not_what_its_name_says_is_not_kept(
    name: str, file: str, content: bytes, sentence: str, server: str, tmp_path: Path
) -> None:
    Handler.files[file] = content
    with pytest.raises(FormatError, match=sentence):
        fetch(name, tmp_path, base_url=server)
    assert [kept for kept in left_in(tmp_path / name) if kept != "SHA256SUMS"] == []


def zip_of_a_later_version(path: Path, place: bytes, change: int) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.arff", "@data")
    content = bytearray(path.read_bytes())
    content[content.index(place) + change] = 0x63
    path.write_bytes(bytes(content))


DAMAGED_ARCHIVES = {
    "no tar.tar": lambda path: path.write_bytes(b"no archive at all"),
    "needs version 9.9.zip": lambda path: zip_of_a_later_version(path, b"PK\1\2", 6),
    "encrypted.zip": lambda path: zip_of_a_later_version(path, b"PK\1\2", 8),
    "unknown compression.zip": lambda path: zip_of_a_later_version(path, b"PK\1\2", 10),
}


@pytest.mark.parametrize("name", DAMAGED_ARCHIVES)
def test_damaged_archives_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    path, wanted = tmp_path / name, Address("https://example.org", name, (("*.arff", ""),))
    DAMAGED_ARCHIVES[name](path)
    with pytest.raises(FormatError, match="archive is damaged") as refusal:  # noqa: PT012
        if path.suffix == ".zip":
            content_check.check_content(path, name)
        unpacking.unpack(path, wanted, tmp_path / "inside")
    assert "\n" not in str(refusal.value)


def test_a_gzip_bomb_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_check, "MAX_BYTES", 1 << 21)
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(1 << 22)))
    with pytest.raises(FormatError, match=r"decompresses to more than 2,097,152 bytes"):
        content_check.check_content(tmp_path / "a.gz", "a.gz")


def test_what_is_fetched_again_must_be_what_was_fetched_first(server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = gzip.compress(SIDER)
    kept = fetch("sider", tmp_path, base_url=server) / FILE
    kept.unlink()
    Handler.files[FILE] = gzip.compress(SIDER.replace(b"1", b"0"))
    with pytest.raises(DataError, match=r"is another file than the one fetched first.*delete its line in .*SHA256SUMS"):
        fetch("sider", tmp_path, base_url=server)
    assert left_in(tmp_path / "sider") == ["SHA256SUMS"]
    (tmp_path / "sider" / "SHA256SUMS").write_text("")
    fetch("sider", tmp_path, base_url=server)
    assert kept.read_bytes() == Handler.files[FILE]


def test_a_file_that_was_changed_after_it_was_fetched_is_noticed(server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = gzip.compress(SIDER)
    kept = fetch("sider", tmp_path, base_url=server) / FILE
    kept.write_bytes(kept.read_bytes()[:-1] + b"x")
    with pytest.raises(FormatError, match="is not the one that was fetched"):
        fetch("sider", tmp_path, base_url=server)


def test_damaged_checksums_are_reported(tmp_path: Path) -> None:
    (tmp_path / "sider").mkdir()
    (tmp_path / "sider" / FILE).write_bytes(b"by hand")
    fetch("sider", tmp_path)  # a file put there by hand is kept, and needs no network
    (tmp_path / "sider" / "SHA256SUMS").write_text("what is this\n")
    with pytest.raises(FormatError, match=r"SHA256SUMS, line 1: .*delete the file"):
        fetch("sider", tmp_path)


def test_wrong_checksum_is_not_kept(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADDRESSES, "sider", (Address("x", FILE, sha256="0" * 64),))
    Handler.files[FILE] = gzip.compress(b"not what was promised")
    with pytest.raises(DataError, match="does not have the checksum"):
        fetch("sider", tmp_path, base_url=server)
    assert left_in(tmp_path / "sider") == []


def test_missing_on_the_server(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"refused sider\.csv\.gz \(404"):
        fetch("sider", tmp_path, base_url=server)


def test_an_encoding_that_was_not_asked_for_is_refused(server: str, tmp_path: Path) -> None:
    Handler.files["train.tsv"], Handler.misbehaviour = b"x\t1\ty\n", "encodes"
    with pytest.raises(DataError, match=r"sent train\.tsv in the encoding 'br'"):
        fetch("goemotions", tmp_path, base_url=server)


def test_offline(server: str, tmp_path: Path) -> None:
    with socket.socket() as unused:  # a port where nobody answers
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(DataError, match=r"cannot be reached \(offline\?\).*by hand"):
        fetch("goemotions", tmp_path, base_url=f"http://127.0.0.1:{port}")
    Handler.files["train.tsv"], Handler.redirect_to = b"x", f"http://127.0.0.1:{port}/elsewhere"
    with pytest.raises(DataError, match="cannot be reached"):
        fetch("goemotions", tmp_path, base_url=server)


def test_passwords_of_an_address_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        fetch("sider", tmp_path, base_url="http://user:secret@127.0.0.1:9")
    assert "secret" not in str(raised.value)


def tar_of(*names: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 5
            archive.addfile(entry, io.BytesIO(b"hello"))
        link = tarfile.TarInfo("reut2-009.sgm")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    return out.getvalue()


REUTERS = tar_of("./reut2-000.sgm", "../../outside/reut2-001.sgm", "README.txt", "lewis.dtd", "evil.sh")


def test_a_tar_archive_cannot_write_elsewhere(server: str, tmp_path: Path) -> None:
    Handler.files["reuters21578.tar.gz"] = REUTERS
    folder = fetch("reuters21578", tmp_path / "data", base_url=server)
    assert left_in(folder) == ["README.txt", "SHA256SUMS", "lewis.dtd", "reut2-000.sgm", "reut2-001.sgm"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    fetch("reuters21578", tmp_path / "data", base_url=server)
    assert len(Handler.seen) == 1
    (folder / "lewis.dtd").write_text("changed")
    with pytest.raises(FormatError, match="is not the one that was fetched"):
        fetch("reuters21578", tmp_path / "data", base_url=server)


def test_an_archive_that_was_unpacked_half_way_is_unpacked_again(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Handler.files["reuters21578.tar.gz"] = REUTERS
    moved = []
    replace = Path.replace

    def killed_at_the_fourth(self: Path, target: Path) -> Path:
        moved.append(target)
        if len(moved) == 5:  # the archive itself, then three of four members
            raise KeyboardInterrupt
        return replace(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed_at_the_fourth)
        with pytest.raises(KeyboardInterrupt):
            fetch("reuters21578", tmp_path, base_url=server)
    folder = fetch("reuters21578", tmp_path, base_url=server)
    assert left_in(folder) == ["README.txt", "SHA256SUMS", "lewis.dtd", "reut2-000.sgm", "reut2-001.sgm"]


def test_a_zip_archive_goes_to_its_folders(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADDRESSES, "yeast_chipexo", ADDRESSES["yeast_chipexo"][:1])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("2021-Rossi_Nature-master/04_ChExMix_Peaks/Abf1_CX.bed", "chr1\t1\t2\n")
        archive.writestr("2021-Rossi_Nature-master/02_References/sample-key.tab", "x")
        archive.writestr("2021-Rossi_Nature-master/other.xlsx", "x")
    Handler.files["2021-Rossi_Nature.zip"] = out.getvalue()
    folder = fetch("yeast_chipexo", tmp_path, base_url=server)
    assert left_in(folder) == ["SHA256SUMS", "peaks/Abf1_CX.bed", "sample-key.tab"]
    damaged = out.getvalue().replace(b"chr1\t1\t2", b"chr1\t1\t3")
    Handler.files["2021-Rossi_Nature.zip"] = damaged
    with pytest.raises(FormatError, match="damaged"):
        fetch("yeast_chipexo", tmp_path / "again", base_url=server)


def test_rar_without_a_program_says_what_to_do(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_UNRAR", {"no-such-program": ("x",)})
    Handler.files["scene.rar"] = b"Rar!\x1a\x07\x01\x00"
    with pytest.raises(DataError, match="no program that unpacks RAR was found; install one of no-such-program"):
        fetch("scene", tmp_path, base_url=server)
    assert left_in(tmp_path / "scene") == ["SHA256SUMS", "scene.rar"]  # so that it can be unpacked by hand


def test_every_name_has_an_address_or_a_reason(tmp_path: Path) -> None:
    assert set(ADDRESSES) | set(NOT_OFFERED) == set(NAMES)
    for name in NOT_OFFERED:
        with pytest.raises(DataError, match=f"{name} cannot be fetched"):
            fetch(name, tmp_path)
    with pytest.raises(DataError, match="did you mean 'scene'"):
        fetch("scen", tmp_path)
    for addresses in ADDRESSES.values():
        assert all(address.url.startswith("https://") for address in addresses)


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be made"):
        fetch("scene", tmp_path / "file")


def test_of_two_fetches_at_once_one_is_refused(server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = gzip.compress(SIDER)
    refused: list[str] = []

    def second(*_: object) -> None:
        """While a first block has come, another process fetches the same data set."""
        if not refused:
            command = f"from lampnet.readers.named.download import fetch; fetch('sider', {str(tmp_path)!r}, {server!r})"
            done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
            refused.append(done.stderr)

    fetch("sider", tmp_path, base_url=server, progress=second)
    assert f"another run (process {os.getpid()}) is writing to {tmp_path / 'sider'}" in refused[0]
    assert left_in(tmp_path) == ["sider/SHA256SUMS", f"sider/{FILE}"]


def test_what_is_there_needs_no_writing(server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = gzip.compress(SIDER)
    folder = fetch("sider", tmp_path, base_url=server)
    (folder / ".lampnet.lock").mkdir()  # no lock can be taken here
    assert fetch("sider", tmp_path, base_url=server) == folder


def begun(server: str, **change: object) -> str:
    """The note beside a download of `NOISE` that was cut off."""
    tag = f'"{hashlib.md5(NOISE).hexdigest()}"'
    return json.dumps({"url": f"{server}/{FILE}", "validator": tag, "total": len(NOISE)} | change)


@pytest.mark.parametrize("kind", ["a symbolic link", "a hard link"])
@pytest.mark.parametrize("length", [1000, len(NOISE)])
def test_a_part_that_is_a_file_elsewhere_is_neither_continued_nor_kept(
    kind: str, length: int, server: str, tmp_path: Path
) -> None:
    Handler.files[FILE] = NOISE
    letter, folder = tmp_path / "letter", tmp_path / "sider"
    folder.mkdir()
    letter.write_bytes(NOISE[:length])
    part = folder / f"{FILE}.part"
    part.symlink_to(letter) if kind == "a symbolic link" else part.hardlink_to(letter)
    (folder / f"{FILE}.part.json").write_text(begun(server))
    fetch("sider", tmp_path, base_url=server)
    assert letter.read_bytes() == NOISE[:length]
    assert (folder / FILE).read_bytes() == NOISE
    assert not (folder / FILE).is_symlink()
    assert "Range" not in Handler.seen[-1]


@pytest.mark.parametrize(
    "change",
    [{"total": "all"}, {"total": True}, {"total": [1]}, {"validator": 5}, {"validator": "\u0416"},
     {"validator": "a\r\nHost: elsewhere"}, {"url": None}, {"more": 1}, {"validator": [[[[[0]]]]]}],
)  # fmt: skip
def test_a_forged_note_of_a_download_is_thrown_away(change: dict[str, object], server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = NOISE
    (tmp_path / "sider").mkdir()
    (tmp_path / "sider" / f"{FILE}.part").write_bytes(NOISE[:1000])
    (tmp_path / "sider" / f"{FILE}.part.json").write_text(begun(server, **change))
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE
    assert left_in(tmp_path / "sider") == ["SHA256SUMS", FILE]


@pytest.mark.parametrize("name", [f"{FILE}.part", f"{FILE}.part.json"])
@pytest.mark.parametrize("kind", ["a pipe", "a dangling link", "a device"])
def test_what_is_no_file_of_a_download_is_replaced(name: str, kind: str, server: str, tmp_path: Path) -> None:
    Handler.files[FILE] = NOISE
    path = tmp_path / "sider" / name
    path.parent.mkdir()
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "a device" else tmp_path / "letter")
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / FILE).read_bytes() == NOISE
    assert not (tmp_path / "letter").exists()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("a pipe", "it is a pipe, not a regular file"), ("a device", "it is a symbolic link"),
     ("a folder", "it is a folder"), ("a link", "it is a symbolic link"),
     ("a terabyte", "it has 1,099,511,627,776 bytes"),
     ("names elsewhere", "not a line of checksum and file name"), ("long names", "not a line of checksum")],
)  # fmt: skip
def test_recorded_checksums_that_are_no_file_of_the_folder_are_refused(
    kind: str, sentence: str, server: str, tmp_path: Path
) -> None:
    Handler.files["reuters21578.tar.gz"], letter = REUTERS, tmp_path / "letter"
    folder = tmp_path / "reuters21578"
    folder.mkdir()
    path = folder / "SHA256SUMS"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "a terabyte":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif "names" in kind:
        path.write_text(f"{'0' * 64}  {'../letter.txt' if kind == 'names elsewhere' else 'x' * 300 + '.txt'}\n")
    else:
        letter.write_text(f"{'0' * 64}  README.txt\n")
        path.symlink_to(letter if kind == "a link" else "/dev/zero")
    with pytest.raises(FormatError, match=f"SHA256SUMS.*{sentence}.*delete .* and fetch again"):
        fetch("reuters21578", tmp_path, base_url=server)
    assert not Handler.seen


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
@pytest.mark.parametrize(("name", "file"), [("sider", FILE), ("reuters21578", "reuters21578.tar.gz")])
def test_data_that_is_no_file_is_not_waited_for(name: str, file: str, kind: str, server: str, tmp_path: Path) -> None:
    path = tmp_path / name / file
    path.parent.mkdir()
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    (path.parent / "SHA256SUMS").write_text(f"{'0' * 64}  {file}\n")
    with pytest.raises(FormatError, match=r"it is not a regular file; delete it and fetch again"):
        fetch(name, tmp_path, base_url=server)


def test_data_that_is_a_pipe_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "sider").mkdir()
    os.mkfifo(tmp_path / "sider" / FILE)
    with pytest.raises(DataError, match=r"sider\.csv\.gz is not a regular file"):
        load("sider", tmp_path)


def test_data_behind_a_link_is_used_where_it_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "sider").mkdir()
    (tmp_path / "elsewhere").write_bytes(gzip.compress(SIDER))
    (tmp_path / "sider" / FILE).symlink_to(tmp_path / "elsewhere")
    assert fetch("sider", tmp_path) == tmp_path / "sider"


def test_nothing_is_fetched_through_a_link_to_a_folder(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the data set's own folder nor one that members go to, nor the one that they are unpacked in."""
    monkeypatch.setitem(ADDRESSES, "yeast_chipexo", ADDRESSES["yeast_chipexo"][:1])
    out, other = io.BytesIO(), tmp_path / "other"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("2021-Rossi_Nature-master/04_ChExMix_Peaks/Abf1_CX.bed", "chr1\t1\t2\n")
        archive.writestr("2021-Rossi_Nature-master/02_References/sample-key.tab", "x")
    Handler.files["2021-Rossi_Nature.zip"] = out.getvalue()
    other.mkdir()
    (other / "Abf1_CX.bed").write_text("of somebody else")
    for link in ("yeast_chipexo", "yeast_chipexo/peaks", "yeast_chipexo/unpacked.part"):
        root = tmp_path / link.replace("/", "-")
        (root / link).parent.mkdir(parents=True)
        (root / link).symlink_to(other)
        with pytest.raises(LampnetError, match=r"is a symbolic link, and files elsewhere|cannot be written to"):
            fetch("yeast_chipexo", root, base_url=server)
        assert {path.name: path.read_text() for path in other.iterdir()} == {"Abf1_CX.bed": "of somebody else"}
