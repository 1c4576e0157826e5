"""The JSON of requests, one form for each path that takes rows."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lampnet.errors import DataError
from lampnet.runtime.limited_json import parse_json

Rows = list[dict[str, Any]]
Known = list[dict[str, bool | float | None] | list[str] | None]
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
