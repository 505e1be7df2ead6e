"""Footers that would end the process are refused before anyone asks for their columns."""

import base64
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import convert
from deltactl.errors import DataFileError, DeltactlError
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.run import check_table
from deltactl.parquet import broken_footers, fixed_bounds
from deltactl.parquet.broken_footers import SchemaGroups, ensure_valid_columns, find_broken_footers
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.thrift import ThriftError
from deltactl.storage.open import open_store
from tests.support.footers import read_valid_footer
from tests.support.run import run_on
from tests.support.stores import MemoryStore

FINDS = Path(__file__).parents[1] / "fuzz" / "finds" / "footer"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("histogram-of-another-length", "Definition level histogram"),
        ("type-of-another-column", "column 0 is declared as INT32 and stored as BOOLEAN"),
    ],
)
def test_what_would_end_the_process_is_an_error(name: str, message: str) -> None:
    """Without the look before, Arrow ends it at ``column(i)`` or its ``statistics``."""
    data = (FINDS / name).read_bytes()
    with pytest.raises(OSError, match=message):
        ensure_valid_columns(pq.read_metadata(io.BytesIO(data)), len(data))
    store = MemoryStore("memory://broken-columns")
    store.put("x.parquet", data)
    with pytest.raises(DataFileError, match=f"is broken: {message}"):
        read_valid_footer(store, "x.parquet", len(data))


def test_footers_are_grouped_by_all_of_their_schema() -> None:
    """Parquet's comparison ignores names of groups, and Arrow's schema has types of its own."""
    pair = pa.struct([("x", pa.int64())])
    schemas = [
        pa.schema([("a", pair), ("b", pa.int64())]),
        pa.schema([("z", pair), ("b", pa.int64())]),
        pa.schema([("a", pair), ("b", pa.int64(), False)]),
        pa.schema([("a", pair), ("b", pa.duration("s"))]),
        pa.schema([("a", pair), ("b", pa.int64()), ("c", pa.int64())]),
    ]
    footers = []
    for number, schema in enumerate([*schemas, *schemas]):
        sink = io.BytesIO()
        rows = [{"a": {"x": n}, "z": {"x": n}, "b": n, "c": n} for n in range(number * 100)]
        pq.write_table(pa.Table.from_pylist(rows, schema), sink)
        data = sink.getvalue()
        store = MemoryStore("memory://groups-of-footers")
        store.put("x.parquet", data)
        footers.append(parse_footer(store, "x.parquet", len(data)))
    groups = SchemaGroups()
    for batch in (footers, footers[::-1]):
        found = [group.members for group in groups.split(batch)]
        assert sorted(found) == [[n, n + 5] for n in range(5)]
    assert [group.members for group in groups.split(footers[3:5])] == [[0], [1]]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "row_group_size": 1},
        {"compression": "lz4", "data_page_version": "2.0", "use_dictionary": False},
        {"write_statistics": False, "column_encoding": "PLAIN", "use_dictionary": False},
    ],
)
@pytest.mark.parametrize("rows", [0, 3])
def test_valid_files_are_accepted(rows: int, options: dict[str, Any]) -> None:
    table = pa.table({"a": [1, 2, 3], "s": [{"x": [1.5], "y": None}] * 3, "m": ["a", None, ""]})
    sink = io.BytesIO()
    pq.write_table(table.slice(0, rows), sink, **options)
    ensure_valid_columns(pq.read_metadata(sink), sink.tell())
    store = MemoryStore("memory://valid-columns")
    store.put("x.parquet", sink.getvalue())
    footers = [parse_footer(store, "x.parquet", len(sink.getvalue())) for _ in range(3)]
    assert find_broken_footers(footers) == {}
    assert {f.metadata.num_row_groups for f in footers} == {pq.read_metadata(sink).num_row_groups}


@pytest.mark.parametrize("name", ["histogram-of-another-length", "type-of-another-column"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_that_is_broken_is_found_among_others(name: str, place: int) -> None:
    data = (FINDS / name).read_bytes()
    sink = io.BytesIO()
    pq.write_table(_rows_of(pq.read_metadata(io.BytesIO(data))), sink)
    store = MemoryStore("memory://broken-columns")
    store.put("broken", data)
    store.put("valid", sink.getvalue())
    footers = [parse_footer(store, "valid", sink.tell())] * 2
    assert find_broken_footers(footers) == {}
    footers.insert(place, parse_footer(store, "broken", len(data)))
    assert list(find_broken_footers(footers)) == [place]
    assert list(find_broken_footers([footers[place]] * 3)) == [0, 1, 2]


@pytest.mark.parametrize("name", ["histogram-of-another-length", "type-of-another-column"])
def test_a_convert_names_just_the_broken_file(name: str, tmp_path: Path) -> None:
    data = (FINDS / name).read_bytes()
    for valid in ("a", "c"):
        pq.write_table(_rows_of(pq.read_metadata(io.BytesIO(data))), tmp_path / f"{valid}.parquet")
    (tmp_path / "b.parquet").write_bytes(data)
    with pytest.raises(DeltactlError) as caught:
        convert(str(tmp_path))
    assert "b.parquet" in str(caught.value)
    assert not {"a.parquet", "c.parquet"} & set(str(caught.value).split())
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize("name", ["histogram-of-another-length", "type-of-another-column"])
def test_a_check_names_just_the_broken_file(name: str, tmp_path: Path) -> None:
    data = (FINDS / name).read_bytes()
    rows = _rows_of(pq.read_metadata(io.BytesIO(data)))
    for file in ("a", "b", "c"):
        pq.write_table(rows, tmp_path / f"{file}.parquet")
    convert(str(tmp_path))
    (tmp_path / "b.parquet").write_bytes(data)
    found = run_on(
        open_store(str(tmp_path), {}), check_table, CheckOptions(depth=Depth.FOOTERS)
    ).findings.to_pylist()
    unreadable = [finding["file"] for finding in found if finding["code"] == "FILE_UNREADABLE"]
    assert unreadable == ["b.parquet"]


def test_several_that_say_they_are_encrypted_do_not_end_the_process() -> None:
    """To write such a footer, which is Arrow's way to copy one, does."""
    data = _fixed_texts()
    footer = _footer_of(data)
    claimed = footer[:-1] + b"\x1c\x1c\0\0\0"  # field 8: an encryption_algorithm of AES_GCM_V1
    store = MemoryStore("memory://encrypted")
    store.put("x.parquet", _with_footer(data, claimed))
    parsed = parse_footer(store, "x.parquet", len(store.read("x.parquet")))
    assert find_broken_footers([parsed] * 3) == {}


def test_a_chunk_beyond_the_end_is_found_beside_a_larger_file() -> None:
    """Arrow compares places of chunks with the size of the largest file."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": range(50_000)}), sink, use_dictionary=False)
    large = sink.getvalue()
    store = MemoryStore("memory://beyond")
    store.put("large", large)
    store.put("small", _with_footer(b"PAR1" + b"\0" * 100, _footer_of(large)))
    footers = [parse_footer(store, n, len(store.read(n))) for n in ("large", "small", "large")]
    found = find_broken_footers(footers)
    assert list(found) == [1]
    assert found[1].message == "is broken: column 0 is beyond the end of the file"


@pytest.mark.parametrize("hostile", [0, 1])
def test_a_second_schema_in_a_footer_is_another_schema(hostile: int) -> None:
    """Arrow takes the last one, so equal bytes up to the first one do not prove it."""
    store = MemoryStore("memory://two-schemas")
    files = []
    for name in ("n", "m"):
        sink = io.BytesIO()
        pq.write_table(pa.table({name: [1]}), sink, store_schema=False)
        files.append(sink.getvalue())
    schema = broken_footers._schema_bytes(_footer_of(files[1]))[3:]  # after version and field type
    footer = _footer_of(files[0])[:-1] + b"\x09\x04" + schema + b"\0"
    contents = [files[0]] * 2
    contents[hostile] = _with_footer(files[0], footer)
    for number, data in enumerate(contents):
        store.put(f"{number}", data)
    footers = [parse_footer(store, f"{n}", len(data)) for n, data in enumerate(contents)]
    assert footers[hostile].metadata.schema.names == ["m"]
    assert [group.members for group in SchemaGroups().split(footers)] == [[0], [1]]


def _rows_of(footer: pq.FileMetaData) -> pa.Table:
    """Two rows of next to nothing in the schema of a file."""
    schema = footer.schema.to_arrow_schema()
    columns = [
        pa.nulls(2, field.type) if field.nullable else pa.array([0, 0], field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def _with_footer(data: bytes, footer: bytes) -> bytes:
    pages = data[: -8 - len(_footer_of(data))]
    return pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _fixed_texts(**options: Any) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"n": [1, 2], "f": pa.array([b"abcde", b"fghij"], pa.binary(5))})
    pq.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.mark.parametrize("left", [0, 1, 4])
@pytest.mark.parametrize("bound", [b"abcde", b"fghij"])
def test_a_bound_that_is_too_short_is_an_error(bound: bytes, left: int) -> None:
    """Arrow ends the process where it is asked for, and cannot read the rows."""
    data = _fixed_texts()
    footer = _footer_of(data)
    assert footer.count(b"\x05" + bound) >= 1
    short = footer.replace(b"\x05" + bound, bytes([left]) + bound[:left])
    store = MemoryStore("memory://short-bounds")
    store.put("x.parquet", _with_footer(data, short))
    with pytest.raises(
        DataFileError, match=f"a bound of column 1: the bound has {left} bytes instead of 5"
    ):
        read_valid_footer(store, "x.parquet", len(store.read("x.parquet")))


def test_a_column_that_is_longer_than_its_bounds_is_an_error() -> None:
    data = (FINDS / "bound-shorter-than-its-column").read_bytes()
    store = MemoryStore("memory://long-column")
    store.put("x.parquet", data)
    with pytest.raises(DataFileError, match="column 3: the bound has 9 bytes instead of 24"):
        read_valid_footer(store, "x.parquet", len(data))


def test_a_footer_that_is_signed_is_not_read(tmp_path: Path) -> None:
    """Arrow ends the process where it is to write such a footer."""
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):  # type: ignore[misc, name-defined]
        def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
            return base64.b64encode(key_bytes)

    factory = encryption.CryptoFactory(lambda config: Keys())
    properties = factory.file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="footer", column_keys={"column": ["a"]}, plaintext_footer=True
        ),
    )
    path = tmp_path / "x.parquet"
    schema = pa.schema([("a", pa.int64()), ("f", pa.binary(16))])
    pq.ParquetWriter(path, schema, encryption_properties=properties).close()
    store = MemoryStore("memory://signed")
    store.put("x.parquet", path.read_bytes())
    with pytest.raises(DataFileError, match="is encrypted in part"):
        read_valid_footer(store, "x.parquet", path.stat().st_size)


def test_fields_of_any_type_are_gone_past() -> None:
    """What a newer format may add, at the end of the footer."""
    footer, lengths = _footer_of(_fixed_texts())[:-1], {1: 5}
    a_map = bytes([0x0B, 0xC8, 0x01, 1, 0x5C, 0x06, 0x15, 0x02, 0x00])  # field 100: {3: {1: 1}}
    truths = bytes([0x1A, 0x21, 1, 2])
    sixteen_bytes = bytes([0x19, 0xF3, 16, *range(16)])
    others = bytes([0x17, *range(8), 0x12, 0x11, 0x13, 0x7F, 0x0B, 0x02, 0x00])
    ensure_fixed_bounds = fixed_bounds.ensure_fixed_bounds
    ensure_fixed_bounds(footer + a_map + truths + sixteen_bytes + others + b"\0", lengths)
    with pytest.raises(ThriftError, match="in the middle of a field"):
        ensure_fixed_bounds(footer + a_map, lengths)
    with pytest.raises(ThriftError, match="unknown type 14"):
        ensure_fixed_bounds(footer + b"\x1e\0", lengths)


@pytest.mark.parametrize("precision", range(1, 77))
def test_usual_lengths_are_those_that_arrow_writes(precision: int) -> None:
    """Only footers with other lengths are worth the time of looking through them."""
    column = pa.nulls(1, pa.decimal256(precision, 0))
    sink = io.BytesIO()
    pq.write_table(pa.table({"d": column}), sink)
    assert not fixed_bounds.find_unusual_lengths(pq.read_metadata(sink).schema)


def test_the_bounds_of_wanted_columns_are_found_in_a_footer() -> None:
    table = pa.table(
        {
            "text": ["a", "long" * 50, None],
            "three": pa.array([b"abc", b"def", None], pa.binary(3)),
            "list": [[1.5], [], None],
            "half": pa.array([1.5, -2.5, None], pa.float16()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1)
    parsed, footer = pq.read_metadata(sink), _footer_of(sink.getvalue())
    lengths = fixed_bounds.find_unusual_lengths(parsed.schema)
    assert lengths == {1: 3, 3: 2}
    fixed_bounds.ensure_fixed_bounds(footer, lengths)
    found = list(fixed_bounds._find_bounds(footer, {0, 1, 2, 3}))
    assert [bound for bound in found if bound[0] != 3] == [
        *[(0, 1)] * 2,
        *[(1, 3)] * 2,
        *[(2, 8)] * 4,
        *[(0, 200)] * 2,
        *[(1, 3)] * 2,
    ]
    assert {length for column, length in found if column == 3} == {2}
