"""The scenarios of the convert suites of Delta on Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import ConversionError, SafetyError, Table, convert
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.interop.suites import ensure_test_exists
from tests.support.table_builder import multiset

_RUN: Final = "operations/convert/test_run.py::"
_SCHEMAS: Final = "operations/convert/test_schemas.py::"
HELD: Final = {
    "statistics and their number of rows": f"{_RUN}test_one_commit_that_says_what_spark_says",
    "the number of files": f"{_RUN}test_one_commit_that_says_what_spark_says",
    "no statistics": f"{_RUN}test_without_statistics_adds_have_none",
    "properties": f"{_RUN}test_name_and_properties_are_written_to_the_metadata",
    "no directory, an empty one, only files of other formats": f"{_RUN}test_nothing_to_convert",
    "a name without a suffix": f"{_RUN}test_data_without_an_ending_as_hive_writes_it",
    "other columns in other files": f"{_RUN}test_one_commit_that_says_what_spark_says",
    "text with the name of a Parquet file": (
        f"{_RUN}test_all_offenders_at_once_and_nothing_committed"
    ),
    "files of a stream, refused other than Spark": (
        f"{_RUN}test_tables_of_other_formats_are_refused_by_name[_spark_metadata]"
    ),
    "a partition column that is in the files too": (
        f"{_SCHEMAS}test_a_partition_column_in_the_files_too_keeps_its_place_and_type"
    ),
    "two partition columns": f"{_SCHEMAS}test_given_columns_and_types_win",
    "a value that is no integer": f"{_SCHEMAS}test_folders_that_do_not_fit_are_named",
    "files beside partitions": f"{_SCHEMAS}test_folders_that_do_not_fit_are_named",
    "nulls and dates in partitions": (
        f"{_SCHEMAS}test_partition_values_are_decoded_and_types_guessed"
    ),
    "types that do not merge": f"{_SCHEMAS}test_types_that_nothing_holds_are_conflicts",
    "short and integer": f"{_SCHEMAS}test_types_widen_where_allowed",
    "a directory of Spark": (
        "interop/test_convert_spark.py::test_a_directory_of_spark_read_by_spark"
    ),
}
KEYS: Final = "%!@#$%^&*-", "?.+<_>|/"


@dataclass(frozen=True)
class Directory:
    """Files with their columns (or text), options, and the rows of the table or the refusal."""

    files: Mapping[str, Mapping[str, Any] | str]
    expected: list[dict[str, Any]] | str
    options: Mapping[str, Any] = field(default_factory=dict)
    empty: tuple[str, ...] = ()


def by(texts: str) -> dict[str, Any]:
    return {"partition_by": texts}


def named(key: str) -> Directory:
    folder = f"{quote(key, safe='')}={quote(f'{key}a{key}', safe='')}"
    return Directory({f"{folder}/1.parquet": {"id": [1]}}, [{"id": 1, key: f"{key}a{key}"}])


ONE: Final = {"id": [1]}
TWO_KEYS: Final = {"a=1/b=x/1.parquet": ONE}
DIRECTORIES: Final = {
    **{
        f"{ending} beside Parquet is left out, other than Spark": Directory(
            {f"part=1/0.{ending}": "x", "part=2/1.parquet": ONE}, [{"id": 1, "part": 2}]
        )
        for ending in ("orc", "json", "csv")
    },
    "too few partition columns": Directory(TWO_KEYS, "are not a=...", by("a long")),
    "another name of a partition column": Directory(
        TWO_KEYS, "are not a=.../bb=...", by("a long, bb string")
    ),
    **{
        f"{char!r} in a column": Directory(
            {f"{quote(char)}k={quote(char)}v/1.parquet": ONE}, "column_mapping"
        )
        for char in " ,;{}()\n\t="
    },
    **{f"{key} in columns and values": named(key) for key in KEYS},
    "empty directories": Directory(
        {"k=1/1.parquet": ONE}, [{"id": 1, "k": "1"}], by("k string"), empty=("k=2", "other")
    ),
    "= in the name of a file": Directory(
        {"k=1/data-id=1.snappy.parquet": ONE}, [{"id": 1, "k": "1"}], by("k string")
    ),
    "columns begin with an underscore and a dot": Directory(
        {"_a=1/.b=x/1.parquet": ONE}, [{"id": 1, "_a": 1, ".b": "x"}], by("_a long, `.b` string")
    ),
}


@pytest.mark.parametrize("scenario", HELD)
def test_another_test_holds(scenario: str) -> None:
    ensure_test_exists(HELD[scenario])


@pytest.mark.parametrize("scenario", DIRECTORIES)
def test_scenario(tmp_path: Path, scenario: str) -> None:
    scene = DIRECTORIES[scenario]
    for folder in scene.empty:
        (tmp_path / folder).mkdir()
    for name, content in scene.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            (tmp_path / name).write_text(content)
        else:
            pq.write_table(pa.table(content), tmp_path / name)
    if isinstance(scene.expected, str):
        with pytest.raises(ConversionError, match=scene.expected):
            convert(tmp_path, **scene.options)
        assert not (tmp_path / "_delta_log").exists()
        return
    convert(tmp_path, **scene.options)
    rows = Table(tmp_path).scan().read_all().to_pylist()
    assert multiset(rows) == multiset(scene.expected)
    for read in (rows_with_delta_rs, rows_with_duckdb):
        assert multiset(read(tmp_path)) == multiset(rows)
    assert convert(tmp_path, **scene.options).version_after == 0  # and changes nothing


def test_one_partition_of_a_directory_becomes_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a=1"
    (path / "b=x").mkdir(parents=True)
    pq.write_table(pa.table(ONE), path / "b=x" / "1.parquet")
    convert(path, partition_by="b string")
    assert rows_with_delta_rs(path) == [{"id": 1, "b": "x"}]
    with pytest.raises(SafetyError, match="contains a Delta table"):
        convert(tmp_path)


def test_one_file_that_requires_a_column_leaves_it_nullable(tmp_path: Path) -> None:
    pq.write_table(pa.table(ONE), tmp_path / "1.parquet")
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    pq.write_table(pa.table(ONE, required), tmp_path / "2.parquet")
    convert(tmp_path)
    assert Table(tmp_path).snapshot().metadata.schema.fields[0].nullable
