"""One sandbox, or a store, as the target of calls."""

from __future__ import annotations

from ..options import CallOptions, Unpack
from ..wire import segment
from .transport import AsyncTransport


class AsyncRemote:
    def __init__(self, transport: AsyncTransport, base: str) -> None:
        self.transport = transport
        self._base = base

    def path(self, suffix: str = "") -> str:
        """Path of something below: a verb (``:exec``) or a sub-path (``/processes``)."""
        return f"{self._base}{suffix}"

    async def get(self, suffix: str, **call: Unpack[CallOptions]) -> object:
        return await self.transport.json("GET", self.path(suffix), **call)

    async def post(self, suffix: str, json: object, **call: Unpack[CallOptions]) -> object:
        return await self.transport.json("POST", self.path(suffix), json=json, **call)

    async def put(self, suffix: str, json: object, **call: Unpack[CallOptions]) -> object:
        return await self.transport.json("PUT", self.path(suffix), json=json, **call)

    async def delete(self, suffix: str, **call: Unpack[CallOptions]) -> object:
        return await self.transport.json("DELETE", self.path(suffix), **call)


def sandbox_remote(transport: AsyncTransport, id_or_name: str) -> AsyncRemote:
    return AsyncRemote(transport, f"/v1/sandboxes/{segment(id_or_name)}")
