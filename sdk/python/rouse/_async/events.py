"""What happened to a sandbox: its events, read one after another."""

from __future__ import annotations

from typing import AsyncGenerator, List, Optional

from ..options import RequestOptions, Unpack
from ..answers import Event
from ..wire import list_of
from .remote import AsyncRemote

#: How long a call waits for the next event, seconds.
FOLLOW_SECONDS = 30


class AsyncEvents:
    """Events of a sandbox: the last 1,000, of 30 days, also when it is deleted. None of these wakes it."""

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def list(
        self,
        *,
        after: Optional[int] = None,
        limit: Optional[int] = None,
        wait_seconds: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> List[Event]:
        """Events after a sequence number, the oldest first, 200 at most unless ``limit`` says less.

        A first one that is greater than ``after + 1`` says that those between are not known any more. ``wait_seconds``: how
        long to wait for the next one where there is none yet, at most 60.
        """
        query = {"after": after, "limit": limit, "waitSeconds": wait_seconds}
        return list_of(Event, await self._remote.get("/events", query=query, **request))

    async def follow(self, *, after: int = 0, **request: Unpack[RequestOptions]) -> AsyncGenerator[Event, None]:
        """Events after a sequence number, and each one that comes, until the loop is left."""
        last = after
        while True:
            for event in await self.list(after=last, wait_seconds=FOLLOW_SECONDS, **request):
                last = event["sequence"]
                yield event
