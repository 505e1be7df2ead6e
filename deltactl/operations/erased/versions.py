"""Search old versions of objects: data files, files of the log, and other files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from deltactl.errors import PartialSuccessError, StorageError, UnsupportedByStoreError
from deltactl.log.audit.stored_actions import log_mask, read_stored_actions
from deltactl.log.snapshot import Snapshot
from deltactl.operations.erased.found import Found
from deltactl.operations.erased.logs import find_in_part
from deltactl.operations.erased.report import VERSIONS
from deltactl.operations.erased.sought import SoughtTexts, Variant
from deltactl.operations.erased.tasks import Unread, search_file
from deltactl.operations.erased.texts import file_has_value
from deltactl.option_names import option
from deltactl.protocol.vacuum_names import vector_mask
from deltactl.storage.store import FileInfo, OldVersion, Store, Versions


@dataclass(frozen=True, slots=True)
class VersionSearch:
    """The search of the old versions of all objects of a table."""

    snapshot: Snapshot
    variants: Sequence[Variant]
    texts: SoughtTexts | None
    found: Found

    def run(self, *, reads: bool) -> None:
        """Count the old versions, and search them if ``reads``."""
        versions, found = self.snapshot.store.versions, self.found
        if versions is None:
            return
        count = 0
        try:
            for version in versions.list_old():
                count += 1
                found.ensure_running()
                found.note_searched(version.name, version.version_id)
                if reads:
                    self._search(versions, version)
        except UnsupportedByStoreError:
            found.unseen["old versions of objects, which this storage may keep"] = None
            return
        except StorageError as error:
            found.add_unread(found.table, VERSIONS, error)
        found.counts.old_versions = (found.counts.old_versions or 0) + count
        if count and not reads:
            reason = f"not searched without {option('versions', True)}"
            kind = PartialSuccessError
            unread = Unread(f"{count:,} versions", VERSIONS, kind.code, reason, kind.exit_code)
            found.unread.append(unread)

    def _search(self, versions: Versions, version: OldVersion) -> None:
        name = pa.array([version.name])
        try:
            if log_mask(name)[0].as_py():
                self._search_log(versions, version)
            elif version.name.endswith(".parquet"):
                with versions.open_old(version) as source:
                    self._search_data(version, source)
            elif self.texts is not None and not vector_mask(name)[0].as_py():
                with versions.open_old(version) as source:
                    if file_has_value(version.name, source.read(), self.texts):
                        self.found.add(VERSIONS, files=1, entries=1)
        except Exception as error:  # libraries raise errors of many kinds
            self.found.add_unread(version.name, VERSIONS, error)

    def _search_log(self, versions: Versions, version: OldVersion) -> None:
        store = cast("Store", _OneFile(versions, version))
        info = FileInfo(version.name, version.size_bytes, version.modified_ms)
        is_new = True
        for part in read_stored_actions(store, [info], self.snapshot.metadata):
            hits = find_in_part(part, VERSIONS, self.variants, self.texts, self.found)
            for _, what, count in hits:
                self.found.add(VERSIONS, files=is_new, entries=count, part=what)
                is_new = False

    def _search_data(self, version: OldVersion, source: pa.NativeFile) -> None:
        row = {"name": version.name, "size_bytes": version.size_bytes, "place": VERSIONS}
        row |= {"partition_values": None, "deletion_vector": None}
        searched = search_file(self.snapshot.store, self.variants, row, source)
        self.found.take(searched)
        for hit in searched.hits:
            self.found.add(VERSIONS, files=1, rows=hit.rows)


class _OneFile:
    """What the readers of the log need of a store, for one old version."""

    def __init__(self, versions: Versions, version: OldVersion) -> None:
        self._versions, self._version = versions, version

    def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
        """Yield the content."""
        for _ in names:
            with self.open_input() as source:
                yield source.read()

    def open_input(self, name: str = "") -> Any:
        """Open the content."""
        return self._versions.open_old(self._version)
