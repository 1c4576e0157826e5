"""The Open Inference Protocol (V2), as KServe and Triton speak it, with its binary form of tensors.

A model has one input, named by its kind, and the optional input `known` of 1 (true), 0 (false) and -1 (unknown), INT8
[rows, labels]. Its outputs are `probabilities`, FP32, and `labels`, BOOL, both [rows, labels].
"""

from __future__ import annotations

import asyncio
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from scipy import sparse

from lampnet import __version__
from lampnet.data.dataset import Dataset
from lampnet.data.known_labels import States, read_known
from lampnet.data.named_columns import as_dataset
from lampnet.errors import DataError
from lampnet.inference.logits import probabilities
from lampnet.inference.match_schema import match_rows
from lampnet.inference.predictor import FittedModel
from lampnet.runtime.limited_json import parse_json
from lampnet.service.live_models import LiveModel, UnknownModel
from lampnet.service.request_rows import read_rows

if TYPE_CHECKING:
    from lampnet.service.app import Service

#: length of the JSON part of a request or response that has tensors in binary form after it
JSON_LENGTH = "inference-header-content-length"
TYPES = {
    "BOOL": "?", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "u1", "UINT16": "<u2",
    "UINT32": "<u4", "UINT64": "<u8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
#: the name of the input that each kind of rows has
INPUTS = {"wordset": "features", "vector": "features", "molecule": "smiles"}
OUTPUTS = ("probabilities", "labels")
#: what the protocol calls the version of a model; a folder holds one model at a time
VERSION = "1"


def add_routes(app: FastAPI, service: Service) -> None:
    """The protocol's paths."""

    @app.get("/v2")
    async def server() -> dict[str, Any]:
        return {"name": "lampnet", "version": __version__, "extensions": ["binary_tensor_data"]}

    @app.get("/v2/health/live")
    async def live() -> dict[str, Any]:
        return {"live": True}

    @app.get("/v2/health/ready")
    async def ready() -> dict[str, Any]:
        return {"ready": True}

    def live_model(name: str, version: str) -> LiveModel:
        found = service.live(name)
        if version != VERSION:
            raise UnknownModel(f"{name[:60]!r} has no version {version[:20]!r}; its only one is {VERSION!r}")
        return found

    @app.get("/v2/models/{name}")
    @app.get("/v2/models/{name}/versions/{version}")
    async def model(name: str, version: str = VERSION) -> Response:
        async def call() -> Response:
            return JSONResponse(_metadata(name, live_model(name, version).model))

        return await service.answered("/v2/models", call)

    @app.get("/v2/models/{name}/ready")
    @app.get("/v2/models/{name}/versions/{version}/ready")
    async def model_ready(name: str, version: str = VERSION) -> Response:
        async def call() -> Response:
            live_model(name, version)
            return JSONResponse({"name": name, "ready": True})

        return await service.answered("/v2/models/ready", call)

    @app.post("/v2/models/{name}/infer")
    @app.post("/v2/models/{name}/versions/{version}/infer")
    async def infer(name: str, request: Request, version: str = VERSION) -> Response:
        async def call() -> Response:
            fitted = live_model(name, version).model
            body = await request.body()
            asked, inputs = await asyncio.to_thread(_inputs, body, request.headers.get(JSON_LENGTH))

            def read() -> tuple[Dataset, States | None]:
                return _rows(fitted, inputs)

            def finish(data: Dataset, states: States | None, logits: np.ndarray) -> dict[str, np.ndarray]:
                proba = probabilities(logits) if states is None else fitted.proba_given(logits, states)
                chosen = fitted.decided(fitted.config.training.metric, proba, states)
                return {"probabilities": proba.astype(np.float32), "labels": chosen}

            service.check_rows(max(map(len, inputs.values()), default=0))
            return _response(name, asked, await service.logits_of(fitted, read, finish))

        return await service.answered("/v2/models/infer", call)


def _metadata(name: str, model: FittedModel) -> dict[str, Any]:
    kind, count = model.encoder.kind, len(model.label_names)
    if kind in ("wordset", "vector"):
        taken = {"datatype": "FP32", "shape": [-1, len(model.encoder.feature_names) or -1]}
    else:
        taken = {"datatype": "BYTES", "shape": [-1]}
    return {
        "name": name,
        "versions": [VERSION],
        "platform": "lampnet",
        "inputs": [
            {"name": INPUTS.get(kind, kind), **taken},
            {"name": "known", "datatype": "INT8", "shape": [-1, count]},
        ],
        "outputs": [
            {"name": "probabilities", "datatype": "FP32", "shape": [-1, count]},
            {"name": "labels", "datatype": "BOOL", "shape": [-1, count]},
        ],
    }


def _inputs(body: bytes, json_length: str | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The request's JSON, and its tensors by name."""
    if json_length is not None and (not json_length.isdecimal() or int(json_length[:20]) > len(body)):
        raise DataError(f"the header {JSON_LENGTH} is {json_length[:20]!r}; give the length of the JSON part")
    length = len(body) if json_length is None else int(json_length)
    try:
        asked = parse_json(body[:length])
    except (ValueError, RecursionError) as wrong:
        raise DataError(f"the request cannot be read: {wrong}") from None
    given = asked.get("inputs") if isinstance(asked, dict) else None
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise DataError("the request has no 'inputs'; give a list of tensors")
    if not isinstance(asked.get("id", ""), str):
        raise DataError("the 'id' of the request must be a text")
    tensors: dict[str, np.ndarray] = {}
    for one in given:
        size = _parameters(one).get("binary_data_size")
        content = None
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(body) - length:
                raise DataError(f"a tensor states {str(size)[:20]} bytes of binary data, {len(body) - length} are left")
            content = body[length : length + size]
            length += size
        tensors[str(one.get("name"))] = _tensor(one, content)
    return asked, tensors


def _parameters(one: dict[str, Any]) -> dict[str, Any]:
    found = one.get("parameters")
    return found if isinstance(found, dict) else {}


def _tensor(one: dict[str, Any], content: bytes | None) -> np.ndarray:
    name, shape, kind = str(one.get("name"))[:40], one.get("shape"), one.get("datatype")
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise DataError(f"the shape of {name!r} must be a list of whole numbers")
    if len(shape) not in (1, 2):
        raise DataError(f"the shape of {name!r} has {len(shape)} numbers; give [rows] or [rows, columns]")
    if not isinstance(kind, str) or (kind != "BYTES" and kind not in TYPES):
        raise DataError(f"the datatype of {name!r} is {str(kind)[:20]!r}; give BYTES or one of {', '.join(TYPES)}")
    try:
        if kind == "BYTES":
            values = _texts(content) if content is not None else np.array(_flat(one.get("data")), dtype=object)
        elif content is not None:
            values = np.frombuffer(content, dtype=TYPES[kind])
        else:
            values = _numbers_of(_flat(one.get("data")), np.dtype(TYPES[kind]))
        return values.reshape(shape)
    except (ValueError, TypeError, OverflowError, UnicodeDecodeError, struct.error, MemoryError):
        raise DataError(f"the data of {name!r} do not fit its shape {shape} and datatype {kind}") from None


def _numbers_of(flat: list[Any], dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers and truth values; neither texts nor numbers that the type would cut off."""
    if not all(isinstance(value, (bool, int, float)) for value in flat):
        raise TypeError
    values = np.array(flat, dtype=dtype)
    if dtype.kind in "biu" and any(value != kept for value, kept in zip(flat, values.tolist(), strict=True)):
        raise ValueError
    return values


def _flat(data: Any) -> list[Any]:
    """The protocol allows nested lists and flat ones."""
    if not isinstance(data, list):
        raise TypeError
    flat: list[Any] = []
    waiting = [iter(data)]
    while waiting:
        for value in waiting[-1]:
            if isinstance(value, list):
                waiting.append(iter(value))
                break
            flat.append(value)
        else:
            waiting.pop()
    return flat


def _texts(content: bytes) -> np.ndarray:
    """Texts, each after its length in four bytes."""
    texts, place = [], 0
    while place < len(content):
        (size,) = struct.unpack_from("<I", content, place)
        if place + 4 + size > len(content):
            raise ValueError
        texts.append(content[place + 4 : place + 4 + size].decode("utf-8"))
        place += 4 + size
    return np.array(texts, dtype=object)


def _rows(model: FittedModel, inputs: dict[str, np.ndarray]) -> tuple[Dataset, States | None]:
    kind = model.encoder.kind
    wanted = INPUTS.get(kind, kind)
    if wanted not in inputs:
        raise DataError(f"the input {wanted!r} is missing; found {', '.join(map(repr, inputs))[:200] or 'none'}")
    given = inputs[wanted]
    if kind in ("wordset", "vector"):
        data = _numbers(model, given, kind)
    elif kind in ("columns", "parts"):
        data = read_rows(model, [_object(text, kind) for text in _one_each(given, wanted)])
    else:
        data = read_rows(model, [{wanted: text} for text in _one_each(given, wanted)])
    known = inputs.get("known")
    if known is None:
        return data, None
    if known.dtype.kind not in "iu" or not np.isin(known, (-1, 0, 1)).all():
        raise DataError("'known' must be INT8 of 1 (true), 0 (false) and -1 (unknown)")
    states = np.where(known < 0, np.nan, known.astype(np.float64))
    return data, read_known(states, model.label_names, len(data))


def _numbers(model: FittedModel, given: np.ndarray, kind: str) -> Dataset:
    names = model.encoder.feature_names
    width = len(names) or getattr(model.encoder.no_rows(), "shape", (0, 0))[1]
    if given.ndim != 2 or given.shape[1] != width or given.dtype.kind not in "biuf":
        raise DataError(f"'features' has shape {list(given.shape)}; give numbers of shape [rows, {width}]")
    if not np.isfinite(given).all():
        raise DataError("'features' holds values that are not finite; give finite numbers")
    rows: Any = sparse.csr_matrix(given, dtype=np.float32) if kind == "wordset" else given
    data = as_dataset(rows, kind, "rows")
    named = Dataset(name="rows", kind=kind, rows=data.rows, labels=None, label_names=(), feature_names=names or None)
    return match_rows(model, named, "rows")


def _one_each(given: np.ndarray, name: str) -> list[Any]:
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1:
        raise DataError(f"{name!r} has shape {list(given.shape)}; give one value per row, shape [rows]")
    return list(given)


def _object(text: Any, kind: str) -> dict[str, Any]:
    """A row of a table or of several parts, which the protocol has no tensor for: a JSON object."""
    try:
        row = parse_json(text.encode())
    except (ValueError, AttributeError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise DataError(f"a row of {kind!r} is not a JSON object; give a value for each column")
    return row


def _response(name: str, asked: dict[str, Any], made: dict[str, np.ndarray]) -> Response:
    """The outputs that were asked for, all by default, as JSON or in binary form."""
    wanted = asked.get("outputs") or [{"name": output} for output in OUTPUTS]
    if not isinstance(wanted, list):
        raise DataError("'outputs' must be a list of the outputs that are wanted")
    binary_by_default = bool(_parameters(asked).get("binary_data_output", False))
    described: list[dict[str, Any]] = []
    contents: list[bytes] = []
    for one in wanted:
        output = one.get("name") if isinstance(one, dict) else None
        if not isinstance(output, str) or output not in made:
            raise DataError(f"there is no output {str(output)[:60]!r}; expected {' or '.join(OUTPUTS)}")
        if output in {tensor["name"] for tensor in described}:
            raise DataError(f"the output {output!r} is asked for twice")
        array = made[output]
        kind = "BOOL" if array.dtype == bool else "FP32"
        tensor: dict[str, Any] = {"name": output, "datatype": kind, "shape": list(array.shape)}
        if _parameters(one).get("binary_data", binary_by_default):
            content = np.ascontiguousarray(array, dtype=TYPES[kind]).tobytes()
            contents.append(content)
            described.append(tensor | {"parameters": {"binary_data_size": len(content)}})
        else:
            described.append(tensor | {"data": array.ravel().tolist()})
    answer = {"model_name": name, "model_version": VERSION, "outputs": described}
    if "id" in asked:
        answer["id"] = asked["id"]
    if not contents:
        return JSONResponse(answer)
    head = json.dumps(answer).encode()
    return Response(
        head + b"".join(contents), media_type="application/octet-stream", headers={JSON_LENGTH: str(len(head))}
    )
