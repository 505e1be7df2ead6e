"""Tables that consist of a log only: the data files of its actions do not exist."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.columns import chosen, days, join, padded, uuids

_SEED = 20240517
_LINKED_BYTES = 1 << 20
_MOST_LINKS = 30_000
NUM_DAYS = 365
_START_MS = 1_704_067_200_000  # 2024-01-01
ROW_GROUP_ROWS = 250_000
_NAMES = tuple(
    f"{first}{rest}" for first in "ABCDEFGHKLMNPRST" for rest in ("dams", "rown", "oyle")
)

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


def metadata_of(columns: dict[str, str], partition_columns: list[str]) -> dict[str, object]:
    """A ``metaData`` action."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return {
        "id": "00000000-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": partition_columns,
        "configuration": {},
        "createdTime": _START_MS,
    }


_METADATA = metadata_of(
    {"id": "long", "ts": "timestamp", "name": "string", "value": "double", "date": "date"},
    ["date"],
)


@dataclass(frozen=True, slots=True)
class Files:
    """Columns of ``add`` actions."""

    date: pa.Array
    path: pa.Array
    size: pa.Array
    modification_time: pa.Array
    stats: pa.Array

    def __len__(self) -> int:
        return len(self.path)

    def take(self, rows: range) -> Files:
        """Return some of the files."""
        chosen = pa.array(rows)
        columns = (self.date, self.path, self.size, self.modification_time, self.stats)
        return Files(*(column.take(chosen) for column in columns))


def make_files(
    first: int, count: int, total: int, quote: str = '"', num_days: int = NUM_DAYS
) -> Files:
    """Files ``first`` and following of ``total``: days in order, paths of some 115 characters.

    ``quote`` stands around the names in the statistics: JSON within JSON escapes it. There are as
    many partitions as ``num_days``.
    """
    rng = np.random.default_rng((_SEED, first))
    places = np.arange(first, first + count, dtype=np.int64)
    day = places * num_days // max(total, 1)
    date = days(day)
    task, thread = rng.integers(0, 200, count), rng.integers(10**18, 9 * 10**18, count)
    path = join(
        *("date=", date, "/part-", padded(task, 5), "-tid-", pa.array(thread), "-"),
        *(uuids(rng, count), "-", pa.array(places), "-1.c000.snappy.parquet"),
    )
    return Files(
        date=date,
        path=path,
        size=pa.array(rng.integers(200_000, 120_000_000, count)),
        modification_time=pa.array(_START_MS + places * 31),
        stats=_make_stats(rng, places, date, quote),
    )


def _make_stats(
    rng: np.random.Generator, places: np.ndarray[tuple[int], np.dtype[np.int64]], date: pa.Array,
    quote: str,
) -> pa.Array:  # fmt: skip
    count = len(places)
    rows = rng.integers(1_000, 90_000, count)
    low = rng.random(count).round(6)

    def bounds(
        number: np.ndarray[tuple[int], np.dtype[np.int64]], hour: str, value: object
    ) -> list[object]:
        parts = ["{~id~:", pa.array(number), ",~ts~:~", date, f"T{hour}.000Z~,~name~:~"]
        return [*parts, chosen(rng, count, _NAMES), "~,~value~:", pa.array(value), "}"]

    texts = [
        *("{~numRecords~:", pa.array(rows), ",~minValues~:"),
        *bounds(places * 90_000, "00:00:07", low),
        ",~maxValues~:",
        *bounds(places * 90_000 + rows, "23:59:58", (low + 1000).round(6)),
        *(",~nullCount~:{~id~:0,~ts~:0,~name~:", pa.array(rows // 97), ",~value~:0}}"),
    ]
    return join(*(t.replace("~", quote) if isinstance(t, str) else t for t in texts))


def _json_adds(first: int, count: int, total: int, num_days: int = NUM_DAYS) -> pa.Array:
    return _as_json(make_files(first, count, total, '\\"', num_days))


def _as_json(files: Files) -> pa.Array:
    """Lines of the log; the quotes in the statistics are escaped already."""
    return join(
        *('{"add":{"path":"', files.path, '","partitionValues":{"date":"', files.date),
        *('"},"size":', files.size, ',"modificationTime":', files.modification_time),
        *(',"dataChange":true,"stats":"', files.stats, '"}}'),
    )


def _log_folder(table: Path) -> Path:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    return log


def write_commit(log: Path, version: int, lines: list[str]) -> None:
    """Write a commit file; ``lines`` are JSON."""
    (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def commit_info(version: int, operation: str, **more: object) -> str:
    """A ``commitInfo`` line as Delta on Spark writes it."""
    info = {
        "timestamp": _START_MS + version * 60_000,
        "userId": "7264839201",
        "userName": "etl@example.org",
        "operation": operation,
        **more,
        "clusterId": "0517-093012-abcd1234",
        **({"readVersion": version - 1} if version else {}),
        "isolationLevel": "WriteSerializable",
        "isBlindAppend": operation == "WRITE",
        "engineInfo": "Apache-Spark/3.5.3 Delta-Lake/3.2.1",
        "txnId": f"5a1c7a52-0000-4000-8000-{version:012}",
    }
    return json.dumps({"commitInfo": info})


def _first_lines() -> list[str]:
    return [json.dumps({"protocol": PROTOCOL}), json.dumps({"metaData": _METADATA})]


def write_checkpoint_table(table: Path, num_files: int, num_days: int = NUM_DAYS) -> None:
    """A table of which a classic checkpoint at version 10 is left, and the commit of it."""
    log = _log_folder(table)
    write_commit(log, 10, [commit_info(10, "OPTIMIZE")])
    schema = pa.schema([("protocol", _PROTOCOL_TYPE), ("metaData", _METADATA_TYPE), ("add", _ADD)])
    name = f"{10:020}.checkpoint.parquet"
    with pq.ParquetWriter(log / name, schema, compression="snappy") as writer:
        writer.write_table(_checkpoint_head(schema))
        for first in range(0, num_files, ROW_GROUP_ROWS):
            count = min(ROW_GROUP_ROWS, num_files - first)
            files = make_files(first, count, num_files, num_days=num_days)
            writer.write_table(_checkpoint_adds(schema, files))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": num_files + 2}))


def checkpoint_paths(num_files: int, num_days: int = NUM_DAYS) -> Iterator[str]:
    """The paths of the files in the checkpoint."""
    for first in range(0, num_files, ROW_GROUP_ROWS):
        count = min(ROW_GROUP_ROWS, num_files - first)
        yield from make_files(first, count, num_files, num_days=num_days).path.to_pylist()


def write_read_table(table: Path, num_files: int) -> None:
    """The same checkpoint, and its data files, which are links to a few with one row."""
    write_checkpoint_table(table, num_files)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1], "name": ["Adams"], "value": [1.5]}), sink)
    _link_files(table, [*checkpoint_paths(num_files)], sink.getvalue())


def write_grown_table(table: Path, num_files: int) -> None:
    """The same, and ten commits after the checkpoint: each adds 100 files."""
    write_checkpoint_table(table, num_files)
    total = num_files + 1000
    for version in range(11, 21):
        adds = _json_adds(num_files + 100 * (version - 11), 100, total).to_pylist()
        write_commit(table / "_delta_log", version, [commit_info(version, "WRITE"), *adds])


def write_restore_table(table: Path, num_files: int, num_changed: int) -> None:
    """A checkpoint at version 10, whose commit 11 replaces half of ``num_changed`` of the files.

    All data files exist, as links to a few.
    """
    log = _log_folder(table)
    replaced = num_changed // 2
    size = pa.repeat(pa.scalar(_LINKED_BYTES), num_files + replaced)
    files = replace(make_files(0, num_files + replaced, num_files + replaced), size=size)
    _link_files(table, files.path.to_pylist(), bytes(_LINKED_BYTES))
    schema = pa.schema([("protocol", _PROTOCOL_TYPE), ("metaData", _METADATA_TYPE), ("add", _ADD)])
    with pq.ParquetWriter(log / f"{10:020}.checkpoint.parquet", schema) as writer:
        writer.write_table(_checkpoint_head(schema))
        for first in range(0, num_files, ROW_GROUP_ROWS):
            count = min(ROW_GROUP_ROWS, num_files - first)
            writer.write_table(_checkpoint_adds(schema, files.take(range(first, first + count))))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": num_files + 2}))
    write_commit(log, 10, [commit_info(10, "OPTIMIZE")])
    every = num_files // replaced
    files = replace(files, stats=pc.replace_substring(files.stats, '"', '\\"'))
    removed = _as_json(files.take(range(0, every * replaced, every))).to_pylist()
    added = _as_json(files.take(range(num_files, num_files + replaced))).to_pylist()
    removes = [remove_line(add, 11) for add in removed]
    write_commit(log, 11, [commit_info(11, "MERGE"), *removes, *added])


def _link_files(table: Path, names: list[str], content: bytes | pa.Buffer) -> None:
    """Create the files; a file system allows some ten thousand links to a file."""
    for folder in {name.rpartition("/")[0] for name in names}:
        (table / folder).mkdir()
    for number, name in enumerate(names):
        if number % _MOST_LINKS == 0:
            first = table / name
            first.write_bytes(content)
        else:
            os.link(first, table / name)


_STRINGS = pa.map_(pa.string(), pa.string())
_PROTOCOL_TYPE = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
_METADATA_TYPE = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _STRINGS),
        ("createdTime", pa.int64()),
    ]
)
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", _STRINGS),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
        ("stats", pa.string()),
    ]
)


def _checkpoint_head(schema: pa.Schema) -> pa.Table:
    metadata = {**_METADATA, "configuration": [], "format": {"provider": "parquet", "options": []}}
    return pa.Table.from_pylist([{"protocol": PROTOCOL}, {"metaData": metadata}], schema)


def _checkpoint_adds(schema: pa.Schema, files: Files) -> pa.Table:
    count = len(files)
    known = {
        "path": files.path,
        "partitionValues": pa.MapArray.from_arrays(
            pa.array(np.arange(count + 1, dtype=np.int32)),
            pa.repeat(pa.scalar("date"), count),
            files.date,
        ),
        "size": files.size,
        "modificationTime": files.modification_time,
        "dataChange": pa.repeat(pa.scalar(False), count),
        "stats": files.stats,
    }
    arrays = [known[f.name] if f.name in known else pa.nulls(count, f.type) for f in _ADD]
    adds = pa.StructArray.from_arrays(arrays, fields=list(_ADD))
    return pa.table([pa.nulls(count, schema.field(i).type) for i in (0, 1)] + [adds], schema=schema)


def write_json_table(
    table: Path, num_commits: int, adds_per_commit: int, num_days: int = NUM_DAYS
) -> None:
    """A table of commits that only add, without a checkpoint."""
    log = _log_folder(table)
    total = num_commits * adds_per_commit
    for version in range(num_commits):
        first = version * adds_per_commit
        adds = _json_adds(first, adds_per_commit, total, num_days).to_pylist()
        head = [commit_info(version, "WRITE"), *(_first_lines() if version == 0 else [])]
        write_commit(log, version, head + adds)


def write_history_table(table: Path, num_commits: int) -> None:
    """Many small commits without a checkpoint: two files each, and every fifth replaces one."""
    log = _log_folder(table)
    for version, lines in enumerate(_history_commits(num_commits)):
        write_commit(log, version, lines)


def _history_commits(num_commits: int) -> Iterator[list[str]]:
    adds = _json_adds(0, 2 * num_commits, 2 * num_commits).to_pylist()
    for version in range(num_commits):
        mine = adds[2 * version : 2 * version + 2]
        metrics = {"numFiles": "2", "numOutputRows": "45000", "numOutputBytes": "60000000"}
        if version % 5 != 4:
            parameters = {"mode": "Append", "partitionBy": '["date"]'}
            info = commit_info(
                version, "WRITE", operationParameters=parameters, operationMetrics=metrics
            )
            yield [info, *(_first_lines() if version == 0 else []), *mine]
            continue
        parameters = {"predicate": '["(t.id = s.id)"]', "matchedPredicates": "[]"}
        metrics |= {"numTargetRowsUpdated": "12", "numTargetFilesRemoved": "1"}
        info = commit_info(
            version, "MERGE", operationParameters=parameters, operationMetrics=metrics
        )
        yield [info, remove_line(adds[2 * version - 1], version), *mine]


def remove_line(add: str, version: int) -> str:
    file = json.loads(add)["add"]
    kept = {key: file[key] for key in ("path", "partitionValues", "size")}
    facts = {"deletionTimestamp": _START_MS + version * 60_000, "extendedFileMetadata": True}
    return json.dumps({"remove": {**kept, **facts, "dataChange": True}})
