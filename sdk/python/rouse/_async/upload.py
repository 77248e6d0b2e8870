"""Writing a file of known size and digest: in one PUT when it is small, else in chunks that may each be sent again."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any, Dict, Optional

from ..errors import RouseError, unexpected_answer
from ..options import RequestOptions
from ..sources import CHUNK_BYTES, Source
from ..answers import FileWritten, Upload
from ..wire import answer_of, field_of, segment
from .driver import blocking, in_parallel
from .remote import AsyncRemote

#: Chunks on their way at once.
PARALLEL_CHUNKS = 8


async def write_file(
    remote: AsyncRemote, path: str, source: Source, mode: Optional[str], request: RequestOptions
) -> FileWritten:
    """Write a source to a path; parents are made, and the file appears whole or not at all."""
    if source.size > CHUNK_BYTES:
        return await upload_in_chunks(remote, path, source, mode, request)
    data = await blocking(lambda: source.read(0, source.size))
    answer = await remote.transport.json(
        "PUT", remote.path("/files/content"), query={"path": path, "mode": mode}, content=data, **request
    )
    return answer_of(FileWritten, answer)


async def upload_in_chunks(
    remote: AsyncRemote, path: str, source: Source, mode: Optional[str], request: RequestOptions
) -> FileWritten:
    call_key = request.get("idempotency_key") or str(uuid.uuid4())
    timeout_ms = request.get("timeout_ms")

    def phase_key(phase: str) -> str:
        text = json.dumps(["files.write", call_key, phase], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    body: Dict[str, Any] = {"path": path, "size": source.size, "sha256": await blocking(source.sha256)}
    if mode is not None:
        body["mode"] = mode
    answer = await remote.post("/uploads", body, idempotency_key=phase_key("begin"), timeout_ms=timeout_ms)
    begun = answer_of(Upload, answer)
    chunk_bytes = begun["chunkBytes"]
    if not 1 <= chunk_bytes <= CHUNK_BYTES:
        raise unexpected_answer(f"chunkBytes is {chunk_bytes}")
    upload_path = f"/uploads/{segment(begun['uploadId'])}"

    async def commit() -> FileWritten:
        key = phase_key("commit")
        answer = await remote.post(f"{upload_path}:commit", {}, idempotency_key=key, timeout_ms=timeout_ms)
        return answer_of(FileWritten, answer)

    async def send(offset: int) -> None:
        data = await blocking(lambda: source.read(offset, min(chunk_bytes, source.size - offset)))
        answer = await remote.transport.json(
            "PUT", remote.path(upload_path), query={"offset": offset}, content=data, timeout_ms=timeout_ms
        )
        received = field_of(answer, "received", int)
        if received < len(data) or received > source.size:
            raise unexpected_answer(f"received is {received}")

    try:
        if begun.get("replayed"):
            try:
                return await commit()
            except RouseError as error:
                if error.code != "upload_incomplete":
                    raise
        await in_parallel(range(0, source.size, chunk_bytes), PARALLEL_CHUNKS, send)
        return await commit()
    except BaseException:
        try:
            await remote.post(f"{upload_path}:abort", {}, timeout_ms=5000, idempotency_key=phase_key("abort"))
        except RouseError:
            pass
        raise
