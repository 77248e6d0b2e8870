"""Requests to the program in a sandbox, through its named URL in path form, with the API key or session token."""

from __future__ import annotations

import json
import time
from typing import Any, AsyncIterator, Dict, Literal, Mapping, Optional
from urllib.parse import urljoin

from ..deadline import Deadline
from ..errors import connection_error
from ..named_url import path_form_of, redirect_target, url_of_port, within
from ..wire import Data, bytes_of
from .driver import AsyncResponse, sleep
from .transport import AsyncTransport, checked, guarded, mapping

REDIRECTS_MAX = 20
#: How long a request is held while the sandbox wakes, seconds.
WAKING_SECONDS = 300.0
#: What belongs to the caller and the sandbox goes nowhere else.
SECRETS = frozenset({"authorization", "cookie", "proxy-authorization"})


class AsyncFetchResponse:
    """What the program answered. Its body is there to be read once, or left with ``aclose``."""

    def __init__(self, url: str, response: AsyncResponse, deadline: Deadline, body: Optional[bytes]) -> None:
        self._response = response
        self._deadline = deadline
        self._body = body
        #: Where it came from.
        self.url = url
        self.status = response.status
        #: Names in lower case.
        self.headers = response.headers

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    async def read(self) -> bytes:
        """All of the body."""
        if self._body is None:
            self._body = await guarded(lambda: self._response.read(self._deadline), self._deadline, "The body was cut")
        return self._body

    async def text(self) -> str:
        return (await self.read()).decode("utf-8", "replace")

    async def json(self) -> Any:
        return json.loads(await self.read())

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        try:
            while self._body is None:
                chunk = await guarded(
                    lambda: self._response.chunk(self._deadline), self._deadline, "The body was cut"
                )
                if not chunk:
                    return
                yield chunk
            yield self._body
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        await self._response.aclose()


async def named_fetch(
    transport: AsyncTransport,
    sandbox_url: str,
    path: str,
    *,
    method: str,
    headers: Optional[Mapping[str, str]],
    body: Optional[Data],
    port: int,
    redirect: Literal["follow", "manual", "error"],
    timeout_ms: float,
) -> AsyncFetchResponse:
    found = transport.credentials()
    prefix = path_form_of(found.base_url, sandbox_url, port)
    named_url = url_of_port(sandbox_url, port)
    url = within(prefix, path)
    deadline = Deadline(timeout_ms)
    content = None if body is None else bytes_of(body)
    given: Dict[str, str] = {name.lower(): value for name, value in (headers or {}).items()}
    checked(given)
    is_inside = True
    redirects = 0
    while True:
        answer = await send(transport, url, method, given, is_inside, content, deadline)
        location = answer.headers.get("location")
        if redirect == "manual" or location is None or answer.status not in (301, 302, 303, 307, 308):
            return answer
        await answer.aclose()
        if redirect == "error":
            raise connection_error("The program in the sandbox answered with a redirect")
        redirects += 1
        if redirects > REDIRECTS_MAX:
            raise connection_error("The program in the sandbox redirects without end")
        was_inside = is_inside
        if is_inside:
            url, is_inside = redirect_target(location, url, prefix, named_url)
        else:
            url = urljoin(url, location)
        if not url.startswith(("http://", "https://")):
            raise connection_error("The program in the sandbox redirects to what is no web page")
        if was_inside and not is_inside:
            given = {name: value for name, value in given.items() if name not in SECRETS}
        if (answer.status == 303 and method != "HEAD") or (answer.status < 303 and method == "POST"):
            method = "GET"
            content = None
            given = {name: value for name, value in given.items() if not name.startswith("content-")}


async def send(
    transport: AsyncTransport,
    url: str,
    method: str,
    given: Mapping[str, str],
    is_inside: bool,
    body: Optional[bytes],
    deadline: Deadline,
) -> AsyncFetchResponse:
    """Send, again while the edge says that the sandbox still wakes, or that the session is over and there is another.

    Then nothing has reached the program.
    """
    began = time.monotonic()
    renewed = False
    while True:
        found = transport.credentials()
        # The caller's own authorization is for the program, but the edge must see the key to let the request in.
        headers = {**given, **credential_of(found.api_key)} if is_inside else given

        async def ask(headers: Mapping[str, str] = headers) -> AsyncResponse:
            return await transport.pool.request(method, url, headers, body, deadline.left())

        response = await guarded(ask, deadline, "No whole answer from the sandbox")
        is_json = response.headers.get("content-type", "").startswith("application/json")
        if response.status not in (401, 503) or not is_json:
            return AsyncFetchResponse(url, response, deadline, None)
        text = await guarded(lambda: response.read(deadline), deadline, "The body was cut")
        refusal = refusal_of(text)
        if is_inside and not renewed and refusal.get("code") == "unauthorized" and transport.renew(found):
            renewed = True
            continue
        wait = waking_for(refusal)
        if wait is None or time.monotonic() - began > WAKING_SECONDS or not deadline.has(wait * 1000):
            return AsyncFetchResponse(url, response, deadline, text)
        await sleep(wait)


def credential_of(key: str) -> Dict[str, str]:
    """A session token has a header of its own, so that the caller's authorization reaches the program."""
    return {"x-rouse-token": key} if key.startswith("rs_") else {"authorization": f"Bearer {key}"}


def refusal_of(text: bytes) -> Dict[str, Any]:
    """What the edge says in the program's place, or what looks like it."""
    try:
        return mapping(mapping(json.loads(text)).get("error"))
    except ValueError:
        return {}


def waking_for(error: Mapping[str, Any]) -> Optional[float]:
    """Seconds until another try, where an answer says that the sandbox wakes."""
    if error.get("code") != "sandbox_waking":
        return None
    ms = error.get("retryAfterMs")
    return min(30.0, max(0.1, ms / 1000)) if isinstance(ms, (int, float)) else 1.0
