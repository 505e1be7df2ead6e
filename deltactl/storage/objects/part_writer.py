"""Writing an object as its bytes come: at once where it is small, else in parts.

Nobody sees anything of it before the end.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PART_BYTES: Final = 16 << 20


class Upload(Protocol):
    """Parts of one object, in order."""

    def add(self, data: bytes) -> None:
        """Send the next part."""
        ...

    def finish(self) -> None:
        """Put the object in place."""
        ...

    def abandon(self) -> None:
        """Leave everything as it was."""
        ...


class PartWriter(io.BufferedIOBase):
    """A writer of one object; ``close`` puts it in place, ``discard`` does not."""

    def __init__(self, put: Callable[[bytes], None], begin: Callable[[], Upload]) -> None:
        """Write what is small by ``put``, and what is not by the upload that ``begin`` starts."""
        super().__init__()
        self._put, self._begin = put, begin
        self._upload: Upload | None = None
        self._buffer = bytearray()
        self._position = 0

    def writable(self) -> bool:
        """Tell that it takes bytes."""
        return True

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._position

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Take some bytes."""
        data = memoryview(buffer).cast("B")
        self._buffer += data
        self._position += len(data)
        while len(self._buffer) > PART_BYTES:
            if self._upload is None:
                self._upload = self._begin()
            self._upload.add(bytes(self._buffer[:PART_BYTES]))
            del self._buffer[:PART_BYTES]
        return len(data)

    def close(self) -> None:
        """Put the object in place; where that fails, there is no second try."""
        if self.closed:
            return
        try:
            if self._upload is None:
                self._put(bytes(self._buffer))
            else:
                self._upload.add(bytes(self._buffer))
                self._upload.finish()
        finally:
            super().close()

    def discard(self) -> None:
        """Leave everything as it was; nothing after ``close``."""
        if not self.closed:
            super().close()
            if self._upload is not None:
                self._upload.abandon()

    def __del__(self) -> None:
        """Give up what nobody closed: the base class would put it in place half written."""
        self.discard()
