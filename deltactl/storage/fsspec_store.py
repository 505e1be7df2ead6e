"""The store of everything fsspec reaches; local files have a store of their own.

fsspec's calls are thread-safe, so a small pool of threads gives the parallel requests that object
stores need, alike for every library below it.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast

from deltactl.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
)
from deltactl.storage.conditional_put import PutIfAbsentGuard, RawPuts
from deltactl.storage.errors import map_error, no_versions_error
from deltactl.storage.fsspec_facts import file_info
from deltactl.storage.fsspec_files import MappedFile
from deltactl.storage.listed_copies import ListedCopies
from deltactl.storage.names import (
    is_absolute_name,
    is_plain_name,
    parse_scheme,
    refuse_nul,
    resolve_name,
    resolve_prefix,
)
from deltactl.storage.object_services import CommonService, Entry, ObjectService
from deltactl.storage.ranged_file import TAIL_BYTES, RangedFile, coalesce
from deltactl.storage.secrets import secret_values
from deltactl.storage.store import Enter, FileInfo, Replacement, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

A = TypeVar("A")
R = TypeVar("R")

_PARALLEL_REQUESTS: Final = 16
_NAMES_IN_A_BATCH: Final = 1000
# Bytes between two ranges that are cheaper to fetch than another request.
_LARGEST_GAP_BYTES: Final = 256 << 10
_LARGEST_RANGE_BYTES: Final = 32 << 20


class FsspecStore:
    """Objects below one prefix of an fsspec file system.

    ``exclusive_create`` says that the library maps ``pipe_file(mode="create")`` to a conditional
    write of the store; fsspec's own fallback looks, then writes, and is never relied on.
    """

    __slots__ = (
        "_base",
        "_copies",
        "_exclusive_create",
        "_fs",
        "_guard",
        "_root",
        "_schemes",
        "_secrets",
        "_service",
        "_uri",
    )

    def __init__(
        self,
        uri: str,
        file_system: Any,
        root: str,
        *,
        exclusive_create: bool,
        schemes: frozenset[str],
        service: ObjectService | None = None,
        options: Mapping[str, str] | None = None,
        guard: PutIfAbsentGuard | None = None,
    ) -> None:
        """Serve ``root``, which is how ``file_system`` spells ``uri``.

        Absolute names may carry any of ``schemes``. Of ``options`` only the secrets are kept, to
        blot them out of messages. ``guard`` is asked before each put-if-absent.
        """
        self._uri = uri.rstrip("/")
        self._fs = file_system
        self._service = CommonService(file_system) if service is None else service
        self._root = root.rstrip("/")
        self._base = f"{self._root}/"
        self._exclusive_create = exclusive_create
        self._schemes = schemes
        self._secrets = secret_values(options or {}, file_system)
        self._copies = ListedCopies()
        self._guard = guard

    def __repr__(self) -> str:
        """Tell the root, and nothing of the options."""
        return f"FsspecStore({self._uri!r})"

    @property
    def uri(self) -> str:
        """The root as it was given."""
        return self._uri

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """Files directly in a folder from ``start`` on; see ``Store.list_from``."""
        key, name_prefix = self._folder(prefix)
        first = start.encode("utf-8", "surrogateescape")
        found = []
        for entry in self._entries(key, prefix, start):
            last = entry["name"].rsplit("/", 1)[-1]
            encoded = last.encode("utf-8", "surrogateescape")
            # Some stores list the marker object of the folder itself among its files.
            if entry["type"] == "file" and encoded >= first and entry["name"].rstrip("/") != key:
                found.append((encoded, file_info(entry, name_prefix + last)))
        found.sort(key=lambda pair: pair[0])
        infos = [info for _, info in found]
        self._copies.note(name_prefix.rstrip("/"), infos)
        return iter(infos)

    def list_folders(self, prefix: str = "") -> list[str]:
        """Common prefixes directly below a folder; see ``Store.list_folders``."""
        key, name_prefix = self._folder(prefix)
        return sorted(
            name_prefix + entry["name"].rstrip("/").rsplit("/", 1)[-1]
            for entry in self._entries(key, prefix)
            if entry["type"] == "directory" and entry["name"].rstrip("/") != key
        )

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """Names of all files below a folder, one sub-folder's listing in memory at a time."""
        return self._walk(prefix, lambda folder: True)

    def walk_tree(self, enter: Enter) -> Iterator[Tree]:
        """Names of all files; sub-folders of the root are skipped where ``enter`` says so."""
        return (Tree(names) for names in self._walk("", enter))

    def _walk(self, prefix: str, enter: Enter) -> Iterator[list[str]]:
        key, name_prefix = self._folder(prefix)
        skip = len(key) + 1
        here: list[str] = []
        folders: list[str] = []
        for entry in self._entries(key, prefix):
            if entry["name"].rstrip("/") == key:
                continue  # the marker object of the folder itself
            name = name_prefix + entry["name"][skip:]
            if entry["type"] != "directory":
                here.append(name)
                if len(here) == _NAMES_IN_A_BATCH:
                    yield here
                    here = []
            elif enter(name):
                folders.append(entry["name"])
        if here:
            yield here
        for below in self._each(lambda folder: self._find(folder, prefix), folders):
            if below:
                yield [name_prefix + name[skip:] for name in below]

    def _find(self, key: str, prefix: str) -> list[str]:
        """Keys of all files below a folder."""
        return [
            entry["name"]
            for entry in self._entries(key, prefix, deep=True)
            if not entry["name"].endswith("/")
        ]

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """Facts of each name, asked for in parallel; see ``Store.stat_many``."""
        return list(self._each(self._stat, names))

    def read(self, name: str) -> bytes:
        """Whole content of an object; see ``Store.read``."""
        key = self._readable(name)
        with self._mapped("read", name):
            return self._service.read(key)

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole contents in order; at most sixteen are held or under way."""
        return self._each(self.read, names)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Bytes of each (offset, length); neighbours come by one request, others in parallel."""
        key = self._readable(name)
        if ranges and not any(length for _, length in ranges):
            self._ensure_there(name)
        pieces = coalesce(list(ranges), _LARGEST_GAP_BYTES, _LARGEST_RANGE_BYTES)
        data = list(self._each(lambda piece: self._read_range(name, key, *piece), pieces))
        starts = [offset for offset, _ in pieces]

        def cut(offset: int, length: int) -> bytes:
            index = bisect_right(starts, offset) - 1
            first = offset - starts[index]
            return data[index][first : first + length]

        return [cut(*range_) if range_[1] else b"" for range_ in ranges]

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """Facts and last bytes of an object; see ``Store.read_tail``."""
        key = self._readable(name)
        try:
            with self._mapped("read", name):
                found = self._service.read_end(key, length)
        except ObjectNotFoundError:
            return None
        return None if found is None else (file_info(found[1], name), found[0])

    def open_input(self, name: str) -> pa.NativeFile:
        """An Arrow file for random access; see ``Store.open_input``."""
        import pyarrow as pa

        key = self._readable(name)
        with self._mapped("read", name):
            copy = self._copies.open(name, lambda path: self._service.download(key, path))
            if copy is not None:
                return copy
            tail, size_bytes = self._service.read_tail(key, TAIL_BYTES)
        file = RangedFile(
            tail, size_bytes, lambda offset, length: self._read_range(name, key, offset, length)
        )
        return pa.PythonFile(file, mode="r")

    def open_output(self, name: str) -> BinaryIO:
        """A writer to a new object, which exists once it is closed."""
        return cast("BinaryIO", self._open_for_writing("create", name))

    def open_replacement(self, name: str) -> Replacement:
        """A writer to an object, which is replaced once it is closed."""
        return self._open_for_writing("write", name)

    def _open_for_writing(self, verb: str, name: str) -> MappedFile:
        key = self._writable(name)
        self._copies.forget(name)
        with self._mapped(verb, name):
            file = self._service.open_output(key)
        return MappedFile(file, self._mapper("write", name))

    def put(self, name: str, data: bytes, *, syncs_folder: bool = True) -> None:
        """Write or replace a whole object; see ``Store.put``."""
        key = self._writable(name)
        self._copies.forget(name)
        with self._mapped("write", name):
            self._service.put(key, data)

    def ensure_put_if_absent(self) -> None:
        """Refuse stores that are found not to keep it; see ``Store.ensure_put_if_absent``."""
        self._settle("a file", 0)

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Create a whole object by a conditional write; see ``Store.put_if_absent``.

        Raises:
            StorageError: the store, or the library for it, has no conditional write.
            SafetyError: the store was found not to keep it.
        """
        self._writable(name)
        self._settle(name, len(data))
        self._create(name, data)

    def _settle(self, name: str, size_bytes: int) -> None:
        if not self._exclusive_create:
            raise StorageError(
                f"cannot create {name!r} safely in {self._uri}: no conditional write is known here",
                hint="two writers could overwrite each other's commits; this storage is read-only"
                " for deltactl",
            )
        if self._guard is not None:
            with self._mapped("create", name):
                self._guard.settle(self._raw_puts, self._uri, size_bytes)

    @property
    def _raw_puts(self) -> RawPuts:
        return RawPuts(self._create, self.delete_many)

    def _create(self, name: str, data: bytes, part_bytes: int | None = None) -> None:
        key = self._writable(name)
        with self._mapped("create", name):
            self._service.create(key, data, part_bytes)

    def sync_folders(self, names: Iterable[str]) -> None:
        """Only look at the names: an object is durable once it is written."""
        for name in names:
            self._writable(name)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Delete each name, in parallel; see ``Store.delete_many``.

        Raises:
            SafetyError: a name leads out of the root; nothing is deleted then.
        """
        names_by_key = {self._writable(name): name for name in names}
        for name in names:
            self._copies.forget(name)
        keys, size = list(names_by_key), self._service.delete_batch
        batches = [keys[i : i + size] for i in range(0, len(keys), size)]
        failed: dict[str, StorageError] = {}
        for outcome in self._each(self._delete_batch, batches):
            for key, error in outcome.items():
                name = names_by_key[key]
                mapped = self._mapper("delete", name)(error)
                if not isinstance(mapped, ObjectNotFoundError):
                    failed[name] = mapped
        return failed

    def _delete_batch(self, keys: Sequence[str]) -> dict[str, Exception]:
        try:
            return self._service.delete(keys)
        except Exception as error:
            return dict.fromkeys(keys, error)

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        """Bring deleted objects back, in parallel; see ``Store.undelete_many``.

        Raises:
            SafetyError: a name leads out of the root; nothing is brought back then.
        """
        keys = [self._writable(name) for name in names]

        def undelete(pair: tuple[str, str]) -> StorageError | None:
            name, key = pair
            try:
                with self._mapped("bring back", name):
                    back = self._service.undelete(key, dry_run=dry_run)
                return None if back else no_versions_error(name)
            except StorageError as error:
                return error

        outcomes = self._each(undelete, list(zip(names, keys, strict=True)))
        return {
            name: error for name, error in zip(names, outcomes, strict=True) if error is not None
        }

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Copy, then delete, each object; see ``Store.move_many``.

        The look at the new name and the copy are two requests: nobody else may write that name.

        Raises:
            SafetyError: a name leads out of the root; nothing is moved then.
        """
        for name in chain.from_iterable(pairs):
            self._writable(name)
            self._copies.forget(name)
        outcomes = self._each(self._move, pairs)
        return {
            old: error for (old, _), error in zip(pairs, outcomes, strict=True) if error is not None
        }

    def remove_folders(self, names: Sequence[str]) -> list[str]:
        """Do nothing: a prefix without objects is not there."""
        return []

    def old_folders(self, names: Sequence[str], instant_ms: int) -> list[str]:
        """Know of none."""
        return []

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        """Where names lead; object stores have no links. See ``Store.real_names``."""
        return [self._real_name(name) for name in names]

    def _real_name(self, name: str) -> str | None:
        key = self._readable(name) if is_absolute_name(name) else self._base + name
        folder, slash, rest = key.partition("/")
        key = folder + slash + posixpath.normpath(rest) if rest else key.rstrip("/")
        if key == self._root:
            return ""
        return key[len(self._base) :] if key.startswith(self._base) else None

    def _move(self, pair: tuple[str, str]) -> StorageError | None:
        old, new = pair
        try:
            with self._mapped("move", old):
                if self._stat(new) is not None:
                    return ObjectExistsError(f"cannot move {old!r} to {new!r}: that name is taken")
                self._service.copy(self._writable(old), self._writable(new))
        except StorageError as error:
            return error
        return self.delete_many([old]).get(old)

    def _stat(self, name: str) -> FileInfo | None:
        key = self._readable(name)
        try:
            with self._mapped("look up", name):
                entry = self._service.stat(key)
        except ObjectNotFoundError:
            return None
        return None if entry is None else file_info(entry, name)

    def _ensure_there(self, name: str) -> FileInfo:
        info = self._stat(name)
        if info is None:
            raise ObjectNotFoundError(f"cannot read {name!r} in {self._uri}: nothing is there")
        return info

    def _read_range(self, name: str, key: str, offset: int, length: int) -> bytes:
        with self._mapped("read", name):
            try:
                return self._service.read_range(key, offset, length)
            except Exception:
                # Stores refuse a range that begins past the end; the seam says: nothing is there.
                if offset >= self._ensure_there(name).size_bytes:
                    return b""
                raise

    def _entries(
        self, key: str, prefix: str, start: str = "", *, deep: bool = False
    ) -> Iterator[Entry]:
        """What lies in, or anywhere below, a folder; nothing if it is absent."""
        try:
            with self._mapped("list", prefix):
                for page in self._service.pages(key, start, deep=deep):
                    yield from page
        except ObjectNotFoundError:
            return

    def _each(self, work: Callable[[A], R], items: Sequence[A]) -> Iterator[R]:
        """Give ``work`` of each item in order, a bounded number ahead of the caller."""
        if len(items) <= 1:
            yield from map(work, items)
            return
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(min(_PARALLEL_REQUESTS, len(items))) as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(work, item))
                    if len(waiting) >= _PARALLEL_REQUESTS:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _readable(self, name: str) -> str:
        if is_plain_name(name):
            return self._base + name
        if not is_absolute_name(name):
            return self._base + resolve_name(name)
        refuse_nul(name)
        if parse_scheme(name) not in self._schemes:
            raise StorageError(
                f"{name!r} lies on another kind of storage than {self._uri}",
                hint="open it as a table of its own",
            )
        with self._mapped("read", name):
            return self._service.key_of(name)

    def _folder(self, prefix: str) -> tuple[str, str]:
        if is_absolute_name(prefix):
            return self._readable(prefix.rstrip("/")), f"{prefix.rstrip('/')}/"
        relative = resolve_prefix(prefix)
        return (self._base + relative, f"{relative}/") if relative else (self._root, "")

    def _writable(self, name: str) -> str:
        key = self._base + resolve_name(name)
        if not key.startswith(self._base):  # pragma: no cover - resolve_name has refused it
            raise SafetyError(f"{name!r} leads out of {self._uri}")
        return key

    def _mapper(self, verb: str, name: str) -> Callable[[Exception], StorageError]:
        return lambda error: map_error(error, verb, name, self._uri, self._secrets)

    @contextmanager
    def _mapped(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise map_error(error, verb, name, self._uri, self._secrets) from error
