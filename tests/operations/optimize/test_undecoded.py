"""Columns whose type is not decoded: row groups are copied, and no command is stopped by them."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError, UnsupportedFeatureError
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.report import OptimizeReport
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.parquet.format import FileMetaData, SchemaElement
from deltactl.parquet.thrift import Kind, ThriftStruct
from deltactl.table import Table
from tests.parquet.splice.files import change_footer, read_footer
from tests.support.table_builder import Column, Row, TableBuilder, array_of, struct_of

_GEOMETRY: Final = 17  # field of LogicalType
_FUTURE: Final = 60
_MONTHS: Final = "interval year to month"
_OTHERWISE: Final = (
    "cannot be copied: column stored in another way (the type of column '%s' is not decoded)"
)


@dataclass(frozen=True)
class Kept:
    """A type of the table, the type in which its files store it, and perhaps an annotation."""

    name: Any
    stored: Any
    values: Sequence[Any]
    logical: int | None = None
    feature: str | None = None


KEPT: Final = {
    "interval of months": Kept(_MONTHS, "integer", [14, None, -3]),
    "interval of days": Kept("interval day to second", "long", [10**12, None, -1]),
    "geometry": Kept(
        "geometry(OGC:CRS84)", "binary", [b"\1\2", None, b""], _GEOMETRY, "geospatial"
    ),
    "nanoseconds": Kept("timestamp_nanos", "long", [1, None, 2**60], None, "timestampNanos"),
    "of the future": Kept("time(6)", "long", [1, None, 3], _FUTURE),
    "in a struct": Kept(
        struct_of(Column("n"), Column("i", _MONTHS), Column("l", array_of("long"))),
        struct_of(Column("n"), Column("i", "integer"), Column("l", array_of("long"))),
        [{"n": 1, "i": 2, "l": [1, None]}, None, {"n": None, "i": None, "l": None}],
    ),
}  # fmt: skip


def _builder(root: Path, kept: Kept, files: int = 4, **options: Any) -> TableBuilder:
    """Files of three rows in row groups of two; then the type of the column is the kept one."""
    columns = [Column("id"), Column("x", kept.stored)]
    options["features"] = [*options.get("features", ()), *([kept.feature] if kept.feature else ())]
    builder = TableBuilder(root, columns, **options)
    for number in range(files):
        _append(builder, root, number, kept)
    _set_type(builder, kept)
    return builder


def _append(builder: TableBuilder, root: Path, number: int, kept: Kept) -> str:
    rows: list[Row] = [{"id": 3 * number + i, "x": v} for i, v in enumerate(kept.values)]
    # Bounds of such a type are of no order that is known here.
    bounds = {"id": 3 * number, "x": "POINT (1 2)"}
    stats = {"numRecords": len(rows), "minValues": bounds, "maxValues": bounds}
    stats["nullCount"] = {"x": {"l": 2}}  # ignored if there is no list
    add = builder.write_file(rows, row_group_rows=2, stats=json.dumps(stats))
    path: str = add["add"]["path"]
    if kept.logical is not None:
        change_footer(root / path, lambda footer: _annotate(footer, kept.logical or 0))
        add["add"]["size"] = (root / path).stat().st_size
    builder.commit(add)
    return path


def _set_type(builder: TableBuilder, kept: Kept) -> None:
    first, second = builder.columns
    builder.change_metadata(columns=[first, Column("x", kept.name, True, second.metadata)])


def _annotate(footer: ThriftStruct, number: int, text: bytes = b"OGC:CRS84") -> None:
    kind = ThriftStruct([(1, Kind.BINARY, text)])
    element = footer.members(FileMetaData.SCHEMA)[-1]
    element.set(
        SchemaElement.LOGICAL_TYPE, Kind.STRUCT, ThriftStruct([(number, Kind.STRUCT, kind)])
    )


def _table(builder: TableBuilder) -> Table:
    return Table(builder.store.uri, store=builder.store, warn=pytest.fail)


def _optimize(builder: TableBuilder, **options: Any) -> OptimizeReport:
    chosen = OptimizeOptions(**{"verify": "full", **options})
    planned = _table(builder).optimize(chosen, dry_run=True)
    done = _table(builder).optimize(chosen)
    assert planned.rewritten == done.rewritten
    assert planned.plan.left_alone == done.plan.left_alone
    assert _table(builder).optimize(chosen, dry_run=True).plan.is_empty
    return done


def _live(builder: TableBuilder) -> list[Path]:
    root = builder.store.uri.removeprefix("file://")
    return [Path(root, path) for path in _table(builder).snapshot().files["path"].to_pylist()]


def _read(paths: Sequence[Path]) -> list[Row]:
    """Return the rows as files have them; a file may lack a column."""
    found = [row for path in paths for row in pq.read_table(path, partitioning=None).to_pylist()]
    return sorted(found, key=lambda row: str(row["id"] if "id" in row else row["c1"]))


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT.keys())
@pytest.mark.parametrize("options", [{}, {"rewrite": "encode"}, {"codec": "zstd:3"}], ids=str)
def test_row_groups_are_copied_whatever_their_size(
    tmp_path: Path, kept: Kept, options: dict[str, Any]
) -> None:
    builder = _builder(tmp_path, kept)
    before = _live(builder)
    rows, stored = _read(before), read_footer(before[0]).members(FileMetaData.SCHEMA)[2:]
    report = _optimize(builder, **options)
    (output,) = _live(builder)
    assert _read([output]) == rows
    assert read_footer(output).members(FileMetaData.SCHEMA)[2:] == stored
    assert report.rewritten is not None
    assert report.rewritten.copied_because == {"the type of column 'x' is not decoded": 8}
    stats = json.loads(_table(builder).snapshot().files["stats"][0].as_py())
    assert stats["numRecords"] == 12
    assert stats["nullCount"]["x"] == (
        4 if kept.stored != KEPT["in a struct"].stored else {"n": 8, "i": 8, "l": 8}
    )
    assert "x" not in stats["minValues"]
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (0, 11)


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_row_ids_and_mapped_names_are_kept(tmp_path: Path, mapping: str) -> None:
    kept = KEPT["geometry"]
    builder = _builder(tmp_path, kept, mapping=mapping, features=["rowTracking", "domainMetadata"])
    adds = builder.state.files
    _optimize(builder)
    (output,) = _live(builder)
    stored = pq.read_table(output)
    expected = [add["baseRowId"] + i for add in adds.values() for i in range(3)]
    assert sorted(stored["_row-id-col-1"].to_pylist()) == expected
    assert stored[builder.columns[1].physical].to_pylist() == list(kept.values) * 4
    column = stored.schema.field(builder.columns[1].physical)
    assert (column.metadata or {}).get(b"PARQUET:field_id") == (None if mapping == "none" else b"2")


def test_files_with_deleted_rows_stay_unless_whole_row_groups_are_deleted(tmp_path: Path) -> None:
    builder = _builder(tmp_path, KEPT["geometry"], features=["deletionVectors"])
    paths = sorted(path for path, _ in builder.state.files)
    builder.delete_rows(paths[0], [0])
    builder.delete_rows(paths[1], [2])
    builder.delete_rows(paths[2], [0, 1])
    report = _optimize(builder, purge=False, max_deleted_rows_ratio=0)
    assert report.plan.left_alone == {
        "cannot be copied: deleted rows (the type of column 'x' is not decoded)": 1
    }
    live = _live(builder)
    assert {path.name for path in live} & set(paths) == {paths[0]}
    (output,) = (path for path in live if path.name not in paths)
    assert [row["id"] for row in _read([output])] == [10, 11, 3, 4, 8, 9]


@pytest.mark.parametrize(
    "change",
    [
        lambda footer: _annotate(footer, _GEOMETRY, b"EPSG:4326"),
        lambda footer: footer.members(FileMetaData.SCHEMA)[-1].drop({SchemaElement.LOGICAL_TYPE}),
    ],
    ids=["another coordinate system", "no annotation"],
)  # fmt: skip
def test_files_that_store_the_type_in_another_way_get_their_own_output(
    tmp_path: Path, change: Callable[[ThriftStruct], None]
) -> None:
    builder = _builder(tmp_path, KEPT["geometry"])
    for path in _live(builder)[:2]:
        other = tmp_path / f"other-{path.name}"
        other.write_bytes(path.read_bytes())
        change_footer(other, change)
        builder.commit(builder.adopt(other.name, stats='{"numRecords":3}'))
    rows = _read(_live(builder))
    assert _optimize(builder).files_added == 2
    assert _read(_live(builder)) == rows


def test_files_that_lack_the_column_or_have_another_name_for_it(tmp_path: Path) -> None:
    builder = _builder(tmp_path, KEPT["interval of months"])
    for number, name in enumerate(["y", "y", "X"]):
        path = tmp_path / f"other-{number}.parquet"
        columns = {"id": pa.array([20 + number]), name: pa.array([5], pa.int32())}
        pq.write_table(pa.table(columns).select([0] if name == "y" else [0, 1]), path)
        builder.commit(builder.adopt(path.name, stats='{"numRecords":1}'))
    report = _optimize(builder)
    assert report.files_added == 2
    assert report.plan.left_alone == {_OTHERWISE % "x": 1}
    assert [pq.read_schema(path).names for path in sorted(_live(builder))] == [
        ["id", "X"], ["id", "x"], ["id"],
    ]  # fmt: skip


def test_partition_values_are_grouped_by_their_text(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("p", "string")], partition_by=["p"])
    texts = ["INTERVAL '1-2' YEAR TO MONTH", "1-2", None]
    for number in range(6):
        builder.append([{"id": number, "p": texts[number % 3]}])
    builder.change_metadata(columns=[Column("id"), Column("p", "interval year to month")])
    before = builder.state.files
    assert _optimize(builder).files_added == 3
    found = _table(builder).snapshot().files["partition_values"].to_pylist()
    assert sorted(map(str, found)) == sorted(str([("p", text)]) for text in texts)
    assert len(before) == 6


@pytest.mark.parametrize("options", [{"cluster_by": "id"}, {"zorder_by": "id"}], ids=str)
def test_rows_cannot_be_sorted(tmp_path: Path, options: dict[str, Any]) -> None:
    builder = _builder(tmp_path, KEPT["geometry"])
    with pytest.raises(UnsupportedFeatureError, match="the type of column 'x' is not decoded"):
        _table(builder).optimize(OptimizeOptions(**options))


@pytest.mark.parametrize(
    ("feature", "name"),
    [
        ("geospatial", "point"),
        ("geospatial-dev", "point"),
        ("timestampNanos", "timestamp_nanos"),
        (None, _MONTHS),
        (None, "time(6)"),
    ],
)
def test_commands_that_read_no_rows_do_not_need_the_type(
    tmp_path: Path, feature: str | None, name: str
) -> None:
    kept = Kept(name, "binary", [b"1", b"2", b"3"], feature=feature)
    builder = _builder(tmp_path / "t", kept)
    table = _table(builder)
    assert table.detail().refusals == {}
    table.optimize()
    table.restore(RestoreOptions(version=builder.version))
    assert table.checkpoint(CheckpointOptions(cleanup=True)).written is not None
    assert table.history().num_rows == builder.version + 3
    table.vacuum(VacuumOptions(), dry_run=True)
    table.generate_manifest(ManifestOptions())
    table.clone(str(tmp_path / "copy"), CloneOptions(deep=True))
    copied = Table(str(tmp_path / "copy"))
    assert copied.snapshot().num_files == len(builder.state.files)
    assert set(table.check().count_codes()) == set(), table.check().findings
    with pytest.raises(
        UnsupportedFeatureError, match=re.escape(f"column type '{name}' is not supported")
    ):
        table.scan()
    assert table.scan(columns=["id"]).read_all().num_rows == 12


def test_strings_with_a_collation_are_decoded(tmp_path: Path) -> None:
    collation = {"__COLLATIONS": {"x": "spark.UTF8_LCASE"}}
    columns = [Column("id"), Column("x", "string", True, collation)]
    builder = TableBuilder(tmp_path, columns, features=["collations"])
    builder.append([{"id": 0, "x": "b"}], [{"id": 1, "x": "C"}])
    schema = _table(builder).snapshot().metadata.schema_string
    _optimize(builder)
    snapshot = _table(builder).snapshot()
    assert snapshot.metadata.schema_string == schema
    stats = json.loads(snapshot.files["stats"][0].as_py())
    # In the order of UTF-8, as PROTOCOL.md has it for bounds of strings.
    assert (stats["minValues"]["x"], stats["maxValues"]["x"]) == ("C", "b")


_LOWER: Final = "0rAfabWhTiwQbUe0S-o32]H.-0000000000"  # {"$['key']": 200}
_UPPER: Final = "0rAfabWhTiwQbUe0S-o32]I4&0000000000"  # 209
_NO_NAMES: Final = b"\1\0\0"
_LONG: Final = pa.int64()


def _write_variants(
    root: Path, *, may_shred: bool, wrong: bool = False, typed: pa.DataType = _LONG
) -> TableBuilder:
    """Two files with numbers that are shredded, and one text that is not."""
    builder = TableBuilder(
        root,
        [Column("v", "variant")],
        features=["variantType", "variantShredding", "deletionVectors"],
        properties={"delta.enableVariantShredding": str(may_shred).lower()},
    )
    text: Row = {"metadata": _NO_NAMES, "value": b"\x05x", "typed_value": 1 if wrong else None}
    number: Row = {"metadata": _NO_NAMES, "value": None, "typed_value": 7}
    binary = pa.binary()
    kind = pa.struct([("metadata", binary), ("value", binary), ("typed_value", typed)])
    for name, bound in {"a.parquet": _LOWER, "b.parquet": _UPPER}.items():
        pq.write_table(pa.table({"v": pa.array([text, number, None], kind)}), root / name)
        stats = {"numRecords": 3, "minValues": {"v": bound}, "maxValues": {"v": bound}}
        builder.commit(builder.adopt(name, stats=json.dumps(stats)))
    return builder


@pytest.mark.parametrize("may_shred", [True, False])
def test_variants_stay_shredded_only_if_the_table_allows_it(
    tmp_path: Path, may_shred: bool
) -> None:
    builder = _write_variants(tmp_path, may_shred=may_shred)
    rows = _table(builder).scan().read_all().to_pylist()
    report = _optimize(builder) if may_shred else _table(builder).optimize()
    assert _table(builder).scan().read_all().to_pylist() == rows
    (output,) = _live(builder)
    assert ("typed_value" in str(pq.read_schema(output))) == may_shred
    assert report.rewritten is not None
    assert bool(report.rewritten.copied_because) == may_shred
    stats = json.loads(_table(builder).snapshot().files["stats"][0].as_py())
    assert stats == {
        "numRecords": 6,
        "minValues": {"v": _LOWER},
        "maxValues": {"v": _UPPER},
        "nullCount": {"v": 2},
        "tightBounds": True,
    }


@pytest.mark.parametrize("may_shred", [True, False])
def test_shredded_variants_beside_a_type_that_is_not_decoded(
    tmp_path: Path, may_shred: bool
) -> None:
    both = struct_of(Column("v", "variant"), Column("i", _MONTHS))
    builder = TableBuilder(
        tmp_path,
        [Column("s", both)],
        features=["variantType", "variantShredding"],
        properties={"delta.enableVariantShredding": str(may_shred).lower()},
    )
    binary = pa.binary()
    number = pa.struct([("metadata", binary), ("value", binary), ("typed_value", pa.int64())])
    row = {"v": {"metadata": _NO_NAMES, "value": None, "typed_value": 7}, "i": 14}
    rows = pa.array([row], pa.struct([("v", number), ("i", pa.int32())]))
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(pa.table({"s": rows}), tmp_path / name)
        builder.commit(builder.adopt(name, stats='{"numRecords":1}'))
    left = _optimize(builder).plan.left_alone
    assert left == ({} if may_shred else {_OTHERWISE % "s": 2})


@pytest.mark.parametrize(
    "stats",
    [
        None,
        '{"numRecords": 3, "nullCount": {"v": 1}}',
        f'{{"numRecords": 3, "minValues": {{"v": "{_LOWER}"}}, "maxValues": {{"v": "{_LOWER}"}}, '
        '"tightBounds": false}',
    ],
    ids=["deleted rows", "no bounds", "not tight"],
)
def test_bounds_of_variants_are_omitted_if_those_of_a_file_are_not_known(
    tmp_path: Path, stats: str | None
) -> None:
    builder = _write_variants(tmp_path, may_shred=True)
    if stats is None:
        builder.delete_rows("a.parquet", [2])
    else:
        builder.commit(builder.adopt("a.parquet", stats=stats))
    _optimize(builder, max_deleted_rows_ratio=0)
    (found,) = _table(builder).snapshot().files["stats"].to_pylist()
    nulls = 1 if stats is None else 2
    assert json.loads(found) == {
        "numRecords": 4 + nulls, "nullCount": {"v": nulls}, "tightBounds": True
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "typed", "error", "message"),
    [
        (True, _LONG, DataFileError, "'a.parquet': .* both value and typed_value"),
        (False, pa.uint8(), UnsupportedFeatureError, "'a.parquet': .* is shredded as uint8"),
    ],
)
def test_a_shredding_that_is_not_valid_is_not_rebuilt(
    tmp_path: Path, wrong: bool, typed: pa.DataType, error: type[Exception], message: str
) -> None:
    builder = _write_variants(tmp_path, may_shred=False, wrong=wrong, typed=typed)
    before = _live(builder)
    with pytest.raises(error, match=message):
        _table(builder).optimize()
    assert _live(builder) == before
