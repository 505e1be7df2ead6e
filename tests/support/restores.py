"""Tables that tests restore, and what they read of them before and after."""

import json
from typing import Any

from deltactl.clock import Clock, SystemClock
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.report import RestoreReport
from deltactl.operations.restore.run import restore_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.support.clock import FixedClock
from tests.support.stores import fresh_store
from tests.support.table_builder import START_MS, Action, Column, TableBuilder, commit_path, dv_id


def memory_table(*columns: Column, **options: Any) -> TableBuilder:
    store = fresh_store()
    return TableBuilder(store, columns or (Column("id"),), **options)


def restore(
    store: Store, version: int | None = None, warnings: list[str] | None = None, **options: Any
) -> RestoreReport:
    warn = (lambda _: None) if warnings is None else warnings.append
    clock: Clock = SystemClock() if options.pop("now", False) else FixedClock(START_MS + 3_600_000)
    context = RunContext(warn=warn, sleep=lambda _: None, clock=clock)
    dry_run = options.pop("dry_run", False)
    return restore_table(
        DeltaLog(store, context.warn), RestoreOptions(version, **options), context, dry_run=dry_run
    )


def commit_lines(store: Store, version: int) -> list[Action]:
    text = store.read(commit_path(version)).decode()
    return [json.loads(line) for line in text.splitlines()]


def bodies(store: Store, version: int, action: str) -> list[Action]:
    return [line[action] for line in commit_lines(store, version) if action in line]


def keys(store: Store, version: int | None = None) -> set[tuple[str, str | None]]:
    """The live files by path and vector."""
    files = Table("x", store=store).snapshot(version).files.to_pylist()
    found = set()
    for row in files:
        vector = row["deletion_vector"]
        node = vector and {
            "storageType": vector["storage_type"],
            "pathOrInlineDv": vector["path_or_inline_dv"],
            **({} if vector["offset"] is None else {"offset": vector["offset"]}),
        }
        found.add((row["encoded_path"], dv_id(node)))
    return found


def ids(store: Store, version: int | None = None) -> list[int]:
    return ids_of(Table("x", store=store), version)


def ids_of(table: Table, version: int | None = None) -> list[int]:
    return sorted(table.scan(version).read_all()["id"].to_pylist())


def latest(store: Store) -> int:
    return Table("x", store=store).snapshot().version


def damaged(what: str) -> tuple[TableBuilder, str]:
    """Version 2 lacks something: 1 adds files, 2 marks a row, 3 removes two files, 4 appends."""
    builder = memory_table(features=["deletionVectors"])
    path, kept, other = builder.append([{"id": 1}, {"id": 2}], [{"id": 3}], [{"id": 5}])
    builder.delete_rows(path, [0])
    builder.remove(path, other)
    builder.append([{"id": 4}])
    store = builder.store
    vector = next(name for batch in store.walk() for name in batch if name.endswith(".bin"))
    match what:
        case "file":
            store.delete_many([path])
        case "kept file":
            path = kept
            store.delete_many([path])
        case "vector":
            path = vector
            store.delete_many([vector])
        case "short vector":
            path = vector
            store.put(vector, store.read(vector)[:-1])
        case "size":
            store.put(path, store.read(path) + b"x")
    return builder, path
