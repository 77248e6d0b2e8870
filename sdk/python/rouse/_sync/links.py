# Made by test/support/print-python.ts from _async/links.py: change that file.
"""Share links: one port of a sandbox, below a path, for people without a key."""

from __future__ import annotations

from typing import List

from ..inputs import CreateLink
from ..options import RequestOptions, Unpack
from ..answers import Link
from ..wire import answer_of, arguments, list_of, segment
from .remote import Remote


class Links:
    """Share links of a sandbox.

    link = sandbox.links.create(name="for Ada", path="/report", ttl_seconds=86_400)
    print(link["urlWithToken"])
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def create(self, **fields: Unpack[CreateLink]) -> Link:
        """The answer is the only place that shows the token.

        ``name``: whom it was given to, what it is for. ``port``: the sandbox's default one unless given. ``path``: it opens
        this and what is below it; everything unless given. ``ttl_seconds`` 60 to 31 536 000, a week unless given, or
        ``expires_at``. ``wake``: whether it may wake the sandbox; it may unless given. Raises InvalidRequestError
        ``invalid_port``, or what is wrong with the path or the time.
        """
        body, request = arguments(CreateLink, fields)
        return answer_of(Link, self._remote.post("/links", body, **request))

    def list(self, **request: Unpack[RequestOptions]) -> List[Link]:
        """The newest first; those that are over are there for another 30 days."""
        return list_of(Link, self._remote.get("/links", **request))

    def get(self, id: str, **request: Unpack[RequestOptions]) -> Link:
        """With its newest uses. Raises NotFoundError ``link_not_found``."""
        return answer_of(Link, self._remote.get(f"/links/{segment(id)}", **request))

    def revoke(self, id: str, **request: Unpack[RequestOptions]) -> Link:
        """End it at once, open connections too. Raises NotFoundError ``link_not_found``."""
        return answer_of(Link, self._remote.delete(f"/links/{segment(id)}", **request))
