"""What methods answer beside the wire's own dicts."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any, Dict, Generic, List, Literal, Optional, Sequence, TypedDict, TypeVar, Union

from .errors import RouseError

T = TypeVar("T")
#: Text is run by ``bash -c``; a list is the program and its arguments.
Command = Union[str, Sequence[str]]
#: A signal by name.
Signal = Literal["SIGTERM", "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]


class StartEvent(TypedDict):
    type: Literal["start"]
    processId: str


class _OutputEvent(TypedDict):
    type: Literal["stdout", "stderr"]
    data: str
    #: Bytes of stdout and stderr together before it.
    offset: int


class OutputEvent(_OutputEvent, total=False):
    #: The bytes, where they are no text.
    base64: str


class TruncatedEvent(TypedDict):
    """Output that the sandbox no longer has."""

    type: Literal["truncated"]
    droppedBytes: int
    resumeAt: int


class ExitEvent(TypedDict):
    type: Literal["exit"]
    exitCode: Optional[int]
    state: str
    timedOut: bool
    durationMs: float


#: What a reader of output sees: continuations and failures of the wire are dealt with before.
CommandEvent = Union[StartEvent, OutputEvent, TruncatedEvent, ExitEvent]


class TerminalOutput(TypedDict):
    type: Literal["output"]
    data: bytes
    #: Bytes of output before it.
    offset: int


class TerminalExitEvent(TypedDict):
    type: Literal["exit"]
    #: Negative when a signal ended it; None when that is not known.
    exitCode: Optional[int]


#: What a terminal's reader sees.
TerminalEvent = Union[TerminalOutput, TruncatedEvent, TerminalExitEvent]


@dataclass(frozen=True)
class TerminalExit:
    """How a terminal ended."""

    #: Negative when a signal ended it; None when that is not known.
    exit_code: Optional[int]


@dataclass(frozen=True)
class ExecResult:
    """How a command ended."""

    #: None when it never ended by itself, negative for a signal.
    exit_code: Optional[int]
    stdout: str
    stderr: str
    timed_out: bool
    stdout_truncated: bool
    stderr_truncated: bool
    duration_ms: float
    process_id: str


@dataclass(frozen=True)
class ProcessExit:
    """How a process ended."""

    exit_code: Optional[int]
    state: str
    timed_out: bool
    duration_ms: float


@dataclass(frozen=True)
class OutputBytes:
    """Output as raw bytes."""

    stream: Literal["stdout", "stderr"]
    bytes: bytes
    offset: int


@dataclass
class CopyReport:
    """What a copy has done."""

    files: int = 0
    bytes: int = 0
    #: Paths that are neither files nor folders and were left out.
    skipped: List[str] = field(default_factory=lambda: [])


@dataclass(frozen=True)
class StopFailure:
    id: str
    error: RouseError


@dataclass
class StopAllResult:
    """What ``stop_all`` did."""

    #: Ids.
    stopped: List[str] = field(default_factory=lambda: [])
    failed: List[StopFailure] = field(default_factory=lambda: [])


@dataclass(frozen=True)
class StateValue(Generic[T]):
    """A value with what is known of it."""

    value: T
    version: int
    content_type: str


@dataclass(frozen=True)
class MirroredCheckpoint:
    """A version that was read, verified."""

    name: str
    version: int
    saved_at: str
    #: ``"json"`` or ``"bytes"``.
    type: str
    #: Of the body.
    bytes: int
    sha256: str
    step: Optional[int]
    meta: Dict[str, Any]
    #: What was saved.
    value: Any


@dataclass(frozen=True)
class AgentHook:
    """Where messages for an agent are sent to, signed with ``secret`` (Standard Webhooks); shown this once."""

    url: str
    secret: str


@dataclass(frozen=True)
class DeviceCode:
    """What the person needs who approves a login."""

    #: The page; it asks for the code.
    verification_uri: str
    #: The page with the code filled in.
    verification_uri_complete: str
    #: The page shows it too: only if both are the same is it this program that is approved.
    user_code: str
    expires_at: datetime.datetime


@dataclass(frozen=True)
class LoginResult:
    """What a login gives. The key is listed under the client's name, and revoked like any other."""

    api_key: str
    account: str
