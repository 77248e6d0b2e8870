"""Held sockets: WebSockets that stay open while the sandbox sleeps."""

from __future__ import annotations

from typing import List

from ..options import RequestOptions, Unpack
from ..answers import ClosedSocket, HeldSocket
from ..wire import answer_of, list_of, segment
from .remote import AsyncRemote


class AsyncSockets:
    """Held sockets of a sandbox. Which ones are held, its ``sockets`` say: rules set with ``create`` and ``update``.

    sandbox.update(sockets=[{"path": "/ws"}])
    for socket in sandbox.sockets.list():
        print(socket["id"], socket["state"], socket["buffered"])
    """

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def list(self, **request: Unpack[RequestOptions]) -> List[HeldSocket]:
        """Those that are open, the oldest first. It does not wake the sandbox."""
        return list_of(HeldSocket, await self._remote.get("/sockets", **request))

    async def close(self, id: str, **request: Unpack[RequestOptions]) -> ClosedSocket:
        """Close one, for its client (code 1001) and for the program. Raises NotFoundError ``socket_not_found``."""
        return answer_of(ClosedSocket, await self._remote.delete(f"/sockets/{segment(id)}", **request))
