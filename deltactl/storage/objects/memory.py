"""Keep files in the memory of this process, in the file system of fsspec (for tests)."""

from __future__ import annotations

from typing import Any

from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from deltactl.storage.network.traffic import Traffic
from deltactl.storage.objects.services import NO_CACHES, ObjectService, Upload


def connect(uri: str, settings: dict[str, Any], traffic: Traffic) -> ObjectService:
    """Open the files of this process; see ``Provider.module``."""
    return MemoryService(MemoryFileSystem(**{**settings, **NO_CACHES}))


class MemoryService(ObjectService):
    """Files in a dictionary. One call of the dictionary makes a complete file visible.

    The methods of fsspec show a file before its content is written, and mode ``xb`` first checks
    and then writes.
    """

    old_versions_term = None

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole file."""
        self._fs.store[key] = MemoryFile(self._fs, key, data)

    def create(self, key: str, data: bytes) -> None:
        """Create a whole file, or raise ``FileExistsError``."""
        file = MemoryFile(self._fs, key, data)
        if self._fs.store.setdefault(key, file) is not file:
            raise FileExistsError(key)

    def begin(self, key: str) -> Upload:
        """Begin a file whose parts are kept until it is complete."""
        return _Collected(self, key)


class _Collected:
    """The parts of a file that is not yet complete."""

    def __init__(self, service: MemoryService, key: str) -> None:
        self._service, self._key = service, key
        self._parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        self._parts.append(data)

    def finish(self) -> None:
        self._service.put(self._key, b"".join(self._parts))

    def abandon(self) -> None:
        self._parts.clear()
