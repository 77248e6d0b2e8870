"""Volumes of an account and their backups: made, attached, grown, copied, deleted."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, Generic, Literal, Mapping, Optional, Protocol, TypeVar, Union
from typing import cast

from ..errors import ERROR_CODES, ServiceUnavailableError, known_error
from ..inputs import BackupPolicy, BackupVolume, CreateVolume, RestoreVolume, UpdateVolume
from ..options import CallOptions, RequestOptions, Unpack
from ..answers import Attachment, Volume, VolumeBackup
from ..wire import addressable, answer_of, arguments, given, identified, segment
from .page import AsyncPage, page_of
from .poll import AsyncPoll
from .transport import AsyncTransport
from .waits import SETTLE_SECONDS

T = TypeVar("T")


class HasId(Protocol):
    @property
    def id(self) -> str: ...


#: A sandbox, or its id or name.
SandboxLike = Union[str, HasId]
#: A volume, or its id or name.
VolumeLike = Union[str, Volume]


class AsyncVolumes:
    """Volumes: disks that outlive sandboxes. A volume is named by its id or its name. Sizes are in MiB.

    What waits takes ``timeout_ms``: 10 minutes unless given, 0 for no limit; with ``wait=False`` it answers as soon as the
    change has begun.
    """

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, *, wait: bool = True, **fields: Unpack[CreateVolume]) -> Volume:
        """Make a volume, empty or from a backup, and wait until it is ready.

        ``size_mib`` 64 to 1 048 576; with ``from_backup`` at least the backup's, which it is unless given. Raises
        ConflictError ``name_taken``, ``disk_too_small``, ``quota_exceeded``, or ``volume_not_ready``: the backup is not.
        Raises ServiceUnavailableError ``volume_failed``.
        """
        body, request = arguments(CreateVolume, fields)
        return await self._create(body, wait, request)

    async def get(self, volume: str, **request: Unpack[RequestOptions]) -> Volume:
        """Raises NotFoundError ``volume_not_found``."""
        return answer_of(Volume, await self._transport.json("GET", path_of(volume), **request))

    async def list(
        self,
        *,
        name: Optional[str] = None,
        state: Optional[Literal["creating", "ready", "failed", "deleting"]] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> AsyncPage[Volume]:
        """The volumes that match, newest first, page by page. ``limit``: per page, 1 to 100."""
        query = {"name": name, "state": state, "limit": limit}
        return await page_of(self._transport, "/v1/volumes", query, request, lambda one: answer_of(Volume, one))

    async def update(self, volume: str, **changes: Unpack[UpdateVolume]) -> Volume:
        """Change name and labels; a name of None takes it away. Raises ConflictError ``name_taken``."""
        body, request = arguments(UpdateVolume, changes)
        return answer_of(Volume, await self._post(path_of(volume, ":update"), body, cast(CallOptions, request)))

    async def resize(self, volume: str, size_mib: int, **request: Unpack[RequestOptions]) -> Volume:
        """Make it larger, to so many MiB. A sandbox that runs with it sees the new size at once.

        Raises ConflictError ``disk_too_small`` for less than it has: a volume never shrinks.
        """
        return answer_of(Volume, await self._post(path_of(volume, ":resize"), {"sizeMiB": size_mib}, cast(CallOptions, request)))

    async def delete(self, volume: str, **request: Unpack[RequestOptions]) -> None:
        """Delete for good; its backups stay. One that a sandbox is letting go is waited for, as in ``attach``.

        Raises ConflictError ``volume_attached`` while a sandbox has it, ``volume_releasing``.
        """
        await self._transport.json("POST", path_of(volume, ":delete"), json={}, wait_for_capacity=True, **request)

    async def attach(
        self,
        volume: str,
        *,
        sandbox: SandboxLike,
        path: str,
        mode: Optional[Literal["rw", "snapshot"]] = None,
        wait: bool = True,
        **request: Unpack[RequestOptions],
    ) -> Attachment:
        """Give it to a sandbox that runs or is stopped, and wait until it is there, at an absolute path.

        ``mode``: ``rw`` unless given; ``snapshot`` is read-only: what the volume was when it was last known to be
        consistent. A volume that another sandbox is letting go is waited for as long as a creation waits for room
        (``wait_for_capacity_ms``, 2 minutes). Raises ConflictError ``volume_attached`` (another sandbox writes,
        ``details["sandboxId"]``), ``volume_releasing``, ``volume_not_ready`` (``snapshot`` of one without a consistent
        state yet), ``quota_exceeded``, or ``conflict``: the sandbox sleeps, or has it already. Raises
        ServiceUnavailableError ``volume_failed``.
        """
        sandbox_id = sandbox if isinstance(sandbox, str) else sandbox.id
        body = given(sandbox_id=sandbox_id, path=path, mode=mode)
        details = {"volume": volume, "sandboxId": sandbox_id}

        async def begin(call: CallOptions) -> Attachment:
            call["wait_for_capacity"] = True
            return answer_of(Attachment, await self._post(path_of(volume, ":attach"), body, call))

        async def again(begun: Attachment, limits: RequestOptions) -> Attachment:
            return await self.attachment(begun["volumeId"], begun["id"], **limits)

        def late(begun: Optional[Attachment]) -> Dict[str, Any]:
            more = {} if begun is None else {"attachmentId": begun["id"]}
            return {"message": f"Volume {volume} was not attached in time.", "details": {**details, **more}}

        attachment = await Step(begin, again, "attaching", late).settle(wait, request)
        if attachment["state"] in ("active", "attaching"):
            return attachment
        more = {**details, "attachmentId": attachment["id"]}
        raise failed("volume_failed", f"Volume {volume} is {attachment['state']}", attachment["error"], more)

    async def detach(
        self, volume: str, attachment: str, *, wait: bool = True, **request: Unpack[RequestOptions]
    ) -> Attachment:
        """Take it from its sandbox, and wait until what was written is stored off the host: only then another may write.

        ``attachment`` is the id of one of the volume's ``attachments``. Raises ConflictError ``volume_busy`` while a
        program uses it, ``conflict`` while the sandbox sleeps. Raises ConnectionError ``timeout``; the storing goes on.
        """
        path = attachment_path(volume, attachment)
        details = {"volume": volume, "attachmentId": attachment}

        async def begin(call: CallOptions) -> Attachment:
            return answer_of(Attachment, await self._post(f"{path}:detach", {}, call))

        async def again(begun: Attachment, limits: RequestOptions) -> Attachment:
            return answer_of(Attachment, await self._transport.json("GET", path, **limits))

        def late(begun: Optional[Attachment]) -> Dict[str, Any]:
            return {"message": f"What was written to volume {volume} is still being stored.", "details": details}

        after = await Step(begin, again, "detaching", late).settle(wait, request)
        if after["state"] in ("detached", "detaching"):
            return after
        raise failed("volume_failed", f"Volume {volume} is still attached", after["error"], details)

    async def attachment(self, volume: str, attachment: str, **request: Unpack[RequestOptions]) -> Attachment:
        """How it stays with a sandbox, or stayed. Raises NotFoundError ``attachment_not_found``."""
        path = attachment_path(volume, attachment)
        return answer_of(Attachment, await self._transport.json("GET", path, **request))

    async def backup(self, volume: str, *, wait: bool = True, **fields: Unpack[BackupVolume]) -> VolumeBackup:
        """Copy it as it is now, and wait until the copy is stored; kept for 7 days unless given, at most 365.

        The sandbox that has it goes on; one that is letting it go is waited for, as in ``attach``. Raises ConflictError
        ``volume_releasing``, or ``quota_exceeded``: the account has too many backups. Raises ServiceUnavailableError
        ``backup_failed``; the volume is as it was. Raises ConnectionError ``timeout``; the backup goes on, as
        ``details["backupId"]``.
        """
        body, request = arguments(BackupVolume, fields)

        async def begin(call: CallOptions) -> VolumeBackup:
            call["wait_for_capacity"] = True
            return answer_of(VolumeBackup, await self._post(path_of(volume, ":backup"), body, call))

        async def again(begun: VolumeBackup, limits: RequestOptions) -> VolumeBackup:
            return await self.get_backup(begun["id"], **limits)

        def late(begun: Optional[VolumeBackup]) -> Dict[str, Any]:
            if begun is None:
                return {"message": f"The backup of volume {volume} did not begin in time."}
            details = {"backupId": begun["id"], "volumeId": begun["volumeId"]}
            return {"message": f"Backup {begun['id']} is still being stored.", "details": details}

        made = await Step(begin, again, "pending", late).settle(wait, request)
        if made["state"] in ("ready", "pending"):
            return made
        details = {"backupId": made["id"], "volumeId": made["volumeId"], "state": made["state"]}
        hint = "The volume is as it was; try again."
        raise failed("backup_failed", f"Backup {made['id']} is {made['state']}", made["error"], details, hint)

    async def backups(
        self,
        *,
        volume_id: Optional[str] = None,
        state: Optional[Literal["pending", "ready", "failed", "deleting"]] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> AsyncPage[VolumeBackup]:
        """The backups that match, newest first, page by page. They outlive their volume. ``limit``: per page, 1 to 100."""
        query = {"volumeId": volume_id, "state": state, "limit": limit}
        path = "/v1/volume-backups"
        return await page_of(self._transport, path, query, request, lambda one: answer_of(VolumeBackup, one))

    async def get_backup(self, id: str, **request: Unpack[RequestOptions]) -> VolumeBackup:
        """Raises NotFoundError ``backup_not_found``."""
        return answer_of(VolumeBackup, await self._transport.json("GET", backup_path(id), **request))

    async def delete_backup(self, id: str, **request: Unpack[RequestOptions]) -> None:
        """Delete for good. Volumes that were made from it stay."""
        await self._post(backup_path(id, ":delete"), {}, cast(CallOptions, request))

    async def restore(self, backup: str, *, wait: bool = True, **fields: Unpack[RestoreVolume]) -> Volume:
        """A new volume that begins as a backup, which stays; see ``create``. Without a name unless given."""
        backup_path(backup)
        body, request = arguments(RestoreVolume, fields)
        return await self._create({**body, "fromBackup": backup}, wait, request)

    async def set_backup_policy(self, volume: str, **policy: Unpack[BackupPolicy]) -> Volume:
        """Whether there is a backup each day (on unless it is turned off), and for how many days each is kept, 1 to 365."""
        body, request = arguments(BackupPolicy, policy)
        return answer_of(Volume, await self._post(path_of(volume, ":backup-policy"), body, cast(CallOptions, request)))

    async def _create(self, body: Mapping[str, Any], wait: bool, request: RequestOptions) -> Volume:
        async def begin(call: CallOptions) -> Volume:
            return answer_of(Volume, await self._post("/v1/volumes", body, call))

        async def again(begun: Volume, limits: RequestOptions) -> Volume:
            return await self.get(begun["id"], **limits)

        def late(begun: Optional[Volume]) -> Dict[str, Any]:
            if begun is None:
                return {"message": "The volume was not made in time."}
            return {"message": f"Volume {begun['id']} is still being made.", "details": {"volumeId": begun["id"]}}

        volume = await Step(begin, again, "creating", late).settle(wait, request)
        if volume["state"] != "failed":
            return volume
        what = f"Volume {volume['id']} was not made"
        details = {"volumeId": volume["id"]}
        raise failed("volume_failed", what, volume["error"], details, "Delete it and try again.")

    async def _post(self, path: str, body: object, call: CallOptions) -> object:
        return await self._transport.json("POST", path, json=body, **call)


def attachment_with(volume: Volume, sandbox_id: str) -> Attachment:
    """The stay of a volume with a sandbox. Raises NotFoundError ``attachment_not_found``."""
    held = [one for one in volume["attachments"] if one["sandboxId"] == sandbox_id]
    # One that is being let go may still be listed next to the one that came after it.
    held.sort(key=lambda one: one["state"] == "detaching")
    if held:
        return held[0]
    message = f"Sandbox {sandbox_id} does not have volume {volume['id']}."
    raise known_error("attachment_not_found", message, {"volumeId": volume["id"], "sandboxId": sandbox_id})


class Step(Generic[T]):
    """A change that the server goes on with after its first answer."""

    def __init__(
        self,
        begin: Callable[[CallOptions], Awaitable[T]],
        again: Callable[[T, RequestOptions], Awaitable[T]],
        meanwhile: str,
        late: Callable[[Optional[T]], Dict[str, Any]],
    ) -> None:
        self._begin = begin
        self._again = again
        #: The state while it goes on.
        self._meanwhile = meanwhile
        #: What the error says when the time is over; None before the first answer.
        self._late = late

    async def settle(self, wait: bool, request: RequestOptions) -> T:
        begun: Optional[T] = None
        hint = "It may go on; read it again later, or pass a larger timeout_ms."
        poll = AsyncPoll(request.get("timeout_ms"), lambda: {"hint": hint, **self._late(begun)})

        async def begin(limits: RequestOptions) -> T:
            return await self._begin(
                {
                    "timeout_ms": limits.get("timeout_ms"),
                    "idempotency_key": request.get("idempotency_key"),
                    "wait_seconds": SETTLE_SECONDS if wait else None,
                }
            )

        now = await poll.ask(begin)
        while wait and cast(Mapping[str, Any], now)["state"] == self._meanwhile:
            begun = before = now
            await poll.rest()
            now = await poll.ask(lambda limits: self._again(before, limits))
        return now


def failed(
    code: str, what: str, why: Optional[str], details: Mapping[str, Any], hint: Optional[str] = None
) -> ServiceUnavailableError:
    message = f"{what}{f': {why}' if why else ''}."
    return ServiceUnavailableError(
        code, message, status=502, hint=hint or ERROR_CODES["volume_failed"][1], details=details
    )


def path_of(volume: str, suffix: str = "") -> str:
    return f"/v1/volumes/{segment(addressable(volume, 'volume'))}{suffix}"


def attachment_path(volume: str, id: str) -> str:
    return path_of(volume, f"/attachments/{identified(id, 'att-', 'an attachment id')}")


def backup_path(id: str, verb: str = "") -> str:
    return f"/v1/volume-backups/{identified(id, 'bak-', 'a backup id')}{verb}"
