"""For receivers: whether a webhook is from Rouse, and fresh (Standard Webhooks)."""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Union

from .errors import AuthenticationError, invalid_argument

#: How far its time may be from ours, seconds.
TOLERANCE_SECONDS = 300


@dataclass(frozen=True)
class VerifiedWebhook:
    """A webhook whose signature and time are right."""

    #: The same in each try: whoever must not act twice remembers it.
    id: str
    sent_at: datetime.datetime
    text: str

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.text)


def verify_webhook(
    payload: Union[str, bytes],
    headers: Mapping[str, Union[str, Sequence[str], None]],
    secret: Union[str, Sequence[str]],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: Optional[datetime.datetime] = None,
) -> VerifiedWebhook:
    """Check that a webhook comes from Rouse.

    For events of an endpoint, with its secret, and deliveries of a hook to a program, with the hook's delivery secret.
    ``payload`` is the body as it came: parsed and written again it has other bytes. Names of headers are in any case. Of
    several secrets one must fit. Raises AuthenticationError ``signature_invalid``, or ``signature_expired`` for one that
    is signed rightly at another time, and InvalidRequestError ``invalid_argument`` for what can't be a secret.

        event = verify_webhook(request.body, request.headers, secret).json()
    """
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    identity, at, signatures = (_header(headers, name) for name in names)
    if not identity or not at or not signatures:
        raise _invalid("It has no webhook-id, webhook-timestamp or webhook-signature.")
    if not re.fullmatch(r"[0-9]{1,11}", at):
        raise _invalid("Its webhook-timestamp is no time.")
    body = payload.encode() if isinstance(payload, str) else bytes(payload)
    content = f"{identity}.{at}.".encode() + body
    keys = [_key(one) for one in ([secret] if isinstance(secret, str) else secret)]
    expected = [hmac.new(key, content, hashlib.sha256).digest() for key in keys]
    found = [_base64(one[3:]) for one in signatures.split(" ") if one.startswith("v1,")]
    # Each is compared, so that the time says nothing of which one fits.
    fits = [hmac.compare_digest(one, right) for one in found if one is not None for right in expected]
    if not any(fits):
        raise _invalid("None of its signatures is by the secret.")
    seconds = (now or datetime.datetime.now(datetime.timezone.utc)).timestamp()
    if abs(seconds - int(at)) > tolerance_seconds:
        raise AuthenticationError("signature_expired", "The webhook is of another time.", status=401)
    sent_at = datetime.datetime.fromtimestamp(int(at), datetime.timezone.utc)
    return VerifiedWebhook(identity, sent_at, body.decode("utf-8", "replace"))


def _header(headers: Mapping[str, Union[str, Sequence[str], None]], name: str) -> Optional[str]:
    for key, value in headers.items():
        if key.lower() == name:
            return value if isinstance(value, str) or value is None else (value[0] if value else None)
    return None


def _key(secret: str) -> bytes:
    raw = _base64(re.sub(r"^whsec_", "", secret))
    if not raw:
        raise invalid_argument("The secret is not whsec_ with base64 after it.")
    return raw


def _base64(text: str) -> Optional[bytes]:
    if not re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", text):
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None


def _invalid(message: str) -> AuthenticationError:
    return AuthenticationError("signature_invalid", message, status=401)
