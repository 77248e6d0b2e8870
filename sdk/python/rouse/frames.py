"""WebSockets (RFC 6455) as a client has them: the handshake, and frames as bytes. No I/O.

It is strict: what breaks a rule is a ``FrameFault`` with the code that the connection is to be closed with. Extensions and
subprotocols are neither offered nor taken.
"""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
#: Close codes: as it should be, what breaks a rule, text that is none, too much.
NORMAL, PROTOCOL_ERROR, INVALID_DATA, TOO_BIG = 1000, 1002, 1007, 1009
#: Codes that are never sent: a close without a code, and an end without a close.
NO_CODE, NO_CLOSE = 1005, 1006
#: Longest message that is taken, bytes; a server's are a small part of it.
MESSAGE_MAX = 4 * 1_048_576
#: Longest payload of a close, ping or pong, bytes.
CONTROL_MAX = 125
VERSION = "13"
#: Of the standard, for every server to show that it knows it.
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class FrameFault(Exception):
    """What came is no WebSocket."""

    def __init__(self, reason: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Message:
    """A whole message, or a frame of the connection itself."""

    #: ``TEXT``, ``BINARY``, ``CLOSE``, ``PING`` or ``PONG``.
    kind: int
    data: bytes
    #: Of a ``TEXT``.
    text: str = ""
    #: Of a ``CLOSE``.
    code: int = NO_CODE


class Handshake:
    """One try of an upgrade."""

    def __init__(self) -> None:
        self._key = base64.b64encode(os.urandom(16)).decode()

    def headers(self) -> Dict[str, str]:
        return {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": VERSION,
            "sec-websocket-key": self._key,
        }

    def fault(self, headers: Mapping[str, str]) -> Optional[str]:
        """Why an answer with status 101 is not the one to this. ``headers``: names in lower case."""
        tokens = [one.strip().lower() for one in headers.get("connection", "").split(",")]
        if headers.get("upgrade", "").lower() != "websocket" or "upgrade" not in tokens:
            return "it switches to another protocol"
        if headers.get("sec-websocket-accept") != accept_of(self._key):
            return "its Sec-WebSocket-Accept is not that of the key"
        for name in ("sec-websocket-extensions", "sec-websocket-protocol"):
            if headers.get(name, "") != "":
                return f"its {name} was not asked for"
        return None


def accept_of(key: str) -> str:
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def frame(kind: int, payload: bytes = b"") -> bytes:
    """A whole message, or a frame of the connection itself, masked as a client's has to be."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | kind, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | kind, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 0x80 | 127)) + size.to_bytes(8, "big")
    mask = os.urandom(4)
    return head + mask + masked(payload, mask)


def close_frame(code: int) -> bytes:
    return frame(CLOSE, (NORMAL if code in (NO_CODE, NO_CLOSE) else code).to_bytes(2, "big"))


def masked(payload: bytes, mask: bytes) -> bytes:
    """Twice is the payload again. As one number it is a thousand times as fast as byte by byte."""
    size = len(payload)
    stream = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")


class FrameReader:
    """Messages of a stream of bytes."""

    def __init__(self, message_max: int = MESSAGE_MAX) -> None:
        self._max = message_max
        self._bytes = bytearray()
        #: Of a message that comes in several frames: what it is, and what is there of it.
        self._kind: Optional[int] = None
        self._parts: List[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        self._bytes += data

    def next(self) -> Optional[Message]:
        """The next one that is there whole. Raises FrameFault, and after that no more is to be asked for."""
        while True:
            head = self._head()
            if head is None:
                return None
            is_last, kind, begin, size = head
            if len(self._bytes) < begin + size:
                return None
            payload = bytes(self._bytes[begin : begin + size])
            del self._bytes[: begin + size]
            if kind >= CLOSE:
                return closed(payload) if kind == CLOSE else Message(kind, payload)
            self._kind = kind if kind != CONTINUATION else self._kind
            self._parts.append(payload)
            self._size += size
            if is_last:
                return self._whole()

    def _head(self) -> Optional[tuple[bool, int, int, int]]:
        """Of the next frame: whether it is the last of its message, its kind, where its payload begins, and its size."""
        found = self._bytes
        if len(found) < 2:
            return None
        kind, size = found[0] & 0x0F, found[1] & 0x7F
        is_last = found[0] & 0x80 != 0
        if found[0] & 0x70:
            raise FrameFault("has bits of an extension")
        if found[1] & 0x80:
            raise FrameFault("of a server is masked")
        if kind not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise FrameFault(f"has the unknown kind {kind}")
        if kind >= CLOSE and (not is_last or size > CONTROL_MAX):
            raise FrameFault("of the connection itself is too long, or a fragment")
        if kind == CONTINUATION and self._kind is None:
            raise FrameFault("continues no message")
        if kind in (TEXT, BINARY) and self._kind is not None:
            raise FrameFault("begins a message within another")
        begin = 2
        if size > CONTROL_MAX:
            begin = 4 if size == 126 else 10
            if len(found) < begin:
                return None
            size = int.from_bytes(found[2:begin], "big")
            if size < (126 if begin == 4 else 65_536) or size >> 63:
                raise FrameFault("has a length that is not the shortest")
        if kind < CLOSE and self._size + size > self._max:
            raise FrameFault(f"makes a message of more than {self._max} bytes", TOO_BIG)
        return is_last, kind, begin, size

    def _whole(self) -> Message:
        kind, data = self._kind, b"".join(self._parts)
        self._kind = None
        self._parts = []
        self._size = 0
        return Message(BINARY, data) if kind == BINARY else Message(TEXT, data, text=text_of(data))


def closed(payload: bytes) -> Message:
    if not payload:
        return Message(CLOSE, payload)
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or not (1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise FrameFault("closes with a code that there is not")
    text_of(payload[2:])
    return Message(CLOSE, payload, code=code)


def text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameFault("has text that is not UTF-8", INVALID_DATA) from None
