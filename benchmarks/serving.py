"""`lampnet serve` under load, beside the same model behind plain FastAPI and one-vs-rest logistic regression behind it.

    python benchmarks/serving.py                  # measure (needs wrk), then write the table of docs/serving.md
    python benchmarks/serving.py --seconds 45     # so long for each number of clients in each round
    python benchmarks/serving.py --page-only      # write the table from the last measurements
    python benchmarks/serving.py --check          # fail where the page differs from the measurements

All three listen on this machine and predict one text per request; the load comes from wrk. Rounds are interleaved.
A 99% quantile wants a thousand requests; cells with fewer in a round are marked. tests/faults sends 100,000.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pages.measured_section import MeasuredSection

CLIENTS, ROUNDS, SECONDS, ROWS = (1, 8, 64), 3, 15, 1500
#: requests of a round below which the slowest hundredth is only a few of them
ENOUGH = 1000
TITLES = {
    "lampnet": "`lampnet serve`",
    "plain": "the same model, plain FastAPI",
    "logistic": "one-vs-rest logistic regression, plain FastAPI",
}
TEXT = "Wheat and corn exports rose in March as Argentine ports stayed closed, the Agriculture Department said."
SCRIPT = """
wrk.method, wrk.path = "POST", "/predict"
wrk.headers["content-type"] = "application/json"
wrk.body = '{{"rows": [{{"text": "{text}"}}]}}'
function done(summary, latency)
  local e = summary.errors
  io.write(string.format("MEASURED %d %d %d %d %d\\n", summary.requests, summary.duration,
    e.connect + e.read + e.write + e.timeout + e.status, latency:percentile(50), latency:percentile(99)))
end
"""


class Request(BaseModel):
    """A request to the services written by hand."""

    rows: list[dict[str, str]]


def plain_app(kind: str, folder: str) -> Any:
    """What one would write by hand: a route that predicts the rows of its request, in a thread of its own."""
    import pickle

    from fastapi import FastAPI

    app = FastAPI()
    if kind == "plain":
        from lampnet import LaMPClassifier

        predict = LaMPClassifier.load(Path(folder) / "reuters").predict_labels
    else:
        pipeline, names = pickle.loads((Path(folder) / "logistic").read_bytes())  # of our own making, minutes ago

        def predict(texts: list[str]) -> list[list[str]]:
            return [[names[j] for j in row.nonzero()[0]] for row in pipeline.predict(texts)]

    @app.post("/predict")
    def answer(request: Request) -> dict[str, Any]:
        return {"predictions": predict([row["text"] for row in request.rows])}

    return app


def train(folder: Path) -> None:
    """Both models, on the same texts of Reuters."""
    import pickle

    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline

    from lampnet import LaMPClassifier
    from lampnet.experiments.material import open_material

    data = open_material("reuters21578").labelled.train
    texts, truth = list(data.rows[:ROWS]), data.labels[:ROWS].toarray()
    kept = truth.sum(axis=0) >= 2
    names = [name for name, keep in zip(data.label_names, kept, strict=True) if keep]
    sets = [[name for name, has in zip(names, row, strict=True) if has] for row in truth[:, kept]]
    LaMPClassifier(preset="quick").fit(texts, sets).save(folder / "reuters")
    pipeline = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression(C=10)))
    (folder / "logistic").write_bytes(pickle.dumps((pipeline.fit(texts, truth[:, kept]), names)))


@contextmanager
def serving(kind: str, folder: Path) -> Iterator[str]:
    """The address of a service, until the block ends."""
    if kind == "lampnet":
        command = [sys.executable, "-m", "lampnet", "serve", str(folder / "reuters"), "--port", "0"]
    else:
        app = f"serving.plain_app({kind!r}, {str(folder)!r})"
        code = f"import uvicorn, serving; uvicorn.run({app}, port=0, access_log=False)"
        command = [sys.executable, "-c", code]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    with (folder / f"{kind}.log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env=environment)
    try:
        while not (found := re.search(r"running on (http://\S+)", (folder / f"{kind}.log").read_text())):
            if process.poll() is not None:
                raise SystemExit((folder / f"{kind}.log").read_text())
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def load(url: str, clients: int, seconds: float, script: Path) -> dict[str, float]:
    """Requests per second, milliseconds and errors."""
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(script), url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"MEASURED (\d+) (\d+) (\d+) (\d+) (\d+)", said)
    if found is None:
        raise SystemExit(said)
    count, duration, errors, p50, p99 = map(int, found.groups())
    return {"per_second": count * 1e6 / duration, "p50_ms": p50 / 1e3, "p99_ms": p99 / 1e3, "errors": errors,
            "requests": count}  # fmt: skip


def measure(seconds: int) -> dict[str, Any]:
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: apt-get install wrk")
    runs: dict[str, dict[int, list[dict[str, float]]]] = {kind: {n: [] for n in CLIENTS} for kind in TITLES}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        script = folder / "load.lua"
        script.write_text(SCRIPT.format(text=TEXT))
        train(folder)
        for _ in range(ROUNDS):
            for kind in TITLES:
                with serving(kind, folder) as url:
                    load(url, 1, 1, script)
                    for clients in CLIENTS:
                        runs[kind][clients].append(load(url, clients, seconds, script))
        measured: dict[str, Any] = {"rows_trained": ROWS, "rounds": ROUNDS, "seconds": seconds, "load": {}}
        for kind, by_clients in runs.items():
            measured["load"][kind] = {
                str(clients): {name: statistics.median(one[name] for one in some) for name in some[0]}
                | {"errors": sum(one["errors"] for one in some)}
                for clients, some in by_clients.items()
            }
    return measured


def section(measured: dict[str, Any]) -> str:
    head = "| one text per request | " + " | ".join(f"{n} client{'s' * (n > 1)}" for n in CLIENTS) + " |"
    lines = [head, "|---|" + "--:|" * len(CLIENTS)]
    short = False
    for kind, title in TITLES.items():
        cells = []
        for clients in CLIENTS:
            one = measured["load"][kind][str(clients)]
            wrong = f", {one['errors']:.0f} errors" if one["errors"] else ""
            few = " \\*" if one["requests"] < ENOUGH else ""
            short = short or bool(few)
            cells.append(f"{one['per_second']:.0f} ({one['p50_ms']:.0f} / {one['p99_ms']:.0f}){few}{wrong}")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    text = (
        "\n".join(lines)
        + f"\n\nRequests per second (milliseconds: median / 99%), the median of {measured['rounds']} rounds."
    )
    if short:
        text += f" \\* fewer than {ENOUGH:,} requests per round, so the 99% quantile rests on fewer than ten of them."
    return text


SECTION = MeasuredSection("serving", "serving.md", "load", section)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=SECONDS, help="for each number of clients in each round")
    arguments.add_argument("--page-only", action="store_true")
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    if given.check:
        SECTION.check()
        return
    if not given.page_only:
        SECTION.keep(measure(given.seconds))
    SECTION.write()


if __name__ == "__main__":
    main()
