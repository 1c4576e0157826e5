"""A folder of Parquet files predicted by Ray: one model per actor, one output file for each input file.

Any number of machines may take part, as long as all of them see both folders, which may be in an object store. What
is done is what is in the output folder: a run that was stopped goes on with the files that are missing.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.errors import ConfigError, DataError, LampnetError, MissingExtra
from lampnet.persistence.model_description import read_description
from lampnet.runtime.limited_json import parse_json
from lampnet.scoring.parquet_folder import ParquetFolder, predict_between
from lampnet.scoring.predictor import Predictor

#: in the output folder: what was predicted, and how
ORIGIN = "_predictions.json"


@dataclass(frozen=True)
class Scored:
    """What a run did: files and rows predicted, files that were there already, on how many machines, at what cost.

    processor_seconds  of the actors for these files, without their start
    """

    files: int
    rows: int
    kept: int
    nodes: int
    processor_seconds: float = 0.0


class FileActor:
    """Predicts one file after the other with a model that is loaded once."""

    def __init__(self, model: str, settings: Mapping[str, Any], rows: str, out: str) -> None:
        self.predictor = Predictor(model, **settings)
        self.rows, self.out = ParquetFolder(rows), ParquetFolder(out)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        """For each file how many rows it has, and what went wrong."""
        import ray

        done: dict[str, list[Any]] = {"file": [], "rows": [], "fault": [], "node": [], "processor_seconds": []}
        for name in map(str, batch["name"]):
            count, fault, began = 0, "", time.process_time()
            try:
                count = predict_between(self.rows, self.out, name, self.predictor.file)
            except LampnetError as mistake:  # the other files are predicted all the same
                fault = str(mistake)
            done["file"].append(f"{self.rows}/{name}")
            done["rows"].append(count)
            done["fault"].append(fault)
            done["node"].append(ray.get_runtime_context().get_node_id())
            done["processor_seconds"].append(time.process_time() - began)
        return done


def predict_folder(
    model: Path,
    rows: str | Path,
    out: str | Path,
    settings: Mapping[str, Any],
    actors: int = 0,
    resume: bool = False,
    log: Callable[[str], None] = lambda sentence: None,
) -> Scored:
    """Predict every Parquet file of a folder into a file of the same name.

    Parameters
    ----------
    rows, out : folders, or addresses of them in an object store (s3://bucket/folder)
    settings : those of `Predictor`
    actors : how many models predict side by side; 0 for one per processor of the cluster
    resume : keep the files that are there
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("ray", "ray", "predicting with --engine ray") from None
    source, target = ParquetFolder(str(rows)), ParquetFolder(str(out))
    names = source.names()
    if not names:
        raise DataError(
            f"{rows} is not a folder with Parquet files; --engine ray predicts one *.parquet after the other"
        )
    if target.where == source.where:
        raise ConfigError(f"--out {out} is the folder with the rows; give another one, or they would be lost")
    kept = _begin(target, {"model": read_description(model)["weights_sha256"], **settings}, names, resume)
    todo = [name for name in names if name not in kept]
    if not todo:
        return Scored(0, 0, len(kept), 0)
    started = not ray.is_initialized()
    if started:  # RAY_ADDRESS names a cluster; without it this machine is one
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    try:
        return _scored(ray, model, todo, (source, target), settings, actors, len(kept), log)
    finally:
        if started:
            ray.shutdown()


def _scored(
    ray: Any,
    model: Path,
    todo: list[str],
    folders: tuple[ParquetFolder, ParquetFolder],
    settings: Mapping[str, Any],
    actors: int,
    kept: int,
    log: Callable[[str], None],
) -> Scored:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # `log` says how far it is
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    size = min(len(todo), actors or max(1, int(ray.cluster_resources().get("CPU", 1))))
    items = [{"name": name} for name in todo]
    results = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        FileActor,
        batch_size=1,
        fn_constructor_args=(str(model.resolve()), dict(settings), *map(str, folders)),
        compute=ray.data.ActorPoolStrategy(size=size),
        num_cpus=1,
    )
    done: list[dict[str, Any]] = []
    faults: list[dict[str, Any]] = []
    for one in results.iter_rows():
        (faults if one["fault"] else done).append(one)
        log(f"{len(done) + len(faults)} of {len(items)} files: {one['file']}, {one['rows']:,} rows")
    if faults:
        raise DataError(
            f"{len(faults)} of {len(items)} files could not be predicted, the first one for this reason: "
            f"{faults[0]['fault']}; put it right and run the command again with --resume"
        )
    nodes = {one["node"] for one in done}
    rows, seconds = (sum(one[name] for one in done) for name in ("rows", "processor_seconds"))
    return Scored(len(done), int(rows), kept, len(nodes), float(seconds))


def _begin(out: ParquetFolder, origin: Mapping[str, Any], names: list[str], resume: bool) -> set[str]:
    """The output folder made, and the names of the files that it has already."""
    there = set(names).intersection(out.names())
    if there and not resume:
        raise ConfigError(
            f"{out} has predictions already; give --resume to go on with the missing ones, or another --out"
        )
    described = json.dumps(origin, sort_keys=True, indent=1)
    if there:
        try:
            same = parse_json(out.read(ORIGIN) or b"") == json.loads(described)
        except (OSError, ValueError):
            same = False
        if not same:
            raise ConfigError(f"{out} has predictions of another model or by other settings; give another --out")
    out.make()
    out.write(ORIGIN, described.encode() + b"\n")
    return there
