"""What every call can be told."""

from __future__ import annotations

import datetime
import enum
import typing
from typing import TYPE_CHECKING, Any, Mapping, Optional, TypedDict, Union

if TYPE_CHECKING:
    # Type checkers know it without the package.
    from typing_extensions import Unpack as Unpack
else:
    Unpack = getattr(typing, "Unpack", None)

#: A time: text as the wire has it, or a ``datetime`` with a zone.
Time = Union[str, datetime.datetime]


class Unset(enum.Enum):
    """Where None says something: what is not given."""

    UNSET = "unset"


UNSET = Unset.UNSET


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of every call."""

    #: Sent with a change: the server does what one key asks for only once (remembered 24 h). Random unless given.
    idempotency_key: Optional[str]
    #: Time limit of the call with all its retries, milliseconds; 0 for none. The client's unless given.
    timeout_ms: Optional[float]


class CallOptions(RequestOptions, total=False):
    """What a call has beside method, path and body."""

    query: Optional[Mapping[str, Any]]
    #: More headers; they win over those that follow from the rest.
    headers: Optional[Mapping[str, str]]
    accept: Optional[str]
    #: ``Prefer: wait=``, seconds.
    wait_seconds: Optional[int]
    #: Wait for room when no host has any, and for a volume that is being let go.
    wait_for_capacity: bool
    max_retries: Optional[int]


class SendOptions(CallOptions, total=False):
    """All that the transport takes beside method and path."""

    #: Body as JSON.
    json: Any
    #: Body as it is.
    content: Optional[bytes]
