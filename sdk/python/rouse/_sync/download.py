# Made by test/support/print-python.ts from _async/download.py: change that file.
"""Reading a file's bytes, held against the length and digest that the sandbox announced."""

from __future__ import annotations

import hashlib
from typing import Callable, Generator, Mapping, Optional, TypeVar

from ..deadline import Deadline
from ..errors import ConnectionError, RouseError
from ..options import RequestOptions
from .driver import Response
from .remote import Remote

T = TypeVar("T")
#: Reads of one file before it is given up.
TRIES = 3
BYTES = "application/octet-stream"


def retry_incomplete(read: Callable[[], T]) -> T:
    """Do a read again when bytes were missing or wrong."""
    tries = 1
    while True:
        try:
            return read()
        except RouseError as error:
            if error.code not in ("download_incomplete", "connection_error") or tries == TRIES:
                raise
        tries += 1


def read_bytes(remote: Remote, path: str, request: RequestOptions) -> bytes:
    """A file's bytes, checked."""

    def read(response: Response, deadline: Deadline) -> bytes:
        data = response.read(deadline)
        check(path, response.headers, len(data), hashlib.sha256(data).hexdigest())
        return data

    def once() -> bytes:
        return remote.transport.send(
            "GET", remote.path("/files/content"), read, query={"path": path}, accept=BYTES, **request
        )

    return retry_incomplete(once)


def read_checked(remote: Remote, path: str, request: RequestOptions) -> Generator[bytes, None, None]:
    """A file as a stream that fails at its end when bytes were missing or wrong."""
    body = remote.transport.stream(
        "GET", remote.path("/files/content"), query={"path": path}, accept=BYTES, **request
    )
    digest = hashlib.sha256()
    size = 0
    try:
        while True:
            chunk = body.chunk()
            if not chunk:
                break
            size += len(chunk)
            digest.update(chunk)
            yield chunk
    finally:
        body.close()
    check(path, body.headers, size, digest.hexdigest())


def check(path: str, headers: Mapping[str, str], size: int, sha256: str) -> None:
    announced = headers.get("x-content-length", "")
    if announced.isdigit() and int(announced) != size:
        raise incomplete(f"{path} has {announced} bytes, but {size} arrived.")
    expected: Optional[str] = headers.get("x-content-sha256")
    if expected is not None and expected.lower() != sha256:
        raise incomplete(f"The bytes of {path} that arrived are not those that were sent.")


def incomplete(message: str) -> ConnectionError:
    return ConnectionError("download_incomplete", message, retryable=True)
