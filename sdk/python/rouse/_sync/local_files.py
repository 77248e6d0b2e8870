# Made by test/support/print-python.ts from _async/local_files.py: change that file.
"""Copying between this machine's files and a sandbox's."""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import closing
from typing import Callable, IO, Optional, Tuple

from ..errors import known_error, invalid_argument
from ..local_paths import below, walk
from ..options import RequestOptions
from ..results import CopyReport
from ..sources import FileSource
from ..answers import FileEntry
from ..wire import list_of
from .download import read_checked, retry_incomplete
from .driver import Lock, blocking, in_parallel
from .remote import Remote
from .transport import mapping
from .upload import write_file

#: Files on their way at once when a folder is copied.
PARALLEL_FILES = 4
#: Most entries of a folder that is downloaded: what one listing may hold.
ENTRIES_MAX = 10_000
DEPTH_MAX = 64

Progress = Optional[Callable[[CopyReport], object]]


def upload_path(
    remote: Remote, local: str, target: str, on_progress: Progress, request: RequestOptions
) -> CopyReport:
    report = CopyReport()
    counting = Lock()

    def one(pair: Tuple[str, str], how: RequestOptions) -> None:
        size = upload_file(remote, pair[0], pair[1], how)
        with counting:
            report.files += 1
            report.bytes += size
            if on_progress is not None:
                on_progress(report)

    if not blocking(lambda: os.path.isdir(local)):
        one((local, target), request)
        return report
    # One caller's key cannot stand for many writes.
    each: RequestOptions = {"timeout_ms": request.get("timeout_ms")}
    folders, files, report.skipped = blocking(lambda: walk(local, target))
    for folder in folders:
        remote.post("/files:mkdir", {"path": folder, "parents": True}, **each)

    def each_of(pair: Tuple[str, str]) -> None:
        one(pair, each)

    in_parallel(files, PARALLEL_FILES, each_of)
    return report


def upload_file(remote: Remote, local: str, target: str, request: RequestOptions) -> int:
    with blocking(lambda: open(local, "rb")) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise invalid_argument(f"{local} is not a file.")
        mode = f"{facts.st_mode & 0o777:03o}"
        write_file(remote, target, FileSource(file, facts.st_size), mode, request)
        return facts.st_size


def download_path(
    remote: Remote, source: str, local: str, on_progress: Progress, request: RequestOptions
) -> CopyReport:
    report = CopyReport()
    counting = Lock()
    facts = mapping(remote.get("/files/stat", query={"path": source}, **request))
    if not facts.get("exists"):
        raise known_error("file_not_found", f"There is no {source} in the sandbox.")

    def one(entry: Tuple[str, str, str]) -> None:
        size = download_file(remote, entry[0], entry[1], entry[2], request)
        with counting:
            report.files += 1
            report.bytes += size
            if on_progress is not None:
                on_progress(report)

    if facts["type"] != "directory":
        one((source, local, facts["mode"]))
        return report
    query = {"path": source, "depth": DEPTH_MAX, "hidden": True, "limit": ENTRIES_MAX}
    entries = list_of(FileEntry, remote.get("/files/list", query=query, **request))
    if len(entries) >= ENTRIES_MAX:
        raise invalid_argument(
            f"{source} holds {ENTRIES_MAX} entries or more.",
            "Pack it in the sandbox with tar and download the archive.",
        )
    folders = [local]
    files: list[Tuple[str, str, str]] = []
    for entry in entries:
        to = below(local, facts["path"], entry["path"])
        if entry["type"] == "directory":
            folders.append(to)
        elif entry["type"] == "file":
            files.append((entry["path"], to, entry["mode"]))
        else:
            report.skipped.append(entry["path"])
    blocking(lambda: [os.makedirs(folder, exist_ok=True) for folder in folders])
    in_parallel(files, PARALLEL_FILES, one)
    return report


def download_file(remote: Remote, source: str, local: str, mode: str, request: RequestOptions) -> int:
    partial = f"{local}.{uuid.uuid4().hex[:8]}.partial"
    blocking(lambda: os.makedirs(os.path.dirname(os.path.abspath(local)), exist_ok=True))

    def create() -> IO[bytes]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        return os.fdopen(os.open(partial, flags, int(mode, 8) & 0o777), "wb")

    def read() -> int:
        size = 0
        with blocking(create) as file:
            with closing(read_checked(remote, source, {"timeout_ms": 0, **request})) as chunks:
                for chunk in chunks:
                    blocking(lambda data=chunk: file.write(data))
                    size += len(chunk)
        return size

    try:
        size = retry_incomplete(read)
        blocking(lambda: os.replace(partial, local))
        return size
    except BaseException:
        blocking(lambda: os.path.exists(partial) and os.unlink(partial))
        raise
