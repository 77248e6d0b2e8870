"""Where a reader of a process's output stands, so that no byte is lost or seen twice over any number of connections."""

from __future__ import annotations

import base64
import codecs
from typing import Any, Dict, List

#: An event of output, as the wire has it.
Event = Dict[str, Any]


class OutputCursor:
    def __init__(self, position: int = 0) -> None:
        #: Raw bytes of stdout and stderr together that the reader has seen.
        self.position = position
        self._joining = False

    def join(self) -> None:
        """A new connection begins; what it repeats of the old one is cut off."""
        self._joining = True

    def skip_to(self, position: int) -> None:
        """The server moved on by itself."""
        self.position = max(self.position, position)

    def rewind_to(self, position: int) -> None:
        """The server's own count, where text that stands for other bytes made ours too high."""
        self.position = min(self.position, position)

    def accept(self, chunk: Event) -> List[Event]:
        """The events that a chunk stands for: none for a repeated one, a ``truncated`` before one that comes too late."""
        data = bytes_of_chunk(chunk)
        offset: int = chunk["offset"]
        end = offset + len(data)
        if offset > self.position:
            gap: Event = {"type": "truncated", "droppedBytes": offset - self.position, "resumeAt": offset}
            self.position = end
            self._joining = False
            return [gap, chunk]
        repeated = self.position - offset
        # On a running connection a lower offset is no repetition: bytes that are no UTF-8 made the chunk before it longer
        # as text than it is.
        if not self._joining or repeated == 0:
            self._joining = False
            self.position = end
            return [chunk]
        if end <= self.position:
            return []
        self._joining = False
        rest = data[repeated:]
        cut = {**chunk, "offset": self.position, "data": rest.decode("utf-8", "replace")}
        if "base64" in chunk:
            cut["base64"] = base64.b64encode(rest).decode()
        self.position = end
        return [cut]


class OutputBuffer:
    """The first bytes of a stream, up to a limit, as text."""

    def __init__(self, limit: int) -> None:
        self._chunks: List[bytes] = []
        self._left = limit
        self.truncated = False

    def add(self, chunk: Event) -> None:
        data = bytes_of_chunk(chunk)
        if len(data) > self._left:
            self.truncated = True
        kept = data[: self._left]
        self._chunks.append(kept)
        self._left -= len(kept)

    def text(self) -> str:
        # A character cut by the limit is left out, not shown as a fault of the output.
        return codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(self._chunks))


def bytes_of_chunk(chunk: Event) -> bytes:
    if chunk.get("base64") is not None:
        return base64.b64decode(chunk["base64"])
    return str(chunk["data"]).encode("utf-8", "surrogatepass")
