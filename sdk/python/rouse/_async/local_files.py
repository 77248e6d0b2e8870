"""Copying between this machine's files and a sandbox's."""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import aclosing

from ..errors import known_error, invalid_argument
from ..options import RequestOptions
from ..results import CopyReport
from ..sources import FileSource
from .download import read_checked, retry_incomplete
from .driver import blocking
from .local_folders import Progress, create, download_folder, upload_folder
from .remote import AsyncRemote
from .transport import mapping
from .upload import write_file


async def upload_path(
    remote: AsyncRemote, local: str, target: str, on_progress: Progress, request: RequestOptions
) -> CopyReport:
    report = CopyReport()
    if await blocking(lambda: os.path.isdir(local)):
        await upload_folder(remote, local, target, report, on_progress, request)
        return report
    report.bytes = await upload_file(remote, local, target, request)
    report.files = 1
    if on_progress is not None:
        on_progress(report)
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
    facts = mapping(await remote.get("/files/stat", query={"path": source}, **request))
    if not facts.get("exists"):
        raise known_error("file_not_found", f"There is no {source} in the sandbox.")
    if facts["type"] == "directory":
        await download_folder(remote, facts["path"], local, report, on_progress, request)
        return report
    report.bytes = await download_file(remote, source, local, facts["mode"], request)
    report.files = 1
    if on_progress is not None:
        on_progress(report)
    return report


async def download_file(remote: AsyncRemote, source: str, local: str, mode: str, request: RequestOptions) -> int:
    partial = f"{local}.{uuid.uuid4().hex[:8]}.partial"
    await blocking(lambda: os.makedirs(os.path.dirname(os.path.abspath(local)), exist_ok=True))

    async def read() -> int:
        size = 0
        with await blocking(lambda: create(partial, int(mode, 8))) as file:
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
