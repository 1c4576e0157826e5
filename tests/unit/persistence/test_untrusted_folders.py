"""Files of a model folder that are no regular files, too large, too deep, or say one thing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lampnet.errors import ModelFolderError
from lampnet.persistence.model_description import weights_files
from lampnet.persistence.model_folder import load_model

FILES = ("model.json", "weights")


def path_of(folder: Path, name: str) -> Path:
    return weights_files(folder)[0] if name == "weights" else folder / name


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder", "socket"])
def test_only_regular_files_are_opened(copy: Path, tmp_path: Path, name: str, kind: str) -> None:
    path, elsewhere = path_of(copy, name), tmp_path / "elsewhere"
    path.rename(elsewhere)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        try:
            os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero, which never ends
        except PermissionError:
            pytest.skip("making a device needs root")
    elif kind == "link":
        path.symlink_to(elsewhere)
    elif kind == "folder":
        path.mkdir()
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as opened:
            before = Path.cwd()
            os.chdir(copy)  # the name of a socket may be 108 bytes long
            try:
                opened.bind(path.name)
            finally:
                os.chdir(before)
    with pytest.raises(ModelFolderError, match=rf"cannot be read \(it is a .*{kind}"):
        load_model(copy)


def test_a_folder_reached_by_a_link_is_fine(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(folder)
    load_model(tmp_path / "current")


def test_files_that_are_no_part_of_a_model_are_not_opened(copy: Path) -> None:
    for name in ("history.json", "weights-0000000000000000.safetensors"):
        os.mkfifo(copy / name)
    load_model(copy)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"version"', '"version": 4, "version"', "the key 'version' occurs twice"),
        ('"metric": ', '"metric": "micro_f1", "metric": ', "the key 'metric' occurs twice"),
        ('"label_names": [', '"label_names": ["' + "x" * 40 + '"], "label_names": [', "'label_names' occurs twice"),
    ],
)
def test_a_key_that_occurs_twice_is_refused(copy: Path, old: str, new: str, sentence: str) -> None:
    text = (copy / "model.json").read_text(encoding="utf-8")
    assert old in text
    (copy / "model.json").write_text(text.replace(old, new, 1), encoding="utf-8")
    json.loads((copy / "model.json").read_text(encoding="utf-8"))  # the last one would win
    with pytest.raises(ModelFolderError, match=sentence):
        load_model(copy)


def test_a_key_that_occurs_twice_in_the_header_of_the_weights_is_refused(copy: Path) -> None:
    (path,) = weights_files(copy)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    name = next(iter(json.loads(content[8 : 8 + length])))
    header = content[8 : 8 + length].replace(b"{", b'{"%s": 0, ' % name.encode(), 1)
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])
    with pytest.raises(ModelFolderError, match="occurs twice"):
        load_model(copy)


LIMITED = """
import resource, sys
from lampnet.errors import ModelFolderError
from lampnet.persistence.model_folder import load_model
load_model(sys.argv[1])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 500_000_000, resource.RLIM_INFINITY))
for content in ("[" + "[]," * 30_000_000 + "[]]", "[" * 100_000 + "]" * 100_000, '{"a":' * 3000):
    with open(sys.argv[2] + "/model.json", "w") as file:
        file.write(content)
    del content
    try:
        load_model(sys.argv[2])
    except ModelFolderError as fault:
        print(fault)
"""


def test_nested_json_is_refused_with_little_memory(folder: Path, copy: Path) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc to measure memory")
    command = [sys.executable, "-c", LIMITED, str(folder), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    large, deep, deep_objects = done.stdout.splitlines()
    assert "it has 90,000,004 bytes, at most" in large
    assert "deeper than 32 levels" in deep
    assert "deeper than 32 levels" in deep_objects


def test_many_values_in_a_small_file_are_refused(copy: Path) -> None:
    (copy / "model.json").write_text("[" + "0," * 5_000_000 + "0]")
    with pytest.raises(ModelFolderError, match="holds 5,000,001 values"):
        load_model(copy)


def test_weights_larger_than_the_memory_are_refused_unread(copy: Path) -> None:
    (path,) = weights_files(copy)
    content, more = path.read_bytes(), 1 << 42
    length = int.from_bytes(content[:8], "little")
    header, end = json.loads(content[8 : 8 + length]), len(content) - 8 - length
    header["more"] = {"dtype": "U8", "shape": [more], "data_offsets": [end, end + more]}
    forged = json.dumps(header).encode()
    path.write_bytes(len(forged).to_bytes(8, "little") + forged + content[8 + length :])
    os.truncate(path, path.stat().st_size + more)  # a file with a hole takes no space
    with pytest.raises(ModelFolderError, match=r"it has [0-9,]+ bytes, above the limit of"):
        load_model(copy)
