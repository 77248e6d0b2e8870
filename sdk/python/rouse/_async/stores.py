"""Stores that an account's agents share."""

from __future__ import annotations

import re
from typing import List

from ..errors import invalid_argument
from ..inputs import Grant, PutStore
from ..options import RequestOptions, Unpack
from ..answers import DeletedStore, Store
from ..wire import answer_of, arguments, list_of
from .memory import AsyncMemory
from .queues import AsyncQueues
from .remote import AsyncRemote
from .state import AsyncState
from .transport import AsyncTransport


class AsyncStores:
    """Memory and state that several agents share, each with one keeper that says who wrote what and when.

    A sandbox reaches a store that is open to it at ``http://rouse.internal/stores/<name>/``.

        rouse.stores.create("team", grants=[{"agent": "researcher", "access": "write"}, {"agent": "*", "access": "read"}])
        hits = rouse.stores.memory("team").search("open questions")["data"]
    """

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, name: str, **fields: Unpack[PutStore]) -> Store:
        """Make it; where it is there, it is as this says from now on. Raises ConflictError ``quota_exceeded``."""
        body, request = arguments(PutStore, fields)
        return answer_of(Store, await self._transport.json("PUT", path_of(name), json=body, **request))

    async def update(self, name: str, **changes: Unpack[PutStore]) -> Store:
        """The same as ``create``: what is not given stays."""
        return await self.create(name, **changes)

    async def list(self, **request: Unpack[RequestOptions]) -> List[Store]:
        """By name."""
        return list_of(Store, await self._transport.json("GET", "/v1/stores", **request))

    async def get(self, name: str, **request: Unpack[RequestOptions]) -> Store:
        """Raises NotFoundError ``store_not_found``."""
        return answer_of(Store, await self._transport.json("GET", path_of(name), **request))

    async def grant(self, name: str, **grant: Unpack[Grant]) -> Store:
        """Open it to an agent: a sandbox's name, or ``*`` for all. In the place of the agent's other grant."""
        body, request = arguments(Grant, grant)
        return answer_of(Store, await self._transport.json("POST", f"{path_of(name)}:grant", json=body, **request))

    async def revoke(self, name: str, agent: str, **request: Unpack[RequestOptions]) -> Store:
        """Close it to an agent; each request that begins after the answer is refused."""
        path = f"{path_of(name)}:revoke"
        return answer_of(Store, await self._transport.json("POST", path, json={"agent": agent}, **request))

    async def delete(self, name: str, **request: Unpack[RequestOptions]) -> DeletedStore:
        """Delete it with all that is in it. It can't be undone: export what is worth keeping first."""
        answer = await self._transport.json("DELETE", path_of(name), query={"confirm": name}, **request)
        return answer_of(DeletedStore, answer)

    def memory(self, name: str) -> AsyncMemory:
        """Its memory."""
        return AsyncMemory(self._transport, f"{path_of(name)}/memory")

    def state(self, name: str) -> AsyncState:
        """Its keys and its database."""
        return AsyncState(AsyncRemote(self._transport, path_of(name)))

    def queues(self, name: str) -> AsyncQueues:
        """Its queues: ``stores.queues("team")("jobs")``."""
        return AsyncQueues(AsyncRemote(self._transport, path_of(name)))


def path_of(name: str) -> str:
    if re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name):
        return f"/v1/stores/{name}"
    raise invalid_argument(f"{name!r} is not the name of a store.", "1 to 63 of a-z, 0-9 and -.")
