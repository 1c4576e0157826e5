"""What `/metrics` tells Prometheus, over all workers."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Counters:
    """The counters of one service process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ("path", "status")
        self.requests = Counter("lampnet_requests_total", "Requests answered", names, registry=self.registry)
        self.seconds = Histogram(
            "lampnet_request_seconds", "Seconds per request", ("path",), registry=self.registry, buckets=SECONDS
        )
        self.rows = Counter("lampnet_rows_total", "Rows predicted", registry=self.registry)
        self.batches = Histogram("lampnet_batch_rows", "Rows per batch", registry=self.registry, buckets=ROWS)

    def batch(self, rows: int) -> None:
        """A batch of so many rows was predicted."""
        self.rows.inc(rows)
        self.batches.observe(rows)

    def request(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' own format; of all workers where there are several."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return bytes(generate_latest(self.registry))
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)
        return bytes(generate_latest(together))
