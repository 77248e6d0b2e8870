# Made by test/support/print-python.ts from _async/page.py: change that file.
"""One page of a list, and the way to the next."""

from __future__ import annotations

from typing import Any, Callable, Dict, Generic, Iterator, List, Mapping, Optional, TypeVar

from ..errors import unexpected_answer
from ..options import RequestOptions
from ..wire import items_of
from .transport import Transport, mapping

T = TypeVar("T")


class Page(Generic[T]):
    """Iterate over it for all items from this page on; later pages are fetched when they are reached."""

    def __init__(self, data: List[T], fetch_next: Optional[Callable[[], Page[T]]]) -> None:
        #: The items of this page.
        self.data = data
        #: Whether there is a next page.
        self.has_more = fetch_next is not None
        self._fetch_next = fetch_next

    def next(self) -> Optional[Page[T]]:
        """The next page, or None after the last."""
        return None if self._fetch_next is None else self._fetch_next()

    def to_list(self) -> List[T]:
        """All items from this page on."""
        return [item for item in self]

    def __iter__(self) -> Iterator[T]:
        page: Optional[Page[T]] = self
        while page is not None:
            for item in page.data:
                yield item
            page = page.next()


def page_of(
    transport: Transport,
    path: str,
    query: Mapping[str, Any],
    request: RequestOptions,
    made: Callable[[object], T],
) -> Page[T]:
    """A list that the server answers page by page; ``made`` makes an item of it."""
    answer = transport.json("GET", path, query=query, **request)
    cursor = mapping(answer).get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        raise unexpected_answer("nextCursor is no text")
    later: Dict[str, Any] = {**query, "cursor": cursor}

    def fetch_next() -> Page[T]:
        return page_of(transport, path, later, request, made)

    data = [made(one) for one in items_of(answer)]
    return Page(data, None if cursor is None else fetch_next)
