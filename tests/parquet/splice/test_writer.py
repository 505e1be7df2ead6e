"""Files of several writers, spliced: same rows, same bytes, same statistics as by encoding."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from deltactl.errors import DeltactlError, VerificationError
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.run import optimize_table
from deltactl.parquet.facts import FactCollector
from deltactl.parquet.format import ColumnChunk, ColumnMetaData
from deltactl.parquet.splice import writer
from deltactl.parquet.splice.chunk_metadata import PlacedChunk, place_copy
from deltactl.parquet.splice.source import LeafCopy, Source
from deltactl.parquet.splice.writer import GroupCopy, SpliceWriter
from deltactl.parquet.thrift import Kind
from deltactl.storage.assembly import StreamedAssembly
from deltactl.storage.local import assembly as local_assembly
from deltactl.storage.local.assembly import copy_range
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Assembly, Store
from deltactl.table import Table
from tests.parquet.splice.files import (
    SCHEMA,
    WRITERS,
    find_output,
    make_delta_table,
    make_table,
    optimize,
    write_files,
)
from tests.support.forwarding import ForwardingStore
from tests.support.run import run_on
from tests.support.stores import opened_as


def _stats(folder: Path) -> Any:
    lines = (folder / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    (add,) = (json.loads(line)["add"] for line in lines if line.startswith('{"add"'))
    return json.loads(add["stats"])


@pytest.mark.parametrize("writers", [*((name,) * 3 for name in WRITERS), tuple(WRITERS)])
def test_rows_and_statistics_are_those_of_encoding(tmp_path: Path, writers: Sequence[str]) -> None:
    found = {}
    for rewrite in ("copy", "encode"):
        folder = tmp_path / rewrite
        folder.mkdir()
        write_files(folder, writers)
        report = optimize(folder, rewrite)
        assert report.rewritten is not None
        assert bool(report.rewritten.groups_copied) == (rewrite == "copy")
        found[rewrite] = (pq.read_table(find_output(folder)), _stats(folder))
    rows = pa.concat_tables(make_table(start=number * 10_000) for number in range(len(writers)))
    assert found["copy"][0].cast(rows.schema).equals(rows)
    assert found["copy"][1] == found["encode"][1]


@pytest.mark.parametrize("writer", WRITERS)
def test_other_readers_read_the_same_rows(tmp_path: Path, writer: str) -> None:
    write_files(tmp_path, [writer] * 3)
    optimize(tmp_path, "copy")
    output = find_output(tmp_path)
    rows = pa.concat_tables(make_table(start=10_000 * number) for number in range(3))
    read = duckdb.read_parquet(str(output)).to_arrow_table().cast(rows.schema)
    assert read.equals(rows)
    theirs = (
        QueryBuilder().register("t", DeltaTable(tmp_path)).execute("SELECT * FROM t ORDER BY id")
    )
    assert pa.table(theirs.read_all()).cast(rows.schema).equals(rows)
    wanted = rows.filter(pc.equal(rows["id"], 10_250))
    found = duckdb.sql(f"select * from read_parquet('{output}') where id = 10250")
    assert found.to_arrow_table().cast(rows.schema).equals(wanted)
    by_text = ds.dataset(output).to_table(filter=ds.field("text") == "value 17")
    assert by_text.num_rows == pc.sum(pc.equal(rows["text"], "value 17")).as_py()


@pytest.mark.parametrize("writer", WRITERS)
def test_copied_chunks_are_equal_byte_for_byte(tmp_path: Path, writer: str) -> None:
    paths = write_files(tmp_path, [writer] * 3)
    report = optimize(tmp_path, "copy")
    output = find_output(tmp_path)
    copied = 0
    made = pq.read_metadata(output)
    groups = [(path, i) for path in paths for i in range(pq.read_metadata(path).num_row_groups)]
    assert made.num_row_groups == len(groups)
    for number, (path, index) in enumerate(groups):
        before = _chunks(path, pq.read_metadata(path).row_group(index))
        after = _chunks(output, made.row_group(number))
        copied += sum(len(data) for name, data in after.items() if before.get(name) == data)
    assert report.rewritten is not None
    assert copied >= report.rewritten.bytes_copied > 0


def _chunks(path: Path, group: pq.RowGroupMetaData) -> Mapping[str, bytes]:
    data = path.read_bytes()
    found = {}
    for index in range(group.num_columns):
        chunk = group.column(index)
        start = chunk.data_page_offset
        if chunk.dictionary_page_offset:
            start = min(start, chunk.dictionary_page_offset)
        found[chunk.path_in_schema] = data[start : start + chunk.total_compressed_size]
    return found


def test_page_indexes_and_bloom_filters_are_copied(tmp_path: Path) -> None:
    write_files(tmp_path, ["pyarrow with Bloom filters"] * 3)
    optimize(tmp_path, "copy")
    made = pq.read_metadata(find_output(tmp_path))
    chunks = [made.row_group(i).column(0) for i in range(made.num_row_groups)]
    assert all(chunk.has_offset_index and chunk.has_column_index for chunk in chunks)
    absent = f"select count(*) from read_parquet('{find_output(tmp_path)}') where id = 999999"
    assert duckdb.sql(absent).fetchall() == [(0,)]
    blooms = duckdb.sql(
        f"select bloom_filter_offset from parquet_metadata('{find_output(tmp_path)}') "
        "where path_in_schema = 'id'"
    ).fetchall()
    assert all(offset for (offset,) in blooms)


def test_small_row_groups_are_merged_beside_copied_ones(tmp_path: Path) -> None:
    big, small = make_table(30_000), make_table(20, start=90_000)
    order = [small, small, big, small, small, big]
    paths = [tmp_path / f"{number}.parquet" for number in range(len(order))]
    for path, rows in zip(paths, order, strict=True):
        pq.write_table(rows, path)
    make_delta_table(tmp_path, paths)
    report = optimize(tmp_path, "auto", min_row_group_bytes=100_000)
    made = pq.read_metadata(find_output(tmp_path))
    sizes = [made.row_group(i).num_rows for i in range(made.num_row_groups)]
    assert sizes == [40, 30_000, 40, 30_000]
    assert report.rewritten is not None
    assert report.rewritten.reasons["below --min-row-group"] == 4
    assert report.rewritten.groups_copied == 2
    assert pq.read_table(find_output(tmp_path)).cast(SCHEMA).equals(pa.concat_tables(order))


def test_a_dry_run_counts_what_the_run_does(tmp_path: Path) -> None:
    write_files(tmp_path, ["pyarrow", "DuckDB", "pyarrow of old versions"])
    table = Table(str(tmp_path), warn=pytest.fail)
    options = OptimizeOptions(rewrite="copy")
    planned = table.optimize(options, dry_run=True).rewritten
    assert planned is not None
    assert planned == table.optimize(options).rewritten


_Place = Callable[[Source, LeafCopy, int, FactCollector | None], PlacedChunk]


def _too_far(place: _Place) -> _Place:
    return lambda source, leaf, shift, facts: place(source, leaf, shift + 1, facts)


def _other_column(place: _Place) -> _Place:
    """Say of each chunk but the first of a row group that it is where the first one is."""
    first: dict[int, int] = {}

    def swap(
        source: Source, leaf: LeafCopy, shift: int, facts: FactCollector | None
    ) -> PlacedChunk:
        start = first.setdefault(shift, leaf.span.start)
        return place(source, leaf, shift + start - leaf.span.start, facts)

    return swap


def _no_dictionary(place: _Place) -> _Place:
    def drop(
        source: Source, leaf: LeafCopy, shift: int, facts: FactCollector | None
    ) -> PlacedChunk:
        placed = place(source, leaf, shift, facts)
        column = placed.tree.struct(ColumnChunk.META_DATA)
        column.drop({ColumnMetaData.DICTIONARY_PAGE_OFFSET})
        return placed

    return drop


def _data_too_far(place: _Place) -> _Place:
    def move(
        source: Source, leaf: LeafCopy, shift: int, facts: FactCollector | None
    ) -> PlacedChunk:
        placed = place(source, leaf, shift, facts)
        column = placed.tree.struct(ColumnChunk.META_DATA)
        offset = column.integer(ColumnMetaData.DATA_PAGE_OFFSET)
        column.set(ColumnMetaData.DATA_PAGE_OFFSET, Kind.I64, (offset or 0) + 1)
        return placed

    return move


_SEEDED = {
    "the first data page one too far": _data_too_far,
    "an offset one too far": _too_far,
    "a chunk of another column": _other_column,
    "a lost dictionary page": _no_dictionary,
}


@pytest.fixture(params=["local", "far"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A table of three files, on a store whose page headers are all walked, or only some."""
    write_files(tmp_path, ["pyarrow"] * 3)
    local = LocalStore(str(tmp_path))
    with opened_as(local if request.param == "local" else _FarStore(local)) as store:
        yield store


class _FarStore(ForwardingStore):
    """Copies by reading and writing, as far stores do."""

    range_copies = None
    file_copies = None


def _ensure_found(store: Store, message: str) -> None:
    before = {name for batch in store.walk() for name in batch}
    options = OptimizeOptions(rewrite="copy")
    with pytest.raises(VerificationError, match=message):
        run_on(store, optimize_table, options, warn=pytest.fail)
    assert {name for batch in store.walk() for name in batch} == before


@pytest.mark.parametrize("fault", _SEEDED)
def test_a_wrong_footer_is_found_before_the_commit(
    stored: Store, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "place_copy", _SEEDED[fault](place_copy))
    _ensure_found(stored, "part-")


def test_a_row_group_twice_is_found_before_the_commit(
    stored: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row groups have equal numbers of rows, so that no count differs."""
    copy, first = SpliceWriter.copy, list[GroupCopy]()

    def copy_first(self: SpliceWriter, wanted: GroupCopy) -> None:
        first.append(wanted)
        copy(self, first[0])

    monkeypatch.setattr(SpliceWriter, "copy", copy_first)
    _ensure_found(stored, "copied twice")


class _DamagedStore(ForwardingStore):
    """Copies other bytes than it was asked to."""

    def __init__(self, inner: Store, damage: Callable[[int, int], tuple[int, int]]) -> None:
        super().__init__(inner)
        self._damage = damage

    def open_assembly(self, name: str) -> Assembly:
        assembly = super().open_assembly(name)
        copy, damage = assembly.copy, self._damage

        def copy_others(source: str, offset: int, length: int) -> None:
            copy(source, *damage(offset, length))

        assembly.copy = copy_others  # type: ignore[method-assign]
        return assembly


_DAMAGES: Mapping[str, Callable[[int, int], tuple[int, int]]] = {
    "an offset one too far": lambda offset, length: (offset + 1, length),
    "a lost dictionary page": lambda offset, length: (offset, length - 1),
    "the first row group twice": lambda offset, length: (min(offset, 4), length),
    "bytes of another column": lambda offset, length: (offset + 8, length),
}


@pytest.mark.parametrize("damage", _DAMAGES)
def test_a_damaged_copy_is_found_before_the_commit(tmp_path: Path, damage: str) -> None:
    paths = write_files(tmp_path, ["pyarrow"] * 3)
    inner = LocalStore(str(tmp_path))
    before = sorted(path.name for path in tmp_path.iterdir())
    options = OptimizeOptions(rewrite="copy")
    with (
        opened_as(_DamagedStore(inner, _DAMAGES[damage])) as store,
        pytest.raises(DeltactlError) as raised,
    ):
        run_on(store, optimize_table, options, warn=pytest.fail)
    assert isinstance(raised.value, VerificationError)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert Table(str(tmp_path)).snapshot().num_files == len(paths)


def test_a_byte_that_the_kernel_copied_wrongly_is_found_before_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is inside of a page, so that no header and no count differs."""
    write_files(tmp_path, ["pyarrow without compression"] * 3)
    before = sorted(path.name for path in tmp_path.iterdir())

    def copy_wrongly(source: int, target: int, offset: int, length: int) -> int:
        done = copy_range(source, target, offset, length)
        os.pwrite(target, b"\xff", os.lseek(target, 0, os.SEEK_CUR) - done // 2)
        return done

    monkeypatch.setattr(local_assembly, "copy_range", copy_wrongly)
    options = OptimizeOptions(rewrite="copy")
    with pytest.raises(VerificationError, match="differ from those of"):
        run_on(LocalStore(str(tmp_path)), optimize_table, options, warn=pytest.fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_full_verification_reads_what_far_stores_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts and page headers say nothing of a byte inside of a page."""
    write_files(tmp_path, ["pyarrow without compression"] * 3)
    write = StreamedAssembly.write

    def write_other(self: StreamedAssembly, buffer: Any) -> int:
        data = bytearray(buffer)
        if len(data) > 100_000:
            place = data.index(b"value 42")
            data[place + 6 : place + 8] = b"43"
        return write(self, data)

    monkeypatch.setattr(StreamedAssembly, "write", write_other)
    options = OptimizeOptions(rewrite="copy", verify="full")
    with (
        opened_as(_FarStore(LocalStore(str(tmp_path)))) as store,
        pytest.raises(VerificationError, match="column 'text' differs from the input in row 42"),
    ):
        run_on(store, optimize_table, options, warn=pytest.fail)


def _damage_footer(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


@pytest.mark.parametrize("number", range(3))
def test_a_file_with_a_page_header_that_does_not_parse_is_left_by_name(
    tmp_path: Path, number: int
) -> None:
    paths = write_files(tmp_path, ["pyarrow"] * 3)

    def zero(data: bytearray) -> None:
        data[4 : 8 + number] = bytes(4 + number)

    _damage_footer(paths[1], zero)
    report = optimize(tmp_path, "copy")
    [failure] = report.failures
    assert (failure.files, report.files_removed) == (1, 2)
    assert paths[1].name in failure.reason
