"""What the SDK raises. Every error is a RouseError; dispatch on its class or on ``code``."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Type

from .error_codes import ERROR_CODES


class RouseError(Exception):
    """Base of everything the SDK raises.

    try:
        Sandbox.connect("agent-u-42")
    except RouseError as error:
        print(error.code, error.hint)
    """

    #: Machine-readable reason: a code of the server's registry (``ErrorCode``), or one that the SDK itself gives.
    code: str
    message: str
    #: HTTP status of the answer; 0 when there was no answer.
    status: int
    #: What can be done about it, one sentence.
    hint: Optional[str]
    #: More facts, such as ``issues`` of an invalid request.
    details: Dict[str, Any]
    #: The id under which the server's log has the request.
    request_id: Optional[str]
    #: Milliseconds after which another try makes sense, when the server said so.
    retry_after_ms: Optional[float]
    #: The key under which the change was sent: sending it again with the same key and body never does it twice.
    idempotency_key: Optional[str]
    #: Whether the same request may succeed later without being changed.
    retryable: bool

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        hint: Optional[str] = None,
        details: Optional[Mapping[str, Any]] = None,
        request_id: Optional[str] = None,
        retry_after_ms: Optional[float] = None,
        idempotency_key: Optional[str] = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.hint = hint
        self.details = dict(details or {})
        self.request_id = request_id
        self.retry_after_ms = retry_after_ms
        self.idempotency_key = idempotency_key
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.message} ({self.code})" + (f" {self.hint}" if self.hint else "")

    def to_json(self) -> Dict[str, Any]:
        """The error as plain data, with the names that the wire has."""
        return {
            "name": type(self).__name__,
            "code": self.code,
            "status": self.status,
            "message": self.message,
            "hint": self.hint,
            "details": self.details,
            "requestId": self.request_id,
            "retryAfterMs": self.retry_after_ms,
            "retryable": self.retryable,
        }


class AuthenticationError(RouseError):
    """401, no API key found, or no login: the key is missing, wrong or revoked."""


class PermissionDeniedError(RouseError):
    """403: the key is good but does not reach this."""


class NotFoundError(RouseError):
    """404: no such sandbox, volume, file, process, context or route."""


class ConflictError(RouseError):
    """409: the thing is in a state that does not allow it, such as ``name_taken`` or ``sandbox_stopped``."""


class InvalidRequestError(RouseError):
    """400, 413, 422, or an argument the SDK refused; ``details["issues"]`` lists every fault."""


class RateLimitError(RouseError):
    """429: too many requests, also after waiting and resending."""


class ServiceUnavailableError(RouseError):
    """500 and above: the server or the machine could not do it."""


class ConnectionError(RouseError):  # noqa: A001
    """No usable answer: refused, reset, cut, or slower than the time limit (``code`` ``timeout``).

    The package has it as ``RouseConnectionError`` too, for programs that need Python's own of this name.
    """


class CommandError(RouseError):
    """A command run with ``check=True`` failed: exit code other than 0 (``command_failed``), or ``command_timeout``."""

    def __init__(self, exit_code: Optional[int], stdout: str, stderr: str, timed_out: bool) -> None:
        what = "The command ran out of time" if timed_out else f"The command ended with exit code {exit_code}"
        last = stderr.rstrip().rsplit("\n", 1)[-1]
        super().__init__(
            "command_timeout" if timed_out else "command_failed", f"{what}: {last[:500]}" if last else f"{what}."
        )
        #: None when it never ended by itself, negative for a signal.
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


_CLASSES: Dict[int, Type[RouseError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidRequestError,
    422: InvalidRequestError,
    429: RateLimitError,
}


def class_of_status(status: int) -> Type[RouseError]:
    """The class for an HTTP status."""
    return ServiceUnavailableError if status >= 500 else _CLASSES.get(status, RouseError)


def known_error(code: Any, message: str, details: Optional[Mapping[str, Any]] = None) -> RouseError:
    """An error of the registry that the SDK itself finds."""
    status, hint = ERROR_CODES[code]
    return class_of_status(status)(code, message, status=status, hint=hint, details=details)


def invalid_argument(message: str, hint: Optional[str] = None) -> InvalidRequestError:
    """An argument that the SDK refuses before any call."""
    return InvalidRequestError("invalid_argument", message, hint=hint)


def connection_error(what: str, idempotency_key: Optional[str] = None) -> ConnectionError:
    return ConnectionError(
        "connection_error",
        f"{what}.",
        hint="Check that the server runs and that ROUSE_API_URL or base_url names it; `rouse doctor` looks at each part.",
        retryable=True,
        idempotency_key=idempotency_key,
    )


def unexpected_answer(what: str) -> RouseError:
    """The server answered, but not what its contract says."""
    return RouseError(
        "unexpected_answer",
        f"The server's answer is not as expected: {what}.",
        hint="Check that ROUSE_API_URL or base_url names a Rouse server of a version that fits this package.",
    )
