# Made by test/support/print-python.ts from _async/mcp.py: change that file.
"""MCP servers in a sandbox: started in its machine, asked by any MCP client over HTTP, woken with it."""

from __future__ import annotations

from typing import List, Optional, Sequence

from ..inputs import McpServer
from ..options import RequestOptions, Unpack
from ..answers import McpCatalogEntry, McpGateway
from ..wire import answer_of, given, list_of
from .poll import Poll
from .remote import Remote
from .transport import Transport


class McpServers:
    """The catalog of an installation."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def catalog(self, **request: Unpack[RequestOptions]) -> List[McpCatalogEntry]:
        """Servers that need no installation, with what each takes."""
        return list_of(McpCatalogEntry, self._transport.json("GET", "/v1/mcp/catalog", **request))


class Mcp:
    """MCP servers of a sandbox.

    gateway = sandbox.mcp.start([{"id": "memory"}, {"id": "filesystem"}])
    print(gateway["url"], gateway["headers"])
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def catalog(self, **request: Unpack[RequestOptions]) -> List[McpCatalogEntry]:
        """Servers that need no installation, with what each takes."""
        return McpServers(self._remote.transport).catalog(**request)

    def start(
        self,
        servers: Sequence[McpServer],
        *,
        port: Optional[int] = None,
        replace: Optional[bool] = None,
        **request: Unpack[RequestOptions],
    ) -> McpGateway:
        """Start servers of the catalog, or commands of one's own, and wait a minute at most until they are ready.

        One of the same name takes the place of what was there. ``port`` is that of the gateway; 8765 unless given, or the
        one that it has. ``replace``: these servers alone, and a new token. Wakes the sandbox. Raises NotFoundError
        ``mcp_server_not_found``, ``secret_not_found``, and RouseError ``mcp_failed`` with what a server wrote when it ends
        at its start; it goes on to be started again.
        """
        body = given(servers=[*servers], port=port, replace=replace)
        return answer_of(McpGateway, self._remote.post("/mcp", body, **request))

    def status(self, **request: Unpack[RequestOptions]) -> McpGateway:
        """URLs, token, and how the servers are. It does not wake the sandbox."""
        return answer_of(McpGateway, self._remote.get("/mcp", **request))

    def ready(self, **request: Unpack[RequestOptions]) -> McpGateway:
        """Wait until no server is installing any more. Raises ConnectionError ``timeout`` after 10 minutes unless given."""
        poll = Poll(request.get("timeout_ms"), lambda: {"message": "An MCP server is still being installed."})
        while True:
            gateway = poll.ask(lambda limits: self.status(**limits))
            if not gateway["running"] or all(one["status"] != "installing" for one in gateway["servers"]):
                return gateway
            poll.rest()

    def stop(self, **request: Unpack[RequestOptions]) -> None:
        """End all of them; the token opens nothing any more."""
        self._remote.delete("/mcp", **request)
