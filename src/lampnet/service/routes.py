"""The paths of the service: rows to predictions, what is served, and two pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import States
from lampnet.errors import DataError
from lampnet.evaluation.asked_sets import AskedSets
from lampnet.inference.asked_decision import check_decision
from lampnet.inference.predictor import FittedModel
from lampnet.service import answers
from lampnet.service.api_page import HEADERS, api_page
from lampnet.service.forms import Asked, ExplainRequest, PredictRequest, RowsRequest, SuggestRequest, parsed
from lampnet.service.request_rows import read_rows, read_states, states_or_nothing
from lampnet.service.tagging_page import tagging_page

if TYPE_CHECKING:
    from lampnet.service.app import Service

#: explanations hold all attention weights, so few rows are explained at once
MOST_EXPLAINED = 16


def add_routes(app: FastAPI, service: Service) -> None:
    """All paths but those of the Open Inference Protocol."""
    _add_answers(app, service)
    _add_what_is_served(app, service)
    _add_pages(app)


def _add_answers(app: FastAPI, service: Service) -> None:
    """What is asked of rows."""

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


def _add_what_is_served(app: FastAPI, service: Service) -> None:
    """Labels, models and counters."""

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


def _add_pages(app: FastAPI) -> None:
    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def requests() -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi()), headers=HEADERS)

    text, headers = tagging_page()

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(text, headers=headers)
