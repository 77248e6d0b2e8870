# Made by test/support/print-python.ts from _async/sessions.py: change that file.
"""Session tokens of a sandbox: what web pages and other programs are given in place of an API key."""

from __future__ import annotations

from typing import List

from ..inputs import CreateSession
from ..options import RequestOptions, Unpack
from ..answers import NewSession, Session
from ..wire import answer_of, arguments, list_of, segment
from .remote import Remote


class Sessions:
    """Session tokens of a sandbox. Made where the API key is, and used with ``Sandbox.from_session``.

    session = sandbox.sessions.create(origins=["https://app.example"], scopes=["exec", "files"])
    print(session["expiresAt"])  # send all of it to the page
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def create(self, **fields: Unpack[CreateSession]) -> NewSession:
        """The answer is the only place that shows the token. Does not wake the sandbox.

        ``name``: whose page it is, what it is for. ``scopes``: what the token is good for; ``exec``, ``files`` and
        ``interpreter`` unless given. ``origins``: pages that may use it, by their exact origins; none unless given.
        ``servers``: whether servers may use it, which send no origin; unless given, only where there are no origins.
        ``ttl_seconds``: 60 to 86 400; 900 unless given, and no later than the key that makes it. Raises
        InvalidRequestError for what is wrong with them, and ConflictError ``quota_exceeded``: a sandbox has at most 1000
        that are active.
        """
        body, request = arguments(CreateSession, fields)
        return answer_of(NewSession, self._remote.post("/sessions", body, **request))

    def list(self, **request: Unpack[RequestOptions]) -> List[Session]:
        """The newest first; those that are over are there for another 7 days."""
        return list_of(Session, self._remote.get("/sessions", **request))

    def revoke(self, id: str, **request: Unpack[RequestOptions]) -> Session:
        """End it at once, open connections too. Raises NotFoundError ``session_not_found``."""
        return answer_of(Session, self._remote.post(f"/sessions/{segment(id)}:revoke", {}, **request))
