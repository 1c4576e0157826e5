"""`lampnet serve`: models behind HTTP, with a page to tag rows by hand."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from lampnet.cli import options
from lampnet.errors import ConfigError, MissingExtra

#: seconds after which a worker that answers nothing is taken for dead, with all its requests. uvicorn's own five are
#: too few: loading a model on a busy machine takes longer, and a worker would be killed and started again for ever.
#: A worker that has ended is noticed at once.
SLOW_WORKER = 60
#: seconds that an idle connection stays open: longer than proxies keep theirs (60), which would otherwise send a
#: request on a connection that is being closed and count it as lost
IDLE_CONNECTION = 75


def command(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="One or several model folders.")],
    host: Annotated[str, typer.Option("--host", help="The address to listen on; this machine only by default.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", help="The port; 0 for any free one.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", help="Processes, each with every model.")] = 1,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Rows a request may have.")] = 1024,
    max_body: Annotated[int, typer.Option("--max-body", help="Bytes a request may have.")] = 8 << 20,
    max_queue: Annotated[int, typer.Option("--max-queue", help="Rows that may wait in a process.")] = 4096,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds a request may take.")] = 30.0,
) -> None:
    """Serve models over HTTP: a tagging page at /, JSON at /predict, and the Open Inference Protocol at /v2.

    With LAMPNET_TOKEN in the environment, requests need the header `Authorization: Bearer TOKEN`.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn
    except ImportError:
        raise MissingExtra("fastapi, uvicorn and prometheus-client", "serve", "serving models") from None
    from lampnet.persistence.model_description import read_description
    from lampnet.service.connections import PromptConnection
    from lampnet.service.settings import ENVIRONMENT, TOKEN, ServiceSettings, named_folders

    if workers < 1:
        raise ConfigError(f"--workers is {workers}; give at least 1")
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port is {port}; give 0 to 65535")
    settings = ServiceSettings(
        models=named_folders(models),
        host=host,
        max_body=max_body,
        max_rows=max_rows,
        max_queue=max_queue,
        timeout=timeout,
    )
    for folder in models:
        read_description(folder)  # a wrong folder is said before anything is started
    if not settings.is_local and not os.environ.get(TOKEN):
        options.log(
            f"lampnet: warning: {host} can be reached by other machines and no token is set; anyone may use the "
            f"models: put a secret into {TOKEN}"
        )
    os.environ[ENVIRONMENT] = settings.to_text()
    # One process counts in its memory, and would not come to remove a folder: uvicorn ends it by its signal.
    with tempfile.TemporaryDirectory(prefix="lampnet-metrics-") if workers > 1 else nullcontext() as counters:
        if counters is not None:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = counters
        uvicorn.run(
            "lampnet.service.app:from_environment",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            http=PromptConnection,
            log_level="info",
            access_log=False,
            timeout_graceful_shutdown=int(timeout) + 1,
            timeout_worker_healthcheck=SLOW_WORKER,
            timeout_keep_alive=IDLE_CONNECTION,
        )
