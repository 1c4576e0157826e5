"""What a service is started with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lampnet.errors import ConfigError, ModelFolderError

#: holds the settings for worker processes, which are started anew
ENVIRONMENT = "LAMPNET_SERVE"
#: holds the bearer token; never an argument, because arguments are seen by every user of the machine
TOKEN = "LAMPNET_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: a request has at least so many seconds to arrive, however soon its answer is due
LEAST_ARRIVAL = 5.0


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Models and limits.

    models           name -> folder; requests that name no model go to the first
    host             the address that the service is bound to
    max_body         bytes of a request
    max_rows         rows of a request
    max_queue        rows that may wait for their prediction; more are refused with 429
    timeout          seconds that a request may take
    """

    models: dict[str, str]
    host: str = "127.0.0.1"
    max_body: int = 8 << 20
    max_rows: int = 1024
    max_queue: int = 4096
    timeout: float = 30.0

    def __post_init__(self) -> None:
        for name in ("max_body", "max_rows", "max_queue", "timeout"):
            if getattr(self, name) <= 0:
                option = "--" + name.replace("_", "-")
                raise ConfigError(f"{option} is {getattr(self, name)}; give more than 0")

    @property
    def arrival(self) -> float:
        """Seconds that the head of a request may take to arrive, and its body."""
        return max(self.timeout, LEAST_ARRIVAL)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the service."""
        return self.host in LOOPBACK

    def to_text(self) -> str:
        """As JSON, for a worker's environment."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> ServiceSettings:
        """What `to_text` gave."""
        return cls(**json.loads(text))


def named_folders(folders: list[Path]) -> dict[str, str]:
    """Models by the names of their folders.

    >>> list(named_folders([Path("models/topics"), Path("models/tones")]))
    ['topics', 'tones']
    """
    named: dict[str, str] = {}
    for folder in folders:
        name = folder.resolve().name
        if name in named:
            raise ModelFolderError(f"two models are called {name!r}; requests name a model by its folder: rename one")
        named[name] = str(folder)
    return named
