"""Which row groups and columns are copied, by features of the table and facts of the footers."""

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.operations.optimize import copy_rule, tasks
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.parquet.format import (
    OLD_BOUNDS,
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    RowGroup,
    Statistics,
)
from deltactl.parquet.thrift import Kind, ThriftStruct
from deltactl.table import Table
from tests.parquet.splice.files import (
    change_footer,
    chunk_of,
    find_output,
    make_delta_table,
    optimize,
    read_footer,
    write_files,
)
from tests.support.stores import MemoryStore
from tests.support.table_builder import Column, Row, TableBuilder, multiset

_NUMBERS = itertools.count()
_GROUP = 10


def _builder(*columns: Column, **options: Any) -> TableBuilder:
    store = MemoryStore(f"memory://copied-{next(_NUMBERS)}/t")
    return TableBuilder(store, columns or [Column("id"), Column("text", "string")], **options)


def _rows(start: int, count: int = 3 * _GROUP) -> list[Row]:
    return [{"id": i, "text": f"row {i}"} for i in range(start, start + count)]


def _append(builder: TableBuilder, *files: list[Row], **options: Any) -> list[str]:
    return builder.append(*files, row_group_rows=_GROUP, **options)


def _table(builder: TableBuilder) -> Table:
    return Table(builder.store.uri, store=builder.store, warn=pytest.fail)


def _three_files(**options: Any) -> tuple[TableBuilder, list[str]]:
    """A table of nine row groups, and the paths of its files."""
    builder = _builder(**options)
    return builder, _append(builder, _rows(0), _rows(100), _rows(200))


def _optimize(builder: TableBuilder, rewrite: str = "copy", **options: Any) -> RewriteCounts:
    """Optimize; compare the rows, and what a dry run says."""
    expected = multiset(builder.rows())
    table = _table(builder)
    chosen: Any = {"rewrite": rewrite, "verify": "full", **options}
    planned = table.optimize(OptimizeOptions(**chosen), dry_run=True).rewritten
    done = table.optimize(OptimizeOptions(**chosen)).rewritten
    assert done is not None
    assert planned is not None
    if done.groups_copied:  # the footers of files that are too small are not read in a dry run
        assert planned == done
    else:
        assert planned.reasons.keys() == done.reasons.keys()
    assert multiset(table.scan().read_all().to_pylist()) == expected
    return done


def _stored(builder: TableBuilder) -> pa.Table:
    """Return what the only file has."""
    (name,) = _table(builder).snapshot().files["path"].to_pylist()
    with builder.store.open_input(name) as opened:
        return pq.read_table(opened)


@pytest.mark.parametrize("purge", [False, True])
def test_only_row_groups_with_deleted_rows_are_encoded(purge: bool) -> None:
    builder, paths = _three_files(features=["deletionVectors"])
    builder.delete_rows(paths[1], [_GROUP, _GROUP + 3])
    done = _optimize(builder, purge=purge)
    copied = 2 if purge else 8  # a purge leaves the other files alone
    assert (done.groups_copied, done.groups_encoded) == (copied, 1)
    assert done.reasons == {"deleted rows": 1}


def test_row_groups_without_live_rows_are_left_out() -> None:
    builder, paths = _three_files(features=["deletionVectors"])
    builder.delete_rows(paths[0], range(_GROUP, 2 * _GROUP))
    done = _optimize(builder)
    assert (done.groups_copied, done.groups_encoded) == (8, 1)
    assert _stored(builder).num_rows == 8 * _GROUP


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_a_column_that_files_lack_is_encoded_beside_the_others(mapping: str) -> None:
    builder = _builder(mapping=mapping)
    _append(builder, _rows(0), _rows(100))
    builder.change_metadata(columns=[*builder.columns, Column("added", "long")])
    _append(builder, [{**row, "added": row["id"]} for row in _rows(200)])
    done = _optimize(builder)
    assert (done.groups_copied, done.groups_encoded) == (9, 0)
    assert done.reasons == {"column not in the file": 6}
    assert done.bytes_encoded == 0  # of the inputs


def test_row_ids_are_encoded_beside_the_others_once() -> None:
    builder, _ = _three_files(features=["rowTracking"])
    done = _optimize(builder)
    assert (done.groups_copied, done.groups_encoded) == (9, 0)
    assert done.reasons == {"row ids to write": 9}
    assert _stored(builder)["_row-id-col-1"].to_pylist() == list(range(90))
    builder.note([])  # the version that was just committed
    _append(builder, *(_rows(start) for start in range(1000, 2000, 100)))
    again = _table(builder).optimize(OptimizeOptions(rewrite="copy", verify="full")).rewritten
    assert again is not None
    assert (again.groups_copied, again.groups_encoded) == (39, 0)
    assert again.reasons == {"row ids to write": 30}


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_a_dropped_column_is_left_out_and_a_renamed_one_is_copied(mapping: str) -> None:
    builder = _builder(Column("id"), Column("text", "string"), Column("old"), mapping=mapping)
    files = [[{**row, "old": 1} for row in _rows(start)] for start in (0, 100, 200)]
    _append(builder, *files)
    first, second, _ = builder.columns
    builder.change_metadata(columns=[first, Column.of({**second.to_json(), "name": "words"})])
    done = _optimize(builder)
    assert (done.groups_copied, done.groups_encoded) == (9, 0)
    assert done.reasons == {}
    assert _stored(builder).num_columns == 2


def test_a_widened_column_is_encoded_beside_the_others() -> None:
    builder = _builder(Column("id", "integer"), Column("text", "string"), features=["typeWidening"])
    _append(builder, _rows(0), _rows(100))
    changes = [{"fromType": "integer", "toType": "long"}]
    wide = Column("id", "long", metadata={"delta.typeChanges": changes})
    builder.change_metadata(columns=[wide, Column("text", "string")])
    _append(builder, _rows(200))
    done = _optimize(builder)
    assert (done.groups_copied, done.groups_encoded) == (9, 0)
    assert done.reasons == {"column stored in another way": 6}


def test_partition_columns_that_files_have_are_left_out(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path in paths:
        pq.write_table(pa.table({"id": range(9), "p": [7] * 9}), path)
    make_delta_table(tmp_path, paths, schema)
    (commit,) = (tmp_path / "_delta_log").iterdir()
    text = commit.read_text().replace('"partitionColumns": []', '"partitionColumns": ["p"]')
    commit.write_text(text.replace('"partitionValues": {}', '"partitionValues": {"p": "7"}'))
    report = optimize(tmp_path, "copy")
    assert report.rewritten is not None
    assert (report.rewritten.groups_copied, report.rewritten.reasons) == (2, {})
    (made,) = (tmp_path / "p=7").glob("*.parquet")
    assert pq.ParquetFile(made).schema_arrow.names == ["id"]


@pytest.mark.parametrize(
    ("options", "copied", "reason"),
    [
        ({}, 9, None),
        ({"rewrite": "auto", "min_row_group_bytes": 1}, 9, None),
        ({"rewrite": "auto"}, 0, "below --min-row-group"),
        ({"rewrite": "encode"}, 0, "--rewrite encode"),
        ({"rewrite": "auto", "min_row_group_bytes": 1, "codec": "zstd"}, 0, "another codec"),
        ({"rewrite": "auto", "min_row_group_bytes": 1, "codec": "snappy"}, 9, None),
        ({"rewrite": "auto", "min_row_group_bytes": 1, "codec": "zstd:9"}, 0,
            "--codec with a level"),
    ],
)  # fmt: skip
def test_options_decide_which_row_groups_are_copied(
    options: dict[str, Any], copied: int, reason: str | None
) -> None:
    builder, _ = _three_files()
    done = _optimize(builder, **options)
    assert done.groups_copied == copied
    assert set(done.reasons) == ({reason} if reason else set())


def test_the_codec_that_the_table_asks_for() -> None:
    builder = _builder(properties={"delta.parquet.compression.codec": "zstd"})
    _append(builder, _rows(0))
    _append(builder, _rows(100), _rows(200), codec="zstd")
    done = _optimize(builder)
    assert (done.groups_copied, done.groups_encoded) == (6, 3)
    assert done.reasons == {"another codec": 3}


def test_no_more_row_groups_are_copied_than_a_file_can_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deltactl.operations.optimize.tasks.ROOM_FOR_ROW_GROUPS", 4)
    builder, _ = _three_files()
    expected = multiset(builder.rows())
    table = _table(builder)
    done = table.optimize(OptimizeOptions(rewrite="copy", verify="full")).rewritten
    assert done is not None
    assert (done.groups_copied, done.reasons) == (4, {"too many row groups": 5})
    assert multiset(table.scan().read_all().to_pylist()) == expected


def test_rows_encoded_between_copies_are_row_groups_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltactl.operations.optimize.tasks.ROOM_FOR_ROW_GROUPS", 4)
    builder = _builder(features=["deletionVectors"])
    first, *_ = _append(builder, *(_rows(start, 8 * _GROUP) for start in (0, 100, 200)))
    builder.delete_rows(first, range(_GROUP, 8 * _GROUP, 2 * _GROUP))
    done = _table(builder).optimize(OptimizeOptions(rewrite="copy", verify="full")).rewritten
    assert done is not None
    assert (done.groups_copied, done.groups_encoded) == (3, 21)
    assert done.reasons == {"deleted rows": 4, "too many row groups": 17}


def _change_all(paths: Iterable[Path], change: Callable[[ThriftStruct], None]) -> None:
    for path in paths:
        change_footer(path, change)


def _copied(folder: Path) -> tuple[int, dict[str, int]]:
    report = optimize(folder, "copy")
    assert report.rewritten is not None
    return report.rewritten.groups_copied, dict(report.rewritten.reasons)


def _write(folder: Path, rows: pa.Table, **options: Any) -> list[Path]:
    paths = [folder / f"{number}.parquet" for number in range(2)]
    for path in paths:
        pq.write_table(rows, path, **options)
    return paths


_DELTA_TEXTS = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}


@pytest.mark.parametrize(
    ("writer", "written", "encoded", "copied"),
    [
        # PARQUET-246: readers look at ``created_by``, and the output has another one.
        ("parquet-mr version 1.7.0 (build x)", _DELTA_TEXTS, 2, 2),
        ("parquet-mr version 1.8.0", _DELTA_TEXTS, 0, 2),
        ("parquet-mr version 1.12.3", _DELTA_TEXTS, 0, 2),
        ("parquet-cpp-arrow version 20.0.0", _DELTA_TEXTS, 0, 2),
        ("parquet-mr version 1.2.8", {}, 2, 0),  # PARQUET-816: sizes without a page header
        ("parquet-mr", {}, 2, 0),
        ("parquet-mr version 1.3.0", {}, 0, 2),
        ("parquet-mr compatible Photon version 0.2", {}, 0, 2),
        # ARROW-10353: marks of compressed pages
        ("parquet-cpp version 1.5.1-SNAPSHOT", {}, 2, 0),
        ("parquet-cpp version 2.0.0", {}, 0, 2),
        ("", {}, 0, 2),
    ],
)
def test_what_defective_writers_wrote_is_encoded(
    tmp_path: Path, writer: str, written: dict[str, Any], encoded: int, copied: int
) -> None:
    rows = pa.table({"id": range(50), "text": [f"t{i}" for i in range(50)]})
    paths = _write(tmp_path, rows, **written)
    _change_all(
        paths, lambda footer: footer.set(FileMetaData.CREATED_BY, Kind.BINARY, writer.encode())
    )
    make_delta_table(tmp_path, paths, rows.schema)
    assert _copied(tmp_path) == (copied, {"defective writer": encoded} if encoded else {})
    assert pq.read_table(find_output(tmp_path)) == pa.concat_tables([rows, rows])


def _set_orders(number: int) -> Callable[[ThriftStruct], None]:
    def change(footer: ThriftStruct) -> None:
        for order in footer.members(FileMetaData.COLUMN_ORDERS):
            order.fields = [(number, Kind.STRUCT, ThriftStruct())]

    return change


@pytest.mark.parametrize(("number", "copied"), [(1, 2), (2, 2), (3, 0)])
def test_bounds_in_an_unknown_order_are_not_used(tmp_path: Path, number: int, copied: int) -> None:
    rows = pa.table({"id": range(50), "number": [float(i) for i in range(50)]})
    paths = _write(tmp_path, rows)
    _change_all(paths, _set_orders(number))
    make_delta_table(tmp_path, paths, rows.schema)
    expected = {} if copied else {"statistics missing or inexact": 2}
    assert _copied(tmp_path) == (copied, expected)


def _bounds_of_number(folder: Path) -> tuple[float, float] | None:
    (stats,) = Table(str(folder)).snapshot().files["stats"].to_pylist()
    found = json.loads(stats)
    bounds = (found["minValues"].get("number"), found["maxValues"].get("number"))
    return None if bounds == (None, None) else bounds


@pytest.mark.parametrize(
    ("writer", "order", "nan_count", "bounds", "reads"),
    [
        ("parquet-cpp-arrow version 26.0.0", 1, None, None, True),
        ("parquet-cpp-arrow version 26.0.0", 2, 1, None, True),
        # The order of IEEE 754 leaves NaN out of bounds, whoever wrote them.
        ("parquet-mr version 1.18.0", 2, None, None, True),
        ("parquet-mr version 1.18.0", 1, 1, None, True),
        # The footer is believed, so the rows are not read: it would be seen here.
        ("parquet-cpp-arrow version 26.0.0", 1, 0, (0.0, 49.0), False),
        ("parquet-mr version 1.12.3", 1, None, (0.0, 49.0), False),
    ],
)
def test_a_column_with_nan_is_read_unless_the_footer_tells(
    tmp_path: Path,
    writer: str,
    order: int,
    nan_count: int | None,
    bounds: tuple[float, float] | None,
    reads: bool,
) -> None:
    numbers = [*(float(i) for i in range(50)), float("nan")]
    rows = pa.table({"id": range(51), "number": numbers})
    paths = _write(tmp_path, rows)

    def change(footer: ThriftStruct) -> None:
        footer.set(FileMetaData.CREATED_BY, Kind.BINARY, writer.encode())
        _set_orders(order)(footer)
        statistics = chunk_of(footer, 0, 1).struct(ColumnChunk.META_DATA)
        statistics = statistics.struct(ColumnMetaData.STATISTICS)
        if nan_count is not None:
            statistics.set(Statistics.NAN_COUNT, Kind.I64, nan_count)

    _change_all(paths, change)
    make_delta_table(tmp_path, paths, rows.schema)
    assert _copied(tmp_path) == (2, {})
    assert _bounds_of_number(tmp_path) == bounds
    statistics = chunk_of(read_footer(find_output(tmp_path)), 0, 1).struct(ColumnChunk.META_DATA)
    statistics = statistics.struct(ColumnMetaData.STATISTICS)
    assert (statistics.get(Statistics.MAX_VALUE) is None) == reads
    assert statistics.integer(Statistics.NAN_COUNT) == nan_count


def test_bounds_without_a_defined_order_are_removed(tmp_path: Path) -> None:
    """Old parquet-mr ordered texts as signed bytes; such a footer has no column orders."""
    rows = pa.table({"flag": [None, True], "text": ["a", "é"]})
    paths = _write(tmp_path, rows, write_page_index=True)
    _change_all(paths, lambda footer: footer.drop({FileMetaData.COLUMN_ORDERS}))
    make_delta_table(tmp_path, paths, rows.schema)
    copied, reasons = _copied(tmp_path)
    assert (copied, reasons) == (0, {"statistics missing or inexact": 2})


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        ({"org.apache.spark.version": "2.4.0"}, {"legacy calendar of Spark": 2}),
        (
            {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""},
            {"legacy calendar of Spark": 2},
        ),
        ({"org.apache.spark.version": "3.5.0"}, {}),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyINT96": ""}, {}),
        ({"other": "key"}, {}),
    ],
)
def test_dates_in_the_legacy_calendar_are_encoded(
    tmp_path: Path, facts: dict[str, str], reasons: dict[str, int]
) -> None:
    days = pa.array([7000, None, 12000], pa.int32()).cast(pa.date32())
    rows = pa.table({"id": [1, 2, 3], "day": days})
    paths = _write(tmp_path, rows.replace_schema_metadata(facts))
    make_delta_table(tmp_path, paths, rows.schema)
    assert _copied(tmp_path) == (2, reasons)
    assert pq.read_table(find_output(tmp_path)) == pa.concat_tables([rows, rows])
    # Spark's own dates are proleptic from the version that the output names.
    assert pq.read_metadata(find_output(tmp_path)).metadata == {
        b"org.apache.spark.version": b"3.5.0"
    }


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.timestamp("us", "UTC"), {}),
        (pa.timestamp("ms", "UTC"), {"column stored in another way": 2}),
        (pa.timestamp("us"), {"column stored in another way": 2}),
    ],
)
def test_timestamps_are_copied_only_in_the_unit_and_zone_that_are_written(
    tmp_path: Path, stored: pa.DataType, wanted: dict[str, int]
) -> None:
    rows = pa.table({"id": [1, 2], "time": pa.array([0, 5_000_000], stored)})
    paths = _write(tmp_path, rows)
    schema = pa.schema([("id", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
    make_delta_table(tmp_path, paths, schema)
    assert _copied(tmp_path) == (2, wanted)


def test_nested_columns_are_compared_as_a_whole(tmp_path: Path) -> None:
    """A list whose element has another name, and a struct with a member less."""
    one = pa.list_(pa.field("item", pa.int64()))
    rows = pa.table(
        {
            "id": [1, 2],
            "tags": pa.array([[1], None], one),
            "inner": pa.array([{"a": 1}, {"a": 2}], pa.struct([("a", pa.int64())])),
        }
    )
    paths = _write(tmp_path, rows, use_compliant_nested_type=False)
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.field("element", pa.int64()))),
            ("inner", pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        ]
    )
    make_delta_table(tmp_path, paths, schema)
    report = optimize(tmp_path, "copy")
    assert report.rewritten is not None
    assert report.rewritten.groups_copied == 2
    assert report.rewritten.reasons == {"column stored in another way": 2}
    made = pq.read_table(find_output(tmp_path)).to_pylist()
    assert made[:2] == [
        {"id": 1, "tags": [1], "inner": {"a": 1, "b": None}},
        {"id": 2, "tags": None, "inner": {"a": 2, "b": None}},
    ]


def test_sorting_columns_stay(tmp_path: Path) -> None:
    rows = pa.table({"b": [1, 2, 3], "a": ["x", "y", "z"]})
    order = [pq.SortingColumn(1, descending=True), pq.SortingColumn(0)]
    paths = _write(tmp_path, rows, sorting_columns=order)
    make_delta_table(tmp_path, paths, pa.schema([rows.schema.field("a"), rows.schema.field("b")]))
    assert _copied(tmp_path) == (2, {})
    made = pq.read_metadata(find_output(tmp_path))
    for number in range(made.num_row_groups):
        found = made.row_group(number).sorting_columns
        assert found == (pq.SortingColumn(0, descending=True), pq.SortingColumn(1))


def test_sorting_columns_end_before_the_first_that_is_encoded(tmp_path: Path) -> None:
    """Its values may be others: the rows need not be sorted by it, and by those after it."""
    rows = pa.table({"b": [1, 2, 3], "a": ["x", "y", "z"], "c": [3, 2, 1]})
    order = [pq.SortingColumn(2, descending=True), pq.SortingColumn(1), pq.SortingColumn(0)]
    paths = _write(tmp_path, rows, sorting_columns=order)
    wanted = pa.schema([rows.schema.field("b"), pa.field("a", pa.binary()), rows.schema.field("c")])
    make_delta_table(tmp_path, paths, wanted)
    assert _copied(tmp_path) == (2, {"column stored in another way": 2})
    made = pq.read_metadata(find_output(tmp_path))
    for number in range(made.num_row_groups):
        found = made.row_group(number).sorting_columns
        assert found == (pq.SortingColumn(2, descending=True),)


_PLACES = {
    ColumnMetaData.DATA_PAGE_OFFSET,
    ColumnMetaData.DICTIONARY_PAGE_OFFSET,
    ColumnMetaData.BLOOM_FILTER_OFFSET,
    ColumnMetaData.BLOOM_FILTER_LENGTH,
}


@pytest.mark.parametrize("writer", ["pyarrow with indexes", "pyarrow with Bloom filters", "DuckDB"])
def test_all_that_footers_say_of_a_chunk_stays_but_for_offsets(tmp_path: Path, writer: str) -> None:
    """Size statistics, encoding statistics, and what this version of the format does not know."""
    paths = write_files(tmp_path, [writer] * 3)
    optimize(tmp_path, "copy")
    made = read_footer(find_output(tmp_path))
    before = read_footer(paths[0])
    groups = made.members(FileMetaData.ROW_GROUPS)
    assert [group.integer(RowGroup.ORDINAL) for group in groups] == list(range(len(groups)))
    first = groups[0].integer(RowGroup.FILE_OFFSET)
    assert first == 4
    for column in (0, 2, 5):  # without floats and nested columns, whose bounds may be removed
        was, now = (
            chunk_of(footer, 0, column).struct(ColumnChunk.META_DATA) for footer in (before, made)
        )
        for struct in (was, now):
            struct.drop(_PLACES)
            struct.struct(ColumnMetaData.STATISTICS).drop(OLD_BOUNDS)
        assert now == was


@pytest.mark.parametrize("max_footers", [3, 5])
def test_a_dry_run_reads_a_bounded_number_of_footers(
    max_footers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_rule, "MAX_FOOTERS", max_footers)
    builder = _builder()
    _append(builder, *[_rows(100 * n) for n in range(9)])
    read: list[str] = []
    examine = copy_rule._forecast_file

    def note(store: Any, rule: Any, file: Any) -> RewriteCounts:
        read.append(file.path)
        return examine(store, rule, file)

    monkeypatch.setattr(copy_rule, "_forecast_file", note)
    table = _table(builder)
    planned = table.optimize(OptimizeOptions(rewrite="copy"), dry_run=True).rewritten
    done = table.optimize(OptimizeOptions(rewrite="copy")).rewritten
    assert planned is not None
    assert done is not None
    assert len(set(read)) == len(read) == planned.estimated_from == max_footers
    assert planned.groups_copied == done.groups_copied == 27
    assert planned.bytes_copied == pytest.approx(done.bytes_copied, rel=0.1)
    assert done.estimated_from is None


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether an output was open, at each time a bin left its core."""
    writers: list[Any] = []
    opened = tasks._open_writer

    def open_writer(*given: Any) -> Any:
        writers.append(opened(*given))
        return writers[-1]

    left: list[bool] = []
    monkeypatch.setattr(tasks, "_open_writer", open_writer)
    monkeypatch.setattr(tasks, "release_core", lambda: left.append(bool(writers)))
    return left


@pytest.mark.parametrize(("rewrite", "waits"), [("copy", True), ("auto", False), ("encode", False)])
def test_a_bin_leaves_its_core_at_once_if_an_object_store_may_copy_all_its_files(
    rewrite: Any, waits: bool, leaves: list[bool]
) -> None:
    builder, _ = _three_files()
    _table(builder).optimize(OptimizeOptions(rewrite=rewrite))
    assert leaves == ([False, True] if waits else [True])


def test_a_bin_on_a_local_disk_leaves_its_core_when_it_is_written(
    tmp_path: Path, leaves: list[bool]
) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("text", "string")])
    _append(builder, _rows(0), _rows(100), _rows(200))
    Table(str(tmp_path)).optimize(OptimizeOptions(rewrite="copy"))
    assert leaves == [True]


def test_a_bin_that_is_verified_by_its_rows_keeps_its_core(leaves: list[bool]) -> None:
    builder, _ = _three_files()
    _table(builder).optimize(OptimizeOptions(rewrite="encode", verify="full"))
    assert leaves == []
