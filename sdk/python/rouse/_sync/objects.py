# Made by test/support/print-python.ts from _async/objects.py: change that file.
"""Objects of a sandbox: bytes under keys, outside of its machine."""

from __future__ import annotations

import hashlib
from typing import Any, Generator, Iterator, Optional, Tuple, Union, cast

from ..deadline import Deadline
from ..errors import RouseError, known_error
from ..inputs import ObjectSignature
from ..options import UNSET, SendOptions, RequestOptions, Unpack, Unset
from ..answers import ObjectList, ObjectUpload, SignedObject, StoredObject
from ..wire import Data, answer_of, arguments, bytes_of, field_of, given, segment
from .driver import Response, StreamSource, pieces_of
from .remote import Remote
from .state import conditional

#: What is larger goes in parts of this size, bytes.
PART = 32 * 1_048_576
BYTES = "application/octet-stream"


class Objects:
    """Objects: files of up to 5 GiB that outlive the machine, and that others may be given a URL of.

    sandbox.objects.put("reports/may.pdf", data, content_type="application/pdf")
    url = sandbox.objects.sign("reports/may.pdf", expires_seconds=600)["url"]
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def put(
        self,
        key: str,
        data: Union[Data, StreamSource],
        *,
        content_type: str = BYTES,
        if_etag: Union[str, None, Unset] = UNSET,
        **request: Unpack[RequestOptions],
    ) -> StoredObject:
        """Store an object: whole or not at all, checked by its SHA-256. Above 32 MiB it goes in parts.

        ``data``: text, bytes, an open file, or pieces. ``if_etag``: only when the object has that etag; None: only when it
        is not there. Raises RouseError ``storage_full``, and ConflictError ``version_mismatch``.
        """
        whole = isinstance(data, (str, bytes, bytearray, memoryview))
        parts = in_parts(pieces_of([bytes_of(cast(Data, data))] if whole else data))
        first = next(parts, b"")
        second = next(parts, b"")
        if not second:
            call = conditional(if_etag)
            call["headers"] = {**(call.get("headers") or {}), "content-type": content_type}
            call["query"] = {"sha256": hashlib.sha256(first).hexdigest()}
            call["content"] = first
            all_of = cast(SendOptions, {**request, **call})
            return answer_of(StoredObject, self._remote.transport.json("PUT", self._path(key), **all_of))
        upload = self.begin(key, content_type=content_type, **request)
        # One caller's key cannot stand for many changes.
        each: RequestOptions = {"timeout_ms": request.get("timeout_ms")}
        try:
            self.put_part(upload["id"], 1, first, **each)
            self.put_part(upload["id"], 2, second, **each)
            count = 2
            for part in parts:
                count += 1
                self.put_part(upload["id"], count, part, **each)
            return self.complete(upload["id"], count, if_etag=if_etag, **each)
        except BaseException:
            try:
                self.abort(upload["id"])
            except RouseError:
                pass
            raise

    def get(
        self, key: str, *, range: Optional[Tuple[int, Optional[int]]] = None, **request: Unpack[RequestOptions]
    ) -> bytes:
        """Its bytes. ``range``: an offset, and how many bytes or None for all. Raises NotFoundError ``object_not_found``."""

        def read(response: Response, deadline: Deadline) -> bytes:
            return response.read(deadline)

        call = cast(SendOptions, {**request, **ranged(range)})
        return self._remote.transport.send("GET", self._path(key), read, **call)

    def get_text(
        self, key: str, *, range: Optional[Tuple[int, Optional[int]]] = None, **request: Unpack[RequestOptions]
    ) -> str:
        return (self.get(key, range=range, **request)).decode("utf-8", "replace")

    def get_stream(
        self, key: str, *, range: Optional[Tuple[int, Optional[int]]] = None, **request: Unpack[RequestOptions]
    ) -> Generator[bytes, None, None]:
        """Its bytes as they come. No time limit unless given."""
        call = cast(SendOptions, {"timeout_ms": 0, **request, **ranged(range)})
        body = self._remote.transport.stream("GET", self._path(key), **call)
        try:
            while True:
                chunk = body.chunk()
                if not chunk:
                    return
                yield chunk
        finally:
            body.close()

    def stat(self, key: str, **request: Unpack[RequestOptions]) -> StoredObject:
        """What is known of it, without its bytes. Raises NotFoundError ``object_not_found``."""
        found = (self.list(prefix=key, limit=1, **request))["data"]
        if found and found[0]["key"] == key:
            return found[0]
        raise known_error("object_not_found", "There is no such object.")

    def list(
        self,
        *,
        prefix: Optional[str] = None,
        delimiter: Optional[str] = None,
        limit: Optional[int] = None,
        cursor: Optional[str] = None,
        **request: Unpack[RequestOptions],
    ) -> ObjectList:
        """In order of their keys. With ``delimiter="/"`` what is below a folder is one of ``prefixes``."""
        query: dict[str, Any] = {"prefix": prefix, "delimiter": delimiter, "limit": limit, "cursor": cursor}
        return answer_of(ObjectList, self._remote.get("/objects", query=query, **request))

    def delete(
        self, key: str, *, if_etag: Union[str, None, Unset] = UNSET, **request: Unpack[RequestOptions]
    ) -> bool:
        """Whether it was there."""
        call = cast(SendOptions, {**request, **conditional(if_etag)})
        return field_of(self._remote.transport.json("DELETE", self._path(key), **call), "deleted", bool)

    def sign(self, key: str, **fields: Unpack[ObjectSignature]) -> SignedObject:
        """A URL that reads (or with ``method="PUT"`` writes) the object without a key, for an hour unless given."""
        body, request = arguments(ObjectSignature, fields)
        return answer_of(SignedObject, self._remote.post("/objects:sign", {"key": key, **body}, **request))

    def begin(
        self, key: str, *, content_type: Optional[str] = None, **request: Unpack[RequestOptions]
    ) -> ObjectUpload:
        """Begin an object in parts. It is not there before ``complete``. Raises ConflictError ``quota_exceeded``."""
        body = given(key=key, content_type=content_type)
        return answer_of(ObjectUpload, self._remote.post("/object-uploads", body, **request))

    def put_part(
        self, upload: str, part: int, data: Data, **request: Unpack[RequestOptions]
    ) -> ObjectUpload:
        """Part 1 to 1,000, of at most 100 MiB; the same number again takes its place."""
        content = bytes_of(data)
        path = self._remote.path(f"/object-uploads/{segment(upload)}/parts/{part}")
        query = {"sha256": hashlib.sha256(content).hexdigest()}
        answer = self._remote.transport.json("PUT", path, query=query, content=content, **request)
        return answer_of(ObjectUpload, answer)

    def complete(
        self,
        upload: str,
        parts: int,
        *,
        if_etag: Union[str, None, Unset] = UNSET,
        **request: Unpack[RequestOptions],
    ) -> StoredObject:
        """``parts``: how many it has. Raises ConflictError ``upload_incomplete``."""
        call = cast(SendOptions, {**request, **conditional(if_etag), "json": {"parts": parts}})
        path = self._remote.path(f"/object-uploads/{segment(upload)}:complete")
        return answer_of(StoredObject, self._remote.transport.json("POST", path, **call))

    def abort(self, upload: str, **request: Unpack[RequestOptions]) -> None:
        self._remote.delete(f"/object-uploads/{segment(upload)}", **request)

    def _path(self, key: str) -> str:
        return self._remote.path(f"/objects/{segment(key)}")


def ranged(range: Optional[Tuple[int, Optional[int]]]) -> SendOptions:
    if range is None:
        return {"accept": BYTES}
    offset, length = range
    return {"accept": BYTES, "headers": {"range": f"bytes={offset}-{'' if length is None else offset + length - 1}"}}


def in_parts(pieces: Iterator[bytes]) -> Generator[bytes, None, None]:
    """A stream in pieces of one size; the last may be smaller."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= PART:
            yield bytes(held[:PART])
            del held[:PART]
    if held:
        yield bytes(held)
