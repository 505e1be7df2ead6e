"""An external store of commit entries in memory, and one that fails on demand."""

import threading
from dataclasses import replace

from deltactl.errors import StorageError
from deltactl.storage.dynamodb import CommitEntries, CommitEntry
from tests.support.stores import Crash, Fault


class MemoryEntries:
    """Entries by table path and file name; ``expires`` has the times of the complete ones."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], CommitEntry] = {}
        self.expires: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()

    def get(self, table_path: str, file_name: str) -> CommitEntry | None:
        return self.items.get((table_path, file_name))

    def find_latest(self, table_path: str) -> CommitEntry | None:
        with self._lock:
            names = [name for table, name in self.items if table == table_path]
        return self.items[table_path, max(names)] if names else None

    def create(self, table_path: str, entry: CommitEntry) -> bool:
        with self._lock:
            mine = self.items.setdefault((table_path, entry.file_name), entry)
        return mine is entry

    def complete(self, table_path: str, entry: CommitEntry, expire_time_s: int) -> bool:
        key = table_path, entry.file_name
        with self._lock:
            found = self.items.get(key)
            if found is None or found.temp_path != entry.temp_path:
                return False
            self.items[key] = replace(found, complete=True)
            self.expires[key] = expire_time_s
        return True


class FaultyEntries:
    """Fails at the call that ``fault`` says, as ``FaultyStore`` does; all methods count as one.

    ``lie`` does what was asked, then says that the condition did not hold, as a library's retry
    after a lost reply is told.
    """

    def __init__(self, inner: CommitEntries, fault: Fault | None) -> None:
        self._inner = inner
        self._fault = fault
        self.calls = 0

    def get(self, table_path: str, file_name: str) -> CommitEntry | None:
        self._fail("before")
        found = self._inner.get(table_path, file_name)
        self._fail("after")
        return found

    def find_latest(self, table_path: str) -> CommitEntry | None:
        self._fail("before")
        found = self._inner.find_latest(table_path)
        self._fail("after")
        return found

    def create(self, table_path: str, entry: CommitEntry) -> bool:
        self._fail("before")
        created = self._inner.create(table_path, entry)
        return self._fail("after") and created

    def complete(self, table_path: str, entry: CommitEntry, expire_time_s: int) -> bool:
        self._fail("before")
        completed = self._inner.complete(table_path, entry, expire_time_s)
        self._fail("after")
        return completed

    def _fail(self, when: str) -> bool:
        self.calls += when == "before"
        fault = self._fault
        if fault is None or fault.at != self.calls or fault.when != when:
            return True
        if fault.action == "lie":
            return False
        raise Crash if fault.action == "crash" else StorageError("the reply was lost")
