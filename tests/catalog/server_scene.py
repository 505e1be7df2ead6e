"""A managed table on a real server, with commits that are not published, and runs that are killed.

deltactl asks the server by way of a proxy.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any
from unittest.mock import patch

from deltactl import Table
from deltactl.catalog.http import HttpClient
from deltactl.storage.open import open_store
from tests.support.catalog_servers import UnityServer
from tests.support.fault_proxy import FaultProxy
from tests.support.forwarding import Call, InterceptingStore
from tests.support.managed_tables import create_managed, permitting, read_with_duckdb
from tests.support.table_builder import Column

PERMISSIONS = ("DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP")
_numbers = count()
_READS = ("read", "read_many", "read_ranges", "read_tail", "stat_many", "open_input")


class ServerScene:
    """A table of four files; the newest commits of another writer are not published."""

    def __init__(
        self,
        unity: UnityServer,
        proxy: FaultProxy,
        *,
        unpublished: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.proxy, name = proxy, f"main.sales.t{next(_numbers)}"
        self.managed, self.builder = create_managed(
            unity, name, [Column("id")], properties=properties
        )
        for number in range(4):
            self.builder.append([{"id": number}])
        self.builder.store.publishes = False  # type: ignore[attr-defined]
        for number in range(unpublished):
            self.builder.append([{"id": 4 + number}])

    def table(self) -> Table:
        options = {"databricks_host": self.proxy.endpoint, "databricks_token": "not-checked"}
        return Table(f"uc://{self.managed.name}", storage_options=options)

    def latest(self) -> int:
        """The latest version that the catalog knows."""
        version: int = self.managed.load()["latest-table-version"]
        return version

    def ids(self, version: int | None = None) -> list[int]:
        """What is in a version, by the builder; ours are after its last and change nothing."""
        last = self.builder.version
        rows = self.builder.rows(last if version is None else min(version, last))
        return sorted(row["id"] for row in rows)

    def ensure_read(self) -> Table:
        """DuckDB and we read the latest version, without any permission."""
        rows = read_with_duckdb(self.managed.server.address, self.managed.name)
        assert [id for (id,) in rows] == self.ids()
        self.proxy.clear()
        table = self.table()
        assert sorted(table.scan().read_all()["id"].to_pylist()) == self.ids()
        assert not table.check().findings.num_rows
        return table

    def ensure_whole(self) -> None:
        """No version is missing, and we read each."""
        table = self.ensure_read()
        versions = table.history()["version"].to_pylist()
        assert versions == list(range(self.latest(), -1, -1))
        for version in versions:
            assert sorted(table.scan(version).read_all()["id"].to_pylist()) == self.ids(version)

    def finish(self) -> None:
        """The next run, after which all is published."""
        self.proxy.clear()
        self.proxy.add(permitting(*PERMISSIONS))
        self.table().optimize()
        self.ensure_whole()
        files = (self.managed.folder / "_delta_log").glob("?" * 20 + ".json")
        assert len(list(files)) == 1 + self.latest()

    def optimize_until_killed(self, calls: int) -> bool:
        """Optimize; return whether it came to its end within so many calls.

        Those from the first on count that changes the log: requests, and what is no read.
        """
        self.proxy.add(permitting(*PERMISSIONS))
        life, sent = _Life(calls), HttpClient._send

        def send(client: HttpClient, *args: Any, **options: Any) -> Any:
            life.spend()
            return sent(client, *args, **options)

        def opened(*args: Any) -> _Mortal:
            return _Mortal(open_store(*args), life)

        with (
            patch("deltactl.log.delta_log.open_store", opened),
            patch.object(HttpClient, "_send", send),
        ):
            try:
                self.table().optimize()
            except _Killed:
                return False
        return True


class _Killed(BaseException):
    """The process is over: nothing that follows has an effect."""


class _Life:
    """Ends after so many calls; they count from the first that changes the log."""

    def __init__(self, calls: int) -> None:
        self._left, self._has_begun = calls, False

    def spend(self, begins: bool = False) -> None:
        self._has_begun = self._has_begun or begins
        if self._has_begun and self._left <= 0:
            raise _Killed
        self._left -= self._has_begun


class _Mortal(InterceptingStore):
    def __init__(self, inner: Any, life: _Life) -> None:
        super().__init__(inner)
        self._life = life

    def _intercept(self, call: Call) -> Any:
        if call.method not in _READS:
            is_change = call.method.startswith("put")
            self._life.spend(is_change and call.names[0].startswith("_delta_log"))
        return call.do()
