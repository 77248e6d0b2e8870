# Made by test/support/print-python.ts from _async/accounts.py: change that file.
"""Accounts, keys and people."""

from __future__ import annotations

from typing import List, TypedDict

from ..inputs import AddCredit, CreateAccount, CreateKey, CreateMember, UpdateAccount
from ..options import RequestOptions, Unpack
from ..answers import Account, Key, Member, NewAccount, NewKey
from ..wire import answer_of, arguments, list_of, segment
from .transport import Transport


class ListedAccount(TypedDict):
    name: str
    createdAt: str


class Accounts:
    """Accounts of the installation, for its operator. Money in microdollars.

    All of this needs a full key of the operator's account, ``default``; with any other it raises PermissionDeniedError
    ``forbidden``.

        key = rouse.accounts.open(name="acme", plan="metered", credit_micros=50_000_000)["key"]
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def open(self, **fields: Unpack[CreateAccount]) -> NewAccount:
        """Open an account: ``metered``, without credit, quotas and limits unless given.

        This answer is the only one that shows its first key; with an ``idempotency_key`` of your own a lost answer can be
        had again. Raises ConflictError ``name_taken``.
        """
        body, request = arguments(CreateAccount, fields)
        return answer_of(NewAccount, self._transport.json("POST", "/v1/accounts", json=body, **request))

    def list(self, **request: Unpack[RequestOptions]) -> List[ListedAccount]:
        return list_of(ListedAccount, self._transport.json("GET", "/v1/accounts", **request))

    def get(self, name: str, **request: Unpack[RequestOptions]) -> Account:
        """Raises NotFoundError ``not_found``."""
        return answer_of(Account, self._transport.json("GET", path_of(name), **request))

    def update(self, name: str, **settings: Unpack[UpdateAccount]) -> Account:
        """Change plan, quotas and limits, or suspend: everything is then put to sleep and nothing wakes."""
        body, request = arguments(UpdateAccount, settings)
        return answer_of(Account, self._transport.json("POST", path_of(name, ":update"), json=body, **request))

    def add_credit(self, name: str, **credit: Unpack[AddCredit]) -> Account:
        """Add prepaid credit, 1 to 10^12 microdollars, once per idempotency key."""
        body, request = arguments(AddCredit, credit)
        return answer_of(Account, self._transport.json("POST", path_of(name, ":credit"), json=body, **request))


class Keys:
    """API keys. All of this needs a key with access ``full``.

    key = rouse.keys.create(name="ci", access="sandboxes", name_prefix="ci-", ttl_seconds=86_400)["key"]
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, **fields: Unpack[CreateKey]) -> NewKey:
        """Make a key; this answer is the only one that shows it. A limit that is not given does not hold.

        Access is ``full`` unless given, for a member's key as much as the role allows; ``ttl_seconds`` 60 to 315 360 000,
        or ``expires_at``. Money in microdollars. Raises PermissionDeniedError ``permission_denied`` when it could do more
        than the key in use; ``details["more"]`` says what.
        """
        body, request = arguments(CreateKey, fields)
        return answer_of(NewKey, self._transport.json("POST", "/v1/keys", json=body, **request))

    def list(self, **request: Unpack[RequestOptions]) -> List[Key]:
        """All keys without their secrets, oldest first; those that ended stay in the list for 90 days."""
        return list_of(Key, self._transport.json("GET", "/v1/keys", **request))

    def revoke(self, id: str, **request: Unpack[RequestOptions]) -> Key:
        """End a key at once; open connections end too. Works again on one that is revoked. Raises NotFoundError."""
        return answer_of(Key, self._transport.json("DELETE", f"/v1/keys/{segment(id)}", **request))


class Members:
    """People who hold keys. All of this needs a key with access ``full``."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, **fields: Unpack[CreateMember]) -> Member:
        """Add a person. Their keys come from ``keys.create`` with ``member_id``, and may do what the role may."""
        body, request = arguments(CreateMember, fields)
        return answer_of(Member, self._transport.json("POST", "/v1/members", json=body, **request))

    def list(self, **request: Unpack[RequestOptions]) -> List[Member]:
        return list_of(Member, self._transport.json("GET", "/v1/members", **request))

    def remove(self, id: str, **request: Unpack[RequestOptions]) -> Member:
        """Remove a person and revoke their keys, at once. Raises NotFoundError, also when it was done before."""
        return answer_of(Member, self._transport.json("DELETE", f"/v1/members/{segment(id)}", **request))


def path_of(name: str, verb: str = "") -> str:
    return f"/v1/accounts/{segment(name)}{verb}"
