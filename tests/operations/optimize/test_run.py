"""What each option of optimize chooses, and exactly what is committed."""

import datetime as dt
import io
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.engine.base import CancelToken, Progress
from deltactl.engine.local import LocalEngine
from deltactl.errors import (
    ObjectNotFoundError,
    PredicateError,
    UnsupportedFeatureError,
    UsageError,
    ignore_warning,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.optimize.candidates import TWO_TEXTS
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.target_size import choose_target_bytes
from deltactl.protocol.paths import partition_directory
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from deltactl.units import GIB, MIB, TIB, format_timestamp
from tests.interop.judges import READERS, rows_with_delta_rs, rows_with_duckdb
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.restores import commit_lines
from tests.support.run import run_on
from tests.support.stores import CountingStore, MemoryStore, fresh_store
from tests.support.table_builder import LOG, START_MS, Column, TableBuilder, multiset
from tests.support.table_samples import COLUMNS, build_sample, sample_row

_CLUSTERED = "clustered or Z-ordered (rewrite with cluster_by or full=True)"
KIB = 1024


def build(*sizes: int, **options: Any) -> TableBuilder:
    """One column; a file for each size wanted, of one row, padded; larger ones are later."""
    builder = TableBuilder(fresh_store(), [Column("id")], **options)
    if sizes:
        adds = [builder.write_file([{"id": i}], pad=size) for i, size in enumerate(sizes)]
        builder.commit(*adds)
    return builder


def run(builder: TableBuilder, *, dry_run: bool = False, **options: Any) -> OptimizeReport:
    clock = options.pop("clock", FixedClock(START_MS + 10**9))
    return run_on(
        builder.store,
        optimize_table,
        OptimizeOptions(**options),
        engine=LocalEngine(workers=1),
        clock=clock,
        dry_run=dry_run,
    )


def plan(builder: TableBuilder, **options: Any) -> OptimizeReport:
    builder = builder.copy_to(builder.store)
    return run(builder, dry_run=True, **options)


def planned(builder: TableBuilder, **options: Any) -> list[str]:
    return sorted(plan(builder, **options).plan.files["path"].to_pylist())


def rows_of(builder: TableBuilder) -> Any:
    table = Table(builder.store.uri, store=builder.store)
    return multiset(table.scan().read_all().to_pylist())


# -- what is committed ------------------------------------------------------------------------


def test_the_commit_to_the_letter() -> None:
    builder = TableBuilder(fresh_store(), COLUMNS, partition_by=["p"], features=["deletionVectors"])
    paths = builder.append(*([sample_row(10 * i + j, None) for j in range(4)] for i in range(3)))
    builder.delete_rows(paths[1], [2])
    before = {path: builder.find(path) for path in paths}
    vector = before[paths[1]]["deletionVector"]
    run(builder, where="p IS NULL")
    info, add, *removes = commit_lines(builder.store, 3)
    size = add["add"]["size"]
    metrics = info["commitInfo"].pop("operationMetrics")
    assert metrics == {
        "numAddedFiles": "1",
        "numRemovedFiles": "3",
        "numAddedBytes": str(size),
        "numRemovedBytes": str(sum(old["size"] for old in before.values())),
        **dict.fromkeys(
            ("minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize"), str(size)
        ),
        "numDeletionVectorsRemoved": "1",
    }
    txn_id = info["commitInfo"].pop("txnId")
    predicate = info["commitInfo"]["operationParameters"].pop("predicate")
    (text,) = json.loads(predicate)
    assert "NULL" in text.upper()
    assert info["commitInfo"] == {
        "timestamp": START_MS + 10**9,
        "operation": "OPTIMIZE",
        "operationParameters": {"zOrderBy": "[]", "clusterBy": "[]", "auto": False},
        "readVersion": 2,
        "isolationLevel": "SnapshotIsolation",
        "isBlindAppend": False,
        "engineInfo": info["commitInfo"]["engineInfo"],
    }
    assert info["commitInfo"]["engineInfo"].startswith("deltactl/")
    assert len(txn_id) == 36
    stats = json.loads(add["add"].pop("stats"))
    assert stats["numRecords"] == 11
    assert stats["tightBounds"] is True
    assert stats["nullCount"]["name"] == 3
    assert set(stats["minValues"]) == {"id", "name", "d", "s"}
    info_of_file = builder.store.stat_many([add["add"]["path"]])[0]
    assert info_of_file is not None
    assert add == {
        "add": {
            "path": add["add"]["path"],
            "partitionValues": {"p": None},
            "size": info_of_file.size_bytes,
            "modificationTime": info_of_file.modified_ms,
            "dataChange": False,
            "tags": {"deltactl.targetFileSize": str(256 * MIB)},
        }
    }
    assert add["add"]["path"].startswith("p=__HIVE_DEFAULT_PARTITION__/part-00000-")
    assert add["add"]["path"].endswith(".c000.zstd.parquet")
    for path, remove in zip(paths, removes, strict=True):
        old = before[path]
        assert remove == {
            "remove": {
                "path": path,
                "deletionTimestamp": START_MS + 10**9,
                "dataChange": False,
                "extendedFileMetadata": True,
                "partitionValues": {"p": None},
                "size": old["size"],
                **({"deletionVector": vector} if path == paths[1] else {}),
                "stats": '{"numRecords":4}',
            }
        }


def test_lines_come_bin_by_bin_and_batches_share_what_they_read() -> None:
    builder = build_sample(fresh_store(), layout="partitioned")
    report = run(builder, commit_every_bytes=1)
    assert len(report.versions) == 4
    for version in report.versions:
        info, add, *removes = commit_lines(builder.store, version)
        assert info["commitInfo"]["readVersion"] == builder.version
        assert "add" in add
        assert len({line["remove"]["deletionTimestamp"] for line in removes}) == 1
    assert report.version_before == builder.version
    assert report.version_after == report.versions[-1]


def test_paths_in_removes_are_the_logs_own_text() -> None:
    builder = build()
    odd = ["a%20b%25.parquet", "%C3%BC.parquet", "plain+x.parquet"]
    adds = [builder.write_file([{"id": i}]) for i in range(3)]
    for add, encoded in zip(adds, odd, strict=True):
        from urllib.parse import unquote

        data = builder.store.read(add["add"]["path"])
        builder.store.put(unquote(encoded), data)
        builder.data[encoded] = builder.data.pop(add["add"]["path"])
        add["add"]["path"] = encoded
    builder.commit(*adds)
    report = run(builder)
    removes = [
        line["remove"]["path"] for line in commit_lines(builder.store, 2) if "remove" in line
    ]
    assert sorted(removes) == sorted(odd)
    assert report.files_removed == 3
    assert rows_of(builder) == multiset(builder.rows())


def test_a_bin_without_live_rows_is_removed_and_adds_nothing() -> None:
    builder = build(0, 0, features=["deletionVectors"])
    for path in list(builder.data):
        builder.delete_rows(path, [0])
    report = run(builder)
    assert (report.files_removed, report.files_added) == (2, 0)
    snapshot = Table(builder.store.uri, store=builder.store).snapshot()
    assert snapshot.num_files == 0
    contents = builder.store.contents() if isinstance(builder.store, MemoryStore) else {}
    assert {n for n in contents if n.endswith(".parquet")} == set(builder.data)
    info = commit_lines(builder.store, report.version_after)[0]["commitInfo"]
    assert info["operationMetrics"]["maxFileSize"] == "0"
    assert plan(builder).plan.is_empty


# -- options ------------------------------------------------------------------------------------


def test_target_and_least_size() -> None:
    builder = build(10 * KIB, 10 * KIB, 30 * KIB, 40 * KIB)
    assert plan(builder).plan.target_bytes == 256 * MIB
    assert len(planned(builder)) == 4
    assert len(planned(builder, target_bytes=32 * KIB)) == 2
    report = plan(builder, target_bytes=32 * KIB)
    assert report.plan.min_bytes == 24 * KIB
    assert report.plan.left_alone["large enough"] == 2
    assert len(planned(builder, target_bytes=100 * KIB, min_file_bytes=25 * KIB)) == 2
    assert plan(builder, min_file_bytes=1).plan.is_empty


def test_the_target_of_the_table() -> None:
    builder = build(10 * KIB, 20 * KIB, properties={"delta.targetFileSize": "32kb"})
    assert plan(builder).plan.target_bytes == 32 * KIB
    assert plan(builder, target_bytes=77 * KIB).plan.target_bytes == 77 * KIB
    for text in ("as large as can be", "²", "9" * 5000, "0"):
        builder = build(1, 2, properties={"delta.targetFileSize": text})
        assert plan(builder).plan.target_bytes == 256 * MIB


def test_the_target_grows_with_the_table() -> None:
    assert choose_target_bytes(None, None, 0) == 256 * MIB
    assert choose_target_bytes(None, None, int(2.5 * TIB)) == 256 * MIB
    assert 256 * MIB < choose_target_bytes(None, None, 5 * TIB) < GIB
    assert choose_target_bytes(None, None, 10 * TIB) == GIB
    assert choose_target_bytes(None, None, 99 * TIB) == GIB
    assert choose_target_bytes(None, 7, 99 * TIB) == 7
    assert choose_target_bytes(5, 7, 99 * TIB) == 5


def test_fewer_files_than_the_minimum_are_left_alone() -> None:
    builder = build(0, 0, 0)
    assert len(planned(builder, min_input_files=3)) == 3
    report = plan(builder, min_input_files=4)
    assert report.plan.is_empty
    assert report.plan.left_alone == {"not worth a rewrite yet": 3}


def test_files_too_large_for_the_target_are_told_from_too_few_files() -> None:
    builder = build(*[565 * KIB] * 8)
    report = plan(builder, target_bytes=MIB)
    assert report.plan.left_alone == {"too large to merge for this target size": 8}
    report = plan(build(565 * KIB, 0), target_bytes=MIB, min_input_files=3)
    assert report.plan.left_alone == {
        "too large to merge for this target size": 1,
        "not worth a rewrite yet": 1,
    }


def test_a_file_with_many_deleted_rows_is_rewritten_alone() -> None:
    builder = TableBuilder(fresh_store(), [Column("id")], features=["deletionVectors"])
    (path,) = builder.append([{"id": i} for i in range(100)])
    builder.delete_rows(path, range(5))
    assert planned(builder) == []
    assert planned(builder, max_deleted_rows_ratio=0.049) == [path]
    builder.delete_rows(path, [50])
    assert planned(builder) == [path], "one file with many deleted rows is rewritten alone"
    assert planned(builder, max_deleted_rows_ratio=0.06) == []
    assert planned(builder, min_file_bytes=1) == [path], "however large it is"
    assert run(builder).deletion_vectors_removed == 1
    assert rows_of(builder) == multiset(builder.rows())


@pytest.mark.parametrize("stats", [None, "{", '{"numRecords":-1}', '{"numRecords":1e400}', "[]"])
def test_deleted_rows_of_unknown_share(stats: str | None) -> None:
    builder = TableBuilder(fresh_store(), [Column("id")], features=["deletionVectors"])
    add = builder.write_file([{"id": i} for i in range(100)], stats=None)
    path = add["add"]["path"]
    builder.commit(add)
    renewal = builder.delete_actions(path, [7])
    if stats is not None:
        renewal[1]["add"]["stats"] = stats
    builder.commit(*renewal)
    assert planned(builder) == [path]
    assert run(builder).rows_rewritten == 99


def test_max_bytes_limits_the_bins_of_a_plan() -> None:
    builder = build_sample(fresh_store(), layout="partitioned")
    whole = plan(builder).plan
    sizes = whole.partitions["bytes_to_rewrite"].to_pylist()
    report = plan(builder, max_bytes=max(sizes))
    assert report.plan.num_bins == 1
    assert report.plan.bytes_to_rewrite <= max(sizes)
    assert report.plan.left_alone["over max_bytes"] == whole.files.num_rows - len(report.plan.files)
    assert plan(builder, max_bytes=sum(sizes)).plan.num_bins == 4
    assert plan(builder, max_bytes=1).plan.is_empty
    assert plan(builder, max_bytes=0).plan.is_empty


def test_commit_every_divides_a_run_by_time() -> None:
    builder = build_sample(fresh_store(), layout="partitioned")

    class Hurried(FixedClock):
        def monotonic(self) -> float:
            self.advance(1000)
            return super().monotonic()

    clock = Hurried(now_ms=1_800_000_000_000)
    assert len(run(builder, commit_every_ms=1, clock=clock).versions) == 4


def test_only_partitions_that_match_are_planned() -> None:
    builder = build_sample(fresh_store(), layout="partitioned-twice")
    assert len(planned(builder)) > len(planned(builder, where="p = 'a'")) > 0
    report = plan(builder, where="p = 'a' AND d >= DATE '2024-01-01'")
    assert {dict(v)["p"] for v in report.plan.files["partition_values"].to_pylist()} == {"a"}
    assert report.plan.left_alone["not matched by where"] == len(builder.state.files) - (
        report.plan.considered_files
    )
    assert planned(builder, where="p = 'nothing'") == []
    for where in ("id = 3", "nope = 1", "p ==", "", "p = 'a'; drop table t"):
        with pytest.raises(PredicateError):
            plan(builder, where=where)
    with pytest.raises(PredicateError):
        plan(build(1, 2), where="id = 1")


def test_where_compares_values_not_texts() -> None:
    """Two texts of one instant are one partition, and become one file; so those without a zone."""
    builder = TableBuilder(
        fresh_store(), [Column("id"), Column("t", "timestamp")], partition_by=["t"]
    )
    time = dt.datetime(2024, 6, 1, 12, tzinfo=dt.UTC)
    local = ("2024-06-01 12:00:00", "2024-06-01 12:00:00.000")
    texts = (*local, "2024-06-01T12:00:00.000000Z", "2024-06-01T12:00:00Z")
    adds = [builder.write_file([{"id": i, "t": time}]) for i in range(4)]
    for add, text in zip(adds, texts, strict=True):
        add["add"]["partitionValues"]["t"] = text
    builder.commit(*adds)
    report = run(builder, where="t = TIMESTAMP '2024-06-01 12:00:00'")
    assert (report.files_removed, report.files_added) == (4, 2)
    (value,) = set(Table(builder.store.uri, store=builder.store).scan().read_all()["t"].to_pylist())
    assert value == time


@pytest.mark.parametrize(
    ("kind", "texts", "formed", "value"),
    [
        ("integer", ["007", "7", "+7"], "7", 7),
        ("decimal(10,2)", ["01.50", "1.50", "+1.50"], "1.50", Decimal("1.50")),
        ("double", ["1e0", "1", "1.00"], "1.0", 1.0),
        ("boolean", ["TRUE", "true", "True"], "true", True),
        ("date", ["2025-2-9", "2025-02-09", "2025-02-9"], "2025-02-09", dt.date(2025, 2, 9)),
        (
            "timestamp",
            ["2025-02-09T01:00:00+01:00", "2025-02-09 00:00:00 UTC", "2025-02-09T00:00:00Z"],
            "2025-02-09T00:00:00.000000Z",
            dt.datetime(2025, 2, 9, tzinfo=dt.UTC),
        ),
    ],
)
def test_an_output_has_the_protocols_form_of_the_value_of_its_inputs(
    tmp_path: Path, kind: str, texts: list[str], formed: str, value: object
) -> None:
    store = LocalStore(str(tmp_path))
    builder = TableBuilder(store, [Column("id"), Column("p", kind)], partition_by=["p"])
    adds = [builder.write_file([{"id": i, "p": value}]) for i in range(len(texts))]
    for add, text in zip(adds, texts, strict=True):
        add["add"]["partitionValues"]["p"] = text
    builder.commit(*adds)
    report = run(builder)
    assert (report.files_removed, report.files_added) == (3, 1)
    (added,) = [a["add"] for a in commit_lines(store, 2) if "add" in a]
    assert added["partitionValues"] == {"p": formed}
    assert added["path"].startswith(f"{quote(partition_directory([('p', formed)]), safe='=')}/")
    rows = [{"id": i, "p": value} for i in range(3)]
    for read in (rows_with_delta_rs, rows_with_duckdb):
        assert multiset(read(tmp_path)) == multiset(rows)


@pytest.mark.parametrize(("kind", "texts"), [("string", ["", None]), ("binary", ["a", "\\u0061"])])
def test_texts_that_readers_tell_apart_stay_apart(kind: str, texts: list[str | None]) -> None:
    """Some read an empty text as such, others as null; escapes of binary likewise."""
    builder = TableBuilder(fresh_store(), [Column("id"), Column("p", kind)], partition_by=["p"])
    adds = [builder.write_file([{"id": i, "p": None}]) for i in range(6)]
    for number, add in enumerate(adds):
        add["add"]["partitionValues"]["p"] = texts[number % 2]
    builder.commit(*adds)
    report = run(builder)
    assert (report.files_removed, report.files_added) == (6, 2)
    for bin_files in report.plan.iter_bins():
        assert len({dict(v)["p"] for v in bin_files["partition_values"].to_pylist()}) == 1
    added = [a["add"] for a in commit_lines(builder.store, 2) if "add" in a]
    assert {add["partitionValues"]["p"] for add in added} == set(texts)
    assert plan(builder).plan.is_empty


@pytest.mark.parametrize(
    ("codec", "level", "stored", "suffix"),
    [
        (None, None, "ZSTD", ".zstd.parquet"),
        ("zstd", 5, "ZSTD", ".zstd.parquet"),
        ("gzip", None, "GZIP", ".gzip.parquet"),
        ("lz4", None, "LZ4", ".lz4.parquet"),
        ("brotli", 2, "BROTLI", ".brotli.parquet"),
        ("none", None, "UNCOMPRESSED", ".c000.parquet"),
    ],
)
def test_the_codec_is_in_the_footer_and_in_the_name(
    codec: str | None, level: int | None, stored: str, suffix: str
) -> None:
    builder = build(0, 0)
    run(builder, codec=codec if level is None else f"{codec}:{level}")
    (path,) = Table(builder.store.uri, store=builder.store).snapshot().files["path"].to_pylist()
    assert path.endswith(suffix)
    with builder.store.open_input(path) as source:
        assert pq.read_metadata(source).row_group(0).column(0).compression == stored


@pytest.mark.parametrize(("codec", "warned"), [("brotli", True), ("zstd", False)])
def test_a_codec_that_spark_lacks_is_warned_about(codec: str, warned: bool) -> None:
    builder = build(0, 0)
    warnings: list[str] = []
    optimize_table(
        DeltaLog(builder.store, ignore_warning),
        OptimizeOptions(codec=codec),
        RunContext(warn=warnings.append),
    )
    assert any("Apache Spark can read brotli only if" in text for text in warnings) == warned


@pytest.mark.parametrize(
    ("text", "inputs", "stored"),
    [
        ("zstd", "snappy", "ZSTD"),
        ("GZIP", "snappy", "GZIP"),
        ("UNCOMPRESSED", "snappy", "UNCOMPRESSED"),
        ("none", "snappy", "UNCOMPRESSED"),
        # As PROTOCOL.md says; Delta on Spark 4.4 writes snappy.
        (None, "snappy", "ZSTD"),
    ],
)
def test_the_codec_of_the_table(text: str | None, inputs: str, stored: str) -> None:
    properties = {} if text is None else {"delta.parquet.compression.codec": text}
    builder = build(properties=properties)
    builder.append([{"id": 1}], codec="lz4")
    builder.append([{"id": 2}], [{"id": 3}], codec=inputs)
    run(builder)
    (path,) = Table(builder.store.uri, store=builder.store).snapshot().files["path"].to_pylist()
    with builder.store.open_input(path) as source:
        assert pq.read_metadata(source).row_group(0).column(0).compression == stored


@pytest.mark.parametrize(("text", "version"), [(None, 1), ("1.0.0", 1), ("2.12.0", 2)])
def test_pages_are_those_of_the_parquet_format_of_the_table(text: str | None, version: int) -> None:
    builder = build(properties={} if text is None else {"delta.parquet.format.version": text})
    builder.append([{"id": 1}], [{"id": 2}])
    assert run(builder).versions
    (path,) = Table(builder.store.uri, store=builder.store).snapshot().files["path"].to_pylist()
    data = builder.store.read(path)
    column = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    # A page begins with its type: DATA_PAGE (0) or DATA_PAGE_V2 (3), doubled as Thrift has it.
    assert data[column.data_page_offset + 1] == {1: 0, 2: 6}[version]


@pytest.mark.parametrize(
    ("codec", "level"),
    [("zstd", 23), ("gzip", 10), ("brotli", 12), ("snappy", 1), ("none", 3)]
    + [("middle-out", None)],
)
def test_a_codec_or_level_that_there_is_not(codec: str, level: int | None) -> None:
    with pytest.raises(UsageError, match="codec"):
        OptimizeOptions(codec=codec if level is None else f"{codec}:{level}")


def test_hot_partitions_are_left() -> None:
    builder = TableBuilder(fresh_store(), [Column("id"), Column("p")], partition_by=["p"])
    now = START_MS + 10**9
    ages = {1: 3_600_001, 2: 3_599_000}
    adds = [
        builder.write_file([{"id": i, "p": p}], modified_ms=now - (age if i == 2 else 10**8))
        for p, age in ages.items()
        for i in range(3)
    ]
    builder.commit(*adds)
    report = plan(builder, skip_hot_ms=3_600_000)
    assert {dict(v)["p"] for v in report.plan.files["partition_values"].to_pylist()} == {"1"}
    assert report.plan.left_alone == {"in a recently written partition": 3}
    assert len(planned(builder)) == 6


def test_files_that_a_wrong_clock_dated_do_not_make_their_partition_hot() -> None:
    builder = TableBuilder(fresh_store(), [Column("id"), Column("p")], partition_by=["p"])
    now, said, ahead = START_MS + 10**9, list[str](), 10**8
    times = {1: now + ahead, 2: now}
    builder.commit(
        *(
            builder.write_file([{"id": i, "p": p}], modified_ms=time)
            for p, time in times.items()
            for i in range(2)
        )
    )
    options = OptimizeOptions(skip_hot_ms=3_600_000)
    clock = FixedClock(now)
    report = run_on(
        builder.store, optimize_table, options, clock=clock, dry_run=True, warn=said.append,
        engine=LocalEngine(workers=1),
    )  # fmt: skip
    assert {dict(v)["p"] for v in report.plan.files["partition_values"].to_pylist()} == {"1"}
    assert report.plan.left_alone == {"in a recently written partition": 2}
    assert said == [
        f"the log dates 2 files in the future, up to {format_timestamp(now + ahead)}: a clock is "
        "wrong. These times do not make a partition recently written"
    ]


def test_files_that_are_clustered_are_left() -> None:
    builder = build(0, 0, features=["clustering"])
    builder.commit(
        *(builder.write_file([{"id": 9}], clusteringProvider="liquid") for _ in range(2)),
        *(builder.write_file([{"id": 9}], tags={"ZCUBE_ID": "x"}) for _ in range(2)),
    )
    report = plan(builder)
    assert len(report.plan.files) == 2
    assert report.plan.left_alone == {_CLUSTERED: 4}


def test_files_of_a_z_order_commit_are_left() -> None:
    builder = build(0, 0)
    z_order = {"operationParameters": {"zOrderBy": '["id"]', "predicate": "[]"}}
    adds = [builder.write_file([{"id": 5}], modified_ms=1_690_000_000_000) for _ in range(2)]
    builder.commit(*adds, operation="OPTIMIZE", **z_order)
    plain = {"operationParameters": {"zOrderBy": "[]"}}
    builder.commit(builder.write_file([{"id": 6}]), operation="OPTIMIZE", **plain)
    report = plan(builder)
    assert len(report.plan.files) == 3
    assert report.plan.left_alone == {_CLUSTERED: 2}
    assert len(planned(builder, cluster_by="id")) == 5


def test_a_plan_reads_each_commit_once(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    z_order = {"operationParameters": {"zOrderBy": '["id"]'}}
    early = [builder.write_file([{"id": 5}], modified_ms=1_690_000_000_000) for _ in range(2)]
    builder.commit(*early, operation="OPTIMIZE", **z_order)
    builder.checkpoint()
    late = [builder.write_file([{"id": 6}], modified_ms=1_690_000_000_000) for _ in range(3)]
    builder.commit(*late, operation="OPTIMIZE", **z_order)
    names: list[str] = []

    class Noting(ForwardingStore):
        def read_many(self, wanted: Sequence[str]) -> Iterator[bytes]:
            names.extend(wanted)
            return super().read_many(wanted)

    report = run_on(
        Noting(builder.store), optimize_table, OptimizeOptions(), warn=pytest.fail, dry_run=True
    )
    assert report.plan.left_alone == {_CLUSTERED: 5}
    commits = [name for name in names if name.endswith(".json")]
    assert sorted(commits) == [f"_delta_log/{version:020}.json" for version in range(3)]


def test_a_log_cleanup_hides_no_earlier_z_order_commit(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    z_order = {"operationParameters": {"zOrderBy": '["id"]'}}
    for number in (5, 6):
        adds = [
            builder.write_file([{"id": number}], modified_ms=1_690_000_000_000) for _ in range(2)
        ]
        builder.commit(*adds, operation="OPTIMIZE", **z_order)
    builder.checkpoint()
    failures = iter([ObjectNotFoundError("a log cleanup deleted it")])

    class Cleaned(ForwardingStore):
        """A commit disappears while a plan reads the commits before the checkpoint."""

        def read_many(self, names: Sequence[str]) -> Iterator[bytes]:
            for name, data in zip(names, super().read_many(names), strict=True):
                if name.endswith("2.json") and (error := next(failures, None)) is not None:
                    raise error
                yield data

    report = run_on(
        Cleaned(builder.store), optimize_table, OptimizeOptions(), warn=pytest.fail, dry_run=True
    )
    assert next(failures, None) is None
    assert report.plan.left_alone == {_CLUSTERED: 4}


@pytest.mark.parametrize(("behind_ms", "left"), [(50, 2), (300_000, 2), (3_600_000, 0)])
def test_the_clock_of_commits_may_be_behind_that_of_files(behind_ms: int, left: int) -> None:
    """That of a local file system is, by milliseconds; commits far older cannot name the files."""
    builder = TableBuilder(fresh_store(), [Column("id")])
    z_order = {"operationParameters": {"zOrderBy": '["id"]', "predicate": "[]"}}
    later = START_MS + behind_ms
    adds = [builder.write_file([{"id": 5}], modified_ms=later) for _ in range(2)]
    builder.commit(*adds, operation="OPTIMIZE", **z_order)
    assert plan(builder).plan.left_alone.get(_CLUSTERED, 0) == left


def test_files_of_a_z_order_of_delta_rs_are_left(tmp_path: Path) -> None:
    rows = pa.table({"id": range(4)})

    def left_alone(optimize: Callable[[DeltaTable], object]) -> object:
        for _ in range(2):
            write_deltalake(tmp_path, rows, mode="append")
        optimize(DeltaTable(tmp_path))
        options = OptimizeOptions(min_input_files=1)
        report = run_on(LocalStore(str(tmp_path)), optimize_table, options, dry_run=True)
        return report.plan.left_alone.get(_CLUSTERED)

    assert left_alone(lambda table: table.optimize.compact()) is None
    assert left_alone(lambda table: table.optimize.z_order(["id"], target_size=100)) == 1


def test_a_broken_clustering_domain_stops_nothing() -> None:
    for text in ("{", "[]", '{"clusteringColumns":7}', '{"clusteringColumns":[["id"]]}'):
        builder = build(0, 0, features=["clustering"], domains={"delta.clustering": text})
        assert run(builder).files_removed == 2


def test_purge_rewrites_what_holds_deleted_rows() -> None:
    builder = build(0, 0, 5 * KIB, features=["deletionVectors"])
    paths = list(builder.data)
    rows = [{"id": i} for i in range(3)]
    paths += builder.append(rows)
    builder.delete_rows(paths[3], [1])
    report = run(builder, purge=True)
    assert report.files_removed == 1
    info, add, remove = commit_lines(builder.store, report.version_after)
    assert info["commitInfo"]["operation"] == "REORG"
    assert info["commitInfo"]["operationParameters"] == {"predicate": "[]", "applyPurge": True}
    assert remove["remove"]["path"] == paths[3]
    assert json.loads(add["add"]["stats"])["numRecords"] == 2
    assert plan(builder, purge=True).plan.left_alone == {"nothing to purge": 4}
    assert rows_of(builder) == multiset(builder.rows())


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_purge_rewrites_what_holds_dropped_columns(mapping: str) -> None:
    nested = {"type": "struct", "fields": [Column("a").to_json(), Column("b").to_json()]}
    builder = TableBuilder(
        fresh_store(), [Column("id"), Column("gone"), Column("s", nested)], mapping=mapping
    )
    row = {"id": 1, "gone": 2, "s": {"a": 3, "b": 4}}
    builder.append([row], [row])
    assert planned(builder, purge=True) == []
    s = builder.columns[2]
    shorter = {**s.type, "fields": s.type["fields"][:1]}
    builder.change_metadata(columns=[builder.columns[0], Column("s", shorter, True, s.metadata)])
    builder.append([{"id": 1, "s": {"a": 3}}])
    report = run(builder, purge=True)
    assert report.files_removed == 2
    assert rows_of(builder) == multiset(builder.rows())
    for path in Table(builder.store.uri, store=builder.store).snapshot().files["path"].to_pylist():
        with builder.store.open_input(path) as source:
            names = pq.ParquetFile(source).schema.names
        assert len(names) == 2
    assert plan(builder, purge=True).plan.is_empty


@pytest.mark.parametrize("mode", [{}, {"delta.columnMapping.mode": "none"}])
def test_names_of_a_mapping_that_is_off_mean_nothing(mode: dict[str, str]) -> None:
    """PROTOCOL.md, "Column Mapping": without it readers find columns by their display names."""

    def column(name: str, kind: Any, number: int | None = None) -> Column:
        keys = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"col-{number}",
        }
        return Column(name, kind, True, keys if number else {})

    def columns(*numbers: int | None) -> list[Column]:
        member = column("a", "long", numbers[3]).to_json()
        inner = {"type": "struct", "fields": [member]}
        kinds = (("id", "long"), ("s", inner), ("p", "string"))
        return [column(*kind, number) for kind, number in zip(kinds, numbers, strict=False)]

    builder = TableBuilder(fresh_store(), columns(*[None] * 4), partition_by=["p"])
    rows = [{"id": n, "s": {"a": n}, "p": "xy"[n % 2]} for n in range(6)]
    builder.append(*([row] for row in rows))
    builder.change_metadata(columns=columns(1, 2, 3, 4), properties=mode)
    report = run(builder)
    assert (report.files_removed, report.files_added) == (6, 2)
    table = Table(builder.store.uri, store=builder.store)
    assert multiset(table.scan().read_all().to_pylist()) == multiset(rows)
    files = table.snapshot().files
    partitions = [dict(values) for values in files["partition_values"].to_pylist()]
    assert sorted(partitions, key=lambda values: str(values["p"])) == [{"p": "x"}, {"p": "y"}]
    for path, stats in zip(files["path"].to_pylist(), files["stats"].to_pylist(), strict=True):
        with builder.store.open_input(path) as source:
            schema = pq.ParquetFile(source).schema_arrow
        assert schema.names[:2] == ["id", "s"]
        assert set(json.loads(stats)["minValues"]) == {"id", "s"}


def test_a_mapping_that_the_protocol_does_not_know_is_refused() -> None:
    builder = TableBuilder(fresh_store(), [Column("id")])
    builder.append([{"id": 1}], [{"id": 2}])
    builder.change_metadata(properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(UnsupportedFeatureError, match="without columnMapping in the protocol"):
        run(builder)


def test_purge_keeps_the_hidden_columns_of_row_tracking() -> None:
    builder = build(0, 0, mapping="name", features=["rowTracking"])
    run(builder)
    assert plan(builder, purge=True).plan.is_empty


# -- safety -------------------------------------------------------------------------------------


def test_a_plan_needs_the_log_alone() -> None:
    builder = build_sample(fresh_store(), layout="partitioned")
    counting = CountingStore(builder.store)
    run_on(counting, optimize_table, OptimizeOptions(), dry_run=True)
    assert {name.split("/")[0] for names in counting.names.values() for name in names} == {LOG}
    assert "open_input" not in counting.calls


def test_requests_of_a_run_are_few() -> None:
    """Each input is read once, each output opened once."""
    builder = build(*[0] * 40)
    counting = CountingStore(builder.store)
    report = run_on(counting, optimize_table, OptimizeOptions(), engine=LocalEngine(1))
    assert report.files_removed == 40
    read = [name for names in counting.names.values() for name in names if name in builder.data]
    assert len(read) == len({*read}) == 40
    assert counting.calls["put_if_absent"] == counting.calls["open_output"] == 1
    assert counting.calls["open_input"] == 1
    assert counting.calls["sync_directories"] == 1
    assert counting.calls["list_from"] <= 2
    assert counting.calls["walk"] == counting.calls["delete_many"] == counting.calls["put"] == 0


@pytest.mark.parametrize("feature", ["notYetInvented", "catalogManaged"])
def test_features_that_forbid_it(feature: str) -> None:
    builder = build(0, 0, features=[feature])
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        plan(builder)
    assert caught.value.exit_code == 7


def test_a_file_under_two_absolute_texts_is_left_out(tmp_path: Path) -> None:
    """Kernel readers and Spark disagree whether such a file is live: its owner decides."""
    builder = TableBuilder(tmp_path / "t", [Column("id")])
    (path,) = builder.append([{"id": 1}])
    add = builder.find(path)
    builder.commit({"add": {**add, "path": f"file:{tmp_path}/t/x.parquet"}})
    builder.commit(
        {"remove": {"path": f"{tmp_path}/t/x.parquet", "deletionTimestamp": 1, "dataChange": True}}
    )
    builder.append([{"id": 2}])
    builder.append([{"id": 3}])
    warnings: list[str] = []
    report = Table(str(tmp_path / "t"), warn=warnings.append).optimize(dry_run=True)
    assert report.plan.left_alone[TWO_TEXTS] == 1
    assert report.plan.files.num_rows == 3
    assert "x.parquet" in warnings[0]


def test_a_cancelled_run_commits_what_is_done() -> None:
    builder = build_sample(fresh_store(), layout="partitioned")
    cancel = CancelToken()
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        cancel.set()

    report = run_on(
        builder.store,
        optimize_table,
        OptimizeOptions(),
        engine=LocalEngine(workers=1),
        cancel=cancel,
        on_progress=stop,
    )
    assert report.interrupted
    # While the output of the first bin becomes durable, the next bin begins.
    assert 1 <= len(seen) <= 2 < report.plan.num_bins
    assert {p.bytes_total for p in seen} == {report.plan.bytes_to_rewrite}
    assert seen[-1].bytes_done == report.bytes_removed
    assert len(report.versions) == 1
    assert report.files_added == len(seen)
    assert rows_of(builder) == multiset(builder.rows())


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("features", ["plain", "deletion-vectors", "mapped-by-name"])
def test_other_readers_read_the_result(tmp_path: Path, features: str, reader: str) -> None:
    builder = TableBuilder(
        tmp_path / "t",
        COLUMNS,
        partition_by=["p"],
        features=["deletionVectors"] if features == "deletion-vectors" else [],
        mapping="name" if features == "mapped-by-name" else "none",
    )
    paths = builder.append(
        *([sample_row(10 * i + j, ("a", None, "x y%")[i % 3]) for j in range(5)] for i in range(9))
    )
    if features == "deletion-vectors":
        builder.delete_rows(paths[0], [1, 2])
    assert Table(str(tmp_path / "t")).optimize().files_added == 3
    assert READERS[reader](tmp_path / "t") == len(builder.rows())


@pytest.mark.parametrize(
    ("options", "verified"),
    [
        ({}, ("counts",)),
        ({"verify": "full"}, ("rows",)),
        ({"rewrite": "copy"}, ("bytes",)),
        ({"rewrite": "copy", "verify": "full"}, ("rows",)),
        ({"cluster_by": "id"}, ("rows",)),
        ({"dry_run": True}, ()),
    ],
)
def test_a_report_says_how_rows_were_verified(
    options: dict[str, Any], verified: tuple[str, ...]
) -> None:
    report = run(build(3, 3), **options)
    assert report.verified == verified
    assert report.to_dict()["verified"] == list(verified)


@pytest.mark.parametrize("text", ["true", "false", None])
def test_partition_columns_are_in_new_files_if_the_table_asks(text: str | None) -> None:
    """Delta on Spark 4.4 writes them unless the property is false; readers do not need them."""
    asked = {} if text is None else {"delta.writePartitionColumnsToParquet": text}
    columns = [Column("id"), Column("p", "string")]
    builder = TableBuilder(fresh_store(), columns, partition_by=["p"], properties=asked)
    builder.append(*([{"id": number, "p": "a"}] for number in range(4)))
    assert run(builder).versions
    [output] = DeltaLog(builder.store, ignore_warning).snapshot().files["path"].to_pylist()
    schema = pq.read_schema(builder.store.open_input(output))
    assert schema.names == (["id", "p"] if text == "true" else ["id"])
