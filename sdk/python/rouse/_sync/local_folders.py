# Made by test/support/print-python.ts from _async/local_folders.py: change that file.
"""Copying folders between this machine and a sandbox, each as one archive, which waits in a temporary file."""

from __future__ import annotations

import os
import tarfile
import tempfile
import uuid
import zlib
from contextlib import closing
from typing import Callable, IO, Optional

from ..errors import RouseError
from ..local_paths import below, walk
from ..options import RequestOptions
from ..results import CopyReport
from .archive import read_archive, write_archive
from .download import retry_incomplete
from .driver import blocking
from .remote import Remote

Progress = Optional[Callable[[CopyReport], object]]
PIECE_BYTES = 1_048_576


def upload_folder(
    remote: Remote, local: str, target: str, report: CopyReport, on_progress: Progress, request: RequestOptions
) -> None:
    folders, files, report.skipped = blocking(lambda: walk(local, ""))
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1, format=tarfile.GNU_FORMAT) as archive:
            # The first is the folder itself.
            for name in folders[1:]:
                blocking(lambda name=name: add_folder(archive, local, name))
            for path, name in files:
                report.bytes += blocking(lambda path=path, name=name: add_file(archive, path, name))
                report.files += 1
                if on_progress is not None:
                    on_progress(report)
        file.seek(0)
        write_archive(remote, target, file, request)


def add_folder(archive: tarfile.TarFile, local: str, name: str) -> None:
    facts = os.stat(f"{local}{name}")
    entry = tarfile.TarInfo(name[1:])
    entry.type = tarfile.DIRTYPE
    # One that its owner could not write to would take none of its files.
    entry.mode = facts.st_mode & 0o777 | 0o700
    entry.mtime = int(facts.st_mtime)
    archive.addfile(entry)


def add_file(archive: tarfile.TarFile, path: str, name: str) -> int:
    with open(path, "rb") as file:
        facts = os.fstat(file.fileno())
        entry = tarfile.TarInfo(name[1:])
        entry.mode = facts.st_mode & 0o777
        entry.mtime = int(facts.st_mtime)
        entry.size = facts.st_size
        archive.addfile(entry, file)
    return entry.size


def download_folder(
    remote: Remote, source: str, local: str, report: CopyReport, on_progress: Progress, request: RequestOptions
) -> None:
    """``source`` is the folder as the sandbox has it."""
    with tempfile.TemporaryFile() as file:

        def read() -> None:
            file.seek(0)
            file.truncate()
            with closing(read_archive(remote, source, True, None, {"timeout_ms": 0, **request})) as pieces:
                for piece in pieces:
                    blocking(lambda data=piece: file.write(data))

        retry_incomplete(read)
        file.seek(0)
        blocking(lambda: os.makedirs(local, exist_ok=True))
        try:
            with tarfile.open(fileobj=file, mode="r|gz") as archive:
                while True:
                    entry = blocking(archive.next)
                    if entry is None:
                        return
                    path = f"{source.rstrip('/')}/{entry.name}"
                    to = below(local, source, path)
                    if entry.isdir():
                        blocking(lambda folder=to: os.makedirs(folder, exist_ok=True))
                    elif entry.isreg():
                        blocking(lambda one=entry, to=to: take_file(archive, one, to))
                        report.files += 1
                        report.bytes += entry.size
                        if on_progress is not None:
                            on_progress(report)
                    else:
                        report.skipped.append(path)
        except (tarfile.TarError, EOFError, zlib.error) as fault:
            raise RouseError("invalid_archive", f"The sandbox sent an archive that is none: {fault}.") from None


def take_file(archive: tarfile.TarFile, entry: tarfile.TarInfo, to: str) -> None:
    """It appears whole or not at all."""
    content = archive.extractfile(entry)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    partial = f"{to}.{uuid.uuid4().hex[:8]}.partial"
    try:
        with create(partial, entry.mode) as file:
            while content is not None:
                piece = content.read(PIECE_BYTES)
                if not piece:
                    break
                file.write(piece)
        os.replace(partial, to)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def create(path: str, mode: int) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, mode & 0o777), "wb")
