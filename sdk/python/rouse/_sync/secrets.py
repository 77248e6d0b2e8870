# Made by test/support/print-python.ts from _async/secrets.py: change that file.
"""Secrets, of an account and of a sandbox: stored, put to use, and never read back."""

from __future__ import annotations

from typing import List

from ..inputs import PutSecret
from ..options import RequestOptions, Unpack
from ..answers import DeletedSecret, Sandbox, Secret, StoredSecret
from ..wire import answer_of, arguments, list_of, named
from .remote import Remote
from .transport import Transport


class Secrets:
    """Secrets of the account. A sandbox has those that it names (``secrets`` of ``create`` and ``update``).

    A change reaches running sandboxes at once, others at their wake.

        rouse.secrets.set("anthropic", value=key, provider="anthropic")
        agent = Sandbox.create(name="agent", secrets=["anthropic"])
        # Its programs call api.anthropic.com without a key; the host puts it in.
    """

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = path

    def set(self, name: str, **secret: Unpack[PutSecret]) -> StoredSecret:
        """Store a secret, or put another in the place of the one of that name. All of it is given each time.

        Raises InvalidRequestError ``invalid_request`` with every fault in ``details["issues"]``, and ConflictError
        ``quota_exceeded``: an account has at most 100, a sandbox 16 of its own.
        """
        body, request = arguments(PutSecret, secret)
        return answer_of(StoredSecret, self._transport.json("PUT", self._path_of(name), json=body, **request))

    def list(self, **request: Unpack[RequestOptions]) -> List[Secret]:
        """By name; all but the values."""
        return list_of(Secret, self._transport.json("GET", self._path, **request))

    def get(self, name: str, **request: Unpack[RequestOptions]) -> Secret:
        """All but its value. Raises NotFoundError ``secret_not_found``."""
        return answer_of(Secret, self._transport.json("GET", self._path_of(name), **request))

    def delete(self, name: str, **request: Unpack[RequestOptions]) -> DeletedSecret:
        """Running sandboxes lose it at once. Raises NotFoundError ``secret_not_found``."""
        return answer_of(DeletedSecret, self._transport.json("DELETE", self._path_of(name), **request))

    def _path_of(self, name: str) -> str:
        return f"{self._path}/{named(name, 'name of a secret')}"


class SandboxSecrets(Secrets):
    """Secrets of one sandbox: its own, which it has by themselves, and those of the account that it is given."""

    def __init__(self, remote: Remote) -> None:
        super().__init__(remote.transport, remote.path("/secrets"))
        self._remote = remote

    def attached(self, **request: Unpack[RequestOptions]) -> List[str]:
        """Names of the account's secrets that it has."""
        return answer_of(Sandbox, self._remote.get("", **request)).get("secrets") or []

    def attach(self, *names: str) -> List[str]:
        """Give it secrets of the account, besides those that it has.

        What somebody else changes in the same moment may be lost. Raises NotFoundError ``secret_not_found``.
        """
        return self._set_all(list(dict.fromkeys([*self.attached(), *names])))

    def detach(self, *names: str) -> List[str]:
        """Take secrets of the account away from it."""
        return self._set_all([name for name in self.attached() if name not in names])

    def _set_all(self, names: List[str]) -> List[str]:
        return answer_of(Sandbox, self._remote.post(":update", {"secrets": names})).get("secrets") or []
