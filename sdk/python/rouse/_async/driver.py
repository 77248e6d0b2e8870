"""What waits in the asynchronous half: connections, sleep, and work that goes on at once. ``_sync`` has its like.

The client of HTTP/1.1 is on asyncio's streams: calls in threads would be bounded by their number, while each output that
is followed takes one for as long as it goes on, and nothing could end them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from dataclasses import dataclass
from typing import AsyncIterable, AsyncIterator, Awaitable, Callable, Dict, IO, Iterable, List, Mapping, Optional
from typing import Tuple, TypeVar, Union, cast
from urllib.parse import urlsplit

from ..deadline import Deadline
from .channels import AsyncChannel, limited

T = TypeVar("T")
Origin = Tuple[str, str, int]
#: What a task is ended by from outside.
CANCELLED = asyncio.CancelledError
#: A connection that rested for longer is not used again: the server may be about to end it, seconds.
IDLE_SECONDS = 4.0
IDLE_MAX = 32
CHUNK_BYTES = 65_536
#: Longest line of headers, bytes.
LINE_MAX = 262_144

#: What can be streamed into a file.
AsyncStreamSource = Union[AsyncIterable[Union[bytes, str]], Iterable[Union[bytes, str]], IO[bytes]]


class AsyncLock:
    """One at a time."""

    def __init__(self) -> None:
        self._lock: Optional[asyncio.Lock] = None

    async def __aenter__(self) -> None:
        # Made by the loop that first needs it.
        self._lock = self._lock or asyncio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def blocking(work: Callable[[], T]) -> T:
    """Do what waits for a disk."""
    return await asyncio.to_thread(work)


async def in_parallel(items: Iterable[T], limit: int, work: Callable[[T], Awaitable[None]]) -> None:
    """Do ``work`` for every item, at most ``limit`` at once; the first failure stops what has not begun."""
    queue = iter(items)
    has_failed = False

    async def worker() -> None:
        nonlocal has_failed
        for item in queue:
            if has_failed:
                return
            try:
                await work(item)
            except BaseException:
                has_failed = True
                raise

    results = await asyncio.gather(*(worker() for _ in range(limit)), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def pieces_of(source: AsyncStreamSource) -> AsyncIterator[bytes]:
    """A stream in the pieces that it has."""
    read = getattr(source, "read", None)
    if read is not None:
        while True:
            piece = cast(bytes, await asyncio.to_thread(read, CHUNK_BYTES))
            if not piece:
                return
            yield bytes(piece)
    if isinstance(source, AsyncIterable):
        async for one in source:
            yield one.encode() if isinstance(one, str) else bytes(one)
        return
    for one in source:
        yield one.encode() if isinstance(one, str) else bytes(one)


class Connection:
    """One connection; requests on it come one after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.loop = asyncio.get_running_loop()

    def close(self) -> None:
        if not self.loop.is_closed():
            self.writer.close()


@dataclass(frozen=True)
class AsyncUpgrade:
    """The answer to a request for another protocol."""

    status: int
    #: Names in lower case.
    headers: Dict[str, str]
    #: Of a refusal.
    body: bytes
    #: With status 101.
    channel: Optional[AsyncChannel]


class AsyncResponse:
    """An answer whose body is still to be read."""

    def __init__(
        self,
        pool: AsyncPool,
        origin: Origin,
        connection: Connection,
        status: int,
        headers: Dict[str, str],
        head: bool,
        stays: bool,
    ) -> None:
        self._pool = pool
        self._origin = origin
        self._connection = connection
        self.status = status
        #: Names in lower case.
        self.headers = headers
        self._stays = stays and headers.get("connection", "").lower() != "close" and status != 101
        self._is_over = False
        #: Bytes left: of the body, or of the chunk; None until the connection ends.
        self._left: Optional[int] = None
        self._is_chunked = False
        if head or status in (101, 204, 304):
            self._left = 0
        elif "chunked" in headers.get("transfer-encoding", "").lower():
            self._is_chunked = True
            self._left = 0
        elif "content-length" in headers:
            self._left = int(headers["content-length"])

    async def chunk(self, deadline: Deadline) -> bytes:
        """The next bytes; none at the end. Raises OSError for a cut, TimeoutError at the deadline."""
        if self._is_over:
            return b""
        try:
            seconds = deadline.left()
            return await limited(self._next(), seconds)
        except BaseException:
            self._close()
            raise

    async def read(self, deadline: Deadline) -> bytes:
        """All that is left."""
        chunks: List[bytes] = []
        while True:
            chunk = await self.chunk(deadline)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)

    async def aclose(self) -> None:
        """End the connection, unless the body was read whole."""
        self._close()

    def channel(self) -> AsyncChannel:
        """The connection itself, for another protocol."""
        self._is_over = True
        return AsyncChannel(self._connection.reader, self._connection.writer)

    def _close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._connection.close()

    async def _next(self) -> bytes:
        reader = self._connection.reader
        if self._left == 0 and self._is_chunked:
            size = (await line(reader)).split(b";")[0].strip()
            self._left = int(size, 16)
            if self._left == 0:
                while await line(reader):
                    pass
                return self._end()
        elif self._left == 0:
            return self._end()
        data = await reader.read(CHUNK_BYTES if self._left is None else min(CHUNK_BYTES, self._left))
        if not data:
            if self._left is not None:
                raise OSError("the body was cut")
            self._stays = False
            return self._end()
        if self._left is not None:
            self._left -= len(data)
        if self._is_chunked and self._left == 0:
            await line(reader)
        return data

    def _end(self) -> bytes:
        self._is_over = True
        if self._stays:
            self._pool.take_back(self._origin, self._connection)
        else:
            self._connection.close()
        return b""


class AsyncPool:
    """Connections that are kept for the next request. Tasks may share it."""

    def __init__(self) -> None:
        self._idle: Dict[Origin, List[Tuple[float, Connection]]] = {}
        self._tls: Optional[ssl.SSLContext] = None

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes], seconds: Optional[float]
    ) -> AsyncResponse:
        """Send a request and wait for the headers of its answer. Raises OSError, of which TimeoutError is one."""
        return await limited(self._request(method, url, headers, body), seconds)

    async def upgrade(self, url: str, headers: Mapping[str, str], seconds: Optional[float]) -> AsyncUpgrade:
        """Ask for another protocol. Raises OSError, of which TimeoutError is one."""
        return await limited(self._upgrade(url, headers), seconds)

    def take_back(self, origin: Origin, connection: Connection) -> None:
        resting = self._idle.setdefault(origin, [])
        if len(resting) >= IDLE_MAX:
            connection.close()
            return
        resting.append((time.monotonic(), connection))
        connection.loop.call_later(IDLE_SECONDS, self._let_go, origin, connection)

    async def aclose(self) -> None:
        """End what rests."""
        resting = [one for each in self._idle.values() for one in each]
        self._idle.clear()
        for _, connection in resting:
            connection.close()
        # Transports end in the next turn of the loop.
        await asyncio.sleep(0)

    def _let_go(self, origin: Origin, connection: Connection) -> None:
        now = time.monotonic()
        resting = self._idle.get(origin, [])
        for one in [one for one in resting if one[1] is connection and now - one[0] >= IDLE_SECONDS]:
            resting.remove(one)
            connection.close()

    async def _upgrade(self, url: str, headers: Mapping[str, str]) -> AsyncUpgrade:
        # On a connection of its own: where an upgrade is refused, many a server ends it.
        response = await self._request("GET", url, headers, None, is_alone=True)
        if response.status == 101:
            return AsyncUpgrade(101, response.headers, b"", response.channel())
        return AsyncUpgrade(response.status, response.headers, await response.read(Deadline(0)), None)

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes], is_alone: bool = False
    ) -> AsyncResponse:
        parts = urlsplit(url)
        origin = (parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        named = {"host": parts.netloc.rpartition("@")[2], **{name.lower(): value for name, value in headers.items()}}
        if body is not None or method in ("POST", "PUT", "PATCH"):
            named["content-length"] = str(len(body or b""))
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        if any(mark in f"{method}{target}{''.join(named.values())}" for mark in "\r\n"):
            raise ValueError("a header or path has a line end")
        connection = (None if is_alone else self._idle_one(origin)) or await self._new(origin)
        try:
            writer = connection.writer
            writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b""))
            try:
                await writer.drain()
            except (BrokenPipeError, ConnectionResetError):
                # A server may answer, and end the connection, before it has read all of a body.
                if body is None:
                    raise
            status, found = await answer_head(connection.reader)
            return AsyncResponse(self, origin, connection, status, found, method == "HEAD", not is_alone)
        except BaseException:
            connection.close()
            raise

    def _idle_one(self, origin: Origin) -> Optional[Connection]:
        resting = self._idle.get(origin, [])
        while resting:
            since, connection = resting.pop()
            fresh = time.monotonic() - since < IDLE_SECONDS
            # One of a loop that has ended can't be used in another.
            ours = connection.loop is asyncio.get_running_loop()
            if fresh and ours and not connection.reader.at_eof() and not connection.writer.is_closing():
                return connection
            connection.close()
        return None

    async def _new(self, origin: Origin) -> Connection:
        scheme, host, port = origin
        if scheme == "https":
            self._tls = self._tls or ssl.create_default_context()
        tls = self._tls if scheme == "https" else None
        reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=LINE_MAX)
        sock: Optional[socket.socket] = writer.get_extra_info("socket")
        if sock is not None:
            try:
                # A peer that is gone is noticed. That small requests leave at once is asyncio's way.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            except OSError:
                pass
        return Connection(reader, writer)


async def answer_head(reader: asyncio.StreamReader) -> Tuple[int, Dict[str, str]]:
    """Status and headers; those that say "go on" are passed over, but for another protocol's."""
    while True:
        first = (await line(reader)).split(b" ", 2)
        if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
            raise OSError("no answer of HTTP")
        status = int(first[1])
        headers: Dict[str, str] = {} if first[0] == b"HTTP/1.1" else {"connection": "close"}
        while True:
            field = await line(reader)
            if not field:
                break
            name, _, value = field.partition(b":")
            headers[name.decode("latin-1").strip().lower()] = value.decode("latin-1").strip()
        if status >= 200 or status == 101:
            return status, headers


async def line(reader: asyncio.StreamReader) -> bytes:
    """One line without its end."""
    try:
        return (await reader.readuntil(b"\n")).rstrip(b"\r\n")
    except asyncio.IncompleteReadError as fault:
        raise ConnectionResetError("the connection was cut") from fault
    except asyncio.LimitOverrunError as fault:
        raise OSError("a line of the answer is too long") from fault


async def items_of(source: Union[Iterable[T], AsyncIterable[T]]) -> AsyncIterator[T]:
    """One after another."""
    if isinstance(source, AsyncIterable):
        async for one in source:
            yield one
        return
    for item in source:
        yield item
