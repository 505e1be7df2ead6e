"""A store that takes several spellings of a name for one file, as the file system of macOS does."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace

from deltactl.errors import StorageError
from deltactl.storage.store import FileInfo, Store
from tests.support.forwarding import ForwardingStore


def fold(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()


class FoldingStore(ForwardingStore):
    """Finds files by any case and Unicode form of their names; lists them as they are stored."""

    def _stored(self, name: str) -> str:
        stored = {fold(it): it for names in self._inner.walk() for it in names}
        return stored.get(fold(name), name)

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        found = super().stat_many([self._stored(name) for name in names])
        pairs = zip(names, found, strict=True)
        return [None if info is None else replace(info, name=name) for name, info in pairs]

    def read(self, name: str) -> bytes:
        return super().read(self._stored(name))

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        return super().read_many([self._stored(name) for name in names])

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        return super().delete_many([self._stored(name) for name in names])


def rename(store: Store, old: str, new: str) -> None:
    """Store a file under another spelling of its name, with its age."""
    [info] = store.stat_many([old])
    assert info is not None
    content = store.read(old)
    store.delete_many([old])
    store.put(new, content)
    store.set_modified(new, info.modified_ms)  # type: ignore[attr-defined]
