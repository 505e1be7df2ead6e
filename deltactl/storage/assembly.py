"""Write a new file from written bytes and from ranges of other files, on any store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from deltactl.errors import DeltactlError, StorageError
from deltactl.storage.store import Assembly, Store

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_READ_BYTES: Final = 16 << 20  # the memory of each copy in progress


def open_assembly(store: Store, name: str) -> Assembly:
    """Open a writer to a new file. It copies byte ranges in the cheapest way of the store."""
    copies = store.range_copies
    return StreamedAssembly(store, name) if copies is None else copies.open_assembly(name)


class StreamedAssembly:
    """Copy byte ranges by reading and writing them. Implements ``storage.store.Assembly``."""

    is_local = False

    def __init__(self, store: Store, name: str) -> None:
        """Create the file ``name``; it is complete after ``close``."""
        self._store, self._name = store, name
        self._sink = store.open_output(name)
        self._position = 0
        self._closed = False

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Append bytes."""
        written = self._sink.write(buffer)
        self._position += written
        return written

    def copy(self, source: str, offset: int, length: int) -> None:
        """Append bytes of another file, read in pieces; see ``Assembly.copy``."""
        for start in range(offset, offset + length, _READ_BYTES):
            wanted = min(_READ_BYTES, offset + length - start)
            (data,) = self._store.read_ranges(source, [(start, wanted)])
            if len(data) < wanted:
                raise StorageError(
                    f"{source!r} ends before offset {start + wanted}, but bytes up to this offset "
                    "must be copied"
                )
            self.write(data)

    def tell(self) -> int:
        """Return the number of bytes written and copied so far."""
        return self._position

    def close(self) -> None:
        """Complete the file. It is safe to call this again."""
        if not self._closed:
            self._closed = True
            self._sink.close()

    def discard(self) -> None:
        """Remove the file; do nothing after ``close``."""
        if self._closed:
            return
        self._closed = True
        # A writer of `open_output` cannot be aborted: complete the file, then delete it.
        with suppress(OSError, ValueError, DeltactlError):
            self._sink.close()
        with suppress(DeltactlError):
            self._store.delete_many([self._name])
