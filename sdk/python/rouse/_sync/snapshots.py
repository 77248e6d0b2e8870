# Made by test/support/print-python.ts from _async/snapshots.py: change that file.
"""Snapshots of an account: taken, listed, kept longer, deleted."""

from __future__ import annotations

from typing import Any, Dict, Literal, Optional

from ..errors import known_error, unexpected_answer
from ..inputs import CreateSnapshot, UpdateSnapshot
from ..options import RequestOptions, Unpack
from ..answers import Snapshot
from ..wire import addressable, answer_of, arguments, identified
from .page import Page, page_of
from .poll import Poll
from .remote import Remote, sandbox_remote
from .transport import Transport
from .waits import SETTLE_SECONDS


class Snapshots:
    """Snapshots. They outlive their sandbox, and ``sandboxes.create(snapshot=id)`` starts from one."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, sandbox_id: str, *, wait: bool = True, **fields: Unpack[CreateSnapshot]) -> Snapshot:
        """Take a snapshot of a sandbox, by id or name, and wait until it is ready, and so stored off its host.

        ``mode`` is ``memory`` (RAM, processes and disk) unless given; ``retention_days`` 365; ``timeout_ms`` 10 minutes, 0
        for no limit. ``wait=False`` answers as soon as the capture has begun. Raises ServiceUnavailableError
        ``snapshot_failed``; the sandbox is as it was. Raises ConnectionError ``timeout``; the snapshot goes on, as
        ``details["snapshotId"]``.
        """
        return capture(sandbox_remote(self._transport, addressable(sandbox_id)), wait, fields)

    def list(
        self,
        *,
        sandbox_id: Optional[str] = None,
        name: Optional[str] = None,
        state: Optional[Literal["capturing", "ready", "failed", "deleting"]] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> Page[Snapshot]:
        """The snapshots that match, page by page. ``limit``: per page, 1 to 100."""
        query: Dict[str, Any] = {"sandboxId": sandbox_id, "name": name, "state": state, "limit": limit}
        return page_of(self._transport, "/v1/snapshots", query, request, lambda one: answer_of(Snapshot, one))

    def get(self, id: str, **request: Unpack[RequestOptions]) -> Snapshot:
        """Raises NotFoundError ``snapshot_not_found``."""
        return read(self._transport, id, request)

    def update(self, id: str, **changes: Unpack[UpdateSnapshot]) -> Snapshot:
        """Change name and labels; a name of None takes it away. With ``if_labels`` only while its labels are just those.

        Raises ConflictError when its labels are others.
        """
        body, request = arguments(UpdateSnapshot, changes)
        return answer_of(Snapshot, self._post(id, ":update", body, request))

    def extend(self, id: str, days: int, **request: Unpack[RequestOptions]) -> Snapshot:
        """Keep it for so many days from now, 1 to 365."""
        return answer_of(Snapshot, self._post(id, ":extend", {"retentionDays": days}, request))

    def delete(self, id: str, **request: Unpack[RequestOptions]) -> None:
        """Delete for good. Sandboxes that were made from it stay."""
        self._post(id, ":delete", {}, request)

    def _post(self, id: str, verb: str, body: object, request: RequestOptions) -> object:
        return self._transport.json("POST", path_of(id, verb), json=body, **request)


def capture(remote: Remote, wait: bool, fields: CreateSnapshot) -> Snapshot:
    """Take a snapshot of a sandbox; see ``Snapshots.create``."""
    body, request = arguments(CreateSnapshot, fields)
    snapshot: Optional[Snapshot] = None

    def late() -> Dict[str, Any]:
        if snapshot is None:
            return {"message": "The capture did not begin in time.", "hint": "Pass a larger timeout_ms."}
        return {
            "message": f"Snapshot {snapshot['id']} is still being captured.",
            "hint": "It goes on; read it again later, or pass a larger timeout_ms.",
            "details": {"snapshotId": snapshot["id"], "sandboxId": snapshot["sourceSandboxId"]},
        }

    poll = Poll(request.get("timeout_ms"), late)

    def begin(limits: RequestOptions) -> Snapshot:
        answer = remote.post(
            ":snapshot",
            body,
            timeout_ms=limits.get("timeout_ms"),
            idempotency_key=request.get("idempotency_key"),
            wait_seconds=SETTLE_SECONDS if wait else None,
        )
        return answer_of(Snapshot, answer)

    snapshot = poll.ask(begin)
    id = snapshot["id"]
    mode = body.get("mode")
    # A server that does not know the mode would store something else without a word.
    if mode is not None and snapshot["mode"] != mode:
        raise unexpected_answer(f"snapshot {id} has mode {snapshot['mode']}, and {mode} was asked for")
    if not wait:
        return snapshot
    while snapshot["state"] == "capturing":
        poll.rest()
        snapshot = poll.ask(lambda limits: read(remote.transport, id, limits))
    if snapshot["state"] == "ready":
        return snapshot
    why = f": {snapshot['error']}" if snapshot["error"] else ""
    raise known_error(
        "snapshot_failed",
        f"Snapshot {id} is {snapshot['state']}{why}.",
        {"snapshotId": id, "sandboxId": snapshot["sourceSandboxId"], "state": snapshot["state"]},
    )


def read(transport: Transport, id: str, request: RequestOptions) -> Snapshot:
    return answer_of(Snapshot, transport.json("GET", path_of(id), **request))


def path_of(id: str, verb: str = "") -> str:
    return f"/v1/snapshots/{identified(id, 'snap-', 'a snapshot id')}{verb}"
