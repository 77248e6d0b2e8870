#!/usr/bin/env python3
# long file: it is copied into every machine as one program, without the package
"""Checkpoints: what a job needs to go on, saved so that no crash leaves half of it.

One folder holds one checkpoint, one file each of its versions; the format is in docs/checkpoints.md, and the TypeScript
SDK has the same. This file is a module of the Python SDK, and the command ``rouse-checkpoint`` of every sandbox.

    from rouse import Checkpoint

    progress = Checkpoint("report")
    state = progress.load(default={"step": 0})
    for step in range(state["step"], 10):
        work(step)
        progress.save({"step": step + 1}, step=step + 1)
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import http.client
import json
import os
import re
import sys
import threading
import time
import urllib.parse
import warnings
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union

FORMAT = "rouse-checkpoint/1"
DEFAULT_DIR = "/workspace/.checkpoints"
DEFAULT_MIRROR = "http://rouse.internal/checkpoints"
KEEP = 5
#: Longest header, bytes, its hash and line end included.
HEADER_MAX = 65_536
#: Longest body that is mirrored, bytes; on the disk there is no limit.
MIRROR_BODY_MAX = 16 * 1024 * 1024
#: Time for one exchange with the mirror, seconds.
MIRROR_SECONDS = 2.0
#: After a mirror that did not answer, saves leave it alone for so long, seconds.
MIRROR_REST_SECONDS = 30.0
#: What a save that was killed left behind is removed when it is so old, seconds.
LEFTOVER_SECONDS = 600.0
VERSION_MAX = 9_999_999_999
STEP_MAX = 2**53 - 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_FILE = re.compile(r"v(\d{10})\.checkpoint\Z")
_TEMPORARY = ".saving-"
_MODES = ("best-effort", "required", "off")


class CheckpointError(Exception):
    """Base of what this module raises; ``code`` is one of the registry of errors."""

    code = "invalid_argument"


class CheckpointNotFound(CheckpointError):
    """That version is not there."""

    code = "checkpoint_not_found"


class CheckpointDamaged(CheckpointError):
    """That version is there, and does not verify."""

    code = "checkpoint_damaged"


class MirrorFailed(CheckpointError):
    """``mirror="required"``, and the mirror did not take it. The version is on the disk all the same."""

    code = "unavailable"


@dataclass(frozen=True)
class Saved:
    """One version."""

    name: str
    version: int
    #: UTC, ISO 8601.
    savedAt: str
    #: ``"json"`` or ``"bytes"``.
    type: str
    #: Of the body.
    bytes: int
    sha256: str
    step: Optional[int] = None
    meta: Dict[str, Any] = field(default_factory=dict)
    #: What was saved; left out of lists and of what ``save`` returns.
    value: Any = field(default=None, repr=False, compare=False)
    #: ``"disk"`` or ``"mirror"``.
    source: str = "disk"
    #: Whether the mirror has it. ``None``: it was not asked.
    mirrored: Optional[bool] = None
    #: Newer versions that did not verify.
    skipped: Tuple["Fault", ...] = ()
    #: Why it does not verify; only lists have such versions.
    fault: Optional[str] = None

    def to_json(self) -> Dict[str, Any]:
        """As plain data, without the value."""
        return {
            "name": self.name,
            "version": self.version,
            "savedAt": self.savedAt,
            "step": self.step,
            "meta": self.meta,
            "type": self.type,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "source": self.source,
            "mirrored": self.mirrored,
            "fault": self.fault,
            "skipped": [{"version": one.version, "fault": one.fault} for one in self.skipped],
        }


@dataclass(frozen=True)
class Fault:
    """A version that does not verify."""

    version: int
    fault: str


def encode(
    name: str, version: int, saved_at: str, kind: str, body: bytes, step: Optional[int], meta: Dict[str, Any]
) -> bytes:
    """The whole file: the header's hash, a space, the header as JSON, a line end, the body."""
    header = {
        "format": FORMAT,
        "name": name,
        "version": version,
        "savedAt": saved_at,
        "type": kind,
        "bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "step": step,
        "meta": meta,
    }
    line = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    if len(line) + 66 > HEADER_MAX:
        raise CheckpointError(f"meta is too large: the header may have {HEADER_MAX} bytes")
    return hashlib.sha256(line).hexdigest().encode() + b" " + line + b"\n" + body


def decode(data: bytes, name: str, version: Optional[int]) -> Saved:
    """Verify a file. Raises CheckpointDamaged for one that is not all there, or not what was saved."""
    end = data.find(b"\n", 0, HEADER_MAX)
    if end < 66 or data[64:65] != b" ":
        raise CheckpointDamaged("the header is cut off")
    line = data[65:end]
    if hashlib.sha256(line).hexdigest().encode() != data[:64]:
        raise CheckpointDamaged("the header does not match its hash")
    try:
        header = json.loads(line)
        if header["format"] != FORMAT:
            raise CheckpointDamaged(f"the format is {header['format']!r}, and this reads {FORMAT}")
        found = Saved(
            name=header["name"],
            version=header["version"],
            savedAt=header["savedAt"],
            type=header["type"],
            bytes=header["bytes"],
            sha256=header["sha256"],
            step=header["step"],
            meta=header["meta"],
        )
    except (ValueError, KeyError, TypeError):
        raise CheckpointDamaged("the header is not one of ours") from None
    if found.name != name or (version is not None and found.version != version):
        raise CheckpointDamaged(f"it is version {found.version} of {found.name!r}")
    body = data[end + 1 :]
    if len(body) != found.bytes:
        raise CheckpointDamaged(f"the body has {len(body)} of {found.bytes} bytes")
    if hashlib.sha256(body).hexdigest() != found.sha256:
        raise CheckpointDamaged("the body does not match its hash")
    try:
        value = json.loads(body) if found.type == "json" else body
    except ValueError:
        raise CheckpointDamaged("the body is not JSON") from None
    return _with(found, value=value)


def _with(saved: Saved, **changes: Any) -> Saved:
    return Saved(**{**saved.__dict__, **changes})


class Checkpoint:
    """A checkpoint by its name.

    ``directory`` is the parent of its folder: ``ROUSE_CHECKPOINT_DIR``, or else ``/workspace/.checkpoints``, unless given.
    ``keep`` is how many versions stay, the newest (5). ``mirror`` is ``"best-effort"`` (the save never fails for it),
    ``"required"`` (MirrorFailed), or ``"off"``; each exchange with it may take 2 s. Programs of several processes may save
    at once: each save has a version of its own.
    """

    def __init__(
        self,
        name: str,
        *,
        directory: Optional[Union[str, "os.PathLike[str]"]] = None,
        keep: int = KEEP,
        mirror: str = "best-effort",
    ) -> None:
        faults = []
        if not isinstance(name, str) or not _NAME.match(name):
            faults.append("name: 1 to 128 letters, digits, '.', '_' and '-', the first a letter or digit")
        if not isinstance(keep, int) or isinstance(keep, bool) or not 1 <= keep <= 1000:
            faults.append("keep: 1 to 1000")
        if mirror not in _MODES:
            faults.append("mirror: one of " + ", ".join(_MODES))
        if faults:
            raise CheckpointError("; ".join(faults))
        parent = os.fspath(directory) if directory is not None else os.environ.get("ROUSE_CHECKPOINT_DIR") or DEFAULT_DIR
        self.name = name
        self.folder = os.path.join(parent, name)
        self._keep = keep
        self._mode = mirror
        self._mirror = _Mirror(name, mirror)

    def save(self, value: Any, *, step: Optional[int] = None, meta: Optional[Dict[str, Any]] = None) -> Saved:
        """Save a new version: ``bytes`` as they are, all else as JSON. Once this returns, no crash takes it back."""
        if step is not None and (not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= STEP_MAX):
            raise CheckpointError("step: a whole number that is not negative")
        if meta is not None and not isinstance(meta, dict):
            raise CheckpointError("meta: a dict")
        try:
            kind, body = _body(value)
            json.dumps(meta, allow_nan=False)
        except (TypeError, ValueError) as fault:
            raise CheckpointError(f"that is no JSON: {fault}") from None
        self._make_folder()
        version = self._next()
        while True:
            if version > VERSION_MAX:
                raise CheckpointError("there are no more versions")
            data = encode(self.name, version, _now(), kind, body, step, meta or {})
            if self._put(version, data):
                break
            # Another process has that version by now.
            version = max(self._next(), version + 1)
        self._prune(version)
        mirrored = self._mirror.put(data, len(body))
        return _with(decode(data, self.name, version), value=None, mirrored=mirrored)

    def load(self, default: Any = None, *, version: Optional[int] = None) -> Any:
        """What was saved last, or that version; ``default`` where there is nothing. Damage is skipped, with a warning."""
        found = self.read(version)
        if found is None:
            return default
        for skipped in found.skipped:
            warnings.warn(
                f"checkpoint {self.name}: version {skipped.version} was skipped: {skipped.fault}", stacklevel=2
            )
        return found.value

    def read(self, version: Optional[int] = None) -> Optional[Saved]:
        """The newest version that verifies, with all that is known of it; ``None`` where there is none.

        With ``version``, that one: CheckpointNotFound, CheckpointDamaged. The mirror is asked where the disk has nothing,
        or damage before what verifies, and what is newer in it is put on the disk.
        """
        skipped: List[Fault] = []
        found: Optional[Saved] = None
        for one in self._versions() if version is None else [version]:
            try:
                found = self._read(one)
                break
            except FileNotFoundError:
                continue
            except (CheckpointDamaged, OSError) as fault:
                skipped.append(Fault(one, str(fault)))
        if found is not None and not skipped:
            return found
        # The mirror may have what the disk lost.
        data = self._mirror.get(version)
        if data is not None:
            try:
                stored = decode(data, self.name, version)
            except CheckpointDamaged as fault:
                skipped.append(Fault(version or 0, f"in the mirror: {fault}"))
            else:
                if found is None or stored.version > found.version:
                    self._bring_back(stored.version, data)
                    return _with(stored, source="mirror", mirrored=True, skipped=tuple(skipped))
        if found is not None:
            return _with(found, skipped=tuple(skipped))
        if skipped and version is not None:
            raise CheckpointDamaged(f"version {version} of {self.name!r}: {skipped[0].fault}")
        if version is not None:
            raise CheckpointNotFound(f"there is no version {version} of {self.name!r}")
        for one in skipped:
            warnings.warn(f"checkpoint {self.name}: version {one.version} was skipped: {one.fault}", stacklevel=2)
        return None

    def list(self) -> List[Saved]:
        """The versions on the disk, the newest first. One that does not verify has a ``fault``."""
        found = []
        for version in self._versions():
            try:
                found.append(_with(self._read(version), value=None))
            except FileNotFoundError:
                continue
            except (CheckpointDamaged, OSError) as fault:
                found.append(Saved(self.name, version, "", "", 0, "", fault=str(fault)))
        return found

    def _versions(self) -> List[int]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        matches = (_FILE.match(name) for name in names)
        return sorted((int(match.group(1)) for match in matches if match), reverse=True)

    def _next(self) -> int:
        known = self._versions()
        if known:
            return known[0] + 1
        # A disk that lost everything goes on where the mirror is, so that a version never comes twice.
        return self._mirror.newest() + 1

    def _path(self, version: int) -> str:
        return os.path.join(self.folder, f"v{version:010d}.checkpoint")

    def _read(self, version: int) -> Saved:
        with open(self._path(version), "rb") as file:
            return decode(file.read(), self.name, version)

    def _make_folder(self) -> None:
        made = []
        path = self.folder
        while not os.path.isdir(path):
            made.append(path)
            path = os.path.dirname(path) or "."
        os.makedirs(self.folder, exist_ok=True)
        for folder in made:
            _sync_folder(os.path.dirname(folder) or ".")

    def _put(self, version: int, data: bytes) -> bool:
        """False: another process has that version."""
        temporary = os.path.join(self.folder, f"{_TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            try:
                # Unlike a rename, a link never takes the place of a version that is there.
                os.link(temporary, self._path(version))
            except FileExistsError:
                return False
            except FileNotFoundError:
                # It slept for long in the middle of this, and another process took it for left behind.
                return False
            _sync_folder(self.folder)
            return True
        finally:
            try:
                os.unlink(temporary)
            except FileNotFoundError:
                pass

    def _bring_back(self, version: int, data: bytes) -> None:
        try:
            self._make_folder()
            if not self._put(version, data):
                # A damaged file has the place; it is what a crash or a disk's fault left.
                os.replace(self._path(version), os.path.join(self.folder, f"damaged-v{version:010d}"))
                self._put(version, data)
        except OSError:
            # It is in the mirror still.
            pass

    def _prune(self, version: int) -> None:
        for old in [one for one in self._versions() if one <= version][self._keep :]:
            _remove(self._path(old))
        now = time.time()
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if name.startswith(_TEMPORARY) and _age(path, now) > LEFTOVER_SECONDS:
                _remove(path)


class _Mirror:
    """Where the newest versions are outside of this machine. Nothing here raises but for ``required``."""

    def __init__(self, name: str, mode: str) -> None:
        base = os.environ.get("ROUSE_CHECKPOINT_MIRROR") or DEFAULT_MIRROR
        self._mode = "off" if base == "off" else mode
        self._url = f"{base.rstrip('/')}/{urllib.parse.quote(name)}"
        self._rests_until = 0.0

    def put(self, data: bytes, body_bytes: int) -> Optional[bool]:
        if self._mode == "off":
            return None
        if body_bytes > MIRROR_BODY_MAX:
            return self._failed(f"the body has more than {MIRROR_BODY_MAX} bytes")
        answer = self._exchange("PUT", "", data)
        if answer is not None and answer[0] < 300:
            return True
        return self._failed("it did not answer" if answer is None else f"it answered {answer[0]}")

    def get(self, version: Optional[int]) -> Optional[bytes]:
        answer = self._exchange("GET", "" if version is None else f"?version={version}", None)
        return answer[1] if answer is not None and answer[0] == 200 else None

    def newest(self) -> int:
        data = self.get(None)
        end = -1 if data is None else data.find(b"\n", 0, HEADER_MAX)
        try:
            return int(json.loads(data[65:end])["version"]) if data is not None and end > 65 else 0
        except (ValueError, KeyError, TypeError):
            return 0

    def _failed(self, why: str) -> bool:
        if self._mode == "required":
            raise MirrorFailed(f"saved on the disk, but not in the mirror: {why}")
        return False

    def _exchange(self, method: str, query: str, body: Optional[bytes]) -> Optional[Tuple[int, bytes]]:
        if self._mode == "off" or (self._mode == "best-effort" and time.monotonic() < self._rests_until):
            return None
        answers: List[Tuple[int, bytes]] = []

        def exchange() -> None:
            url = urllib.parse.urlsplit(self._url)
            connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=MIRROR_SECONDS)
            try:
                headers = {} if body is None else {"content-type": "application/octet-stream"}
                connection.request(method, url.path + query, body, headers)
                answer = connection.getresponse()
                answers.append((answer.status, answer.read()))
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()

        # A thread, since looking up a name has no time limit of its own.
        thread = threading.Thread(target=exchange, daemon=True)
        thread.start()
        thread.join(MIRROR_SECONDS)
        if not answers:
            self._rests_until = time.monotonic() + MIRROR_REST_SECONDS
        return answers[0] if answers else None


def _body(value: Any) -> Tuple[str, bytes]:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes", bytes(value)
    return "json", json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _now() -> str:
    now = datetime.datetime.now(datetime.timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z"


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _age(path: str, now: float) -> float:
    try:
        return now - os.stat(path).st_mtime
    except OSError:
        return 0.0


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def main(arguments: Optional[List[str]] = None) -> int:
    """The command. Exit codes: 0, 1 for what failed or is damaged, 2 for a wrong call, 3 where there is nothing."""
    parser = argparse.ArgumentParser(prog="rouse-checkpoint", description="Save what a job needs to go on, and load it.")
    parser.add_argument("--dir", help="parent of the folder (ROUSE_CHECKPOINT_DIR, or /workspace/.checkpoints)")
    parser.add_argument("--mirror", choices=_MODES, default="best-effort", help="best-effort unless given")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="save|load|list|verify")
    save = verbs.add_parser("save", help="save a file, or standard input; prints the version as JSON")
    save.add_argument("name")
    save.add_argument("file", nargs="?", default="-")
    save.add_argument("--step", type=int)
    save.add_argument("--keep", type=int, default=KEEP, help="versions that stay (5)")
    save.add_argument("--bytes", action="store_true", help="as bytes, even where it is JSON")
    load = verbs.add_parser("load", help="print the newest version that verifies")
    load.add_argument("name")
    load.add_argument("--version", type=int)
    load.add_argument("--default", metavar="JSON", help="printed where nothing was saved; without it the exit code is 3")
    for verb, text in (("list", "print the versions as JSON, one a line"), ("verify", "list, with exit code 1 for damage")):
        verbs.add_parser(verb, help=text).add_argument("name")
    given = parser.parse_args(arguments)
    try:
        return _run(given)
    except CheckpointNotFound as fault:
        print(f"rouse-checkpoint: {fault}", file=sys.stderr)
        return 3
    except (CheckpointError, OSError) as fault:
        print(f"rouse-checkpoint: {fault}", file=sys.stderr)
        return 2 if isinstance(fault, CheckpointError) and fault.code == "invalid_argument" else 1


def _run(given: argparse.Namespace) -> int:
    keep = given.keep if given.verb == "save" else KEEP
    checkpoint = Checkpoint(given.name, directory=given.dir, keep=keep, mirror=given.mirror)
    if given.verb == "save":
        if given.file == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(given.file, "rb") as file:
                data = file.read()
        print(json.dumps(checkpoint.save(data if given.bytes else _parsed(data), step=given.step).to_json()))
        return 0
    if given.verb == "load":
        found = checkpoint.read(given.version)
        if found is None:
            if given.default is None:
                raise CheckpointNotFound(f"nothing was saved as {given.name!r}")
            print(json.dumps(json.loads(given.default), ensure_ascii=False))
            return 0
        for skipped in found.skipped:
            print(f"rouse-checkpoint: version {skipped.version} was skipped: {skipped.fault}", file=sys.stderr)
        if found.type == "json":
            print(json.dumps(found.value, ensure_ascii=False))
        else:
            sys.stdout.buffer.write(found.value)
        return 0
    versions = checkpoint.list()
    for one in versions:
        print(json.dumps(one.to_json(), ensure_ascii=False))
    return 1 if given.verb == "verify" and any(one.fault is not None for one in versions) else 0


def _parsed(data: bytes) -> Any:
    """JSON as a value, so that every SDK loads it as one; all else as bytes."""
    try:
        return json.loads(data)
    except ValueError:
        return data


if __name__ == "__main__":
    sys.exit(main())
