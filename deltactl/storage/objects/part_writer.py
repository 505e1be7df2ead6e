"""Write an object as its bytes arrive: a small one in one request, a large one in parts.

Readers see the object only when it is complete.
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
        """Create the object from the parts."""
        ...

    def abandon(self) -> None:
        """Discard the parts."""
        ...


class PartWriter(io.BufferedIOBase):
    """A writer of one object: ``close`` creates the object, ``discard`` does not."""

    def __init__(self, put: Callable[[bytes], None], begin: Callable[[], Upload]) -> None:
        """Write a small object with ``put``, a large one with the upload that ``begin`` starts."""
        super().__init__()
        self._put, self._begin = put, begin
        self._upload: Upload | None = None
        self._buffer = bytearray()
        self._position = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._position

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
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
        """Create the object. After an error, do not call this again."""
        if self.closed:
            return
        try:
            if self._upload is None:
                self._put(bytes(self._buffer))
            else:
                self._upload.add(bytes(self._buffer))
                self._upload.finish()
        except BaseException:
            if self._upload is not None:
                self._upload.abandon()
            raise
        finally:
            super().close()

    def discard(self) -> None:
        """Discard the written data; do nothing after ``close``."""
        if not self.closed:
            super().close()
            if self._upload is not None:
                self._upload.abandon()

    def __del__(self) -> None:
        """Discard if not closed: the base class would store an incomplete object."""
        self.discard()
