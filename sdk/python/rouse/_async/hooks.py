"""The webhook inbox of a sandbox: URLs that take webhooks while it sleeps, and the events that came in."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..inputs import CreateHook, RotateHook, UpdateHook
from ..options import RequestOptions, Unpack
from ..answers import DeletedHook, Hook, HookEvent, NewHook
from ..wire import answer_of, arguments, field_of, identified, list_of, named
from .page import AsyncPage, page_of
from .remote import AsyncRemote


class AsyncHooks:
    """Webhooks for a program in the sandbox. A hook is named by its id or name.

    Each webhook is verified, stored and acknowledged while the sandbox sleeps, and then delivered to a port of it, in
    order and at least once.

        hook = sandbox.hooks.create(name="github", provider="github", port=3000, path="/github")
        print(hook["url"], hook["secret"])  # for the provider; shown this once
    """

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote
        #: What came in.
        self.events = AsyncHookEvents(remote)

    async def create(self, **fields: Unpack[CreateHook]) -> NewHook:
        """Make a hook.

        Its ``url``, the ``secret`` that was made for it, and the ``deliverySecret`` that deliveries are signed with
        (Standard Webhooks) are in this answer only. Raises ConflictError ``name_taken``, ``quota_exceeded``, and
        InvalidRequestError ``invalid_request``; ``stripe``, ``slack`` and ``discord`` need their ``secret``.
        """
        body, request = arguments(CreateHook, fields)
        return answer_of(NewHook, await self._remote.post("/hooks", body, **request))

    async def list(self, **request: Unpack[RequestOptions]) -> List[Hook]:
        """The oldest first."""
        return list_of(Hook, await self._remote.get("/hooks", **request))

    async def get(self, hook: str, **request: Unpack[RequestOptions]) -> Hook:
        """Raises NotFoundError ``hook_not_found``."""
        return answer_of(Hook, await self._remote.get(path_of(hook), **request))

    async def update(self, hook: str, **changes: Unpack[UpdateHook]) -> Hook:
        body, request = arguments(UpdateHook, changes)
        return answer_of(Hook, await self._remote.post(path_of(hook, ":update"), body, **request))

    async def rotate(self, hook: str, **fields: Unpack[RotateHook]) -> NewHook:
        """Replace its secret: the one before counts for ``overlap_seconds`` more, a day unless given.

        With ``what`` its delivery secret, or its URL, of which the one before ends at once. What is new is in this answer
        only.
        """
        body, request = arguments(RotateHook, fields)
        return answer_of(NewHook, await self._remote.post(path_of(hook, ":rotate"), body, **request))

    async def delete(self, hook: str, **request: Unpack[RequestOptions]) -> DeletedHook:
        """Delete it with its events."""
        return answer_of(DeletedHook, await self._remote.delete(path_of(hook), **request))

    async def replay_dead(self, hook: str, **request: Unpack[RequestOptions]) -> int:
        """Deliver all of its events that were given up again. Answers how many."""
        return field_of(await self._remote.post(path_of(hook, ":replay-dead"), {}, **request), "replayed", int)


class AsyncHookEvents:
    """Events of all hooks of a sandbox, kept for 7 days after they ended, 30 when they were given up."""

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def list(
        self,
        *,
        hook_id: Optional[str] = None,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> AsyncPage[HookEvent]:
        """The events that match, newest first, page by page. ``limit``: per page, 1 to 100."""
        query: Dict[str, Any] = {"hookId": hook_id, "state": state, "limit": limit}
        path = self._remote.path("/hook-events")
        return await page_of(self._remote.transport, path, query, request, lambda one: answer_of(HookEvent, one))

    async def get(self, id: str, *, body: bool = False, **request: Unpack[RequestOptions]) -> HookEvent:
        """An event with its timeline, and with its ``body``: as text, or in base64 where it is not UTF-8.

        Raises NotFoundError ``hook_event_not_found``.
        """
        query = {"body": "1" if body else None}
        return answer_of(HookEvent, await self._remote.get(event_path(id), query=query, **request))

    async def replay(self, id: str, **request: Unpack[RequestOptions]) -> HookEvent:
        """Deliver an event again, under the same ``webhook-id``.

        Raises ConflictError ``conflict`` for one that no filter let pass: its body was not kept.
        """
        return answer_of(HookEvent, await self._remote.post(event_path(id, ":replay"), {}, **request))


def path_of(hook: str, verb: str = "") -> str:
    return f"/hooks/{named(hook, 'id or name of a hook')}{verb}"


def event_path(id: str, verb: str = "") -> str:
    return f"/hook-events/{identified(id, 'evt-', 'the id of an event')}{verb}"
