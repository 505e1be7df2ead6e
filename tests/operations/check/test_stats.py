"""What counts as a contradiction between statistics and rows, and what does not."""

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from deltactl.operations.check.options import Depth
from tests.operations.check.test_fix_stats import fix
from tests.support.checkpoints import new_table
from tests.support.damage import check, codes, edit_action, edit_stats
from tests.support.table_builder import Column, Row, TableBuilder, array_of, struct_of

pytestmark = pytest.mark.thorough

UTC = dt.UTC
MOMENT, DAY = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, UTC), "2024-05-06"


def one_file(kind: Any, values: list[Any], said: dict[str, Any], **options: Any) -> TableBuilder:
    builder = new_table(Column("c", kind), **options)
    stats: dict[str, Any] = {"numRecords": len(values)}
    for member, value in said.items():
        stats[member] = value if member in ("numRecords", "tightBounds") else {"c": value}
    builder.append([{"c": value} for value in values], stats=json.dumps(stats))
    return builder


def found(builder: TableBuilder) -> list[str]:
    """The codes, which have to be the same by footers and by rows."""
    by_footers = codes(check(builder.store, depth=Depth.FOOTERS))
    assert by_footers == codes(check(builder.store, depth=Depth.DATA))
    return by_footers


SOUND: list[tuple[Any, list[Any], dict[str, Any]]] = [
    ("long", [1, None, 5], {"minValues": 1, "maxValues": 5, "nullCount": 1}),
    ("long", [1, 5], {"minValues": -7, "maxValues": 9}),
    ("long", [1, 5], {"minValues": None, "maxValues": None}),
    ("long", [1, 5], {"minValues": 1.0, "maxValues": 5e0, "nullCount": 0.0}),
    ("long", [1, 5], {}),
    ("long", [2**62 + 1], {"minValues": 2**62 + 1, "maxValues": 2**62 + 1}),
    ("string", ["x" * 40], {"minValues": "x" * 32, "maxValues": "x" * 32 + "\x7f"}),
    ("string", ["aü" * 40], {"minValues": "aü" * 16, "maxValues": "aü" * 16 + "\U0010ffff"}),
    ("string", ["a", "z"], {"minValues": "a", "maxValues": "z\ufffd"}),
    ("double", [1.5, math.nan], {"minValues": 1.5, "maxValues": 1.5}),
    ("double", [1.5, math.nan], {"minValues": 1.5, "maxValues": "NaN"}),
    ("double", [math.nan], {"minValues": "NaN", "maxValues": "NaN"}),
    ("double", [-math.inf, math.inf], {"minValues": "-Infinity", "maxValues": "Infinity"}),
    ("double", [-0.0, 0.0], {"minValues": 0.0, "maxValues": -0.0}),
    ("double", [1.5], {"minValues": "1.5", "maxValues": 2}),
    ("decimal(5,2)", [Decimal("1.20")], {"minValues": "1.20", "maxValues": 2}),
    ("float", [1.1, 3.3], {"minValues": 1.1, "maxValues": 3.3}),
    ("decimal(5,2)", [Decimal("1.20")], {"minValues": 1.2, "maxValues": 1.20}),
    ("date", [dt.date(2024, 1, 31)], {"minValues": "2024-01-31", "maxValues": "2024-01-31"}),
    ("date", [dt.date(1200, 1, 1)], {"minValues": "1200-01-08", "maxValues": "1199-12-25"}),
    ("date", [dt.date(1500, 3, 1)], {"minValues": "1500-02-29", "maxValues": "+12000-01-01"}),
    ("date", [dt.date(2024, 1, 31)], {"minValues": "2024-01-31T00:00:00.000Z"}),
    ("timestamp", [MOMENT], {"minValues": f"{DAY}T07:08:09.123Z"}),
    ("timestamp", [MOMENT], {"maxValues": f"{DAY}T07:08:09.123Z"}),
    ("timestamp", [MOMENT], {"minValues": f"{DAY}T00:08:09.123-07:00"}),
    ("timestamp", [MOMENT], {"maxValues": f"{DAY}T09:08:09.123+02:00"}),
    ("timestamp", [MOMENT], {"minValues": f"{DAY} 10:00:00", "maxValues": f"{DAY} 00:00:00"}),
    (
        "timestamp_ntz",
        [MOMENT.replace(tzinfo=None)],
        {"minValues": f"{DAY}T07:08:09.123", "maxValues": f"{DAY} 07:08:09.123456"},
    ),
    ("boolean", [True, None], {"nullCount": 1}),
    ("binary", [b"\xff", None], {"nullCount": 1, "minValues": "?"}),
    (array_of("long"), [[None, None], None, []], {"nullCount": 7}),
    (
        struct_of(Column("a"), Column("b")),
        [{"a": 1, "b": None}, None],
        {"nullCount": {"a": 1, "b": 2}, "minValues": {"a": 1}, "maxValues": {"a": 1}},
    ),
    # Of the two rows whose struct is null some writers count none, one or both.
    (struct_of(Column("a")), [{"a": None}, {"a": 1}, None, None], {"nullCount": {"a": 3}}),
    (struct_of(Column("a")), [{"a": None}, {"a": 1}, None, None], {"nullCount": {"a": 1}}),
    ("long", [1, 5], {"tightBounds": True, "minValues": 1, "maxValues": 5}),
    ("long", [1, 5], {"tightBounds": False, "minValues": 0, "maxValues": 5, "nullCount": 1}),
]


@pytest.mark.parametrize(("kind", "values", "said"), SOUND)
def test_what_writers_write_is_no_contradiction(
    kind: Any, values: list[Any], said: dict[str, Any]
) -> None:
    features = ["timestampNtz"] if kind == "timestamp_ntz" else []
    assert found(one_file(kind, values, said, features=features)) == []


NULLS, BOUNDS = ["STATS_NULLS"], ["STATS_BOUNDS"]
LOOSE, UNREADABLE = ["STATS_LOOSE"], ["STATS_UNREADABLE"]
PAIR = struct_of(Column("a"), Column("b"))
FALSE: list[tuple[list[str], Any, list[Any], dict[str, Any]]] = [
    (["STATS_ROWS"], "long", [1, 5], {"numRecords": 3}),
    (NULLS, "long", [1, None], {"nullCount": 0}),
    (NULLS, "long", [1, None], {"nullCount": 2}),
    (NULLS, "boolean", [True, None], {"nullCount": 0}),
    (NULLS, "long", [1, None], {"tightBounds": False, "nullCount": 0}),
    (NULLS, "long", [1, None], {"tightBounds": False, "nullCount": 2}),
    (BOUNDS, "long", [1, 5], {"minValues": 2}),
    (BOUNDS, "long", [1, 5], {"maxValues": 4}),
    (BOUNDS, "long", [1, 5], {"tightBounds": False, "maxValues": 4}),
    (BOUNDS, "string", ["x" * 40], {"maxValues": "x" * 32}),
    (BOUNDS, "string", ["ü"], {"maxValues": "z"}),
    (BOUNDS, "double", [1.5, math.nan], {"minValues": 1.6}),
    (BOUNDS, "double", [1.5, math.inf], {"maxValues": 1.5}),
    (BOUNDS, "double", [1.00000001], {"maxValues": 1.0}),
    (BOUNDS, "float", [1.5], {"maxValues": 1.25}),
    (BOUNDS, "decimal(5,2)", [Decimal("1.20")], {"maxValues": 1.19}),
    (BOUNDS, "decimal(15,2)", [Decimal("9999999999999.99")], {"maxValues": 9999999999999.98}),
    (  # rounded as a float, by delta-rs
        BOUNDS,
        "decimal(38,18)",
        [Decimal("12345678901234567890.123456789012345678")],
        {"minValues": 12345678901234567000.0, "maxValues": 12345678901234567000.0},
    ),
    (BOUNDS, "date", [dt.date(2024, 1, 31)], {"maxValues": "2024-01-30"}),
    (BOUNDS, "timestamp", [MOMENT], {"maxValues": f"{DAY}T07:08:08.000Z"}),
    (BOUNDS, "timestamp", [MOMENT], {"minValues": f"{DAY}T07:08:10.200Z"}),
    (BOUNDS, "timestamp", [MOMENT], {"maxValues": "2024-05-05"}),
    (NULLS, array_of("long"), [[1], None], {"nullCount": 0}),
    (NULLS, struct_of(Column("a")), [{"a": 1}, None], {"nullCount": {"a": 0}}),
    (NULLS, struct_of(Column("a")), [{"a": 1}, None, None], {"nullCount": {"a": -1}}),
    (NULLS, struct_of(Column("a")), [{"a": 1}, None, None], {"nullCount": {"a": 4}}),
    (NULLS, PAIR, [{"a": 1}, {"a": 2}, {"b": 1}, {"b": 2}], {"nullCount": {"a": 1}}),
    (NULLS, PAIR, [{"a": 1}, {"a": 2}, {"b": 1}, {"b": 2}], {"nullCount": {"a": 3}}),
    (NULLS, "long", [1, 5], {"tightBounds": False, "nullCount": 3}),
    (NULLS, array_of("long"), [[1], []], {"nullCount": -1}),
    (BOUNDS, struct_of(Column("a")), [{"a": 1}, None], {"minValues": {"a": 2}}),
    (UNREADABLE, "long", [1, 5], {"numRecords": "2"}),
    (UNREADABLE, "long", [1, 5], {"numRecords": 2.5}),
    (UNREADABLE, "long", [1, 5], {"numRecords": True}),
    (UNREADABLE, "long", [1, 5], {"tightBounds": "yes"}),
    (UNREADABLE, "long", [1, None], {"nullCount": "1"}),
    (UNREADABLE, "long", [1, None], {"nullCount": 1.5}),
    (UNREADABLE, "long", [1, 5], {"minValues": "abc"}),
    (UNREADABLE, "long", [1, 5], {"maxValues": {"a": 1}}),
    (UNREADABLE, "long", [1, 5], {"maxValues": True}),
    (UNREADABLE, "long", [1, 5], {"maxValues": 5.5}),
    (UNREADABLE, "long", [None], {"maxValues": "abc"}),
    (BOUNDS, "long", [1, 14], {"maxValues": 13.5}),
    (UNREADABLE, "string", ["a"], {"maxValues": 5}),
    (UNREADABLE, "double", [1.5], {"maxValues": True}),
    (UNREADABLE, "double", [1.5], {"maxValues": "much"}),
    (UNREADABLE, "decimal(5,2)", [Decimal("1.20")], {"maxValues": []}),
    (UNREADABLE, "date", [dt.date(2024, 1, 31)], {"maxValues": "2024-13-45"}),
    (UNREADABLE, "date", [dt.date(2024, 1, 31)], {"maxValues": 19_800}),
    (UNREADABLE, "timestamp", [MOMENT], {"maxValues": 1_700_000_000}),
    (LOOSE, "long", [1, 5], {"tightBounds": True, "minValues": 0}),
    (LOOSE, "date", [dt.date(2024, 1, 1)], {"tightBounds": True, "maxValues": "2024-01-02"}),
]


@pytest.mark.parametrize(("expected", "kind", "values", "said"), FALSE)
def test_contradictions_are_found(
    expected: list[str], kind: Any, values: list[Any], said: dict[str, Any]
) -> None:
    features = ["deletionVectors"] if "tightBounds" in said else []
    nested = isinstance(kind, dict) and kind["type"] == "array"
    builder = one_file(kind, values, said, features=features)
    if nested:  # whose nulls a footer does not tell
        assert codes(check(builder.store, depth=Depth.DATA)) == expected
    else:
        assert found(builder) == expected


def test_only_live_rows_count() -> None:
    """Statistics may be of all rows, of the live ones, or wide: each is right."""
    for said in (
        {"minValues": 1, "maxValues": 9, "nullCount": 1},
        {"minValues": 3, "maxValues": 5, "nullCount": 0},
        {"minValues": 1, "maxValues": 9, "nullCount": 1, "tightBounds": False},
    ):
        builder = one_file("long", [1, 3, 5, 9, None], said, features=["deletionVectors"])
        builder.delete_rows("f00001.parquet", [0, 3, 4])
        assert found(builder) == []
    builder = one_file("long", [1, 3, 5, 9, None], {"minValues": 4}, features=["deletionVectors"])
    builder.delete_rows("f00001.parquet", [0, 3, 4])
    assert found(builder) == ["STATS_BOUNDS"]


@pytest.mark.parametrize("member", ["nullCount", "minValues", "maxValues"])
def test_members_that_are_no_objects(member: str) -> None:
    builder = new_table(Column("c"))
    builder.append([{"c": 1}], stats=json.dumps({"numRecords": 1, member: 5}))
    assert found(builder) == UNREADABLE


def test_a_count_of_nulls_says_what_it_was_compared_with() -> None:
    builder = one_file("long", [None, None, 1], {"numRecords": 2, "nullCount": 2})
    report = check(builder.store, depth=Depth.DATA)
    assert codes(report) == ["STATS_NULLS", "STATS_ROWS"]
    assert report.findings["problem"][0].as_py() == (
        "column 'c': nullCount and numRecords are both 2, so all values are null; "
        "the file has 2 nulls in 3 live rows"
    )


def test_rows_cannot_be_deleted_from_a_file_that_does_not_count_them() -> None:
    for stats in (None, "{}", '{"numRecords":null}'):
        builder = new_table(Column("c"), features=["deletionVectors"])
        (path,) = builder.append([{"c": 1}, {"c": 2}], stats=stats)
        assert found(builder) == []
        builder.delete_rows(path, [0])
        assert found(builder) == UNREADABLE


def test_tight_bounds_of_rows_that_are_deleted() -> None:
    for bounds, expected in (((1, 9), ["STATS_LOOSE"]), ((3, 5), [])):
        low, high = bounds
        said = {"minValues": low, "maxValues": high}
        builder = one_file("long", [1, 3, 5, 9], said, features=["deletionVectors"])
        builder.delete_rows("f00001.parquet", [0, 3])
        assert found(builder) == []
        edit_stats(builder, 2, tightBounds=True)
        assert codes(check(builder.store, depth=Depth.DATA)) == expected


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_statistics_of_a_column_that_a_file_lacks_are_noted(mapping: str) -> None:
    """They mislead readers, and sound tables of known writers have them."""
    right: dict[str, int] = {"nullCount": 2}
    wrong = [{"nullCount": count} for count in (0, 3, True)]
    low = {"minValues": 1}
    for said in ({}, right, *wrong, low, right | low):
        builder = new_table(Column("id"), mapping=mapping)
        builder.append([{"id": 1}, {"id": 2}])
        builder.change_metadata(columns=[*builder.columns, Column("later")])
        first, later = (column.physical for column in builder.columns)
        known = {"minValues": {first: 1}, "maxValues": {first: 2}, "nullCount": {first: 0}}
        stats = {"numRecords": 2} | known
        stats |= {member: {**known[member], later: value} for member, value in said.items()}
        edit_action(builder, 1, "add", stats=json.dumps(stats))
        for depth in (Depth.FOOTERS, Depth.DATA):
            report = check(builder.store, depth=depth)
            assert codes(report) == []
            noted = any("that are missing in a file" in note for note in report.notes)
            assert noted == (said not in ({}, right))
        assert fix(builder.store).num_files == noted
        assert check(builder.store, depth=Depth.FOOTERS).notes == ()


@pytest.mark.parametrize("mode", ["name", "id"])
def test_statistics_go_by_physical_names(mode: str) -> None:
    builder = new_table(Column("c"), mapping=mode)
    rows = [{"c": 1}, {"c": 7}]
    for least, expected in ((1, []), (2, ["STATS_BOUNDS"])):
        stats = {"numRecords": 2, "minValues": {"col-0001": least}}
        builder.append(rows, stats=json.dumps(stats))
        assert found(builder) == expected


def test_statistics_of_a_narrower_type_are_read_as_the_wider() -> None:
    """Files and statistics keep the form they had before their column was widened."""
    columns = [Column("d", "date"), Column("f", "float"), Column("i", "integer")]
    for least, expected in (("2024-01-31", []), ("2024-02-01", ["STATS_BOUNDS"])):
        builder = new_table(*columns, features=["typeWidening", "timestampNtz"])
        low, high = {"d": least, "f": 1.1, "i": 7}, {"d": "2024-02-03", "f": 1.1, "i": 7}
        stats = json.dumps({"numRecords": 2, "minValues": low, "maxValues": high})
        rows: list[Row] = [
            {"d": dt.date(2024, 1, 31), "f": 1.1, "i": 7},
            {"d": dt.date(2024, 2, 3)},
        ]
        builder.append(rows, stats=stats)
        wider = ("timestamp_ntz", "double", "decimal(10,0)")
        builder.change_metadata(
            columns=[
                Column(c.name, kind, metadata={"delta.typeChanges": [{"toType": kind}]})
                for c, kind in zip(columns, wider, strict=True)
            ]
        )
        assert found(builder) == expected
