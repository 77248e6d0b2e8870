"""Domains of a sandbox: host names of its owner's at which it answers."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from ..options import RequestOptions, Unpack
from ..answers import DeletedDomain, Domain
from ..wire import answer_of, given, list_of, named
from .poll import AsyncPoll
from .remote import AsyncRemote

#: Between two looks, seconds: resolvers remember what they said for a while.
LOOK_SECONDS = 3.0


class AsyncDomains:
    """Host names of one's own at which the sandbox answers, as it does at its named URL.

    Access, links, rules and wakes are the same. A domain counts once a TXT record has proven whose it is.

        for record in sandbox.domains.create(domain="shop.example.com")["records"]:
            print(record["type"], record["name"], record["value"])  # to set at whoever serves the DNS
        sandbox.domains.wait_verified("shop.example.com")
    """

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def create(self, *, domain: str, port: Optional[int] = None, **request: Unpack[RequestOptions]) -> Domain:
        """Claim a host name, for the program at ``port``, 8080 unless given.

        ``records`` says what to set in the DNS; then call ``verify``. Again for a domain that the sandbox has it answers
        that one. Raises InvalidRequestError ``invalid_request``, which names everything that is wrong, and ConflictError
        ``conflict`` for one that it has with another port, ``quota_exceeded``.
        """
        return answer_of(Domain, await self._remote.post("/domains", given(domain=domain, port=port), **request))

    async def list(self, **request: Unpack[RequestOptions]) -> List[Domain]:
        """The oldest first."""
        return list_of(Domain, await self._remote.get("/domains", **request))

    async def get(self, domain: str, **request: Unpack[RequestOptions]) -> Domain:
        """Raises NotFoundError ``domain_not_found``."""
        return answer_of(Domain, await self._remote.get(path_of(domain), **request))

    async def verify(self, domain: str, **request: Unpack[RequestOptions]) -> Domain:
        """Look at its TXT record now, and at where the name leads (``dns``). ``state`` and ``reason`` say what came of it."""
        return answer_of(Domain, await self._remote.post(path_of(domain, ":verify"), {}, **request))

    async def wait_verified(
        self,
        domain: str,
        *,
        timeout_ms: Optional[float] = None,
        on_look: Optional[Callable[[Domain], object]] = None,
    ) -> Domain:
        """Look again and again until it is verified: for 10 minutes unless given, 0 for no limit.

        Raises ConnectionError ``timeout``; the domain is still looked for in the background, for 7 days.
        """
        last: Optional[Domain] = None

        def late() -> Dict[str, Any]:
            reason = last.get("reason") if last is not None else None
            return {
                "message": f"{domain} is not verified yet{f' ({reason})' if reason else ''}.",
                "hint": "DNS may take a while; it is looked for in the background as well.",
            }

        poll = AsyncPoll(timeout_ms, late)
        while True:
            seen = await poll.ask(lambda limits: self.verify(domain, **limits))
            if on_look is not None:
                on_look(seen)
            if seen["state"] == "verified":
                return seen
            last = seen
            await poll.rest(LOOK_SECONDS)

    async def update(self, domain: str, *, port: int, **request: Unpack[RequestOptions]) -> Domain:
        """Have requests for it reach another port; others do so within ten seconds."""
        return answer_of(Domain, await self._remote.post(path_of(domain, ":update"), {"port": port}, **request))

    async def delete(self, domain: str, **request: Unpack[RequestOptions]) -> DeletedDomain:
        """Give it up."""
        return answer_of(DeletedDomain, await self._remote.delete(path_of(domain), **request))


def path_of(domain: str, rest: str = "") -> str:
    return f"/domains/{named(domain, 'domain')}{rest}"
