"""What goes on at once in the synchronous half, and connections that go both ways at once. ``_async`` has its like."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any, Callable, Coroutine, Optional, TypeVar

from .._async.channels import AsyncChannel, AsyncListener
from .._async.channels import listen as listen_async

T = TypeVar("T")


class Monitor:
    """State that several use: it is read and changed within ``with``, and whoever waits there is told of changes."""

    def __init__(self) -> None:
        self._condition = threading.Condition()

    def __enter__(self) -> None:
        self._condition.acquire()

    def __exit__(self, *_: object) -> None:
        self._condition.release()

    def tell(self) -> None:
        """Something has changed."""
        self._condition.notify_all()

    def wait(self, seconds: Optional[float] = None) -> None:
        """Until something changes, or for so long; others may change it meanwhile."""
        self._condition.wait(seconds)


def in_background(work: Callable[[], None]) -> None:
    """Do ``work`` next to what goes on here; it does not keep the program from its end."""
    threading.Thread(target=work, name="rouse", daemon=True).start()


class SocketLoop:
    """What reads and writes the connections that go both ways at once: one thread, with a loop of asyncio.

    Two threads of which one reads and one writes would do without, but for TLS: there a connection is one thread's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="rouse-sockets", daemon=True).start()
            return self._loop


#: The last is this process's; those before go on in the processes that it was forked from.
loops = [SocketLoop()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: loops.append(SocketLoop()))


def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Wait for what is done there."""
    future = asyncio.run_coroutine_threadsafe(work, loops[-1].get())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def tell_loop(work: Callable[[], None]) -> None:
    """Have something done there, one after the other."""
    loops[-1].get().call_soon_threadsafe(work)


class Channel:
    """A connection for bytes both ways at once."""

    def __init__(self, there: AsyncChannel) -> None:
        self._there = there

    def receive(self, seconds: Optional[float] = None) -> bytes:
        """The next bytes; none at the end. Raises OSError for a cut, TimeoutError when none came for so long."""
        return on_loop(self._there.receive(seconds))

    def send(self, data: bytes) -> None:
        """Send when it is their turn; on a connection that has ended they are lost."""
        tell_loop(lambda: self._there.send(data))

    def write(self, data: bytes) -> None:
        """Send, and wait while the other side is behind. Raises OSError for a cut."""
        on_loop(self._there.write(data))

    def end(self) -> None:
        """No more from here; the other direction goes on."""
        tell_loop(self._there.end)

    def close(self) -> None:
        """End it once what was sent is out."""
        tell_loop(self._there.close)

    def reset(self) -> None:
        """End it at once, and so that the other side takes it for no good end."""
        tell_loop(self._there.reset)


class Listener:
    """A port of this machine."""

    def __init__(self, there: AsyncListener) -> None:
        self._there = there
        self.address = there.address
        self.port = there.port

    def close(self) -> None:
        """Take no more connections; those that are there go on."""
        on_loop(self._there.aclose())


def listen(address: str, port: int, take: Callable[[Channel], None]) -> Listener:
    """Open a port of this machine, 0 for a free one; each connection is given to ``take``. Raises OSError."""

    async def taken(there: AsyncChannel) -> None:
        in_background(lambda: take(Channel(there)))

    return Listener(on_loop(listen_async(address, port, taken)))
