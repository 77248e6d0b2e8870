"""Waiting until a sandbox is what its caller needs."""

from __future__ import annotations

import json
import math
import time
from typing import Any, Awaitable, Callable, Dict, Mapping, Optional

from ..errors import ConflictError, ConnectionError, ServiceUnavailableError
from ..options import RequestOptions
from .driver import sleep
from .poll import AsyncPoll
from .transport import mapping

#: Seconds that a change may take before the server answers with the state so far.
SETTLE_SECONDS = 60
#: Longest single wait on the server, seconds.
LONG_WAIT_SECONDS = 60
#: Seconds a creation may take: the first of a new size also makes its golden image.
START_SECONDS = 300

#: States in which something is at rest, or about to be.
AT_REST = frozenset({"pausing", "paused", "stopping", "stopped"})


async def until_state(
    state: str, timeout_seconds: float, read: Callable[[Dict[str, Any]], Awaitable[Mapping[str, Any]]]
) -> None:
    """See ``Sandbox.wait_for``; ``read`` asks for the sandbox with a query."""
    ends_at = time.monotonic() + timeout_seconds
    while True:
        asked_at = time.monotonic()
        seconds = max(1, min(LONG_WAIT_SECONDS, math.ceil(ends_at - asked_at)))
        info = await read({"waitFor": state, "timeoutSeconds": seconds})
        if info["state"] == state:
            return
        if info["state"] in ("stopped", "deleted"):
            why = info["lastError"] or info["stopReason"]
            raise ConflictError(
                "conflict",
                f"{called(info)} is {info['state']}, not {state}{f': {why}' if why else ''}.",
                status=409,
                details={"state": info["state"], "stopReason": info["stopReason"]},
            )
        if time.monotonic() >= ends_at:
            raise ConnectionError(
                "timeout",
                f"{called(info)} is {info['state']}, and not {state} after {timeout_seconds} s.",
                hint="Pass a larger timeout_seconds.",
                retryable=True,
            )
        # A server that answers at once must not be asked without a pause.
        if time.monotonic() - asked_at < 0.25:
            await sleep(0.25)


def start_failed(sandbox_id: str, cause: ConflictError) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        "start_failed",
        f"The sandbox did not start: {cause.message}",
        status=502,
        hint="Look at the host agent's log.",
        details={"sandboxId": sandbox_id, **cause.details},
    )


async def until_durable(
    timeout_ms: Optional[float], info: Mapping[str, Any], read: Callable[[RequestOptions], Awaitable[Mapping[str, Any]]]
) -> None:
    """See ``Sandbox.wait_until_durable``."""
    now = info

    def late() -> Dict[str, Any]:
        durability = now.get("durability")
        return {
            "message": f"{called(now)} is {mapping(durability).get('state') or now['state']}, and not durable yet.",
            "hint": "Pass a larger timeout_ms; a server that stores nothing off its hosts never gets there.",
            "details": {"sandboxId": now["id"], "durability": durability},
        }

    poll = AsyncPoll(timeout_ms, late)
    while True:
        now = await poll.ask(read)
        if mapping(now.get("durability")).get("state") in ("durable", "cold"):
            return
        if now["state"] not in AT_REST:
            raise ConflictError(
                "conflict",
                f"{called(now)} is {now['state']}; only what it sleeps with can be durable.",
                status=409,
                hint="Pause it first.",
                details={"sandboxId": now["id"], "state": now["state"]},
            )
        await poll.rest()


def called(info: Mapping[str, Any]) -> str:
    return f"Sandbox {info['id']}" if info["name"] is None else f"Sandbox {json.dumps(info['name'])}"
