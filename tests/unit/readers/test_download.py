"""Fetching from a real HTTP server on this machine: progress, resuming, checksums, archives, no connection."""

from __future__ import annotations

import http.server
import io
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lampnet.errors import DataError, FormatError
from lampnet.readers.named import download as fetching
from lampnet.readers.named.addresses import ADDRESSES, NOT_OFFERED, Address
from lampnet.readers.named.download import fetch
from lampnet.readers.named.registry import NAMES, load

pytest.importorskip("pooch")


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files`, honours ranges, and hangs up half-way when told to."""

    files: dict[str, bytes] = {}  # noqa: RUF012
    ranges: list[str | None] = []  # noqa: RUF012
    hang_up_after: int | None = None

    def do_GET(self) -> None:
        content = self.files.get(self.path.lstrip("/"))
        asked = self.headers.get("Range")
        type(self).ranges.append(asked)
        if content is None:
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if start >= len(content) > 0 and asked:
            self.send_error(416)
            return
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if self.hang_up_after is None else start + self.hang_up_after
        self.wfile.write(content[start:end])

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    Handler.files, Handler.ranges, Handler.hang_up_after = {}, [], None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


SIDER = b"smiles,a,b\n" + b"".join(f"{'C' * (i + 1)},{i % 2},1\n".encode() for i in range(30))


def test_fetch_then_load(server: str, tmp_path: Path) -> None:
    import gzip

    Handler.files["sider.csv.gz"] = gzip.compress(SIDER)
    seen: list[tuple[str, int, int]] = []
    folder = fetch("sider", tmp_path, base_url=server, progress=lambda *news: seen.append(news))
    assert folder == tmp_path / "sider"
    size = len(Handler.files["sider.csv.gz"])
    assert seen[-1] == ("sider.csv.gz", size, size)
    parts = load("sider", tmp_path)
    assert parts.train.label_names == ("a", "b")
    assert [file.name for file in folder.iterdir()] == ["sider.csv.gz"]
    fetch("sider", tmp_path, base_url=server)
    assert len(Handler.ranges) == 1  # what is there is not fetched again


def test_a_broken_download_goes_on_where_it_stopped(server: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 2000
    Handler.files["sider.csv.gz"] = content
    Handler.hang_up_after = 100_000
    with pytest.raises(DataError, match=r"connection to 127\.0\.0\.1 broke.*what has come is kept"):
        fetch("sider", tmp_path, base_url=server)
    part = tmp_path / "sider" / "sider.csv.gz.part"
    have = part.stat().st_size
    assert 0 < have <= 100_000
    assert not (tmp_path / "sider" / "sider.csv.gz").exists()
    Handler.hang_up_after = None
    seen: list[int] = []
    fetch("sider", tmp_path, base_url=server, progress=lambda name, done, total: seen.append(done))
    assert Handler.ranges == [None, f"bytes={have}-"]
    assert seen[0] > have
    assert (tmp_path / "sider" / "sider.csv.gz").read_bytes() == content
    assert not part.exists()


def test_a_part_that_is_too_long_is_thrown_away(server: str, tmp_path: Path) -> None:
    Handler.files["sider.csv.gz"] = b"short"
    (tmp_path / "sider").mkdir()
    (tmp_path / "sider" / "sider.csv.gz.part").write_bytes(b"something much longer")
    fetch("sider", tmp_path, base_url=server)
    assert (tmp_path / "sider" / "sider.csv.gz").read_bytes() == b"short"


def test_wrong_checksum_is_not_kept(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADDRESSES, "sider", (Address("x", "sider.csv.gz", sha256="0" * 64),))
    Handler.files["sider.csv.gz"] = b"not what was promised"
    with pytest.raises(DataError, match="does not have the checksum"):
        fetch("sider", tmp_path, base_url=server)
    assert list((tmp_path / "sider").iterdir()) == []


def test_missing_on_the_server(server: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"refused sider\.csv\.gz \(404"):
        fetch("sider", tmp_path, base_url=server)


def test_offline(tmp_path: Path) -> None:
    with socket.socket() as unused:  # a port that empty_rows answers
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(DataError, match=r"cannot be reached \(offline\?\).*by hand"):
        fetch("goemotions", tmp_path, base_url=f"http://127.0.0.1:{port}")


def test_a_tar_archive_cannot_write_elsewhere(server: str, tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in ("./reut2-000.sgm", "../../outside/reut2-001.sgm", "README.txt", "lewis.dtd", "evil.sh"):
            entry = tarfile.TarInfo(name)
            entry.size = 5
            archive.addfile(entry, io.BytesIO(b"hello"))
        link = tarfile.TarInfo("reut2-009.sgm")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    Handler.files["reuters21578.tar.gz"] = out.getvalue()
    folder = fetch("reuters21578", tmp_path / "data", base_url=server)
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.txt",
        "lewis.dtd",
        "reut2-000.sgm",
        "reut2-001.sgm",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    before = len(Handler.ranges)
    fetch("reuters21578", tmp_path / "data", base_url=server)
    assert len(Handler.ranges) == before


def test_a_zip_archive_goes_to_its_folders(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADDRESSES, "yeast_chipexo", ADDRESSES["yeast_chipexo"][:1])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("2021-Rossi_Nature-master/04_ChExMix_Peaks/Abf1_CX.bed", "chr1\t1\t2\n")
        archive.writestr("2021-Rossi_Nature-master/02_References/sample-key.tab", "x")
        archive.writestr("2021-Rossi_Nature-master/other.xlsx", "x")
    Handler.files["2021-Rossi_Nature.zip"] = out.getvalue()
    folder = fetch("yeast_chipexo", tmp_path, base_url=server)
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert found == ["peaks/Abf1_CX.bed", "sample-key.tab"]


def test_a_damaged_archive(server: str, tmp_path: Path) -> None:
    Handler.files["reuters21578.tar.gz"] = b"\x1f\x8b not really"
    with pytest.raises(FormatError, match="damaged"):
        fetch("reuters21578", tmp_path, base_url=server)
    assert list((tmp_path / "reuters21578").iterdir()) == []


def test_rar_without_a_program_says_what_to_do(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_UNRAR", {"no-such-program": ("x",)})
    Handler.files["scene.rar"] = b"Rar!"
    with pytest.raises(DataError, match="no program that unpacks RAR was found; install one of no-such-program"):
        fetch("scene", tmp_path, base_url=server)
    assert (tmp_path / "scene" / "scene.rar").exists()  # so that it can be unpacked by hand


def test_every_name_has_an_address_or_a_reason(tmp_path: Path) -> None:
    assert set(ADDRESSES) | set(NOT_OFFERED) == set(NAMES)
    for name in NOT_OFFERED:
        with pytest.raises(DataError, match=f"{name} cannot be fetched"):
            fetch(name, tmp_path)
    with pytest.raises(DataError, match="did you mean 'scene'"):
        fetch("scen", tmp_path)
    for addresses in ADDRESSES.values():
        assert all(address.url.startswith(("https://", "http://")) for address in addresses)


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot be made"):
        fetch("scene", tmp_path / "file")
