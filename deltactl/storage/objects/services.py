"""What kinds of object stores do beyond fsspec's common calls.

Listings begin at a key and come page by page, so that a log of a million commits is never listed
whole and a table's tree never held; many objects are deleted in one request where that exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from deltactl.errors import StorageError
from deltactl.storage.errors import NO_BUCKET
from deltactl.storage.network.retry import Patience

Entry = Mapping[str, Any]
"""``name`` (bucket and key), ``type`` (file or directory), ``size``, and a time of modification."""


class ObjectService(Protocol):
    """Listing and deleting by key, which is the bucket, a slash and the object's name."""

    @property
    def delete_batch(self) -> int:
        """How many keys one call of ``delete`` takes."""
        ...

    def find_endpoint(self) -> str:
        """The address that requests go to; empty where the library does not tell."""
        ...

    def key_of(self, uri: str) -> str:
        """The key that an absolute address names.

        Raises:
            StorageError: it names a place that this service does not reach.
        """
        ...

    def read(self, key: str) -> bytes:
        """A whole object, in one request."""
        ...

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Some bytes of an object; a range that begins past its end may be an error."""
        ...

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes of an object, and the size of all of it."""
        ...

    def read_end(self, key: str, length: int) -> tuple[bytes, Entry] | None:
        """The last bytes of an object, and facts that are no newer; ``None`` as in ``stat``."""
        ...

    def download(self, key: str, path: str) -> None:
        """A whole object into a local file, in one request where its size allows."""
        ...

    def stat(self, key: str) -> Entry | None:
        """Facts of an object; ``None`` where there is none, or only a folder."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole object."""
        ...

    def create(self, key: str, data: bytes, part_bytes: int | None = None) -> None:
        """Write a whole object by a conditional request; never sent again by us.

        ``part_bytes`` is the size of the parts in which a large one goes up, where there are parts.
        """
        ...

    def open_output(self, key: str) -> Any:
        """A writer in fsspec's manner: ``close`` puts the object in place, ``discard`` does not."""
        ...

    def copy(self, key: str, target: str) -> None:
        """Copy an object on the server; it is there, whole, when this returns."""
        ...

    def pages(self, folder: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Entries below a folder: all files if ``deep``, else its own files and sub-folders.

        Files that sort before ``start``, a name in the folder, may be left out. An absent folder
        gives nothing, or raises ``FileNotFoundError``.
        """
        ...

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """Delete; what failed, by key. Absent keys may fail with ``FileNotFoundError``."""
        ...

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Make a deleted object's newest version visible again, or only say whether that can be.

        An object that is there is left alone. ``False``: no version of it is kept.
        """
        ...


class CommonService:
    """fsspec's own calls: whole listings, one delete a request."""

    delete_batch: int = 1

    def __init__(self, file_system: Any, patience: Patience | None = None) -> None:
        """Serve an fsspec file system."""
        self._fs = file_system
        self._patience = patience or Patience()

    @property
    def file_system(self) -> Any:
        """The fsspec file system."""
        return self._fs

    def find_endpoint(self) -> str:
        """Not known."""
        return ""

    def key_of(self, uri: str) -> str:
        """The key as the library reads it from an address."""
        return str(self._fs._strip_protocol(uri))

    def read(self, key: str) -> bytes:
        """A whole object."""
        return self._patience.ask(lambda: bytes(self._fs.cat_file(key)))

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Some bytes of an object."""
        return self._patience.ask(
            lambda: bytes(self._fs.cat_file(key, start=offset, end=offset + length))
        )

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes, after a look at the size."""
        size = int(self._patience.ask(lambda: self._fs.info(key))["size"])
        return self._last(key, size, length), size

    def read_end(self, key: str, length: int) -> tuple[bytes, Entry] | None:
        """The last bytes, after a look at the facts."""
        entry = self.stat(key)
        if entry is None:
            return None
        return self._last(key, int(entry["size"]), length), entry

    def _last(self, key: str, size: int, length: int) -> bytes:
        first = max(0, size - length)
        return self.read_range(key, first, size - first) if size else b""

    def download(self, key: str, path: str) -> None:
        """A whole object into a local file."""
        self._patience.ask(lambda: self._fs.get_file(key, path))

    def stat(self, key: str) -> Entry | None:
        """Facts of an object."""
        try:
            entry: Entry = self._patience.ask(lambda: self._fs.info(key))
        except FileNotFoundError:
            return None
        return entry if entry["type"] == "file" else None

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole object."""
        self._patience.ask(lambda: self._fs.pipe_file(key, data))

    def create(self, key: str, data: bytes, part_bytes: int | None = None) -> None:
        """Write a whole object in the library's exclusive mode."""
        parts = {} if part_bytes is None else {"chunksize": part_bytes}
        self._fs.pipe_file(key, data, mode="create", **parts)

    def open_output(self, key: str) -> Any:
        """The library's own writer."""
        return self._fs.open(key, "wb")

    def copy(self, key: str, target: str) -> None:
        """Copy as the library does."""
        self._patience.ask(lambda: self._fs.cp_file(key, target))

    def pages(self, folder: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """One page with everything."""
        self._fs.invalidate_cache()
        yield list(
            self._fs.find(folder, detail=True).values()
            if deep
            else self._fs.ls(folder, detail=True)
        )

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """One after another."""
        failed: dict[str, Exception] = {}
        for key in keys:
            try:
                self._delete_one(key)
            except Exception as error:
                failed[key] = error
        return failed

    def _delete_one(self, key: str) -> None:
        self._patience.ask(lambda: self._fs.rm_file(key))

    def _empty(self, key: str) -> Entry | None:
        """Facts of an object that is empty: no range can be had of it, which is no fault."""
        found = self.stat(key)
        return found if found is not None and int(found["size"]) == 0 else None

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Only objects that are there: of versions fsspec knows nothing common."""
        return bool(self._fs.exists(key))


def no_bucket(bucket: str) -> StorageError:
    """The error of a listing for which there is no bucket."""
    kind, hint = NO_BUCKET
    return kind(f"{bucket!r} is not there", hint=hint)


def split_folder(key: str) -> tuple[str, str]:
    """Bucket, and the prefix of what lies in the folder."""
    bucket, _, rest = key.partition("/")
    return bucket, f"{rest.rstrip('/')}/" if rest else ""
