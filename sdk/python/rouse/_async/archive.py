"""Folders of a sandbox as tar archives, of any length; no more than two parts of one are in memory."""

from __future__ import annotations

import hashlib
import json
import uuid
from contextlib import aclosing
from typing import AsyncGenerator, Optional, Sequence

from ..answers import Unpacked, Upload
from ..errors import RouseError, unexpected_answer
from ..options import RequestOptions
from ..sources import CHUNK_BYTES
from ..wire import answer_of, field_of, segment
from .driver import AsyncStreamSource, pieces_of
from .remote import AsyncRemote

ARCHIVE = "/files/archive"


async def read_archive(
    remote: AsyncRemote, path: str, gzip: bool, exclude: Optional[Sequence[str]], request: RequestOptions
) -> AsyncGenerator[bytes, None]:
    query = {"path": path, "gzip": gzip, "exclude": exclude}
    accept = "application/gzip" if gzip else "application/x-tar"
    body = await remote.transport.stream("GET", remote.path(ARCHIVE), query=query, accept=accept, **request)
    try:
        while True:
            chunk = await body.chunk()
            if not chunk:
                return
            yield chunk
    finally:
        await body.aclose()


async def write_archive(
    remote: AsyncRemote, path: str, source: AsyncStreamSource, request: RequestOptions
) -> Unpacked:
    async with aclosing(parts_of(source)) as parts:
        first = await anext(parts, b"")
        second = await anext(parts, b"") if len(first) == CHUNK_BYTES else b""
        if second:
            return await in_parts(remote, path, [first, second], parts, request)
        answer = await remote.transport.json("PUT", remote.path(ARCHIVE), query={"path": path}, content=first, **request)
        return answer_of(Unpacked, answer)


async def in_parts(
    remote: AsyncRemote,
    path: str,
    begun: Sequence[bytes],
    rest: AsyncGenerator[bytes, None],
    request: RequestOptions,
) -> Unpacked:
    """One after another, each as often as it takes."""
    call_key = request.get("idempotency_key") or str(uuid.uuid4())
    timeout_ms = request.get("timeout_ms")

    def key_of(phase: str) -> str:
        text = json.dumps(["files.writeArchive", call_key, phase], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    uploads = f"{ARCHIVE}/uploads"
    answer = await remote.post(uploads, {"path": path}, idempotency_key=key_of("begin"), timeout_ms=timeout_ms)
    upload = answer_of(Upload, answer)
    chunk_bytes = upload["chunkBytes"]
    if not 1 <= chunk_bytes <= CHUNK_BYTES:
        raise unexpected_answer(f"chunkBytes is {chunk_bytes}")
    target = f"{uploads}/{segment(upload['uploadId'])}"
    sent = 0

    async def send(part: bytes) -> None:
        nonlocal sent
        for at in range(0, len(part), chunk_bytes):
            data = part[at : at + chunk_bytes]
            answer = await remote.transport.json(
                "PUT", remote.path(target), query={"offset": sent}, content=data, timeout_ms=timeout_ms
            )
            sent += len(data)
            received = field_of(answer, "received", int)
            # More is there where the whole call was made before.
            if received < sent:
                raise unexpected_answer(f"received is {received}, not {sent}")

    try:
        for part in begun:
            await send(part)
        async for part in rest:
            await send(part)
        answer = await remote.post(f"{target}:commit", {}, idempotency_key=key_of("commit"), timeout_ms=timeout_ms)
        return answer_of(Unpacked, answer)
    except BaseException:
        try:
            await remote.post(f"{target}:abort", {}, timeout_ms=5000, idempotency_key=key_of("abort"))
        except RouseError:
            pass
        raise


async def parts_of(source: AsyncStreamSource) -> AsyncGenerator[bytes, None]:
    """The same bytes in pieces of a size, of which the last may have less."""
    pending = bytearray()
    async for piece in pieces_of(source):
        pending += piece
        while len(pending) >= CHUNK_BYTES:
            yield bytes(pending[:CHUNK_BYTES])
            del pending[:CHUNK_BYTES]
    if pending:
        yield bytes(pending)
