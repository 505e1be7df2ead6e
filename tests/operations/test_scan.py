"""Rows of hand-written tables: every feature under every log shape and layout, at every version."""

import io
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError, FileMissingError, UnsupportedFeatureError, UsageError
from deltactl.table import Table
from tests.support.parameters import in_turn
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, multiset
from tests.support.table_samples import COLUMNS, FEATURES, LAYOUTS, build_sample, sample_row

pytestmark = pytest.mark.thorough


@pytest.mark.filterwarnings("ignore::deltactl.table.TableWarning")
@pytest.mark.parametrize(("features", "layout"), in_turn(FEATURES, LAYOUTS))
def test_rows_are_those_written_at_each_version(features: str, layout: str) -> None:
    store = fresh_store()
    builder = build_sample(store, features=features, layout=layout)
    table = Table(store.uri, store=store)
    for version in (0, 3, builder.version - 4, builder.version):
        got = multiset(table.scan(version).read_all().to_pylist())
        assert got == multiset(builder.rows(version)), version


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
    assert table.scan(columns="`ü €`, a.b").schema.names == ["ü €", "a.b"]
    with pytest.raises(UsageError, match="'a.`b`' is a field of the column a, but") as caught:
        table.scan(columns=["a.`b`"])
    assert caught.value.hint == "Read a, and take the field from its values."


def test_a_file_that_is_gone_is_named() -> None:
    store = fresh_store()
    builder = TableBuilder(store, COLUMNS)
    (path,) = builder.append([sample_row(1)])
    store.delete_many([path])
    with pytest.raises(DataFileError, match=path):
        Table(store.uri, store=store).scan().read_all()


def test_a_reader_that_is_older_than_a_vacuum_is_told_to_load_the_table_again(
    tmp_path: Path,
) -> None:
    TableBuilder(tmp_path, COLUMNS).append([sample_row(1)], [sample_row(2)])
    table = Table(tmp_path, warn=lambda _: None)
    reader = table.scan()
    table.optimize()
    table.vacuum(mode="full", retain="0s", force_retention=True)
    with pytest.raises(FileMissingError) as caught:
        reader.read_all()
    assert str(caught.value.hint).startswith("Rerun with the table loaded again: a vacuum")
    assert table.scan().read_all().num_rows == 2


def table_of_file(column: Column, columns: pa.Table) -> Table:
    """One column, and one file with other columns than the schema has."""
    builder = TableBuilder(fresh_store(), [column])
    sink = io.BytesIO()
    pq.write_table(columns, sink)
    builder.store.put("odd.parquet", sink.getvalue())
    builder.commit({"add": {"path": "odd.parquet", "partitionValues": {}, "size": 1}})
    return Table(builder.store.uri, store=builder.store)


@pytest.mark.parametrize(
    ("kind", "type_", "value"),
    [
        ("timestamp", pa.timestamp("ms", "UTC"), 9_223_372_036_854_776),
        ("float", pa.float64(), 0.1),
        ("float", pa.float64(), 1e300),
        ("decimal(5,2)", pa.float64(), 1.239),
        ("decimal(5,2)", pa.decimal128(5, 3), Decimal("1.239")),
        ("double", pa.decimal128(20, 0), Decimal(2**53 + 1)),
        ("date", pa.timestamp("us"), 43_200_000_000),
        ("boolean", pa.int32(), 7),
        ("long", pa.string(), "012"),
        ("long", pa.float64(), 0.5),
        ("integer", pa.int64(), 2**31),
    ],
)
def test_values_that_the_column_would_change_are_an_error(
    kind: str, type_: pa.DataType, value: object
) -> None:
    """A rewrite would make the change last."""
    table = table_of_file(Column("a", kind), pa.table({"a": pa.array([value], type_)}))
    with pytest.raises(DataFileError, match=r"'odd\.parquet': column 'a' cannot be read as "):
        table.scan().read_all()


@pytest.mark.parametrize("names", [["a", "a"], ["a", "b", "b"]])
def test_a_name_that_a_file_has_twice_is_an_error(names: list[str]) -> None:
    arrays = [pa.array([number]) for number, _ in enumerate(names)]
    table = table_of_file(Column("a"), pa.Table.from_arrays(arrays, names=names))
    with pytest.raises(DataFileError, match=r"odd\.parquet.* two columns with the name"):
        table.scan().read_all()


def test_names_that_differ_in_case_alone_are_no_guess() -> None:
    table = table_of_file(Column("Ab"), pa.table({"AB": [1], "c": [2]}))
    assert table.scan().read_all().to_pylist() == [{"Ab": 1}]
    table = table_of_file(Column("Ab"), pa.table({"AB": [1], "ab": [2]}))
    with pytest.raises(DataFileError, match=r"odd\.parquet.*'AB' and 'ab'"):
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
