"""Bytes that can be read again from any offset, on their way into a sandbox."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from typing import IO, Protocol

#: Bytes of one PUT; what is larger goes in chunks.
CHUNK_BYTES = 1_048_576


class Source(Protocol):
    size: int

    def sha256(self) -> str:
        """Hex, of the whole."""
        ...

    def read(self, offset: int, length: int) -> bytes: ...


class MemorySource:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def sha256(self) -> str:
        return hashlib.sha256(self._data).hexdigest()

    def read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]


class FileSource:
    """An open file, of a size that is known. Threads may share it."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.size = size

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for offset in range(0, self.size, CHUNK_BYTES):
            digest.update(self.read(offset, min(CHUNK_BYTES, self.size - offset)))
        return digest.hexdigest()

    def read(self, offset: int, length: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            data = self._file.read(length)
        if len(data) < length:
            raise OSError("the file became shorter while it was read")
        return data


class Spool:
    """A stream of unknown length: the wire wants its size and digest first. What is large waits in a temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=CHUNK_BYTES)
        self._size = 0

    def add(self, piece: bytes) -> None:
        self._file.write(piece)
        self._size += len(piece)

    def source(self) -> FileSource:
        return FileSource(self._file, self._size)  # pyright: ignore[reportArgumentType]

    def close(self) -> None:
        self._file.close()
