# Made by test/support/print-python.ts from _async/schedules.py: change that file.
"""Schedules of a sandbox: what runs in it at its times, and what came of each run."""

from __future__ import annotations

from typing import List, Optional

from ..inputs import CreateSchedule, UpdateSchedule
from ..options import RequestOptions, Unpack
from ..answers import DeletedSchedule, Schedule, ScheduleRun
from ..wire import answer_of, arguments, identified, list_of, named
from .page import Page, page_of
from .remote import Remote


class Schedules:
    """What runs in the sandbox at its times: a command, a request to a program in it, or nothing but a wake.

    It sleeps until then. A schedule is named by its id or name. ``at`` is a time at most 366 days ahead at which it runs
    once, in the place of ``cron``; text needs an offset.

        sandbox.schedules.create(
            name="report",
            cron="0 9 * * mon-fri",
            zone="Europe/Berlin",
            action={"kind": "command", "command": "python3 report.py", "timeout_seconds": 600},
        )
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def create(self, **fields: Unpack[CreateSchedule]) -> Schedule:
        """Raises InvalidRequestError ``invalid_request``, which names what is wrong, each field of an expression too.

        Raises ConflictError ``name_taken``, ``quota_exceeded``.
        """
        body, request = arguments(CreateSchedule, fields)
        return answer_of(Schedule, self._remote.post("/schedules", body, **request))

    def list(self, **request: Unpack[RequestOptions]) -> List[Schedule]:
        """The oldest first."""
        return list_of(Schedule, self._remote.get("/schedules", **request))

    def get(self, schedule: str, **request: Unpack[RequestOptions]) -> Schedule:
        """With its next times and its newest run. Raises NotFoundError ``schedule_not_found``."""
        return answer_of(Schedule, self._remote.get(path_of(schedule), **request))

    def update(self, schedule: str, **changes: Unpack[UpdateSchedule]) -> Schedule:
        """Change it, or with ``enabled`` turn it off and on. A run that has begun ends as it began."""
        body, request = arguments(UpdateSchedule, changes)
        return answer_of(Schedule, self._remote.post(path_of(schedule, ":update"), body, **request))

    def delete(self, schedule: str, **request: Unpack[RequestOptions]) -> DeletedSchedule:
        """Delete it with its runs. A command that has begun goes on in the machine."""
        return answer_of(DeletedSchedule, self._remote.delete(path_of(schedule), **request))

    def run(self, schedule: str, **request: Unpack[RequestOptions]) -> ScheduleRun:
        """Run it now, also while it is off. ``skipped`` while another run of it goes on. Answers at once; see ``get_run``."""
        return answer_of(ScheduleRun, self._remote.post(path_of(schedule, ":run"), {}, **request))

    def runs(
        self,
        schedule: str,
        *,
        state: Optional[str] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> Page[ScheduleRun]:
        """The runs that match, newest first, page by page: the last 100, for 30 days. ``limit``: per page, 1 to 100."""
        path = self._remote.path(path_of(schedule, "/runs"))
        query = {"state": state, "limit": limit}
        return page_of(self._remote.transport, path, query, request, lambda one: answer_of(ScheduleRun, one))

    def get_run(self, schedule: str, run: str, **request: Unpack[RequestOptions]) -> ScheduleRun:
        """A run with its output. Raises NotFoundError ``schedule_run_not_found``."""
        path = path_of(schedule, f"/runs/{identified(run, 'run-', 'the id of a run')}")
        return answer_of(ScheduleRun, self._remote.get(path, **request))


def path_of(schedule: str, rest: str = "") -> str:
    return f"/schedules/{named(schedule, 'id or name of a schedule')}{rest}"
