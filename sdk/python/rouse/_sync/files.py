# Made by test/support/print-python.ts from _async/files.py: change that file.
"""Files in a sandbox."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Union, cast

from ..options import RequestOptions, Unpack
from ..results import CopyReport
from ..sources import MemorySource, Spool
from ..answers import FileEntry, FileWritten, Unpacked
from ..wire import Data, bytes_of, field_of, given, list_of, mode_text
from .archive import read_archive, write_archive
from .download import read_bytes, read_checked
from .driver import StreamSource, blocking, pieces_of
from .local_files import download_path, upload_path
from .remote import Remote
from .upload import write_file
from .watch import FileWatch, WatchEventName, list_watches, watch_files

#: Where paths that are not absolute begin.
WORKSPACE = "/workspace"
#: Levels that ``glob`` looks into.
GLOB_DEPTH = 64

LocalPath = Union[str, "os.PathLike[str]"]


class FileStat(FileEntry):
    exists: bool


class Files:
    """Files in a sandbox, as its user. Paths are absolute, or relative to ``/workspace``."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def read(self, path: str, **request: Unpack[RequestOptions]) -> bytes:
        """A file's bytes, checked against its length and, when the sandbox gives it, its SHA-256.

        Raises NotFoundError ``file_not_found``, ConflictError ``is_a_directory``, and ConnectionError
        ``download_incomplete`` after three tries.
        """
        return read_bytes(self._remote, path, request)

    def read_text(self, path: str, **request: Unpack[RequestOptions]) -> str:
        """A file as UTF-8 text; see ``read``."""
        return (self.read(path, **request)).decode("utf-8", "replace")

    def read_stream(self, path: str, **request: Unpack[RequestOptions]) -> Generator[bytes, None, None]:
        """A file of any size piece by piece; fails at its end with ``download_incomplete`` when bytes were missing.

        No time limit unless given.
        """
        return read_checked(self._remote, path, {"timeout_ms": 0, **request})

    def write(
        self, path: str, data: Data, *, mode: Union[str, int, None] = None, **request: Unpack[RequestOptions]
    ) -> FileWritten:
        """Write a file: whole or not at all, parents made. Answers what is on the disk, with its SHA-256.

        Data above 1 MiB goes in chunks, eight at once, of which each may be lost and sent again. ``mode`` is three octal
        digits such as ``"755"``, or ``0o755``; the sandbox's default unless given.
        """
        return write_file(self._remote, path, MemorySource(bytes_of(data)), mode_text(mode), request)

    def write_stream(
        self,
        path: str,
        source: StreamSource,
        *,
        mode: Union[str, int, None] = None,
        **request: Unpack[RequestOptions],
    ) -> FileWritten:
        """Write a file from an open one, or from pieces, of any length.

        What is above 1 MiB waits in a temporary file until its end is known.
        """
        text = mode_text(mode)
        spool = Spool()
        try:
            for piece in pieces_of(source):
                blocking(lambda data=piece: spool.add(data))
            return write_file(self._remote, path, spool.source(), text, request)
        finally:
            spool.close()

    def read_archive(
        self,
        path: str,
        *,
        gzip: bool = True,
        exclude: Optional[Sequence[str]] = None,
        **request: Unpack[RequestOptions],
    ) -> Generator[bytes, None, None]:
        """What a folder holds as one tar archive, piece by piece, with names below the folder.

        ``exclude``: what is left out, patterns of names as tar takes them. Files that change meanwhile are as they were
        read. One that fails, fails as a stream. No time limit unless given. Raises NotFoundError ``file_not_found`` and
        ConflictError ``not_a_directory``.

            with open("src.tar.gz", "wb") as file:
                for piece in sandbox.files.read_archive("src", exclude=["node_modules"]):
                    file.write(piece)
        """
        return read_archive(self._remote, path, gzip, exclude, {"timeout_ms": 0, **request})

    def write_archive(
        self, path: str, source: StreamSource, **request: Unpack[RequestOptions]
    ) -> Unpacked:
        """Unpack a tar archive of any length, gzipped or not, into a folder, which is made.

        ``source`` is an open file, or pieces. It is unpacked as it comes: where it fails, what came before is there.
        Entries may not lead out of the folder. Answers the folder and the archive's length. Raises InvalidRequestError
        ``invalid_archive``.
        """
        return write_archive(self._remote, path, source, request)

    def list(
        self,
        path: str = WORKSPACE,
        *,
        depth: Optional[int] = None,
        glob: Optional[str] = None,
        hidden: Optional[bool] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> List[FileEntry]:
        """What a folder holds.

        ``depth``: levels, 1 (only the folder itself) unless given, at most 64. ``glob``: only entries whose path below
        the folder matches. ``hidden``: whether to list names that begin with a dot. ``limit``: 1 to 10 000.
        """
        query: Dict[str, Any] = {"path": path, "depth": depth, "glob": glob, "hidden": hidden, "limit": limit}
        return list_of(FileEntry, self._remote.get("/files/list", query=query, **request))

    def glob(
        self,
        pattern: str,
        *,
        path: str = WORKSPACE,
        depth: Optional[int] = GLOB_DEPTH,
        hidden: Optional[bool] = None,
        limit: Optional[int] = None,
        **request: Unpack[RequestOptions],
    ) -> List[FileEntry]:
        """Everything below ``path`` whose path matches, such as ``*.py``."""
        return self.list(path, depth=depth, glob=pattern, hidden=hidden, limit=limit, **request)

    def watch(
        self,
        path: str,
        *,
        recursive: Optional[bool] = None,
        events: Optional[Sequence[WatchEventName]] = None,
        include: Optional[Sequence[str]] = None,
        exclude: Optional[Sequence[str]] = None,
        batch_ms: Optional[int] = None,
        timeout_ms: Optional[int] = None,
        max_watches: Optional[int] = None,
        id: Optional[str] = None,
        request: Optional[RequestOptions] = None,
    ) -> FileWatch:
        """Watch a file, or a folder, with ``recursive`` all below it. At most 8 at once.

        ``events``: all but ``access`` unless given. ``include``, ``exclude``: patterns of paths below the folder; one
        without a slash is of names. ``batch_ms``: how long events are collected; 100 unless given. ``timeout_ms``: an hour
        unless given, 0 until it is stopped. ``id``: of the caller's choice; one that is there with the same settings is the
        answer then. ``request`` is how the call is made, as against what is watched. Raises NotFoundError
        ``file_not_found`` and ConflictError ``quota_exceeded``.

            watch = sandbox.files.watch("src", recursive=True)
            for event in watch.events():
                print(event)
        """
        body = given(
            path=path,
            recursive=recursive,
            events=events,
            include=include,
            exclude=exclude,
            batch_ms=batch_ms,
            timeout_ms=timeout_ms,
            max_watches=max_watches,
            id=id,
        )
        return watch_files(self._remote, body, request or {})

    def watches(self, **request: Unpack[RequestOptions]) -> List[FileWatch]:
        """The watches that go on, and the last that ended."""
        return list_watches(self._remote, request)

    def stat(self, path: str, **request: Unpack[RequestOptions]) -> FileStat:
        """Facts of a path; ``exists`` is False, and there is nothing else, when there is nothing."""
        answer = self._remote.get("/files/stat", query={"path": path}, **request)
        field_of(answer, "exists", bool)
        return cast(FileStat, answer)

    def exists(self, path: str, **request: Unpack[RequestOptions]) -> bool:
        return (self.stat(path, **request))["exists"]

    def mkdir(self, path: str, *, parents: bool = True, **request: Unpack[RequestOptions]) -> None:
        """Make a folder. ``parents`` also makes those above it, and bears that it is there already."""
        self._remote.post("/files:mkdir", {"path": path, "parents": parents}, **request)

    def remove(
        self, path: str, *, recursive: Optional[bool] = None, **request: Unpack[RequestOptions]
    ) -> bool:
        """Remove a file, or with ``recursive`` a folder with its contents. Answers whether there was anything.

        Raises ConflictError ``directory_not_empty``.
        """
        answer = self._remote.post("/files:remove", given(path=path, recursive=recursive), **request)
        return field_of(answer, "removed", bool)

    def rename(
        self, from_: str, to: str, *, overwrite: Optional[bool] = None, **request: Unpack[RequestOptions]
    ) -> None:
        """Rename or move. Raises ConflictError ``file_exists`` unless ``overwrite``."""
        self._remote.post("/files:rename", given(from_=from_, to=to, overwrite=overwrite), **request)

    def chmod(self, path: str, mode: Union[str, int], **request: Unpack[RequestOptions]) -> None:
        """Set permission bits, as in ``write``."""
        self._remote.post("/files:chmod", {"path": path, "mode": mode_text(mode)}, **request)

    def upload(
        self,
        local: LocalPath,
        remote: str,
        *,
        on_progress: Optional[Callable[[CopyReport], object]] = None,
        **request: Unpack[RequestOptions],
    ) -> CopyReport:
        """Copy a file or folder of this machine into the sandbox, with its permission bits.

        A folder goes as one archive, which is unpacked as it comes; symbolic links in it are left out and named in the
        report.
        """
        return upload_path(self._remote, os.fspath(local), remote, on_progress, request)

    def download(
        self,
        remote: str,
        local: LocalPath,
        *,
        on_progress: Optional[Callable[[CopyReport], object]] = None,
        **request: Unpack[RequestOptions],
    ) -> CopyReport:
        """Copy a file or folder of the sandbox to this machine.

        A folder comes as one archive. A file appears whole or not at all; symbolic links in a folder are left out and
        named in the report.
        """
        return download_path(self._remote, remote, os.fspath(local), on_progress, request)
