"""Endpoints of an account: URLs that its events are sent to, and what became of each delivery."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional

from ..inputs import CreateEventEndpoint, RotateEventEndpoint, UpdateEventEndpoint
from ..options import RequestOptions, Time, Unpack
from ..answers import DeletedEventEndpoint, EventDelivery, EventEndpoint, NewEventEndpoint
from ..wire import answer_of, arguments, field_of, given, identified, list_of, segment
from .page import AsyncPage, page_of
from .transport import AsyncTransport

PATH = "/v1/event-endpoints"


class AsyncEventEndpoints:
    """URLs that events are sent to, signed (Standard Webhooks), of each sandbox in order, at least once.

    ``verify_webhook`` is for whoever receives them.

        made = rouse.event_endpoints.create(url="https://example.com/rouse", events=["sandbox.*"])
        print(made["id"], made["secret"])
    """

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, **fields: Unpack[CreateEventEndpoint]) -> NewEventEndpoint:
        """Make an endpoint; it gets all events unless ``events`` or ``sandboxes`` say otherwise.

        Its secret is in this answer only. Raises InvalidRequestError ``invalid_request`` for a URL that is not sent to;
        details say why. Raises ConflictError ``quota_exceeded``: an account has at most 20.
        """
        body, request = arguments(CreateEventEndpoint, fields)
        return answer_of(NewEventEndpoint, await self._post("", body, request))

    async def list(self, **request: Unpack[RequestOptions]) -> List[EventEndpoint]:
        """The oldest first."""
        return list_of(EventEndpoint, await self._transport.json("GET", PATH, **request))

    async def get(self, id: str, **request: Unpack[RequestOptions]) -> EventEndpoint:
        """Raises NotFoundError ``event_endpoint_not_found``."""
        return answer_of(EventEndpoint, await self._transport.json("GET", f"{PATH}{path_of(id)}", **request))

    async def update(self, id: str, **changes: Unpack[UpdateEventEndpoint]) -> EventEndpoint:
        """Change where it is or what it gets. What waits is given up when it is turned off, and can be sent again later."""
        body, request = arguments(UpdateEventEndpoint, changes)
        return answer_of(EventEndpoint, await self._post(f"{path_of(id)}:update", body, request))

    async def rotate(self, id: str, **fields: Unpack[RotateEventEndpoint]) -> NewEventEndpoint:
        """Replace its secret; both sign for ``overlap_seconds`` more, a day unless given. The new one is in this answer only."""
        body, request = arguments(RotateEventEndpoint, fields)
        return answer_of(NewEventEndpoint, await self._post(f"{path_of(id)}:rotate", body, request))

    async def test(self, id: str, **request: Unpack[RequestOptions]) -> EventDelivery:
        """Send it an event of the type ``endpoint.test``. Answers after the first try, with what it answered."""
        return answer_of(EventDelivery, await self._post(f"{path_of(id)}:test", {}, request))

    async def delete(self, id: str, **request: Unpack[RequestOptions]) -> DeletedEventEndpoint:
        """Delete it with its deliveries."""
        answer = await self._transport.json("DELETE", f"{PATH}{path_of(id)}", **request)
        return answer_of(DeletedEventEndpoint, answer)

    async def deliveries(
        self,
        id: str,
        *,
        state: Optional[Literal["waiting", "delivered", "dead"]] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> AsyncPage[EventDelivery]:
        """Its deliveries that match, the newest first, page by page. ``limit``: per page, 1 to 100; 50 unless given."""
        path = f"{PATH}{path_of(id)}/deliveries"
        query: Dict[str, Any] = {"state": state, "limit": limit}
        return await page_of(self._transport, path, query, request, lambda one: answer_of(EventDelivery, one))

    async def delivery(self, id: str, delivery: str, **request: Unpack[RequestOptions]) -> EventDelivery:
        """A delivery with its event. Raises NotFoundError ``event_delivery_not_found``."""
        path = f"{PATH}{path_of(id)}/deliveries/{segment(delivery)}"
        return answer_of(EventDelivery, await self._transport.json("GET", path, **request))

    async def redeliver(self, id: str, delivery: str, **request: Unpack[RequestOptions]) -> EventDelivery:
        """Send one again, under the same event id. Raises ConflictError ``conflict`` while the endpoint is off."""
        path = f"{path_of(id)}/deliveries/{segment(delivery)}:redeliver"
        return answer_of(EventDelivery, await self._post(path, {}, request))

    async def redeliver_dead(
        self, id: str, *, since: Optional[Time] = None, **request: Unpack[RequestOptions]
    ) -> int:
        """Send all that was given up, since a time, again, 10,000 at most at once. Answers how many."""
        answer = await self._post(f"{path_of(id)}:redeliver", given(since=since), request)
        return field_of(answer, "redelivered", int)

    async def _post(self, path: str, body: object, request: RequestOptions) -> object:
        return await self._transport.json("POST", f"{PATH}{path}", json=body, **request)


def path_of(id: str) -> str:
    return f"/{identified(id, 'ep-', 'the id of an event endpoint')}"
