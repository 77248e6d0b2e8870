"""What waits in the synchronous half: connections, sleep, and work that goes on at once. ``_async`` has its like."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Callable, Dict, IO, Iterable, Iterator, List, Mapping, Optional, Tuple, TypeVar, Union, cast
from urllib.parse import urlsplit

from .._async.driver import AsyncPool
from ..deadline import Deadline
from .channels import Channel, on_loop

T = TypeVar("T")
Origin = Tuple[str, str, int]
#: What a program is ended by from outside.
CANCELLED = KeyboardInterrupt
#: A connection that rested for longer is not used again: the server may be about to end it, seconds.
IDLE_SECONDS = 4.0
IDLE_MAX = 32
CHUNK_BYTES = 65_536

#: What can be streamed into a file.
StreamSource = Union[Iterable[Union[bytes, str]], IO[bytes]]


class Lock:
    """One at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def blocking(work: Callable[[], T]) -> T:
    """Do what waits for a disk."""
    return work()


def in_parallel(items: Iterable[T], limit: int, work: Callable[[T], None]) -> None:
    """Do ``work`` for every item, at most ``limit`` at once; the first failure stops what has not begun."""
    with ThreadPoolExecutor(limit) as pool:
        waiting: List[Future[None]] = [pool.submit(work, item) for item in items]
        try:
            done, _ = wait(waiting, return_when=FIRST_EXCEPTION)
        finally:
            for one in waiting:
                one.cancel()
    for one in done:
        one.result()


def pieces_of(source: StreamSource) -> Iterator[bytes]:
    """A stream in the pieces that it has."""
    for piece in source_pieces(source):
        yield piece.encode() if isinstance(piece, str) else bytes(piece)


def source_pieces(source: StreamSource) -> Iterator[Union[bytes, str]]:
    read = getattr(source, "read", None)
    if read is None:
        yield from source
        return
    while True:
        piece: bytes = read(CHUNK_BYTES)
        if not piece:
            return
        yield piece


@dataclass(frozen=True)
class Upgrade:
    """The answer to a request for another protocol."""

    status: int
    #: Names in lower case.
    headers: Dict[str, str]
    #: Of a refusal.
    body: bytes
    #: With status 101.
    channel: Optional[Channel]


class Response:
    """An answer whose body is still to be read."""

    def __init__(self, pool: Pool, origin: Origin, connection: http.client.HTTPConnection, sock: socket.socket) -> None:
        self._pool = pool
        self._origin = origin
        self._connection = connection
        self._sock = sock
        self._raw = connection.getresponse()
        self.status = self._raw.status
        #: Names in lower case.
        self.headers: Dict[str, str] = {}
        for name, value in self._raw.getheaders():
            self.headers[name.lower()] = value
        self._left = self._raw.length
        self._is_over = False

    def chunk(self, deadline: Deadline) -> bytes:
        """The next bytes; none at the end. Raises OSError for a cut, TimeoutError at the deadline."""
        if self._is_over:
            return b""
        if self._left == 0:
            return self._end()
        try:
            self._sock.settimeout(deadline.left())
            data = self._raw.read1(CHUNK_BYTES if self._left is None else min(CHUNK_BYTES, self._left))
        except http.client.HTTPException as fault:
            self.close()
            raise OSError(f"the body was cut: {type(fault).__name__}") from fault
        except BaseException:
            self.close()
            raise
        if not data:
            if self._left is not None:
                self.close()
                raise OSError("the body was cut")
            return self._end()
        if self._left is not None:
            self._left -= len(data)
        return data

    def read(self, deadline: Deadline) -> bytes:
        """All that is left."""
        chunks: List[bytes] = []
        while True:
            chunk = self.chunk(deadline)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)

    def close(self) -> None:
        """End the connection, unless the body was read whole."""
        if not self._is_over:
            self._is_over = True
            # Another thread may be waiting for this one's bytes.
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self._raw.close()
            self._connection.close()

    def _end(self) -> bytes:
        self._is_over = True
        self._raw.close()
        if self._raw.will_close:
            self._connection.close()
        else:
            self._pool.take_back(self._origin, self._connection)
        return b""


class Pool:
    """Connections that are kept for the next request. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: Dict[Origin, List[Tuple[float, http.client.HTTPConnection]]] = {}
        self._tls: Optional[ssl.SSLContext] = None
        self._upgrading = AsyncPool()

    def request(
        self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes], seconds: Optional[float]
    ) -> Response:
        """Send a request and wait for the headers of its answer. Raises OSError, of which TimeoutError is one."""
        parts = urlsplit(url)
        origin = (parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = self._idle_one(origin) or self._new(origin)
        try:
            connection.timeout = seconds
            if connection.sock is None:
                connection.connect()
            sock = cast(socket.socket, connection.sock)
            tune(sock)
            sock.settimeout(seconds)
            try:
                connection.request(method, target, body, dict(headers))
            except (BrokenPipeError, ConnectionResetError):
                # A server may answer, and end the connection, before it has read all of a body.
                if body is None:
                    raise
            return Response(self, origin, connection, sock)
        except http.client.HTTPException as fault:
            connection.close()
            raise OSError(f"no answer of HTTP: {type(fault).__name__}") from fault
        except BaseException:
            connection.close()
            raise

    def upgrade(self, url: str, headers: Mapping[str, str], seconds: Optional[float]) -> Upgrade:
        """Ask for another protocol. Raises OSError, of which TimeoutError is one."""
        found = on_loop(self._upgrading.upgrade(url, headers, seconds))
        channel = None if found.channel is None else Channel(found.channel)
        return Upgrade(found.status, found.headers, found.body, channel)

    def take_back(self, origin: Origin, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            resting = self._idle.setdefault(origin, [])
            if len(resting) < IDLE_MAX:
                resting.append((time.monotonic(), connection))
                return
        connection.close()

    def close(self) -> None:
        """End what rests."""
        with self._lock:
            resting = [one for each in self._idle.values() for one in each]
            self._idle.clear()
        for _, connection in resting:
            connection.close()

    def __del__(self) -> None:
        self.close()

    def _idle_one(self, origin: Origin) -> Optional[http.client.HTTPConnection]:
        while True:
            with self._lock:
                resting = self._idle.get(origin)
                if not resting:
                    return None
                since, connection = resting.pop()
            if time.monotonic() - since < IDLE_SECONDS and not is_readable(connection.sock):
                return connection
            connection.close()

    def _new(self, origin: Origin) -> http.client.HTTPConnection:
        scheme, host, port = origin
        if scheme == "http":
            return http.client.HTTPConnection(host, port)
        with self._lock:
            self._tls = self._tls or ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, context=self._tls)


def is_readable(sock: Optional[socket.socket]) -> bool:
    """A connection that rests has nothing to say but that it ends."""
    if sock is None:
        return True
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN | select.POLLHUP | select.POLLERR)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def tune(sock: socket.socket) -> None:
    """Small requests leave at once, and a peer that is gone is noticed."""
    for level, option in ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE)):
        try:
            sock.setsockopt(level, option, 1)
        except OSError:
            pass


def items_of(source: Iterable[T]) -> Iterator[T]:
    """One after another."""
    yield from source
