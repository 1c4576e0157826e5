"""The HTTP service: JSON as people write it, and the Open Inference Protocol beside it.

Every request is read in a thread, its rows are predicted together with those of other requests (`batches`), and an
error is a sentence: {"error": ...} with 400 for the caller's mistakes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from lampnet import __version__
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import States
from lampnet.errors import DataError, LampnetError, did_you_mean
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.inference.asked_decision import check_decision
from lampnet.inference.predictor import FittedModel
from lampnet.runtime.limited_json import parse_json
from lampnet.service import answers
from lampnet.service.api_page import HEADERS, api_page
from lampnet.service.batches import Batches, Crowded, Finish
from lampnet.service.counters import Counters
from lampnet.service.guards import BearerToken, BodyLimit
from lampnet.service.live_models import LiveModel, UnknownModel, warm, watch
from lampnet.service.request_rows import read_rows, read_states, states_or_nothing
from lampnet.service.settings import ENVIRONMENT, LOOPBACK, TOKEN, ServiceSettings

Rows = list[dict[str, Any]]
Known = list[dict[str, bool | float | None] | list[str] | None]
#: explanations hold all attention weights, so few rows are explained at once
MOST_EXPLAINED = 16
#: characters of an error
MOST_SAID = 1000
_LABELS = "What is known of each row's labels: {label: true, false or a probability}, a list of true ones, or null."


class RowsRequest(BaseModel):
    """Rows as in JSON lines: {"text": ...}, {"features": ...}, {"smiles": ...}, or a value for each column."""

    model_config = ConfigDict(extra="forbid")
    rows: Rows = Field(min_length=1)
    known: Known | None = Field(None, description=_LABELS)
    model: str | None = Field(None, description="The model's name; the first one by default.")


class PredictRequest(RowsRequest):
    """Which labels rows have."""

    top_k: int | None = Field(None, description="Exactly k labels per row; at most k with a threshold.")
    threshold: float | None = Field(None, description="Labels at least this probable.")
    at_least_one: bool = Field(False, description="A row without a label gets its most probable one.")
    decision: str = Field("example_f1", description="A metric whose best rule decides, whole set, or recall>=0.9.")


class ExplainRequest(RowsRequest):
    """Why rows have their labels, also given what is known of them; at most 16 rows."""

    labels: list[str] | None = Field(None, description="Labels to show in any case.")


class SuggestRequest(RowsRequest):
    """Which labels to add next."""

    most: int = Field(10, ge=1, le=1000)


Asked = TypeVar("Asked", bound=RowsRequest)


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

    _add_routes(app, service)
    from lampnet.service.open_inference import add_routes

    add_routes(app, service)
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


async def parsed(request: Request, form: type[Asked]) -> Asked:
    """The request's JSON in this form, or an error that names what is wrong with it."""
    body = await request.body()
    try:
        return form.model_validate(await asyncio.to_thread(parse_json, body))
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["loc"][:1] == ("known",):
            place = ".".join(map(str, first["loc"][:2]))
            words = "give for each row {label: true or false}, a list of true labels, or null"
            raise DataError(f"{place}: {words}") from None
        place = ".".join(map(str, first["loc"])) or "the request"
        raise DataError(f"{place}: {first['msg']}") from None
    except (ValueError, RecursionError) as wrong:
        raise DataError(f"the request cannot be read: {wrong}") from None


def _add_routes(app: FastAPI, service: Service) -> None:
    def route(path: str, form: type[Asked], answer: Callable[[Asked], Awaitable[dict[str, Any]]]) -> None:
        """POST with a body of this form; its schema goes into the OpenAPI page."""

        async def call(request: Request) -> Response:
            async def answered() -> Response:
                asked = await parsed(request, form)
                service.check_rows(len(asked.rows))
                return JSONResponse(await answer(asked))

            return await service.answered(path, answered)

        body = {"required": True, "content": {"application/json": {"schema": form.model_json_schema()}}}
        app.post(path, openapi_extra={"requestBody": body}, summary=(form.__doc__ or "").strip())(call)

    async def ask(asked: RowsRequest, finish: Callable[..., Any], name: str) -> dict[str, Any]:
        live = service.live(asked.model)
        model, version = live.model, live.version

        def read() -> tuple[Dataset, States | None]:
            data = read_rows(model, asked.rows)
            return data, read_states(model, data, asked.known)

        made = await service.logits_of(model, read, lambda *given: finish(model, *given))
        return {"model": live.name, "version": version, name: made}

    async def predict(asked: PredictRequest) -> dict[str, Any]:
        decision = check_decision(asked.decision)
        sets = AskedSets(top_k=asked.top_k, threshold=asked.threshold, at_least_one=asked.at_least_one)

        def finish(model: FittedModel, data: Dataset, states: States | None, logits: Any) -> Any:
            return answers.predictions(model, data, logits, states, decision, sets)

        return await ask(asked, finish, "predictions")

    async def suggest(asked: SuggestRequest) -> dict[str, Any]:
        def finish(model: FittedModel, data: Dataset, states: States | None, logits: Any) -> Any:
            return answers.suggestions(model, data, logits, states_or_nothing(model, states, len(data)), asked.most)

        return await ask(asked, finish, "suggestions")

    async def next_question(asked: RowsRequest) -> dict[str, Any]:
        def finish(model: FittedModel, data: Dataset, states: States | None, logits: Any) -> Any:
            return answers.questions(model, logits, states_or_nothing(model, states, len(data)))

        return await ask(asked, finish, "questions")

    async def explained(asked: ExplainRequest) -> dict[str, Any]:
        if len(asked.rows) > MOST_EXPLAINED:
            raise DataError(f"the request has {len(asked.rows)} rows; at most {MOST_EXPLAINED} are explained at once")
        live = service.live(asked.model)
        model = live.model

        def call() -> Any:
            data = read_rows(model, asked.rows)
            return answers.explanations(model, data, read_states(model, data, asked.known), asked.labels)

        return {"model": live.name, "version": live.version, "explanations": await service.batches.alone(call)}

    route("/predict", PredictRequest, predict)
    route("/suggest", SuggestRequest, suggest)
    route("/next-question", RowsRequest, next_question)
    route("/explain", ExplainRequest, explained)

    @app.get("/labels")
    async def labels(model: str | None = None) -> Response:
        """The labels of a model, in the order of its probabilities."""

        async def call() -> Response:
            live = service.live(model)
            kind = live.model.encoder.kind
            return JSONResponse(
                {"model": live.name, "version": live.version, "kind": kind, "labels": list(live.model.label_names)}
            )

        return await service.answered("/labels", call)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the service lives, and which models it serves."""
        return {"status": "ok", "models": list(service.models)}

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.counters.text(), media_type="text/plain; version=0.0.4")

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def requests() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()), headers=HEADERS)

    text, headers = tagging_page()

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(text, headers=headers)


def tagging_page() -> tuple[str, dict[str, str]]:
    """The page as one file, and headers that let it run its own script and style only and reach this service only."""
    folder = files("lampnet.service") / "page"
    text = (folder / "tagging.html").read_text(encoding="utf-8")
    allowed = {}
    for place, name in (("style", "tagging.css"), ("script", "tagging.js")):
        part = (folder / name).read_text(encoding="utf-8")
        text = text.replace(f"/*{place}*/", part)
        allowed[place] = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed['style']}'; script-src 'sha256-{allowed['script']}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text, {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }
