# Made by test/support/print-python.ts from _async/checkpoints.py: change that file.
"""The mirror of a sandbox's checkpoints, from outside: there while the machine sleeps, and when its disk is lost."""

from __future__ import annotations

import datetime
import re
from typing import Any, List, Mapping, Optional, cast

from .. import checkpoint as format
from ..deadline import Deadline
from ..errors import invalid_argument, unexpected_answer
from ..options import RequestOptions, Unpack
from ..results import MirroredCheckpoint
from ..answers import Checkpoint as CheckpointInfo
from ..answers import CheckpointVersion, DeletedCheckpoint
from ..wire import Data, answer_of, bytes_of, json_bytes, list_of
from .driver import Response
from .remote import Remote


class Checkpoints:
    """What programs in the sandbox saved (``Checkpoint``, or ``rouse-checkpoint``), the newest five versions of each.

    No call wakes it.
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def list(self, **request: Unpack[RequestOptions]) -> List[CheckpointInfo]:
        """By name; of each the newest version first."""
        return list_of(CheckpointInfo, self._remote.get("/checkpoints", **request))

    def get(
        self, name: str, *, version: Optional[int] = None, **request: Unpack[RequestOptions]
    ) -> MirroredCheckpoint:
        """The newest unless ``version`` is given. Raises NotFoundError ``checkpoint_not_found``."""

        def read(response: Response, deadline: Deadline) -> bytes:
            return response.read(deadline)

        path = self._remote.path(path_of(name))
        query = {"version": version}
        accept = "application/octet-stream"
        data = self._remote.transport.send("GET", path, read, query=query, accept=accept, **request)
        try:
            found = format.decode(data, name, version)
        except format.CheckpointDamaged as fault:
            raise unexpected_answer(f"the checkpoint does not verify: {fault}") from None
        return MirroredCheckpoint(
            name=found.name,
            version=found.version,
            saved_at=found.savedAt,
            type=found.type,
            bytes=found.bytes,
            sha256=found.sha256,
            step=found.step,
            meta=found.meta,
            value=found.value,
        )

    def put(
        self,
        name: str,
        value: Any,
        *,
        version: Optional[int] = None,
        step: Optional[int] = None,
        meta: Optional[Mapping[str, Any]] = None,
        **request: Unpack[RequestOptions],
    ) -> CheckpointVersion:
        """Put a version into the mirror: bytes as they are, all else as JSON; at most 16 MiB.

        ``version``: one more than the newest unless given. A program in the sandbox loads it where its own disk has
        nothing that verifies. Raises RouseError ``storage_full``.
        """
        path = self._remote.path(path_of(name))
        is_bytes = isinstance(value, (bytes, bytearray, memoryview))
        body = bytes_of(cast(Data, value)) if is_bytes else json_bytes(value)
        number = version
        if number is None:
            timeout_ms = request.get("timeout_ms")
            known = [one for one in self.list(timeout_ms=timeout_ms) if one["name"] == name]
            number = (known[0]["versions"][0]["version"] if known and known[0]["versions"] else 0) + 1
        now = datetime.datetime.now(datetime.timezone.utc)
        saved_at = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        json_bytes(dict(meta or {}))
        try:
            kind = "bytes" if is_bytes else "json"
            whole = format.encode(name, number, saved_at, kind, body, step, dict(meta or {}))
        except format.CheckpointError as fault:
            raise invalid_argument(str(fault)) from None
        answer = self._remote.transport.json("PUT", path, content=whole, **request)
        return answer_of(CheckpointVersion, answer)

    def delete(self, name: str, **request: Unpack[RequestOptions]) -> DeletedCheckpoint:
        """All versions go from the mirror; those on the machine's disk stay.

        Raises NotFoundError ``checkpoint_not_found``.
        """
        return answer_of(DeletedCheckpoint, self._remote.delete(path_of(name), **request))


def path_of(name: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name):
        return f"/checkpoints/{name}"
    raise invalid_argument(f"{name!r} is no name of a checkpoint.")
