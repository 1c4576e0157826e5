"""What a request must pass before it is read: its size and time, and the bearer token where one is set."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

#: what needs no token: whether the service lives, what requests look like, and the page, which asks for one
OPEN_PATHS = ("/", "/docs", "/openapi.json", "/health", "/v2/health/live", "/v2/health/ready")
#: the bodies of all requests in a process may take as much as so many of the largest ones
BODIES = 8


class BodyLimit:
    """Reads bodies before they are looked at, and bounds them: their size, their time, and what all of them hold.

    A body that is too large is refused with 413, by its stated length or while it comes in; one that does not come
    in time with 408; one for which the others leave no room with 429.
    """

    def __init__(self, app: App, max_body: int, timeout: float) -> None:
        self.app, self.max_body, self.timeout = app, max_body, timeout
        self.held = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            refusal = await self._read(scope, receive, body)
            if refusal is not None:
                await answer(send, *refusal)
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
        except ClientGone:
            return
        finally:
            self.held -= len(body)

    async def _read(self, scope: Message, receive: Receive, body: bytearray) -> tuple[Any, ...] | None:
        """The body, as long as it may be; status, sentence and headers of the refusal where it may not."""
        too_large = (413, f"the request is larger than {self.max_body:,} bytes; send fewer rows at once")
        stated = _header(scope, b"content-length")
        if stated.isdigit() and int(stated) > self.max_body:
            return too_large
        try:
            async with asyncio.timeout(self.timeout):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ClientGone
                    part = message.get("body", b"")
                    if len(body) + len(part) > self.max_body:
                        return too_large
                    if self.held + len(part) > BODIES * self.max_body:
                        return 429, "too much is being sent; try again in a second", ((b"retry-after", b"1"),)
                    body += part
                    self.held += len(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            sentence = f"the request did not arrive within {self.timeout:g} s; send fewer rows"
            return 408, sentence, ((b"connection", b"close"),)
        return None


class ClientGone(Exception):
    """The connection was closed before the request was whole."""


class BearerToken:
    """Refuses requests without the token with 401; compared in constant time."""

    def __init__(self, app: App, token: str) -> None:
        self.app, self.wanted = app, b"Bearer " + token.encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            given = _header(scope, b"authorization")
            if not hmac.compare_digest(given, self.wanted):
                sentence = "the bearer token is missing or wrong; send the header Authorization: Bearer TOKEN"
                await answer(send, 401, sentence, ((b"www-authenticate", b"Bearer"),))
                return
        await self.app(scope, receive, send)


def _header(scope: Message, name: bytes) -> bytes:
    return next((bytes(value) for key, value in scope["headers"] if key == name), b"")


async def answer(send: Send, status: int, sentence: str, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    """An error as the service words them: {"error": sentence}."""
    body = json.dumps({"error": sentence}).encode()
    lines = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
