"""When a failed request is sent again, and after how long. No I/O: the transport asks, this answers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Callable, Literal, Optional, Tuple

from .errors import RouseError

#: Answers that stand whatever the status: sending the same again gives the same.
FINAL_CODES = frozenset(
    {
        "unavailable",
        "guest_failed",
        "port_not_listening",
        "start_failed",
        "wake_failed",
        "pause_failed",
        "snapshot_failed",
        "volume_failed",
        "state_damaged",
        "interpreter_failed",
        "mcp_failed",
    }
)
#: Answers that promise that nothing ran, so that resending is safe for as long as the caller is willing to wait.
NOTHING_RAN_CODES = frozenset({"guest_busy", "busy", "rate_limited", "sandbox_waking"})
#: Refusals that end by themselves: a machine ends, or a volume is let go.
ROOM_CODES = frozenset({"no_capacity", "volume_releasing"})
RETRIED_STATUSES = frozenset({429, 502, 503, 504})

#: Longest time of resending when nothing ran and the call has no time limit of its own, milliseconds.
NOTHING_RAN_MS = 300_000
#: Longest wait before one retry, milliseconds.
WAIT_MAX_MS = 30_000
CAPACITY_WAITS_MS = (500, 1000, 2000, 4000, 8000)

Counter = Literal["retries", "resends", "capacity_waits"]


def is_retryable(code: str, status: int) -> bool:
    """Whether sending the same request again may help."""
    return status in RETRIED_STATUSES and code not in FINAL_CODES


def may_come_free(code: str) -> bool:
    """Whether it is worth waiting for others."""
    return code in ROOM_CODES


@dataclass
class RetryState:
    """What has happened so far in one call."""

    #: Retries done for failures that may have had an effect.
    retries: int = 0
    #: Resends done after answers that promise that nothing ran.
    resends: int = 0
    #: Resends done because there was no room, or a volume was not free yet.
    capacity_waits: int = 0
    #: Milliseconds since the call began.
    elapsed_ms: float = 0


@dataclass(frozen=True)
class RetryPolicy:
    #: Retries after the first try.
    max_retries: int
    #: Milliseconds that the call waits for room or for a volume; 0 for calls that don't.
    wait_for_capacity_ms: float = 0
    #: A random number from 0 to 1.
    random: Callable[[], float] = field(default=random.random)


def decide_retry(error: RouseError, state: RetryState, policy: RetryPolicy) -> Optional[Tuple[Counter, float]]:
    """What to count the retry as, and the milliseconds before it; None to give up. Without an answer status is 0."""

    def jitter(ms: float) -> float:
        return min(WAIT_MAX_MS, ms) * (0.9 + 0.2 * policy.random())

    said = error.retry_after_ms
    if may_come_free(error.code) and policy.wait_for_capacity_ms > state.elapsed_ms:
        step = CAPACITY_WAITS_MS[min(state.capacity_waits, len(CAPACITY_WAITS_MS) - 1)]
        left = policy.wait_for_capacity_ms - state.elapsed_ms
        return "capacity_waits", min(left, jitter(step if said is None else said))
    if error.status in (429, 503) and error.code in NOTHING_RAN_CODES:
        if policy.max_retries == 0 or state.elapsed_ms >= NOTHING_RAN_MS:
            return None
        return "resends", jitter((250 if said is None else said) * 2 ** min(state.resends, 3))
    if state.retries >= policy.max_retries:
        return None
    backoff = min(8000, 250 * 2**state.retries) * (0.5 + policy.random())
    if error.code == "connection_error":
        return "retries", backoff
    if not is_retryable(error.code, error.status):
        return None
    return "retries", backoff if said is None else jitter(said)
