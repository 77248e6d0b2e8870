"""Rouse: a Linux machine of its own for every agent, which has a name, sleeps with its RAM and wakes on the first request.

The standard library is all it needs. ``Rouse`` and ``Sandbox`` wait in their thread; ``AsyncRouse`` and ``AsyncSandbox``
have the same methods for asyncio.

    from rouse import Sandbox

    agent = Sandbox.get_or_create("agent-u-42", idle_pause_seconds=600)
    print(agent.exec("uname -a").stdout)
"""

from ._async.agents import AsyncNewAgent
from ._async.client import AsyncRouse
from ._async.fetch import AsyncFetchResponse
from ._async.forward import AsyncForward
from ._async.login import device_login as async_device_login
from ._async.page import AsyncPage
from ._async.process import AsyncProcess
from ._async.sandbox import AsyncSandbox
from ._async.state import AsyncStateTransaction
from ._async.terminal import AsyncTerminal
from ._async.watch import AsyncFileWatch
from ._sync.agents import NewAgent
from ._sync.client import Rouse
from ._sync.fetch import FetchResponse
from ._sync.forward import Forward
from ._sync.login import device_login
from ._sync.page import Page
from ._sync.process import Process
from ._sync.sandbox import Sandbox
from ._sync.state import StateTransaction
from ._sync.terminal import Terminal
from ._sync.watch import FileWatch
from .checkpoint import (
    Checkpoint,
    CheckpointDamaged,
    CheckpointError,
    CheckpointNotFound,
    MirrorFailed,
    Saved,
)
from .error_codes import ErrorCode
from .errors import (
    AuthenticationError,
    CommandError,
    ConflictError,
    ConnectionError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RouseError,
    ServiceUnavailableError,
)
from .results import (
    AgentHook,
    CommandEvent,
    CopyReport,
    DeviceCode,
    ExecResult,
    LoginResult,
    MirroredCheckpoint,
    OutputBytes,
    ProcessExit,
    StateValue,
    StopAllResult,
    StopFailure,
    TerminalEvent,
    TerminalExit,
)
from .version import VERSION
from .webhook import VerifiedWebhook, verify_webhook

Runtime = Rouse
AsyncRuntime = AsyncRouse
#: The same, for programs that need Python's own of these names.
RouseConnectionError = ConnectionError
RuntimeError = RouseError

__version__ = VERSION

__all__ = [
    "AgentHook",
    "AsyncFetchResponse",
    "AsyncFileWatch",
    "AsyncForward",
    "AsyncNewAgent",
    "AsyncPage",
    "AsyncProcess",
    "AsyncRouse",
    "AsyncRuntime",
    "AsyncSandbox",
    "AsyncStateTransaction",
    "AsyncTerminal",
    "AuthenticationError",
    "Checkpoint",
    "CheckpointDamaged",
    "CheckpointError",
    "CheckpointNotFound",
    "CommandError",
    "CommandEvent",
    "ConflictError",
    "CopyReport",
    "DeviceCode",
    "ErrorCode",
    "ExecResult",
    "FetchResponse",
    "FileWatch",
    "Forward",
    "InvalidRequestError",
    "LoginResult",
    "MirrorFailed",
    "MirroredCheckpoint",
    "NewAgent",
    "NotFoundError",
    "OutputBytes",
    "Page",
    "PermissionDeniedError",
    "Process",
    "ProcessExit",
    "RateLimitError",
    "Rouse",
    "RouseConnectionError",
    "RouseError",
    "Runtime",
    "Sandbox",
    "Saved",
    "ServiceUnavailableError",
    "StateTransaction",
    "StateValue",
    "StopAllResult",
    "StopFailure",
    "Terminal",
    "TerminalEvent",
    "TerminalExit",
    "VERSION",
    "VerifiedWebhook",
    "async_device_login",
    "device_login",
    "verify_webhook",
]
