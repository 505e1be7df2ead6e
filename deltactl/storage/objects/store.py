"""Implement `Store` for all object stores, with a service for each of them.

Calls of a service are thread-safe. So a small pool of threads sends requests in parallel, in the
same way for every library.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from deltactl.errors import ObjectExistsError, ObjectNotFoundError, StorageError
from deltactl.storage.errors import no_versions_error
from deltactl.storage.file_copies import FileCopies
from deltactl.storage.objects.copies import ListedCopies
from deltactl.storage.objects.keys import ObjectKeys
from deltactl.storage.objects.listing import ObjectListing, file_info
from deltactl.storage.objects.part_writer import PartWriter
from deltactl.storage.objects.put_probe import PutIfAbsentGuard, RawPuts
from deltactl.storage.objects.ranged_file import TAIL_BYTES, RangedFile, coalesce
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.objects.whole_copies import WholeCopies
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.providers import Access
from deltactl.storage.secrets import secret_values
from deltactl.storage.store import (
    Assembly,
    Enter,
    FileInfo,
    OldVersion,
    OnUpload,
    RangeCopies,
    Replacement,
    Tree,
    Uploads,
    Versions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

# If at most this many bytes are between two ranges, it is cheaper to read them than to send another
# request.
_LARGEST_GAP_BYTES: Final = 256 << 10
# Ranges are not merged beyond this: several requests run at the same time.
_LARGEST_RANGE_BYTES: Final = 32 << 20


class ObjectStore:
    """Objects below one prefix of an object store."""

    __slots__ = ("_copies", "_guard", "_keys", "_service")

    directories = None  # a prefix without objects does not exist, and a failed put leaves nothing

    def __init__(
        self,
        uri: str,
        service: ObjectService,
        root: str,
        *,
        schemes: frozenset[str],
        options: Mapping[str, str] | None = None,
        guard: PutIfAbsentGuard | None = None,
        access: Access | None = None,
    ) -> None:
        """Open ``root``, the key of ``uri`` in ``service``.

        Absolute names can have any of ``schemes``. Of ``options``, only the secrets are kept, to
        remove them from messages. ``guard`` checks each put-if-absent. ``access`` is what messages
        say about credentials.
        """
        self._service = service
        secrets = secret_values(options or {}, service.file_system)
        self._keys = ObjectKeys(
            uri.rstrip("/"),
            root.rstrip("/"),
            self._service,
            schemes,
            secrets,
            access=access or Access(),
        )
        self._copies = ListedCopies()
        self._guard = guard

    def __repr__(self) -> str:
        """Show the root, but no options."""
        return f"ObjectStore({self.uri!r})"

    @property
    def uri(self) -> str:
        """Return the root as it was given."""
        return self._keys.uri

    @property
    def engine_uri(self) -> str:
        """Return the root as the service writes it; see ``Store.engine_uri``."""
        return self._service.engine_uri(self.uri)

    @property
    def versions(self) -> Versions | None:
        """Return this store, unless its service keeps no versions; else that checks the bucket."""
        return None if self._service.old_versions_term is None else self

    @property
    def term(self) -> str:
        """Return what the service calls old versions."""
        return self._service.old_versions_term or ""

    @property
    def _listing(self) -> ObjectListing:
        return ObjectListing(self._keys, self._service)

    @property
    def range_copies(self) -> RangeCopies | None:
        """Return this store if its service copies parts of objects; else ``None``."""
        return self if self._service.copies_ranges else None

    @property
    def file_copies(self) -> FileCopies:
        """Return the object that copies whole files with the service."""
        return WholeCopies(self._keys, self._service, self._copies.forget)

    @property
    def uploads(self) -> Uploads | None:
        """Return this store if its service keeps the parts of unfinished objects; else ``None``."""
        return self if self._service.keeps_parts else None

    def observed(self, on_upload: OnUpload) -> ObjectStore:
        """Return a copy of this store that calls ``on_upload``; see ``Uploads.observed``."""
        store, base = copy(self), f"{self._keys.root}/"
        store._service = self._service.observed(
            lambda key, upload_id: on_upload(key.removeprefix(base), upload_id)
        )
        return store

    def abort_upload(self, name: str, upload_id: str) -> None:
        """Delete the parts of an upload; see ``Uploads.abort_upload``."""
        key = self._keys.writable(name)
        with self._keys.mapped("abort the upload of", name):
            self._service.abort_upload(key, upload_id)

    def open_assembly(self, name: str) -> Assembly:
        """Open a writer to a new object; the service copies byte ranges."""
        return self._open_for_writing(name)

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        """Return files whose name is >= ``start``; see ``Store.list_from``."""
        infos = self._listing.list_from(prefix, start)
        self._copies.note(self._keys.directory(prefix)[1].rstrip("/"), infos)
        return iter(infos)

    def list_directories(self, prefix: str = "") -> list[str]:
        """Return common prefixes as directories; see ``Store.list_directories``."""
        return self._listing.list_directories(prefix)

    def walk(self, prefix: str = "") -> Iterator[list[str]]:
        """Yield names of all files. Only a few pages of the listings are in memory."""
        trees = self._listing.walk(prefix, lambda directory: True)
        return (tree.files for tree in trees if tree.files)

    def walk_tree(self, enter: Enter, *, facts: bool = False) -> Iterator[Tree]:
        """Yield names of all files, except in directories of the root that ``enter`` refuses."""
        return self._listing.walk("", enter, facts=facts)

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        """Return facts of each name, by parallel requests; see ``Store.stat_many``."""
        return list(each_in_parallel(self._stat, names))

    def read(self, name: str) -> bytes:
        """Return the whole content of an object; see ``Store.read``."""
        key = self._keys.readable(name)
        with self._keys.mapped("read", name):
            return self._service.read(key)

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield whole contents in order; at most sixteen are in memory or in progress."""
        return each_in_parallel(self.read, names)

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, length). One request reads several near ranges."""
        key = self._keys.readable(name)
        # Empty ranges need no request, so none would show that the object is missing.
        if ranges and not any(length for _, length in ranges):
            self._ensure_there(name)
        pieces = coalesce(list(ranges), _LARGEST_GAP_BYTES, _LARGEST_RANGE_BYTES)
        data = list(each_in_parallel(lambda piece: self._read_range(name, key, *piece), pieces))
        starts = [offset for offset, _ in pieces]

        def cut(offset: int, length: int) -> bytes:
            index = bisect_right(starts, offset) - 1
            first = offset - starts[index]
            return data[index][first : first + length]

        return [cut(*range_) if range_[1] else b"" for range_ in ranges]

    def read_tail(self, name: str, length: int) -> tuple[FileInfo, bytes] | None:
        """Return facts and the last bytes of an object; see ``Store.read_tail``."""
        key = self._keys.readable(name)
        try:
            with self._keys.mapped("read", name):
                found = self._service.read_end(key, length)
        except ObjectNotFoundError:
            return None
        return None if found is None else (file_info(found[1], name), found[0])

    def open_input(self, name: str) -> pa.NativeFile:
        """Open an Arrow file for random access; see ``Store.open_input``."""
        import pyarrow as pa

        key = self._keys.readable(name)
        with self._keys.mapped("read", name):
            copy = self._copies.open(name, lambda path: self._service.download(key, path))
            if copy is not None:
                return copy
            tail, size_bytes = self._service.read_tail(key, TAIL_BYTES)
        file = RangedFile(
            tail, size_bytes, lambda offset, length: self._read_range(name, key, offset, length)
        )
        return pa.PythonFile(file, mode="r")

    def open_output(self, name: str) -> BinaryIO:
        """Open a writer to a new object; ``close`` creates the object."""
        return cast("BinaryIO", self._open_for_writing(name))

    def open_replacement(self, name: str) -> Replacement:
        """Open a writer to an object; ``close`` replaces the object."""
        return self._open_for_writing(name)

    def _open_for_writing(self, name: str) -> PartWriter:
        key, service = self._keys.writable(name), self._service
        self._copies.forget(name)
        return PartWriter(
            partial(service.put, key),
            partial(service.begin, key),
            service.read_range_as_noted,
            key_of=self._keys.readable,
            mapped=partial(self._keys.mapped, "write", name),
        )

    def put(self, name: str, data: bytes) -> None:
        """Write or replace a whole object; see ``Store.put``."""
        key = self._keys.writable(name)
        self._copies.forget(name)
        with self._keys.mapped("write", name):
            self._service.put(key, data)

    def put_many(self, files: Iterable[tuple[str, bytes]]) -> int:
        """Write or replace each object, in parallel; see ``Store.put_many``."""
        return sum(1 for _ in each_in_parallel(lambda file: self.put(*file), files))

    def ensure_put_if_absent(self) -> None:
        """Raise an error if the store fails the test; see ``Store.ensure_put_if_absent``."""
        self._settle("a file")

    def put_if_absent(self, name: str, data: bytes) -> None:
        """Create a whole object with a conditional write; see ``Store.put_if_absent``.

        Raises:
            SafetyError: the store failed the test of conditional writes.
        """
        self._keys.writable(name)
        self._settle(name)
        self._create(name, data)

    def _settle(self, name: str) -> None:
        if self._guard is not None:
            with self._keys.mapped("create", name):
                self._guard.settle(RawPuts(self._create, self.delete_many), self.uri)

    def _create(self, name: str, data: bytes) -> None:
        key = self._keys.writable(name)
        with self._keys.mapped("create", name):
            self._service.create(key, data)

    def sync_directories(self, names: Iterable[str]) -> None:
        """Check the names only: an object is durable as soon as it is written."""
        for name in names:
            self._keys.writable(name)

    def delete_many(self, names: Sequence[str]) -> dict[str, StorageError]:
        """Delete each name, in parallel; see ``Store.delete_many``.

        Raises:
            SafetyError: a name is outside the root: nothing is deleted.
        """
        names_by_key = {self._keys.writable(name): name for name in names}
        for name in names:
            self._copies.forget(name)
        keys, size = list(names_by_key), self._service.delete_batch
        batches = [keys[i : i + size] for i in range(0, len(keys), size)]
        failed: dict[str, StorageError] = {}
        for outcome in each_in_parallel(self._delete_batch, batches):
            for key, error in outcome.items():
                name = names_by_key[key]
                mapped = self._keys.mapper("delete", name)(error)
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
        """Restore deleted objects, in parallel; see ``Versions.undelete_many``.

        Raises:
            SafetyError: a name is outside the root: nothing is restored.
        """
        keys = [self._keys.writable(name) for name in names]
        verb = "list the versions of" if dry_run else "restore"

        def undelete(pair: tuple[str, str]) -> StorageError | None:
            name, key = pair
            try:
                with self._keys.mapped(verb, name):
                    back = self._service.undelete(key, dry_run=dry_run)
                return None if back else no_versions_error(name)
            except StorageError as error:
                return error

        outcomes = each_in_parallel(undelete, list(zip(names, keys, strict=True)))
        return {
            name: error for name, error in zip(names, outcomes, strict=True) if error is not None
        }

    def list_old(self) -> Iterator[OldVersion]:
        """Yield the old versions of all objects below the root; see ``Versions.list_old``."""
        base = f"{self._keys.root}/"
        with self._keys.mapped("list the versions of", ""):
            for entry, version_id in self._service.old_versions(self._keys.root):
                info = file_info(entry, entry["name"].removeprefix(base))
                yield OldVersion(info.name, version_id, info.size_bytes, info.modified_ms)

    def open_old(self, version: OldVersion) -> pa.NativeFile:
        """Open an old version of an object; see ``Versions.open_old``."""
        import pyarrow as pa

        name, key = version.name, self._keys.readable(version.name)

        def read(offset: int, length: int) -> bytes:
            with self._keys.mapped("read an old version of", name):
                return self._service.read_old_range(key, version.version_id, offset, length)

        return pa.PythonFile(RangedFile(b"", version.size_bytes, read), mode="r")

    def move_many(self, pairs: Sequence[tuple[str, str]]) -> dict[str, StorageError]:
        """Copy and then delete each object; see ``Store.move_many``.

        The check of the new name and the copy are two requests. No other program may write an
        object of the new name in between.

        Raises:
            SafetyError: a name is outside the root: nothing is moved.
        """
        for name in chain.from_iterable(pairs):
            self._keys.writable(name)
            self._copies.forget(name)
        outcomes = each_in_parallel(self._move, pairs)
        return {
            old: error for (old, _), error in zip(pairs, outcomes, strict=True) if error is not None
        }

    def real_names(self, names: Sequence[str]) -> list[str | None]:
        """Return normal forms, because object stores have no links. See ``Store.real_names``."""
        return [self._keys.real_name(name) for name in names]

    def _move(self, pair: tuple[str, str]) -> StorageError | None:
        old, new = pair
        try:
            with self._keys.mapped("move", old):
                if self._stat(new) is not None:
                    return ObjectExistsError(f"cannot move {old!r} to {new!r}: that name exists")
                self._service.copy(self._keys.writable(old), self._keys.writable(new))
        except StorageError as error:
            return error
        return self.delete_many([old]).get(old)

    def _stat(self, name: str) -> FileInfo | None:
        key = self._keys.readable(name)
        try:
            with self._keys.mapped("look up", name):
                entry = self._service.stat(key)
        except ObjectNotFoundError:
            return None
        return None if entry is None else file_info(entry, name)

    def _ensure_there(self, name: str) -> FileInfo:
        info = self._stat(name)
        if info is None:
            raise ObjectNotFoundError(
                f"cannot read {name!r} in {self.uri}: the object does not exist"
            )
        return info

    def _read_range(self, name: str, key: str, offset: int, length: int) -> bytes:
        with self._keys.mapped("read", name):
            try:
                return self._service.read_range(key, offset, length)
            except Exception:
                # Object stores refuse a range that begins after the end of the object, but a
                # `Store` must return no bytes for this range.
                if offset >= self._ensure_there(name).size_bytes:
                    return b""
                raise
