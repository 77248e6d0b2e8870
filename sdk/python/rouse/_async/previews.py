"""Opening ports of a sandbox to people who have no API key."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict

from ..options import RequestOptions, Time, Unpack
from ..answers import Preview
from ..wire import answer_of, given, list_of, time_text
from .remote import AsyncRemote


class DeletedPreview(TypedDict):
    id: str
    sandboxId: str
    port: int
    deleted: Literal[True]


class AsyncPreviews:
    """Links to ports.

    print(sandbox.previews.create(3000, ttl_seconds=3600)["urlWithToken"])
    """

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def create(
        self,
        port: int,
        *,
        visibility: Optional[Literal["private", "public"]] = None,
        ttl_seconds: Optional[int] = None,
        expires_at: Optional[Time] = None,
        **request: Unpack[RequestOptions],
    ) -> Preview:
        """Open a port, or change how it is open.

        ``private`` (default) needs the token; ``public`` opens the port to everybody. The token ends after ``ttl_seconds``,
        60 to 604 800, a day unless given, or at ``expires_at``. Raises InvalidRequestError ``invalid_port``.
        """
        body = given(port=port, visibility=visibility, ttl_seconds=ttl_seconds, expires_at=expires_at)
        return answer_of(Preview, await self._remote.post("/previews", body, **request))

    async def list(self, **request: Unpack[RequestOptions]) -> List[Preview]:
        return list_of(Preview, await self._remote.get("/previews", **request))

    async def get(
        self,
        port: int,
        *,
        ttl_seconds: Optional[int] = None,
        expires_at: Optional[Time] = None,
        **request: Unpack[RequestOptions],
    ) -> Preview:
        """The preview of a port with a fresh token. Raises NotFoundError ``not_found`` when it was never opened."""
        query: Dict[str, Any] = {"ttlSeconds": ttl_seconds, "expiresAt": time_text(expires_at)}
        return answer_of(Preview, await self._remote.get(f"/previews/{port}", query=query, **request))

    async def rotate(self, port: int, **request: Unpack[RequestOptions]) -> Preview:
        """End all tokens of a port, and answer a new one."""
        return answer_of(Preview, await self._remote.post(f"/previews/{port}:rotate", None, **request))

    async def delete(self, port: int, **request: Unpack[RequestOptions]) -> DeletedPreview:
        """Close a port again: API keys still reach it, tokens do not."""
        return answer_of(DeletedPreview, await self._remote.delete(f"/previews/{port}", **request))
