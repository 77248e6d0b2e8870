# Made by test/support/print-python.ts from _async/login.py: change that file.
"""Device login (RFC 8628): a program shows a link and a code, a person approves, the program gets a key of its own."""

from __future__ import annotations

import datetime
import json
import re
import time
from typing import Any, Callable, Dict, Mapping, NoReturn, Optional
from urllib.parse import urlencode, urlsplit

from ..credentials import is_loopback, parse_base_url
from ..deadline import Deadline
from ..errors import AuthenticationError, RouseError, unexpected_answer
from ..results import DeviceCode, LoginResult
from ..retry import RetryPolicy, RetryState, decide_retry
from .driver import Pool, Response, sleep
from .transport import CLIENT, error_of_answer, guarded, mapping

CLIENT_ID = "rouse-sdk"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
#: What ``slow_down`` adds to the time between polls, seconds (RFC 8628, 3.5).
SLOW_DOWN_SECONDS = 5.0
#: Shortest time between polls, whatever the server says, seconds.
INTERVAL_MIN = 0.1
#: Longest time between polls while the server is not reached, seconds.
LOST_WAIT_MAX = 30.0
#: Longest wait for one answer, milliseconds.
ATTEMPT_MS = 30_000


def device_login(
    *,
    base_url: str,
    on_code: Callable[[DeviceCode], object],
    client_name: Optional[str] = None,
    scope: Optional[str] = None,
) -> LoginResult:
    """Get a key by a person's approval, and wait for it as long as the code holds (15 minutes). Lost connections are bridged.

    ``on_code`` shows link and code; it is called once, before the wait. ``client_name``: what the person is shown: which
    program on which machine asks; at most 128 characters. ``scope`` ``trial``: a trial account will do, where the
    installation offers them. Raises AuthenticationError ``access_denied``, ``expired_token``, or ``login_failed`` for any
    other refusal.
    """
    line = Line(parse_base_url(base_url))
    try:
        started = begin(line, client_name, scope)
        seconds = number(started, "expires_in")
        ends_at = time.monotonic() + seconds
        on_code(code_of(started, seconds))
        interval = max(INTERVAL_MIN, number(started, "interval", 5.0))
        wait = interval
        lost: Optional[RouseError] = None
        while True:
            left = ends_at - time.monotonic()
            if left <= 0:
                refuse("expired_token", lost)
            sleep(min(wait, left))
            try:
                fields = {"grant_type": GRANT, "device_code": text(started, "device_code")}
                answer = line.post("/oauth/token", fields)
            except RouseError as error:
                if not error.retryable:
                    raise
                lost = error
                said = (error.retry_after_ms or 0) / 1000
                wait = max(interval, min(LOST_WAIT_MAX, max(wait * 2, said)))
                continue
            lost = None
            refused = answer.get("error")
            if refused is None:
                return LoginResult(text(answer, "access_token"), text(answer, "account"))
            if refused == "slow_down":
                interval += SLOW_DOWN_SECONDS
            elif refused != "authorization_pending":
                refuse(str(refused), None, answer.get("error_description"))
            wait = interval
    finally:
        line.pool.close()


def begin(line: Line, client_name: Optional[str], scope: Optional[str]) -> Dict[str, Any]:
    state = RetryState()
    began = time.monotonic()
    while True:
        try:
            answer = line.post("/oauth/device_authorization", {"client_name": client_name, "scope": scope})
            if answer.get("error") is not None:
                refuse(str(answer["error"]), None, answer.get("error_description"))
            return answer
        except RouseError as error:
            state.elapsed_ms = (time.monotonic() - began) * 1000
            decision = decide_retry(error, state, RetryPolicy(4))
            if decision is None:
                raise
            counter, wait_ms = decision
            setattr(state, counter, getattr(state, counter) + 1)
            sleep(wait_ms / 1000)


class Line:
    """Forms to the two OAuth routes, which take no key."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self.pool = Pool()

    def post(self, path: str, fields: Mapping[str, Optional[str]]) -> Dict[str, Any]:
        """The JSON of an answer that is good, or that refuses as OAuth does."""
        form = {"client_id": CLIENT_ID, **{name: value for name, value in fields.items() if value is not None}}
        headers = {
            "accept": "application/json",
            "content-type": "application/x-www-form-urlencoded",
            "x-rouse-client": CLIENT,
        }
        deadline = Deadline(ATTEMPT_MS)

        def ask() -> Response:
            body = urlencode(form).encode()
            return self.pool.request("POST", f"{self._base_url}{path}", headers, body, deadline.left())

        what = f"No whole answer from {self._base_url}"
        response = guarded(ask, deadline, what)
        data = guarded(lambda: response.read(deadline), deadline, what)
        if not 200 <= response.status < 300 and response.status not in (400, 401):
            raise error_of_answer(response.status, response.headers, data)
        try:
            return mapping(json.loads(data))
        except ValueError:
            raise unexpected_answer("the answer is not JSON") from None


def code_of(started: Mapping[str, Any], seconds: float) -> DeviceCode:
    uri = link(text(started, "verification_uri"))
    complete = started.get("verification_uri_complete")
    user_code = text(started, "user_code")
    if not re.fullmatch(r"[ -~]{1,64}", user_code):
        raise unexpected_answer("user_code is no code")
    now = datetime.datetime.now(datetime.timezone.utc)
    return DeviceCode(
        verification_uri=uri,
        verification_uri_complete=uri if complete is None else link(str(complete)),
        user_code=user_code,
        expires_at=now + datetime.timedelta(seconds=seconds),
    )


def link(uri: str) -> str:
    """A page on which a person may have to enter a key: never over an open line."""
    parts = urlsplit(uri)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return uri
    raise unexpected_answer("verification_uri is no https link")


def text(answer: Mapping[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str) or not value:
        raise unexpected_answer(f"{name} is missing")
    return value


def number(answer: Mapping[str, Any], name: str, default: Optional[float] = None) -> float:
    value = answer.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 86_400:
        raise unexpected_answer(f"{name} is no number of seconds")
    return float(value)


def refuse(error: str, cause: Optional[RouseError] = None, description: Optional[str] = None) -> NoReturn:
    if error == "access_denied":
        raise AuthenticationError(
            "access_denied",
            "The login was refused.",
            hint="It was refused on the page, or too many wrong keys were entered there. Log in again.",
        )
    if error == "expired_token":
        hint = "Log in again, and open the link while the code holds."
        raise AuthenticationError("expired_token", "The login was not approved in time.", hint=hint) from cause
    message = f"The login failed: {description or error}"
    raise AuthenticationError("login_failed", message, hint="Log in again.", details={"error": error})
