"""The one place where requests leave: headers, time limits, idempotency keys, retries, and errors of the wire."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from typing import Any, AsyncGenerator, AsyncIterator, Awaitable, Callable, Dict, Mapping, Optional, TypeVar, Union, cast

from ..credentials import Credentials, find_credentials
from ..deadline import Deadline
from ..errors import RouseError, class_of_status, connection_error, invalid_argument, unexpected_answer
from ..frames import Handshake
from ..options import SendOptions, Unpack
from ..retry import RetryPolicy, RetryState, decide_retry, is_retryable, may_come_free
from ..version import VERSION
from ..wire import json_bytes, query_string
from .channels import AsyncChannel
from .driver import AsyncPool, AsyncResponse, AsyncUpgrade, sleep

T = TypeVar("T")
#: Longest wait for the headers of one attempt, seconds; the server answers or lets go well before.
ATTEMPT_SECONDS = 125.0
#: Longest line of a stream, bytes: what a server sends in one event is far below.
LINE_MAX = 64 * 1024 * 1024
CLIENT = f"sdk-python/{VERSION}"


class AsyncBody:
    """Bytes of an answer as they come."""

    def __init__(self, response: AsyncResponse, deadline: Deadline) -> None:
        self._response = response
        self._deadline = deadline
        #: Names in lower case.
        self.headers = response.headers

    async def chunk(self) -> bytes:
        """The next ones; none at the end. Raises ConnectionError when they are cut."""
        return await guarded(lambda: self._response.chunk(self._deadline), self._deadline, "The connection was cut")

    async def aclose(self) -> None:
        await self._response.aclose()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while True:
                chunk = await self.chunk()
                if not chunk:
                    return
                yield chunk
        finally:
            await self.aclose()


class AsyncTransport:
    def __init__(
        self,
        api_key: Union[str, Callable[[], str], None],
        base_url: Optional[str],
        timeout_ms: float,
        max_retries: int,
        wait_for_capacity_ms: float,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._timeout_ms = timeout_ms
        self._max_retries = max_retries
        self._wait_for_capacity_ms = wait_for_capacity_ms
        self._credentials: Optional[Credentials] = None
        self._finding = threading.Lock()
        self.pool = AsyncPool()

    def credentials(self) -> Credentials:
        """Base URL and key, looked up until they are found: a key may arrive later, when ``npm start`` has run."""
        with self._finding:
            if self._credentials is None:
                key = self._api_key() if callable(self._api_key) else self._api_key
                self._credentials = find_credentials(key, self._base_url)
            return self._credentials

    def renew(self, over: Credentials) -> bool:
        """Whether another token is to be had in the place of one that is over; the next call then gets it."""
        with self._finding:
            # Calls that run side by side find the same one over; the first of them has a new one given.
            if callable(self._api_key) and self._credentials is over:
                self._credentials = None
            return callable(self._api_key)

    async def json(self, method: str, path: str, **call: Unpack[SendOptions]) -> object:
        """Send and answer the JSON of the response; None for an empty one."""

        async def read(response: AsyncResponse, deadline: Deadline) -> object:
            text = await response.read(deadline)
            if not text:
                return None
            try:
                return cast(object, json.loads(text))
            except ValueError:
                raise unexpected_answer("the answer is not JSON") from None

        return await self.send(method, path, read, **call)

    async def send(
        self,
        method: str,
        path: str,
        read: Callable[[AsyncResponse, Deadline], Awaitable[T]],
        **call: Unpack[SendOptions],
    ) -> T:
        """Send, and read the good response whole; a body cut while it is read is a failure that is retried."""
        return await self._run(method, path, self._deadline(call), read, call)

    async def stream(self, method: str, path: str, **call: Unpack[SendOptions]) -> AsyncBody:
        """Send, and hand out the body of the good response; only what comes before the body is retried."""
        deadline = self._deadline(call)

        async def read(response: AsyncResponse, deadline: Deadline) -> AsyncBody:
            return AsyncBody(response, deadline)

        return await self._run(method, path, deadline, read, call)

    async def events(self, method: str, path: str, **call: Unpack[SendOptions]) -> AsyncGenerator[Any, None]:
        """The events of a streamed answer. Raises ConnectionError ``connection_error`` when it is cut."""
        call["accept"] = "application/x-ndjson"
        body = await self.stream(method, path, **call)
        pending = bytearray()
        try:
            while True:
                chunk = await body.chunk()
                if not chunk:
                    if pending.strip():
                        yield parsed(pending)
                    return
                pending += chunk
                if len(pending) > LINE_MAX:
                    raise connection_error("The stream was cut: a line is too long")
                if b"\n" not in chunk:
                    continue
                *lines, pending = pending.split(b"\n")
                for line in lines:
                    if line.strip():
                        yield parsed(line)
        finally:
            await body.aclose()

    async def upgrade(self, path: str, query: Mapping[str, Any], max_retries: Optional[int] = None) -> AsyncChannel:
        """Begin a WebSocket. Raises what other calls raise, for one that is refused as for one that can't be had."""
        deadline = self._deadline({})

        async def attempt(found: Credentials) -> AsyncChannel:
            return await self._begin(found, path, query, deadline)

        return await self._retried(attempt, deadline, {"max_retries": max_retries})

    def _deadline(self, call: SendOptions) -> Deadline:
        timeout_ms = call.get("timeout_ms")
        return Deadline(self._timeout_ms if timeout_ms is None else timeout_ms)

    async def _run(
        self,
        method: str,
        path: str,
        deadline: Deadline,
        read: Callable[[AsyncResponse, Deadline], Awaitable[T]],
        call: SendOptions,
    ) -> T:
        key = None if method == "GET" else call.get("idempotency_key") or str(uuid.uuid4())
        body, headers = content_of(call)

        async def attempt(found: Credentials) -> T:
            return await self._attempt(found, method, path, deadline, key, body, headers, read, call)

        return await self._retried(attempt, deadline, call)

    async def _retried(
        self, attempt: Callable[[Credentials], Awaitable[T]], deadline: Deadline, call: SendOptions
    ) -> T:
        max_retries = call.get("max_retries")
        policy = RetryPolicy(
            self._max_retries if max_retries is None else max_retries,
            self._wait_for_capacity_ms if call.get("wait_for_capacity") else 0,
        )
        state = RetryState()
        began = time.monotonic()
        renewed = False
        while True:
            found = self.credentials()
            try:
                return await attempt(found)
            except RouseError as error:
                if error.status == 401 and not renewed and self.renew(found):
                    renewed = True
                    continue
                state.elapsed_ms = (time.monotonic() - began) * 1000
                decision = None if deadline.is_over() else decide_retry(error, state, policy)
                if decision is None:
                    raise
                counter, wait_ms = decision
                if counter == "capacity_waits":
                    deadline.extend(wait_ms)
                # The last answer says more than "out of time" would.
                if not deadline.has(wait_ms):
                    raise
                setattr(state, counter, getattr(state, counter) + 1)
                await sleep(wait_ms / 1000)

    async def _attempt(
        self,
        found: Credentials,
        method: str,
        path: str,
        deadline: Deadline,
        key: Optional[str],
        body: Optional[bytes],
        more: Mapping[str, str],
        read: Callable[[AsyncResponse, Deadline], Awaitable[T]],
        call: SendOptions,
    ) -> T:
        headers: Dict[str, str] = {
            "authorization": f"Bearer {found.api_key}",
            "accept": call.get("accept") or "application/json",
            "x-rouse-client": CLIENT,
        }
        if key is not None:
            headers["idempotency-key"] = key
        wait_seconds = call.get("wait_seconds")
        if wait_seconds is not None:
            headers["prefer"] = f"wait={wait_seconds}"
        headers.update(more)
        checked(headers)
        url = f"{found.base_url}{path}{query_string(call.get('query'))}"
        what = f"No whole answer from {found.base_url}"

        async def ask() -> AsyncResponse:
            return await self.pool.request(method, url, headers, body, deadline.left(ATTEMPT_SECONDS))

        response = await guarded(ask, deadline, what, key)
        if 200 <= response.status < 300:
            return await guarded(lambda: read(response, deadline), deadline, what, key)
        text = await guarded(lambda: response.read(deadline), deadline, what, key)
        if 300 <= response.status < 400:
            raise connection_error(f"{found.base_url} answered with a redirect", key)
        raise error_of_answer(response.status, response.headers, text, key)

    async def _begin(
        self, found: Credentials, path: str, query: Mapping[str, Any], deadline: Deadline
    ) -> AsyncChannel:
        handshake = Handshake()
        headers = {"authorization": f"Bearer {found.api_key}", "x-rouse-client": CLIENT, **handshake.headers()}
        checked(headers)
        url = f"{found.base_url}{path}{query_string(query)}"

        async def ask() -> AsyncUpgrade:
            return await self.pool.upgrade(url, headers, deadline.left(ATTEMPT_SECONDS))

        answer = await guarded(ask, deadline, f"No whole answer from {found.base_url}")
        if answer.channel is not None:
            fault = handshake.fault(answer.headers)
            if fault is None:
                return answer.channel
            answer.channel.reset()
            raise unexpected_answer(f"for a WebSocket {fault}")
        if 300 <= answer.status < 400:
            raise connection_error(f"{found.base_url} answered with a redirect")
        if answer.status < 300:
            raise unexpected_answer(f"it has status {answer.status}, and is no WebSocket")
        raise error_of_answer(answer.status, answer.headers, answer.body)


async def guarded(work: Callable[[], Awaitable[T]], deadline: Deadline, what: str, key: Optional[str] = None) -> T:
    """What goes wrong on the way as an error of ours."""
    try:
        return await work()
    except TimeoutError as fault:
        if deadline.is_over():
            raise deadline.over() from fault
        raise connection_error(f"{what}: no answer in time", key) from fault
    except OSError as fault:
        raise connection_error(f"{what}: {fault.strerror or fault}", key) from fault


def content_of(call: SendOptions) -> tuple[Optional[bytes], Dict[str, str]]:
    """Body and headers; those that are given win."""
    headers: Dict[str, str] = {}
    body = call.get("content")
    if call.get("json") is not None:
        body = json_bytes(call.get("json"))
        headers["content-type"] = "application/json"
    elif body is not None:
        headers["content-type"] = "application/octet-stream"
    headers.update(call.get("headers") or {})
    return body, headers


def checked(headers: Mapping[str, str]) -> None:
    """Raises InvalidRequestError ``invalid_argument`` for what is no header."""
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[^\t\x20-\x7e\x80-\xff]", value):
            raise invalid_argument(f"The value of the header {name!r} is none.")


def parsed(line: bytearray) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise connection_error("The stream was cut: a line is not JSON") from None


def error_of_answer(status: int, headers: Mapping[str, str], text: bytes, key: Optional[str] = None) -> RouseError:
    """The error of an answer that is not good."""
    found: Any
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    body = mapping(mapping(found).get("error"))
    code = body.get("code") if isinstance(body.get("code"), str) else "request_failed"
    plain = text.decode("utf-8", "replace").strip()[:500] or f"HTTP status {status}"
    return class_of_status(status)(
        cast(str, code),
        str(body["message"]) if isinstance(body.get("message"), str) else plain,
        status=status,
        hint=body["hint"] if isinstance(body.get("hint"), str) else None,
        details=mapping(body.get("details")),
        request_id=body["requestId"] if isinstance(body.get("requestId"), str) else headers.get("x-request-id"),
        retry_after_ms=retry_after_of(body.get("retryAfterMs"), headers.get("retry-after")),
        idempotency_key=key,
        retryable=is_retryable(cast(str, code), status) or may_come_free(cast(str, code)),
    )


def mapping(value: Any) -> Dict[str, Any]:
    return cast(Dict[str, Any], value) if isinstance(value, dict) else {}


def retry_after_of(field: Any, header: Optional[str]) -> Optional[float]:
    if isinstance(field, (int, float)) and not isinstance(field, bool) and field >= 0:
        return field
    if header is not None and re.fullmatch(r"\d+(\.\d+)?", header):
        return float(header) * 1000
    return None
