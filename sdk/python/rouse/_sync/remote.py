# Made by test/support/print-python.ts from _async/remote.py: change that file.
"""One sandbox, or a store, as the target of calls."""

from __future__ import annotations

from ..options import CallOptions, Unpack
from ..wire import segment
from .transport import Transport


class Remote:
    def __init__(self, transport: Transport, base: str) -> None:
        self.transport = transport
        self._base = base

    def path(self, suffix: str = "") -> str:
        """Path of something below: a verb (``:exec``) or a sub-path (``/processes``)."""
        return f"{self._base}{suffix}"

    def get(self, suffix: str, **call: Unpack[CallOptions]) -> object:
        return self.transport.json("GET", self.path(suffix), **call)

    def post(self, suffix: str, json: object, **call: Unpack[CallOptions]) -> object:
        return self.transport.json("POST", self.path(suffix), json=json, **call)

    def put(self, suffix: str, json: object, **call: Unpack[CallOptions]) -> object:
        return self.transport.json("PUT", self.path(suffix), json=json, **call)

    def delete(self, suffix: str, **call: Unpack[CallOptions]) -> object:
        return self.transport.json("DELETE", self.path(suffix), **call)


def sandbox_remote(transport: Transport, id_or_name: str) -> Remote:
    return Remote(transport, f"/v1/sandboxes/{segment(id_or_name)}")
