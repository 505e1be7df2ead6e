"""Directory texts of every type become values that delta-rs and DuckDB read."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import convert
from deltactl.errors import ConversionError, ignore_warning
from deltactl.operations.convert.options import ConvertOptions, parse_partition_by
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.table_builder import multiset

UTC = dt.UTC


def write(root: Path, texts: list[str]) -> None:
    for number, text in enumerate(texts):
        folder = root / f"p={quote(text, safe='')}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), folder / "part-0.parquet")


def partition_values(root: Path) -> list[str]:
    lines = (root / f"_delta_log/{0:020d}.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in lines if '"add"' in line]
    adds.sort(key=lambda add: json.loads(add["stats"])["minValues"]["id"])
    return [add["partitionValues"]["p"] for add in adds]


@pytest.mark.parametrize(
    ("kind", "texts", "written", "values"),
    [
        ("timestamp_ntz", ["2025-02-19", "2025-02-19T13:00:00", "2025-02-19 13:00"],
            ["2025-02-19 00:00:00", "2025-02-19 13:00:00", "2025-02-19 13:00:00"],
            [dt.datetime(2025, 2, 19), *[dt.datetime(2025, 2, 19, 13)] * 2]),
        ("timestamp", ["2025-02-19", "2025-02-19T13:00:00+01:00"],
            ["2025-02-19T00:00:00.000000Z", "2025-02-19T12:00:00.000000Z"],
            [dt.datetime(2025, 2, 19, tzinfo=UTC), dt.datetime(2025, 2, 19, 12, tzinfo=UTC)]),
        ("date", ["2025-2-9"], ["2025-02-09"], [dt.date(2025, 2, 9)]),
        ("decimal(10,2)", ["1.5", "1", "2.000"], ["1.50", "1.00", "2.00"],
            [Decimal("1.50"), Decimal("1.00"), Decimal("2.00")]),
        ("integer", ["007", "+8"], ["7", "8"], [7, 8]),
        ("double", ["1", "1e10", "-inf"], ["1.0", "1.0E10", "-Infinity"],
            [1.0, 1e10, -float("inf")]),
        ("boolean", ["True", "false"], ["true", "false"], [True, False]),
        ("string", ["007", "2025-02-19T13:00:00"], None, None),
    ],
)  # fmt: skip
def test_texts_are_written_in_the_form_of_the_protocol(
    tmp_path: Path, kind: str, texts: list[str], written: list[str] | None, values: Any
) -> None:
    write(tmp_path, texts)
    options = ConvertOptions(partition_by=parse_partition_by(f"p {kind}"))
    convert(str(tmp_path), options, warn=ignore_warning)
    assert partition_values(tmp_path) == (written or texts)
    expected = multiset(
        [{"id": number, "p": value} for number, value in enumerate(values or texts)]
    )
    assert multiset(rows_with_delta_rs(tmp_path)) == expected
    assert multiset(rows_with_duckdb(tmp_path)) == expected
    assert multiset(Table(str(tmp_path)).scan().read_all().to_pylist()) == expected
    assert Table(str(tmp_path)).check().findings.num_rows == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "2025-02-19 13:00:00"),
        ("date", "2025-02-19T00:00:00"),
        ("timestamp_ntz", "2025-02-19 13:00:00+01:00"),
        ("timestamp_ntz", "2025-02-19 13:00:00.1234567"),
        ("timestamp", "2025-02-19 13:00:00.123456789Z"),
        ("decimal(10,2)", "1.005"),
        ("double", "1e400"),
    ],
)
def test_a_text_that_would_lose_a_part_is_refused(tmp_path: Path, kind: str, text: str) -> None:
    write(tmp_path, [text, "2025-02-19"])
    with pytest.raises(ConversionError) as caught:
        convert(str(tmp_path), ConvertOptions(partition_by=parse_partition_by(f"p {kind}")))
    path, column, why = caught.value.problems[0]
    assert (path, column) == (f"p={quote(text, safe='')}/part-0.parquet", "p")
    assert why.startswith(f"partition value {text!r} of column 'p' is not a valid {kind}")
    assert not (tmp_path / "_delta_log").exists()


def test_a_date_of_the_files_is_not_the_type_of_times(tmp_path: Path) -> None:
    write(tmp_path, ["2025-02-19 13:00:00"])
    rows = pa.table({"id": [0], "p": [dt.date(2025, 2, 19)]})
    pq.write_table(rows, next(tmp_path.rglob("*.parquet")))
    report = convert(str(tmp_path), warn=ignore_warning)
    assert report.to_dict()["partition_columns"] == [
        {"name": "p", "type": "string", "guessed": True}
    ]
