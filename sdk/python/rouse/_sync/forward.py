# Made by test/support/print-python.ts from _async/forward.py: change that file.
"""Ports of a sandbox on this machine."""

from __future__ import annotations

import errno
import struct
from collections import deque
from types import TracebackType
from typing import Callable, Deque, Optional, Set, Type, Union, cast

from ..errors import RouseError, connection_error, invalid_argument
from .channels import Channel, Listener, Monitor, in_background, listen
from .remote import Remote
from .web_socket import WebSocket, begin_socket, error_told, told

#: How much may be on its way, bytes.
WINDOW_BYTES = 1_048_576
#: No piece of data is longer, bytes.
PIECE_BYTES = 65_536
#: What a program here may leave unread before the sandbox's has to wait, bytes; and how much while it sends itself, as
#: news of what was taken come behind what it leaves unread.
UNREAD_BYTES = 1_048_576
UNREAD_MOST_BYTES = 67_108_864
#: Each connection has a WebSocket of its own, and is the only stream in it.
STREAM = 1
HEAD = struct.Struct(">cI")


class Forward:
    """A port of a sandbox that is open on this machine, until it is closed or its ``with`` ends."""

    def __init__(self, links: Links, listener: Listener) -> None:
        self._links = links
        self._listener = listener
        #: In the sandbox.
        self.port = links.port
        #: Here.
        self.local_port = listener.port
        self.address = listener.address

    def close(self) -> None:
        """Take no more connections, and end those that are open."""
        self._listener.close()
        self._links.end()

    def __enter__(self) -> Forward:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Forward {self.address}:{self.local_port} to port {self.port}>"


class Links:
    """All connections of a port."""

    def __init__(self, remote: Remote, port: int, on_error: Optional[Callable[[RouseError], object]]) -> None:
        self.port = port
        self._remote = remote
        self._on_error = on_error
        self._news = Monitor()
        self._open: Set[Link] = set()
        self._is_over = False

    def take(self, local: Channel) -> None:
        """Carry one to its end."""
        link = Link(self._remote, self.port, local)
        with self._news:
            self._open.add(link)
            if self._is_over:
                link.end()
        is_good = False
        try:
            link.carry()
            is_good = True
        except RouseError as error:
            # Before the program here notices.
            if self._on_error is not None:
                self._on_error(error)
        finally:
            if not is_good:
                link.end()
            with self._news:
                self._open.discard(link)

    def end(self) -> None:
        with self._news:
            self._is_over = True
            links = list(self._open)
        for link in links:
            link.end()


class Link:
    """One connection, between a program here and a port of the sandbox."""

    def __init__(self, remote: Remote, port: int, local: Channel) -> None:
        self._remote = remote
        self._port = port
        self._local = local
        self._news = Monitor()
        self._socket: Optional[WebSocket] = None
        #: Of what the program here sends: bytes sent on, and those that are known to be taken.
        self._sent = 0
        self._taken = 0
        #: What the program here is to read, none at its end, and how many bytes it has not taken yet.
        self._unread: Deque[bytes] = deque()
        self._unread_bytes = 0
        self._is_open = False
        #: The program here is gone, or was made to be.
        self._is_cut = False
        self._is_over = False

    def carry(self) -> None:
        """To its end. Raises RouseError when it could not be made, or broke; what is here of it is then to be ended."""
        try:
            if not self._is_cut:
                self._carry()
            self._local.close()
        finally:
            with self._news:
                self._is_over = True
                self._news.tell()

    def end(self) -> None:
        """End it at once."""
        with self._news:
            self._is_cut = True
            self._local.reset()
            if self._socket is not None:
                self._socket.finish()
            self._news.tell()

    def _carry(self) -> None:
        socket = begin_socket(self._remote, "/tunnel", {})
        with self._news:
            self._socket = socket
            if self._is_cut:
                socket.finish()
        try:
            while True:
                self._until_read()
                said = socket.receive()
                if said is None:
                    break
                with self._news:
                    is_done = self._told(socket, said)
                    self._news.tell()
                if is_done:
                    socket.finish()
                    self._until_all_read()
                    return
        finally:
            socket.finish()
            with self._news:
                self._socket = None
        if not self._is_cut:
            raise connection_error("The connection to the sandbox broke")

    def _told(self, socket: WebSocket, data: Union[str, bytes]) -> bool:
        """Whether it is over, and well. Raises RouseError when it is over otherwise."""
        if isinstance(data, str):
            said = told(data)
            if said.get("type") == "ready":
                socket.send(message(b"o", f"tcp {self._port}".encode()))
            elif said.get("type") == "error":
                raise error_told(said)
            return False
        kind = data[:1]
        payload = data[HEAD.size :]
        if kind == b"o" and not self._is_open:
            self._is_open = True
            in_background(lambda: self._send_on(socket))
            in_background(self._hand_on)
        elif kind == b"d" and payload:
            self._unread.append(payload)
            self._unread_bytes += len(payload)
        elif kind == b"e":
            self._unread.append(b"")
        elif kind == b"a":
            self._taken = min(self._sent, int.from_bytes(payload[:8], "big"))
        elif kind == b"c":
            reason = payload.decode("utf-8", "replace")
            if reason != "done":
                raise refusal(self._port, reason)
            return True
        return False

    def _send_on(self, socket: WebSocket) -> None:
        """What the program here sends."""
        try:
            while True:
                data = self._local.receive()
                with self._news:
                    if self._is_over:
                        return
                    self._sent += len(data)
                    self._news.tell()
                socket.write(message(b"d" if data else b"e", data))
                if not data:
                    return
                with self._news:
                    while self._sent - self._taken > WINDOW_BYTES - 2 * PIECE_BYTES and not self._is_over:
                        self._news.wait()
        except OSError:
            self.end()

    def _hand_on(self) -> None:
        """What the program here is to read."""
        try:
            while True:
                with self._news:
                    while not self._unread and not self._is_over:
                        self._news.wait()
                    if not self._unread:
                        return
                    data = self._unread.popleft()
                if data:
                    self._local.write(data)
                else:
                    self._local.end()
                with self._news:
                    self._unread_bytes -= len(data)
                    self._news.tell()
        except OSError:
            self.end()

    def _until_read(self) -> None:
        """Until there is room for more that the program here is to read."""
        with self._news:
            while self._unread_bytes > UNREAD_BYTES and not self._is_cut:
                if self._sent > self._taken and self._unread_bytes <= UNREAD_MOST_BYTES:
                    return
                self._news.wait()

    def _until_all_read(self) -> None:
        with self._news:
            while (self._unread or self._unread_bytes > 0) and not self._is_cut:
                self._news.wait()


def message(kind: bytes, payload: bytes) -> bytes:
    return HEAD.pack(kind, STREAM) + payload


def refusal(port: int, reason: str) -> RouseError:
    known = {
        "closed": ("port_not_listening", f"Nothing in the sandbox listens on port {port}."),
        "reserved": ("invalid_port", f"Port {port} is the guest agent's own."),
    }
    other = ("upstream_closed", f"The connection to port {port} of the sandbox ended: {reason}.")
    code, text = known.get(reason, other)
    return RouseError(code, text, details={"port": port, "reason": reason})


def forward_port(
    remote: Remote,
    port: int,
    local_port: Optional[int],
    address: str,
    on_error: Optional[Callable[[RouseError], object]],
) -> Forward:
    here = port if local_port is None else local_port
    for one, least in ((port, 1), (here, 0)):
        if not isinstance(cast(object, one), int) or not least <= one <= 65_535:
            raise invalid_argument(f"{one!r} is not a port.")
    links = Links(remote, port, on_error)
    try:
        return Forward(links, listen(address, here, links.take))
    except OSError as fault:
        raise invalid_argument(
            f"Port {here} of {address} can't be had: {errno.errorcode.get(fault.errno or 0) or fault}.",
            "Give another local_port, or 0 for a free one.",
        ) from fault
