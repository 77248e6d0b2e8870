"""How long what goes wrong on the way is borne. No I/O."""

from __future__ import annotations

import random
import time

from .errors import RouseError

#: How long failures in a row are borne, seconds.
FAILING_SECONDS = 300.0
#: Longest wait between two tries, seconds, half as long again at most.
WAIT_MOST_SECONDS = 5.0


class Patience:
    """Bears failures in a row: for five minutes, with longer and longer waits between them."""

    def __init__(self, first_seconds: float) -> None:
        """``first_seconds``: the first wait."""
        self._first_seconds = first_seconds
        self._failures = 0
        self._since = 0.0

    def reset(self) -> None:
        """Something went well."""
        self._failures = 0

    def next(self, failure: RouseError) -> float:
        """How long to wait before the next try, seconds. Raises the failure once it has gone on for too long."""
        now = time.monotonic()
        if self._failures == 0:
            self._since = now
        if now - self._since > FAILING_SECONDS:
            raise failure
        wait = min(WAIT_MOST_SECONDS, self._first_seconds * 2 ** min(self._failures, 16))
        self._failures += 1
        return wait * (0.5 + random.random())
