"""What goes on at once in the asynchronous half, and connections that go both ways at once. ``_sync`` has its like."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Any, Awaitable, Callable, Coroutine, Optional, Set, TypeVar

T = TypeVar("T")
#: No piece that is received is longer, bytes.
PIECE_BYTES = 65_536
#: What may wait for the other side to read it, bytes; one that is so far behind is given up.
UNSENT_BYTES = 16 * 1_048_576


class AsyncMonitor:
    """State that several use: it is read and changed within ``with``, and whoever waits there is told of changes.

    Tasks change it between two awaits anyway; threads need its lock.
    """

    def __init__(self) -> None:
        self._waiting: Set[asyncio.Future[None]] = set()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def tell(self) -> None:
        """Something has changed."""
        for one in self._waiting:
            if not one.done():
                one.set_result(None)

    async def wait(self, seconds: Optional[float] = None) -> None:
        """Until something changes, or for so long; others may change it meanwhile."""
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, settle, news)
        self._waiting.add(news)
        try:
            await news
        finally:
            self._waiting.discard(news)
            if timer is not None:
                timer.cancel()


def settle(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


#: A loop itself knows its tasks only as long as somebody else does.
running: Set[asyncio.Task[None]] = set()


def in_background(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Do ``work`` next to what goes on here. What it raises is nobody's."""
    task = asyncio.get_running_loop().create_task(work())
    running.add(task)
    task.add_done_callback(running.discard)


class AsyncChannel:
    """A connection for bytes both ways at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, seconds: Optional[float] = None) -> bytes:
        """The next bytes; none at the end. Raises OSError for a cut, TimeoutError when none came for so long."""
        return await limited(self._reader.read(PIECE_BYTES), seconds)

    def send(self, data: bytes) -> None:
        """Send when it is their turn; on a connection that has ended they are lost."""
        if self._writer.transport.get_write_buffer_size() > UNSENT_BYTES:
            self.reset()
        if not self._writer.is_closing():
            self._writer.write(data)

    async def write(self, data: bytes) -> None:
        """Send, and wait while the other side is behind. Raises OSError for a cut."""
        self.send(data)
        await self._writer.drain()

    def end(self) -> None:
        """No more from here; the other direction goes on."""
        if self._writer.can_write_eof() and not self._writer.is_closing():
            self._writer.write_eof()

    def close(self) -> None:
        """End it once what was sent is out."""
        self._writer.close()

    def reset(self) -> None:
        """End it at once, and so that the other side takes it for no good end."""
        sock: Optional[socket.socket] = self._writer.get_extra_info("socket")
        if sock is not None and not self._writer.is_closing():
            try:
                linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            except OSError:
                pass
        self._writer.transport.abort()


class AsyncListener:
    """A port of this machine."""

    def __init__(self, server: asyncio.AbstractServer, address: str, port: int) -> None:
        self._server = server
        self.address = address
        self.port = port

    async def aclose(self) -> None:
        """Take no more connections; those that are there go on."""
        self._server.close()


async def listen(
    address: str, port: int, take: Callable[[AsyncChannel], Coroutine[Any, Any, None]]
) -> AsyncListener:
    """Open a port of this machine, 0 for a free one; each connection is given to ``take``. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    # One address alone, as a free port of a second one would be another.
    family, kind, proto, _, at = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(at)

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await take(AsyncChannel(reader, writer))

        server = await asyncio.start_server(accepted, sock=sock)
    except BaseException:
        sock.close()
        raise
    return AsyncListener(server, sock.getsockname()[0], sock.getsockname()[1])


async def limited(work: Awaitable[T], seconds: Optional[float]) -> T:
    """At most so many seconds. Raises TimeoutError."""
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError as fault:
        # Not the same class before Python 3.11.
        raise TimeoutError("no answer in time") from fault
    except ValueError as fault:
        raise OSError(f"no answer of HTTP: {fault}") from fault
