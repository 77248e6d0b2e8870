"""Where the API is and with which key: options, then environment, then a saved login, then what ``npm start`` left."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import dataclass
from typing import Any, Dict, Literal, NoReturn, Optional, Tuple, cast
from urllib.parse import urlsplit

from .errors import AuthenticationError, InvalidRequestError

#: Where a local installation serves the API.
DEFAULT_BASE_URL = "http://localhost:8787"


@dataclass(frozen=True)
class Credentials:
    #: An origin without trailing slash.
    base_url: str
    api_key: str
    #: Where the key was found.
    source: Literal["option", "environment", "login", "local"]


def environment(name: str) -> Optional[str]:
    """An environment variable; None where it is unset or empty."""
    return os.environ.get(name) or None


def is_loopback(hostname: str) -> bool:
    """Whether a host name means this machine."""
    return (
        hostname == "localhost"
        or hostname.endswith(".localhost")
        or hostname == "::1"
        or re.fullmatch(r"127(\.\d{1,3}){3}", hostname) is not None
    )


def parse_base_url(text: str) -> str:
    """Check and normalise a base URL. Raises InvalidRequestError ``invalid_base_url``."""

    def refuse(why: str) -> NoReturn:
        raise InvalidRequestError(
            "invalid_base_url",
            f"The base URL {why}.",
            hint="Use an origin such as https://rouse.example.com, without path, query or password.",
        )

    try:
        url = urlsplit(text.strip())
        host, port = url.hostname, url.port
    except ValueError:
        refuse("is not a URL")
    if not url.scheme or not host:
        refuse("is not a URL")
    if url.username is not None or url.password is not None:
        refuse("holds a user or password")
    if url.path not in ("", "/") or url.query or url.fragment:
        refuse("has a path, query or fragment")
    if url.scheme not in ("https", "http"):
        refuse("is neither https nor http")
    if url.scheme == "http" and not is_loopback(host):
        refuse(f"sends the key unencrypted to {host}; plain http is for this machine only")
    shown = f"[{host}]" if ":" in host else host
    return f"{url.scheme}://{shown}" + ("" if port in (None, 443 if url.scheme == "https" else 80) else f":{port}")


def find_credentials(api_key: Optional[str], base_url: Optional[str]) -> Credentials:
    """Find base URL and key.

    A key that is given without a base URL goes to the default one, not to where the last login was: a saved login's
    address comes only with its own key. Raises AuthenticationError ``missing_api_key`` or ``credentials_file``, and
    InvalidRequestError ``invalid_base_url``.
    """
    given = base_url if base_url is not None else environment("ROUSE_API_URL")
    origin = None if given is None else parse_base_url(given)
    key = api_key if api_key is not None else environment("ROUSE_API_KEY")
    if key is not None:
        if not re.fullmatch(r"[!-~]+", key):
            raise AuthenticationError(
                "missing_api_key",
                "The API key is empty or holds white space.",
                hint="Pass the key exactly as it was made, such as rouse_default_...",
            )
        return Credentials(origin or DEFAULT_BASE_URL, key, "environment" if api_key is None else "option")
    logins = read_logins()
    wanted = origin or (logins or {}).get("current")
    login = None if logins is None or wanted is None else logins["logins"].get(wanted)
    if wanted is not None and login is not None:
        return Credentials(parse_base_url(wanted), login["apiKey"], "login")
    # The local key opens only this machine's installation, so it goes nowhere else.
    if origin is None or is_loopback(urlsplit(origin).hostname or ""):
        local = _local_key()
        if local is not None:
            return Credentials(origin or local[1] or DEFAULT_BASE_URL, local[0], "local")
    raise AuthenticationError(
        "missing_api_key",
        f"No API key for {origin or DEFAULT_BASE_URL}.",
        hint="Run `rouse login`, set ROUSE_API_KEY (and ROUSE_API_URL), or pass api_key; on the machine that runs Rouse, "
        "start it once with `npm start`.",
    )


def logins_path() -> str:
    """Where ``rouse login`` saves keys."""
    config = environment("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "rouse", "credentials.json")


def read_logins() -> Optional[Dict[str, Any]]:
    """All saved logins; None when there is no file. Raises AuthenticationError ``credentials_file``."""
    path = logins_path()

    def refuse(why: str, hint: str) -> NoReturn:
        raise AuthenticationError("credentials_file", f"{path} {why}.", hint=hint)

    again = "Remove it and run `rouse login` again."
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as fault:
        if os.path.islink(path):
            refuse("is a symbolic link", "Put the file itself there.")
        refuse(f"can't be read ({fault.strerror})", "Look at its owner and mode.")
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            refuse("is no file", again)
        # A key that others could read is not used.
        if os.name != "nt" and facts.st_mode & 0o077:
            hint = f"Run: chmod 600 {path} - and revoke its keys with `rouse keys rm` if others may have read them."
            refuse("is open to others on this machine", hint)
        text = file.read()
    try:
        found: Any = json.loads(text)
    except ValueError:
        refuse("is not JSON", again)
    if not _is_logins(found):
        refuse("is not as this version reads it", again)
    return cast(Dict[str, Any], found)


def _is_logins(found: Any) -> bool:
    if not isinstance(found, dict):
        return False
    all_of = cast(Dict[str, Any], found)
    logins = all_of.get("logins")
    if all_of.get("version") != 1 or not isinstance(all_of.get("current", ""), str) or not isinstance(logins, dict):
        return False
    each = cast(Dict[str, Any], logins).values()
    return all(isinstance(one, dict) and _is_key(cast(Dict[str, Any], one).get("apiKey")) for one in each)


def _is_key(key: Any) -> bool:
    return isinstance(key, str) and re.fullmatch(r"[!-~]+", key) is not None


def _local_key() -> Optional[Tuple[str, Optional[str]]]:
    data = environment("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    path = os.path.join(environment("ROUSE_HOME") or os.path.join(data, "rouse"), "local-key")
    try:
        with open(path, "rb") as file:
            found: Any = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    key, url = (cast(Dict[str, Any], found).get(name) for name in ("apiKey", "url"))
    if not _is_key(key):
        return None
    origin = parse_base_url(url) if isinstance(url, str) else None
    if origin is not None and not is_loopback(urlsplit(origin).hostname or ""):
        return None
    return cast(str, key), origin
