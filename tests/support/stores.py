"""Stores for tests: in memory, faulty on purpose, and counting.

Importing this module lets ``open_store`` open ``memory://name``. Stores of one name share their
files within the process. ``opened_as`` puts any other store behind its address, so that workers,
which open storage by address, reach the same one.
"""

from __future__ import annotations

import io
import itertools
import posixpath
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeVar, cast

from deltactl.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TransientStorageError,
)
from deltactl.storage.file_copies import (
    CopiedFile,
    FileCopies,
    FileCopy,
    Origin,
    StoredFacts,
    ensure_size,
)
from deltactl.storage.names import (
    ONE_STORAGE_HINT,
    is_absolute_name,
    refuse_nul,
    resolve_name,
    resolve_prefix,
)
from deltactl.storage.open import OPENERS, Opener
from deltactl.storage.store import Enter, FileInfo, Replacement, Store, Tree
from tests.support.forwarding import Call, InterceptingStore, put_each

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import ReadableBuffer

R = TypeVar("R")


class _Space:
    """The files of all memory stores of the process, by absolute URI, with times in ms."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.files: dict[str, tuple[bytes, int]] = {}
        self.now_ms = 1_700_000_000_000
        self.ahead_ms: dict[str, int] = {}

    def tick(self, root: str) -> int:
        self.now_ms += 1
        return self.now_ms + self.ahead_ms.get(root, 0)


_SPACE = _Space()


class WholeFiles(Store):
    """What a store without directories does by reading, writing and looking at whole files."""

    directories = None
    versions = None
    range_copies = None
    uploads = None

    def walk_tree(self, enter: Enter, *, facts: bool = False) -> Iterator[Tree]:
        return (walked(self, names, facts=facts) for names in self.walk())

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        return (self.read(name) for name in names)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = self.read(name)
        return [data[offset : offset + length] for offset, length in ranges]

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        (info,) = self.stat_many([name])
        return None if info is None else (info, self.read(name)[-length:])

    def open_input(self, name: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.BufferReader(self.read(name))

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        return put_each(self, files)


class MemoryStore(WholeFiles):
    """Files in a dictionary. Each write is a millisecond later than the one before."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")

    def __repr__(self) -> str:
        return f"MemoryStore({self._uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def engine_uri(self) -> str:
        return self._uri

    @property
    def file_copies(self) -> FileCopies:
        return self

    def origin_of(self, name: str) -> Origin:
        return Origin("memory", self._readable(name))

    def facts_of(self, name: str) -> StoredFacts | None:
        (info,) = self.stat_many([name])
        return None if info is None else StoredFacts(info.size_bytes)

    def copy_files(self, copies: Sequence[FileCopy]) -> list[CopiedFile | None]:
        for copy in copies:
            data = self.read(copy.origin.address)
            ensure_size(len(data), copy, copy.source_path)
            self.put(copy.target_path, data)
        return [CopiedFile(copy.size_bytes, "server") for copy in copies]

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        found = []
        for name, uri, last in self._below(prefix):
            if "/" not in last and last.encode("utf-8", "surrogateescape") >= start.encode():
                found.append((last.encode("utf-8", "surrogateescape"), self._info(name, uri)))
        return (info for _, info in sorted(found, key=lambda pair: pair[0]) if info)

    def list_directories(self, prefix: str = "") -> list[str]:
        below = ((name, last) for name, _, last in self._below(prefix) if "/" in last)
        return sorted({name[: -len(last)] + last.partition("/")[0] for name, last in below})

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        names = [name for name, _, _ in self._below(prefix)]
        # Small batches and a hostile order: nobody may rely on either.
        names.reverse()
        return (names[i : i + 3] for i in range(0, len(names), 3))

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        return [self._info(name, self._readable(name)) for name in names]

    def read(self, name: str) -> bytes:
        found = _SPACE.files.get(self._readable(name))
        if found is None:
            raise ObjectNotFoundError(f"cannot read {name!r} in {self._uri}: no such file")
        return found[0]

    def open_output(self, name: str) -> BinaryIO:
        uri = self._writable(name)
        return cast("BinaryIO", _OutputWriter(lambda data: self._store(uri, data)))

    def open_replacement(self, name: str) -> Replacement:
        uri = self._writable(name)
        return ReplacingWriter(lambda data: self._store(uri, data))

    def put(self, name: str, data: bytes) -> None:
        self._store(self._writable(name), data)

    def ensure_put_if_absent(self) -> None:
        pass

    def put_if_absent(self, name: str, data: bytes) -> None:
        uri = self._writable(name)
        with _SPACE.lock:
            if uri in _SPACE.files:
                raise ObjectExistsError(f"cannot create {name!r} in {self._uri}: it exists")
            _SPACE.files[uri] = (bytes(data), _SPACE.tick(self._uri))

    def sync_directories(self, names: Iterable[str]) -> None:
        for name in names:
            self._writable(name)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        uris = [self._writable(name) for name in names]
        with _SPACE.lock:
            for uri in uris:
                _SPACE.files.pop(uri, None)
        return {}

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        uris = [(old, self._writable(old), self._writable(new)) for old, new in pairs]
        failed: dict[str, StorageError] = {}
        with _SPACE.lock:
            for old, uri, target in uris:
                if uri not in _SPACE.files:
                    failed[old] = ObjectNotFoundError(f"cannot move {old!r}: no such file")
                elif target in _SPACE.files:
                    failed[old] = ObjectExistsError(f"cannot move {old!r}: the name is taken")
                else:
                    data, _ = _SPACE.files.pop(uri)
                    _SPACE.files[target] = (data, _SPACE.tick(self._uri))
        return failed

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        return [self._real_name(name) for name in names]

    def _real_name(self, name: str) -> str | None:
        uri = self._readable(name) if is_absolute_name(name) else f"{self._uri}/{name}"
        scheme, _, path = uri.partition("://")
        uri = f"{scheme}://{posixpath.normpath(path)}"
        if uri == self._uri:
            return ""
        return uri[len(self._uri) + 1 :] if uri.startswith(f"{self._uri}/") else None

    def set_modified(self, name: str, modified_ms: int) -> None:
        """Change the time of a file, as ``os.utime`` does."""
        with _SPACE.lock:
            uri = self._writable(name)
            _SPACE.files[uri] = (_SPACE.files[uri][0], modified_ms)

    def advance(self, ms: int) -> None:
        """Let time pass in this store: date later files so much later."""
        with _SPACE.lock:
            _SPACE.ahead_ms[self._uri] = _SPACE.ahead_ms.get(self._uri, 0) + ms

    def contents(self) -> dict[str, bytes]:
        """Every file below the root: what to compare before and after a crash."""
        return {name: _SPACE.files[uri][0] for name, uri, _ in self._below("")}

    def restore(self, contents: Mapping[str, bytes]) -> None:
        """Make ``contents`` all there is below the root."""
        self.delete_many(list(self.contents()))
        for name, data in contents.items():
            self.put(name, data)

    def _below(self, prefix: str) -> list[tuple[str, str, str]]:
        """Name, URI and what follows the folder, of each file below a folder."""
        if is_absolute_name(prefix):
            folder, shown = self._readable(prefix.rstrip("/")), f"{prefix.rstrip('/')}/"
        else:
            relative = resolve_prefix(prefix)
            folder = f"{self._uri}/{relative}".rstrip("/")
            shown = f"{relative}/" if relative else ""
        with _SPACE.lock:
            uris = [uri for uri in _SPACE.files if uri.startswith(f"{folder}/")]
        skip = len(folder) + 1
        return [(shown + uri[skip:], uri, uri[skip:]) for uri in uris]

    def _info(self, name: str, uri: str) -> FileInfo | None:
        found = _SPACE.files.get(uri)
        return FileInfo(name, len(found[0]), found[1]) if found else None

    def _store(self, uri: str, data: bytes) -> None:
        with _SPACE.lock:
            _SPACE.files[uri] = (bytes(data), _SPACE.tick(self._uri))

    def _readable(self, name: str) -> str:
        refuse_nul(name)
        if not is_absolute_name(name):
            return self._writable(name)
        if not name.startswith("memory://"):
            raise StorageError(f"{name!r} is on another kind of storage", hint=ONE_STORAGE_HINT)
        return name

    def _writable(self, name: str) -> str:
        return f"{self._uri}/{resolve_name(name)}"


def walked(store: Store, names: list[str], *, facts: bool) -> Tree:
    """A part of ``walk_tree`` of a store without directories."""
    if not facts:
        return Tree(names)
    found = [info for info in store.stat_many(names) if info is not None]
    sizes: list[int | None] = [it.size_bytes for it in found]
    times = [it.modified_ms for it in found]
    return Tree([it.name for it in found], sizes_bytes=sizes, modified_ms=times)


_numbers = itertools.count()


def fresh_store() -> MemoryStore:
    """An empty store at an address of its own."""
    uri = f"memory://fresh/{next(_numbers)}"
    _fresh.add(uri)
    return MemoryStore(uri)


_fresh: set[str] = set()


@contextmanager
def forgetting_fresh_stores() -> Iterator[None]:
    """Empty the fresh stores of this context at its end: each listing looks through all files."""
    before = set(_fresh)
    yield
    gone = _fresh - before
    _fresh.intersection_update(before)
    for uri in list(_SPACE.files) if gone else ():
        if "/".join(uri.split("/", 4)[:4]) in gone:
            del _SPACE.files[uri]


class _OutputWriter(io.BytesIO):
    """A buffer whose content becomes a file when it is closed."""

    def __init__(self, store: Callable[[bytes], None]) -> None:
        super().__init__()
        self._store = store

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store(data)

    def __del__(self) -> None:
        """A writer that a crash left open must not write when it is collected."""


class ReplacingWriter(_OutputWriter):
    """The same; content that is discarded becomes nothing."""

    def discard(self) -> None:
        io.BytesIO.close(self)


class Crash(BaseException):
    """The process dies here: nothing may catch this, and no clean-up is to be relied on."""


Action = Literal["error", "crash", "tear", "lie"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong at the ``at``-th call (from 1) of ``method``, or of any when that is None.

    ``error`` raises a retryable StorageError, ``crash`` raises Crash, each before or after the
    effect. ``tear`` leaves half of what is written, then crashes. ``lie`` lets put_if_absent win
    and then says that the name was taken, as a library's retry after a lost reply does.
    """

    at: int
    action: Action = "crash"
    when: Literal["before", "after"] = "before"
    method: str | None = None


_READS: Final = frozenset(
    [
        "abandoned_files", "facts_of", "foreign_directories", "list_from", "old_directories",
        "open_input", "read", "read_many", "read_ranges", "read_tail", "real_names", "stat_many",
        "walk", "walk_tree",
    ]
)  # fmt: skip

_LAZY: Final = frozenset(["list_from", "read_many", "walk", "walk_tree"])
_IN_PARTS: Final = frozenset(["copy_files", "delete_many", "move_many", "put", "put_if_absent"])


def fault_points(
    calls: Sequence[tuple[str, str]],
    when: Literal["before", "after"],
    action: Literal["error", "crash"] = "error",
) -> Iterator[int]:
    """Each call that a fault is worth a try at, counted from 1.

    A call that changes nothing fails in one way: neither the caller nor the store can tell
    whether it failed before or after its effect. So "after" leaves those calls to "before". A
    process that dies at such a call leaves what it leaves if it dies before the next change.
    """
    for at, (method, _) in enumerate(calls, 1):
        if method not in _READS or (when == "before" and action == "error"):
            yield at


class States:
    """What is in stores after each fault: equal contents need no second look."""

    def __init__(self, *stores: MemoryStore) -> None:
        self._stores = stores
        self._seen = set[tuple[frozenset[tuple[str, bytes]], ...]]()

    def is_new(self) -> bool:
        """Whether the contents were not seen before; from now on they are."""
        found = tuple(frozenset(store.contents().items()) for store in self._stores)
        known = found in self._seen
        self._seen.add(found)
        return not known


class FaultyStore(InterceptingStore):
    """Fails as ``faults`` say. Threads and stores opened later by address share one count."""

    def __init__(self, inner: Store, *faults: Fault) -> None:
        super().__init__(inner)
        self._faults = list(faults)
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    def _intercept(self, call: Call) -> Any:
        def effect() -> Any:
            found = call.do()
            return iter(list(found)) if call.method in _LAZY else found

        def tear() -> None:
            """Do half of it: half the bytes, or the first half of the names."""
            if call.method in _IN_PARTS:
                *others, last = call.args
                call.forward(*others, last[: len(last) // 2], **call.options)

        done = self._do(call.method, ", ".join(call.names[:3]), effect, tear)
        if call.method in ("open_output", "open_replacement"):
            return _FaultyWriter(self, call.names[0], done)
        return done

    def _do(self, method: str, name: str, effect: Callable[[], R], tear: Callable[[], None]) -> R:
        fault = self._next_fault(method, name)
        if fault is None:
            return effect()
        if fault.action == "tear":
            tear()
            raise Crash(f"truncated in {method} of {name}")
        if fault.action != "lie" and fault.when == "before":
            raise self._raised(fault, method, name)
        effect()
        raise self._raised(fault, method, name)

    def _next_fault(self, method: str, name: str) -> Fault | None:
        with self._lock:
            self.calls.append((method, name))
            of_method = sum(1 for done, _ in self.calls if done == method)
            for fault in self._faults:
                if fault.at == (len(self.calls) if fault.method is None else of_method) and (
                    fault.method in (None, method)
                ):
                    return fault
        return None

    @staticmethod
    def _raised(fault: Fault, method: str, name: str) -> BaseException:
        if fault.action == "crash":
            return Crash(f"{fault.when} {method} of {name}")
        if fault.action == "lie":
            return ObjectExistsError(f"cannot create {name!r}: it exists (which is our own doing)")
        return TransientStorageError(f"cannot {method} {name!r}: the store failed on purpose")


class _FaultyWriter(io.BufferedIOBase):
    """Holds the content back until ``close``, which is a store call of its own."""

    def __init__(self, store: FaultyStore, name: str, inner: BinaryIO | Replacement) -> None:
        super().__init__()
        self._store = store
        self._name = name
        self._file = inner
        self._data = bytearray()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return len(self._data)

    def write(self, buffer: ReadableBuffer, /) -> int:
        data = memoryview(buffer).cast("B")
        self._data += data
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._store._do("close", self._name, self._finish, self._tear)

    def __del__(self) -> None:
        """A writer that a crash left open must not write when it is collected."""

    def discard(self) -> None:
        if not self.closed:
            super().close()

    def _finish(self) -> None:
        self._file.write(self._data)
        self._file.close()

    def _tear(self) -> None:
        if hasattr(self._file, "discard"):
            return  # a replacement takes its place whole or not at all
        self._file.write(self._data[: len(self._data) // 2])
        self._file.close()


class CountingStore(InterceptingStore):
    """Counts the calls by method, and keeps the names each was about."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()
        self.names: dict[str, list[str]] = {}

    def _intercept(self, call: Call) -> Any:
        self.calls[call.method] += 1
        self.names.setdefault(call.method, []).extend(call.names)
        return call.do()

    def touched(self, name: str) -> list[str]:
        """The methods that were called about ``name``."""
        return sorted(method for method, names in self.names.items() if name in names)


def register_scheme(scheme: str, opener: Opener) -> Opener | None:
    """Let ``opener`` serve a scheme from now on; return the one that did before."""
    before = OPENERS.get(scheme)
    OPENERS[scheme] = opener
    return before


_stand_ins: dict[str, Store] = {}


@contextmanager
def opened_as(store: Store) -> Iterator[Store]:
    """While this lasts, ``open_store`` of the store's URI gives this very store."""
    scheme = store.uri.partition(":")[0]
    before = register_scheme(scheme, lambda uri, options: _open(uri, options))

    def _open(uri: str, options: Mapping[str, str]) -> Store:
        stand_in = _stand_ins.get(uri.rstrip("/"))
        if stand_in is not None:
            return stand_in
        if before is None:
            raise StorageError(f"no opener for {scheme}")
        return before(uri, options)

    outer = _stand_ins.get(store.uri)
    _stand_ins[store.uri] = store
    try:
        yield store
    finally:
        if outer is None:
            del _stand_ins[store.uri]
        else:
            _stand_ins[store.uri] = outer
        if before is not None:
            register_scheme(scheme, before)


register_scheme("memory", lambda uri, options: MemoryStore(uri))
