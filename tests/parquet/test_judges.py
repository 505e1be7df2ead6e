"""Readers that are not us take files and statistics written here for what they are."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.parquet.writer import DataFileWriter, WriteOptions
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import arrow_schema
from deltactl.protocol.stats_columns import choose_stats_columns
from deltactl.storage.open import open_store
from tests.support.duckdb_delta import connect_duckdb
from tests.support.table_builder import Column, TableBuilder, array_of, struct_of

TYPES: dict[str, Any] = {
    "i": "integer",
    "f": "float",
    "d": "double",
    "inf": "double",
    "dec": "decimal(38,18)",
    "s": "string",
    "dt": "date",
    "ts": "timestamp",
    "tn": "timestamp_ntz",
    "bo": "boolean",
    "bin": "binary",
    "l": array_of("integer"),
    "st": struct_of(Column("x")),
}
MOMENT = datetime(2024, 6, 1, 12, 0, 0, 123456)
ROWS: list[dict[str, Any]] = [
    {
        "i": 1,
        "f": 1.100000023841858,
        "d": -0.0,
        "inf": float("inf"),
        "dec": Decimal("12345678901234567890.123456789012345678"),
        "s": "x" * 40,
        "dt": date(1960, 2, 29),
        "ts": MOMENT.replace(tzinfo=UTC),
        "tn": MOMENT,
        "bo": True,
        "bin": b"\xff\x00",
        "l": [1, None],
        "st": {"x": 2**62},
    },
    {
        "i": -5,
        "f": 0.5,
        "d": float("nan"),
        "inf": float("-inf"),
        "dec": Decimal("-1E-18"),
        "s": "é",
        "dt": date(1, 1, 1),
        "ts": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "tn": datetime(1900, 1, 1, 0, 0, 0, 1),
        "bo": None,
        "bin": b"",
        "l": None,
        "st": None,
    },
]


def build(folder: Path, types: dict[str, Any], rows: list[dict[str, Any]], feature: str) -> str:
    """A table of one file: gives the file's statistics."""
    columns = [Column(name, type_) for name, type_ in types.items()]
    metadata, features = Metadata("id", json.dumps(struct_of(*columns))), frozenset({feature})
    chosen = choose_stats_columns(metadata, Protocol(3, 7, features, features))
    schema = arrow_schema(metadata.schema, "physical")
    store = open_store(str(folder))
    with DataFileWriter(store, "a.parquet", schema, WriteOptions(), chosen) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema))
        stats = writer.close().stats_json
    builder = TableBuilder(store, columns, features=features)
    builder.commit(builder.adopt("a.parquet", stats=stats))
    return stats


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    build(folder, TYPES, ROWS, "timestampNtz")
    return folder


def test_delta_rs_reads_the_statistics(table: Path) -> None:
    actions = deltalake.DeltaTable(str(table)).get_add_actions(flatten=True)
    (row,) = pa.table(actions).to_pylist()
    assert row["num_records"] == 2
    expected = {
        "i": (-5, 1),
        "f": (0.5, pytest.approx(1.1)),
        "inf": (float("-inf"), float("inf")),
        "dec": (ROWS[1]["dec"], ROWS[0]["dec"]),
        "s": ("x" * 32, "é"),
        "dt": (date(1, 1, 1), date(1960, 2, 29)),
        "ts": (datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), ROWS[0]["ts"]),
        "tn": (datetime(1900, 1, 1), ROWS[0]["tn"]),
        "st.x": (2**62, 2**62),
    }
    for name, bounds in expected.items():
        assert (row[f"min.{name}"], row[f"max.{name}"]) == bounds
    assert row.get("max.d") is None
    nulls = {name: row[f"null_count.{name}"] for name in [*TYPES, "st.x"] if name != "st"}
    assert nulls == {name: int(name in {"bo", "l", "st.x"}) for name in nulls}


def test_delta_rs_reads_the_rows(table: Path) -> None:
    read = pa.table(deltalake.DeltaTable(str(table)).to_pyarrow_table())
    written = pa.Table.from_pylist(ROWS, pq.read_schema(table / "a.parquet"))
    assert repr(read.cast(written.schema).to_pylist()) == repr(written.to_pylist())


@pytest.mark.parametrize(
    "predicate",
    [
        "ts >= TIMESTAMPTZ '2024-06-01 12:00:00.123456+00'",
        "ts < TIMESTAMPTZ '1970-01-01 00:00:00+00'",
        "tn > TIMESTAMP '2024-06-01 12:00:00.123455'",
        "tn < TIMESTAMP '1900-01-01 00:00:00.000002'",
        "inf = 'Infinity'::DOUBLE",
        "d = 0",
        "isnan(d)",
        "f > 1.1::DOUBLE",
        "dec > 12345678901234567890.123456789012345677",
        "dec < 0",
        "s BETWEEN 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' AND 'y'",
        "st.x = 4611686018427387904",
        "dt < DATE '1900-01-01'",
    ],
)
def test_duckdb_skips_no_file_that_matters(table: Path, predicate: str) -> None:
    # Each is true of one row.
    query = f"SELECT count(*) FROM delta_scan('{table}') WHERE {predicate}"
    assert connect_duckdb().execute(query).fetchall() == [(1,)]


def test_variants_are_read(tmp_path: Path) -> None:
    # The variants null and 1, with empty metadata.
    variants = [{"value": b"\x00", "metadata": b"\x01\x00\x00"}, None]
    variants.append({"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"})
    rows = [{"v": variant, "i": index} for index, variant in enumerate(variants)]
    stats = build(tmp_path, {"v": "variant", "i": "integer"}, rows, "variantType")
    assert json.loads(stats)["nullCount"] == {"v": 1, "i": 0}
    counted = connect_duckdb().execute(f"SELECT count(*), sum(i) FROM delta_scan('{tmp_path}')")
    assert counted.fetchall() == [(3, 3)]
    actions = pa.table(deltalake.DeltaTable(str(tmp_path)).get_add_actions(flatten=True))
    assert actions.to_pylist()[0]["num_records"] == 3
