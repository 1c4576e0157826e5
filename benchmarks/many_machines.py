"""Texts predicted by Ray on one and on two nodes, each with one processor, beside one process without Ray.

    python benchmarks/many_machines.py            # measure (needs ray), then write the table of docs/export.md
    python benchmarks/many_machines.py --check    # fail where the page differs from the measurements

The nodes are local ones of `ray.cluster_utils`. Every file that Ray wrote is compared with the one process's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from pages.measured_section import MeasuredSection

NODES, FILES, ROWS_PER_FILE, TRAINED = (1, 2), 8, 2000, 2000
STORE = 80 * 2**20


def write_rows(folder: Path) -> tuple[list[Path], Path]:
    """Parquet files of comments, and a model of others."""
    import pyarrow as pa
    from pyarrow import parquet

    from lampnet import LaMPClassifier, load_data

    data = load_data("goemotions-sample").train
    texts = list(data.rows)
    sets = [[data.label_names[j] for j in data.labels[row].indices] for row in range(TRAINED)]
    model = LaMPClassifier(preset="quick", n_jobs=1).fit(texts[:TRAINED], sets).save(folder / "model")
    rows = folder / "rows"
    rows.mkdir()
    files = []
    for number in range(FILES):
        some = [texts[(number * ROWS_PER_FILE + i) % len(texts)] for i in range(ROWS_PER_FILE)]
        files.append(rows / f"part-{number:03}.parquet")
        parquet.write_table(pa.table({"text": some}), files[-1])
    return files, model


def measure() -> dict[str, Any]:
    import ray
    from pyarrow import parquet
    from ray.cluster_utils import Cluster

    from lampnet.scoring.on_ray import predict_folder
    from lampnet.scoring.predictor import Predictor

    measured: dict[str, Any] = {"files": FILES, "rows": FILES * ROWS_PER_FILE, "rows_trained": TRAINED, "nodes": {}}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        files, model = write_rows(folder)
        predictor = Predictor(model)
        predictor.file(files[0], folder / "warm.parquet")
        (folder / "alone").mkdir()
        began, processor = time.perf_counter(), time.process_time()
        for file in files:
            predictor.file(file, folder / "alone" / file.name)
        measured["one_process"] = {"rows_per_second": measured["rows"] / (time.perf_counter() - began)}
        measured["one_process"]["processor_seconds"] = time.process_time() - processor
        for count in NODES:
            cluster = Cluster(
                initialize_head=True,
                head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
            )
            for _ in range(count - 1):
                cluster.add_node(num_cpus=1, object_store_memory=STORE)
            cluster.wait_for_nodes()
            ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
            predict_folder(model, folder / "rows", folder / f"warm-{count}", {})
            began = time.perf_counter()
            done = predict_folder(model, folder / "rows", folder / f"by-{count}", {})
            seconds = time.perf_counter() - began
            ray.shutdown()
            cluster.shutdown()
            differing = sum(
                not parquet.read_table(folder / f"by-{count}" / file.name).equals(
                    parquet.read_table(folder / "alone" / file.name)
                )
                for file in files
            )
            measured["nodes"][str(count)] = {
                "rows_per_second": measured["rows"] / seconds,
                "took_part": done.nodes,
                "files_that_differ": differing,
            }
    return measured


def section(measured: dict[str, Any]) -> str:
    rows = measured["rows"]
    lines = [
        f"| {rows:,} comments in {measured['files']} files | rows per second | files that differ |",
        "|---|--:|--:|",
    ]
    lines.append(f"| one process, without Ray | {measured['one_process']['rows_per_second']:,.0f} | |")
    for count, one in measured["nodes"].items():
        title = f"Ray, {count} node{'s' * (count != '1')} of one processor (starting the actors included)"
        lines.append(f"| {title} | {one['rows_per_second']:,.0f} | {one['files_that_differ']} |")
    hours = measured["one_process"]["processor_seconds"] / rows * 1e6 / 3600
    lines += [
        "",
        f"One process takes {hours:.2f} processor hours per million rows. Files do not depend on each other, so a "
        f"billion rows are {1000 * hours:,.0f} processor hours on paper, or {10 * hours:,.1f} hours on 100 "
        "processors: an extrapolation, not a measurement.",
    ]
    return "\n".join(lines)


SECTION = MeasuredSection("many_machines", "export.md", "nodes", section)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    if arguments.parse_args().check:
        SECTION.check()
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    SECTION.keep(measure())
    SECTION.write()


if __name__ == "__main__":
    main()
