"""Tables to be checked, and ways to damage what lies in their store."""

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow.parquet as pq

from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.report import CheckReport
from deltactl.operations.check.run import check_table
from deltactl.storage.store import Store
from tests.support.checkpoints import PicklingEngine, memory_of, new_table
from tests.support.run import run_on
from tests.support.table_builder import (
    LOG,
    Action,
    Column,
    Row,
    TableBuilder,
    commit_path,
    encode_lines,
)

DEEP: dict[str, Any] = {"depth": Depth.DATA, "checkpoints": True, "vectors": True}


def check(store: Store, **options: Any) -> CheckReport:
    """Check a table, with tasks that travel in bytes."""
    return run_on(store, check_table, CheckOptions(**options), engine=PicklingEngine())


def codes(report: CheckReport) -> list[str]:
    """The codes found, once each."""
    return list(report.count_codes())


def true_stats(rows: Iterable[Row], names: Iterable[str], **more: Any) -> str:
    """The statistics of plain columns, as they should be."""
    rows, names = list(rows), list(names)
    held = {name: [r[name] for r in rows if r.get(name) is not None] for name in names}
    return json.dumps(
        {
            "numRecords": len(rows),
            "minValues": {name: min(values) for name, values in held.items() if values},
            "maxValues": {name: max(values) for name, values in held.items() if values},
            "nullCount": {name: len(rows) - len(values) for name, values in held.items()},
            **more,
        }
    )


def table(**options: Any) -> TableBuilder:
    """Version 4 of a table with deletion vectors, partitions and statistics."""
    options.setdefault("features", ["deletionVectors"])
    builder = new_table(
        Column("id"),
        Column("name", "string"),
        Column("p", "integer"),
        partition_by=["p"],
        **options,
    )
    paths = []
    for number in range(3):
        rows = [
            {"id": 10 * number + i, "name": None if i == 3 else f"n{i}", "p": number}
            for i in range(8)
        ]
        add = builder.write_file(rows, stats=true_stats(rows, ["id", "name"]))
        builder.commit(add)
        paths.append(add["add"]["path"])
    builder.delete_rows(paths[0], [1, 2])
    return builder


def edit_commit(
    builder: TableBuilder, version: int, edit: Callable[[Action], Action | None]
) -> None:
    """Change each action of a commit, or leave it out."""
    name = commit_path(version)
    actions = [json.loads(line) for line in builder.store.read(name).splitlines()]
    kept = [changed for action in actions if (changed := edit(action)) is not None]
    builder.store.put(name, encode_lines(kept))


def measure(builder: TableBuilder) -> None:
    """Let metrics count the files of each commit, so that lost actions would show."""
    for version in range(builder.version + 1):
        actions = [*map(json.loads, builder.store.read(commit_path(version)).splitlines())]
        added, removed = (sum(kind in action for action in actions) for kind in ("add", "remove"))
        metrics = {"numAddedFiles": str(added), "numRemovedFiles": str(removed)}
        edit_action(builder, version, "commitInfo", operationMetrics=metrics)


def edit_action(builder: TableBuilder, version: int, kind: str, **changes: Any) -> None:
    """Replace members of the actions of one kind in a commit."""

    def edit(action: Action) -> Action:
        return {kind: {**action[kind], **changes}} if kind in action else action

    edit_commit(builder, version, edit)


def edit_stats(builder: TableBuilder, version: int, **changes: Any) -> None:
    """Change members of the statistics in a commit: a value, or parts of an object."""

    def edit(action: Action) -> Action:
        if "add" not in action:
            return action
        stats = json.loads(action["add"]["stats"])
        for name, value in changes.items():
            stats[name] = {**stats[name], **value} if isinstance(value, dict) else value
        return {"add": {**action["add"], "stats": json.dumps(stats)}}

    edit_commit(builder, version, edit)


def edit_parquet(
    store: Store, name: str, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    """Change the rows of a Parquet file."""
    found = pq.read_table(io.BytesIO(store.read(name)))
    sink = io.BytesIO()
    pq.write_table(type(found).from_pylist(edit(found.to_pylist()), found.schema), sink)
    store.put(name, sink.getvalue())


def only_file(builder: TableBuilder, ending: str, folder: str = "") -> str:
    """The one stored name with this ending."""
    names = [
        n for n in memory_of(builder).contents() if n.startswith(folder) and n.endswith(ending)
    ]
    (name,) = names
    return name


def flip(store: Store, name: str, place: int) -> None:
    """Turn over one byte of a file, counted from its end where negative."""
    data = bytearray(store.read(name))
    data[place] ^= 0xFF
    store.put(name, bytes(data))


__all__ = ["LOG", "check", "codes"]
