"""A store around a store that counts what is asked of it, and the bytes that it returns."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from deltactl.storage.store import Store
from tests.support.forwarding import Call, InterceptingStore


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

    def __add__(self, other: StorageUsage) -> StorageUsage:
        """Sum two usages, of the driver's and a worker's store for example."""
        return StorageUsage(
            *(getattr(self, name) + getattr(other, name) for name in StorageUsage.__slots__)
        )


class MeteredStore(InterceptingStore):
    """Counts calls and bytes read; safe to share between threads. A failed call counts too."""

    def __init__(self, inner: Store) -> None:
        """Start from zero."""
        super().__init__(inner)
        self._lock = threading.Lock()
        self._usage = StorageUsage()

    @property
    def usage(self) -> StorageUsage:
        """What was asked so far."""
        return self._usage

    def list_directories(self, prefix: str = "") -> list[str]:
        self._count(lists=1)
        return super().list_directories(prefix)

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Count each file as the caller gets it."""
        for data in self._inner.read_many(names):
            self._count(reads=1, bytes_read=len(data))
            yield data

    def _intercept(self, call: Call) -> Any:
        method, args = call.method, call.args
        asked = {kind: 1 for kind, methods in _EACH_CALL.items() if method in methods}
        names = len(call.names)
        asked |= {kind: names for kind, methods in _EACH_NAME.items() if method in methods}
        if method == "read_ranges":
            asked["ranges"] = len(args[1])
        self._count(**asked)
        found = call.do()
        match method:
            case "read":
                self._count(bytes_read=len(found))
            case "read_ranges":
                self._count(bytes_read=sum(map(len, found)))
            case "read_tail":
                self._count(bytes_read=len(found[1]) if found else 0)
        return found

    def _count(self, **asked: int) -> None:
        with self._lock:
            self._usage = self._usage + StorageUsage(**asked)


_EACH_CALL: Final = {
    "lists": {"list_from", "walk", "walk_tree"},
    "opens": {"open_input"},
    "puts": {"open_output", "open_replacement", "put", "put_if_absent"},
    "ranges": {"read_tail"},
    "reads": {"read"},
}
_EACH_NAME: Final = {
    "deletes": {"delete_many", "move_many", "remove_directories", "undelete_many"},
    "puts": {"copy_files", "move_many"},
    "stats": {"stat_many", "undelete_many"},
}
