"""Rows of hand-written tables: every feature under every log shape and layout, at every version."""

from __future__ import annotations

import io
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError, UnsupportedFeatureError, UsageError
from deltactl.table import Table
from tests.support.stores import MemoryStore
from tests.support.table_builder import (
    COLUMNS,
    FEATURES,
    LAYOUTS,
    SHAPES,
    Column,
    TableBuilder,
    build_sample,
    multiset,
    sample_row,
)

_NUMBERS = itertools.count()


def fresh_store() -> MemoryStore:
    return MemoryStore(f"memory://scan/{next(_NUMBERS)}")


@pytest.mark.filterwarnings("ignore::deltactl.table.TableWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("features", FEATURES)
def test_rows_are_those_written_at_each_version(features: str, layout: str) -> None:
    store = fresh_store()
    builder = build_sample(store, features=features, layout=layout)
    table = Table(store.uri, store=store)
    for version in (0, 3, builder.version - 4, builder.version):
        got = multiset(table.scan(version).read_all().to_pylist())
        assert got == multiset(builder.rows(version)), version


@pytest.mark.filterwarnings("ignore::deltactl.table.TableWarning")
@pytest.mark.parametrize("features", ["deletion-vectors", "mapped-by-id", "in-commit-timestamps"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_the_log_changes_nothing(shape: str, features: str) -> None:
    store = fresh_store()
    builder = build_sample(store, shape=shape, features=features, layout="partitioned")
    table = Table(store.uri, store=store)
    assert multiset(table.scan().read_all().to_pylist()) == multiset(builder.rows())
    snapshot = table.snapshot()
    assert snapshot.num_files == len(builder.state.files)
    assert snapshot.size_bytes == sum(add["size"] for add in builder.state.files.values())


def test_columns_come_in_the_order_asked_for() -> None:
    store = fresh_store()
    build_sample(store, layout="partitioned")
    table = Table(store.uri, store=store)
    reader = table.scan(columns=["d", "P", "id"])
    assert reader.schema.names == ["d", "p", "id"]
    assert reader.schema.field("p").type == pa.string()
    only_partition = table.scan(columns=["p"]).read_all()
    assert only_partition.num_rows == table.scan().read_all().num_rows
    with pytest.raises(UsageError, match="no column 'nope'"):
        table.scan(columns=["nope"])


def test_names_with_dots_and_wide_names_are_kept_apart() -> None:
    store = fresh_store()
    columns = [
        Column("a.b", "long"),
        Column("a", {"type": "struct", "fields": [Column("b", "long").to_json()]}),
        Column("a`b", "string"),
        Column("ü €", "string"),
    ]
    builder = TableBuilder(store, columns)
    builder.append([{"a.b": 1, "a": {"b": 2}, "a`b": "3", "ü €": "4"}])
    table = Table(store.uri, store=store)
    assert table.scan().read_all().to_pylist() == builder.rows()
    assert table.scan(columns=["a.b"]).read_all().to_pylist() == [{"a.b": 1}]


def test_a_file_that_is_gone_is_named() -> None:
    store = fresh_store()
    builder = TableBuilder(store, COLUMNS)
    (path,) = builder.append([sample_row(1)])
    store.delete_many([path])
    with pytest.raises(DataFileError, match=path):
        Table(store.uri, store=store).scan().read_all()


def test_a_time_beyond_microseconds_is_an_error() -> None:
    """Arrow would wrap it round to another age."""
    builder = TableBuilder(fresh_store(), [Column("t", "timestamp")])
    sink = io.BytesIO()
    times = pa.array([0, 9_223_372_036_854_776], pa.timestamp("ms", "UTC"))
    pq.write_table(pa.table({"t": times}), sink)
    builder.store.put("far.parquet", sink.getvalue())
    builder.commit({"add": {"path": "far.parquet", "partitionValues": {}, "size": 1}})
    table = Table(builder.store.uri, store=builder.store)
    with pytest.raises(DataFileError, match="'t' cannot be read as timestamp"):
        table.scan().read_all()


def test_an_unknown_feature_is_refused_before_the_first_row() -> None:
    store = fresh_store()
    TableBuilder(store, COLUMNS, features=["notYetInvented"])
    with pytest.raises(UnsupportedFeatureError, match="notYetInvented"):
        Table(store.uri, store=store).scan()


def test_a_deletion_vector_for_more_rows_than_there_are_is_an_error() -> None:
    store = fresh_store()
    builder = TableBuilder(store, COLUMNS, features=["deletionVectors"])
    (path,) = builder.append([sample_row(i) for i in range(4)])
    builder.delete_rows(path, [9])
    with pytest.raises(DataFileError, match="deletes row 9 of a file with 4 rows"):
        Table(store.uri, store=store).scan().read_all()
