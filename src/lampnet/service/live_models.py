"""Models that are served: loaded once, and exchanged when their folder holds another one.

A model is replaced in its folder by a rename (see `lampnet.persistence.model_folder`), so a new description is a new
file. Requests that are under way keep the model that they began with.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from lampnet.errors import DataError, LampnetError
from lampnet.inference.predictor import FittedModel
from lampnet.persistence.model_folder import load_model

#: seconds between looks at the folders
LOOK_EVERY = 1.0
log = logging.getLogger("uvicorn.error")


class UnknownModel(DataError):
    """A request for a model, or a version of it, that is not served."""


class LiveModel:
    """A model folder and the model that was last loaded from it."""

    def __init__(self, name: str, folder: str | Path) -> None:
        self.name, self.folder = name, Path(folder)
        self._seen = self._signature()
        self.model = load_model(self.folder)

    @property
    def version(self) -> str:
        """The digest of the model that is served now."""
        return str(self.model.metadata.get("model_sha256", ""))

    def refresh(self) -> bool:
        """Load what the folder holds if it is another model; a folder that cannot be loaded leaves the old one."""
        signature = self._signature()
        if signature is None or signature == self._seen:
            return False
        self._seen = signature
        try:
            model = load_model(self.folder)
        except (LampnetError, OSError) as fault:
            log.warning("%s: the model in its folder cannot be loaded, the former one is kept: %s", self.name, fault)
            return False
        if model.metadata.get("model_sha256") == self.version:
            return False
        self.model = model
        log.info("%s: a new model is served", self.name)
        return True

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.folder / "model.json")
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


async def watch(models: list[LiveModel], every: float = LOOK_EVERY) -> None:
    """Look at the folders until cancelled."""
    while True:
        await asyncio.sleep(every)
        for live in models:
            await asyncio.to_thread(live.refresh)


def warm(model: FittedModel) -> None:
    """Predict no row, so that the first request does not wait for what is done once."""
    rows = model.encoder.no_rows()
    if getattr(rows, "shape", (1,))[0] == 0 or len(rows) == 0:
        model.logits(rows)
