"""Queues of tasks that are kept outside of the machine."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Mapping, Optional

from ..inputs import TakeTasks
from ..options import RequestOptions, Unpack
from ..answers import DeletedTask, LeasedTask, Queue, Task
from ..wire import answer_of, arguments, field_of, given, list_of, segment
from .page import AsyncPage, page_of
from .remote import AsyncRemote


class AsyncQueues:
    """Queues of a sandbox: ``sandbox.queues("mail")`` is one of them."""

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    def __call__(self, name: str) -> AsyncTaskQueue:
        return AsyncTaskQueue(self._remote, name)

    async def list(self, **request: Unpack[RequestOptions]) -> List[Queue]:
        """Those that have tasks."""
        return list_of(Queue, await self._remote.get("/queues", **request))


class AsyncTaskQueue:
    """A queue. A task is taken under a lease; who does not say in time that it is done loses it to the next.

    After its last attempt it is dead. So each is done at least once, and workers should bear one that comes again.

        mail = sandbox.queues("mail")
        mail.put({"to": "ada@example.com"})
        for task in mail.take(wait_seconds=20):
            mail.ack(task)
    """

    def __init__(self, remote: AsyncRemote, name: str) -> None:
        self._remote = remote
        self.name = name

    async def put(
        self,
        payload: Any,
        *,
        delay_seconds: Optional[int] = None,
        max_attempts: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> Task:
        """Put a task with a JSON payload of at most 64 KiB. Under an ``idempotency_key`` it is put once.

        ``delay_seconds``: not before. ``max_attempts``: takes before it is dead; 5 unless given. Raises RouseError
        ``storage_full``.
        """
        body = {"payload": payload, **given(delay_seconds=delay_seconds, max_attempts=max_attempts)}
        return answer_of(Task, await self._remote.post(self._path("/tasks"), body, **request))

    async def take(self, **fields: Unpack[TakeTasks]) -> List[LeasedTask]:
        """The oldest that are ready, under a lease of 60 seconds unless given. Empty when there is none."""
        body, request = arguments(TakeTasks, fields)
        return list_of(LeasedTask, await self._remote.post(self._path(":take"), body, **request))

    async def ack(self, task: LeasedTask, **request: Unpack[RequestOptions]) -> Task:
        """It is done. Raises ConflictError ``lease_lost``."""
        return answer_of(Task, await self._remote.post(self._path(":ack"), held(task), **request))

    async def nack(
        self,
        task: LeasedTask,
        *,
        delay_seconds: Optional[int] = None,
        error: Optional[str] = None,
        **request: Unpack[RequestOptions],
    ) -> Task:
        """It failed, and can be taken again. ``error``: what went wrong, at most 1,024 characters.

        Raises ConflictError ``lease_lost``.
        """
        body = {**held(task), **given(delay_seconds=delay_seconds, error=error)}
        return answer_of(Task, await self._remote.post(self._path(":nack"), body, **request))

    async def extend(
        self, task: LeasedTask, lease_seconds: Optional[int] = None, **request: Unpack[RequestOptions]
    ) -> LeasedTask:
        """Keep it so many seconds from now, 60 unless given. Raises ConflictError ``lease_lost``."""
        body = {**held(task), **given(lease_seconds=lease_seconds)}
        return answer_of(LeasedTask, await self._remote.post(self._path(":extend"), body, **request))

    async def counts(self, **request: Unpack[RequestOptions]) -> Queue:
        """How many tasks it has."""
        return answer_of(Queue, await self._remote.get(self._path(), **request))

    async def list(
        self,
        *,
        state: Optional[Literal["ready", "delayed", "leased", "dead"]] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> AsyncPage[Task]:
        """Tasks that are not done, in the order that they were put. ``state="dead"`` for dead letters."""
        path = self._remote.path(self._path("/tasks"))
        query: Dict[str, Any] = {"state": state, "limit": limit}
        return await page_of(self._remote.transport, path, query, request, lambda one: answer_of(Task, one))

    async def get(self, id: str, **request: Unpack[RequestOptions]) -> Task:
        """Raises NotFoundError ``task_not_found``."""
        return answer_of(Task, await self._remote.get(self._task(id), **request))

    async def retry(self, id: str, **request: Unpack[RequestOptions]) -> Task:
        """A dead one is ready again. Raises ConflictError ``conflict`` for one that is not dead."""
        return answer_of(Task, await self._remote.post(self._task(id, ":retry"), {}, **request))

    async def retry_dead(self, **request: Unpack[RequestOptions]) -> int:
        """All dead ones are ready again. Answers how many."""
        return field_of(await self._remote.post(self._path(":retry-dead"), {}, **request), "retried", int)

    async def delete(self, id: str, **request: Unpack[RequestOptions]) -> DeletedTask:
        """Whatever its state: who has it loses it."""
        return answer_of(DeletedTask, await self._remote.delete(self._task(id), **request))

    def _path(self, rest: str = "") -> str:
        return f"/queues/{segment(self.name)}{rest}"

    def _task(self, id: str, verb: str = "") -> str:
        return self._path(f"/tasks/{segment(id)}{verb}")


def held(task: Mapping[str, Any]) -> Dict[str, Any]:
    return {"id": task["id"], "lease": task["lease"]}
