"""What a sandbox may reach outside."""

from __future__ import annotations

from typing import Optional, Sequence

from ..options import RequestOptions, Unpack
from ..answers import Network
from ..wire import answer_of, given
from .remote import AsyncRemote


class AsyncSandboxNetwork:
    """What the sandbox may reach outside: everything public, unless rules say otherwise.

    A target is a host name, ``*.name`` for all names below one, an address, or a range such as ``203.0.113.0/24``.
    ``deny`` wins over ``allow``, and ``allow`` over the internet being off. Changes count at once, for open connections
    too; of a sandbox that sleeps from its wake on.

        sandbox.network.off()
        sandbox.network.allow("api.anthropic.com", "*.npmjs.org")
    """

    def __init__(self, remote: AsyncRemote) -> None:
        self._remote = remote

    async def get(self, **request: Unpack[RequestOptions]) -> Network:
        """The rules, whether they are in force, what went out (bytes), and what was refused lately."""
        return answer_of(Network, await self._remote.get("/network", **request))

    async def set(
        self,
        *,
        internet: bool,
        allow: Optional[Sequence[str]] = None,
        deny: Optional[Sequence[str]] = None,
        **request: Unpack[RequestOptions],
    ) -> Network:
        """A list that is not given stays as it is; an empty one is none.

        Raises InvalidRequestError ``invalid_request``, which names every target that is none.
        """
        body = given(internet=internet, allow=None if allow is None else [*allow], deny=None if deny is None else [*deny])
        return answer_of(Network, await self._remote.put("/network", body, **request))

    async def off(self, **request: Unpack[RequestOptions]) -> Network:
        """Nothing may be reached but what ``allow`` names. The lists stay."""
        return await self.set(internet=False, **request)

    async def on(self, **request: Unpack[RequestOptions]) -> Network:
        """Everything public may be reached but what ``deny`` names. The lists stay."""
        return await self.set(internet=True, **request)

    async def allow(self, *targets: str) -> Network:
        """Add to what may be reached. What somebody else changes in the same moment may be lost."""
        rules = await self.get()
        return await self.set(internet=rules["internet"], allow=[*rules["allow"], *targets])

    async def deny(self, *targets: str) -> Network:
        """Add to what may not be reached. What somebody else changes in the same moment may be lost."""
        rules = await self.get()
        return await self.set(internet=rules["internet"], deny=[*rules["deny"], *targets])

    async def reset(self, **request: Unpack[RequestOptions]) -> Network:
        """As of a new sandbox: everything public may be reached."""
        return await self.set(internet=True, allow=[], deny=[], **request)
