"""Between Python and the wire: names, times, paths, and the reading of answers."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any, Dict, ForwardRef, List, Mapping, Optional, Tuple, Type, TypeVar, Union, cast
from urllib.parse import quote, urlencode

from .errors import invalid_argument, unexpected_answer
from .inputs import FREE
from .options import RequestOptions, Time

T = TypeVar("T")
#: What may be written: text goes as UTF-8.
Data = Union[str, bytes, bytearray, memoryview]

_REQUEST = ("idempotency_key", "timeout_ms")


def wire_name(name: str) -> str:
    """``size_mib`` is ``sizeMiB`` on the wire; a ``_`` at the end is there for Python alone."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join("MiB" if word == "mib" else word[:1].upper() + word[1:] for word in rest)


def wire_value(value: Any) -> Any:
    """Arguments as JSON: names as the wire has them, times in UTC. Maps of the caller's are left alone."""
    if isinstance(value, datetime.datetime):
        return time_text(value)
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, Any], value).items()
        named = [(wire_name(name), one) for name, one in fields]
        return {name: one if name in FREE else wire_value(one) for name, one in named}
    if isinstance(value, (list, tuple)):
        return [wire_value(one) for one in cast(List[Any], value)]
    return value


def arguments(kind: Any, fields: Mapping[str, Any]) -> Tuple[Dict[str, Any], RequestOptions]:
    """Keyword arguments as a body and what the call itself is told.

    ``kind`` says which there are: others are a TypeError, as for any function. None is "not given", but where the wire
    knows a null.
    """
    kinds = _fields_of(kind)
    for name in fields:
        if name not in kinds:
            raise TypeError(f"{name!r} is no field of {kind.__name__}; there are {', '.join(sorted(kinds))}")
    missing = sorted(name for name in kind.__required_keys__ if fields.get(name) is None)
    if missing:
        raise TypeError(f"{kind.__name__} needs {', '.join(missing)}")
    body: Dict[str, Any] = {}
    request: Dict[str, Any] = {}
    for name, value in fields.items():
        if name in _REQUEST:
            request[name] = value
        elif value is not None or kinds[name].startswith("Optional["):
            body[name] = value
    return wire_value(body), cast(RequestOptions, request)


def _fields_of(kind: Any) -> Dict[str, str]:
    found = cast(Dict[str, Any], kind.__annotations__)
    return {name: one.__forward_arg__ if isinstance(one, ForwardRef) else str(one) for name, one in found.items()}


def given(**fields: Any) -> Dict[str, Any]:
    """A body of those fields that are not None."""
    return wire_value({name: value for name, value in fields.items() if value is not None})


def time_text(time: Optional[Time]) -> Optional[str]:
    """Times as the wire has them: ISO 8601 in UTC."""
    if not isinstance(time, datetime.datetime):
        return time
    if time.tzinfo is None:
        raise invalid_argument(f"The time {time} has no zone.", "Pass one such as datetime.now(timezone.utc).")
    return time.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def segment(text: str) -> str:
    """One part of a path."""
    return quote(text, safe="")


def named(name: str, what: str) -> str:
    """A name as one part of a path; some would make a path that means something else."""
    if name in ("", ".", ".."):
        raise invalid_argument(f"That is no {what}.")
    return segment(name)


def identified(value: str, prefix: str, what: str) -> str:
    """An id by how it begins, as one part of a path."""
    if not value.startswith(prefix):
        raise invalid_argument(f"{value!r} is not {what}.", f"An id is such as {prefix}0123456789abcdefghij.")
    return segment(value)


def addressable(id_or_name: str, what: str = "sandbox") -> str:
    if id_or_name == "":
        raise invalid_argument(f"The {what}'s id or name is empty.")
    if id_or_name in (".", ".."):
        raise invalid_argument(f"A path cannot hold the name {id_or_name}.", f"Use the {what}'s id.")
    return id_or_name


def query_string(query: Optional[Mapping[str, Any]]) -> str:
    pairs: List[Tuple[str, str]] = []
    for name, value in (query or {}).items():
        if value is None:
            continue
        for one in cast(List[Any], value) if isinstance(value, (list, tuple)) else [value]:
            pairs.append((name, ("true" if one else "false") if isinstance(one, bool) else str(one)))
    return f"?{urlencode(pairs)}" if pairs else ""


def json_bytes(value: Any) -> bytes:
    """What is no JSON is an argument that is refused."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, UnicodeEncodeError) as fault:
        raise invalid_argument(f"That is no JSON: {fault}.") from None


def bytes_of(data: Data) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def answer_of(kind: Type[T], answer: object) -> T:
    """An answer that has what its type says must be there. Raises RouseError ``unexpected_answer``."""
    if not isinstance(answer, dict):
        raise unexpected_answer("it is no object")
    missing = sorted(getattr(kind, "__required_keys__", frozenset[str]()) - cast(Dict[str, Any], answer).keys())
    if missing:
        raise unexpected_answer(f"{kind.__name__} without {', '.join(missing)}")
    return cast(T, answer)


def list_of(kind: Type[T], answer: object, key: str = "data") -> List[T]:
    """The list of an answer."""
    return [answer_of(kind, one) for one in items_of(answer, key)]


def items_of(answer: object, key: str = "data") -> List[object]:
    return cast(List[object], field_of(answer, key, list))


def field_of(answer: object, key: str, kind: Type[T]) -> T:
    """One field of an answer."""
    value: object = cast(Dict[str, Any], answer).get(key) if isinstance(answer, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise unexpected_answer(f"{key} is missing")
    return value


def mode_text(mode: Union[str, int, None]) -> Optional[str]:
    """Permission bits as three octal digits."""
    if mode is None:
        return None
    text = f"{mode:03o}" if isinstance(mode, int) else re.sub(r"^0(?=\d{3}$)", "", mode)
    if re.fullmatch(r"[0-7]{3}", text):
        return text
    raise invalid_argument(f"The mode {mode} is not three octal digits.", 'Pass "755" or 0o755.')
