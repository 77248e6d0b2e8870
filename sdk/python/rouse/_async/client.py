"""A connection to one Rouse installation."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Type, Union

from ..credentials import parse_base_url
from ..errors import RouseError, invalid_argument
from ..inputs import NamedSandbox, NewSandbox
from ..options import RequestOptions, Unpack
from ..results import StopAllResult, StopFailure
from ..answers import Account, DeletedSandbox, Host, Me, NewHost, Notice, SandboxChanges, Usage
from ..answers import Sandbox as SandboxInfo
from ..wire import addressable, answer_of, arguments, list_of, segment
from .accounts import AsyncAccounts, AsyncKeys, AsyncMembers
from .agents import AsyncAgents
from .driver import in_parallel
from .event_endpoints import AsyncEventEndpoints
from .mcp import AsyncMcpServers
from .page import AsyncPage, page_of
from .remote import sandbox_remote
from .sandbox import AsyncSandbox, SandboxState, started, undelete
from .secrets import AsyncSecrets
from .snapshots import AsyncSnapshots
from .stores import AsyncStores
from .transport import AsyncTransport
from .volumes import AsyncVolumes

PARALLEL_STOPS = 8
#: Most sandboxes of a page.
LIST_MAX = 100


class AsyncRouse:
    """A client of one installation and account.

    ``api_key``: ``ROUSE_API_KEY`` unless given; then that of a saved login (``rouse login``) for the base URL; then, for a
    server on this machine, the key that ``npm start`` made. ``base_url``: origin of the API; ``ROUSE_API_URL`` unless given,
    then that of a login in use, then ``http://localhost:8787``. ``timeout_ms``: time limit of each call with its retries; 0
    for none. ``max_retries``: after the first try; changes are retried under one idempotency key.
    ``wait_for_capacity_ms``: how long a creation waits for room on a host, and what needs a volume that is being let go
    waits for that; 0 for not at all. Raises InvalidRequestError ``invalid_base_url``, or ``invalid_argument``.
    """

    def __init__(
        self,
        *,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        timeout_ms: float = 300_000,
        max_retries: int = 4,
        wait_for_capacity_ms: float = 120_000,
    ) -> None:
        given = {
            "timeout_ms": timeout_ms,
            "max_retries": max_retries,
            "wait_for_capacity_ms": wait_for_capacity_ms,
        }
        for name, value in given.items():
            if not math.isfinite(value) or value < 0:
                raise invalid_argument(f"{name} is {value}; it must be 0 or more.")
        if base_url is not None:
            parse_base_url(base_url)
        transport = AsyncTransport(api_key, base_url, timeout_ms, max_retries, wait_for_capacity_ms)
        self._transport = transport
        #: The account's sandboxes.
        self.sandboxes = AsyncSandboxes(transport)
        #: The account's snapshots.
        self.snapshots = AsyncSnapshots(transport)
        #: The account's volumes and their backups.
        self.volumes = AsyncVolumes(transport)
        #: The account's secrets.
        self.secrets = AsyncSecrets(transport, "/v1/secrets")
        #: The account's agents.
        self.agents = AsyncAgents(self.sandboxes, transport)
        #: Where the account's events are sent to.
        self.event_endpoints = AsyncEventEndpoints(transport)
        #: What the account's agents share.
        self.stores = AsyncStores(transport)
        #: MCP servers that sandboxes can start.
        self.mcp = AsyncMcpServers(transport)
        #: The account's API keys.
        self.keys = AsyncKeys(transport)
        #: The account's people.
        self.members = AsyncMembers(transport)
        #: The installation's accounts, for its operator.
        self.accounts = AsyncAccounts(transport)

    @property
    def sandbox(self) -> AsyncSandboxes:
        """The same as ``sandboxes``."""
        return self.sandboxes

    @property
    def snapshot(self) -> AsyncSnapshots:
        """The same as ``snapshots``."""
        return self.snapshots

    @property
    def volume(self) -> AsyncVolumes:
        """The same as ``volumes``."""
        return self.volumes

    async def hosts(self, **request: Unpack[RequestOptions]) -> List[Host]:
        """The machines that carry sandboxes, with accelerator and images."""
        return list_of(Host, await self._transport.json("GET", "/v1/hosts", **request))

    async def add_host(self, host_id: str, **request: Unpack[RequestOptions]) -> NewHost:
        """Make a host's secrets: what the file of ``ROUSE_SECRETS_FILE`` holds there, shown once. Operator only.

        For a host that has some they are made anew, and its key before is over. Raises PermissionDeniedError.
        """
        answer = await self._transport.json("POST", "/v1/hosts", json={"hostId": host_id}, **request)
        return answer_of(NewHost, answer)

    async def drain_host(self, host_id: str, *, draining: bool = True, **request: Unpack[RequestOptions]) -> Host:
        """Let a host take no new machines, or with ``draining=False`` take them again. What it has goes on."""
        path = f"/v1/hosts/{segment(host_id)}:drain"
        return answer_of(Host, await self._transport.json("POST", path, json={"draining": draining}, **request))

    async def remove_host(self, host_id: str, **request: Unpack[RequestOptions]) -> None:
        """Forget a host that does not report any more. Raises ConflictError when it still does."""
        await self._transport.json("DELETE", f"/v1/hosts/{segment(host_id)}", **request)

    async def usage(
        self, month: Optional[str] = None, *, by: Optional[str] = None, **request: Unpack[RequestOptions]
    ) -> Usage:
        """What each sandbox used in a month, what it comes to, and the account's credit. Money in microdollars.

        ``month``: ``2026-11`` (UTC), or ``all``; the one under way unless given. ``by``: totals (``groups``) by ``sandbox``,
        ``month``, or the value of a label (``label:team``). Raises InvalidRequestError for what is none of these.
        """
        query = {"month": month, "by": by}
        return answer_of(Usage, await self._transport.json("GET", "/v1/usage", query=query, **request))

    async def account(self, **request: Unpack[RequestOptions]) -> Account:
        """The account: plan, quotas and what counts towards them, limits, credit. Money in microdollars."""
        return answer_of(Account, await self._transport.json("GET", "/v1/account", **request))

    async def notices(self, **request: Unpack[RequestOptions]) -> List[Notice]:
        """What is about to happen: deletions, keys and credit that end; soonest first."""
        return list_of(Notice, await self._transport.json("GET", "/v1/notices", **request))

    async def me(self, **request: Unpack[RequestOptions]) -> Me:
        """Whom the key belongs to. Raises AuthenticationError."""
        return answer_of(Me, await self._transport.json("GET", "/v1/me", **request))

    async def aclose(self) -> None:
        """End connections that rest. The client can be used again."""
        await self._transport.pool.aclose()

    async def __aenter__(self) -> AsyncRouse:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.aclose()


class AsyncSandboxes:
    """The sandboxes of an account; ``Sandbox`` has the same as class methods."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, *, wait: bool = True, **fields: Unpack[NewSandbox]) -> AsyncSandbox:
        """See ``Sandbox.create``."""
        body, request = arguments(NewSandbox, fields)
        return await self._create(body, wait, request)

    async def get_or_create(self, name: str, *, wait: bool = True, **fields: Unpack[NamedSandbox]) -> AsyncSandbox:
        """See ``Sandbox.get_or_create``."""
        body, request = arguments(NamedSandbox, fields)
        return await self._create({**body, "name": name, "getOrCreate": True}, wait, request)

    async def get(self, id_or_name: str, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """A sandbox by id or name, without waking it. Raises NotFoundError ``not_found``."""
        answer = await sandbox_remote(self._transport, addressable(id_or_name)).get("", **request)
        return AsyncSandbox(self._transport, answer_of(SandboxInfo, answer))

    async def list(
        self,
        *,
        state: Union[SandboxState, List[SandboxState], None] = None,
        labels: Optional[Mapping[str, str]] = None,
        name: Optional[str] = None,
        include_stopped: bool = False,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> AsyncPage[AsyncSandbox]:
        """The sandboxes that match, oldest first, page by page; all conditions must hold.

        ``state``: one, or any of several. ``include_stopped``: also those that stopped and can't run again. ``limit``: per
        page, 1 to 100.
        """
        query: Dict[str, Any] = {
            "state": [state] if isinstance(state, str) else state,
            "label": [f"{key}:{value}" for key, value in (labels or {}).items()],
            "name": name,
            "includeStopped": True if include_stopped else None,
            "limit": limit,
        }

        def made(one: object) -> AsyncSandbox:
            return AsyncSandbox(self._transport, answer_of(SandboxInfo, one))

        return await page_of(self._transport, "/v1/sandboxes", query, request, made)

    async def changes(
        self, *, after: Optional[int] = None, wait_seconds: Optional[int] = None, **request: Unpack[RequestOptions]
    ) -> SandboxChanges:
        """Sandboxes that changed after a change, each as it is now; none of it wakes one.

        Without ``after`` the answer says where to begin. Changes of use and of cost alone are none. ``wait_seconds``: how
        long to wait for the next one where there is none yet, at most 60.
        """
        query = {"after": after, "waitSeconds": wait_seconds}
        answer = await self._transport.json("GET", "/v1/sandboxes:changes", query=query, **request)
        return answer_of(SandboxChanges, answer)

    async def delete(
        self, id_or_name: str, *, grace_seconds: Optional[int] = None, **request: Unpack[RequestOptions]
    ) -> DeletedSandbox:
        """Delete by id or name, from any state. Works again on a deleted id. See ``Sandbox.delete``."""
        remote = sandbox_remote(self._transport, addressable(id_or_name))
        answer = await remote.delete("", query={"graceSeconds": grace_seconds}, **request)
        return answer_of(DeletedSandbox, answer)

    async def undelete(self, id: str, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Take back a deletion by id, within its grace time. See ``Sandbox.undelete``."""
        answer = await undelete(sandbox_remote(self._transport, addressable(id)), request)
        return AsyncSandbox(self._transport, answer_of(SandboxInfo, answer))

    async def stop_all(self, *, labels: Mapping[str, str], **request: Unpack[RequestOptions]) -> StopAllResult:
        """Stop all sandboxes that have the labels, at least one label; eight at once."""
        if not labels:
            raise invalid_argument("stop_all needs at least one label.")
        result = StopAllResult()
        each: RequestOptions = {"timeout_ms": request.get("timeout_ms")}
        found: List[AsyncSandbox] = await (await self.list(labels=labels, limit=LIST_MAX, **each)).to_list()

        async def stop(sandbox: AsyncSandbox) -> None:
            try:
                await sandbox.stop(**each)
                result.stopped.append(sandbox.id)
            except RouseError as error:
                result.failed.append(StopFailure(sandbox.id, error))

        running = [one for one in found if one.state not in ("stopped", "deleted")]
        await in_parallel(running, PARALLEL_STOPS, stop)
        return result

    async def _create(self, body: Mapping[str, Any], wait: bool, request: RequestOptions) -> AsyncSandbox:
        answer = await self._transport.json(
            "POST",
            "/v1/sandboxes",
            json=body,
            wait_for_capacity=True,
            wait_seconds=60 if wait else None,
            **request,
        )
        sandbox = AsyncSandbox(self._transport, answer_of(SandboxInfo, answer))
        return await started(sandbox) if wait else sandbox
