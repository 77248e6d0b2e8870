"""Named URLs: which one a port has, and how the SDK reaches it by path. No I/O."""

from __future__ import annotations

import re
from typing import List, Tuple
from urllib.parse import urljoin, urlsplit, urlunsplit

from .errors import invalid_argument

#: The port that a sandbox's URL leads to unless another is named.
DEFAULT_PORT = 8080
_PATH_FORM = re.compile(r"/s/([^/]+)/(\d+)/?")


def check_port(port: int) -> None:
    if isinstance(port, bool) or not 1 <= port <= 65_535:
        raise invalid_argument(f"The port {port} is not from 1 to 65535.")


def url_of_port(default_url: str, port: int) -> str:
    """The named URL of a port, from that of the default port."""
    check_port(port)
    if port == DEFAULT_PORT:
        return default_url
    url = urlsplit(default_url)
    by_path = _PATH_FORM.fullmatch(url.path)
    if by_path:
        return urlunsplit(url._replace(path=f"/s/{by_path.group(1)}/{port}/"))
    return urlunsplit(url._replace(netloc=f"{port}-{url.netloc}"))


def path_form_of(base_url: str, default_url: str, port: int) -> str:
    """The path form of a named URL, which works without wildcard DNS; ends in a slash."""
    check_port(port)
    url = urlsplit(default_url)
    by_path = _PATH_FORM.fullmatch(url.path)
    label = by_path.group(1) if by_path else (url.hostname or "").split(".")[0]
    return f"{base_url}/s/{label}/{port}/"


def within(prefix: str, path: str) -> str:
    """A path of the program as URL; nothing a path can say leads out of the prefix."""
    if any(ord(char) <= 32 or char == "\\" for char in path):
        raise invalid_argument(f"{path!r} is not a path of the sandbox.", "Encode what is no part of a URL.")
    head, mark, tail = path.lstrip("/").partition("?")
    for part in re.sub("%2e", ".", head, flags=re.IGNORECASE).split("/"):
        if part == "..":
            raise invalid_argument(f"{path!r} is not a path of the sandbox.", 'Pass a path such as "/status".')
    return prefix + head.split("#")[0] + mark + tail.split("#")[0]


def redirect_target(location: str, current: str, prefix: str, named_url: str) -> Tuple[str, bool]:
    """Where a redirect of the program in the sandbox leads: back into the sandbox (True), or away from it.

    There the key must not go. The path form shares its origin with the API, so a redirect is never followed blindly.
    """
    named, base = urlsplit(named_url), urlsplit(prefix)
    # The program sees its own URL without the prefix.
    seen = f"{named.scheme}://{named.netloc}{current[len(prefix) - 1 :]}"
    target = urlsplit(_resolved(seen, location))
    if _origin(target.geturl()) == _origin(prefix) and target.path.startswith(base.path):
        return urlunsplit(target._replace(fragment="")), True
    if _origin(target.geturl()) != _origin(named_url):
        return urlunsplit(target._replace(fragment="")), False
    path = target.path[len(base.path) - 1 :] if target.path.startswith(base.path) else target.path
    return prefix + path.lstrip("/") + (f"?{target.query}" if target.query else ""), True


def _resolved(base: str, location: str) -> str:
    """With dot segments gone, which ``urljoin`` leaves in URLs that are whole."""
    url = urlsplit(urljoin(base, location))
    kept: List[str] = []
    parts = url.path.split("/")
    for at, part in enumerate(parts):
        plain = re.sub("%2e", ".", part, flags=re.IGNORECASE)
        if plain == ".." and len(kept) > 1:
            kept.pop()
        if plain not in (".", ".."):
            kept.append(part)
        elif at == len(parts) - 1:
            kept.append("")
    return urlunsplit(url._replace(path="/".join(kept) or "/"))


def _origin(url: str) -> Tuple[str, str, int]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname or "", port
