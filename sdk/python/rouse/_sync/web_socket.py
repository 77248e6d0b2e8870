# Made by test/support/print-python.ts from _async/web_socket.py: change that file.
"""WebSockets to the API, with its key in a header."""

from __future__ import annotations

import json
import time
from typing import Any, Dict, Mapping, Optional, Union, cast

from ..errors import RouseError, unexpected_answer
from ..frames import BINARY, CLOSE, NO_CLOSE, NORMAL, PING, PONG, TEXT, FrameFault, FrameReader, close_frame, frame
from ..wire import field_of
from .channels import Channel
from .output import error_of_event
from .remote import Remote

#: After so long without a byte the other side is asked for a sign of life, and after so long without one it is gone, seconds.
PING_SECONDS = 30.0
PONG_SECONDS = 20.0
#: How long the other side has to say that it is over, too, seconds.
CLOSE_SECONDS = 5.0


class WebSocket:
    """One that is open. One task or thread receives, any may send."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._frames = FrameReader()
        self._closing_since: Optional[float] = None
        #: With which code the other side has closed it.
        self.code = NO_CLOSE

    def receive(self) -> Union[str, bytes, None]:
        """The next message; None at the end, however that came. Raises RouseError ``unexpected_answer`` for what is none."""
        try:
            return self._receive()
        except FrameFault as fault:
            self.finish(fault.code)
            raise unexpected_answer(f"a frame of a WebSocket {fault}") from None
        except BaseException:
            self.drop()
            raise

    def send(self, data: Union[str, bytes]) -> None:
        """Send a message when it is its turn; after the end it goes nowhere."""
        if self._closing_since is None:
            self._channel.send(frame(TEXT, data.encode()) if isinstance(data, str) else frame(BINARY, data))

    def write(self, data: bytes) -> None:
        """Send a message, and wait while the other side is behind. Raises OSError for a cut. For one at a time."""
        if self._closing_since is None:
            self._channel.write(frame(BINARY, data))

    def close(self, code: int = NORMAL) -> None:
        """Say that it is over. What was sent arrives, and ``receive`` comes to the end."""
        if self._closing_since is None:
            self._closing_since = time.monotonic()
            self._channel.send(close_frame(code))

    def finish(self, code: int = NORMAL) -> None:
        """Say that it is over, and end the connection."""
        self.close(code)
        self._channel.close()

    def drop(self) -> None:
        """End the connection, whatever is on its way."""
        self._channel.reset()

    def _receive(self) -> Union[str, bytes, None]:
        while True:
            message = self._frames.next()
            if message is None:
                if not self._more():
                    return None
            elif message.kind == TEXT:
                return message.text
            elif message.kind == BINARY:
                return message.data
            elif message.kind == CLOSE:
                self.code = message.code
                self.finish(message.code)
                return None
            elif message.kind == PING and self._closing_since is None:
                self._channel.send(frame(PONG, message.data))

    def _more(self) -> bool:
        """Whether more has come."""
        is_asked = False
        while True:
            wait = PONG_SECONDS if is_asked else PING_SECONDS
            if self._closing_since is not None:
                wait = max(0.0, self._closing_since + CLOSE_SECONDS - time.monotonic())
            try:
                data = self._channel.receive(wait)
            except TimeoutError:
                if is_asked or self._closing_since is not None:
                    self.drop()
                    return False
                self._channel.send(frame(PING))
                is_asked = True
                continue
            except OSError:
                data = b""
            if not data:
                self._channel.close()
                return False
            self._frames.add(data)
            return True


def begin_socket(
    remote: Remote, suffix: str, query: Mapping[str, Any], max_retries: Optional[int] = None
) -> WebSocket:
    """Begin one below the sandbox, waking it. Raises what other calls raise."""
    return WebSocket(remote.transport.upgrade(remote.path(suffix), query, max_retries))


def told(text: str) -> Dict[str, Any]:
    """What a text message says."""
    try:
        message: object = json.loads(text)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise unexpected_answer("a message is no JSON object")
    return cast(Dict[str, Any], message)


def error_told(message: Dict[str, Any]) -> RouseError:
    """What the message ``error`` says that can't be."""
    error = cast(Dict[str, Any], field_of(message, "error", dict))
    for name in ("code", "message"):
        field_of(error, name, str)
    return error_of_event(error)
