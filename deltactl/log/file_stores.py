"""Find and open the files of a table, also those on another kind of storage than the table."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from deltactl.errors import StorageError, UsageError
from deltactl.log.find_files import find_files
from deltactl.storage.open import open_directory
from deltactl.storage.store import FileInfo, Store
from deltactl.storage.write_guard import refuse_changes

_BUCKET: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/]*")


class FileStores:
    """The store of a table, and stores that only read absolute names on other storage.

    Attributes:
        own: the store of the table.
    """

    def __init__(self, own: Store, options: Mapping[str, str]) -> None:
        """Set the store of the table and its storage options, which the other stores get too."""
        self.own = own
        self._options = options
        self._others: dict[str, Store] = {}
        self._elsewhere: frozenset[str] = frozenset()

    def find(
        self, names: Sequence[str]
    ) -> tuple[dict[str, FileInfo | None], dict[str, StorageError | UsageError]]:
        """Return the facts of each name (``None`` if missing), and the errors of other names.

        Names with errors are on storage that cannot be opened.

        Raises:
            StorageError: a store failed.
        """
        found, self._elsewhere = find_files(self.own, names)
        groups: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._elsewhere):
            groups[_find_bucket(name)].append(name)
        errors: dict[str, StorageError | UsageError] = {}
        for group in groups.values():
            found |= self._stat(group, errors)
        return found, errors

    def of(self, name: str) -> Store:
        """Return the store that reads a name that was found."""
        return self._open(name) if name in self._elsewhere else self.own

    def _open(self, name: str) -> Store:
        """Return a store for an absolute name; the address of the table is not its root."""
        bucket = _find_bucket(name)
        if bucket not in self._others:
            opened = open_directory(posixpath.dirname(name), self._options)
            self._others[bucket] = refuse_changes(opened)
        return self._others[bucket]

    def _stat(
        self, names: Sequence[str], errors: dict[str, StorageError | UsageError]
    ) -> dict[str, FileInfo | None]:
        try:
            return dict(zip(names, self._open(names[0]).stat_many(names), strict=True))
        except (StorageError, UsageError) as error:
            if error.retryable:
                raise
            errors.update(dict.fromkeys(names, error))
            return {}


def _find_bucket(name: str) -> str:
    """Return the scheme and bucket of an absolute name; the same for all local files."""
    found = _BUCKET.match(name)
    return found[0] if found else ""
