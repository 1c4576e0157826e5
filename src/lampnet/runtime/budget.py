"""The time that a whole fit may take, and what is left of it."""

from __future__ import annotations

import time


class Budget:
    """Counts down from when it is made, or from an earlier time.monotonic(); 0 seconds is no limit.

    >>> Budget(0).left(), 0 < Budget(60).left() <= 60
    (inf, True)
    """

    def __init__(self, seconds: float, began: float | None = None) -> None:
        self.seconds = seconds
        self._began = time.monotonic() if began is None else began

    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def left(self) -> float:
        """Seconds until it is used up, at least 0; infinity without a limit."""
        return max(0.0, self.seconds - self.spent()) if self.seconds else float("inf")

    def share(self, fraction: float) -> float | None:
        """A fraction of what is left; None without a limit."""
        return fraction * self.left() if self.seconds else None
