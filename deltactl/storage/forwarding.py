"""The base of all stores around a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from deltactl.errors import StorageError
from deltactl.storage.store import Enter, FileInfo, Replacement, Store, Tree

if TYPE_CHECKING:
    import pyarrow as pa


class ForwardingStore:
    """Hands every call to the store inside; wrappers override what they care about."""

    def __init__(self, inner: Store) -> None:
        """Wrap ``inner``."""
        self._inner = inner

    def __repr__(self) -> str:
        """Tell what is wrapped."""
        return f"{type(self).__name__}({self._inner!r})"

    @property
    def uri(self) -> str:
        """The root of the store inside."""
        return self._inner.uri

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """See ``Store.list_from``."""
        return self._inner.list_from(prefix, start)

    def list_folders(self, prefix: str = "") -> list[str]:
        """See ``Store.list_folders``."""
        return self._inner.list_folders(prefix)

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """See ``Store.walk``."""
        return self._inner.walk(prefix)

    def walk_tree(self, enter: Enter) -> Iterator[Tree]:
        """See ``Store.walk_tree``."""
        return self._inner.walk_tree(enter)

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """See ``Store.stat_many``."""
        return self._inner.stat_many(names)

    def read(self, name: str) -> bytes:
        """See ``Store.read``."""
        return self._inner.read(name)

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """See ``Store.read_many``."""
        return self._inner.read_many(names)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See ``Store.read_ranges``."""
        return self._inner.read_ranges(name, ranges)

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """See ``Store.read_tail``."""
        return self._inner.read_tail(name, length)

    def open_input(self, name: str) -> pa.NativeFile:
        """See ``Store.open_input``."""
        return self._inner.open_input(name)

    def open_output(self, name: str) -> BinaryIO:
        """See ``Store.open_output``."""
        return self._inner.open_output(name)

    def open_replacement(self, name: str) -> Replacement:
        """See ``Store.open_replacement``."""
        return self._inner.open_replacement(name)

    def put(self, name: str, data: bytes) -> None:
        """See ``Store.put``."""
        self._inner.put(name, data)

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """See ``Store.put_many``."""
        return self._inner.put_many(files)

    def ensure_put_if_absent(self) -> None:
        """See ``Store.ensure_put_if_absent``."""
        self._inner.ensure_put_if_absent()

    def put_if_absent(self, name: str, data: bytes) -> None:
        """See ``Store.put_if_absent``."""
        self._inner.put_if_absent(name, data)

    def sync_folders(self, names: Iterable[str]) -> None:
        """See ``Store.sync_folders``."""
        self._inner.sync_folders(names)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """See ``Store.delete_many``."""
        return self._inner.delete_many(names)

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        """See ``Store.undelete_many``."""
        return self._inner.undelete_many(names, dry_run=dry_run)

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """See ``Store.move_many``."""
        return self._inner.move_many(pairs)

    def remove_folders(self, names: Sequence[str]) -> list[str]:
        """See ``Store.remove_folders``."""
        return self._inner.remove_folders(names)

    def old_folders(self, names: Sequence[str], instant_ms: int) -> list[str]:
        """See ``Store.old_folders``."""
        return self._inner.old_folders(names, instant_ms)

    def abandoned(self, prefix: str, instant_ms: int) -> list[FileInfo]:
        """See ``Store.abandoned``."""
        return self._inner.abandoned(prefix, instant_ms)

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        """See ``Store.real_names``."""
        return self._inner.real_names(names)
