import json
import pickle
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.errors import DataFileError, StorageError, UnsupportedFeatureError
from deltactl.parquet.null_counts import COUNTS_NULL_LISTS, count_nulls
from deltactl.parquet.writer import DataFileWriter, WriteOptions, WrittenFile
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import PARQUET_FIELD_ID
from deltactl.protocol.stats_columns import StatsColumns
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.parquet.tables import all_columns, has_nan, leaf_type, leaf_values, physical, tables
from tests.support.forwarding import ForwardingStore
from tests.support.stores import MemoryStore
from tests.support.table_builder import Column, struct_of

NAME = "p=1/part-0.parquet"
NO_STATS = StatsColumns()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


def write(
    store: Store,
    table: pa.Table,
    options: WriteOptions | None = None,
    stats: StatsColumns = NO_STATS,
    *,
    batch_rows: int | None = None,
) -> WrittenFile:
    with DataFileWriter(store, NAME, table.schema, options or WriteOptions(), stats) as writer:
        for batch in table.to_batches(batch_rows):
            writer.write(batch)
        return writer.close()


def open_parquet(store: Store) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(store.read(NAME)))


@settings(max_examples=60)
@given(made=tables(), batch_rows=st.integers(1, 9), group_rows=st.integers(1, 9))
def test_rows_and_statistics_survive(
    made: tuple[Metadata, pa.Table], batch_rows: int, group_rows: int
) -> None:
    metadata, table = made
    columns = all_columns(metadata)
    store = MemoryStore("memory://writer")
    store.delete_many([NAME])
    written = write(
        store, table, WriteOptions(row_group_rows=group_rows), columns, batch_rows=batch_rows
    )
    stored = open_parquet(store)
    # By their texts: NaN equals NaN there, and -0.0 does not equal 0.0.
    assert repr(stored.read().to_pylist()) == repr(table.to_pylist())
    assert stored.metadata.num_row_groups >= -(-len(table) // group_rows)
    assert written.num_rows == len(table)
    assert written.size_bytes == len(store.read(NAME))
    if COUNTS_NULL_LISTS:
        assert set(written.null_counts) == set(table.column_names)
    for name in written.null_counts:
        nulls = sum(count_nulls(chunk) for chunk in table.column(name).chunks)
        assert written.null_counts[name] == nulls
    check_stats(json.loads(written.stats_json, parse_float=str), table, columns)


def check_stats(stats: dict[str, Any], table: pa.Table, columns: StatsColumns) -> None:
    assert stats["numRecords"] == len(table)
    for leaf in columns.leaves:
        values = leaf_values(table, leaf.path)
        nulls, low, high = (
            pick(stats.get(key), leaf.path) for key in ("nullCount", "minValues", "maxValues")
        )
        assert nulls == sum(value is None for value in values)
        if not leaf.has_bounds or has_nan(values) or nulls == len(values):
            assert low is None
            assert high is None
        elif leaf.kind in {"integer", "decimal", "float"}:
            type_ = leaf_type(table, leaf.path)
            present = list(physical(values, type_))
            assert number(low, type_) == min(present)
            assert number(high, type_) == max(present)
        elif leaf.kind == "string":
            present = sorted(value.encode() for value in values if value is not None)
            assert low.encode() <= present[0]
            assert high is None or present[-1] <= high.encode()
        elif leaf.kind == "date":
            present = sorted(value for value in values if value is not None)
            assert (low, high) == (present[0].isoformat(), present[-1].isoformat())


def number(text: Any, type_: pa.DataType) -> Any:
    return pa.scalar(str(text)).cast(type_).as_py()


def pick(node: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    return node


def test_physical_types_are_those_of_delta(store: Store) -> None:
    field_id = {PARQUET_FIELD_ID: b"7"}
    schema = pa.schema(
        [
            pa.field("byte", pa.int8(), metadata=field_id),
            pa.field("ts", pa.timestamp("us", "UTC")),
            pa.field("ntz", pa.timestamp("us")),
            pa.field("short", pa.decimal128(9, 2)),
            pa.field("long", pa.decimal128(18, 2)),
            pa.field("wide", pa.decimal128(19, 2)),
            pa.field("l", pa.list_(pa.field("element", pa.struct([pa.field("x", pa.int32())])))),
            pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int32(), metadata=field_id))),
        ]
    )
    write(store, schema.empty_table())
    stored = open_parquet(store)
    text = str(stored.schema)
    for line in (
        "optional int32 field_id=7 byte (Int(bitWidth=8, isSigned=true))",
        "optional int64 field_id=-1 ts (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
        "optional int64 field_id=-1 ntz (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds",
        "optional int32 field_id=-1 short (Decimal(precision=9, scale=2))",
        "optional int64 field_id=-1 long (Decimal(precision=18, scale=2))",
        "optional fixed_len_byte_array(9) field_id=-1 wide (Decimal(precision=19, scale=2))",
        "repeated group field_id=-1 list",
        "optional group field_id=-1 element",
        "repeated group field_id=-1 key_value",
        "required binary field_id=-1 key (String)",
        "optional int32 field_id=7 value",
    ):
        assert line in text
    assert set(stored.metadata.metadata) == {b"org.apache.spark.version"}  # no schema of Arrow's
    assert stored.schema_arrow.equals(schema)


@pytest.mark.parametrize(
    ("codec", "level", "stored"),
    [
        ("zstd", 3, "ZSTD"),
        ("zstd", None, "ZSTD"),
        ("snappy", None, "SNAPPY"),
        ("snappy", 9, "SNAPPY"),
        ("gzip", 1, "GZIP"),
        ("lz4", None, "LZ4"),
        ("brotli", 1, "BROTLI"),
        ("none", None, "UNCOMPRESSED"),
    ],
)
def test_a_file_has_the_requested_codec(
    store: Store, codec: str, level: int | None, stored: str
) -> None:
    table = pa.table({"c": range(10)})
    write(store, table, WriteOptions(codec, level))
    file = open_parquet(store)
    assert file.metadata.row_group(0).column(0).compression == stored
    assert file.read() == table


def test_row_groups_are_bounded_in_bytes(store: Store) -> None:
    table = pa.table({"c": ["x" * 1000] * 1000})
    write(store, table, WriteOptions(row_group_bytes=100_000), batch_rows=77)
    metadata = open_parquet(store).metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sum(sizes) == 1000
    assert max(sizes) <= 100
    assert min(sizes[:-1]) >= 95


def test_a_row_larger_than_a_row_group_stands_alone(store: Store) -> None:
    table = pa.table({"c": ["x" * 10_000] * 3})
    write(store, table, WriteOptions(row_group_bytes=100))
    assert open_parquet(store).metadata.num_row_groups == 3


def test_schema_of_the_file_wins_over_that_of_the_batch(store: Store) -> None:
    schema = pa.schema([pa.field("c", pa.int64(), metadata={PARQUET_FIELD_ID: b"3"})])
    with DataFileWriter(store, NAME, schema, WriteOptions(), NO_STATS) as writer:
        writer.write(pa.record_batch({"c": [1]}))
        writer.close()
    assert "field_id=3 c" in str(open_parquet(store).schema)


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([]),
        pa.schema([("v", pa.null())]),
        pa.schema([("l", pa.list_(pa.null()))]),
        pa.schema([("m", pa.map_(pa.string(), pa.null()))]),
        pa.schema([("s", pa.struct([("t", pa.struct([]))]))]),
    ],
)
def test_what_parquet_cannot_hold_is_refused(store: Store, schema: pa.Schema) -> None:
    with pytest.raises(UnsupportedFeatureError):
        DataFileWriter(store, NAME, schema, WriteOptions(), NO_STATS)
    assert store.stat_many([NAME]) == [None]


def test_leaving_without_close_discards(store: Store) -> None:
    table = pa.table({"c": range(10)})
    with DataFileWriter(store, NAME, table.schema, WriteOptions(row_group_rows=5), NO_STATS) as w:
        w.write(table.to_batches()[0])
    assert store.stat_many([NAME]) == [None]
    w.abort()


def test_an_error_discards(store: Store) -> None:
    table = pa.table({"c": range(10)})
    with (
        pytest.raises(KeyError),
        DataFileWriter(store, NAME, table.schema, WriteOptions(), NO_STATS) as writer,
    ):
        writer.write(table.to_batches()[0])
        raise KeyError
    assert store.stat_many([NAME]) == [None]


def test_nulls_where_none_may_be_are_an_error_that_names_the_file(store: Store) -> None:
    schema = pa.schema([pa.field("c", pa.int64(), nullable=False)])
    with (
        pytest.raises(DataFileError, match=r"part-0\.parquet"),
        DataFileWriter(store, NAME, schema, WriteOptions(), NO_STATS) as writer,
    ):
        writer.write(pa.record_batch({"c": pa.array([None], pa.int64())}))
        writer.close()
    assert store.stat_many([NAME]) == [None]


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"a": ["1"], "b": [1]}),
        pa.record_batch({"b": [1], "a": [1]}),
        pa.record_batch({"a": [1]}),
    ],
)
def test_a_batch_of_other_columns_is_an_error(store: Store, batch: pa.RecordBatch) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with (
        pytest.raises(DataFileError, match=r"part-0\.parquet"),
        DataFileWriter(store, NAME, schema, WriteOptions(), NO_STATS) as writer,
    ):
        writer.write(batch)


class _Faulty(ForwardingStore):
    """Fails at the n-th write to an output, or swaps what was stored."""

    def __init__(self, inner: Store, fail_at: int, swap: bytes | None = None) -> None:
        super().__init__(inner)
        self.fail_at = fail_at
        self.swap = swap

    def open_output(self, name: str) -> BinaryIO:
        sink = super().open_output(name)
        write, close = sink.write, sink.close
        left = iter(range(self.fail_at))

        def failing(data: Any) -> int:
            if next(left, None) is None:
                raise StorageError(f"{name}: no space")
            return write(data)

        def closing() -> None:
            close()
            if self.swap is not None:
                self.put(name, self.swap)

        sink.write, sink.close = failing, closing  # type: ignore[method-assign]
        return sink


@pytest.mark.parametrize("fail_at", range(8))
def test_a_failing_store_leaves_nothing(store: Store, fail_at: int) -> None:
    table = pa.table({"c": range(10), "s": ["a"] * 10})
    with pytest.raises(StorageError, match="no space"):
        write(_Faulty(store, fail_at), table, WriteOptions(row_group_rows=5))
    assert store.stat_many([NAME]) == [None]


def test_what_was_stored_is_looked_at(store: Store) -> None:
    table = pa.table({"c": range(10)})
    write(store, table.slice(1))
    fewer = store.read(NAME)
    store.delete_many([NAME])
    with pytest.raises(DataFileError, match="10 rows were written, but the stored file has 9"):
        write(_Faulty(store, 1000, fewer), table)
    with pytest.raises(DataFileError, match="part-0"):
        write(_Faulty(store, 1000, fewer[:-5]), table)
    assert store.stat_many([NAME]) == [None]


def test_nan_takes_the_bounds_of_its_leaf_alone(store: Store) -> None:
    struct = pa.array([{"x": float("nan")}, None])
    table = pa.table({"f": [1.0, 2.0], "g": [float("nan"), 1.0], "s": struct})
    inner = struct_of(Column("x", "double"))
    node = struct_of(Column("f", "double"), Column("g", "double"), Column("s", inner))
    columns = all_columns(Metadata("id", json.dumps(node)))
    written = write(store, table, None, columns, batch_rows=1)
    assert written.stats_json == (
        '{"numRecords":2,"minValues":{"f":1.0,"s":{}},"maxValues":{"f":2.0,"s":{}},'
        '"nullCount":{"f":0,"g":0,"s":{"x":1}}}'
    )


def test_options_and_results_travel(store: Store) -> None:
    written = write(store, pa.table({"c": [1]}))
    assert pickle.loads(pickle.dumps(written)) == written
    assert pickle.loads(pickle.dumps(WriteOptions())) == WriteOptions()
