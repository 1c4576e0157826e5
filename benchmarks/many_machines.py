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

NODES, FILES, ROWS_PER_FILE, TRAINED = (1, 2), 8, 10_000, 2000
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
            ended = [began := time.perf_counter()]
            done = predict_folder(
                model,
                folder / "rows",
                folder / f"by-{count}",
                {},
                log=lambda _, ended=ended: ended.append(time.perf_counter()),
            )
            ray.shutdown()
            cluster.shutdown()
            differing = sum(
                not parquet.read_table(folder / f"by-{count}" / file.name).equals(
                    parquet.read_table(folder / "alone" / file.name)
                )
                for file in files
            )
            measured["nodes"][str(count)] = {
                # All actors are there before the first file: the first file of each is their start.
                "rows_per_second": (FILES - count) * ROWS_PER_FILE / (ended[-1] - ended[count]),
                "start_seconds": ended[count] - began,
                "processor_seconds": done.processor_seconds,
                "took_part": done.nodes,
                "files_that_differ": differing,
            }
    return measured


def section(measured: dict[str, Any]) -> str:
    rows = measured["rows"]

    def line(title: str, one: dict[str, Any], more: str) -> str:
        cost = one["processor_seconds"] / rows * 1e6
        return f"| {title} | {one['rows_per_second']:,.0f} | {cost:,.0f} s | {more} |"

    lines = [
        f"| {rows:,} comments in {measured['files']} files, a stack of base learners "
        "| rows per second | processor time per million rows | start | files that differ |",
        "|---|--:|--:|--:|--:|",
        line("one process, without Ray", measured["one_process"], "|"),
    ]
    for count, one in measured["nodes"].items():
        title = f"Ray, {count} node{'s' * (count != '1')} of one processor"
        lines.append(line(title, one, f"{one['start_seconds']:.0f} s | {one['files_that_differ']}"))
    costs = [one["processor_seconds"] for one in measured["nodes"].values()]
    hours = max(costs) / rows * 1e6 / 3600
    lines += [
        "",
        f"By the dearer of the two, a million rows take {hours:.3f} processor hours. Files do not depend on each "
        f"other, so a billion rows are {1000 * hours:,.0f} processor hours on paper, or {10 * hours:,.1f} hours on 100 "
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
    os.environ.setdefault("RAY_DATA_DEFAULT_WAIT_FOR_MIN_ACTORS_S", "300")
    SECTION.keep(measure())
    SECTION.write()


if __name__ == "__main__":
    main()
