# long file: one sandbox, with each of its methods, which are short
"""One sandbox."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, AsyncGenerator, Callable, Dict, List, Literal, Mapping, Optional, Type, Union, cast
from typing import Any, overload

from ..credentials import parse_base_url
from ..errors import ConflictError, RouseError, invalid_argument, unexpected_answer
from ..inputs import CreateSnapshot, NamedSandbox, NewForks, NewSandbox, UpdateSandbox
from ..named_url import DEFAULT_PORT, url_of_port
from ..options import CallOptions, RequestOptions, Unpack
from ..results import Command, CommandEvent, ExecResult
from ..answers import Attachment, DeletedSandbox, Diff, HistoryPoint, Resume, Snapshot, Why
from ..answers import Sandbox as SandboxInfo
from ..answers import SandboxVolumesItem
from ..wire import Data, addressable, answer_of, arguments, list_of
from .checkpoints import AsyncCheckpoints
from .commands import run_command, spawn_process, stream_command
from .domains import AsyncDomains
from .drills import AsyncDrills
from .events import AsyncEvents
from .fetch import AsyncFetchResponse, named_fetch
from .files import AsyncFiles
from .forward import AsyncForward, forward_port
from .hooks import AsyncHooks
from .interpreter import AsyncInterpreter
from .links import AsyncLinks
from .mcp import AsyncMcp
from .memory import AsyncMemory
from .network import AsyncSandboxNetwork
from .objects import AsyncObjects
from .page import AsyncPage
from .previews import AsyncPreviews
from .process import AsyncProcess, AsyncProcesses
from .queues import AsyncQueues
from .remote import AsyncRemote, sandbox_remote
from .schedules import AsyncSchedules
from .secrets import AsyncSandboxSecrets
from .services import AsyncServices
from .sessions import AsyncSessions
from .snapshots import capture
from .sockets import AsyncSockets
from .state import AsyncState
from .terminals import AsyncTerminals
from .transport import AsyncTransport
from .volumes import AsyncVolumes, VolumeLike, attachment_with
from .waits import SETTLE_SECONDS, START_SECONDS, start_failed, until_durable, until_state

if TYPE_CHECKING:
    from .client import AsyncRouse

SandboxState = Literal["starting", "running", "pausing", "paused", "resuming", "stopping", "stopped", "deleted"]


class AsyncSandbox:
    """A Linux machine with a name, which sleeps with its RAM and wakes on the first request.

    At the end of a ``with`` it is stopped; its disk is kept.
    """

    def __init__(
        self, transport: AsyncTransport, info: Optional[SandboxInfo], id: str = "", url: Optional[str] = None
    ) -> None:
        self._id = id if info is None else info["id"]
        remote = sandbox_remote(transport, self._id)
        self._transport = transport
        self._remote = remote
        self._info = info
        #: The named URL of the default port, where it is known before the rest.
        self._url = url
        #: Files of the sandbox.
        self.files = AsyncFiles(remote)
        #: Background processes.
        self.processes = AsyncProcesses(remote)
        #: Terminals.
        self.terminal = AsyncTerminals(remote)
        #: The code interpreter.
        self.interpreter = AsyncInterpreter(remote)
        #: Ports that are open to people without a key, each with one kind of token.
        self.previews = AsyncPreviews(remote)
        #: Share links, each revoked by itself.
        self.links = AsyncLinks(remote)
        #: Session tokens, for web pages and other programs without a key.
        self.sessions = AsyncSessions(remote)
        #: What happened to it.
        self.events = AsyncEvents(remote)
        #: Webhooks for a program in it, taken while it sleeps.
        self.hooks = AsyncHooks(remote)
        #: What runs in it at its times, for which it is woken.
        self.schedules = AsyncSchedules(remote)
        #: What comes back after a kill.
        self.drills = AsyncDrills(remote)
        #: What its programs saved, while it sleeps too.
        self.checkpoints = AsyncCheckpoints(remote)
        #: Programs that it starts with, and that are kept running.
        self.services = AsyncServices(remote)
        #: What its agent remembers, while it sleeps too.
        self.memory = AsyncMemory(transport, remote.path("/memory"))
        #: MCP servers in it, for agents anywhere.
        self.mcp = AsyncMcp(remote)
        #: Host names of one's own.
        self.domains = AsyncDomains(remote)
        #: What it may reach outside.
        self.network = AsyncSandboxNetwork(remote)
        #: Secrets of its own, and those of the account that it has.
        self.secrets = AsyncSandboxSecrets(remote)
        #: Keys with values, and a database, outside of its machine.
        self.data = AsyncState(remote)
        #: Queues of tasks outside of its machine: ``queues("name")``.
        self.queues = AsyncQueues(remote)
        #: Bytes under keys, outside of its machine.
        self.objects = AsyncObjects(remote)
        #: WebSockets that are held while it sleeps.
        self.sockets = AsyncSockets(remote)

    @classmethod
    async def create(
        cls, *, client: Optional[AsyncRouse] = None, wait: bool = True, **fields: Unpack[NewSandbox]
    ) -> AsyncSandbox:
        """Make a sandbox and wait until it runs; ``wait=False`` answers at once, while it starts.

        Raises ConflictError ``name_taken``, ``volume_attached``, or ``no_capacity`` and ``volume_releasing`` when no room or
        volume came free within two minutes; InvalidRequestError ``invalid_request`` with every fault in
        ``details["issues"]``; ServiceUnavailableError ``start_failed``.
        """
        return await _client(client).sandboxes.create(wait=wait, **fields)

    @classmethod
    async def get_or_create(
        cls, name: str, *, client: Optional[AsyncRouse] = None, wait: bool = True, **fields: Unpack[NamedSandbox]
    ) -> AsyncSandbox:
        """The sandbox that holds a name, woken or restarted (``info["reused"]`` is then True), or a new one.

        The other fields count only for a new one.
        """
        return await _client(client).sandboxes.get_or_create(name, wait=wait, **fields)

    @classmethod
    async def connect(
        cls, id_or_name: str, *, client: Optional[AsyncRouse] = None, **request: Unpack[RequestOptions]
    ) -> AsyncSandbox:
        """A sandbox that exists, by id or name, without waking it. Raises NotFoundError ``not_found``."""
        return await _client(client).sandboxes.get(id_or_name, **request)

    @classmethod
    async def list(
        cls,
        *,
        client: Optional[AsyncRouse] = None,
        state: Union[SandboxState, List[SandboxState], None] = None,
        labels: Optional[Mapping[str, str]] = None,
        name: Optional[str] = None,
        include_stopped: bool = False,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> AsyncPage[AsyncSandbox]:
        """The sandboxes that match, oldest first; see ``Sandboxes.list``."""
        return await _client(client).sandboxes.list(
            state=state, labels=labels, name=name, include_stopped=include_stopped, limit=limit, **request
        )

    @classmethod
    def from_session(
        cls,
        token: Union[str, Callable[[], str]],
        sandbox_id: str,
        *,
        api_url: Optional[str] = None,
        url: Optional[str] = None,
    ) -> AsyncSandbox:
        """The sandbox that a session token is for, in a program that has no key; see ``Sessions.create``.

        Makes no call: ``info`` is there after a ``refresh``. ``token`` may be a function that gives tokens: it is called
        before the first call, and again once the one that it gave is over. ``api_url``: as for ``Rouse`` unless given.
        ``url``: the sandbox's named URL; read when it is needed unless given. What the token's scopes don't allow raises
        PermissionDeniedError ``permission_denied``.

            sandbox = Sandbox.from_session(session["token"], session["sandboxId"], api_url=session["apiUrl"])
            print(sandbox.exec("date").stdout)
        """
        if api_url is not None:
            parse_base_url(api_url)
        transport = AsyncTransport(token, api_url, 300_000, 4, 120_000)
        return cls(transport, None, addressable(sandbox_id), url)

    @property
    def id(self) -> str:
        return self._id

    @property
    def name(self) -> Optional[str]:
        """None for a sandbox without a name."""
        return self.info["name"]

    @property
    def info(self) -> SandboxInfo:
        """Everything the last answer said; see ``refresh``."""
        if self._info is None:
            raise invalid_argument("Nothing was read of this sandbox yet.", "Call refresh() on it first.")
        return self._info

    @property
    def state(self) -> SandboxState:
        """As of the last answer."""
        return self.info["state"]

    @property
    def volumes(self) -> List[SandboxVolumesItem]:
        """Its volumes, as of the last answer."""
        return self.info.get("volumes") or []

    def _known_url(self) -> Optional[str]:
        return self._url if self._info is None else self._info["url"]

    def url(self, port: int = DEFAULT_PORT) -> str:
        """The named URL of a port. Opening it wakes the sandbox; it needs an API key or a preview's token."""
        return url_of_port(self._known_url() or self.info["url"], port)

    async def fetch(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: Optional[Mapping[str, str]] = None,
        body: Optional[Data] = None,
        port: int = DEFAULT_PORT,
        redirect: Literal["follow", "manual", "error"] = "follow",
        timeout_ms: float = 0,
    ) -> AsyncFetchResponse:
        """Request the program that listens on a port, with the API key, waking the sandbox.

        Works without wildcard DNS. Redirects are followed inside the sandbox; one that leads elsewhere is followed without
        key, cookie and authorization. A caller's own ``authorization`` is replaced by the key. No time limit unless given.

            answer = sandbox.fetch("/notes", method="POST", body="buy milk")
        """
        if self._known_url() is None:
            await self.refresh()
        return await named_fetch(
            self._transport,
            self._known_url() or self.info["url"],
            path,
            method=method.upper(),
            headers=headers,
            body=body,
            port=port,
            redirect=redirect,
            timeout_ms=timeout_ms,
        )

    async def exec(
        self,
        command: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Union[str, bytes, None] = None,
        timeout_ms: Optional[float] = None,
        on_stdout: Optional[Callable[[str], object]] = None,
        on_stderr: Optional[Callable[[str], object]] = None,
        check: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> ExecResult:
        """Run a command to its end, waking the sandbox. Text is run by ``bash -c``, a list as it is.

        A non-zero exit code and a timeout are results, unless ``check``: then CommandError is raised. ``timeout_ms`` is the
        time limit of the command, at most 86 400 000; 60 000 unless given, a day where output is streamed, as it is with
        ``on_stdout`` or ``on_stderr``. A program that is ended (Ctrl-C, a task that is cancelled) ends a command that is
        streamed, by SIGTERM. An ``idempotency_key`` runs it once however often it is sent.

            result = sandbox.exec("npm test", cwd="app", timeout_ms=300_000)
            print(result.exit_code, result.stdout)
        """
        return await run_command(
            self._remote,
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_ms=timeout_ms,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            check=check,
            idempotency_key=idempotency_key,
        )

    def exec_stream(
        self,
        command: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Union[str, bytes, None] = None,
        timeout_ms: Optional[float] = None,
        idempotency_key: Optional[str] = None,
    ) -> AsyncGenerator[CommandEvent, None]:
        """Run a command and iterate over what it writes, ending with an ``exit`` event.

        A cut connection is bridged without loss or repetition. Leaving the loop early leaves the command running; ending
        the program or task that waits for it ends it by SIGTERM.
        """
        events = stream_command(
            self._remote,
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_ms=timeout_ms,
            idempotency_key=idempotency_key,
        )
        return cast("AsyncGenerator[CommandEvent, None]", events)

    async def spawn(
        self,
        command: Command,
        *,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        stdin: Union[str, bytes, None] = None,
        timeout_ms: Optional[float] = None,
        output_encoding: Optional[Literal["utf8", "base64"]] = None,
        request: Optional[RequestOptions] = None,
    ) -> AsyncProcess:
        """Start a process that goes on in the background, also over pause and wake.

        ``stdin="pipe"`` keeps its input open for ``Process.write``; other text or bytes are all of it. No time limit unless
        given. ``output_encoding="base64"`` keeps output that is no text intact; see ``Process.output_bytes``. ``request`` is
        how the call is made, as against how the process runs. Raises ConflictError ``process_limit``.
        """
        return await spawn_process(
            self._remote,
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            timeout_ms=timeout_ms,
            output_encoding=output_encoding,
            request=request,
        )

    async def forward(
        self,
        port: int,
        *,
        local_port: Optional[int] = None,
        address: str = "127.0.0.1",
        on_error: Optional[Callable[[RouseError], object]] = None,
    ) -> AsyncForward:
        """Open a TCP port of the sandbox on this machine, until it is closed.

        A connection to it wakes the sandbox and keeps it awake; the open port does neither. ``local_port``: the same as in
        the sandbox unless given, 0 for a free one. ``on_error``: called with why a connection ended, when that was no end of
        its own. Raises InvalidRequestError ``invalid_argument`` for a port that can't be had.

            with sandbox.forward(5432, local_port=0) as database:
                print(f"psql -h {database.address} -p {database.local_port}")
        """
        return await forward_port(self._remote, port, local_port, address, on_error)

    async def refresh(self, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Read the sandbox again; this does not wake it."""
        return self._take(await self._remote.get("", **request))

    async def wait_for(
        self, state: Literal["running", "paused", "stopped"], *, timeout_seconds: float = SETTLE_SECONDS
    ) -> AsyncSandbox:
        """Wait until a state is reached.

        Raises ConnectionError ``timeout`` when it takes longer, and ConflictError ``conflict`` when the sandbox stopped or
        was deleted instead.
        """

        async def read(query: Dict[str, Any]) -> Mapping[str, Any]:
            return cast(Mapping[str, Any], self._take(await self._remote.get("", query=query)).info)

        await until_state(state, timeout_seconds, read)
        return self

    async def wait_until_durable(self, *, timeout_ms: Optional[float] = None) -> AsyncSandbox:
        """Wait until what it sleeps with is stored off its host (``info["durability"]``), so that it can wake elsewhere.

        For 10 minutes unless given, 0 for no limit. Raises ConnectionError ``timeout`` when it takes longer, and
        ConflictError ``conflict`` while it does not sleep: what runs changes all the time.
        """

        async def read(limits: RequestOptions) -> Mapping[str, Any]:
            return cast(Mapping[str, Any], (await self.refresh(**limits)).info)

        await until_durable(timeout_ms, cast(Mapping[str, Any], self.info), read)
        return self

    async def pause(self, *, wait: bool = True, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Put to sleep with its RAM. Raises ServiceUnavailableError ``pause_failed``; the sandbox then runs on."""
        return await self._settle(":pause", "paused", wait, request)

    async def wake(self, *, wait: bool = True, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Wake; a sandbox that is awake already is left as it is. Raises ServiceUnavailableError ``wake_failed``."""
        try:
            return await self._settle(":wake", "running", wait, request)
        except RouseError as error:
            if error.code != "not_paused":
                raise
            await self.refresh()
            if self.state == "running":
                return self
            if self.state in ("starting", "resuming"):
                return await self.wait_for("running")
            raise

    async def stop(self, *, wait: bool = True, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """End the machine; its disk is kept, its RAM is not."""
        return await self._settle(":stop", "stopped", wait, request)

    async def restart(self, *, wait: bool = True, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Boot from disk."""
        return await self._settle(":restart", "running", wait, request)

    async def recover(self, *, wait: bool = True, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Run again whatever it takes: from RAM where there is some, else from disk (``info["memoryRestored"]``).

        One that runs is left as it is. Raises ServiceUnavailableError ``wake_failed`` or ``start_failed``.
        """
        return await self._settle(":recover", "running", wait, request)

    async def delete(self, *, grace_seconds: Optional[int] = None, **request: Unpack[RequestOptions]) -> DeletedSandbox:
        """Delete with everything in it, from any state. Works again on a deleted one.

        With ``grace_seconds``, at most 604 800 (7 days), one that runs is first put to sleep; ``undelete`` takes it back
        within that time. One that can't be put to sleep is deleted for good. Deleting again without it ends the time.
        """
        answer = await self._remote.delete("", query={"graceSeconds": grace_seconds}, **request)
        deleted = answer_of(DeletedSandbox, answer)
        if self._info is not None:
            self._info = self._info.copy()
            self._info["state"] = "deleted"
            self._info["status"] = "deleted"
            self._info["endedAt"] = deleted["endedAt"]
        return deleted

    async def undelete(self, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Take back a deletion within its grace time: it sleeps again, or is stopped. One that is there is left as it is.

        Raises RouseError ``sandbox_gone`` (410) when it is deleted for good.
        """
        return self._take(await undelete(self._remote, request))

    async def update(self, **settings: Unpack[UpdateSandbox]) -> AsyncSandbox:
        """Change settings. An ``env`` value of None removes the variable; new values reach processes started from then on."""
        body, request = arguments(UpdateSandbox, settings)
        return self._take(await self._remote.post(":update", body, **request))

    async def extend(self, seconds: int, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Move the end of the time limit (``info["endsAt"]``) to so many seconds from now, at most a day.

        An end that is later already stays; without a time limit nothing changes.
        """
        return self._take(await self._remote.post(":extend", {"seconds": seconds}, **request))

    async def hold(self, name: str, seconds: int, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Keep it awake for so many seconds from now, at most a day, however idle it is; ``info["holds"]`` shows what holds.

        The same name again moves the end. A hold neither wakes nor outlasts a pause that somebody asks for.
        """
        return self._take(await self._remote.post(":hold", {"name": name, "seconds": seconds}, **request))

    async def release(self, name: str, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Let go of a hold."""
        return self._take(await self._remote.post(":release", {"name": name}, **request))

    async def set_retention(self, days: Optional[int], **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Keep the paused state for so many days, 1 to 365; None goes back to the default of 30."""
        return self._take(await self._remote.post(":retention", {"days": days}, **request))

    async def snapshot(self, *, wait: bool = True, **fields: Unpack[CreateSnapshot]) -> Snapshot:
        """Take a snapshot and wait until it is ready; see ``Snapshots.create``.

        One that runs stands still for a moment and goes on; one that sleeps sleeps on.

            before = sandbox.snapshot(name="before the upgrade")
            copy = Sandbox.create(snapshot=before["id"])
        """
        return await capture(self._remote, wait, fields)

    @overload
    async def fork(self, *, count: None = None, wait: bool = True, **fields: Unpack[NewForks]) -> AsyncSandbox: ...

    @overload
    async def fork(self, *, count: int, wait: bool = True, **fields: Unpack[NewForks]) -> List[AsyncSandbox]: ...

    async def fork(
        self, *, count: Optional[int] = None, wait: bool = True, **fields: Unpack[NewForks]
    ) -> Union[AsyncSandbox, List[AsyncSandbox]]:
        """Copy it with its RAM and processes, and wait until the copies run. Each has an identity of its own.

        The source goes on. ``count``: 1 to 16, which answers a list; one sandbox without it. ``name``: of the copy, with a
        count above 1 ``name-1``, ``name-2``, ...; none unless given. ``labels``: those of the source unless given.
        ``keep_snapshot``: keep the snapshot they start from. Raises ConflictError ``name_taken``, ``quota_exceeded``, or
        ``no_capacity``: no host has room now. Raises ServiceUnavailableError ``snapshot_failed``, or ``start_failed`` of a
        copy; the other copies are there.
        """
        body, request = arguments(NewForks, fields)
        if count is not None:
            body["count"] = count
        answer = await self._remote.post(":fork", body, **_settling(wait, request))
        copies = [AsyncSandbox(self._transport, info) for info in list_of(SandboxInfo, answer, "sandboxes")]
        wanted = 1 if count is None else count
        if len(copies) != wanted:
            raise unexpected_answer(f"{len(copies)} copies where {wanted} were asked for")
        # One after the other: they start at the same time, so this takes as long as the slowest.
        for copy in copies if wait else []:
            await started(copy)
        return copies[0] if count is None else copies

    async def why(self, **request: Unpack[RequestOptions]) -> Why:
        """What keeps it awake, who had it wake, and when it slept. Never wakes it."""
        return answer_of(Why, await self._remote.get(":why", **request))

    async def resume(self, **request: Unpack[RequestOptions]) -> Resume:
        """How its newest run began, what came of the commands and services that it starts with, and what to go on with.

        That is a checkpoint, or tasks. Never wakes it.
        """
        return answer_of(Resume, await self._remote.get(":resume", **request))

    async def history(self, **request: Unpack[RequestOptions]) -> List[HistoryPoint]:
        """The states that it slept with and that are still stored, newest first: the last one, and ``keep_pauses`` before it."""
        return list_of(HistoryPoint, await self._remote.get("/history", **request))

    async def diff(
        self,
        *,
        from_: Optional[str] = None,
        to: Optional[str] = None,
        path: Optional[str] = None,
        **request: Unpack[RequestOptions],
    ) -> Diff:
        """Files that differ between two points of its ``history``, sorted by path: at most 10,000, then it is ``truncated``.

        The sandbox is left alone: it runs or sleeps on. Volumes are not compared, nor is ``/tmp``. ``to``: the newest point
        that is stored unless given. ``from_``: the one before ``to`` unless given. ``path``: only what is in that folder;
        the whole disk takes much longer. Raises NotFoundError ``point_not_found``, and ConflictError ``no_capacity``: no
        host has room now; ``incompatible_host``.
        """
        query = {"from": from_, "to": to, "path": path}
        return answer_of(Diff, await self._remote.get("/diff", query=query, **request))

    async def rollback(self, point: str, **request: Unpack[RequestOptions]) -> AsyncSandbox:
        """Make it what it was at a point of its ``history``, under the same name and id.

        What it is now is a point itself, if it has been stored. Raises NotFoundError ``point_not_found``.
        """
        return self._take(await self._remote.post(":rollback", {"point": point}, **_settling(True, request)))

    async def attach_volume(
        self,
        volume: VolumeLike,
        path: str,
        *,
        mode: Optional[Literal["rw", "snapshot"]] = None,
        wait: bool = True,
        **request: Unpack[RequestOptions],
    ) -> Attachment:
        """Plug in a volume (or its id or name) at an absolute path, and wait until it is there; see ``Volumes.attach``."""
        id = volume if isinstance(volume, str) else volume["id"]
        volumes = AsyncVolumes(self._transport)
        attachment = await volumes.attach(id, sandbox=self.id, path=path, mode=mode, wait=wait, **request)
        await self.refresh()
        return attachment

    async def detach_volume(
        self, volume: VolumeLike, *, wait: bool = True, **request: Unpack[RequestOptions]
    ) -> Attachment:
        """Unplug a volume, and wait until what was written to it is stored off the host; see ``Volumes.detach``.

        Raises NotFoundError ``attachment_not_found`` when the sandbox does not have it.
        """
        volumes = AsyncVolumes(self._transport)
        found = await volumes.get(volume if isinstance(volume, str) else volume["id"])
        stay = attachment_with(found, self.id)["id"]
        attachment = await volumes.detach(found["id"], stay, wait=wait, **request)
        await self.refresh()
        return attachment

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            await self.stop(wait=False)
        except RouseError:
            # What went wrong in the block says more.
            pass

    def __repr__(self) -> str:
        return f"<Sandbox {self.name or self.id} {self.state}>"

    async def _settle(
        self, verb: str, goal: Literal["running", "paused", "stopped"], wait: bool, request: RequestOptions
    ) -> AsyncSandbox:
        self._take(await self._remote.post(verb, {}, **_settling(wait, request)))
        return await self.wait_for(goal) if wait and self.state != goal else self

    def _take(self, answer: object) -> AsyncSandbox:
        info = answer_of(SandboxInfo, answer)
        # Only the creation's answer says it, and it stays true of this handle.
        if self._info is not None and "reused" in self._info:
            info["reused"] = self._info["reused"]
        self._info = info
        return self


async def started(sandbox: AsyncSandbox) -> AsyncSandbox:
    """The same, just made, once it runs. Raises ServiceUnavailableError ``start_failed``, with the host's reason."""
    if sandbox.state == "running":
        return sandbox
    try:
        return await sandbox.wait_for("running", timeout_seconds=START_SECONDS)
    except ConflictError as cause:
        raise start_failed(sandbox.id, cause) from cause


async def undelete(remote: AsyncRemote, request: RequestOptions) -> object:
    """Take back a deletion. An answer that was lost must not make the next try fail, as nothing is left to take back."""
    try:
        return await remote.post(":undelete", {}, **request)
    except RouseError as error:
        if error.code != "conflict":
            raise
        return await remote.get("", timeout_ms=request.get("timeout_ms"))


def _settling(wait: bool, request: RequestOptions) -> CallOptions:
    return cast(CallOptions, {**request, "wait_seconds": SETTLE_SECONDS if wait else None})


def _client(client: Optional[AsyncRouse]) -> AsyncRouse:
    if client is not None:
        return client
    from .client import AsyncRouse

    return AsyncRouse()
