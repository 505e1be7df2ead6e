"""Columns of a row group that several threads encode: the same file as from one thread."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.engine import local
from deltactl.engine.local import LocalEngine
from deltactl.errors import DataFileError, VerificationError
from deltactl.operations.optimize import tasks
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.run import optimize_table
from deltactl.parquet.null_counts import read_null_counts
from deltactl.parquet.splice import segment, writer
from deltactl.parquet.splice.segment import Segment, divide_columns, encode_segment
from deltactl.parquet.splice.writer import SpliceWriter
from deltactl.parquet.writer import WriteOptions, WrittenFile
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf
from deltactl.storage.local.store import LocalStore
from tests.parquet.splice.files import SCHEMA, find_output, make_table, write_files
from tests.support.run import run_on

_STATS = StatsColumns(
    (
        StatsLeaf(("id",), "integer"),
        StatsLeaf(("number",), "float"),
        StatsLeaf(("text",), "string"),
        StatsLeaf(("inner", "a"), "integer"),
        StatsLeaf(("tags",), "nested"),
        StatsLeaf(("map",), "nested"),
    )
)


def _write(folder: Path, tables: Sequence[pa.Table], cores: int) -> tuple[WrittenFile, Path]:
    store = LocalStore(str(folder))
    name = f"{cores}.parquet"
    options = WriteOptions(row_group_rows=2000, level=3)
    with SpliceWriter(
        store, name, SCHEMA, options, _STATS, copies=False, count_cores=lambda: cores
    ) as target:
        for table in tables:
            for batch in table.to_batches():
                target.write(batch)
        written = target.close()
    return written, folder / name


def _chunks(path: Path) -> list[list[Any]]:
    footer = pq.read_metadata(path)
    return [
        [footer.row_group(group).column(leaf).to_dict() for leaf in range(footer.num_columns)]
        for group in range(footer.num_row_groups)
    ]


@pytest.mark.parametrize("cores", [2, 3, 64])
def test_the_file_is_that_of_one_thread(tmp_path: Path, cores: int) -> None:
    tables = [make_table(), make_table(start=10_000)]
    one, one_path = _write(tmp_path, tables, 1)
    several, several_path = _write(tmp_path, tables, cores)
    assert several_path.read_bytes() == one_path.read_bytes()
    assert several.stats_json == one.stats_json
    assert several.num_rows == one.num_rows == 6000
    assert pq.read_table(several_path).cast(SCHEMA).equals(pa.concat_tables(tables))
    assert len(_chunks(several_path)) == 3


def test_facts_of_floats_and_nested_columns_come_from_all_parts(tmp_path: Path) -> None:
    rows = make_table().slice(0, 1000)
    number = rows.schema.get_field_index("number")
    values = pa.array([float("nan"), -0.0, *range(998)], pa.float64())
    rows = rows.set_column(number, SCHEMA.field("number"), values)
    found = [_write(tmp_path, [rows], cores)[0].stats_json for cores in (1, 4)]
    assert found[0] == found[1]
    assert '"number":' not in found[0].partition('"nullCount"')[0]


@pytest.mark.parametrize("cores", [1, 2, 3, 7])
@pytest.mark.parametrize("columns", [1, 2, 5, 300])
def test_parts_have_all_columns_in_order(cores: int, columns: int) -> None:
    widths = [1 << (number % 12) for number in range(columns)]
    table = pa.table({str(n): pa.array([b"x" * width] * 10) for n, width in enumerate(widths)})
    parts = divide_columns(table, cores)
    assert [name for part in parts for name in part.column_names] == table.column_names
    assert len(parts) <= 4 * cores
    assert all(part.num_columns for part in parts)
    assert len(parts) >= min(cores, columns)


def test_a_column_without_bytes_is_in_a_part() -> None:
    empty = pa.array([], pa.int64())
    parts = divide_columns(pa.table({"a": empty, "b": empty}), 2)
    assert [name for part in parts for name in part.column_names] == ["a", "b"]


def test_an_error_in_one_part_discards_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(table: pa.Table, options: WriteOptions, stats: StatsColumns) -> Segment:
        if "price" in table.column_names:
            raise pa.ArrowInvalid("seeded")
        return encode_segment(table, options, stats)

    monkeypatch.setattr(writer, "encode_segment", encode)
    with pytest.raises(DataFileError, match=r"2\.parquet cannot be written: seeded"):
        _write(tmp_path, [make_table()], 2)
    assert list(tmp_path.iterdir()) == []


def test_nulls_of_each_part_are_compared_with_its_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        segment,
        "read_null_counts",
        lambda footer: {
            name: nulls + (name == "flag") for name, nulls in read_null_counts(footer).items()
        },
    )
    with pytest.raises(VerificationError, match="'flag'"):
        _write(tmp_path, [make_table()], 2)
    assert list(tmp_path.iterdir()) == []


def test_a_bin_that_runs_alone_is_encoded_by_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, ["delta-rs"] * 3)
    both_started = threading.Barrier(2)
    threads = set()

    def encode(table: pa.Table, options: WriteOptions, stats: StatsColumns) -> Segment:
        threads.add(threading.get_ident())
        both_started.wait(30)
        return encode_segment(table, options, stats)

    monkeypatch.setattr(local, "count_cores", lambda: 2)
    monkeypatch.setattr(tasks, "_LEAST_CHUNK_BYTES", 1)
    monkeypatch.setattr(segment, "_PARTS_PER_CORE", 1)
    monkeypatch.setattr(writer, "encode_segment", encode)
    store = LocalStore(str(tmp_path))
    run_on(
        store, optimize_table, OptimizeOptions(), engine=LocalEngine(workers=2), warn=pytest.fail
    )
    assert len(threads) == 2
    rows = pa.concat_tables(make_table(start=10_000 * number) for number in range(3))
    assert pq.read_table(find_output(tmp_path)).cast(SCHEMA).equals(rows)


def test_a_bin_with_small_chunks_is_encoded_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, ["delta-rs"] * 3)
    monkeypatch.setattr(local, "count_cores", lambda: 2)
    monkeypatch.setattr(writer, "encode_segment", None)  # a call would raise an error
    run_on(
        LocalStore(str(tmp_path)),
        optimize_table,
        OptimizeOptions(),
        engine=LocalEngine(workers=2),
        warn=pytest.fail,
    )
    assert pq.read_metadata(find_output(tmp_path)).num_rows == 9000
