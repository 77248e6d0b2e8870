# Made by test/support/print-python.ts from _async/output.py: change that file.
"""Following output over as many connections as it takes."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Dict, Generator, Mapping, Optional, cast

from ..cursor import Event, OutputCursor
from ..errors import ConnectionError, RouseError, class_of_status, connection_error
from ..patience import Patience
from ..retry import is_retryable
from ..answers import OutputPage
from ..wire import answer_of, segment
from .driver import CANCELLED, sleep
from .remote import Remote

#: Time limit of one connection, milliseconds; the server ends its slices well before.
SLICE_MS = 180_000
#: Connections in a row that may end without anything new.
QUIET_CLOSES = 4
#: Bytes of one page of output.
PAGE_BYTES = 196_608
#: Tries of a stream whose start never arrived.
START_TRIES = 5

EVENT_TYPES = frozenset({"start", "stdout", "stderr", "truncated", "continue", "exit", "error"})


def follow_output(remote: Remote, process_id: str, cursor: OutputCursor) -> Generator[Event, None, None]:
    """Follow a process's output from a cursor to its exit."""
    quiet_closes = 0
    patience = Patience(0.05)
    path = remote.path(f"/processes/{segment(process_id)}/output")
    while True:
        before = cursor.position
        is_continued = False
        failure: Optional[RouseError] = None
        try:
            events = remote.transport.events(
                "GET", path, query={"cursor": cursor.position, "follow": True}, timeout_ms=SLICE_MS, max_retries=0
            )
            cursor.join()
            with closing(admitted(events, cursor)) as admitted_events:
                for event in admitted_events:
                    if event["type"] == "continue":
                        is_continued = True
                        break
                    if event["type"] == "start":
                        continue
                    yield event
                    if event["type"] == "exit":
                        return
        except RouseError as error:
            if not is_transient(error):
                raise
            failure = error
        if is_continued or cursor.position > before:
            quiet_closes = 0
            patience.reset()
            if failure is None:
                continue
        if failure is None:
            quiet_closes += 1
            if quiet_closes >= QUIET_CLOSES:
                raise connection_error("The output ended without an exit")
            continue
        sleep(patience.next(failure))


def kept_output(remote: Remote, process_id: str, cursor: OutputCursor) -> Generator[Event, None, None]:
    """What has been written from a cursor on, without waiting for more."""
    while True:
        begin = cursor.position
        query = {"cursor": begin, "maxBytes": PAGE_BYTES}
        page = answer_of(OutputPage, remote.get(f"/processes/{segment(process_id)}/output", query=query))
        for chunk in cast("list[Dict[str, Any]]", page["chunks"]):
            rest = {name: value for name, value in chunk.items() if name not in ("stream", "text")}
            for event in cursor.accept({"type": chunk["stream"], "data": chunk["text"], **rest}):
                yield event
        if not page["chunks"] or page["nextCursor"] <= begin:
            return
        cursor.position = page["nextCursor"]


def exec_output(
    remote: Remote, body: Mapping[str, Any], idempotency_key: str, timeout_ms: float
) -> Generator[Event, None, None]:
    """Run a command and follow its output to its exit; a cut is bridged by the output that the sandbox keeps."""
    cursor = OutputCursor()
    process_id: Optional[str] = None
    tries = 0
    try:
        while process_id is None:
            tries += 1
            events = remote.transport.events(
                "POST",
                remote.path(":exec"),
                json={**body, "stream": True},
                idempotency_key=idempotency_key,
                timeout_ms=timeout_ms,
            )
            try:
                with closing(admitted(events, cursor)) as admitted_events:
                    for event in admitted_events:
                        if event["type"] == "continue":
                            break
                        if event["type"] == "start":
                            process_id = cast(str, event["processId"])
                        yield event
                        if event["type"] == "exit":
                            return
                if process_id is None:
                    raise connection_error("The stream ended before the command started")
            except RouseError as error:
                if not is_transient(error):
                    raise
                # Without a start there is nothing to follow; the key makes sure that a second try is no second run.
                if process_id is None:
                    if tries >= START_TRIES or error.code not in ("connection_error", "timeout"):
                        raise
                    sleep(0.25 * 2**tries)
        with closing(follow_output(remote, process_id, cursor)) as rest:
            for event in rest:
                yield event
    except CANCELLED:
        if process_id is not None:
            try:
                signal_process(remote, process_id, "SIGTERM", timeout_ms=5000)
            except RouseError:
                pass
        raise


def signal_process(
    remote: Remote,
    process_id: str,
    signal: str,
    *,
    idempotency_key: Optional[str] = None,
    timeout_ms: Optional[float] = None,
) -> None:
    """Send a signal to a process."""
    path = f"/processes/{segment(process_id)}:signal"
    remote.post(path, {"signal": signal}, idempotency_key=idempotency_key, timeout_ms=timeout_ms)


def admitted(events: Generator[Any, None, None], cursor: OutputCursor) -> Generator[Event, None, None]:
    """Events as the cursor admits them; an ``error`` event is raised as if it were the answer's status."""
    with closing(events):
        for raw in events:
            # A newer server may say more than this client knows.
            if not isinstance(raw, dict):
                continue
            event = cast(Event, raw)
            kind = event.get("type")
            if kind not in EVENT_TYPES:
                continue
            if kind in ("stdout", "stderr"):
                for accepted in cursor.accept(event):
                    yield accepted
                continue
            if kind == "error":
                raise error_of_event(event["error"])
            if kind == "truncated":
                cursor.skip_to(event["resumeAt"])
            elif kind == "continue":
                cursor.rewind_to(event["cursor"])
            yield event


def error_of_event(error: Mapping[str, Any]) -> RouseError:
    status = error.get("status") or 500
    return class_of_status(status)(
        error["code"],
        error["message"],
        status=status,
        hint=error.get("hint"),
        details=error.get("details"),
        request_id=error.get("requestId"),
        retry_after_ms=error.get("retryAfterMs"),
        retryable=is_retryable(error["code"], status),
    )


def is_transient(error: RouseError) -> bool:
    return isinstance(error, ConnectionError) or is_retryable(error.code, error.status)
