"""Footers that lie: such a file is encoded if it can be read; otherwise its bin fails by name."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import DataFileError
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.format import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    OffsetIndex,
    PageLocation,
    RowGroup,
    Statistics,
)
from deltactl.parquet.splice.source import prepare_leaves, read_source
from deltactl.parquet.thrift import Kind, ThriftStruct, decode, encode
from deltactl.storage.open import open_store
from deltactl.table import Table
from tests.parquet.splice.files import (
    change_footer,
    chunk_of,
    find_output,
    make_delta_table,
    optimize,
)

_INVALID = "footer or pages not valid"
_SCHEMA = pa.schema([("id", pa.int64()), ("other", pa.int64()), ("text", pa.string())])


def _write(folder: Path) -> list[Path]:
    paths = []
    for number in range(3):
        ids = range(number * 10_000, number * 10_000 + 2000)
        columns = [pa.array(ids), pa.array(ids), pa.array([f"t{i % 9}" for i in ids])]
        rows = pa.table(columns, schema=_SCHEMA)
        paths.append(folder / f"{number}.parquet")
        pq.write_table(rows, paths[-1], row_group_size=1000, write_page_index=True)
    make_delta_table(folder, paths, _SCHEMA)
    return paths


def _add(number: int, delta: int, column: int = 0) -> Callable[[ThriftStruct], None]:
    """Change an integer of a chunk's metadata."""

    def change(footer: ThriftStruct) -> None:
        metadata = chunk_of(footer, 1, column).struct(ColumnChunk.META_DATA)
        metadata.set(number, Kind.I64, (metadata.integer(number) or 0) + delta)

    return change


def _overlap(footer: ThriftStruct) -> None:
    """Say of the second column that it is where the first one is, which has the same type."""
    first, second = (chunk_of(footer, 1, column).struct(ColumnChunk.META_DATA) for column in (0, 1))
    for number in (ColumnMetaData.DATA_PAGE_OFFSET, ColumnMetaData.DICTIONARY_PAGE_OFFSET):
        second.set(number, Kind.I64, first.integer(number))


def _fewer_rows(footer: ThriftStruct) -> None:
    footer.set(FileMetaData.NUM_ROWS, Kind.I64, 1999)


def _rows_of_a_group(footer: ThriftStruct) -> None:
    groups = footer.members(FileMetaData.ROW_GROUPS)
    groups[0].set(RowGroup.NUM_ROWS, Kind.I64, 1500)
    groups[1].set(RowGroup.NUM_ROWS, Kind.I64, 500)


def _no_dictionary(footer: ThriftStruct) -> None:
    metadata = chunk_of(footer, 1, 2).struct(ColumnChunk.META_DATA)
    metadata.drop({ColumnMetaData.DICTIONARY_PAGE_OFFSET})


def _in_another_file(footer: ThriftStruct) -> None:
    chunk_of(footer, 0, 0).set(ColumnChunk.FILE_PATH, Kind.BINARY, b"elsewhere.parquet")


def _encrypted(footer: ThriftStruct) -> None:
    crypto = ThriftStruct([(1, Kind.STRUCT, ThriftStruct())])
    chunk_of(footer, 0, 0).set(ColumnChunk.CRYPTO_METADATA, Kind.STRUCT, crypto)


def _index(number: int, delta: int) -> Callable[[ThriftStruct], None]:
    def change(footer: ThriftStruct) -> None:
        chunk = chunk_of(footer, 1, 0)
        chunk.set(number, Kind.I64, (chunk.integer(number) or 0) + delta)

    return change


def _short_bound(footer: ThriftStruct) -> None:
    statistics = chunk_of(footer, 1, 0).struct(ColumnChunk.META_DATA)
    statistics = statistics.struct(ColumnMetaData.STATISTICS)
    statistics.set(Statistics.MAX_VALUE, Kind.BINARY, b"x")


def _count(number: int, value: int) -> Callable[[ThriftStruct], None]:
    def change(footer: ThriftStruct) -> None:
        statistics = chunk_of(footer, 1, 0).struct(ColumnChunk.META_DATA)
        statistics.struct(ColumnMetaData.STATISTICS).set(number, Kind.I64, value)

    return change


def _codec(footer: ThriftStruct) -> None:
    chunk_of(footer, 1, 0).struct(ColumnChunk.META_DATA).set(ColumnMetaData.CODEC, Kind.I32, -1)


def _no_codec(footer: ThriftStruct) -> None:
    chunk_of(footer, 1, 1).struct(ColumnChunk.META_DATA).set(ColumnMetaData.CODEC, Kind.I32, 0)


_DATA, _DICTIONARY = ColumnMetaData.DATA_PAGE_OFFSET, ColumnMetaData.DICTIONARY_PAGE_OFFSET
_SIZE, _VALUES = ColumnMetaData.TOTAL_COMPRESSED_SIZE, ColumnMetaData.NUM_VALUES

# Arrow reads the right rows; in brackets, the row groups that are copied of six.
_READABLE: dict[str, tuple[Callable[[ThriftStruct], None], int]] = {
    "an offset outside of the file": (_add(_DATA, 1 << 40), 4),
    "an offset in the middle of a page": (_add(_DATA, 7), 5),
    "a chunk of one byte more": (_add(_SIZE, 1), 4),
    "a chunk of fewer values": (_add(_VALUES, -1), 4),
    "chunks that overlap": (_overlap, 4),
    "a bound that is too short": (_short_bound, 4),
    "other rows in the row groups": (_rows_of_a_group, 4),
    "a chunk in another file": (_in_another_file, 4),
    "an offset index elsewhere": (_index(ColumnChunk.OFFSET_INDEX_OFFSET, 5), 5),
    "an offset index outside of the file": (_index(ColumnChunk.OFFSET_INDEX_OFFSET, 1 << 40), 5),
    "more nulls than values": (_count(Statistics.NULL_COUNT, 1001), 4),
    "fewer nulls than none": (_count(Statistics.NULL_COUNT, -1), 4),
    "more NaN than values": (_count(Statistics.NAN_COUNT, 1001), 4),
    "a column index outside of the file": (_index(ColumnChunk.COLUMN_INDEX_OFFSET, 1 << 40), 5),
}
_UNREADABLE: dict[str, Callable[[ThriftStruct], None]] = {
    "an offset before the file": _add(_DATA, -(1 << 40)),
    "a dictionary that is elsewhere": _add(_DICTIONARY, 3),
    "a chunk of more bytes than the file": _add(_SIZE, 1 << 40),
    "a chunk of one byte less": _add(_SIZE, -1),
    "fewer rows than the row groups": _fewer_rows,
    "no dictionary": _no_dictionary,
    "an encrypted chunk": _encrypted,
    "an unknown codec": _codec,
    "no codec": _no_codec,
}


@pytest.mark.parametrize("lie", _READABLE)
def test_what_arrow_reads_is_encoded(tmp_path: Path, lie: str) -> None:
    paths = _write(tmp_path)
    change, copied = _READABLE[lie]
    change_footer(paths[1], change)
    _correct_sizes(tmp_path)
    report = optimize(tmp_path, "copy", verify="counts")
    assert report.rewritten is not None
    assert report.rewritten.reasons == {_INVALID: 1}
    assert report.rewritten.groups_copied == copied
    rows = pq.read_table(find_output(tmp_path))
    wanted = [start + i for start in (0, 10_000, 20_000) for i in range(2000)]
    assert rows["id"].to_pylist() == wanted
    assert rows["other"].to_pylist() == wanted
    assert rows["text"].to_pylist() == [f"t{i % 9}" for i in wanted]


@pytest.mark.parametrize("options", [{"rewrite": "encode"}, {"cluster_by": "other"}])
@pytest.mark.parametrize(
    "lie", ["a bound that is too short", "more nulls than values", "fewer nulls than none"]
)
def test_bounds_of_files_that_are_not_considered_for_copying_are_not_decoded(
    tmp_path: Path, lie: str, options: dict[str, str]
) -> None:
    """Arrow would end the process."""
    paths = _write(tmp_path)
    change, _ = _READABLE[lie]
    change_footer(paths[1], change)
    _correct_sizes(tmp_path)
    optimize(tmp_path, **{"rewrite": "auto", "verify": "counts", **options})
    rows = pq.read_table(find_output(tmp_path))["id"].to_pylist()
    assert sorted(rows) == [start + i for start in (0, 10_000, 20_000) for i in range(2000)]


def _no_pages(footer: ThriftStruct) -> None:
    metadata = chunk_of(footer, 1, 1).struct(ColumnChunk.META_DATA)
    metadata.set(_SIZE, Kind.I64, 0)


def test_values_without_pages_are_found_by_the_footer(tmp_path: Path) -> None:
    """No page headers are read on far stores."""
    path = _write(tmp_path)[0]
    change_footer(path, _no_pages)
    with pytest.raises(DataFileError):
        read_source(path.name, parse_footer(open_store(str(tmp_path)), path.name, _size(path)))


def _size(path: Path) -> int:
    return path.stat().st_size


def test_pages_of_an_index_outside_of_their_chunk_are_found_without_reading_them(
    tmp_path: Path,
) -> None:
    path = _write(tmp_path)[0]
    store = open_store(str(tmp_path))
    source = read_source(path.name, parse_footer(store, path.name, _size(path)))
    group = source.groups[0]

    def read(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return store.read_ranges(path.name, ranges)

    def read_shifted(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        found = read(ranges)
        index = decode(found[0])  # the offset index comes first
        for page in index.structs(OffsetIndex.PAGE_LOCATIONS):
            offset = page.integer(PageLocation.OFFSET) or 0
            page.set(PageLocation.OFFSET, Kind.I64, offset + 1024)
        return [encode(index), *found[1:]]

    assert prepare_leaves(source, group, ["id"], read, walk=False)
    with pytest.raises(DataFileError, match="not inside its column chunk"):
        prepare_leaves(source, group, ["id"], read_shifted, walk=False)


@pytest.mark.parametrize("lie", _UNREADABLE)
def test_what_arrow_does_not_read_fails_by_name(tmp_path: Path, lie: str) -> None:
    paths = _write(tmp_path)
    change_footer(paths[1], _UNREADABLE[lie])
    _correct_sizes(tmp_path)
    report = optimize(tmp_path, "copy", verify="counts")
    [failure] = report.failures
    assert (failure.files, report.files_removed) == (1, len(paths) - 1)
    assert paths[1].name in failure.reason
    live = Table(str(tmp_path)).snapshot().files["path"].to_pylist()
    assert set(live) & {path.name for path in paths} == {paths[1].name}


def _correct_sizes(folder: Path) -> None:
    """Write the sizes of the files into the log again."""
    (commit,) = (folder / "_delta_log").iterdir()
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["size"] = (folder / line["add"]["path"]).stat().st_size
    commit.write_text("\n".join(map(json.dumps, lines)))
