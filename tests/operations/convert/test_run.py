"""Directories of many writers become tables that every reader reads alike, or nothing at all."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import convert
from deltactl.errors import (
    ConversionError,
    InterruptedRunError,
    SafetyError,
    UnsupportedFeatureError,
    UsageError,
    ignore_warning,
)
from deltactl.operations.convert import tasks
from deltactl.operations.convert.directory import LINKED
from deltactl.operations.convert.partition_by import PartitionColumn, parse_partition_by
from deltactl.operations.convert.run import ConvertOptions, ConvertReport, convert_directory
from deltactl.protocol.schema import PrimitiveType, render_type
from deltactl.storage.local.store import LocalStore
from deltactl.storage.write_guard import refuse_changes
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.run import run_on
from tests.support.stores import CountingStore, opened_as
from tests.support.table_builder import multiset

FINDS = Path(__file__).parents[2] / "fuzz" / "finds" / "footer"
WIDEN = ConvertOptions(schema_mode="widen")


def write(root: Path, name: str, columns: Any, **options: Any) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)
    return path


def actions(root: Path, version: int = 0) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (root / "_delta_log" / f"{version:020d}.json").read_text().splitlines():
        ((name, body),) = json.loads(line).items()
        found.setdefault(name, []).append(body)
    return found


def rows(root: Path) -> list[dict[str, Any]]:
    return list(Table(str(root)).scan().read_all().to_pylist())


def assert_all_read(root: Path, expected: list[dict[str, Any]]) -> None:
    assert multiset(rows(root)) == multiset(expected)
    assert multiset(rows_with_duckdb(root)) == multiset(expected)
    assert multiset(rows_with_delta_rs(root)) == multiset(expected)


def refuse(root: Path, options: ConvertOptions | None = None) -> ConversionError:
    with pytest.raises(ConversionError) as caught:
        convert(str(root), options)
    assert not (root / "_delta_log").exists()
    return caught.value


def schema(report: ConvertReport) -> dict[str, str]:
    assert report.plan is not None
    return {f.name: render_type(f.type) for f in report.plan.metadata.schema.fields}


# -- what is written ---------------------------------------------------------------------------


def test_one_commit_that_says_what_spark_says(tmp_path: Path) -> None:
    write(tmp_path, "a b%.parquet", {"id": [1, 2], "s": ["x", None]})
    write(tmp_path, "sub/2.parquet", {"id": [3], "extra": [True]})
    report = convert(str(tmp_path))
    assert (report.version_before, report.version_after, report.files_added) == (None, 0, 2)
    assert [path.name for path in (tmp_path / "_delta_log").iterdir()] == [f"{0:020d}.json"]
    found = actions(tmp_path)
    (info,) = found["commitInfo"]
    assert info["operation"] == "CONVERT"
    assert info["operationParameters"] == {
        "numFiles": 2,
        "partitionedBy": "[]",
        "collectStats": True,
        "sourceFormat": "parquet",
    }
    assert info["operationMetrics"] == {"numConvertedFiles": "2"}
    assert (info["readVersion"], info["isolationLevel"], info["isBlindAppend"]) == (
        -1,
        "Serializable",
        False,
    )
    assert found["protocol"] == [{"minReaderVersion": 1, "minWriterVersion": 2}]
    first, second = found["add"]
    assert (first["path"], second["path"]) == ("a%20b%25.parquet", "sub/2.parquet")
    stat = (tmp_path / "a b%.parquet").stat()
    assert first["size"] == stat.st_size
    assert first["modificationTime"] == stat.st_mtime_ns // 1_000_000
    assert first["dataChange"] is True and first["partitionValues"] == {}
    assert json.loads(first["stats"]) == {
        "numRecords": 2,
        "minValues": {"id": 1, "s": "x"},
        "maxValues": {"id": 2, "s": "x"},
        "nullCount": {"id": 0, "s": 1, "extra": 2},
    }
    assert found["metaData"][0]["configuration"] == {"deltactl.converted": "true"}
    assert_all_read(
        tmp_path,
        [
            {"id": 1, "s": "x", "extra": None},
            {"id": 2, "s": None, "extra": None},
            {"id": 3, "s": None, "extra": True},
        ],
    )


def test_every_footer_is_read_once_and_no_file_is_written(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"p={n % 3}/{n}.parquet", {"id": [n]}) for n in range(20)]
    before = {path: path.read_bytes() for path in paths}
    store = CountingStore(LocalStore(str(tmp_path)))
    with opened_as(store):
        run_on(store, convert_directory, ConvertOptions())
    assert sorted(store.names["read_tail"]) == sorted(
        str(path.relative_to(tmp_path)) for path in paths
    )
    assert store.calls["walk_tree"] == store.calls["put_if_absent"] == 1
    assert store.calls["put"] == store.calls["open_output"] == store.calls["delete_many"] == 0
    assert {path: path.read_bytes() for path in paths} == before


def test_a_dry_run_plans_the_same_and_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "d=2024-01-01/1.parquet", {"id": [1]})
    store = refuse_changes(LocalStore(str(tmp_path)))
    dry = run_on(store, convert_directory, ConvertOptions(), dry_run=True)
    assert not (tmp_path / "_delta_log").exists()
    real = convert(str(tmp_path))
    assert dry.plan is not None and real.plan is not None
    assert (dry.plan.files, schema(dry)) == (real.plan.files, schema(real))


def test_without_statistics_adds_have_none(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"id": [1]})
    convert(str(tmp_path), ConvertOptions(statistics=False))
    assert "stats" not in actions(tmp_path)["add"][0]
    assert actions(tmp_path)["commitInfo"][0]["operationParameters"]["collectStats"] is False
    assert_all_read(tmp_path, [{"id": 1}])


def test_statistics_follow_the_rules_of_the_properties(tmp_path: Path) -> None:
    wide = {f"c{n:02}": [n] for n in range(40)}
    write(tmp_path, "p=1/1.parquet", wide)
    # Another order, and other columns: the table's order decides, not the file's.
    write(tmp_path, "p=1/2.parquet", dict(reversed([*wide.items(), ("new", [7])])))
    convert(str(tmp_path))
    first, second = (json.loads(add["stats"]) for add in actions(tmp_path)["add"])
    assert list(first["minValues"]) == list(second["minValues"]) == [f"c{n:02}" for n in range(32)]
    shutil.rmtree(tmp_path / "_delta_log")
    properties = {
        "delta.dataSkippingStatsColumns": "c39,new",
        "delta.dataSkippingStringPrefixLength": "4",
    }
    convert(str(tmp_path), ConvertOptions(properties=properties))
    first, second = (json.loads(add["stats"]) for add in actions(tmp_path)["add"])
    assert first["nullCount"] == {"c39": 0, "new": 1}
    assert second["minValues"] == {"c39": 39, "new": 7}


def test_name_and_properties_are_written_to_the_metadata(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"id": [1]})
    properties = {
        "delta.enableChangeDataFeed": "true",
        "delta.enableInCommitTimestamps": "true",
        "owner": "me",
    }
    convert(str(tmp_path), ConvertOptions(properties=properties, name="events"))
    found = actions(tmp_path)
    assert found["metaData"][0]["name"] == "events"
    assert found["metaData"][0]["configuration"] == {**properties, "deltactl.converted": "true"}
    assert found["protocol"][0]["minWriterVersion"] == 7
    assert set(found["protocol"][0]["writerFeatures"]) == {
        "appendOnly",
        "changeDataFeed",
        "inCommitTimestamp",
        "invariants",
    }
    assert found["commitInfo"][0]["inCommitTimestamp"] == found["commitInfo"][0]["timestamp"]
    assert_all_read(tmp_path, [{"id": 1}])


@pytest.mark.parametrize(
    "key",
    ["delta.enableRowTracking", "delta.columnMapping.mode", "delta.feature.x", "delta.apendOnly"],
)
def test_properties_that_need_more_than_being_set_are_refused(tmp_path: Path, key: str) -> None:
    write(tmp_path, "1.parquet", {"id": [1]})
    with pytest.raises(UsageError, match=key):
        convert(str(tmp_path), ConvertOptions(properties={key: "true"}))
    assert not (tmp_path / "_delta_log").exists()


# -- what belongs to the table -----------------------------------------------------------------


def test_hidden_and_foreign_files_are_left_out_and_listed(tmp_path: Path) -> None:
    good = write(tmp_path, "k=a/1.parquet", {"id": [1]})
    left_out = [
        "_bak.parquet",
        ".dot.parquet",
        "_SUCCESS",
        "_temporary/0/x.parquet",
        "k=a/_tmp/x.parquet",
        "k=a/.staging/deep/x.parquet",
        "k=a/.1.parquet.crc",
        "k=a/1.parquet.crc",
        "README.md",
        "k=a/data.csv",
        "k=a/old.parquet.bak",
    ]
    for name in left_out:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(good, tmp_path / name)
    report = convert(str(tmp_path))
    assert report.plan is not None
    assert [file.path for file in report.plan.files] == ["k=a/1.parquet"]
    assert sorted(entry.path for entry in report.plan.left_out) == sorted(left_out)
    assert_all_read(tmp_path, [{"id": 1, "k": "a"}])


def test_a_link_does_not_double_the_rows_of_its_file(tmp_path: Path) -> None:
    root = tmp_path / "a b"
    write(root, "p=1/a.parquet", {"id": [1]})
    write(root, "p=1/_hidden.parquet", {"id": [2]})
    write(tmp_path, "elsewhere.parquet", {"id": [3]})
    for link, target in {
        "p=1/0.parquet": "a.parquet",  # it comes before its file
        "p=2/latest.parquet": "../p=1/a.parquet",
        "p=1/chain.parquet": "0.parquet",
        "p=1/shown.parquet": "_hidden.parquet",
        "p=3/out.parquet": str(tmp_path / "elsewhere.parquet"),
        "p=3/dead.parquet": "nowhere",
    }.items():
        (root / link).parent.mkdir(exist_ok=True)
        (root / link).symlink_to(target)
    report = convert(str(root))
    assert report.plan is not None
    assert sorted(e.path for e in report.plan.left_out if e.reason == LINKED) == [
        "p=1/0.parquet",
        "p=1/chain.parquet",
        "p=2/latest.parquet",
    ]
    assert_all_read(root, [{"id": 1, "p": 1}, {"id": 2, "p": 1}, {"id": 3, "p": 3}])


@pytest.mark.parametrize("target", ["_hidden.parquet", "../elsewhere.parquet"])
def test_two_links_to_one_file_are_refused(tmp_path: Path, target: str) -> None:
    root = tmp_path / "t"
    write(root, "a.parquet", {"id": [1]})
    write(root, target, {"id": [2]})
    for link in ("x.parquet", "y.parquet"):
        (root / link).symlink_to(target)
    with pytest.raises(SafetyError, match="'x.parquet' and 'y.parquet' both lead to") as caught:
        convert(str(root))
    assert repr(str((root / target).resolve())) in caught.value.message
    assert not (root / "_delta_log").exists()


def test_a_partition_folder_may_begin_with_an_underscore(tmp_path: Path) -> None:
    write(tmp_path, "_p=1/1.parquet", {"id": [1]})
    convert(str(tmp_path))
    assert_all_read(tmp_path, [{"id": 1, "_p": 1}])


def test_data_without_an_ending_as_hive_writes_it(tmp_path: Path) -> None:
    write(tmp_path, "dt=2024-01-01/000000_0", {"id": [1]})
    (tmp_path / "dt=2024-01-01/MANIFEST").write_text("no parquet")
    (tmp_path / "dt=2024-01-01/EMPTY").touch()
    report = convert(str(tmp_path))
    assert report.plan is not None
    assert {entry.path for entry in report.plan.left_out} == {
        "dt=2024-01-01/MANIFEST",
        "dt=2024-01-01/EMPTY",
    }
    assert_all_read(tmp_path, [{"id": 1, "dt": dt.date(2024, 1, 1)}])


def test_all_offenders_at_once_and_nothing_committed(tmp_path: Path) -> None:
    write(tmp_path, "good.parquet", {"id": [1], "when": ["x"]})
    write(tmp_path, "typed.parquet", {"id": ["one"], "when": ["x"]})
    write(tmp_path, "timed.parquet", {"id": [1], "when": [dt.time(1)]})
    (tmp_path / "zero.parquet").touch()
    (tmp_path / "text.parquet").write_text("hello, world")
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "truncated.parquet").write_bytes(whole[: len(whole) // 2])
    error = refuse(tmp_path)
    assert {(path, column) for path, column, _ in error.problems} == {
        ("typed.parquet", "id"),
        ("timed.parquet", "when"),
        ("zero.parquet", None),
        ("text.parquet", None),
        ("truncated.parquet", None),
    }
    for path, _, _ in error.problems:
        assert path in error.message
    assert error.exit_code == 6


def test_nothing_to_convert(tmp_path: Path) -> None:
    for nothing in (tmp_path, tmp_path / "no where"):
        told = (
            f"no Parquet files at {LocalStore(str(nothing)).uri}: the directory is empty or missing"
        )
        assert told in refuse(nothing).message
    (tmp_path / "README").write_text("x")
    assert "contains no Parquet files" in refuse(tmp_path).message
    assert "README is a file" in refuse(tmp_path / "README").message


def test_an_empty_table_of_a_file_without_rows(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"id": pa.array([], pa.int64())})
    convert(str(tmp_path))
    assert json.loads(actions(tmp_path)["add"][0]["stats"])["numRecords"] == 0
    assert_all_read(tmp_path, [])


# -- partitions --------------------------------------------------------------------------------


def test_partition_values_are_decoded_and_types_guessed(tmp_path: Path) -> None:
    write(tmp_path, "n=1/m=01/d=2024-01-31/s=a%2Fb%3Ac%25/b=true/1.parquet", {"id": [1]})
    write(tmp_path, "n=-20/m=12/d=2024-02-29/s=é b/b=false/2.parquet", {"id": [2]})
    hive_null = "__HIVE_DEFAULT_PARTITION__"
    nulls = "/".join(f"{name}={hive_null}" for name in "nmdsb")
    write(tmp_path, f"{nulls}/3.parquet", {"id": [3]})
    report = convert(str(tmp_path))
    assert schema(report) == {
        "id": "long",
        "n": "integer",
        "m": "string",  # 01 is no number that 1 would not be too
        "d": "date",
        "s": "string",
        "b": "string",
    }
    day = dt.date
    assert_all_read(
        tmp_path,
        [
            {"id": 1, "n": 1, "m": "01", "d": day(2024, 1, 31), "s": "a/b:c%", "b": "true"},
            {"id": 2, "n": -20, "m": "12", "d": day(2024, 2, 29), "s": "é b", "b": "false"},
            {"id": 3, **dict.fromkeys("nmdsb")},
        ],
    )
    assert report.plan is not None and set(report.plan.partitioning.guessed) == set("nmdsb")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2147483647"], "integer"),
        (["1", "2147483648"], "long"),
        (["1", "9223372036854775808"], "string"),
        (["1", "99999999999999999999"], "string"),
        (["0", "-1"], "integer"),
        (["-0", "1"], "string"),
        (["+1", "1"], "string"),
        (["1.5", "2"], "string"),
        (["1_000", "1"], "string"),
        (["٣", "1"], "string"),
        (["2024-01-01", "2024-02-30"], "string"),
        (["2024-1-1"], "string"),
        (["__HIVE_DEFAULT_PARTITION__"], "string"),
        (["1", "__HIVE_DEFAULT_PARTITION__"], "integer"),
    ],
)
def test_types_are_guessed_conservatively(tmp_path: Path, values: list[str], expected: str) -> None:
    for value in values:
        write(tmp_path, f"p={value}/1.parquet", {"id": [1]})
    assert schema(convert(str(tmp_path)))["p"] == expected


def test_given_columns_and_types_win(tmp_path: Path) -> None:
    write(tmp_path, "Y=2024/m=01/1.parquet", {"id": [1]})
    options = ConvertOptions(partition_by=parse_partition_by("y string, m int"))
    convert(str(tmp_path), options)
    assert actions(tmp_path)["metaData"][0]["partitionColumns"] == ["y", "m"]
    assert actions(tmp_path)["add"][0]["partitionValues"] == {"y": "2024", "m": "1"}
    assert_all_read(tmp_path, [{"id": 1, "y": "2024", "m": 1}])


def test_times_in_folder_names_are_utc_and_said_so(tmp_path: Path) -> None:
    write(tmp_path, "t=2024-06-01 12%3A00%3A00.5/1.parquet", {"id": [1]})
    told: list[str] = []
    options = ConvertOptions(partition_by=parse_partition_by("t timestamp"))
    convert(str(tmp_path), options, warn=told.append)
    assert actions(tmp_path)["add"][0]["partitionValues"] == {"t": "2024-06-01T12:00:00.500000Z"}
    assert any("UTC" in message for message in told)
    noon = dt.datetime(2024, 6, 1, 12, 0, 0, 500_000, dt.UTC)
    assert_all_read(tmp_path, [{"id": 1, "t": noon}])


def test_a_partition_column_in_the_files_too_keeps_its_place_and_type(tmp_path: Path) -> None:
    write(tmp_path, "p=01/1.parquet", {"p": pa.array([1], pa.int16()), "id": [5]})
    report = convert(str(tmp_path))
    assert list(schema(report).items()) == [("p", "short"), ("id", "long")]
    assert "p" not in json.loads(actions(tmp_path)["add"][0]["stats"])["nullCount"]
    assert_all_read(tmp_path, [{"p": 1, "id": 5}])


def test_plain_folders_around_partition_folders_do_not_matter(tmp_path: Path) -> None:
    write(tmp_path, "landing/p=1/batch7/1.parquet", {"id": [1]})
    write(tmp_path, "landing/p=2/2.parquet", {"id": [2]})
    convert(str(tmp_path))
    assert_all_read(tmp_path, [{"id": 1, "p": 1}, {"id": 2, "p": 2}])


@pytest.mark.parametrize(
    ("names", "asked", "told"),
    [
        (["p=1/1.parquet", "2.parquet"], None, "its partition directories are not p=..."),
        (["p=1/1.parquet", "q=1/2.parquet"], None, "its partition directories are not p=..."),
        (["p=1/q=2/1.parquet", "q=2/p=1/2.parquet"], None, "directories are not p=.../q=..."),
        (["p=1/x/q=1/1.parquet"], None, "plain directories are between"),
        (["p=/1.parquet"], None, "lacks a name or a value"),
        (["=1/1.parquet"], None, "lacks a name or a value"),
        (["p=1/p=2/1.parquet"], None, "occurs twice"),
        (["p=1/1.parquet"], "", "the table has no partition columns"),
        (["p=1/1.parquet"], "p int, q int", "its partition directories are not p=.../q=..."),
        (["p=x/1.parquet", "p=1/2.parquet"], "p int", "not a valid int32"),
        (["p=300/1.parquet"], "p byte", "not a valid int8"),
    ],
)
def test_folders_that_do_not_fit_are_named(
    tmp_path: Path, names: list[str], asked: str | None, told: str
) -> None:
    for name in names:
        write(tmp_path, name, {"id": [1]})
    partition_by = None if asked is None else parse_partition_by(asked)
    assert told in refuse(tmp_path, ConvertOptions(partition_by=partition_by)).message


def test_each_file_whose_folders_do_not_fit_is_named(tmp_path: Path) -> None:
    strays = ["stray.parquet", "y=1/a.parquet", "y=1/b.parquet", "x=1/X=1/c.parquet"]
    for name in [*(f"x={n}/a.parquet" for n in range(3)), *strays]:
        write(tmp_path, name, {"id": [1]})
    twice = "a partition column occurs twice in its path"
    lacks = "its partition directories are not x=..."
    assert {path: why for path, _, why in refuse(tmp_path).problems} == {
        name: twice if "X=" in name else lacks for name in strays
    }
    options = ConvertOptions(partition_by=parse_partition_by("x int"))
    write(tmp_path, "x=q/d.parquet", {"id": [1]})
    for name in strays:
        (tmp_path / name).unlink()
    assert [(path, column) for path, column, _ in refuse(tmp_path, options).problems] == [
        ("x=q/d.parquet", "x")
    ]


def test_types_of_some_columns_may_be_left_to_guess(tmp_path: Path) -> None:
    write(tmp_path, "p=1/q=2/1.parquet", {"id": [1]})
    report = convert(str(tmp_path), ConvertOptions(partition_by=parse_partition_by("p string, q")))
    assert schema(report) == {"id": "long", "p": "string", "q": "integer"}
    assert parse_partition_by("p string, q") == (
        PartitionColumn("p", PrimitiveType("string")),
        PartitionColumn("q"),
    )


@pytest.mark.parametrize(
    "text", ["a b c", "a int int", ", a", "p what", "a int, A int", "d decimal(40,2)"]
)
def test_partition_columns_that_cannot_be_understood(text: str) -> None:
    with pytest.raises(UsageError):
        parse_partition_by(text)


# -- schemas -----------------------------------------------------------------------------------

WIDENED = [
    (pa.array([1], pa.int8()), pa.array([300], pa.int16()), "short"),
    (pa.array([1], pa.int32()), pa.array([2**40], pa.int64()), "long"),
    (pa.array([1.5], pa.float32()), pa.array([1.1]), "double"),
    (pa.array([7], pa.int32()), pa.array([1.5]), "double"),
    (
        pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
        pa.array([Decimal("123456789.125")], pa.decimal128(12, 3)),
        "decimal(12,3)",
    ),
    (pa.array([7], pa.int32()), pa.array([Decimal("1.5")], pa.decimal128(5, 1)), "decimal(11,1)"),
]


@pytest.mark.parametrize(("first", "second", "wide"), WIDENED)
@pytest.mark.parametrize("swapped", [False, True])
def test_types_widen_where_allowed(
    tmp_path: Path, first: pa.Array, second: pa.Array, wide: str, swapped: bool
) -> None:
    arrays = [second, first] if swapped else [first, second]
    for number, array in enumerate(arrays):
        write(tmp_path, f"{number}.parquet", {"a": array, "s": [{"x": array[0].as_py()}]})
    if len({str(array.type) for array in arrays}) > 1:
        error = refuse(tmp_path)
        assert ("1.parquet", "a") in {(path, column) for path, column, _ in error.problems}
        assert "schema_mode='widen'" in error.message
    table = pa.table({"a": [first[0].as_py(), second[0].as_py()]})
    for path in tmp_path.iterdir():
        pq.write_table(pq.ParquetFile(path).read().select(["a"]), path)
    report = convert(str(tmp_path), WIDEN)
    assert schema(report) == {"a": wide}
    assert report.plan is not None and report.plan.widened == ("a",)
    expected = [
        {"a": float(value) if wide == "double" else value} for value in table["a"].to_pylist()
    ]
    assert_all_read(tmp_path, expected)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([2**60]), pa.array([1.5])),
        (pa.array(["1"]), pa.array([1])),
        (pa.array([dt.date(2024, 1, 1)]), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
        (pa.array([[1]]), pa.array([1])),
        (pa.array([{"x": 1}]), pa.array([{"x": "a"}])),
        (
            pa.array([Decimal(1)], pa.decimal128(38, 0)),
            pa.array([Decimal("0.1")], pa.decimal128(38, 10)),
        ),
    ],
)
def test_types_that_nothing_holds_are_conflicts(
    tmp_path: Path, first: pa.Array, second: pa.Array
) -> None:
    write(tmp_path, "1.parquet", {"a": first})
    write(tmp_path, "2.parquet", {"a": second})
    write(tmp_path, "3.parquet", {"a": second})
    error = refuse(tmp_path, WIDEN)
    assert [path for path, _, _ in error.problems] == ["2.parquet", "3.parquet"]


def test_names_that_differ_by_case_between_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"a": [1], "s": [{"x": 1}]})
    write(tmp_path, "2.parquet", {"A": [2], "s": [{"X": 1}]})
    error = refuse(tmp_path)
    assert [(path, column) for path, column, _ in error.problems] == [
        ("2.parquet", "A"),
        ("2.parquet", "s.X"),
    ]


PAIR = pa.struct([("a", pa.int64()), ("A", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (PAIR, "c.A"),
        (pa.list_(PAIR), "c.element.A"),
        (pa.map_(pa.string(), PAIR), "c.value.A"),
        (pa.map_(PAIR, pa.string()), "c.key.A"),
        (
            pa.list_(pa.map_(pa.string(), pa.struct([("s", pa.list_(PAIR))]))),
            "c.element.value.s.element.A",
        ),
    ],
)
@pytest.mark.parametrize("options", [ConvertOptions(), ConvertOptions(column_mapping=True)])
def test_fields_that_differ_by_case_are_refused_at_any_depth(
    tmp_path: Path, kind: pa.DataType, column: str, options: ConvertOptions
) -> None:
    pq.write_table(pa.table({"c": pa.nulls(1, kind)}), tmp_path / "1.parquet")
    other = f"{column[:-1]}a"
    why = f"has the same name as {other!r}; names that differ only in case are equal"
    assert refuse(tmp_path, options).problems == (("1.parquet", column, why),)


def test_nested_columns_and_members_that_came_later(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"s": [{"x": 1}], "l": [[1, None]]})
    write(tmp_path, "2.parquet", {"s": [{"x": 2, "y": "q"}, None], "l": [None, []]})
    assert schema(convert(str(tmp_path))) == {"s": "struct<x:long,y:string>", "l": "array<long>"}
    assert_all_read(
        tmp_path,
        [
            {"s": {"x": 1, "y": None}, "l": [1, None]},
            {"s": {"x": 2, "y": "q"}, "l": None},
            {"s": None, "l": []},
        ],
    )


def test_times_of_all_kinds(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678_000)
    naive = [moment, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)]
    table = pa.table(
        {
            "ms": pa.array(naive, pa.timestamp("ms")),
            "us": pa.array(naive, pa.timestamp("us")),
            "ns": pa.array(naive, pa.timestamp("ns")),
            "zone": pa.array(naive, pa.timestamp("us")).cast(pa.timestamp("us", "Europe/Berlin")),
        }
    )
    write(tmp_path, "1.parquet", table)
    told: list[str] = []
    report = convert(str(tmp_path), warn=told.append)
    assert list(schema(report).values()) == ["timestamp_ntz"] * 3 + ["timestamp"]
    assert any("nanoseconds" in message for message in told)
    assert actions(tmp_path)["protocol"][0]["readerFeatures"] == ["timestampNtz"]
    expected = [
        dict.fromkeys(("ms", "us", "ns"), t) | {"zone": t.replace(tzinfo=dt.UTC)} for t in naive
    ]
    assert_all_read(tmp_path, expected)


def test_int96_is_an_instant(tmp_path: Path) -> None:
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678_901)
    table = pa.table({"t": pa.array([moment], pa.timestamp("us"))})
    write(tmp_path, "1.parquet", table, use_deprecated_int96_timestamps=True)
    assert schema(convert(str(tmp_path))) == {"t": "timestamp"}
    assert_all_read(tmp_path, [{"t": moment.replace(tzinfo=dt.UTC)}])


def test_unsigned_numbers_become_the_next_wider_type(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a": pa.array([255], pa.uint8()),
            "b": pa.array([2**16 - 1], pa.uint16()),
            "c": pa.array([2**32 - 1], pa.uint32()),
            "d": pa.array([2**64 - 1], pa.uint64()),
        }
    )
    write(tmp_path, "1.parquet", table)
    convert(str(tmp_path))
    assert_all_read(tmp_path, [{"a": 255, "b": 65535, "c": 2**32 - 1, "d": Decimal(2**64 - 1)}])


def test_a_column_of_nothing_but_null_is_left_out_or_takes_the_type_of_others(
    tmp_path: Path,
) -> None:
    write(tmp_path, "1.parquet", {"id": [1], "a": pa.nulls(1), "b": pa.nulls(1)})
    write(tmp_path, "2.parquet", {"id": [2], "a": ["x"], "b": pa.nulls(1)})
    told: list[str] = []
    assert schema(convert(str(tmp_path), warn=told.append)) == {"id": "long", "a": "string"}
    assert any(message.startswith("b: left out") for message in told)
    assert_all_read(tmp_path, [{"id": 1, "a": None}, {"id": 2, "a": "x"}])


def test_lists_that_are_empty_in_every_file_have_no_type(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"l": [[]]})
    assert [column for _, column, _ in refuse(tmp_path).problems] == ["l"]
    write(tmp_path, "2.parquet", {"l": [[1]]})
    convert(str(tmp_path))
    assert_all_read(tmp_path, [{"l": []}, {"l": [1]}])


def test_the_mark_of_change_data_is_no_column(tmp_path: Path) -> None:
    """Delta writes it, null, into the files of rows of an UPDATE."""
    mark = pa.nulls(1, pa.string())
    write(tmp_path, "1.parquet", {"id": [1], "_change_type": mark})
    for statistics in (True, False):
        report = convert(str(tmp_path), ConvertOptions(statistics=statistics), warn=ignore_warning)
        assert schema(report) == {"id": "long"}
        assert_all_read(tmp_path, [{"id": 1}])
        shutil.rmtree(tmp_path / "_delta_log")
    write(tmp_path, "2.parquet", {"id": [2], "_change_type": ["insert"]})
    assert schema(convert(str(tmp_path), warn=ignore_warning)) == {
        "id": "long",
        "_change_type": "string",
    }


def test_names_that_need_column_mapping(tmp_path: Path) -> None:
    write(tmp_path, "p q=1/1.parquet", {"a b": [1], "s": [{"x;y": 2}]})
    error = refuse(tmp_path)
    assert {column for _, column, _ in error.problems} == {"a b", "x;y", "p q"}
    assert "column_mapping" in error.message
    convert(str(tmp_path), ConvertOptions(column_mapping=True))
    (metadata,) = actions(tmp_path)["metaData"]
    assert metadata["configuration"] == {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "4",
        "deltactl.converted": "true",
    }
    assert_all_read(tmp_path, [{"a b": 1, "s": {"x;y": 2}, "p q": 1}])


def test_field_ids_of_the_files_do_not_matter(tmp_path: Path) -> None:
    for number, ids in enumerate([(1, 2), (7, 1)]):
        fields = [
            pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(field_id)})
            for name, field_id in zip("ab", ids, strict=True)
        ]
        write(tmp_path, f"{number}.parquet", pa.table([[1], [2]], schema=pa.schema(fields)))
    convert(str(tmp_path), ConvertOptions(column_mapping=True))
    assert_all_read(tmp_path, [{"a": 1, "b": 2}] * 2)


# -- where there is something already ----------------------------------------------------------


def test_again_is_nothing_to_do(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"id": [1]})
    convert(str(tmp_path))
    write(tmp_path, "2.parquet", {"id": [2]})
    report = convert(str(tmp_path))
    assert report.is_table_already and report.version_after == 0
    assert len(list((tmp_path / "_delta_log").iterdir())) == 1


def test_a_table_above_or_below_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "t/p=1/q=2/1.parquet", {"id": [1]})
    convert(str(tmp_path / "t"))
    with pytest.raises(SafetyError, match="is inside the Delta table"):
        convert(str(tmp_path / "t/p=1/q=2"))
    with pytest.raises(SafetyError, match="contains a Delta table in 't'"):
        convert(str(tmp_path))
    assert not (tmp_path / "_delta_log").exists()


def test_remains_of_a_log_are_not_built_upon(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {"id": [1]})
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log/_last_checkpoint").write_text("{}")
    with pytest.raises(SafetyError, match="but no commits"):
        convert(str(tmp_path))
    (tmp_path / "_delta_log/_last_checkpoint").unlink()
    assert convert(str(tmp_path)).version_after == 0  # an empty folder is nobody's


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("metadata/v1.metadata.json", UnsupportedFeatureError, "Iceberg"),
        ("metadata/version-hint.text", UnsupportedFeatureError, "Iceberg"),
        (".hoodie/hoodie.properties", UnsupportedFeatureError, "Hudi"),
        ("_spark_metadata/0", SafetyError, "stream"),
        ("deletion_vector_6.bin", SafetyError, "which rows are"),
        (
            "_x/ab/deletion_vector_6.bin",
            SafetyError,
            "which rows",
        ),
    ],
)
def test_tables_of_other_formats_are_refused_by_name(
    tmp_path: Path, name: str, error: type[Exception], told: str
) -> None:
    write(tmp_path, "data/1.parquet", {"id": [1]})
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("{}")
    with pytest.raises(error, match=told):
        convert(str(tmp_path))
    assert not (tmp_path / "_delta_log").exists()


def test_a_cancelled_run_leaves_nothing(tmp_path: Path) -> None:
    import threading

    for number in range(3):
        write(tmp_path, f"{number}.parquet", {"id": [number]})
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(InterruptedRunError):
        run_on(LocalStore(str(tmp_path)), convert_directory, ConvertOptions(), cancel=cancel)
    assert not (tmp_path / "_delta_log").exists()


# -- directories as other tools write them -----------------------------------------------------

ROWS = [
    {
        "id": n,
        "s": None if n % 5 == 0 else f"v{n}",
        "d": dt.date(2024, 1, 1 + n % 3),
        "c": "ab c"[n % 4],
    }
    for n in range(60)
]


def test_a_directory_written_by_pyarrow(tmp_path: Path) -> None:
    pq.write_to_dataset(pa.Table.from_pylist(ROWS), tmp_path, partition_cols=["d", "c"])
    convert(str(tmp_path))
    assert_all_read(tmp_path, ROWS)


def test_a_directory_written_by_duckdb(tmp_path: Path) -> None:
    import duckdb

    source = pa.Table.from_pylist(ROWS)
    with duckdb.connect() as connection:
        connection.register("source", source)
        connection.execute(
            f"COPY source TO '{tmp_path}' (FORMAT parquet, PARTITION_BY (d, c), APPEND)"
        )
    convert(str(tmp_path))
    assert_all_read(tmp_path, ROWS)


def test_a_directory_written_by_pandas(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(
        {"id": [1, 2], "x": [1.5, None], "t": pd.to_datetime(["2024-01-01", None])}
    )
    frame.to_parquet(tmp_path / "1.parquet")
    frame.astype({"x": "object"}).assign(x=None).to_parquet(tmp_path / "2.parquet")
    convert(str(tmp_path), warn=ignore_warning)
    day = dt.datetime(2024, 1, 1)
    expected = [{"id": 1, "x": x, "t": day} for x in (1.5, None)]
    expected += [{"id": 2, "x": None, "t": None}] * 2
    found = [
        {name: None if value is pd.NaT else value for name, value in row.items()}
        for row in rows(tmp_path)
    ]
    assert multiset(found) == multiset(expected)
    assert (
        multiset(rows_with_duckdb(tmp_path))
        == multiset(rows_with_delta_rs(tmp_path))
        == multiset(rows(tmp_path))
    )


ROW_ID = "_row-id-col-0a1b2c3d-4e5f-6789-abcd-ef0123456789"
ROW_VERSION = "_row-commit-version-col-0a1b2c3d-4e5f-6789-abcd-ef0123456789"


@pytest.mark.parametrize("column_mapping", [False, True])
def test_columns_of_row_tracking_are_left_out(tmp_path: Path, column_mapping: bool) -> None:
    mark = pa.nulls(1, pa.string())
    hidden = {ROW_ID: [7], ROW_VERSION: [3], "_change_type": mark, "__is_cdc": [False]}
    write(tmp_path, "1.parquet", {**hidden, "id": [1]})
    write(tmp_path, "2.parquet", {"id": [2]})
    notes: list[str] = []
    report = convert(
        str(tmp_path), ConvertOptions(column_mapping=column_mapping), warn=notes.append
    )
    assert schema(report) == {"id": "long"}
    (note,) = notes
    assert note.startswith(f"__is_cdc, _change_type, {ROW_VERSION}, {ROW_ID}: left out")
    for add in actions(tmp_path)["add"]:
        assert list(json.loads(add["stats"])["nullCount"]) == ["id"]
    assert_all_read(tmp_path, [{"id": 1}, {"id": 2}])


def test_columns_that_only_look_like_those_of_row_tracking_are_kept(tmp_path: Path) -> None:
    columns = {
        "_row-id-col-1": [1],
        ROW_ID.upper(): [2],
        f"{ROW_ID}0": [3],
        ROW_VERSION: ["text"],
        "_change_type": pa.nulls(1, pa.int64()),
        "__is_cdc": [4],
        "s": [{ROW_ID: 5}],
    }
    write(tmp_path, "1.parquet", columns)
    assert list(schema(convert(str(tmp_path)))) == list(columns)
    assert_all_read(tmp_path, pa.table(columns).to_pylist())


def test_the_mark_of_change_data_is_kept_where_it_marks_nothing(tmp_path: Path) -> None:
    """Delta on Spark writes ``__is_cdc`` only beside ``_change_type``: alone, it is a user's."""
    write(tmp_path, "1.parquet", {"__is_cdc": [True], "id": [1]})
    assert schema(convert(str(tmp_path))) == {"__is_cdc": "boolean", "id": "long"}
    assert_all_read(tmp_path, [{"__is_cdc": True, "id": 1}])


def test_a_partition_column_is_never_hidden(tmp_path: Path) -> None:
    write(tmp_path, f"{ROW_ID}=5/1.parquet", {ROW_ID: [5], "id": [1]})
    assert schema(convert(str(tmp_path))) == {ROW_ID: "long", "id": "long"}
    assert_all_read(tmp_path, [{ROW_ID: 5, "id": 1}])


def test_files_of_nothing_but_hidden_columns_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", {ROW_ID: [5]})
    assert ROW_ID in refuse(tmp_path).message


def test_hidden_columns_do_not_take_the_place_of_others_in_statistics(tmp_path: Path) -> None:
    """The first file decides which leaves are read; by default, 32 of them."""
    real = {f"c{number}": [number] for number in range(32)}
    for number in (1, 2):
        write(tmp_path, f"{number}.parquet", {ROW_ID: [1], "v": pa.nulls(1), **real})
    convert(str(tmp_path), warn=ignore_warning)
    for add in actions(tmp_path)["add"]:
        stats = json.loads(add["stats"])
        assert stats["nullCount"] == dict.fromkeys(real, 0)
        assert stats["minValues"]["c31"] == 31


def test_a_column_without_a_type_does_not_take_the_place_of_others(tmp_path: Path) -> None:
    real = {f"c{number}": [number] for number in range(32)}
    for number in (1, 2):
        write(tmp_path, f"{number}.parquet", {"v": pa.nulls(1), **real})
    convert(str(tmp_path), warn=ignore_warning)
    stats = [json.loads(add["stats"]) for add in actions(tmp_path)["add"]]
    assert [s["nullCount"]["c31"] for s in stats] == [0, 0]


@pytest.mark.parametrize("held", [1, 2, 64])
def test_footers_are_read_in_parts(
    held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of two schemas in turn, and a broken one: each has its own statistics, or problem."""
    monkeypatch.setattr(tasks, "_FOOTERS_HELD", held)
    for number in range(9):
        columns = {"n": [number, number + 10]} | ({"s": ["x", None]} if number % 2 else {})
        write(tmp_path, f"{number}.parquet", columns)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(FINDS.joinpath("histogram-of-another-length").read_bytes())
    with pytest.raises(ConversionError, match="because of 1 problem: 'broken.parquet'"):
        convert(str(tmp_path))
    broken.unlink()
    convert(str(tmp_path))
    found = {add["path"]: json.loads(add["stats"]) for add in actions(tmp_path)["add"]}
    assert len(found) == 9
    for number in range(9):
        stats = found[f"{number}.parquet"]
        assert stats["minValues"]["n"] == number
        assert stats["maxValues"]["n"] == number + 10
        assert stats["nullCount"] == {"n": 0, "s": 1 if number % 2 else 2}
