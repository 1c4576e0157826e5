"""`lampnet predict --engine ray` on two nodes: the predictions of one process, and resumed where it stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="the extra ray is not installed: make test-scoring installs it")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Two nodes on this machine, one processor each."""
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    cluster.wait_for_nodes()
    yield cluster.address
    cluster.shutdown()


def predict(*arguments: object, address: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if address:  # all actors are there before the first file, or the first one would have predicted all of them
        environment |= {"RAY_ADDRESS": address, "RAY_DATA_DEFAULT_WAIT_FOR_MIN_ACTORS_S": "300"}
    command = [sys.executable, "-m", "lampnet", "predict", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_two_nodes_predict_what_one_process_does(films: Path, parts: Path, tmp_path: Path, address: str) -> None:
    out = tmp_path / "out"
    done = predict(films, parts, "--engine", "ray", "--out", out, address=address)
    assert done.returncode == 0, done.stderr
    assert "4 files with 90 rows predicted on 2 machine(s)" in done.stderr, done.stderr
    files = sorted(path.name for path in parts.glob("*.parquet"))
    assert sorted(path.name for path in out.glob("*.parquet")) == files
    one_process = {}
    for name in files:
        alone = predict(films, parts / name, "--out", tmp_path / name)
        assert alone.returncode == 0, alone.stderr
        one_process[name] = parquet.read_table(tmp_path / name)
        assert parquet.read_table(out / name).equals(one_process[name])

    refused = predict(films, parts, "--engine", "ray", "--out", out, address=address)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    other = predict(films, parts, "--engine", "ray", "--out", out, "--top-k", 1, "--resume", address=address)
    assert other.returncode == 2
    assert "other settings" in other.stderr

    (out / files[2]).unlink()
    written = (out / files[0]).stat().st_mtime_ns
    done = predict(films, parts, "--engine", "ray", "--out", out, "--resume", address=address)
    assert done.returncode == 0, done.stderr
    assert "1 files with 41 rows" in done.stderr
    assert "3 were there" in done.stderr
    assert parquet.read_table(out / files[2]).equals(one_process[files[2]])
    assert (out / files[0]).stat().st_mtime_ns == written


def test_a_file_that_cannot_be_read_leaves_the_others(films: Path, parts: Path, tmp_path: Path, address: str) -> None:
    (parts / "part-1.parquet").write_bytes(b"no Parquet")
    done = predict(films, parts, "--engine", "ray", "--out", tmp_path / "out", address=address)
    assert done.returncode == 2
    assert "1 of 4 files" in done.stderr
    assert "part-1.parquet" in done.stderr
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 3


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 service on this machine, which the environment names as AWS's tools do, and a bucket of it."""
    server = pytest.importorskip("moto.server", reason="moto is not installed: make test-scoring installs it")
    boto3 = pytest.importorskip("boto3")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="archive")
    yield "s3://archive"
    running.stop()


def test_rows_and_predictions_in_an_object_store(films: Path, parts: Path, tmp_path: Path, store: str) -> None:
    from pyarrow import fs

    files, bucket = fs.FileSystem.from_uri(store)
    names = sorted(path.name for path in parts.glob("*.parquet"))
    for name in names:
        fs.copy_files(str(parts / name), f"{bucket}/rows/{name}", fs.LocalFileSystem(), files)
    # A cluster of its own: the actors of the one above do not have this environment.
    done = predict(films, f"{store}/rows", "--engine", "ray", "--out", f"{store}/tags", "--actors", 1, address="local")
    assert done.returncode == 0, done.stderr
    assert "4 files with 90 rows" in done.stderr
    for name in names:
        assert predict(films, parts / name, "--out", tmp_path / name).returncode == 0
        found = parquet.read_table(f"{bucket}/tags/{name}", filesystem=files)
        assert found.equals(parquet.read_table(tmp_path / name))

    refused = predict(films, f"{store}/rows", "--engine", "ray", "--out", f"{store}/tags", address="local")
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    files.delete_file(f"{bucket}/tags/{names[1]}")
    done = predict(films, f"{store}/rows", "--engine", "ray", "--out", f"{store}/tags", "--resume", address="local")
    assert done.returncode == 0, done.stderr
    assert "1 files with 7 rows" in done.stderr
    nowhere = predict(films, "s3://no-such-bucket/rows", "--engine", "ray", "--out", tmp_path / "out")
    assert nowhere.returncode == 2
    assert "s3://no-such-bucket/rows" in nowhere.stderr
    assert "Traceback" not in nowhere.stderr
