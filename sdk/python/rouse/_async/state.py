"""Keys with values, and a database, that a sandbox keeps outside of its machine."""

from __future__ import annotations

import json
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Sequence, TypeVar, Union, cast

from ..deadline import Deadline
from ..errors import NotFoundError, RouseError
from ..inputs import StateBatch
from ..options import UNSET, SendOptions, RequestOptions, Unpack, Unset
from ..results import StateValue
from ..answers import StateBatchedDataItem, StateEntry, StateUsage, SqlResultsResultsItem
from ..wire import Data, answer_of, arguments, bytes_of, field_of, json_bytes, list_of, segment
from .driver import AsyncResponse
from .page import AsyncPage, page_of
from .remote import AsyncRemote

T = TypeVar("T")
#: Tries of a transaction that others come between.
TRIES = 10
BYTES = "application/octet-stream"

#: What a statement takes: bytes as ``{"base64": ...}``.
SqlParam = Union[None, int, float, str, bool, Mapping[str, str]]
SqlResult = SqlResultsResultsItem


class AsyncStateTransaction:
    """What a transaction may do: it reads what is there, and its writes are done together at the end."""

    def __init__(self, state: AsyncState, request: RequestOptions) -> None:
        self._state = state
        self._request = request
        self.seen: Dict[str, Optional[int]] = {}
        self.writes: List[Dict[str, Any]] = []

    async def get(self, key: str) -> Any:
        """None: the key is not there."""
        found = await self._state.read(key, **self._request)
        # What changes between two reads of one transaction is found at its end.
        self.seen.setdefault(key, None if found is None else found.version)
        return None if found is None else found.value

    def set(self, key: str, value: Any, *, ttl_seconds: Optional[int] = None) -> None:
        more = {} if ttl_seconds is None else {"ttlSeconds": ttl_seconds}
        self.writes.append({"op": "put", "key": key, "value": value, **more})

    def delete(self, key: str) -> None:
        self.writes.append({"op": "delete", "key": key})


class AsyncState:
    """Keys with values, each with a version, and a SQLite database, outside of the machine.

    They are there while it sleeps, and after it is lost. Programs inside have the same at
    ``http://rouse.internal/state``, without a key.

        sandbox.data.set("plan", {"step": 8})
        plan = sandbox.data.get("plan")
        people = sandbox.data.sql("SELECT * FROM people WHERE age > ?", [30])
    """

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def get(self, key: str, **request: Unpack[RequestOptions]) -> Any:
        """The JSON value of a key; None where there is none. Raises RouseError ``unexpected_answer`` for what is no JSON."""
        found = await self.read(key, **request)
        return None if found is None else found.value

    async def read(self, key: str, **request: Unpack[RequestOptions]) -> Optional[StateValue[Any]]:
        """The JSON value with its version, for ``cas``; None where there is none."""
        found = await self.read_bytes(key, **request)
        if found is None:
            return None
        try:
            return StateValue(json.loads(found.value), found.version, found.content_type)
        except ValueError:
            raise RouseError("unexpected_answer", f"The value of {key} is not JSON.") from None

    async def read_bytes(self, key: str, **request: Unpack[RequestOptions]) -> Optional[StateValue[bytes]]:
        """The value as it is; None where there is none."""

        async def read(response: AsyncResponse, deadline: Deadline) -> StateValue[bytes]:
            data = await response.read(deadline)
            version = response.headers.get("etag", "").replace('"', "")
            kind = response.headers.get("content-type", BYTES)
            return StateValue(data, int(version) if version.isdigit() else 0, kind)

        try:
            return await self._remote.transport.send("GET", self._path(key), read, accept=BYTES, **request)
        except NotFoundError as error:
            if error.code == "state_not_found":
                return None
            raise

    async def set(
        self,
        key: str,
        value: Any,
        *,
        ttl_seconds: Optional[int] = None,
        if_version: Union[int, None, Unset] = UNSET,
        **request: Unpack[RequestOptions],
    ) -> StateEntry:
        """Set a key to a value, as JSON of at most 128 KiB.

        ``ttl_seconds``: until the value ends; for good unless given. ``if_version``: only when the key has that version;
        None: only when it is not there. Raises ConflictError ``version_mismatch``, and RouseError ``storage_full``.
        """
        return await self._put(key, json_bytes(value), "application/json", ttl_seconds, if_version, request)

    async def set_bytes(
        self,
        key: str,
        data: Data,
        *,
        content_type: str = BYTES,
        ttl_seconds: Optional[int] = None,
        if_version: Union[int, None, Unset] = UNSET,
        **request: Unpack[RequestOptions],
    ) -> StateEntry:
        return await self._put(key, bytes_of(data), content_type, ttl_seconds, if_version, request)

    async def cas(
        self, key: str, version: Optional[int], value: Any, **request: Unpack[RequestOptions]
    ) -> Optional[int]:
        """Compare and set: the value is set if the key has that version (None: if it is not there).

        Answers the new version, or None: somebody else was faster. Raises ConnectionError when the answer was lost:
        whether it was set is then not known; read the key.
        """
        try:
            return (await self.set(key, value, if_version=version, **request))["version"]
        except RouseError as error:
            if error.code == "version_mismatch":
                return None
            raise

    async def delete(
        self, key: str, *, if_version: Union[int, None, Unset] = UNSET, **request: Unpack[RequestOptions]
    ) -> bool:
        """Whether it was there."""
        call = cast(SendOptions, {**request, **conditional(if_version)})
        return field_of(await self._remote.transport.json("DELETE", self._path(key), **call), "deleted", bool)

    async def list(
        self, *, prefix: Optional[str] = None, limit: Optional[int] = None, **request: Unpack[RequestOptions]
    ) -> AsyncPage[StateEntry]:
        """Keys in order, page by page, without their values."""
        path = self._remote.path("/state/keys")
        query = {"prefix": prefix, "limit": limit}
        return await page_of(self._remote.transport, path, query, request, lambda one: answer_of(StateEntry, one))

    async def batch(self, **batch: Unpack[StateBatch]) -> List[StateBatchedDataItem]:
        """Writes to several keys, all or none, if all ``checks`` hold.

        Raises ConflictError ``version_mismatch``; ``details["mismatches"]`` says where.
        """
        body, request = arguments(StateBatch, batch)
        return await self._batch(body, request)

    async def add(self, key: str, by: int = 1, **request: Unpack[RequestOptions]) -> int:
        """Add to a whole number; one that is not there is 0. Answers the sum."""
        done = await self._batch({"writes": [{"op": "add", "key": key, "by": by}]}, request)
        return int(cast(Mapping[str, Any], done[0]).get("value") or 0) if done else 0

    async def transaction(
        self, work: Callable[[AsyncStateTransaction], Awaitable[T]], **request: Unpack[RequestOptions]
    ) -> T:
        """Read keys, then write keys, as if nobody else had been there.

        Where somebody has changed what was read, ``work`` is done again, up to 10 times. Raises ConflictError
        ``version_mismatch`` after that.
        """
        left = TRIES - 1
        while True:
            transaction = AsyncStateTransaction(self, request)
            result = await work(transaction)
            checks = [{"key": key, "version": version} for key, version in transaction.seen.items()]
            try:
                if checks or transaction.writes:
                    await self._batch({"checks": checks, "writes": transaction.writes}, request)
                return result
            except RouseError as error:
                if error.code != "version_mismatch" or left == 0:
                    raise
            left -= 1

    async def sql(
        self, sql: str, params: Sequence[SqlParam] = (), **request: Unpack[RequestOptions]
    ) -> List[Dict[str, Any]]:
        """Run one statement in the sandbox's database.

        Raises InvalidRequestError ``sql_failed``, with SQLite's own text, and RouseError ``storage_full``.
        """
        results = await self.sql_batch([{"sql": sql, "params": params}], **request)
        if not results:
            return []
        return [dict(zip(results[0]["columns"], row)) for row in results[0]["rows"]]

    async def sql_batch(
        self, statements: Sequence[Mapping[str, Any]], **request: Unpack[RequestOptions]
    ) -> List[SqlResult]:
        """Run statements (``{"sql": ..., "params": [...]}``) as one transaction: all of them, or none.

        It is not repeated where its answer is lost.
        """
        body = {"statements": [{"sql": one["sql"], "params": [*one.get("params", ())]} for one in statements]}
        answer = await self._remote.post("/state/sql", body, max_retries=0, **request)
        return list_of(SqlResultsResultsItem, answer, "results")

    async def usage(self, **request: Unpack[RequestOptions]) -> StateUsage:
        """How much the sandbox keeps outside of its machine, and how much it may."""
        return answer_of(StateUsage, await self._remote.get("/state", **request))

    async def _batch(self, body: Mapping[str, Any], request: RequestOptions) -> List[StateBatchedDataItem]:
        # Nobody can tell a repeated one from another: what is added would be added twice.
        answer = await self._remote.post("/state/keys:batch", body, max_retries=0, **request)
        return list_of(StateBatchedDataItem, answer)

    async def _put(
        self,
        key: str,
        data: bytes,
        content_type: str,
        ttl_seconds: Optional[int],
        if_version: Union[int, None, Unset],
        request: RequestOptions,
    ) -> StateEntry:
        call = conditional(if_version)
        call["headers"] = {**(call.get("headers") or {}), "content-type": content_type}
        call["query"] = {"ttlSeconds": ttl_seconds}
        call["content"] = data
        all_of = cast(SendOptions, {**request, **call})
        return answer_of(StateEntry, await self._remote.transport.json("PUT", self._path(key), **all_of))

    def _path(self, key: str) -> str:
        return self._remote.path(f"/state/keys/{segment(key)}")


def conditional(tag: Union[int, str, None, Unset]) -> SendOptions:
    """A repeated one would find what the first did, and take it for somebody else's: so there is none."""
    if isinstance(tag, Unset):
        return {}
    headers = {"if-none-match": "*"} if tag is None else {"if-match": f'"{tag}"'}
    return {"headers": headers, "max_retries": 0}
