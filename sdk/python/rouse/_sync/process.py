# Made by test/support/print-python.ts from _async/process.py: change that file.
"""Processes that run in the background of a sandbox."""

from __future__ import annotations

import base64
from contextlib import closing
from typing import Generator, List, Literal, Optional, cast

from ..cursor import OutputCursor
from ..errors import invalid_argument, unexpected_answer
from ..options import RequestOptions, Unpack
from ..results import CommandEvent, OutputBytes, ProcessExit, Signal
from ..answers import Process as ProcessInfo
from ..wire import Data, answer_of, bytes_of, field_of, list_of, segment
from .driver import Lock, sleep
from .output import follow_output, kept_output, signal_process
from .remote import Remote

PIECE_BYTES = 1_048_576
PIECE_BYTES_AFTER_STALL = 65_536


class Process:
    """A process in a sandbox. It goes on when this program ends, and over pause and wake."""

    def __init__(self, remote: Remote, info: ProcessInfo) -> None:
        self._remote = remote
        self._info = info
        self._written = info["stdinOffset"]
        self._writing = Lock()

    @property
    def id(self) -> str:
        return self._info["id"]

    @property
    def command(self) -> str:
        """The command line."""
        return self._info["command"]

    @property
    def state(self) -> Literal["running", "exited", "killed", "timed_out", "unknown"]:
        """As of the last answer; see ``refresh``."""
        return self._info["state"]

    @property
    def exit_code(self) -> Optional[int]:
        """None while it runs; the negative signal number when a signal ended it."""
        return self._info["exitCode"]

    @property
    def info(self) -> ProcessInfo:
        """Everything the last answer said."""
        return self._info

    def refresh(self, **request: Unpack[RequestOptions]) -> Process:
        """Read the process again. Raises NotFoundError ``process_not_found``."""
        self._info = answer_of(ProcessInfo, self._remote.get(self._path(), **request))
        return self

    def output(self, *, cursor: int = 0, follow: bool = True) -> Generator[CommandEvent, None, None]:
        """The output from ``cursor`` on, followed to the exit, over cut connections without loss or repetition.

        Output that the sandbox no longer keeps (it has the last MiB) is a ``truncated`` event. ``cursor`` is how many
        bytes of stdout and stderr together to skip. Without ``follow`` it ends with what has been written so far.
        """
        position = OutputCursor(cursor)
        read = follow_output if follow else kept_output
        with closing(read(self._remote, self.id, position)) as events:
            for event in events:
                if event["type"] == "exit":
                    self._info = self._info.copy()
                    self._info["state"] = event["state"]
                    self._info["exitCode"] = event["exitCode"]
                yield cast(CommandEvent, event)

    def follow(self) -> Generator[CommandEvent, None, None]:
        """The output that is still to come."""
        self.refresh()
        with closing(self.output(cursor=self._info["outputBytes"])) as events:
            for event in events:
                yield event

    def output_bytes(self, *, cursor: int = 0) -> Generator[OutputBytes, None, None]:
        """The output as raw bytes. Raises InvalidRequestError unless spawned with ``output_encoding="base64"``."""
        if self._info.get("outputEncoding") != "base64":
            raise invalid_argument("Raw output needs a process spawned with output_encoding base64.")
        with closing(self.output(cursor=cursor)) as events:
            for event in events:
                if event["type"] != "stdout" and event["type"] != "stderr":
                    continue
                text = event.get("base64")
                if text is None:
                    raise unexpected_answer("an output event has no base64")
                yield OutputBytes(event["type"], base64.b64decode(text), event["offset"])

    def wait(self) -> ProcessExit:
        """Wait until the process ends."""
        with closing(self.output(cursor=self._info["outputBytes"])) as events:
            for event in events:
                if event["type"] == "exit":
                    return ProcessExit(event["exitCode"], event["state"], event["timedOut"], event["durationMs"])
        raise unexpected_answer("the output has no exit")

    def write(self, data: Data, *, eof: bool = False, **request: Unpack[RequestOptions]) -> None:
        """Write to stdin; waits while the process does not read. Needs ``spawn(..., stdin="pipe")``.

        ``eof`` closes stdin after the data.
        """
        with self._writing:
            self._write(bytes_of(data), eof, request)

    def kill(self, signal: Signal = "SIGTERM", **request: Unpack[RequestOptions]) -> None:
        """Send a signal."""
        signal_process(self._remote, self.id, signal, **request)

    def _write(self, data: bytes, eof: bool, request: RequestOptions) -> None:
        at = 0
        piece_bytes = PIECE_BYTES
        while True:
            piece = data[at : at + piece_bytes]
            is_last = at + len(piece) == len(data)
            body = {"base64": base64.b64encode(piece).decode(), "offset": self._written}
            answer = self._remote.post(
                f"{self._path()}:write", {**body, "eof": True} if eof and is_last else body, **request
            )
            offset = field_of(answer, "offset", int)
            taken = offset - self._written
            if taken < 0 or taken > len(piece):
                raise unexpected_answer("stdin took more or less than was sent")
            self._written = offset
            at += taken
            if taken == len(piece):
                if is_last:
                    return
                continue
            # The pipe is full: smaller pieces waste less of what it refuses.
            piece_bytes = min(piece_bytes, PIECE_BYTES_AFTER_STALL) if taken == 0 else max(1024, taken)
            if taken == 0:
                sleep(0.1)

    def _path(self) -> str:
        return f"/processes/{segment(self.id)}"


class Processes:
    """The processes of a sandbox."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def list(self, **request: Unpack[RequestOptions]) -> List[Process]:
        """Those that run and the last 16 that ended."""
        answer = self._remote.get("/processes", **request)
        return [Process(self._remote, info) for info in list_of(ProcessInfo, answer)]

    def get(self, id: str, **request: Unpack[RequestOptions]) -> Process:
        """Raises NotFoundError ``process_not_found``."""
        answer = self._remote.get(f"/processes/{segment(id)}", **request)
        return Process(self._remote, answer_of(ProcessInfo, answer))

    def kill(self, id: str, signal: Signal = "SIGTERM", **request: Unpack[RequestOptions]) -> None:
        """Send a signal to a process by its id; that of an ``exec`` is in its ``start`` event."""
        signal_process(self._remote, id, signal, **request)

    def follow(self, id: str, *, cursor: int = 0) -> Generator[CommandEvent, None, None]:
        """The output of a process from ``cursor`` on, followed to its exit; see ``Process.output``."""
        with closing(follow_output(self._remote, id, OutputCursor(cursor))) as events:
            for event in events:
                yield cast(CommandEvent, event)
