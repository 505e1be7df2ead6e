"""Define the base classes of stores that wrap another store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

from deltactl.errors import StorageError
from deltactl.storage.file_copies import CopiedFile, FileCopies, FileCopy, Origin, StoredFacts
from deltactl.storage.store import (
    Assembly,
    Directories,
    Enter,
    FileInfo,
    OldVersion,
    OnUpload,
    RangeCopies,
    Replacement,
    Store,
    Tree,
    Uploads,
    Versions,
)

if TYPE_CHECKING:
    import pyarrow as pa

C = TypeVar("C")


class ForwardingStore:
    """Forward every call to the inner store; subclasses override single methods."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def engine_uri(self) -> str:
        return self._inner.engine_uri

    @property
    def directories(self) -> Directories | None:
        return None if self._inner.directories is None else self

    @property
    def versions(self) -> Versions | None:
        return None if self._inner.versions is None else self

    @property
    def range_copies(self) -> RangeCopies | None:
        return None if self._inner.range_copies is None else self

    def open_assembly(self, name: str) -> Assembly:
        return _present(self._inner.range_copies).open_assembly(name)

    @property
    def file_copies(self) -> FileCopies | None:
        return None if self._inner.file_copies is None else self

    def origin_of(self, name: str) -> Origin:
        return _present(self._inner.file_copies).origin_of(name)

    def facts_of(self, name: str) -> StoredFacts | None:
        return _present(self._inner.file_copies).facts_of(name)

    def copy_files(self, copies: Sequence[FileCopy]) -> list[CopiedFile | None]:
        return _present(self._inner.file_copies).copy_files(copies)

    @property
    def uploads(self) -> Uploads | None:
        return None if self._inner.uploads is None else self

    def observed(self, on_upload: OnUpload) -> Store:
        wrapper = copy(self)
        wrapper._inner = _present(self._inner.uploads).observed(on_upload)
        return wrapper

    def abort_upload(self, name: str, upload_id: str) -> None:
        _present(self._inner.uploads).abort_upload(name, upload_id)

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        return self._inner.list_from(prefix, start)

    def list_directories(self, prefix: str = "") -> list[str]:
        return self._inner.list_directories(prefix)

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        return self._inner.walk(prefix)

    def walk_tree(self, enter: Enter, *, facts: bool = False) -> Iterator[Tree]:
        return self._inner.walk_tree(enter, facts=facts)

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        return self._inner.stat_many(names)

    def read(self, name: str) -> bytes:
        return self._inner.read(name)

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        return self._inner.read_many(names)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._inner.read_ranges(name, ranges)

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        return self._inner.read_tail(name, length)

    def open_input(self, name: str) -> pa.NativeFile:
        return self._inner.open_input(name)

    def open_output(self, name: str) -> BinaryIO:
        return self._inner.open_output(name)

    def open_replacement(self, name: str) -> Replacement:
        return self._inner.open_replacement(name)

    def put(self, name: str, data: bytes) -> None:
        self._inner.put(name, data)

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        return self._inner.put_many(files)

    def ensure_put_if_absent(self) -> None:
        self._inner.ensure_put_if_absent()

    def put_if_absent(self, name: str, data: bytes) -> None:
        self._inner.put_if_absent(name, data)

    def sync_directories(self, names: Iterable[str]) -> None:
        self._inner.sync_directories(names)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        return self._inner.delete_many(names)

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        return self._inner.move_many(pairs)

    def remove_directories(self, names: Sequence[str]) -> list[str]:
        return _present(self._inner.directories).remove_directories(names)

    def old_directories(self, names: Sequence[str], before_ms: int) -> list[str]:
        return _present(self._inner.directories).old_directories(names, before_ms)

    def foreign_directories(self, names: Sequence[str]) -> list[str]:
        return _present(self._inner.directories).foreign_directories(names)

    def abandoned_files(self, prefix: str, before_ms: int) -> list[FileInfo]:
        return _present(self._inner.directories).abandoned_files(prefix, before_ms)

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        return _present(self._inner.versions).undelete_many(names, dry_run=dry_run)

    @property
    def term(self) -> str:
        return _present(self._inner.versions).term

    def list_old(self) -> Iterator[OldVersion]:
        return _present(self._inner.versions).list_old()

    def open_old(self, version: OldVersion) -> pa.NativeFile:
        return _present(self._inner.versions).open_old(version)

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        return self._inner.real_names(names)


@dataclass(frozen=True)
class Call:
    """A call of a method about ``names``; ``forward`` is the method of the inner store."""

    method: str
    names: Sequence[str]
    forward: Callable[..., Any]
    args: Sequence[Any]
    options: Mapping[str, Any]

    def do(self) -> Any:
        return self.forward(*self.args, **self.options)


class InterceptingStore(ForwardingStore):
    """Give each call about files to ``_intercept``; those of ``put_many`` one after the other."""

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        return put_each(self, files)

    def _intercept(self, call: Call) -> Any:
        return call.do()


_INTERCEPTED: Final = (
    "abandoned_files", "copy_files", "delete_many", "facts_of", "foreign_directories", "list_from",
    "move_many", "old_directories", "open_input", "open_output", "open_replacement", "put",
    "put_if_absent", "read", "read_many", "read_ranges", "read_tail", "real_names",
    "remove_directories", "stat_many", "sync_directories", "undelete_many", "walk", "walk_tree",
)  # fmt: skip


def _intercepted(method: str) -> Callable[..., Any]:
    def intercept(store: InterceptingStore, *args: Any, **options: Any) -> Any:
        if method == "sync_directories":
            args = (list(args[0]),)
        subject = next(iter((*args, *options.values())), "")
        forward = getattr(super(InterceptingStore, store), method)
        return store._intercept(Call(method, _names_of(subject), forward, args, options))

    return intercept


def _names_of(subject: Any) -> list[str]:
    """The names that the first argument of a method gives."""
    if isinstance(subject, str):
        return [subject]
    if callable(subject):  # of walk_tree, which is about everything
        return [""]
    return [
        item.target_path if isinstance(item, FileCopy) else item[0] if type(item) is tuple else item
        for item in subject
    ]


for _method in _INTERCEPTED:
    setattr(InterceptingStore, _method, _intercepted(_method))


def put_each(store: Store, files: Iterable[tuple[str, bytes]]) -> int:
    """``put_many`` of a store that has no faster way, or where each put may go wrong by itself."""
    count = 0
    for name, data in files:
        store.put(name, data)
        count += 1
    return count


def _present(capability: C | None) -> C:
    """Return a capability of the inner store, or raise ``NotImplementedError`` if it is ``None``.

    A wrapper has only the capabilities of its inner store.
    """
    if capability is None:
        raise NotImplementedError("the wrapped store lacks this capability")
    return capability
