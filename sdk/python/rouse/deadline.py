"""The time a call has."""

from __future__ import annotations

import time
from typing import Optional

from .errors import ConnectionError


class Deadline:
    """``timeout_ms`` 0: no limit."""

    def __init__(self, timeout_ms: float) -> None:
        self._timeout_ms = timeout_ms
        self._ends_at = None if timeout_ms == 0 else time.monotonic() + timeout_ms / 1000

    def left(self, at_most: Optional[float] = None) -> Optional[float]:
        """Seconds left, None without limit. Raises ConnectionError ``timeout`` when it is over."""
        if self._ends_at is None:
            return at_most
        seconds = self._ends_at - time.monotonic()
        if seconds <= 0:
            raise self.over()
        return seconds if at_most is None else min(seconds, at_most)

    def is_over(self) -> bool:
        return self._ends_at is not None and time.monotonic() >= self._ends_at

    def has(self, ms: float) -> bool:
        """Whether there is more time than that."""
        return self._ends_at is None or self._ends_at - time.monotonic() > ms / 1000

    def extend(self, ms: float) -> None:
        """Give the call more time."""
        self._timeout_ms += ms
        if self._ends_at is not None:
            self._ends_at += ms / 1000

    def over(self) -> ConnectionError:
        return ConnectionError(
            "timeout",
            f"The call took longer than {round(self._timeout_ms)} ms.",
            hint="Pass a larger timeout_ms, or 0 for no limit.",
            retryable=True,
        )
