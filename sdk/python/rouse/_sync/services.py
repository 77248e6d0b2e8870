# Made by test/support/print-python.ts from _async/services.py: change that file.
"""Services: programs that a sandbox starts with and that are kept running."""

from __future__ import annotations

from typing import List

from ..options import RequestOptions, Unpack
from ..answers import ServiceLogs, ServiceStatus
from ..wire import answer_of, list_of, segment
from .remote import Remote


class Services:
    """Services of a sandbox. Which ones it has, its ``services`` say, which are set with ``create`` and ``update``.

    sandbox.update(services=[{"name": "web", "command": "node server.js", "port": 8080}])
    for service in sandbox.services.list():
        print(service["name"], service["state"], service["restarts"])
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def list(self, **request: Unpack[RequestOptions]) -> List[ServiceStatus]:
        """As last known, in the order that they start. It does not wake the sandbox."""
        return list_of(ServiceStatus, self._remote.get(":resume", **request), "services")

    def restart(self, name: str, **request: Unpack[RequestOptions]) -> ServiceStatus:
        """Stop one and start it again. Wakes the sandbox. Raises NotFoundError when it has no such service."""
        answer = self._remote.post(f"/services/{segment(name)}:restart", {}, **request)
        return answer_of(ServiceStatus, answer)

    def logs(self, name: str, **request: Unpack[RequestOptions]) -> ServiceLogs:
        """The last that one wrote, 64 KiB at most, of all that ran under its name since the guest agent began.

        Wakes the sandbox. Raises NotFoundError.
        """
        return answer_of(ServiceLogs, self._remote.get(f"/services/{segment(name)}/logs", **request))
