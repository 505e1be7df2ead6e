"""Tables that consist of a log only: the data files of its actions do not exist."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.adds import (
    VECTOR,
    end_of_add,
    make_paths,
    make_stats,
    make_vectors,
    to_json,
    to_struct,
    vector_files,
)
from benchmarks.columns import days, join
from benchmarks.shapes import START_MS, Shape, Tree, commit_info, log_actions

_SEED = 20240517
_LINKED_BYTES = 1 << 20
_MOST_LINKS = 30_000
NUM_DAYS = 365
ROW_GROUP_ROWS = 250_000


def make_files(
    first: int,
    count: int,
    total: int,
    shape: Shape,
    num_days: int = NUM_DAYS,
    *,
    vectors: bool = True,
) -> pa.RecordBatch:
    """Files ``first`` and following of ``total``, in order of days, in ``num_days`` partitions."""
    rng = np.random.default_rng((_SEED, first))
    places = np.arange(first, first + count, dtype=np.int64)
    date = days(places * num_days // max(total, 1))
    stats = make_stats(rng, shape, date, places)
    files = {
        "date": date,
        "path": make_paths(rng, shape, date, places),
        "size": pa.array(rng.integers(200_000, 120_000_000, count)),
        "modificationTime": pa.array(START_MS + places * 31),
        "stats": to_json(stats, shape, rng),
    }
    if shape == Shape.SPARK:
        files["stats_parsed"] = to_struct(stats)
        files["deletionVector"] = make_vectors(rng, count, 0.1 if vectors else 0.0)
    return pa.RecordBatch.from_pydict(files)


def _as_json(files: pa.RecordBatch, shape: Shape) -> list[str]:
    stats = pc.replace_substring(files["stats"], '"', '\\"')
    lines = join(
        *('{"add":{"path":"', files["path"], '","partitionValues":{"date":"', files["date"]),
        *('"},"size":', files["size"], ',"modificationTime":', files["modificationTime"]),
        *(',"dataChange":true,"stats":"', stats, '"', end_of_add(shape, files)),
    )
    texts: list[str] = lines.to_pylist()
    return texts


def _json_adds(
    first: int, count: int, total: int, shape: Shape, num_days: int = NUM_DAYS
) -> list[str]:
    return _as_json(make_files(first, count, total, shape, num_days), shape)


def _log_folder(table: Path) -> Path:
    log = table / "_delta_log"
    log.mkdir(parents=True)
    return log


def write_commit(log: Path, version: int, lines: list[str]) -> None:
    """Write a commit file; ``lines`` are JSON."""
    (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def _head(version: int, shape: Shape) -> list[str]:
    """The first lines of a commit that adds files."""
    first = log_actions(shape) if version == 0 else []
    return [commit_info(version, "WRITE", shape), *map(json.dumps, first)]


def write_checkpoint_table(
    table: Path,
    num_files: int,
    num_days: int = NUM_DAYS,
    shape: Shape = Shape.PLAIN,
    *,
    vectors: bool = True,
) -> None:
    """A table of which a classic checkpoint at version 10 is left, and the commit of it.

    ``vectors``: with deletion vectors, if the shape has them.
    """
    step = -(-num_files // 11) if shape == Shape.DELTA_RS else ROW_GROUP_ROWS
    _write_checkpoint(
        table,
        (
            make_files(
                first, min(step, num_files - first), num_files, shape, num_days, vectors=vectors
            )
            for first in range(0, num_files, step)
        ),
        shape,
    )


def _write_checkpoint(table: Path, parts: Iterable[pa.RecordBatch], shape: Shape) -> None:
    """That of delta-rs is written by it, of one commit a part, at most eleven."""
    log = _log_folder(table)
    if shape == Shape.DELTA_RS:
        for version, part in zip_longest(range(11), parts):
            adds = [] if part is None else _as_json(part, shape)
            write_commit(log, version, [*_head(version, shape), *adds])
        DeltaTable(table).create_checkpoint()
        for version in range(10):
            (log / f"{version:020}.json").unlink()
        return
    write_commit(log, 10, [commit_info(10, "OPTIMIZE", shape)])
    schema = pa.schema(list(_actions(shape).items()))
    num_rows = 2
    with pq.ParquetWriter(
        log / f"{10:020}.checkpoint.parquet",
        schema,
        use_deprecated_int96_timestamps=shape == Shape.SPARK,
        store_decimal_as_integer=True,
    ) as writer:
        writer.write_table(pa.Table.from_pylist(_with_maps(log_actions(shape)), schema))
        for part in parts:
            writer.write_table(_checkpoint_adds(schema, part))
            num_rows += part.num_rows
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": num_rows}))


def list_paths(table: Path) -> list[str]:
    """The paths of the live files of a table."""
    paths: list[str] = pa.table(DeltaTable(table).get_add_actions())["path"].to_pylist()
    return paths


def write_read_table(table: Path, num_files: int, shape: Shape = Shape.PLAIN) -> None:
    """The same checkpoint, and its data files, which are links to a few with one row."""
    write_checkpoint_table(table, num_files, shape=shape, vectors=False)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1], "name": ["Adams"], "value": [1.5]}), sink)
    _link_files(table, list_paths(table), sink.getvalue())


def write_grown_table(table: Path, num_files: int, shape: Shape) -> None:
    """The same, and ten commits after the checkpoint: each adds 100 files."""
    write_checkpoint_table(table, num_files, shape=shape)
    total = num_files + 1000
    for version in range(11, 21):
        adds = _json_adds(num_files + 100 * (version - 11), 100, total, shape)
        write_commit(table / "_delta_log", version, [*_head(version, shape), *adds])


def write_restore_table(table: Path, num_files: int, shape: Shape) -> None:
    """A checkpoint at version 10, whose commit 11 replaces a twentieth of the files.

    All data files exist, as links to a few.
    """
    replaced = num_files // 20
    total = num_files + replaced
    files = make_files(0, total, total, shape)
    size = pa.repeat(pa.scalar(_LINKED_BYTES), total)
    files = files.set_column(files.schema.get_field_index("size"), "size", size)
    step = -(-num_files // 11)
    parts = (
        files.slice(first, min(step, num_files - first)) for first in range(0, num_files, step)
    )
    _write_checkpoint(table, parts, shape)
    _link_files(table, [*files["path"].to_pylist(), *vector_files(shape)], bytes(_LINKED_BYTES))
    removed = _as_json(files.take(pa.array(range(0, 20 * replaced, 20))), shape)
    added = _as_json(files.slice(num_files), shape)
    removes = [remove_line(add, 11) for add in removed]
    write_commit(table / "_delta_log", 11, [commit_info(11, "MERGE", shape), *removes, *added])


def _link_files(table: Path, names: list[str], content: bytes | pa.Buffer) -> None:
    """Create the files; a file system allows some ten thousand links to a file."""
    for folder in {name.rpartition("/")[0] for name in names}:
        (table / folder).mkdir(exist_ok=True)
    for number, name in enumerate(names):
        if number % _MOST_LINKS == 0:
            first = table / name
            first.write_bytes(content)
        else:
            os.link(first, table / name)


_STRINGS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.string())
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _NAMES),
        ("writerFeatures", _NAMES),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _NAMES),
        ("configuration", _STRINGS),
        ("createdTime", pa.int64()),
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
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
        ("stats", pa.string()),
    ]
)


_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("deletionVector", VECTOR),
    ]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])


def _actions(shape: Shape) -> dict[str, pa.StructType]:
    """The columns of a checkpoint, in the order of its writer."""
    known = {"protocol": _PROTOCOL, "metaData": _METADATA, "add": _ADD}
    if shape != Shape.SPARK:
        return known
    stats = make_files(0, 1, 1, shape).schema.field("stats_parsed")
    partition = pa.struct([("date", pa.date32())])
    add = pa.struct([*_ADD, ("partitionValues_parsed", partition), stats])
    head = {"txn": _TXN, "add": add, "remove": _REMOVE}
    return {**head, "metaData": _METADATA, "protocol": _PROTOCOL}


def _with_maps(actions: list[Tree]) -> list[Tree]:
    """The same with maps as Arrow takes them."""
    found: list[Tree] = json.loads(json.dumps(actions), object_hook=_map_members)
    return found


def _map_members(node: Tree) -> Tree:
    maps = ("configuration", "options")
    return {key: list(each.items()) if key in maps else each for key, each in node.items()}


def _checkpoint_adds(schema: pa.Schema, files: pa.RecordBatch) -> pa.Table:
    count = files.num_rows
    offsets = pa.array(np.arange(count + 1, dtype=np.int32))
    dates = pa.repeat(pa.scalar("date"), count)
    known = {
        **dict(zip(files.schema.names, files.columns, strict=True)),
        "partitionValues": pa.MapArray.from_arrays(offsets, dates, files["date"]),
        "partitionValues_parsed": to_struct({"date": files["date"].cast(pa.date32())}),
        "dataChange": pa.repeat(pa.scalar(False), count),
    }
    fields = list(schema.field("add").type)
    adds = pa.StructArray.from_arrays(
        [known[f.name] if f.name in known else pa.nulls(count, f.type) for f in fields],
        fields=fields,
    )
    columns = [adds if f.name == "add" else pa.nulls(count, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def write_json_table(
    table: Path,
    num_commits: int,
    adds_per_commit: int,
    num_days: int = NUM_DAYS,
    shape: Shape = Shape.PLAIN,
) -> None:
    """A table of commits that only add, without a checkpoint."""
    log = _log_folder(table)
    total = num_commits * adds_per_commit
    for version in range(num_commits):
        first = version * adds_per_commit
        adds = _json_adds(first, adds_per_commit, total, shape, num_days)
        write_commit(log, version, [*_head(version, shape), *adds])


def write_history_table(table: Path, num_commits: int, shape: Shape) -> None:
    """Many small commits without a checkpoint: two files each, and every fifth replaces one."""
    log = _log_folder(table)
    adds = _json_adds(0, 2 * num_commits, 2 * num_commits, shape)
    for version in range(num_commits):
        head = _head(version, shape)
        if version % 5 == 4:
            removed = remove_line(adds[2 * version - 1], version)
            head = [commit_info(version, "MERGE", shape), removed]
        write_commit(log, version, [*head, *adds[2 * version : 2 * version + 2]])


def remove_line(add: str, version: int) -> str:
    file = json.loads(add)["add"]
    names = ("path", "partitionValues", "size", "deletionVector")
    kept = {key: file[key] for key in names if key in file}
    facts = {"deletionTimestamp": START_MS + version * 60_000, "extendedFileMetadata": True}
    return json.dumps({"remove": {**kept, **facts, "dataChange": True}})
