# Made by test/support/print-python.ts from _async/local_files.py: change that file.
"""Copying between this machine's files and a sandbox's."""

from __future__ import annotations

import os
import stat
import uuid
from contextlib import closing

from ..errors import known_error, invalid_argument
from ..options import RequestOptions
from ..results import CopyReport
from ..sources import FileSource
from .download import read_checked, retry_incomplete
from .driver import blocking
from .local_folders import Progress, create, download_folder, upload_folder
from .remote import Remote
from .transport import mapping
from .upload import write_file


def upload_path(
    remote: Remote, local: str, target: str, on_progress: Progress, request: RequestOptions
) -> CopyReport:
    report = CopyReport()
    if blocking(lambda: os.path.isdir(local)):
        upload_folder(remote, local, target, report, on_progress, request)
        return report
    report.bytes = upload_file(remote, local, target, request)
    report.files = 1
    if on_progress is not None:
        on_progress(report)
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
    facts = mapping(remote.get("/files/stat", query={"path": source}, **request))
    if not facts.get("exists"):
        raise known_error("file_not_found", f"There is no {source} in the sandbox.")
    if facts["type"] == "directory":
        download_folder(remote, facts["path"], local, report, on_progress, request)
        return report
    report.bytes = download_file(remote, source, local, facts["mode"], request)
    report.files = 1
    if on_progress is not None:
        on_progress(report)
    return report


def download_file(remote: Remote, source: str, local: str, mode: str, request: RequestOptions) -> int:
    partial = f"{local}.{uuid.uuid4().hex[:8]}.partial"
    blocking(lambda: os.makedirs(os.path.dirname(os.path.abspath(local)), exist_ok=True))

    def read() -> int:
        size = 0
        with blocking(lambda: create(partial, int(mode, 8))) as file:
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
