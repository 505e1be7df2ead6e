"""Days of long ago that Spark wrote in its old calendar."""

import datetime as dt
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import convert
from deltactl.errors import UnsupportedFeatureError
from deltactl.operations.optimize.run import OptimizeOptions
from deltactl.parquet.calendar import has_ambiguous_datetimes, is_in_legacy_calendar, legacy_columns
from deltactl.table import Table
from tests.support.table_builder import Column, TableBuilder

DATES, INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"


def spark(version: str, *keys: bytes) -> dict[bytes, bytes]:
    return {b"org.apache.spark.version": version.encode(), **dict.fromkeys(keys, b"")}


def write(days: list[dt.date | None], facts: dict[bytes, bytes], **options: Any) -> bytes:
    moments = [None if d is None else dt.datetime(d.year, d.month, d.day) for d in days]
    table = pa.table(
        {
            "d": pa.array(days, pa.date32()),
            "s": [None if d is None else {"d": d} for d in days],
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(facts), sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    ("facts", "dates", "int96"),
    [
        ({}, False, False),
        ({DATES: b""}, False, False),  # Spark asks its session then, whatever else is said
        (spark("2.4.8"), True, True),
        (spark("3.0.1"), False, True),
        (spark("3.5.1"), False, False),
        (spark("3.5.1", DATES), True, False),
        (spark("4.2.0", INT96), False, True),
    ],
)
def test_who_wrote_it_decides(facts: dict[bytes, bytes], dates: bool, int96: bool) -> None:
    plain = pq.read_metadata(io.BytesIO(write([], facts)))
    assert is_in_legacy_calendar(plain, "INT32") == is_in_legacy_calendar(plain, "INT64") == dates
    assert is_in_legacy_calendar(plain, "INT96") == int96
    names = frozenset({"d", "s", "ts"})
    assert legacy_columns(plain, names) == (names if dates else set())
    spelled = write([], facts, use_deprecated_int96_timestamps=True)
    found = legacy_columns(pq.read_metadata(io.BytesIO(spelled)), names)
    assert found == ({"d", "s"} if dates else set()) | ({"ts"} if int96 else set())


def test_a_name_with_dots_is_not_passed_by() -> None:
    sink = io.BytesIO()
    days = pa.array([dt.date(1500, 1, 1)], pa.date32())
    table = pa.table({"a.b": days, "c": ["x"]})
    pq.write_table(table.replace_schema_metadata(spark("2.4.8")), sink)
    assert legacy_columns(pq.read_metadata(sink), {"a.b", "c", "a.bc"}) == {"a.b"}


@pytest.mark.parametrize(
    ("values", "type_", "ambiguous"),
    [
        ([dt.date(1582, 10, 15), None], pa.date32(), False),
        ([dt.date(1582, 10, 14)], pa.date32(), True),
        ([[dt.date(1500, 1, 1)], None], pa.list_(pa.date32()), True),
        ([[(dt.date(1, 1, 1), 1)]], pa.map_(pa.date32(), pa.int64()), True),
        (
            [[(1, {"x": dt.date(1, 1, 1)})]],
            pa.map_(pa.int64(), pa.struct([("x", pa.date32())])),
            True,
        ),
        ([dt.datetime(1900, 1, 1)], pa.timestamp("us"), False),
        ([dt.datetime(1899, 12, 31)], pa.timestamp("ns", "UTC"), True),
        ([dt.datetime(1, 1, 1)], pa.timestamp("ms"), True),
        ([-200_000], pa.int32(), False),
        ([], pa.date32(), False),
    ],
)
def test_ambiguous_datetimes_at_any_depth(
    values: list[Any], type_: pa.DataType, ambiguous: bool
) -> None:
    assert has_ambiguous_datetimes(pa.array(values, type_)) == ambiguous


@pytest.mark.parametrize("facts", [spark("2.4.8"), spark("3.5.1", DATES), spark("3.5.1"), {}])
@pytest.mark.parametrize("day", [dt.date(1500, 1, 1), dt.date(2024, 1, 1)])
def test_files_with_them_are_not_rewritten(
    tmp_path: Path, facts: dict[bytes, bytes], day: dt.date
) -> None:
    nested = {"type": "struct", "fields": [Column("d", "date").to_json()]}
    columns = [Column("d", "date"), Column("s", nested), Column("ts", "timestamp")]
    builder = TableBuilder(tmp_path, columns)
    files = {f"{n}.parquet": write([dt.date(2024, 3, n)], {}) for n in range(1, 5)}
    files["old.parquet"] = write([dt.date(2024, 2, 2), day], facts)
    for name, data in files.items():
        builder.store.put(name, data)
        add = {"path": name, "partitionValues": {}, "size": len(data), "modificationTime": 1}
        builder.commit({"add": {**add, "dataChange": True}})
    table = Table(str(tmp_path))
    before = table.scan().read_all()
    if day.year == 1500 and facts and facts != spark("3.5.1"):
        with pytest.raises(UnsupportedFeatureError, match=r"'old\.parquet' .* legacy calendar"):
            table.optimize(OptimizeOptions())
    else:
        assert table.optimize(OptimizeOptions()).files_removed == 5
    assert Table(str(tmp_path)).scan().read_all().sort_by("d") == before.sort_by("d")


@pytest.mark.parametrize(
    ("kind", "marked"),
    [
        ("date", True),
        ("timestamp_ntz", True),
        ({"type": "array", "elementType": "timestamp", "containsNull": True}, True),
        ({"type": "map", "keyType": "long", "valueType": "date", "valueContainsNull": True}, True),
        ("long", False),
    ],
)
def test_what_is_written_says_which_calendar_it_is_in(
    tmp_path: Path, kind: Any, marked: bool
) -> None:
    """Else Spark 3 refuses to read days of long ago."""
    builder = TableBuilder(tmp_path, [Column("id"), Column("x", kind)])
    builder.append(*([{"id": n, "x": None}] for n in range(5)))
    table = Table(str(tmp_path))
    assert table.optimize(OptimizeOptions()).files_added == 1
    (path,) = table.snapshot().files["path"].to_pylist()
    facts = pq.read_metadata(tmp_path / path).metadata or {}
    assert set(facts) == ({b"org.apache.spark.version"} if marked else set())
    assert not legacy_columns(pq.read_metadata(tmp_path / path), {"id", "x"})


def test_a_converted_file_has_no_bounds_of_them(tmp_path: Path) -> None:
    days: list[dt.date | None] = [dt.date(1500, 1, 1), None]
    for name, facts in (("old", spark("2.4.8")), ("new", spark("3.5.1"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f.parquet").write_bytes(write(days, facts))
        convert(str(tmp_path / name))
    (old,), (new,) = (
        Table(str(tmp_path / name)).snapshot().files["stats"].to_pylist() for name in ("old", "new")
    )
    assert '"nullCount":{"d":1' in old and "1500" not in old
    assert '"d":"1500-01-01"' in new
