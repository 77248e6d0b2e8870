# Made by test/support/print-python.ts from _async/drills.py: change that file.
"""Drills: a part of what a sandbox runs on is killed on purpose, and what comes back is compared."""

from __future__ import annotations

import time
from typing import Callable, List, Optional

from ..errors import RouseError
from ..inputs import CreateDrill
from ..options import RequestOptions, Unpack
from ..answers import Drill
from ..wire import answer_of, arguments, identified, list_of
from .driver import sleep
from .remote import Remote

#: Between two looks at a drill, seconds.
LOOK_SECONDS = 1.0
#: A drill of the edge, or of a slow one's host: calls fail for so long before that is an error, seconds.
AWAY_SECONDS = 120.0


class Drills:
    """Drills of the sandbox. Needs a key with full access; ``host`` and ``edge`` only where their operator allows it.

    drill = sandbox.drills.run(kill="vmm")
    if drill["state"] != "passed":
        print(drill["lost"])
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def run(
        self,
        *,
        wait: bool = True,
        on_progress: Optional[Callable[[Drill], object]] = None,
        **fields: Unpack[CreateDrill],
    ) -> Drill:
        """Kill that, and wait for what comes back: ten minutes and a half at most.

        ``on_progress`` is called with each look at it. Raises ConflictError ``conflict`` while another drill goes on.
        """
        body, request = arguments(CreateDrill, fields)
        drill = answer_of(Drill, self._remote.post("/drills", body, **request))
        answered_at = time.monotonic()
        while wait and drill["state"] == "running":
            if on_progress is not None:
                on_progress(drill)
            sleep(LOOK_SECONDS)
            try:
                drill = self.get(drill["id"], **request)
                answered_at = time.monotonic()
            except RouseError:
                # The edge may be what is killed.
                if drill["kill"] != "edge" or time.monotonic() - answered_at > AWAY_SECONDS:
                    raise
        return drill

    def list(self, **request: Unpack[RequestOptions]) -> List[Drill]:
        """The newest first; 50 are kept."""
        return list_of(Drill, self._remote.get("/drills", **request))

    def get(self, id: str, **request: Unpack[RequestOptions]) -> Drill:
        """Raises NotFoundError ``not_found``."""
        path = f"/drills/{identified(id, 'drl-', 'the id of a drill')}"
        return answer_of(Drill, self._remote.get(path, **request))
