"""What happens to files of a sandbox, told as it happens."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, AsyncGenerator, Dict, List, Literal, Optional, Sequence, TypedDict, Union

from ..answers import FileEvent
from ..answers import FileWatch as FileWatchInfo
from ..errors import RouseError, connection_error
from ..options import RequestOptions, Unpack
from ..patience import Patience
from ..wire import answer_of, list_of, segment
from .driver import sleep
from .output import is_transient
from .remote import AsyncRemote

#: Time limit of one connection, milliseconds; the server ends its slices well before.
SLICE_MS = 150_000
#: How often a sandbox that sleeps is looked at, seconds: at first, and later. Looking does not wake it.
LOOK_SECONDS = 2.0
LOOK_MOST_SECONDS = 30.0

WatchEventName = Literal["create", "write", "remove", "rename", "chmod", "access"]


class WatchOverflow(TypedDict):
    """Events that nobody has, as there were too many; ``dropped`` is None where their number is not known."""

    type: Literal["overflow"]
    dropped: Optional[int]
    reason: Literal["kernel", "rate"]


class WatchLost(TypedDict):
    """What was read too late: the newest MiB is kept."""

    type: Literal["lost"]
    bytes: int


class WatchLimit(TypedDict):
    """No more than so many folders are watched."""

    type: Literal["limit"]
    watches: int


WatchEvent = Union[FileEvent, WatchOverflow, WatchLost, WatchLimit]


class AsyncFileWatch:
    """A watch of a file or folder. It goes on when this program ends, and over pause and wake.

        watch = sandbox.files.watch("src", recursive=True, exclude=["node_modules"])
        for event in watch.events():
            print(event["type"], event)
    """

    def __init__(self, remote: AsyncRemote, info: FileWatchInfo) -> None:
        self._remote = remote
        self.info = info
        #: Where reading goes on; one of another program's may be set.
        self.cursor: int = info["cursor"]
        #: Why it ended, once reading has come to that; None before.
        self.end_reason: Optional[Literal["stopped", "timeout", "root-removed"]] = None

    @property
    def id(self) -> str:
        return self.info["id"]

    async def events(self) -> AsyncGenerator[WatchEvent, None]:
        """What happens, until the watch ends; over connections that break, and over sleep, without loss or repetition.

        Reading neither wakes the sandbox nor keeps it awake.
        """
        patience = Patience(0.1)
        looks = 0
        while True:
            outcome = "cut"
            failure: RouseError = connection_error("The events of the watch were cut")
            try:
                async with aclosing(self._lines()) as lines:
                    async for line in lines:
                        kind = line["k"]
                        patience.reset()
                        if kind == "end":
                            self.end_reason = line["reason"]
                            return
                        if kind == "failure":
                            raise RouseError(line["code"], line["message"])
                        if kind in ("continue", "paused"):
                            outcome = kind
                            continue
                        looks = 0
                        told = events_of(line)
                        for event in told[:-1]:
                            yield event
                        # With the last of a line: one that its reader leaves half read is told again to whoever reads on.
                        self.cursor = line["cursor"]
                        for event in told[-1:]:
                            yield event
            except RouseError as error:
                if not is_transient(error):
                    raise
                failure = error
            if outcome == "continue":
                continue
            if outcome == "paused":
                await sleep(min(LOOK_MOST_SECONDS, LOOK_SECONDS * 1.5 ** min(looks, 9)))
                looks += 1
            else:
                await sleep(patience.next(failure))

    async def stop(self, **request: Unpack[RequestOptions]) -> None:
        """End it."""
        await self._remote.delete(f"/files/watches/{segment(self.id)}", **request)

    async def _lines(self) -> AsyncGenerator[Dict[str, Any], None]:
        path = self._remote.path(f"/files/watches/{segment(self.id)}/events")
        query = {"cursor": self.cursor, "follow": True}
        events = self._remote.transport.events("GET", path, query=query, timeout_ms=SLICE_MS, max_retries=0)
        async with aclosing(events):
            async for line in events:
                # A newer server may say more than this client knows.
                if isinstance(line, dict) and line.get("k") in LINES:
                    yield line


LINES = frozenset({"events", "overflow", "limit", "lost", "continue", "paused", "end", "failure"})


def events_of(line: Dict[str, Any]) -> Sequence[WatchEvent]:
    """What a line of a watch tells its reader."""
    if line["k"] == "events":
        return line["events"]
    if line["k"] == "overflow":
        return [{"type": "overflow", "dropped": line["dropped"], "reason": line["reason"]}]
    if line["k"] == "lost":
        return [{"type": "lost", "bytes": line["bytes"]}]
    return [{"type": "limit", "watches": line["watches"]}]


async def watch_files(remote: AsyncRemote, body: Dict[str, Any], request: RequestOptions) -> AsyncFileWatch:
    return AsyncFileWatch(remote, answer_of(FileWatchInfo, await remote.post("/files/watches", body, **request)))


async def list_watches(remote: AsyncRemote, request: RequestOptions) -> List[AsyncFileWatch]:
    answer = await remote.get("/files/watches", **request)
    return [AsyncFileWatch(remote, info) for info in list_of(FileWatchInfo, answer)]
