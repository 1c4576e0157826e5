"""Connections whose requests do not begin are closed: otherwise a few hundred of them would keep all others out."""

from __future__ import annotations

import asyncio
import os
from functools import cache

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from lampnet.service.settings import ENVIRONMENT, ServiceSettings


@cache
def _seconds() -> float:
    return ServiceSettings.of_text(os.environ[ENVIRONMENT]).arrival


class PromptConnection(AutoHTTPProtocol):  # type: ignore[misc]
    """uvicorn's connection, which waits for ever for the end of a request's head; this one for a while.

    Bodies have their time in `guards`, and connections that wait for a further request in uvicorn.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_head()
        else:
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_seconds(), self._close)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
