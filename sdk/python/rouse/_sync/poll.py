# Made by test/support/print-python.ts from _async/poll.py: change that file.
"""Asking again and again within one time limit."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Optional, TypeVar

from ..errors import ConnectionError, RouseError
from ..options import RequestOptions
from .driver import sleep

T = TypeVar("T")
#: Seconds between two questions.
INTERVAL = 0.5
#: Longest wait unless the caller says otherwise, milliseconds.
TIMEOUT_MS = 600_000


class Poll:
    """``timeout_ms`` for all questions together: 10 minutes unless given, 0 for no limit.

    ``late`` says what the error is made of when the time is over: ``message``, ``hint``, ``details``.
    """

    def __init__(self, timeout_ms: Optional[float], late: Callable[[], Mapping[str, Any]]) -> None:
        ms = TIMEOUT_MS if timeout_ms is None else timeout_ms
        self._ends_at = None if ms == 0 else time.monotonic() + ms / 1000
        self._late = late

    def ask(self, call: Callable[[RequestOptions], T]) -> T:
        """Do a call within the time that is left. Raises ConnectionError ``timeout`` when it is over."""
        left = self._left()
        if left is not None and left <= 0:
            raise self._error()
        try:
            return call({"timeout_ms": 0 if left is None else left * 1000})
        except RouseError as error:
            if error.code == "timeout":
                raise self._error() from error
            raise

    def rest(self, seconds: float = INTERVAL) -> None:
        """Wait before the next question."""
        left = self._left()
        sleep(seconds if left is None else max(0.0, min(seconds, left)))

    def _left(self) -> Optional[float]:
        return None if self._ends_at is None else self._ends_at - time.monotonic()

    def _error(self) -> ConnectionError:
        late = self._late()
        return ConnectionError(
            "timeout", late["message"], hint=late.get("hint"), details=late.get("details"), retryable=True
        )
