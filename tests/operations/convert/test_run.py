"""Directories of many writers become tables that every reader reads alike, or nothing at all."""

import datetime as dt
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

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
from deltactl.operations.convert.directory import LINKED, NOT_FOLLOWED
from deltactl.operations.convert.options import parse_partition_by
from deltactl.operations.convert.run import ConvertOptions, ConvertReport, convert_directory
from deltactl.protocol.schema import render_type
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.run import run_on
from tests.support.stores import CountingStore, opened_as
from tests.support.table_builder import multiset

FINDS = Path(__file__).parents[2] / "fuzz" / "finds" / "footer"


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
    assert "readVersion" not in info
    assert (info["isolationLevel"], info["isBlindAppend"]) == ("Serializable", False)
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
    options = ConvertOptions(properties=properties, name="events", description="what happened")
    convert(str(tmp_path), options)
    found = actions(tmp_path)
    assert found["metaData"][0]["name"] == "events"
    assert found["metaData"][0]["description"] == "what happened"
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


def test_statistics_of_a_column_that_a_property_does_not_name_as_spark_does_are_refused(
    tmp_path: Path,
) -> None:
    write(tmp_path, "1.parquet", {"a b": [1]})
    options = ConvertOptions(
        properties={"delta.dataSkippingStatsColumns": "a b"}, column_mapping=True
    )
    with pytest.raises(UsageError, match="no data column 'a b'"):
        convert(str(tmp_path), options)
    assert not (tmp_path / "_delta_log").exists()


# -- what belongs to the table -----------------------------------------------------------------


def test_hidden_and_foreign_files_are_left_out_and_listed(tmp_path: Path) -> None:
    good = write(tmp_path, "k=a/1.parquet", {"id": [1]})
    left_out = [
        "_bak.parquet", ".dot.parquet", "_SUCCESS", "_temporary/0/x.parquet", "k=a/_tmp/x.parquet",
        "k=a/.staging/deep/x.parquet", "k=a/.1.parquet.crc", "k=a/1.parquet.crc", "README.md",
        "k=a/data.csv", "k=a/old.parquet.bak",
    ]  # fmt: skip
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
    write(tmp_path, "linked/b.parquet", {"id": [4]})
    for link, target in {
        "p=1/0.parquet": "a.parquet",  # it comes before its file
        "p=2/latest.parquet": "../p=1/a.parquet",
        "p=1/chain.parquet": "0.parquet",
        "p=1/shown.parquet": "_hidden.parquet",
        "p=3/out.parquet": str(tmp_path / "elsewhere.parquet"),
        "p=3/dead.parquet": "nowhere",
        "p=4": str(tmp_path / "linked"),
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
    assert sorted(e.path for e in report.plan.left_out if e.reason == NOT_FOLLOWED) == [
        "p=3/dead.parquet",
        "p=4",
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


def test_a_directory_of_links_to_directories_is_not_called_empty(tmp_path: Path) -> None:
    write(tmp_path, "a/x.parquet", {"id": [1]})
    (tmp_path / "t").mkdir()
    (tmp_path / "t/p=1").symlink_to(tmp_path / "a")
    with pytest.raises(ConversionError, match="only links, such as 'p=1'"):
        convert(str(tmp_path / "t"))


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


@pytest.mark.parametrize(
    "name", [b"caf\xe9.parquet", b"p=caf\xe9/1.parquet", b"caf\xe9/p=1/1.parquet"]
)
def test_a_path_that_is_not_utf8_is_a_problem(tmp_path: Path, name: bytes) -> None:
    """A log cannot name it. Other files that are not Parquet are left out."""
    write(tmp_path, "1.parquet", {"id": [1]})
    stored = tmp_path / os.fsdecode(name)
    try:
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.with_name(os.fsdecode(b"\xe9")).write_bytes(b"text")
    except OSError:
        pytest.skip("the file system takes only UTF-8")
    shutil.copy(tmp_path / "1.parquet", stored)
    ((path, column, why),) = refuse(tmp_path).problems
    assert (os.fsencode(path), column) == (name, None)
    assert why.startswith("its path is not UTF-8")
    stored.unlink()
    assert convert(str(tmp_path)).files_added == 1


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


# -- where there is something already ----------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "is_warned"),
    [
        (None, False),
        ("y", False),
        ("y int", False),
        ("y binary", True),
        ("z int", True),
        ("y, z", True),
    ],
)
def test_other_partition_columns_than_those_of_the_table_are_a_warning(
    tmp_path: Path, asked: str | None, is_warned: bool
) -> None:
    write(tmp_path, "y=1/1.parquet", {"id": [1]})
    convert(str(tmp_path))
    partition_by = None if asked is None else parse_partition_by(asked)
    told: list[str] = []
    convert(str(tmp_path), ConvertOptions(partition_by=partition_by), warn=told.append)
    assert told == is_warned * [
        "partition_by has no effect: this already is a table, with the partition columns: y integer"
    ]


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
        ("_deltactl/vacuum/1/run.json", SafetyError, "shows that it was a Delta table"),
        ("_deltactl/clone.json", SafetyError, "is an unfinished deep clone"),
        ("_change_data/cdc-1.parquet", SafetyError, "shows that it was a Delta table"),
        (f"_delta_log.bak/{0:020d}.json", SafetyError, "shows that it was a Delta table"),
        (f"old/log/{7:020d}.checkpoint.parquet", SafetyError, "shows that it was a Delta table"),
        ("_old/_last_checkpoint", SafetyError, "shows that it was a Delta table"),
        (f"{0:020d}.json", SafetyError, "shows that it was a Delta table"),
        ("_spark_metadata/.0.crc", SafetyError, "stream: '_spark_metadata' lists"),
        ("deletion_vector_6.bin", SafetyError, "which rows are"),
        ("_x/ab/deletion_vector_6.bin", SafetyError, "which rows"),
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


# -- directories that were tables --------------------------------------------------------------


def write_table_of_delta_rs(root: Path) -> DeltaTable:
    for start in (0, 10):
        write_deltalake(root, pa.table({"id": range(start, start + 10)}), mode="append")
    return DeltaTable(root)


def zorder_with_delta_rs(root: Path) -> None:
    write_table_of_delta_rs(root).optimize.z_order(["id"])


def compact_with_delta_rs(root: Path) -> None:
    write_table_of_delta_rs(root).optimize.compact()


def optimize_with_deltactl(root: Path) -> None:
    write(root, "a.parquet", {"id": range(10)})
    write(root, "b.parquet", {"id": range(10, 20)})
    convert(str(root))
    Table(str(root)).optimize()


@pytest.mark.parametrize(
    ("make_table", "count"),
    [(compact_with_delta_rs, 3), (zorder_with_delta_rs, 3), (optimize_with_deltactl, 1)],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_files_of_a_table_that_lost_its_log_are_told_of(
    tmp_path: Path, make_table: Any, count: int, dry_run: bool
) -> None:
    make_table(tmp_path)
    assert len(rows(tmp_path)) == 20
    shutil.rmtree(tmp_path / "_delta_log")
    said: list[str] = []
    report = convert(str(tmp_path), dry_run=dry_run, warn=said.append)
    assert report.plan is not None and report.plan.num_rows == 40
    (note,) = report.plan.notes
    assert said == [note]
    files = "1 file was" if count == 1 else f"{count} files were"
    assert note.startswith(f"{files} written by deltactl, delta-rs or Delta Kernel, such as 'part-")


def test_files_with_the_names_of_spark_are_not_told_of(tmp_path: Path) -> None:
    unique = "0b8ee9f2-3b0c-4f0e-8d5c-6f8a1d1f0c11"
    write(tmp_path, f"part-00000-{unique}-c000.snappy.parquet", {"id": [1]})
    write(tmp_path, f"part-00000-{unique}.c000.snappy.parquet", {"id": [2]})
    convert(str(tmp_path), warn=pytest.fail)


@pytest.mark.parametrize(
    ("old", "new", "is_told"),
    [
        (b"parquet-cpp-arrow", b"\xff" * 17, False),
        (b"parquet-cpp-arrow", b"delta-rs version ", True),
    ],
)
def test_a_creator_in_a_footer(tmp_path: Path, old: bytes, new: bytes, is_told: bool) -> None:
    path = write(tmp_path, "a.parquet", {"id": [1]})
    path.write_bytes(path.read_bytes().replace(old, new))
    said: list[str] = []
    convert(str(tmp_path), warn=said.append)
    assert len(said) == is_told


def test_files_of_delta_kernel_are_told_of(tmp_path: Path) -> None:
    key = {"io.delta.kernel.default-parquet-writer": "Kernel-Defaults-4.0.0"}
    write(tmp_path, "a.parquet", pa.table({"id": [1]}).replace_schema_metadata(key))
    said: list[str] = []
    convert(str(tmp_path), warn=said.append)
    assert "delta-rs or Delta Kernel, such as 'a.parquet'" in said[0]


def test_manifests_do_not_fit_column_mapping(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"id": [1]})
    properties = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    with pytest.raises(SafetyError, match="column mapping"):
        convert(str(tmp_path), ConvertOptions(column_mapping=True, properties=properties))
    assert not (tmp_path / "_delta_log").exists()
