"""What a request must pass before it is read: its size, and the bearer token where one is set."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

#: what needs no token: whether the service lives, and the page, which asks for one
OPEN_PATHS = ("/", "/health", "/v2/health/live", "/v2/health/ready")


class BodyLimit:
    """Refuses bodies that are too large with 413, by their stated length or while they come in."""

    def __init__(self, app: App, max_body: int) -> None:
        self.app, self.max_body = app, max_body

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        stated = _header(scope, b"content-length")
        if stated.isdigit() and int(stated) > self.max_body:
            await self._refuse(send)
            return
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":  # the client has gone
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.max_body:
                await self._refuse(send)
                return
        whole = {"type": "http.request", "body": bytes(body), "more_body": False}
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return whole

        await self.app(scope, replay, send)

    async def _refuse(self, send: Send) -> None:
        await answer(send, 413, f"the request is larger than {self.max_body:,} bytes; send fewer rows at once")


class BearerToken:
    """Refuses requests without the token with 401; compared in constant time."""

    def __init__(self, app: App, token: str) -> None:
        self.app, self.wanted = app, b"Bearer " + token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_open(scope["path"]):
            given = _header(scope, b"authorization")
            if not hmac.compare_digest(given, self.wanted):
                sentence = "the bearer token is missing or wrong; send the header Authorization: Bearer TOKEN"
                await answer(send, 401, sentence, ((b"www-authenticate", b"Bearer"),))
                return
        await self.app(scope, receive, send)


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith("/page/")


def _header(scope: Message, name: bytes) -> bytes:
    return next((bytes(value) for key, value in scope["headers"] if key == name), b"")


async def answer(send: Send, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    """An error as the service words them: {"error": sentence}."""
    body = json.dumps({"error": sentence}).encode()
    lines = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
