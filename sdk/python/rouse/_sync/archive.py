# Made by test/support/print-python.ts from _async/archive.py: change that file.
"""Folders of a sandbox as tar archives, of any length; no more than two parts of one are in memory."""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import closing
from typing import Generator, Optional, Sequence

from ..answers import Unpacked, Upload
from ..errors import RouseError, unexpected_answer
from ..options import RequestOptions
from ..sources import CHUNK_BYTES
from ..wire import answer_of, field_of, segment
from .driver import StreamSource, pieces_of
from .remote import Remote

ARCHIVE = "/files/archive"


def read_archive(
    remote: Remote, path: str, gzip: bool, exclude: Optional[Sequence[str]], request: RequestOptions
) -> Generator[bytes, None, None]:
    query = {"path": path, "gzip": gzip, "exclude": exclude}
    accept = "application/gzip" if gzip else "application/x-tar"
    body = remote.transport.stream("GET", remote.path(ARCHIVE), query=query, accept=accept, **request)
    try:
        while True:
            chunk = body.chunk()
            if not chunk:
                return
            yield chunk
    finally:
        body.close()


def write_archive(
    remote: Remote, path: str, source: StreamSource, request: RequestOptions
) -> Unpacked:
    with closing(parts_of(source)) as parts:
        first = next(parts, b"")
        second = next(parts, b"") if len(first) == CHUNK_BYTES else b""
        if second:
            return in_parts(remote, path, [first, second], parts, request)
        answer = remote.transport.json("PUT", remote.path(ARCHIVE), query={"path": path}, content=first, **request)
        return answer_of(Unpacked, answer)


def in_parts(
    remote: Remote,
    path: str,
    begun: Sequence[bytes],
    rest: Generator[bytes, None, None],
    request: RequestOptions,
) -> Unpacked:
    """One after another, each as often as it takes."""
    call_key = request.get("idempotency_key") or str(uuid.uuid4())
    timeout_ms = request.get("timeout_ms")

    def key_of(phase: str) -> str:
        text = json.dumps(["files.writeArchive", call_key, phase], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    uploads = f"{ARCHIVE}/uploads"
    answer = remote.post(uploads, {"path": path}, idempotency_key=key_of("begin"), timeout_ms=timeout_ms)
    upload = answer_of(Upload, answer)
    chunk_bytes = upload["chunkBytes"]
    if not 1 <= chunk_bytes <= CHUNK_BYTES:
        raise unexpected_answer(f"chunkBytes is {chunk_bytes}")
    target = f"{uploads}/{segment(upload['uploadId'])}"
    sent = 0

    def send(part: bytes) -> None:
        nonlocal sent
        for at in range(0, len(part), chunk_bytes):
            data = part[at : at + chunk_bytes]
            answer = remote.transport.json(
                "PUT", remote.path(target), query={"offset": sent}, content=data, timeout_ms=timeout_ms
            )
            sent += len(data)
            received = field_of(answer, "received", int)
            # More is there where the whole call was made before.
            if received < sent:
                raise unexpected_answer(f"received is {received}, not {sent}")

    try:
        for part in begun:
            send(part)
        for part in rest:
            send(part)
        answer = remote.post(f"{target}:commit", {}, idempotency_key=key_of("commit"), timeout_ms=timeout_ms)
        return answer_of(Unpacked, answer)
    except BaseException:
        try:
            remote.post(f"{target}:abort", {}, timeout_ms=5000, idempotency_key=key_of("abort"))
        except RouseError:
            pass
        raise


def parts_of(source: StreamSource) -> Generator[bytes, None, None]:
    """The same bytes in pieces of a size, of which the last may have less."""
    pending = bytearray()
    for piece in pieces_of(source):
        pending += piece
        while len(pending) >= CHUNK_BYTES:
            yield bytes(pending[:CHUNK_BYTES])
            del pending[:CHUNK_BYTES]
    if pending:
        yield bytes(pending)
