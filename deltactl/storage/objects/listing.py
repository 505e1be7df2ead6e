"""List the directories of a table on an object store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from deltactl.errors import ObjectNotFoundError
from deltactl.storage.names import find_unaddressable
from deltactl.storage.objects.keys import ObjectKeys
from deltactl.storage.objects.services import Entry, ObjectService
from deltactl.storage.parallel import pages_in_parallel
from deltactl.storage.store import Enter, FileInfo, Tree

_NAMES_IN_A_BATCH: Final = 1000
_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})

_MODIFIED_KEYS: Final = ("LastModified", "mtime", "last_modified", "updated", "modified", "created")


def file_info(entry: Mapping[str, Any], name: str) -> FileInfo:
    """Return the facts in an entry of ``ls`` or ``info``; the file gets the name ``name``."""
    is_archived = entry.get("StorageClass") in _ARCHIVES
    return FileInfo(name, int(entry.get("size") or 0), _modified_ms(entry), is_archived)


def _modified_ms(entry: Mapping[str, Any]) -> int:
    value = next((entry[key] for key in _MODIFIED_KEYS if entry.get(key)), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        # If a time from a library has no time zone, it is UTC.
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        value = aware.timestamp()
    return round(value * 1000) if isinstance(value, (int, float)) else 0


def _in_pages(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    remaining = iter(entries)
    while page := list(islice(remaining, _NAMES_IN_A_BATCH)):
        yield page


def _to_tree(files: Sequence[Entry], key: str, name_prefix: str, *, facts: bool) -> Tree:
    """Return the files in a directory, whose key is ``key``."""
    start = len(key) + 1
    others = find_unaddressable([entry["name"][start:] for entry in files])
    part = Tree(unaddressable=[name_prefix + name for name in sorted(others)])
    if others:
        files = [entry for entry in files if entry["name"][start:] not in others]
    part.files = [name_prefix + entry["name"][start:] for entry in files]
    if facts:
        sizes = [entry.get("size") for entry in files]
        part.sizes_bytes = [None if size is None else int(size) for size in sizes]
        part.modified_ms = [_modified_ms(entry) for entry in files]
    return part


class ObjectListing:
    """Listings of directories; a directory is only a prefix of keys."""

    def __init__(self, keys: ObjectKeys, service: ObjectService) -> None:
        """List objects of ``service`` below the root of ``keys``."""
        self._keys, self._service = keys, service

    def list_from(self, prefix: str, start: str = "") -> list[FileInfo]:
        """Return files whose name is >= ``start``; see ``Store.list_from``."""
        key, name_prefix = self._keys.directory(prefix)
        first = start.encode("utf-8", "surrogateescape")
        found = []
        for entry in self._entries(key, prefix, start):
            last = entry["name"].rsplit("/", 1)[-1]
            encoded = last.encode("utf-8", "surrogateescape")
            # Some stores list the marker object of the directory itself among its files.
            if entry["type"] == "file" and encoded >= first and entry["name"].rstrip("/") != key:
                found.append((encoded, file_info(entry, name_prefix + last)))
        found.sort(key=lambda pair: pair[0])
        return [info for _, info in found]

    def list_directories(self, prefix: str = "") -> list[str]:
        """Return common prefixes as directories; see ``Store.list_directories``."""
        key, name_prefix = self._keys.directory(prefix)
        return sorted(
            name_prefix + entry["name"].rstrip("/").rsplit("/", 1)[-1]
            for entry in self._entries(key, prefix)
            if entry["type"] == "directory" and entry["name"].rstrip("/") != key
        )

    def walk(self, prefix: str, enter: Enter, *, facts: bool = False) -> Iterator[Tree]:
        """Yield all files below a directory, except where ``enter`` returns False.

        The directories that are not entered are named, because their files are not.
        """
        key, name_prefix = self._keys.directory(prefix)

        def name_of(entry: Entry) -> str:
            return name_prefix + str(entry["name"][len(key) + 1 :])

        directories: list[str] = []
        rest = Tree()

        def find_files() -> Iterator[Entry]:
            for entry in self._entries(key, prefix):
                if entry["name"] == f"{key}/" and entry["type"] == "directory":
                    rest.unaddressable.append(f"{name_prefix}/")  # a second slash follows
                elif entry["name"].rstrip("/") == key:
                    continue  # the marker object of the directory itself
                elif entry["type"] != "directory":
                    yield entry
                elif enter(name_of(entry)):
                    directories.append(entry["name"])
                else:
                    rest.directories.append(name_of(entry))

        to_tree = partial(_to_tree, key=key, name_prefix=name_prefix, facts=facts)
        yield from map(to_tree, _in_pages(find_files()))
        if rest.directories or rest.unaddressable:
            yield rest
        for page in pages_in_parallel(lambda it: self._find(it, prefix), directories):
            yield to_tree(page)

    def _find(self, key: str, prefix: str) -> Iterator[list[Entry]]:
        """Yield pages of all files below a directory."""
        entries = self._entries(key, prefix, deep=True)
        return _in_pages(entry for entry in entries if not entry["name"].endswith("/"))

    def _entries(
        self, key: str, prefix: str, start: str = "", *, deep: bool = False
    ) -> Iterator[Entry]:
        """Yield entries in a directory; with ``deep``, below it. No entries if it is missing."""
        try:
            with self._keys.mapped("list", prefix):
                for page in self._service.pages(key, start, deep=deep):
                    yield from page
        except ObjectNotFoundError:
            return
