"""Define the requests to object stores that fsspec's common calls do not offer.

A listing starts at a key and returns pages. So a log of a million commits is never listed
completely, and the names of a table are never all in memory. If the store supports it, one request
deletes many objects. To add a store: subclass `ObjectService`, and add a row to `providers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, Protocol, Self

from deltactl.errors import UnsupportedByStoreError
from deltactl.lazy import cached_property
from deltactl.storage.file_copies import StoredFacts
from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.store import OnUpload

NO_CACHES: Final = {"use_listings_cache": False, "skip_instance_cache": True}
"""Options that every file system gets: an outdated listing loses commits, and deletes live files.

The cache of instances would keep credentials that deltactl cannot remove.
"""

Entry = Mapping[str, Any]
"""``name`` (bucket and key), ``type`` (file or directory), ``size``, and a time of modification."""


class CannotCopyError(Exception):
    """The service does not copy these objects, or parts of them; nothing was copied."""


class Upload(Protocol):
    """Parts of one object, in order."""

    def add(self, data: bytes) -> None:
        """Send the next part."""
        ...

    def finish(self) -> None:
        """Create the object from the parts."""
        ...

    def abandon(self) -> None:
        """Discard the parts."""
        ...


class ObjectService:
    """Requests with fsspec's common calls: complete listings, one request for each delete.

    A key is the bucket, a slash and the name of the object. Subclasses send fewer requests, and
    implement what fsspec does not promise: put-if-absent, above all.
    """

    delete_batch: int = 1
    """How many keys one call of ``delete`` accepts."""
    copies_ranges: bool = False
    """Whether uploads copy ranges of other objects."""
    old_versions_term: str | None = "old versions of objects"
    """What the store may keep of objects that were replaced or deleted; ``None``: nothing."""
    keeps_parts: bool = False
    """Whether the store keeps parts of unfinished objects until ``abort_upload``."""

    def __init__(self, file_system: Any, retry: RetryPolicy | None = None) -> None:
        """Use an fsspec file system, or the object that the service has instead."""
        self._fs = file_system
        self._retry = retry or RetryPolicy()
        self._on_upload: OnUpload | None = None
        self.opened_with: object = None

    @cached_property
    def identity(self) -> object:
        """Return a value that is equal for services that can copy from each other.

        It has class, endpoint and options. If there is no endpoint, it is the file system.
        """
        opened_with = self._fs if self.opened_with is None else self.opened_with
        return type(self).__name__, self.find_endpoint(), opened_with

    @property
    def server(self) -> str:
        """Return the server that has the keys: its endpoint, without a password or a signature."""
        return re.sub(r"(?<=//)[^/@]*@", "", self.find_endpoint().partition("?")[0]).rstrip("/")

    def observed(self, on_upload: OnUpload) -> Self:
        """Return a copy of this service that calls ``on_upload``; both use the same connections."""
        service = copy(self)
        service._on_upload = on_upload
        return service

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Delete the parts of an upload; do nothing if there is none. Only if ``keeps_parts``."""
        raise NotImplementedError

    @property
    def file_system(self) -> Any:
        """Return the fsspec file system, or the object that the service has instead."""
        return self._fs

    def find_endpoint(self) -> str:
        """Return an empty string: the endpoint is not known."""
        return ""

    def key_of(self, uri: str) -> str:
        """Return the key of an address, as the library parses it."""
        return str(self._fs._strip_protocol(uri))

    def engine_uri(self, uri: str) -> str:
        """Return an address as engines know it; see ``Store.engine_uri``."""
        return uri

    def read(self, key: str) -> bytes:
        """Return the content of a whole object."""
        return self._retry.call(lambda: bytes(self._fs.cat_file(key)))

    def read_range(self, key: str, offset: int, length: int) -> bytes:
        """Return some bytes of an object. A range that begins after the end may fail."""
        return self._retry.call(
            lambda: bytes(self._fs.cat_file(key, start=offset, end=offset + length))
        )

    def read_tail(self, key: str, length: int) -> tuple[bytes, int]:
        """Return the last bytes, after a request for the size of the object."""
        size = int(self._retry.call(lambda: self._fs.info(key))["size"])
        return self._last(key, size, length), size

    def read_end(self, key: str, length: int) -> tuple[bytes, Entry] | None:
        """Return the last bytes of an object, and its facts; ``None`` if there is no object.

        The facts are not newer than the bytes.
        """
        entry = self.stat(key)
        if entry is None:
            return None
        return self._last(key, int(entry["size"]), length), entry

    def _last(self, key: str, size: int, length: int) -> bytes:
        first = max(0, size - length)
        return self.read_range(key, first, size - first) if size else b""

    def download(self, key: str, path: str) -> None:
        """Copy a whole object to a local file."""
        self._retry.call(lambda: self._fs.get_file(key, path))

    def stat(self, key: str) -> Entry | None:
        """Return facts of an object; ``None`` if there is none, or for a directory."""
        try:
            entry: Entry = self._retry.call(lambda: self._fs.info(key))
        except FileNotFoundError:
            return None
        return entry if entry["type"] == "file" else None

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole object."""
        self._retry.call(lambda: self._fs.pipe_file(key, data))

    def create(self, key: str, data: bytes) -> None:
        """Create a whole object with one conditional request, which is never sent again.

        There is no common call: the exclusive mode of fsspec first checks, and then writes.
        """
        raise NotImplementedError

    def begin(self, key: str) -> Upload:
        """Begin an object of several parts; if ``copies_ranges``, a ``CopyingUpload``."""
        raise NotImplementedError

    def read_range_as_noted(self, key: str, offset: int, length: int) -> bytes:
        """Return some bytes of the content whose end was read last. Only if ``copies_ranges``."""
        raise NotImplementedError

    def copy(self, key: str, target: str) -> None:
        """Copy an object on the server; the copy is complete when this returns."""
        self._retry.call(lambda: self._fs.cp_file(key, target))

    def facts(self, key: str) -> StoredFacts | None:
        """Return size, checksums and version of an object; ``None`` if it does not exist."""
        entry = self.stat(key)
        return None if entry is None else self.facts_in(entry)

    def facts_in(self, entry: Entry) -> StoredFacts:
        """Return size, checksums and version of an object from a result of ``stat``."""
        return StoredFacts(int(entry["size"]))

    def copy_whole(self, key: str, target: str, before: StoredFacts) -> StoredFacts:
        """Copy an object on the server if it still has these facts; return the facts of the copy.

        Raises:
            CannotCopyError: the service refuses to copy; no copy was stored.
        """
        self.copy(key, target)
        return self.facts_of_copy(target)

    def facts_of_copy(self, target: str) -> StoredFacts:
        """Return the facts of an object that was just written."""
        found = self.facts(target)
        if found is None:
            raise OSError("the service did not store the copy")
        return found

    def pages(self, directory: str, start: str, *, deep: bool) -> Iterator[list[Entry]]:
        """Yield the files and directories in a directory; with ``deep``, all files below it.

        Files that sort before ``start``, a name in the directory, may be omitted. A missing
        directory yields nothing, or raises ``FileNotFoundError``.
        """
        yield self._retry.call(lambda: self._list(directory, deep))

    def _list(self, directory: str, deep: bool) -> list[Entry]:
        # Not every file system of fsspec obeys `NO_CACHES`.
        self._fs.invalidate_cache()
        if deep:
            return list(self._fs.find(directory, detail=True).values())
        return list(self._fs.ls(directory, detail=True))

    def delete(self, keys: Sequence[str]) -> dict[str, Exception]:
        """Delete objects; return errors by key. A missing key may give ``FileNotFoundError``."""
        failed: dict[str, Exception] = {}
        for key in keys:
            try:
                self._delete_one(key)
            except Exception as error:
                failed[key] = error
        return failed

    def _delete_one(self, key: str) -> None:
        self._retry.call(lambda: self._fs.rm_file(key))

    def _empty(self, key: str) -> Entry | None:
        """Return facts of an object if it is empty, because stores refuse any range of it.

        Otherwise return ``None``.
        """
        found = self.stat(key)
        return found if found is not None and int(found["size"]) == 0 else None

    def undelete(self, key: str, *, dry_run: bool) -> bool:
        """Restore the newest version of a deleted object. With ``dry_run``, only look for one.

        Return whether there is a version. fsspec has no common call for versions: without one, only
        an object that exists has a version.
        """
        return self.stat(key) is not None

    def old_versions(self, directory: str) -> Iterator[tuple[Entry, str]]:
        """Yield facts and id of each version below a directory that was replaced or deleted."""
        raise UnsupportedByStoreError("the store does not list old versions of objects")

    def read_old_range(self, key: str, version_id: str, offset: int, length: int) -> bytes:
        """Return some bytes of an old version of an object."""
        raise UnsupportedByStoreError("the store does not read old versions of objects")


def split_directory(key: str) -> tuple[str, str]:
    """Return the bucket, and the prefix of the names in a directory."""
    bucket, _, rest = key.partition("/")
    return bucket, f"{rest.rstrip('/')}/" if rest else ""
