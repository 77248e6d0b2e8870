"""The terminals of a sandbox."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ..answers import Process as TerminalInfo
from ..options import RequestOptions, Unpack
from ..results import Command, Signal
from ..wire import answer_of, list_of, segment
from .commands import command_body
from .output import signal_process
from .remote import AsyncRemote
from .terminal import AsyncTerminal, attach

SHELL = ("/bin/bash", "-l")


class AsyncTerminals:
    """The terminals of a sandbox. They are processes, which ``sandbox.processes`` has as well."""

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def open(
        self,
        *,
        command: Command = SHELL,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        cols: Optional[int] = None,
        rows: Optional[int] = None,
        request: Optional[RequestOptions] = None,
    ) -> AsyncTerminal:
        """Open a terminal and look at it, waking the sandbox.

        ``command``: what runs in it; a login shell unless given. ``cwd``: ``/workspace`` unless given. ``env``: variables
        next to those of the sandbox; ``TERM`` is ``xterm-256color`` unless given. ``cols``, ``rows``: size of the window in
        characters; 80 by 24 unless given. ``request`` is how the call is made, as against how the terminal runs. Raises
        ConflictError ``process_limit``.

            terminal = sandbox.terminal.open(command="python3", cols=100, rows=30)
            terminal.write("6 * 7\\r")
        """
        size = {name: value for name, value in (("cols", cols), ("rows", rows)) if value is not None}
        body: Dict[str, Any] = {**command_body(command, cwd, env, None), "pty": size}
        call: RequestOptions = request or {}
        answer = answer_of(TerminalInfo, await self._remote.post("/processes", body, **call))
        return await attach(self._remote, answer["id"], cols, rows, 0)

    async def attach(
        self, id: str, *, cols: Optional[int] = None, rows: Optional[int] = None, cursor: Optional[int] = None
    ) -> AsyncTerminal:
        """Look at a terminal that is there, waking the sandbox. Several may look at one.

        ``cursor``: offset of the first byte of output to read; all that is kept, the last MiB, unless given. With ``cols``
        and ``rows`` its window gets that size. Raises NotFoundError ``process_not_found``.
        """
        return await attach(self._remote, id, cols, rows, cursor)

    async def list(self, **request: Unpack[RequestOptions]) -> List[TerminalInfo]:
        """Those that are there, and of the last 16 processes that ended those that had a terminal."""
        found = list_of(TerminalInfo, await self._remote.get("/processes", **request))
        return [one for one in found if one["pty"]]

    async def get(self, id: str, **request: Unpack[RequestOptions]) -> TerminalInfo:
        """Raises NotFoundError ``process_not_found``."""
        return answer_of(TerminalInfo, await self._remote.get(f"/processes/{segment(id)}", **request))

    async def kill(self, id: str, signal: Signal = "SIGHUP", **request: Unpack[RequestOptions]) -> None:
        """Send a signal to what runs in one: SIGHUP, which ends a shell with what it runs, unless given."""
        await signal_process(self._remote, id, signal, **request)
