"""The HTTP service: JSON as people write it, and the Open Inference Protocol beside it.

Every request is read in a thread, its rows are predicted together with those of other requests (`batches`), and an
error is a sentence: {"error": ...} with 400 for the caller's mistakes.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from lampnet import __version__
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import States
from lampnet.errors import DataError, LampnetError, did_you_mean
from lampnet.inference.predictor import FittedModel
from lampnet.service import open_inference, routes
from lampnet.service.batches import Batches, Crowded, Finish
from lampnet.service.counters import Counters
from lampnet.service.guards import BearerToken, BodyLimit
from lampnet.service.live_models import LiveModel, UnknownModel, warm, watch
from lampnet.service.settings import ENVIRONMENT, LOOPBACK, TOKEN, ServiceSettings

#: characters of an error
MOST_SAID = 1000


def from_environment() -> FastAPI:
    """The service of a worker process, by the settings that `lampnet serve` left in the environment."""
    return build_app(ServiceSettings.of_text(os.environ[ENVIRONMENT]), os.environ.get(TOKEN, ""))


def build_app(settings: ServiceSettings, token: str = "") -> FastAPI:
    """The service. Models are loaded here, so that a folder that cannot be loaded stops the start."""
    service = Service(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(watch(list(service.models.values())))
        yield
        watching.cancel()
        await service.batches.close()

    app = FastAPI(title="lampnet", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = service

    @app.exception_handler(HTTPException)
    async def no_such_path(request: Request, fault: HTTPException) -> JSONResponse:
        asked = f"{request.method} {request.url.path[:100]}"
        return failed(fault.status_code, f"there is no {asked}; GET /docs has all paths", dict(fault.headers or {}))

    routes.add_routes(app, service)
    open_inference.add_routes(app, service)
    # The last one added is the first one passed.
    app.add_middleware(BodyLimit, max_body=settings.max_body, timeout=settings.arrival)
    if token:
        app.add_middleware(BearerToken, token=token)
    if settings.is_local:  # a foreign site that calls itself by another name for this address gets no answer
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]", "testserver"])
    return app


class Service:
    """Models, batches and counters of one process."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.models = {name: LiveModel(name, folder) for name, folder in settings.models.items()}
        for live in self.models.values():
            warm(live.model)
        self.counters = Counters()
        self.batches = Batches(settings.max_queue, self.counters.batch)

    def live(self, name: str | None) -> LiveModel:
        """The model of this name, or the first."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise UnknownModel(f"there is no model {name[:60]!r}; {did_you_mean(name, self.models)}")
        return self.models[name]

    async def logits_of(
        self, model: FittedModel, read: Callable[[], tuple[Dataset, States | None]], finish: Callable[..., Any]
    ) -> Any:
        """Read rows in a thread, and what `finish(data, states, logits)` makes of their logits."""
        with self.batches.reading():
            data, states = await asyncio.to_thread(read)
        made: Finish = lambda logits: finish(data, states, logits)  # noqa: E731
        return await self.batches.predict(model, data, made)

    def check_rows(self, rows: int) -> None:
        """Refuse more rows than a request may have, or than there is room for."""
        if rows > self.settings.max_rows:
            raise DataError(
                f"the request has {rows:,} rows; at most {self.settings.max_rows:,} are allowed: send several requests"
            )
        self.batches.admit(rows)

    async def answered(self, path: str, call: Callable[[], Awaitable[Response]]) -> Response:
        """The response, or the error that ends the request, within its time, and counted."""
        began = time.perf_counter()
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await call()
        except UnknownModel as mistake:
            response = failed(404, str(mistake))
        except LampnetError as mistake:
            response = failed(400, str(mistake))
        except Crowded:
            response = failed(429, "too many rows are waiting; try again in a second", {"retry-after": "1"})
        except TimeoutError:
            response = failed(503, f"no answer within {self.settings.timeout:g} s; send fewer rows")
        self.counters.request(path, response.status_code, time.perf_counter() - began)
        return response


def failed(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as the service words them; what a caller sent is not sent back at length."""
    return JSONResponse({"error": " ".join(sentence[: 2 * MOST_SAID].split())[:MOST_SAID]}, status, headers)
