"""Write an object as its bytes arrive: a small one in one request, a large one in parts.

Some services also copy ranges of other objects. Every part except the last must have at least
5 MiB. If a range would give a shorter part, its bytes are read and sent instead. Readers see the
object only when it is complete.

Source: Amazon S3 API reference, UploadPartCopy; user guide, "Multipart upload limits".
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol, cast

from deltactl.storage.objects.services import CannotCopyError, Upload

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PART_BYTES: Final = 16 << 20  # so an object can have 156 GiB, with the most parts
MIN_PART_BYTES: Final = 5 << 20  # three limits of S3: of a part but the last,
MAX_COPY_BYTES: Final = 5 << 30  # of a range that is copied,
_MAX_PARTS: Final = 10_000  # and of the parts of an upload
_ROOM: Final = 16  # parts that are kept for the data after the copies


class CopyingUpload(Upload, Protocol):
    """An upload that also accepts ranges of other objects as parts."""

    def copy(self, source: str, offset: int, length: int) -> None:
        """Add a range of another object as the next part.

        Raises:
            CannotCopyError: the service refuses to copy; the caller must read and send the range.
        """
        ...


class PartWriter(io.BufferedIOBase):
    """A writer of one object: ``close`` creates the object, ``discard`` does not.

    Implements ``storage.store.Replacement``, and ``Assembly`` if the service copies ranges.
    """

    is_local = False

    def __init__(
        self,
        put: Callable[[bytes], None],
        begin: Callable[[], Upload],
        read: Callable[[str, int, int], bytes],
        *,
        key_of: Callable[[str], str] = str,
        mapped: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Write a small object with ``put``, a large one with the upload that ``begin`` starts.

        ``read`` reads a range of the object with a key, and ``key_of`` returns the key for a name.
        Requests are sent inside of the context of ``mapped``, which converts errors.
        """
        super().__init__()
        self._put, self._begin, self._read = put, begin, read
        self._key_of, self._mapped = key_of, mapped
        self._upload: Upload | None = None
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
        with self._mapped():
            if data.nbytes:
                self._place_range()
            self._buffer += data
            self._position += data.nbytes
            self._send_full_parts()
        return data.nbytes

    def copy(self, source: str, offset: int, length: int) -> None:
        """Append a range of another object; adjacent ranges become one part."""
        if not length:
            return
        with self._mapped():
            key = self._key_of(source)
            name, start, size = self._waiting or (key, offset, 0)
            if (name, start + size) != (key, offset):
                self._place_range()
                start, size = offset, 0
            self._waiting = (key, start, size + length)
            self._position += length

    def close(self) -> None:
        """Create the object. After an error, do not call this again."""
        if self.closed:
            return
        try:
            with self._mapped():
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
        # The buffer becomes a part before the range, so it must be large enough for one.
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
                    cast("CopyingUpload", self._begun()).copy(source, offset, size)
                except CannotCopyError:
                    self._copies = False
                    break
                self._parts += 1
                offset, length = offset + size, length - size
        while length:
            wanted = min(length, PART_BYTES)
            self._buffer += self._read(source, offset, wanted)
            offset, length = offset + wanted, length - wanted
            self._send_full_parts()

    def _send_full_parts(self) -> None:
        # So many bytes are kept that the last part can still be merged with a range.
        while len(self._buffer) >= PART_BYTES + MIN_PART_BYTES:
            self._send(PART_BYTES)

    def _send(self, length: int) -> None:
        self._begun().add(bytes(self._buffer[:length]))
        self._parts += 1
        del self._buffer[:length]

    def _begun(self) -> Upload:
        if self._upload is None:
            self._upload = self._begin()
        return self._upload
