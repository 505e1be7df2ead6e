"""Copy whole objects with the service, without reading them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltactl.errors import ObjectNotFoundError, StorageError
from deltactl.storage.file_copies import (
    CopiedFile,
    FileCopy,
    Origin,
    StoredFacts,
    compare_facts,
    ensure_size,
)
from deltactl.storage.objects.keys import ObjectKeys
from deltactl.storage.objects.services import CannotCopyError, ObjectService
from deltactl.storage.parallel import each_in_parallel


class WholeCopies:
    """Copy objects of one service. Implements ``FileCopies``."""

    __slots__ = ("_forget", "_keys", "_service")

    def __init__(
        self, keys: ObjectKeys, service: ObjectService, forget: Callable[[str], None]
    ) -> None:
        """Copy to names of ``keys``. ``forget(name)`` is called before an object changes."""
        self._keys, self._service, self._forget = keys, service, forget

    def origin_of(self, name: str) -> Origin:
        """Return the key of a name as an origin; see ``FileCopies.origin_of``."""
        with self._keys.mapped("look up", name):
            identity, server = self._service.identity, self._service.server
        return Origin(identity, self._keys.readable(name), server)

    def facts_of(self, name: str) -> StoredFacts | None:
        """Return size and checksums of an object; see ``FileCopies.facts_of``."""
        return self._facts(name, self._keys.readable(name))

    def copy_files(self, copies: Sequence[FileCopy]) -> list[CopiedFile | None]:
        """Copy each object, in parallel; see ``FileCopies.copy_files``."""
        for copy in copies:
            self._keys.writable(copy.target_path)
            self._forget(copy.target_path)
        return list(each_in_parallel(self._copy, copies))

    def _copy(self, copy: FileCopy) -> CopiedFile | None:
        source, target = copy.origin.address, self._keys.writable(copy.target_path)
        before = self._facts(copy.source_path, source)
        if before is None:
            raise ObjectNotFoundError(
                f"cannot copy {copy.source_path!r} to {self._keys.uri}: the object does not exist"
            )
        ensure_size(before.size_bytes, copy, copy.source_path)
        try:
            after = self._service.copy_whole(source, target, before)
        except CannotCopyError:
            return None
        except Exception as error:
            raise self._keys.mapper("copy", copy.source_path)(error) from error
        try:
            return CopiedFile(copy.size_bytes, "server", compare_facts(copy, before, after))
        except StorageError:
            # The copy differs from the object, so nobody may find it under this name.
            self._service.delete([target])
            raise

    def _facts(self, name: str, key: str) -> StoredFacts | None:
        try:
            with self._keys.mapped("look up", name):
                return self._service.facts(key)
        except ObjectNotFoundError:
            return None
