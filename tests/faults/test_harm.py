"""Tables made to do harm: sizes that nobody has, names that lead elsewhere.

Each is answered by an error of ours or by right behaviour, in little time and memory, and nothing
outside the table is read, written or deleted: see ``docs/security.md``.
"""

import io
import json
import os
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltactl.log.checkpoint.read import read_head
from deltactl.log.listing import list_log
from deltactl.table import Table
from tests.faults.test_machine import Cli, deltactl
from tests.support.folders import contents
from tests.support.stores import MemoryStore
from tests.support.table_builder import (
    START_MS,
    Column,
    TableBuilder,
    bitmap_bytes,
    commit_path,
    z85,
)

__all__ = ["deltactl"]

_SECONDS = 10


def build(root: Path, **options: Any) -> TableBuilder:
    builder = TableBuilder(root, [Column("id"), Column("v", "string")], **options)
    builder.append(*[[{"id": 10 * i + j, "v": "x"} for j in range(4)] for i in range(3)])
    return builder


def age(root: Path) -> None:
    """Let everything have happened so long ago that no retention holds it."""
    for path in root.rglob("*"):
        os.utime(path, (START_MS / 1000, START_MS / 1000))


@pytest.fixture
def in_time() -> Iterator[None]:
    """Of this process alone: others may keep the machine busy."""
    started = time.process_time()
    yield
    assert time.process_time() - started < _SECONDS


# -- bombs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "cardinality"),
    [
        pytest.param(bitmap_bytes([0]), 1 << 60, id="says 2^60 rows"),
        pytest.param(
            struct.pack("<IQ", 1681511377, 1 << 60) + bytes(32), 1 << 60, id="2^60 bitmaps"
        ),
        pytest.param(bitmap_bytes([(1 << 60) - 1]), 1, id="row 2^60", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("in_time")
def test_a_deletion_vector_of_2_to_the_60(
    tmp_path: Path, deltactl: Cli, payload: bytes, cardinality: int
) -> None:
    builder = build(tmp_path / "t", features=["deletionVectors"])
    add = builder.find(next(iter(builder.data)))
    vector = {
        "storageType": "i",
        "pathOrInlineDv": z85(payload + bytes(-len(payload) % 4)),
        "sizeInBytes": len(payload),
        "cardinality": cardinality,
    }
    builder.commit(builder.remove_action(add["path"]), {"add": {**add, "deletionVector": vector}})
    before = contents(tmp_path / "t")
    assert deltactl("optimize", str(tmp_path / "t"), "--no-lease").code == 1
    found = deltactl("check", str(tmp_path / "t"), "--files", "data", "-o", "json")
    assert found.code == 3
    assert any("VECTOR" in code for code in json.loads(found.out)["result"]["codes"])
    assert contents(tmp_path / "t").items() >= before.items()


@pytest.mark.parametrize(
    ("kind", "depth"),
    [
        ("array", 100_000),
        pytest.param("struct", 60, marks=pytest.mark.slow),
        pytest.param("array", 60, marks=pytest.mark.slow),
        pytest.param("struct", 100_000, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("in_time")
def test_a_schema_nested_very_deep(tmp_path: Path, deltactl: Cli, kind: str, depth: int) -> None:
    builder = build(tmp_path / "t")
    head, tail = {
        "array": ('{"type":"array","elementType":', ',"containsNull":true}'),
        "struct": (
            '{"type":"struct","fields":[{"name":"m","type":',
            ',"nullable":true,"metadata":{}}]}',
        ),
    }[kind]
    nested = head * depth + '"long"' + tail * depth
    text = (
        '{"type":"struct","fields":[{"name":"id","nullable":true,"metadata":{},"type":'
        + nested
        + "}]}"
    )
    builder.change_metadata(schemaString=text)
    ran = deltactl("optimize", str(tmp_path / "t"))
    assert ran.code == 1, ran
    assert "Error:" not in ran.err.replace("RecursionError:", ""), ran.err
    for command in ("describe-detail", "describe-history", "check", "checkpoint", "vacuum"):
        assert deltactl(command, str(tmp_path / "t")).code in (0, 1, 3), command


@pytest.mark.usefixtures("in_time")
def test_a_checkpoint_that_says_a_million_million_rows(tmp_path: Path, deltactl: Cli) -> None:
    """Its footer counts them; what is in it are five."""
    builder = build(tmp_path / "t")
    builder.checkpoint()
    (name,) = [n for n in builder.store.list_from("_delta_log") if "checkpoint" in n.name]
    builder.store.put(name.name, count_more_rows(builder.store.read(name.name), 10**12))
    builder.hint(1)
    assert deltactl("optimize", str(tmp_path / "t")).code == 0, "the commits are there"
    again = build(tmp_path / "u")
    again.store.put(name.name, builder.store.read(name.name))
    again.store.delete_many([commit_path(0)])
    ran = deltactl("optimize", str(tmp_path / "u"))
    assert ran.code == 1
    assert "its footer says 1000000000000 rows" in ran.err
    assert "00000000000000000001.checkpoint.parquet" in ran.err


def count_more_rows(data: bytes, rows: int) -> bytes:
    """The same Parquet file, whose footer has another number of rows wherever it has one."""
    length = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - length], data[-8 - length : -8]
    stored = pq.read_metadata(io.BytesIO(data)).num_rows
    # A signed 64-bit number in Thrift's compact form: the kind, then zigzag by seven bits.
    changed = footer.replace(b"\x16" + _varint(stored << 1), b"\x16" + _varint(rows << 1))
    made = body + changed + len(changed).to_bytes(4, "little") + b"PAR1"
    assert pq.read_metadata(io.BytesIO(made)).num_rows == rows
    return made


def _varint(number: int) -> bytes:
    parts = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(part | 0x80 for part in parts[:-1]), parts[-1]])


@pytest.mark.parametrize("rows", [10**7, 10**18])
def test_a_footer_of_too_many_rows_is_refused_before_they_are_looked_for(
    tmp_path: Path, rows: int
) -> None:
    builder = build(tmp_path / "t")
    builder.checkpoint()
    (checkpoint,) = list_log(builder.store).checkpoints
    (name,) = checkpoint.names
    read_head(builder.store, checkpoint)
    builder.store.put(name, count_more_rows(builder.store.read(name), rows))
    with pytest.raises(Exception, match=f"says {rows} rows") as caught:
        read_head(builder.store, checkpoint)
    assert type(caught.value).__name__ == "CorruptLogError"


@pytest.mark.slow
@pytest.mark.usefixtures("in_time")
def test_commands_read_a_line_of_8_mib(tmp_path: Path, deltactl: Cli) -> None:
    builder = build(tmp_path / "t")
    builder.commit(userMetadata="x" * (8 << 20))
    for command in ("describe-history", "optimize", "check"):
        assert deltactl(command, str(tmp_path / "t")).code == 0, command


@pytest.mark.usefixtures("in_time")
def test_very_many_commits_of_nothing(deltactl: Cli) -> None:
    """Only the first one that has to be read is: it is named, and no other is asked for."""
    store = MemoryStore("memory://harm/zero")
    builder = TableBuilder(store, [Column("id")])
    builder.append([{"id": 1}])
    for version in range(2, 5_002):
        store.put(commit_path(version), b"")
    ran = deltactl("describe-history", store.uri, "--limit", "3")
    assert ran.code == 0, ran.err
    ran = deltactl("optimize", store.uri, "--no-lease")
    assert ran.code == 1
    assert "00000000000000000002.json is empty" in ran.err


# -- names that lead elsewhere ------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "%252E%252E/%252E%252E/outside/precious",
        "..%2F..%2Foutside%2Fprecious",
        "p=0/%2E%2E/%2E%2E/outside/precious",
        "s3://other-bucket/precious",
        "https://example.invalid/precious",
        "hdfs://other/precious",
        "file://otherhost/precious",
        "abfss://c@a.dfs.core.windows.net/precious",
    ],
)
def test_a_vacuum_deletes_nothing_elsewhere(tmp_path: Path, deltactl: Cli, path: str) -> None:
    """The log removed such a file long ago: it is a candidate, and not ours to delete."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    builder = build(tmp_path / "t")
    add = builder.find(next(iter(builder.data)))
    builder.commit({"add": {**add, "path": path}})
    builder.commit({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}})
    age(tmp_path)
    options = ("--yes", "--force-retention", "--no-lease")
    for mode in ("lite", "full"):
        ran = deltactl("vacuum", str(tmp_path / "t"), "--mode", mode, *options)
        assert ran.code in (0, 1, 6), ran.err
    assert (outside / "precious").read_bytes() == b"precious"
    assert len(Table(str(tmp_path / "t")).scan().read_all()) == 12


def test_names_that_differ_by_case_are_two(tmp_path: Path, deltactl: Cli) -> None:
    """One is live, its twin was removed; where the file system folds case they are one file."""
    root = tmp_path / "t"
    builder = build(root)
    live = next(iter(builder.data))
    twin_name = live[0].upper() + live[1:]
    (root / twin_name).write_bytes((root / live).read_bytes())
    folds = len([p for p in root.iterdir() if p.name.lower() == live.lower()]) == 1
    twin = {**builder.find(live), "path": twin_name}
    builder.commit({"add": twin})
    builder.commit({"remove": {"path": twin_name, "deletionTimestamp": 1, "dataChange": True}})
    age(root)
    options = ("--mode", "full", "--yes", "--force-retention", "--max-orphan-fraction", "1")
    ran = deltactl("vacuum", str(root), *options)
    assert ran.code == 0, ran.err
    assert (root / live).exists()
    assert folds or not (root / twin_name).exists()
    assert len(Table(str(root)).scan().read_all()) == 12


@pytest.mark.parametrize("command", ["optimize", "checkpoint", "generate-manifest", "convert"])
def test_a_link_in_the_place_of_a_folder_is_not_written_through(
    tmp_path: Path, deltactl: Cli, command: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    builder = build(tmp_path / "t")
    root = tmp_path / "t"
    match command:
        case "convert":
            shutil.rmtree(root / "_delta_log")
            (root / "_delta_log").symlink_to(outside)
        case "checkpoint":
            shutil.move(root / "_delta_log", outside / "log")
            (root / "_delta_log").symlink_to(outside / "log")
        case "optimize":
            builder.change_metadata()
            (root / "_deltactl").symlink_to(outside)
        case _:
            (root / "_symlink_format_manifest").symlink_to(outside)
    before = contents(outside)
    ran = deltactl(command, str(root))
    assert ran.code in (0, 6), ran.err
    assert contents(outside) == before
