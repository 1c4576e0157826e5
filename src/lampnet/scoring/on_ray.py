"""A folder of Parquet files predicted by Ray: one model per actor, one output file for each input file.

Any number of machines may take part, as long as all of them see both folders. What is done is what is in the output
folder: a run that was stopped goes on with the files that are missing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lampnet.errors import ConfigError, DataError, LampnetError, MissingExtra
from lampnet.persistence.model_folder import read_description
from lampnet.runtime.atomic_files import write_atomically
from lampnet.runtime.limited_json import parse_json
from lampnet.scoring.predictor import Predictor

#: in the output folder: what was predicted, and how
ORIGIN = "_predictions.json"


@dataclass(frozen=True)
class Scored:
    """What a run did: files and rows predicted, files that were there already, and on how many machines."""

    files: int
    rows: int
    kept: int
    nodes: int


class FileActor:
    """Predicts one file after the other with a model that is loaded once."""

    def __init__(self, model: str, settings: Mapping[str, Any]) -> None:
        self.predictor = Predictor(model, **settings)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        """For each pair of an input and an output file how many rows it has, and what went wrong."""
        import ray

        done: dict[str, list[Any]] = {"file": [], "rows": [], "fault": [], "node": []}
        for rows, out in zip(batch["rows"], batch["out"], strict=True):
            count, fault = 0, ""
            try:
                count = self.predictor.file(str(rows), str(out))
            except LampnetError as mistake:  # the other files are predicted all the same
                fault = str(mistake)
            done["file"].append(str(rows))
            done["rows"].append(count)
            done["fault"].append(fault)
            done["node"].append(ray.get_runtime_context().get_node_id())
        return done


def predict_folder(
    model: Path,
    rows: Path,
    out: Path,
    settings: Mapping[str, Any],
    actors: int = 0,
    resume: bool = False,
    log: Callable[[str], None] = lambda sentence: None,
) -> Scored:
    """Predict every Parquet file of a folder into a file of the same name.

    Parameters
    ----------
    settings : those of `Predictor`
    actors : how many models predict side by side; 0 for one per processor of the cluster
    resume : keep the files that are there
    """
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("ray", "ray", "predicting with --engine ray") from None
    files = sorted(path for path in rows.glob("*.parquet") if path.is_file()) if rows.is_dir() else []
    if not files:
        raise DataError(f"{rows} is no folder with Parquet files; --engine ray predicts one *.parquet after the other")
    if out.resolve() == rows.resolve():
        raise ConfigError(f"--out {out} is the folder with the rows; give another one, or they would be lost")
    kept = _begin(out, {"model": read_description(model)["weights_sha256"], **settings}, files, resume)
    todo = [path for path in files if path.name not in kept]
    if not todo:
        return Scored(0, 0, len(kept), 0)
    started = not ray.is_initialized()
    if started:  # RAY_ADDRESS names a cluster; without it this machine is one
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    try:
        return _scored(ray, model, todo, out, settings, actors, len(kept), log)
    finally:
        if started:
            ray.shutdown()


def _scored(
    ray: Any,
    model: Path,
    todo: list[Path],
    out: Path,
    settings: Mapping[str, Any],
    actors: int,
    kept: int,
    log: Callable[[str], None],
) -> Scored:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False  # `log` says how far it is
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    size = min(len(todo), actors or max(1, int(ray.cluster_resources().get("CPU", 1))))
    pairs = [{"rows": str(path.resolve()), "out": str((out / path.name).resolve())} for path in todo]
    results = ray.data.from_items(pairs, override_num_blocks=len(pairs)).map_batches(
        FileActor,
        batch_size=1,
        fn_constructor_args=(str(model.resolve()), dict(settings)),
        compute=ray.data.ActorPoolStrategy(size=size),
        num_cpus=1,
    )
    done: list[dict[str, Any]] = []
    faults: list[dict[str, Any]] = []
    for one in results.iter_rows():
        (faults if one["fault"] else done).append(one)
        log(f"{len(done) + len(faults)} of {len(pairs)} files: {one['file']}, {one['rows']:,} rows")
    if faults:
        raise DataError(
            f"{len(faults)} of {len(pairs)} files could not be predicted, the first one for this reason: "
            f"{faults[0]['fault']}; put it right and run the command again with --resume"
        )
    nodes = {one["node"] for one in done}
    return Scored(len(done), int(sum(one["rows"] for one in done)), kept, len(nodes))


def _begin(out: Path, origin: Mapping[str, Any], files: list[Path], resume: bool) -> set[str]:
    """The output folder made, and the names of the files that it has already."""
    there = {path.name for path in files if (out / path.name).exists()}
    if there and not resume:
        raise ConfigError(
            f"{out} has predictions already; give --resume to go on with the missing ones, or another --out"
        )
    described = json.dumps(origin, sort_keys=True, indent=1)
    stated = out / ORIGIN
    if there:
        try:
            same = parse_json(stated.read_bytes()) == json.loads(described)
        except (OSError, ValueError):
            same = False
        if not same:
            raise ConfigError(f"{out} has predictions of another model or by other settings; give another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise DataError(f"{out} cannot be made ({fault.strerror or fault}); give another folder") from None
    write_atomically(stated, described.encode() + b"\n")
    return there
