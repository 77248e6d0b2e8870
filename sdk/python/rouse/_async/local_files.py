"""Copying between this machine's files and a sandbox's."""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import aclosing
from typing import IO, Callable, Optional, Tuple

from ..errors import known_error, invalid_argument
from ..local_paths import below, walk
from ..options import RequestOptions
from ..results import CopyReport
from ..sources import FileSource
from ..answers import FileEntry
from ..wire import list_of
from .download import read_checked, retry_incomplete
from .driver import AsyncLock, blocking, in_parallel
from .remote import AsyncRemote
from .transport import mapping
from .upload import write_file

#: Files on their way at once when a folder is copied.
PARALLEL_FILES = 4
#: Most entries of a folder that is downloaded: what one listing may hold.
ENTRIES_MAX = 10_000
DEPTH_MAX = 64

Progress = Optional[Callable[[CopyReport], object]]


async def upload_path(
    remote: AsyncRemote, local: str, target: str, on_progress: Progress, request: RequestOptions
) -> CopyReport:
    report = CopyReport()
    counting = AsyncLock()

    async def one(pair: Tuple[str, str], how: RequestOptions) -> None:
        size = await upload_file(remote, pair[0], pair[1], how)
        async with counting:
            report.files += 1
            report.bytes += size
            if on_progress is not None:
                on_progress(report)

    if not await blocking(lambda: os.path.isdir(local)):
        await one((local, target), request)
        return report
    # One caller's key cannot stand for many writes.
    each: RequestOptions = {"timeout_ms": request.get("timeout_ms")}
    folders, files, report.skipped = await blocking(lambda: walk(local, target))
    for folder in folders:
        await remote.post("/files:mkdir", {"path": folder, "parents": True}, **each)

    async def each_of(pair: Tuple[str, str]) -> None:
        await one(pair, each)

    await in_parallel(files, PARALLEL_FILES, each_of)
    return report


async def upload_file(remote: AsyncRemote, local: str, target: str, request: RequestOptions) -> int:
    with await blocking(lambda: open(local, "rb")) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise invalid_argument(f"{local} is not a file.")
        mode = f"{facts.st_mode & 0o777:03o}"
        await write_file(remote, target, FileSource(file, facts.st_size), mode, request)
        return facts.st_size


async def download_path(
    remote: AsyncRemote, source: str, local: str, on_progress: Progress, request: RequestOptions
) -> CopyReport:
    report = CopyReport()
    counting = AsyncLock()
    facts = mapping(await remote.get("/files/stat", query={"path": source}, **request))
    if not facts.get("exists"):
        raise known_error("file_not_found", f"There is no {source} in the sandbox.")

    async def one(entry: Tuple[str, str, str]) -> None:
        size = await download_file(remote, entry[0], entry[1], entry[2], request)
        async with counting:
            report.files += 1
            report.bytes += size
            if on_progress is not None:
                on_progress(report)

    if facts["type"] != "directory":
        await one((source, local, facts["mode"]))
        return report
    query = {"path": source, "depth": DEPTH_MAX, "hidden": True, "limit": ENTRIES_MAX}
    entries = list_of(FileEntry, await remote.get("/files/list", query=query, **request))
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
    await blocking(lambda: [os.makedirs(folder, exist_ok=True) for folder in folders])
    await in_parallel(files, PARALLEL_FILES, one)
    return report


async def download_file(remote: AsyncRemote, source: str, local: str, mode: str, request: RequestOptions) -> int:
    partial = f"{local}.{uuid.uuid4().hex[:8]}.partial"
    await blocking(lambda: os.makedirs(os.path.dirname(os.path.abspath(local)), exist_ok=True))

    def create() -> IO[bytes]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        return os.fdopen(os.open(partial, flags, int(mode, 8) & 0o777), "wb")

    async def read() -> int:
        size = 0
        with await blocking(create) as file:
            async with aclosing(read_checked(remote, source, {"timeout_ms": 0, **request})) as chunks:
                async for chunk in chunks:
                    await blocking(lambda data=chunk: file.write(data))
                    size += len(chunk)
        return size

    try:
        size = await retry_incomplete(read)
        await blocking(lambda: os.replace(partial, local))
        return size
    except BaseException:
        await blocking(lambda: os.path.exists(partial) and os.unlink(partial))
        raise
