"""Write files under temporary names and rename them, where readers would see incomplete files."""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from deltactl.errors import StorageError
from deltactl.storage.objects.others import OneAtATime
from deltactl.storage.objects.part_writer import PART_BYTES
from deltactl.storage.objects.services import Entry, ObjectService, Upload


def connect_settings(file_system: Any, uri: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a file system: its options, and host, port and user of an address."""
    found: dict[str, Any] = file_system._get_kwargs_from_urls(uri)
    arguments = {**found, **settings, "skip_instance_cache": True}
    if "port" in arguments:
        # A storage option is a string.
        arguments["port"] = int(arguments["port"])
    return arguments


class RenamingService(ObjectService):
    """Files on a server. A file gets its name when it is complete."""

    old_versions_term = None

    def __init__(self, file_system: Any, uri: str) -> None:
        """Use the file system of the server in ``uri``."""
        self.one_at_a_time = OneAtATime()
        super().__init__(file_system, self.one_at_a_time)
        self._server = self._server_of(uri)

    def rename_new(self, old: str, new: str) -> None:
        """Rename a file in one step. Raise ``FileExistsError`` if there is a file ``new``."""
        raise NotImplementedError

    def rename_over(self, old: str, new: str) -> None:
        """Rename a file in one step, and replace a file ``new``."""
        raise NotImplementedError

    def find_endpoint(self) -> str:
        """Return the server, as in the address."""
        return self._server

    def key_of(self, uri: str) -> str:
        """Return the path of an address.

        Raises:
            StorageError: the address has another server.
        """
        if self._server_of(uri) != self._server:
            raise StorageError(
                f"{uri!r} is not on the server of the table, {self._server}",
                hint="Run deltactl on the table whose directory contains this file.",
            )
        return super().key_of(uri)

    def put(self, key: str, data: bytes) -> None:
        """Write or replace a whole file."""
        self._retry.call(lambda: self._write(key, data, self.rename_over))

    def create(self, key: str, data: bytes) -> None:
        """Create a whole file, or raise ``FileExistsError``. This is tried once."""
        self._write(key, data, self.rename_new)

    def begin(self, key: str) -> Upload:
        """Begin a file that is written in parts."""
        return TemporaryFile(self, key)

    def copy(self, key: str, target: str) -> None:
        """Copy a file through this process."""
        size = int(self._retry.call(lambda: self._fs.info(key))["size"])
        file = TemporaryFile(self, target)
        try:
            for first in range(0, size, PART_BYTES):
                file.add(self.read_range(key, first, min(PART_BYTES, size - first)))
            file.finish()
        except BaseException:
            file.abandon()
            raise

    def stat(self, key: str) -> Entry | None:
        """Return facts of a file; see ``ObjectService.stat``."""
        found = super().stat(key)
        return None if found is None else self._dated(found)

    def _list(self, directory: str, deep: bool) -> list[Entry]:
        # Nothing is known of the target of a link. So links are not listed, and never deleted.
        entries = (entry for entry in super()._list(directory, deep) if entry["type"] != "link")
        return [self._dated(entry) for entry in entries]

    def _dated(self, entry: Entry) -> Entry:
        """Return facts with the time of modification as ``mtime``."""
        return entry

    def _write(self, key: str, data: bytes, rename: Callable[[str, str], None]) -> None:
        file = TemporaryFile(self, key)
        try:
            file.add(data)
            file.rename(rename)
        except BaseException:
            file.abandon()
            raise

    def _server_of(self, uri: str) -> str:
        address = urlsplit(uri)
        return f"{address.scheme}://{address.netloc}"


class TemporaryFile:
    """A file that is written under a temporary name, which readers and vacuums ignore."""

    def __init__(self, service: RenamingService, key: str) -> None:
        """Begin the file ``key``."""
        directory, name = posixpath.split(key)
        self._service, self._key = service, key
        self._name = f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"
        self._once = service.one_at_a_time.once
        self._file = self._once(self._open)

    def _open(self) -> Any:
        fs = self._service.file_system
        try:
            return fs.open(self._name, "wb")
        except FileNotFoundError:
            with suppress(OSError):  # another process may create the directory at the same time
                fs.makedirs(posixpath.dirname(self._name), exist_ok=True)
            return fs.open(self._name, "wb")

    def add(self, data: bytes) -> None:
        """Write the next bytes."""
        self._once(lambda: self._file.write(data))

    def finish(self) -> None:
        """Give the file its name, and replace a file that has it."""
        self.rename(self._service.rename_over)

    def rename(self, rename: Callable[[str, str], None]) -> None:
        """Complete the file, and give it its name."""
        self._once(self._file.close)
        self._once(lambda: rename(self._name, self._key))

    def abandon(self) -> None:
        """Delete the file, if possible."""
        with suppress(Exception):
            self._once(self._file.close)
        with suppress(Exception):
            self._once(lambda: self._service.file_system.rm_file(self._name))
