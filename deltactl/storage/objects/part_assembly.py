"""Write an object of S3 from written bytes, and from byte ranges that the service copies.

Every part except the last must have at least 5 MiB. If a range would give a shorter part, its bytes
are read and sent instead.

Source: Amazon S3 API reference, UploadPartCopy; user guide, "Multipart upload limits".
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from deltactl.storage.objects.part_writer import PART_BYTES, Upload
from deltactl.storage.objects.services import CannotCopyError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MIN_PART_BYTES: Final = 5 << 20
MAX_COPY_BYTES: Final = 5 << 30
_MAX_PARTS: Final = 10_000
_ROOM: Final = 16  # parts that are kept for the data after the copies


class CopyingUpload(Upload, Protocol):
    """An upload that also accepts ranges of other objects as parts."""

    def copy(self, source: str, offset: int, length: int) -> None:
        """Add a range of another object as the next part.

        Raises:
            CannotCopyError: the service refuses to copy; the caller must read and send the range.
        """
        ...


class PartAssembly(io.BufferedIOBase):
    """A writer of one object: ``close`` creates the object, ``discard`` does not."""

    def __init__(
        self,
        put: Callable[[bytes], None],
        begin: Callable[[], CopyingUpload],
        read: Callable[[str, int, int], bytes],
    ) -> None:
        """Write a small object with ``put``, a large one with the upload that ``begin`` starts."""
        super().__init__()
        self._put, self._begin, self._read = put, begin, read
        self._upload: CopyingUpload | None = None
        self._buffer = bytearray()
        self._waiting: tuple[str, int, int] | None = None  # a range that may still grow
        self._position = self._parts = 0
        self._copies = True

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written and copied so far."""
        return self._position

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        data = memoryview(buffer).cast("B")
        if data.nbytes:
            self._place_range()
        self._buffer += data
        self._position += data.nbytes
        while len(self._buffer) >= PART_BYTES + MIN_PART_BYTES:
            self._send(PART_BYTES)
        return data.nbytes

    def copy(self, source: str, offset: int, length: int) -> None:
        """Append a range of another object; adjacent ranges become one part."""
        if length:
            if self._waiting is not None:
                name, start, size = self._waiting
                if name == source and start + size == offset:
                    self._waiting = (name, start, size + length)
                    self._position += length
                    return
                self._place_range()
            self._waiting = (source, offset, length)
            self._position += length

    def close(self) -> None:
        """Create the object. After an error, do not call this again."""
        if self.closed:
            return
        try:
            self._place_range()
            if self._upload is None:
                self._put(bytes(self._buffer))
            else:
                if self._buffer:
                    self._send(len(self._buffer))
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

    def _place_range(self) -> None:
        """Append the pending range: the service copies full parts; the rest is read and sent."""
        if self._waiting is None:
            return
        source, offset, length = self._waiting
        self._waiting = None
        if self._buffer and len(self._buffer) < MIN_PART_BYTES:
            wanted = min(MIN_PART_BYTES - len(self._buffer), length)
            self._buffer += self._read(source, offset, wanted)
            offset, length = offset + wanted, length - wanted
        if length >= MIN_PART_BYTES and self._copies and self._parts < _MAX_PARTS - _ROOM:
            if self._buffer:
                self._send(len(self._buffer))
            while length and self._copies:
                # The remainder must be large enough for a part of its own.
                size = length if length <= MAX_COPY_BYTES else MAX_COPY_BYTES - MIN_PART_BYTES
                try:
                    self._begun().copy(source, offset, size)
                except CannotCopyError:
                    self._copies = False
                    break
                self._parts += 1
                offset, length = offset + size, length - size
        self._pass_on(source, offset, length)

    def _pass_on(self, source: str, offset: int, length: int) -> None:
        """Read a range and send it."""
        while length:
            wanted = min(length, PART_BYTES)
            self._buffer += self._read(source, offset, wanted)
            offset, length = offset + wanted, length - wanted
            while len(self._buffer) >= PART_BYTES + MIN_PART_BYTES:
                self._send(PART_BYTES)

    def _send(self, length: int) -> None:
        self._begun().add(bytes(self._buffer[:length]))
        self._parts += 1
        del self._buffer[:length]

    def _begun(self) -> CopyingUpload:
        if self._upload is None:
            self._upload = self._begin()
        return self._upload
