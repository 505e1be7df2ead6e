"""Columns and partitions of converted directories: which there are, and of which types."""

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import Table, convert
from deltactl.errors import UsageError, ignore_warning
from deltactl.operations.convert.options import PartitionColumn, parse_partition_by
from deltactl.operations.convert.run import ConvertOptions
from deltactl.protocol.schema import PrimitiveType
from tests.interop.judges import rows_with_delta_rs
from tests.operations.convert.test_run import (
    actions,
    assert_all_read,
    refuse,
    rows,
    schema,
    write,
)
from tests.support.table_builder import multiset

WIDEN = ConvertOptions(schema_mode="widen")


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


def test_times_with_a_zone_in_folder_names_need_no_warning(tmp_path: Path) -> None:
    for zoned in ("2024-06-01 12%3A00%3A00Z", "2024-06-01T12%3A00%3A00+02:00"):
        write(tmp_path, f"t={zoned}/1.parquet", {"id": [1]})
    write(tmp_path, "t=__HIVE_DEFAULT_PARTITION__/1.parquet", {"id": [1]})
    told: list[str] = []
    options = ConvertOptions(partition_by=parse_partition_by("t timestamp"))
    convert(str(tmp_path), options, warn=told.append)
    assert not told


def test_null_times_in_folder_names_need_no_warning(tmp_path: Path) -> None:
    write(tmp_path, "t=__HIVE_DEFAULT_PARTITION__/1.parquet", {"id": [1]})
    report = convert(str(tmp_path), partition_by="t timestamp")
    assert report.plan is not None and report.plan.notes == ()


def test_a_partition_column_in_the_files_too_keeps_its_place_and_type(tmp_path: Path) -> None:
    write(tmp_path, "p=01/1.parquet", {"p": pa.array([1], pa.int16()), "id": [5]})
    told: list[str] = []
    report = convert(str(tmp_path), warn=told.append)
    assert told == ["p: also in the files, but readers take the values of the directories"]
    assert list(schema(report).items()) == [("p", "short"), ("id", "long")]
    assert "p" not in json.loads(actions(tmp_path)["add"][0]["stats"])["nullCount"]
    assert_all_read(tmp_path, [{"p": 1, "id": 5}])


@pytest.mark.parametrize(
    ("text", "stored", "asked", "is_other"),
    [
        ("01", [1, 1], "p string", False),
        ("1", [2, 2], None, True),
        ("1", [1, 2], None, True),
        ("1", [None, None], None, False),
        ("x", [1, 1], "p string", True),
        ("__HIVE_DEFAULT_PARTITION__", [1, 1], None, True),
        ("2024-01-01", [dt.date(2024, 1, 1)], None, False),
        ("2024-01-01", [dt.date(2024, 1, 9)], None, True),
        ("2024-01-01 12%3A00%3A00", [dt.datetime(2024, 1, 1, 12)], None, False),
        ("2024-01-01 12%3A00%3A00", [dt.datetime(2024, 1, 1, 13)], None, True),
        ("a" * 40, ["a" * 40], None, False),
        ("a" * 40, ["b" * 40], None, True),
        ("1.1", pa.array([1.1], pa.float32()), None, False),
        ("1.50", pa.array(["1.5"]).cast(pa.decimal128(5, 2)), None, False),
        ("true", [False], None, True),
    ],
)
def test_other_values_of_a_partition_column_in_the_files_are_counted(
    tmp_path: Path, text: str, stored: Any, asked: str | None, is_other: bool
) -> None:
    for number in range(2):
        write(tmp_path, f"p={text}/{number}.parquet", {"p": stored, "id": [5] * len(stored)})
    told: list[str] = []
    partition_by = None if asked is None else parse_partition_by(asked)
    convert(str(tmp_path), ConvertOptions(partition_by=partition_by), warn=told.append)
    assert [message for message in told if "other values" in message] == is_other * [
        "p: 2 files with other values than those of the directories. Readers ignore these values, "
        "and an optimize drops them from the files that it rewrites"
    ]


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
        (["p=/1.parquet"], None, "rename it to 'p=__HIVE_DEFAULT_PARTITION__'"),
        (
            ["p=/q=1/1.parquet", "p=__HIVE_DEFAULT_PARTITION__/q=2/1.parquet"],
            None,
            "move its files to 'p=__HIVE_DEFAULT_PARTITION__', which has files too",
        ),
        (
            ["p=1/q=/1.parquet", "p=2/q=__HIVE_DEFAULT_PARTITION__/1.parquet"],
            None,
            "rename it to 'q=__HIVE_DEFAULT_PARTITION__', as Spark names it. Then '' becomes null",
        ),
        (["p=1/1.parquet", "P=2/1.parquet"], None, "differ from P=... in case: rename them"),
        (["p=1/q=1/1.parquet", "p=1/Q=2/1.parquet"], None, "differ from p=.../Q=... in case"),
        (["=1/1.parquet"], None, "has no column name"),
        (["p=1/p=2/1.parquet"], None, "occurs twice"),
        (["p=1/1.parquet"], "", "the table has no partition columns"),
        (["p=1/1.parquet"], "p int, q int", "its partition directories are not p=.../q=..."),
        (["p=x/1.parquet", "p=1/2.parquet"], "p int", "not a valid integer"),
        (["p=300/1.parquet"], "p byte", "not a valid byte"),
    ],
)
def test_folders_that_do_not_fit_are_named(
    tmp_path: Path, names: list[str], asked: str | None, told: str
) -> None:
    for name in names:
        write(tmp_path, name, {"id": [1]})
    partition_by = None if asked is None else parse_partition_by(asked)
    assert told in refuse(tmp_path, ConvertOptions(partition_by=partition_by)).message


def test_the_case_of_folders_does_not_matter_if_columns_are_given(tmp_path: Path) -> None:
    for name in ("p=1/1.parquet", "P=2/1.parquet"):
        write(tmp_path, name, {"id": [1]})
    convert(str(tmp_path), partition_by="P int")
    assert_all_read(tmp_path, [{"id": 1, "P": 1}, {"id": 1, "P": 2}])


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
    ("text", "kind"),
    [
        ("INT", "integer"),
        ("varchar(10)", "string"),
        ("CHAR (3)", "string"),
        ("dec(5)", "decimal(5,0)"),
        ("Decimal128(10, 2)", "decimal(10,2)"),
        ("timestamp_ltz", "timestamp"),
        ("int64", "long"),
        ("date32[day]", "date"),
        ("timestamp[us]", "timestamp_ntz"),
        ("timestamp[us, tz=UTC]", "timestamp"),
        ("large_string", "string"),
    ],
)
def test_types_are_spelled_as_in_spark_and_arrow(text: str, kind: str) -> None:
    found = parse_partition_by(f"p {text}, q")
    assert [it.type for it in found] == [PrimitiveType(kind), None]


@pytest.mark.parametrize(
    "text", ["a b c", "a int int", ", a", "p what", "a int, A int", "d decimal(40,2)"]
)
def test_partition_columns_that_cannot_be_understood(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_partition_by(text)
    assert "partition_by" not in caught.value.message  # the caller says it


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


def test_the_type_of_a_conflict_may_become_wider_by_other_files(tmp_path: Path) -> None:
    for number, kind in enumerate(
        [pa.decimal128(20, 0), pa.decimal128(21, 1), pa.decimal128(13, 3)]
    ):
        write(tmp_path, f"{number}.parquet", {"a": pa.array([Decimal(1)], kind)})
    told = [why.partition("; ")[2] for _, _, why in refuse(tmp_path).problems]
    makes = "schema_mode='widen' makes both"
    assert told == [f"{makes} decimal(21,1) or wider", f"{makes} decimal(23,3) or wider"]
    assert schema(convert(str(tmp_path), WIDEN)) == {"a": "decimal(23,3)"}


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
    pq.write_table(pa.table({"c": pa.nulls(2, kind)}), tmp_path / "2.parquet")
    expected = [(f"{number}.parquet", column, why) for number in (1, 2)]
    assert sorted(refuse(tmp_path, options).problems) == expected


def test_columns_that_differ_by_case_are_one_problem_of_a_file(tmp_path: Path) -> None:
    for number in (1, 2):
        pq.write_table(pa.table({"a": [1], "A": [2]}), tmp_path / f"{number}.parquet")
    why = "has the same name as 'a'; names that differ only in case are equal"
    expected = [(f"{number}.parquet", "A", why) for number in (1, 2)]
    assert sorted(refuse(tmp_path, ConvertOptions()).problems) == expected


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    columns = [pa.array([1]), pa.array([2])]
    pq.write_table(pa.Table.from_arrays(columns, names=["a", "a"]), tmp_path / "1.parquet")
    [(file, column, why)] = refuse(tmp_path, ConvertOptions()).problems
    assert (file, column) == ("1.parquet", "a")
    assert why.startswith("has the same name as 'a'")


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


def test_the_command_of_the_warning_rewrites_all_files_with_nanoseconds(tmp_path: Path) -> None:
    nanoseconds = pa.table({"id": [1], "t": pa.array([1_000_000_001], pa.timestamp("ns", "UTC"))})
    for name in ("p=1/1.parquet", "p=1/2.parquet", "p=2/3.parquet"):
        write(tmp_path, name, nanoseconds)
    told: list[str] = []
    convert(str(tmp_path), warn=told.append)
    assert any("`deltactl optimize --zorder-by COLUMNS` rewrites all" in text for text in told)
    table = Table(str(tmp_path))
    assert table.optimize(min_input_files=1).files_removed == 2  # it can merge these
    assert table.optimize(zorder_by="id").files_removed == 2
    added = [action["path"] for version in (1, 2) for action in actions(tmp_path, version)["add"]]
    assert {pq.read_schema(tmp_path / path).field("t").type.unit for path in added} == {"us"}
    assert "p=2/3.parquet" in {action["path"] for action in actions(tmp_path, 2)["remove"]}


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


def test_a_column_of_nothing_but_null_can_be_nested_in_others(tmp_path: Path) -> None:
    """Some writers store such a column, or a member of a struct, without its type."""
    null = pa.null()
    map_of = pa.map_(pa.string(), pa.int64())
    row = {"s": {"a": 1}, "l": [1], "m": [("k", 1)]}
    kind = pa.struct(
        [("s", pa.struct([("a", pa.int64())])), ("l", pa.list_(pa.int64())), ("m", map_of)]
    )
    bare = pa.struct([("s", null), ("l", null), ("m", null)])
    whole = {name: pa.array([value], kind.field(name).type) for name, value in row.items()}
    in_list = {"id": [1], "v": pa.array([row], kind), "e": [[{"y": 1}]], **whole}
    write(tmp_path, "1.parquet", in_list)
    in_bare = {"v": pa.array([dict.fromkeys(row), None], bare), "e": pa.array([[None], []])}
    write(tmp_path, "2.parquet", {"id": [2, 3], **in_bare, **dict.fromkeys(row, pa.nulls(2))})
    convert(str(tmp_path))
    nulls = dict.fromkeys(row)
    expected = [
        {"id": 1, "v": row, "e": [{"y": 1}], **row},
        {"id": 2, "v": nulls, "e": [None], **nulls},
        {"id": 3, "v": None, "e": [], **nulls},
    ]
    table = Table(str(tmp_path))
    assert table.check(depth="data").is_sound
    for _ in range(2):
        assert multiset(rows(tmp_path)) == multiset(expected)
        assert multiset(rows_with_delta_rs(tmp_path)) == multiset(expected)
        table.optimize(min_file_bytes=1 << 20)
    assert Table(str(tmp_path)).check(depth="data").is_sound
    assert [action["path"] for action in actions(tmp_path, 1)["remove"]] == [
        "1.parquet",
        "2.parquet",
    ]


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
    assert {column for _, column, _ in error.problems} == {"a b", "s.x;y", "p q"}
    assert "column_mapping" in error.message
    assert (error.hint or "").startswith("Rerun with column_mapping=True. ")
    write(tmp_path, "p q=2/2.parquet", {"a b": ["x"], "s": [{"x;y": 2}]})
    assert (refuse(tmp_path).hint or "").startswith("Fix these files")  # it helps only some
    (tmp_path / "p q=2/2.parquet").unlink()
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


# -- hidden columns ---------------------------------------------------------------------------

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
    assert schema(convert(str(tmp_path), warn=ignore_warning)) == {ROW_ID: "long", "id": "long"}
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
