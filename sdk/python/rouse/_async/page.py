"""One page of a list, and the way to the next."""

from __future__ import annotations

from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Generic, List, Mapping, Optional, TypeVar

from ..errors import unexpected_answer
from ..options import RequestOptions
from ..wire import items_of
from .transport import AsyncTransport, mapping

T = TypeVar("T")


class AsyncPage(Generic[T]):
    """Iterate over it for all items from this page on; later pages are fetched when they are reached."""

    def __init__(self, data: List[T], fetch_next: Optional[Callable[[], Awaitable[AsyncPage[T]]]]) -> None:
        #: The items of this page.
        self.data = data
        #: Whether there is a next page.
        self.has_more = fetch_next is not None
        self._fetch_next = fetch_next

    async def next(self) -> Optional[AsyncPage[T]]:
        """The next page, or None after the last."""
        return None if self._fetch_next is None else await self._fetch_next()

    async def to_list(self) -> List[T]:
        """All items from this page on."""
        return [item async for item in self]

    async def __aiter__(self) -> AsyncIterator[T]:
        page: Optional[AsyncPage[T]] = self
        while page is not None:
            for item in page.data:
                yield item
            page = await page.next()


async def page_of(
    transport: AsyncTransport,
    path: str,
    query: Mapping[str, Any],
    request: RequestOptions,
    made: Callable[[object], T],
) -> AsyncPage[T]:
    """A list that the server answers page by page; ``made`` makes an item of it."""
    answer = await transport.json("GET", path, query=query, **request)
    cursor = mapping(answer).get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        raise unexpected_answer("nextCursor is no text")
    later: Dict[str, Any] = {**query, "cursor": cursor}

    async def fetch_next() -> AsyncPage[T]:
        return await page_of(transport, path, later, request, made)

    data = [made(one) for one in items_of(answer)]
    return AsyncPage(data, None if cursor is None else fetch_next)
