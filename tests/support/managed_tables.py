"""Managed tables of a Unity Catalog, written by hand through its Delta API.

The catalog decides commits: a commit is a file below ``_delta_log/_staged_commits`` that the
catalog ratifies, and that somebody publishes later. Source: PROTOCOL.md, "Catalog-managed tables".
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from deltactl.errors import ObjectExistsError
from deltactl.protocol.names import commit_version
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.support.catalog_servers import UnityServer
from tests.support.duckdb_delta import connect_duckdb
from tests.support.fault_proxy import Edited, Rule
from tests.support.forwarding import ForwardingStore
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path, struct_of

LOAD: Final = r"/tables/[^/?]+$"
"""The target of requests that load a table; those of commits have it too, with another method."""
ADD_COMMIT: Final = b'"add-commit"'
REPORT: Final = b'"set-latest-backfilled-version"'


@dataclass(frozen=True)
class ManagedTable:
    """A table of a catalog by its full name."""

    server: UnityServer
    name: str

    @property
    def path(self) -> str:
        catalog, schema, table = self.name.split(".")
        return f"/catalogs/{catalog}/schemas/{schema}/tables/{table}"

    def load(self) -> Any:
        """What the catalog says of the table."""
        status, body = self.server.delta("GET", self.path)
        assert status == 200, body
        return body

    @property
    def folder(self) -> Path:
        return Path(unquote(urlsplit(self.load()["metadata"]["location"]).path))

    def ratified(self) -> dict[int, str]:
        """The names of the staged commits that the catalog lists, by version."""
        return {it["version"]: it["file-name"] for it in self.load()["commits"]}

    def update(self, *updates: Mapping[str, Any]) -> tuple[int, Any]:
        """Ask for changes; return the status and the answer."""
        table_id = self.load()["metadata"]["table-uuid"]
        requirements = [{"type": "assert-table-uuid", "uuid": table_id}]
        return self.server.delta(
            "POST", self.path, requirements=requirements, updates=list(updates)
        )

    def stage(self, version: int, content: bytes) -> dict[str, Any]:
        """Write a staged commit; return what the catalog is told of it."""
        name = f"{version:020d}.{uuid4()}.json"
        path = self.folder / LOG / "_staged_commits" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        info = json.loads(content.splitlines()[0])["commitInfo"]
        return {
            "version": version,
            "timestamp": info["inCommitTimestamp"],
            "file-name": name,
            "file-size": len(content),
            "file-modification-timestamp": int(path.stat().st_mtime * 1000),
        }

    def ratify(self, commit: Mapping[str, Any]) -> tuple[int, Any]:
        """Ask the catalog to make a staged commit a version."""
        return self.update({"action": "add-commit", "commit": commit})

    def publish(self, versions: Iterable[int] | None = None) -> None:
        """Copy ratified commits into the log, and tell the catalog; all of them by default."""
        ratified = self.ratified()
        chosen = sorted(ratified if versions is None else versions)
        for version in chosen:
            path = self.folder / commit_path(version)
            staged = self.folder / LOG / "_staged_commits" / ratified[version]
            if not path.exists():
                path.write_bytes(staged.read_bytes())
        if chosen:
            status, body = self.update(_report(chosen[-1]))
            assert status == 200, body


def _report(version: int) -> Mapping[str, Any]:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


class ManagedStore(ForwardingStore):
    """The store of a managed table to a writer that puts commits as to any store.

    Commits are published at once, unless the writer never does.
    """

    def __init__(self, inner: Store, table: ManagedTable, *, publishes: bool) -> None:
        super().__init__(inner)
        self._table, self.publishes = table, publishes

    def put_if_absent(self, name: str, data: bytes) -> None:
        version = commit_version(name)
        if not version:
            super().put_if_absent(name, data)
            return
        status, body = self._table.ratify(self._table.stage(version, data))
        if status == 409:
            raise ObjectExistsError(str(body))
        assert status == 200, body
        if self.publishes:
            self._table.publish()


def create_managed(
    server: UnityServer,
    name: str,
    columns: Sequence[Column],
    *,
    features: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    publishes: bool = True,
) -> tuple[ManagedTable, TableBuilder]:
    """Create a table; the builder writes further versions through the catalog."""
    table = ManagedTable(server, name)
    catalog, schema, last = name.split(".")
    base = f"/catalogs/{catalog}/schemas/{schema}"
    status, staging = server.delta("POST", f"{base}/staging-tables", name=last)
    assert status == 200, staging
    protocol = staging["required-protocol"]
    required = {*protocol["reader-features"], *protocol["writer-features"], *features}
    location, configuration = staging["location"], {**staging["required-properties"]}
    configuration |= properties or {}
    store = ManagedStore(open_store(location, {}), table, publishes=publishes)
    builder = TableBuilder(store, columns, features=required, properties=configuration)
    said = builder.state.protocol or {}
    status, body = server.delta(
        "POST",
        f"{base}/tables",
        **{
            "name": last,
            "location": location,
            "table-type": "MANAGED",
            "columns": struct_of(*columns),
            "protocol": {
                "min-reader-version": said["minReaderVersion"],
                "min-writer-version": said["minWriterVersion"],
                "reader-features": said["readerFeatures"],
                "writer-features": said["writerFeatures"],
            },
            "properties": (builder.state.metadata or {})["configuration"],
            "last-commit-timestamp-ms": builder.commits[0][0]["commitInfo"]["timestamp"],
        },
    )
    assert status == 200, body
    return table, builder


def permitting(*operations: str) -> Rule:
    """Let a proxy say in each loaded table which maintenance its clients may do."""
    return Rule(Edited(_with_operations(operations)), "GET", LOAD, times=None)


def _with_operations(operations: Sequence[str]) -> Callable[[bytes], bytes]:
    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        return json.dumps({**answer, "allowed-maintenance-operations": list(operations)}).encode()

    return edit


def read_with_duckdb(address: str, name: str) -> list[tuple[object, ...]]:
    """The rows of a table that DuckDB finds in a catalog by its name."""
    catalog, schema, table = name.split(".")
    with connect_duckdb("httpfs", "unity_catalog") as connection:
        connection.execute(
            f"CREATE SECRET (TYPE unity_catalog, TOKEN 'x', ENDPOINT '{address}', "
            "AWS_REGION 'us-east-1')"
        )
        connection.execute(
            f"ATTACH '{catalog}' AS it (TYPE unity_catalog, DEFAULT_SCHEMA '{schema}')"
        )
        return connection.execute(f"SELECT * FROM it.{schema}.{table} ORDER BY ALL").fetchall()
