"""How much time the search has left."""

import time


class Budget:
    """A number of seconds from now on, or no limit.

    ``reserve`` seconds at the end are kept for what comes after the search: fitting the best setting on all rows.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.reserve = 0.0
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def spent(self) -> bool:
        """Whether nothing more should be started."""
        return self.seconds is not None and self.elapsed + self.reserve >= self.seconds
