# Made by test/support/print-python.ts from _async/terminal.py: change that file.
"""One look at a terminal, over as many connections as it takes."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from types import TracebackType
from typing import Any, Deque, Dict, Generator, Optional, Tuple, Type, cast

from ..errors import NotFoundError, RouseError, connection_error, invalid_argument
from ..options import RequestOptions, Unpack
from ..patience import Patience
from ..results import Signal, TerminalEvent, TerminalExit
from ..wire import Data, bytes_of, field_of
from .channels import Monitor, in_background
from .output import is_transient, signal_process
from .remote import Remote
from .web_socket import WebSocket, begin_socket, error_told, told

#: Bytes of input in one message, and those that may be on their way: what is said to have been read is not to wait behind
#: more of them than that.
MESSAGE_BYTES = 65_536
WINDOW_BYTES = 65_536
#: Bytes of output after which the sandbox is told that they have been read.
ACK_BYTES = 65_536
#: What may wait to be read here, and what each event counts beside its bytes. A sandbox that keeps the rules stays far below.
UNREAD_BYTES = 67_108_864
EVENT_BYTES = 64
#: First wait after what does not come about, seconds.
RETRY_SECONDS = 0.1
#: How often a sandbox that sleeps is looked at, seconds: at first, and later. Looking does not wake it.
LOOK_SECONDS = 2.0
LOOK_MOST_SECONDS = 30.0
#: Close code of a host whose machine goes to sleep or ends.
RESTING = 4001
AT_REST = frozenset({"pausing", "paused"})
OVER = frozenset({"stopping", "stopped", "deleted"})
#: Most columns and rows.
SIZE_MAX = 2000


class Typed:
    """Input that the terminal has not taken yet."""

    def __init__(self, data: bytes, end: int) -> None:
        self.data = data
        #: Bytes typed up to and with this.
        self.end = end
        self.is_taken = False
        self.failure: Optional[Exception] = None


class Terminal:
    """A terminal in a sandbox. It goes on when this program ends, and over pause and wake.

    Connections that break are made anew, without loss or repetition of what is typed and written. While the sandbox sleeps,
    this waits: what is typed wakes it. Read its events: a program that writes waits for a reader that is behind. At the end
    of a ``with`` it is looked away from.

        with sandbox.terminal.open(cols=120, rows=40) as terminal:
            terminal.write("echo $SHELL; exit\\r")
            for event in terminal.events():
                if event["type"] == "output":
                    sys.stdout.buffer.write(event["data"])
    """

    def __init__(
        self, remote: Remote, id: str, cols: Optional[int], rows: Optional[int], cursor: Optional[int]
    ) -> None:
        self.id = id
        self._remote = remote
        self._client = str(uuid.uuid4())
        #: All that follows: of who reads, who types, and the connection.
        self._news = Monitor()
        self._size: Optional[Tuple[Any, Any]] = None if cols is None or rows is None else (cols, rows)
        self._socket: Optional[WebSocket] = None
        #: The server has said what this connection goes on from; how many have come so far.
        self._is_ready = False
        self._looks = 0
        self._is_detached = False
        self._exit: Optional[TerminalExit] = None
        self._failure: Optional[Exception] = None
        self._queue: Deque[TerminalEvent] = deque()
        self._unread_bytes = 0
        #: Offset of the next byte of output: to arrive, None until that is known; to be read; and to be told of.
        self._arrived: Optional[int] = cursor
        self._read = cursor or 0
        self._acknowledged = 0
        self._typed: Deque[Typed] = deque()
        #: Bytes of input: all, those sent over this connection or taken before it, and those taken.
        self._typed_bytes = 0
        self._sent_bytes = 0
        self._taken_bytes = 0
        #: Bytes that were taken before the sandbox began to count.
        self._uncounted = 0

    @property
    def cursor(self) -> int:
        """Offset of the next byte of output to be read: where another look would go on."""
        return self._read

    def events(self) -> Generator[TerminalEvent, None, None]:
        """What it writes, to its exit or until ``detach``. For one reader.

        Output that the sandbox no longer keeps (it has the last MiB) is a ``truncated`` event. Raises NotFoundError
        ``process_not_found`` when the machine was stopped, and ConnectionError when it can't be reached for five minutes.
        """
        while True:
            event = self._next()
            if event is None:
                return
            yield event
            if event["type"] == "exit":
                return
            if event["type"] == "output":
                self._acknowledge()

    def wait(self) -> TerminalExit:
        """How it ended. Its events must be read meanwhile. Raises RouseError ``not_running`` once it is looked away from."""
        with self._news:
            while self._exit is None:
                self._must_go_on()
                self._news.wait()
            return self._exit

    def write(self, data: Data) -> None:
        """Type, and wait until the terminal has taken it. Wakes the sandbox.

        Raises RouseError ``not_running`` once it has ended, or was looked away from.
        """
        payload = bytes_of(data)
        if not payload:
            return
        with self._news:
            self._must_go_on()
            if self._exit is not None:
                raise ended(self.id)
            self._typed_bytes += len(payload)
            typed = Typed(payload, self._typed_bytes)
            self._typed.append(typed)
            self._send_typed()
            self._news.tell()
            while not typed.is_taken and typed.failure is None:
                self._news.wait()
            if typed.failure is not None:
                raise typed.failure

    def resize(self, cols: int, rows: int) -> None:
        """Set the size of the window, 1 to 2000 each. A sandbox that sleeps learns of it when it wakes.

        Raises InvalidRequestError ``invalid_argument``.
        """
        for size in (cols, rows):
            if not isinstance(cast(object, size), int) or not 1 <= size <= SIZE_MAX:
                raise invalid_argument(f"{size!r} is no number of columns or rows from 1 to {SIZE_MAX}.")
        with self._news:
            self._size = (cols, rows)
            self._send_size()

    def kill(self, signal: Signal = "SIGHUP", **request: Unpack[RequestOptions]) -> None:
        """Send a signal: SIGHUP, which ends a shell with what it runs, unless given."""
        signal_process(self._remote, self.id, signal, **request)

    def detach(self) -> None:
        """Look away; the terminal goes on. What was typed and not taken yet may be lost."""
        with self._news:
            if self._exit is not None or self._is_detached:
                return
            self._is_detached = True
            if self._socket is not None:
                self._socket.close()
            self._drop(ended(self.id))
            self._news.tell()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.detach()

    def __repr__(self) -> str:
        return f"<Terminal {self.id}>"

    def _begin(self) -> Terminal:
        """Come back when the terminal is there."""
        try:
            in_background(self._keep)
            with self._news:
                while self._looks == 0 and self._failure is None:
                    self._news.wait()
                if self._failure is not None:
                    raise self._failure
        except BaseException:
            self.detach()
            raise
        return self

    def _keep(self) -> None:
        """One connection after the other, to the end."""
        try:
            self._look_on()
        except Exception as error:
            self._fail(error)
        except BaseException:
            # The program ends.
            self._fail(ended(self.id))
            raise

    def _look_on(self) -> None:
        code: Optional[int] = None
        patience = Patience(RETRY_SECONDS)
        while True:
            before = self._looks
            failure = connection_error("The terminal can't be reached")
            try:
                if before > 0:
                    self._until_awake(code)
                if self._is_over():
                    return
                code = self._look()
            except RouseError as error:
                # One that never was there fails as other calls do.
                if before == 0 or not is_transient(error):
                    raise
                code = None
                failure = error
            if self._is_over():
                return
            if self._looks > before:
                patience.reset()
            else:
                self._pause(patience.next(failure), False)

    def _look(self) -> int:
        """One connection to its end. Answers the close code."""
        with self._news:
            size = self._size or (None, None)
            query: Dict[str, Any] = {"processId": self.id, "client": self._client, "cursor": self._arrived}
            query.update(cols=size[0], rows=size[1])
        socket = begin_socket(self._remote, "/terminal", query, None if self._looks == 0 else 0)
        with self._news:
            self._socket = socket
            if self._is_detached:
                socket.close()
        try:
            while True:
                with self._news:
                    while self._unread_bytes > UNREAD_BYTES and not self._is_detached:
                        self._news.wait()
                message = socket.receive()
                if message is None:
                    return socket.code
                with self._news:
                    if isinstance(message, str):
                        self._told(message, socket)
                    else:
                        self._written(message)
                    self._news.tell()
        except BaseException:
            socket.drop()
            raise
        finally:
            with self._news:
                self._is_ready = False
                self._socket = None

    def _told(self, text: str, socket: WebSocket) -> None:
        message = told(text)
        kind = message.get("type")
        # A newer server may say more than this client knows.
        if kind == "ready":
            cursor = field_of(message, "cursor", int)
            taken = field_of(message, "input", int) if "input" in message else 0
            if self._arrived is None:
                self._arrived = self._read = cursor
            elif cursor > self._arrived:
                self._lost(cursor - self._arrived, cursor)
            self._looks += 1
            self._is_ready = True
            self._uncounted = max(self._uncounted, self._taken_bytes - taken)
            self._taken(taken)
            self._sent_bytes = self._taken_bytes
            # From the first of these on it counts what has been read here, and no longer what it has sent.
            self._acknowledged = self._read
            socket.send(json.dumps({"type": "ack", "cursor": self._read}))
            self._send_size()
            self._send_typed()
        elif kind == "input":
            self._taken(field_of(message, "offset", int))
            self._send_typed()
        elif kind == "truncated":
            self._lost(field_of(message, "droppedBytes", int), field_of(message, "resumeAt", int))
        elif kind == "exit":
            code = message.get("exitCode")
            exit_code = code if isinstance(code, int) else None
            self._add({"type": "exit", "exitCode": exit_code})
            self._exit = TerminalExit(exit_code)
            self._drop(ended(self.id))
        elif kind == "error":
            self._fail(error_told(message))
            socket.close()

    def _written(self, data: bytes) -> None:
        offset = self._arrived or 0
        self._arrived = offset + len(data)
        self._add({"type": "output", "data": data, "offset": offset})

    def _lost(self, dropped_bytes: int, resume_at: int) -> None:
        self._arrived = resume_at
        self._add({"type": "truncated", "droppedBytes": dropped_bytes, "resumeAt": resume_at})

    def _add(self, event: TerminalEvent) -> None:
        self._queue.append(event)
        self._unread_bytes += cost_of(event)

    def _next(self) -> Optional[TerminalEvent]:
        with self._news:
            while not self._queue:
                if self._failure is not None:
                    raise self._failure
                if self._is_over():
                    return None
                self._news.wait()
            event = self._queue.popleft()
            self._unread_bytes -= cost_of(event)
            self._news.tell()
            if event["type"] == "output":
                self._read = event["offset"] + len(event["data"])
            elif event["type"] == "truncated":
                self._read = event["resumeAt"]
            return event

    def _acknowledge(self) -> None:
        with self._news:
            if self._is_ready and self._socket is not None and self._read - self._acknowledged >= ACK_BYTES:
                self._acknowledged = self._read
                self._socket.send(json.dumps({"type": "ack", "cursor": self._read}))

    def _taken(self, counted: int) -> None:
        """``counted``: bytes that the sandbox has taken of this client, by its count."""
        self._taken_bytes = max(self._taken_bytes, counted + self._uncounted)
        while self._typed and self._typed[0].end <= self._taken_bytes:
            self._typed.popleft().is_taken = True

    def _send_typed(self) -> None:
        """Send what is typed and not sent over this connection yet, as far as it may be on its way."""
        if not self._is_ready or self._socket is None:
            return
        for typed in self._typed:
            begin = typed.end - len(typed.data)
            while self._sent_bytes < typed.end and self._sent_bytes - self._taken_bytes < WINDOW_BYTES:
                at = self._sent_bytes - begin
                piece = typed.data[at : at + MESSAGE_BYTES]
                self._socket.send(piece)
                self._sent_bytes += len(piece)

    def _send_size(self) -> None:
        if self._is_ready and self._socket is not None and self._size is not None:
            cols, rows = self._size
            self._socket.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    def _until_awake(self, code: Optional[int]) -> None:
        """Until the sandbox is awake, or something is typed. Asking does not wake it.

        ``code``: with which the last connection was closed. Raises NotFoundError when the machine is at its end, and the
        terminal with it.
        """
        patience = Patience(RETRY_SECONDS)
        looks = 0
        while not self._typed and not self._is_detached:
            try:
                state = field_of(self._remote.get(""), "state", str)
                patience.reset()
            except RouseError as error:
                if not is_transient(error):
                    raise
                self._pause(patience.next(error), True)
                continue
            if state in OVER:
                raise machine_ended(self.id, state)
            # A host that sends its machines to sleep by itself says so before the sandbox's record does.
            if state not in AT_REST and code != RESTING:
                return
            code = None
            self._pause(min(LOOK_MOST_SECONDS, LOOK_SECONDS * 1.5 ** min(looks, 9)), True)
            looks += 1

    def _pause(self, seconds: float, is_short: bool) -> None:
        """``is_short``: it ends when something is typed."""
        until = time.monotonic() + seconds
        with self._news:
            while True:
                left = until - time.monotonic()
                if left <= 0 or self._is_detached or (is_short and self._typed):
                    return
                self._news.wait(left)

    def _is_over(self) -> bool:
        return self._exit is not None or self._is_detached or self._failure is not None

    def _must_go_on(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_detached:
            raise ended(self.id)

    def _fail(self, error: Exception) -> None:
        with self._news:
            self._failure = self._failure or error
            self._drop(error)
            self._news.tell()

    def _drop(self, error: Exception) -> None:
        for typed in self._typed:
            typed.failure = error
        self._typed.clear()


def attach(
    remote: Remote, id: str, cols: Optional[int], rows: Optional[int], cursor: Optional[int]
) -> Terminal:
    """Look at a terminal that is there."""
    terminal = Terminal(remote, id, cols, rows, cursor)
    return terminal._begin()  # pyright: ignore[reportPrivateUsage]


def cost_of(event: TerminalEvent) -> int:
    return EVENT_BYTES + (len(event["data"]) if event["type"] == "output" else 0)


def ended(id: str) -> RouseError:
    return RouseError("not_running", f"The terminal {id} has ended, or was looked away from.")


def machine_ended(id: str, state: str) -> NotFoundError:
    return NotFoundError(
        "process_not_found",
        f"The sandbox is {state}, and the terminal {id} ended with its machine.",
        status=404,
        hint="Open another terminal once it runs.",
    )
