"""A store around a store that counts what is asked of it."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from deltactl.errors import StorageError
from deltactl.storage.file_copies import CopiedFile, FileCopy
from deltactl.storage.store import Enter, FileInfo, Replacement, Store, Tree
from tests.support.forwarding import ForwardingStore

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import ReadableBuffer


@dataclass(frozen=True, slots=True)
class StorageUsage:
    """What was asked of a store. Bytes read through ``open_input`` are not known here."""

    lists: int = 0
    stats: int = 0
    reads: int = 0
    ranges: int = 0
    opens: int = 0
    puts: int = 0
    deletes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: StorageUsage) -> StorageUsage:
        """Sum two usages, of the driver's and a worker's store for example."""
        return StorageUsage(
            *(getattr(self, name) + getattr(other, name) for name in StorageUsage.__slots__)
        )


class MeteredStore(ForwardingStore):
    """Counts calls and bytes; safe to share between threads. A failed call counts too."""

    def __init__(self, inner: Store) -> None:
        """Start from zero."""
        super().__init__(inner)
        self._lock = threading.Lock()
        self._usage = StorageUsage()

    @property
    def usage(self) -> StorageUsage:
        """What was asked so far."""
        return self._usage

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """Count one listing."""
        self._count(StorageUsage(lists=1))
        return super().list_from(prefix, start)

    def list_directories(self, prefix: str = "") -> list[str]:
        """Count one listing."""
        self._count(StorageUsage(lists=1))
        return super().list_directories(prefix)

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """Count one listing."""
        self._count(StorageUsage(lists=1))
        return super().walk(prefix)

    def walk_tree(self, enter: Enter) -> Iterator[Tree]:
        """Count one listing."""
        self._count(StorageUsage(lists=1))
        return super().walk_tree(enter)

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """Count each name."""
        self._count(StorageUsage(stats=len(names)))
        return super().stat_many(names)

    def read(self, name: str) -> bytes:
        """Count one read and its bytes."""
        self._count(StorageUsage(reads=1))
        data = super().read(name)
        self._count(StorageUsage(bytes_read=len(data)))
        return data

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Count each file as the caller gets it."""
        for data in super().read_many(names):
            self._count(StorageUsage(reads=1, bytes_read=len(data)))
            yield data

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Count each range and its bytes."""
        self._count(StorageUsage(ranges=len(ranges)))
        pieces = super().read_ranges(name, ranges)
        self._count(StorageUsage(bytes_read=sum(map(len, pieces))))
        return pieces

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """Count one range and its bytes."""
        self._count(StorageUsage(ranges=1))
        found = super().read_tail(name, length)
        self._count(StorageUsage(bytes_read=len(found[1]) if found else 0))
        return found

    def open_input(self, name: str) -> pa.NativeFile:
        """Count one opened file."""
        self._count(StorageUsage(opens=1))
        return super().open_input(name)

    def open_output(self, name: str) -> BinaryIO:
        """Count one put, and its bytes as they are written."""
        self._count(StorageUsage(puts=1))
        written = super().open_output(name)
        return cast("BinaryIO", _MeteredWriter(written, self._count))

    def open_replacement(self, name: str) -> Replacement:
        """Count one put, and its bytes as they are written."""
        self._count(StorageUsage(puts=1))
        return _MeteredReplacement(super().open_replacement(name), self._count)

    def put(self, name: str, data: bytes) -> None:
        """Count one put and its bytes."""
        self._count(StorageUsage(puts=1, bytes_written=len(data)))
        super().put(name, data)

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """Count each file as it is taken."""

        def counted() -> Iterator[tuple[str, bytes]]:
            for name, data in files:
                self._count(StorageUsage(puts=1, bytes_written=len(data)))
                yield name, data

        return super().put_many(counted())

    def copy_files(
        self, copies: Sequence[FileCopy], *, replace: bool = False
    ) -> list[CopiedFile | None]:
        """Count a put for each file."""
        self._count(StorageUsage(puts=len(copies)))
        return super().copy_files(copies, replace=replace)

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Count one put and its bytes."""
        self._count(StorageUsage(puts=1, bytes_written=len(data)))
        super().put_if_absent(name, data)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Count each name."""
        self._count(StorageUsage(deletes=len(names)))
        return super().delete_many(names)

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        """Count a look at each name, and a delete of what hides it."""
        self._count(StorageUsage(stats=len(names), deletes=0 if dry_run else len(names)))
        return super().undelete_many(names, dry_run=dry_run)

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Count a put and a delete for each file."""
        self._count(StorageUsage(puts=len(pairs), deletes=len(pairs)))
        return super().move_many(pairs)

    def remove_directories(self, names: Sequence[str]) -> list[str]:
        """Count each name."""
        self._count(StorageUsage(deletes=len(names)))
        return super().remove_directories(names)

    def _count(self, usage: StorageUsage) -> None:
        with self._lock:
            self._usage = self._usage + usage


class _MeteredWriter(io.BufferedIOBase):
    """A writer that tells how many bytes went through."""

    def __init__(self, inner: BinaryIO, count: Callable[[StorageUsage], None]) -> None:
        super().__init__()
        self._inner = inner
        self._count = count

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._inner.tell()

    def write(self, buffer: ReadableBuffer, /) -> int:
        written = self._inner.write(buffer)
        self._count(StorageUsage(bytes_written=written))
        return written

    def flush(self) -> None:
        if not self._inner.closed:
            self._inner.flush()

    def close(self) -> None:
        if not self.closed:
            try:
                self._inner.close()
            finally:
                super().close()


class _MeteredReplacement:
    """A replacement that tells how many bytes went through."""

    def __init__(self, inner: Replacement, count: Callable[[StorageUsage], None]) -> None:
        self._inner, self._count = inner, count

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def write(self, buffer: ReadableBuffer, /) -> int:
        written = self._inner.write(buffer)
        self._count(StorageUsage(bytes_written=written))
        return written

    def tell(self) -> int:
        return self._inner.tell()

    def flush(self) -> None:
        self._inner.flush()

    def close(self) -> None:
        self._inner.close()

    def discard(self) -> None:
        self._inner.discard()
