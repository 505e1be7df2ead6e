"""Values inside the log: schemas, properties, partition values, paths, statistics, vectors."""

import json
import struct
import zlib
from functools import cache

import pyarrow as pa
from pyroaring import BitMap64

from deltactl.errors import CorruptLogError
from deltactl.operations.check.stats import FileFacts, Statistics, find_contradictions
from deltactl.operations.convert.schema import find_partition_names, plan_partitions
from deltactl.parquet.open_files import load_deletion_vector
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.arrow_schemas import DELETION_VECTOR_TYPE, arrow_schema
from deltactl.protocol.deletion_vectors import (
    DeletionVector,
    decode_bitmap,
    ensure_within,
    live_mask,
    unique_ids,
    vector_files,
)
from deltactl.protocol.partitions import parse_partition_column
from deltactl.protocol.path_columns import absolute_mask, canonical_paths, decode_paths
from deltactl.protocol.paths import (
    decode_path,
    encode_path,
    hive_escape,
    hive_unescape,
    is_absolute,
    leaves_root,
)
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.property_rules import RULES
from deltactl.protocol.schema import (
    encode_schema,
    leaf_types,
    parse_schema,
    render_type,
    variant_groups,
    walk_fields,
)
from deltactl.protocol.stats import LeafStats, num_records
from deltactl.protocol.stats_columns import choose_stats_columns, list_leaves
from deltactl.protocol.stats_decoding import parse_stats, parsed_stats_type
from tests.fuzz.target import STORE, Target, as_text, stored
from tests.support.deletion_vectors import encode_bitmap, encode_vector_file, unique_id
from tests.support.table_builder import Column, bitmap_bytes, struct_of, z85
from tests.support.table_samples import COLUMNS

# -- schemas and properties ---------------------------------------------------------------------


def run_schema(data: bytes) -> None:
    """A schema string, to Arrow and back; what was understood is written the same again."""
    schema = parse_schema(as_text(data))
    _ = len(list(leaf_types(schema))), render_type(schema), variant_groups(schema)
    _ = len(list(walk_fields(schema))), len(list_leaves(schema))
    assert parse_schema(encode_schema(schema)) == schema
    for naming in ("logical", "physical"):
        arrow_schema(schema, "logical" if naming == "logical" else "physical")


def _schemas() -> list[bytes]:
    columns = [*COLUMNS, Column("q", "decimal(10,2)"), Column("t", "timestamp_ntz")]
    deep = "".join(['{"type":"array","containsNull":true,"elementType":' * 40, '"long"', "}" * 40])
    nested = {"type": "struct", "fields": [{"name": "a", "type": "DEEP"}]}
    return [
        json.dumps(struct_of(*columns)).encode(),
        json.dumps(nested).replace('"DEEP"', deep).encode(),
    ]


def run_properties(data: bytes) -> None:
    """A table's properties, all of one text, and each reading of it."""
    found = TableProperties(dict.fromkeys(RULES, as_text(data)))
    for name in dir(TableProperties):
        if isinstance(getattr(TableProperties, name), property):
            try:
                getattr(found, name)
            except CorruptLogError:
                raise
            except Exception as error:
                if type(error).__module__ != "deltactl.errors":
                    raise
    metadata = Metadata("id", json.dumps(struct_of(*COLUMNS)), (), found.configuration)
    choose_stats_columns(metadata, Protocol(1, 2))


# -- partitions and paths -----------------------------------------------------------------------

_PARTITION_TYPES = (
    pa.int64(),
    pa.int8(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.string(),
    pa.binary(),
)


def run_partition_value(data: bytes) -> None:
    """A partition value, the first byte chooses its column's type."""
    type_ = _PARTITION_TYPES[data[0] % len(_PARTITION_TYPES)] if data else pa.string()
    text = data[1:].decode("utf-8", "replace")
    parse_partition_column(pa.array([text, None, text]), type_, column="p")


_VALUES = ("1", "-9.5e3", "2024-01-31", "2024-01-31T12:00:00.123456Z", "true", "\\u00ff\\u0001")


def run_partition_path(data: bytes) -> None:
    """A data file's path, of the log or of a folder; both decoders say the same."""
    text = data.decode("utf-8", "replace")
    try:
        name = decode_path(text)
    except CorruptLogError:
        name = None
    try:
        many = decode_paths(pa.array([text, "a"]))[0].as_py()
    except CorruptLogError:
        many = None
    assert name == many
    if name is None:
        return
    assert decode_path(encode_path(name)) == name
    assert is_absolute(name) == absolute_mask(pa.array([name]))[0].as_py()
    _ = leaves_root(name), canonical_paths(pa.array([name]), "file")
    assert hive_unescape(hive_escape(name)) == name
    find_partition_names(name, None)
    plan_partitions([name, "p=1/x"], None, {})


_PATHS = (
    "p=a%253Ab%201/q=__HIVE_DEFAULT_PARTITION__/part-0.snappy.parquet",
    "file:///a/../b/x.parquet",
    "d=2024-01-31/t=2024-01-31 12%3A00%3A00/n=7/x",
    "s3a://bucket/%C3%BC.parquet",
)


# -- statistics ---------------------------------------------------------------------------------

_STATS_COLUMNS = [
    *COLUMNS,
    Column("f", "float"),
    Column("q", "decimal(10,2)"),
    Column("t", "timestamp"),
    Column("l", "timestamp_ntz"),
    Column("b", "boolean"),
]


@cache
def _stats_metadata() -> Metadata:
    return Metadata("id", json.dumps(struct_of(*_STATS_COLUMNS)))


@cache
def _stats_type() -> pa.StructType:
    return parsed_stats_type(_stats_metadata(), Protocol(1, 2))


@cache
def _facts() -> FileFacts:
    leaves = choose_stats_columns(_stats_metadata(), Protocol(1, 2)).leaves
    known = {
        leaf.path: LeafStats(
            1, "a" if leaf.kind == "string" else 1, "b" if leaf.kind == "string" else 2
        )
        for leaf in leaves
    }
    return FileFacts(10, 9, known, dict.fromkeys(known, 2), narrow=frozenset({("f",)}))


def run_stats(data: bytes) -> None:
    """Statistics: the row count, the parsed form, and what contradicts a file."""
    text = data.decode("utf-8", "replace")
    num_records(pa.chunked_array([[text]]))
    parse_stats(pa.array([text, None]), _stats_type())
    try:
        said = Statistics(text)
    except ValueError:  # what its callers expect
        return
    leaves = choose_stats_columns(_stats_metadata(), Protocol(1, 2)).leaves
    for _ in find_contradictions(said, _facts(), leaves):
        pass


def _stats() -> list[bytes]:
    bounds = {"id": 1, "name": "a", "x": -0.5, "d": "2024-01-31", "s": {"a": 3}, "f": 1.5}
    bounds |= {"q": 12.25, "t": "2024-01-31T12:00:00.000Z", "l": "2024-01-31T12:00:00.000"}
    nulls = dict.fromkeys(["id", "name", "x", "d", "m", "b", "q"], 1) | {"s": {"a": 0, "b": 2}}
    node = {"numRecords": 10, "minValues": bounds, "maxValues": bounds, "nullCount": nulls}
    infinite = {"numRecords": 1.0, "maxValues": {"x": "NaN", "f": "Infinity", "id": 1e9}}
    return [json.dumps(node | {"tightBounds": True}).encode(), json.dumps(infinite).encode()]


# -- deletion vectors ---------------------------------------------------------------------------

_RUNS = BitMap64([*range(1000, 9000), 1 << 33])


def run_vector_file(data: bytes) -> None:
    """A deletion vector's file; an even first byte sets version, size and checksum right."""
    if data and data[0] % 2 == 0:
        payload = data[5:-4]
        size = struct.pack(">i", len(payload))
        data = b"".join([b"\1", size, payload, struct.pack(">I", zlib.crc32(payload))])
    stored("deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin", data)
    vector = DeletionVector("u", "vBn[lx{q8@P<9BNH/isA", 1, max(len(data) - 9, 0), 3)
    _use_bitmap(load_deletion_vector(STORE, vector, count=False))


def run_bitmap(data: bytes) -> None:
    _use_bitmap(decode_bitmap(data))


def _use_bitmap(bitmap: BitMap64) -> None:
    live_mask(bitmap, 5, 100)
    live_mask(bitmap, 0, 1)
    assert decode_bitmap(encode_bitmap(bitmap)) == bitmap
    ensure_within(bitmap, 1 << 62, "the vector")


def _bitmaps() -> list[bytes]:
    native = struct.pack("<II", 1681511376, 1) + struct.pack("<I", 20)
    small = BitMap64([3, 4, 7]).serialize()
    portable = [encode_bitmap(_RUNS), encode_bitmap(BitMap64([3, 4, 7])), bitmap_bytes([1, 2])]
    dense = encode_bitmap(BitMap64(range(0, 12000, 2)))
    return [*portable, native + small[12:], dense]


def run_descriptor(data: bytes) -> None:
    """A descriptor as the log has it: kind, numbers, then path or inline vector."""
    kind, numbers, text = data[:1], data[1:17].ljust(16, b"\0"), data[17:]
    offset, size, cardinality = struct.unpack("<iiq", numbers)
    path = text.decode("utf-8", "replace")
    row = {
        "storage_type": kind.decode("utf-8", "replace"),
        "path_or_inline_dv": path,
        "offset": None if offset < 0 else offset,
        "size_bytes": size,
        "cardinality": cardinality,
    }
    column = pa.chunked_array([pa.array([row, None], DELETION_VECTOR_TYPE)])
    _ = unique_ids(column), vector_files(column)
    vector = DeletionVector(**row)
    assert unique_id(vector) == unique_ids(column)[0].as_py()
    load_deletion_vector(STORE, vector)


def _descriptors() -> list[bytes]:
    payload = bitmap_bytes([3, 4, 7, 11])
    inline = z85(payload + bytes(-len(payload) % 4)).encode()
    return [
        b"i" + struct.pack("<iiq", -1, len(payload), 4) + inline,
        b"u" + struct.pack("<iiq", 1, 34, 2) + b"ab^-aqEH.-t@S}K{vb[*k^",
        b"p" + struct.pack("<iiq", 1, 34, 2) + b"file:///t/deletion_vector_%20.bin",
    ]


def _files_of_vectors() -> list[bytes]:
    return [b"\0" + encode_vector_file([bitmap])[0][1:] for bitmap in (_RUNS, BitMap64([3, 4]))]


_SCHEMA_WORDS = (
    *('"type"', '"struct"', '"array"', '"map"', '"fields"', '"elementType"', '"keyType"'),
    *('"decimal(38,18)"', '"variant"', '"void"', '"metadata"', "delta.columnMapping.physicalName"),
)

TARGETS = (
    Target("schema", run_schema, _schemas, 600_000, "json", _SCHEMA_WORDS, 16384),
    Target("properties", run_properties,
        lambda: [b"interval 7 days", b"a.b, `c d`", b"true", b"128mb", b"-1"], 300_000, "text",
        ("interval", " days", "`", ".", ","), 512),
    Target("partition-value", run_partition_value,
        lambda: [bytes([i]) + value.encode() for i, value in enumerate(_VALUES * 2)], 500_000,
        "text", ("NaN", "Infinity", "T", "Z", "e", "+00:00"), 256),
    Target("partition-path", run_partition_path, lambda: [path.encode() for path in _PATHS],
        250_000, "text", ("%25", "..", "=", "/", "file:", "%C3", "__HIVE_DEFAULT_PARTITION__"),
        1024),
    Target("stats", run_stats, _stats, 200_000, "json",
        ("numRecords", "minValues", "maxValues", "nullCount", "1e999", '"NaN"', "-0.0"),
        by_arrow=True),
    Target("dv-file", run_vector_file, _files_of_vectors, 800_000, "bytes", max_length=16384),
    Target("dv-bitmap", run_bitmap, _bitmaps, 800_000, "bytes", max_length=16384),
    Target("dv-descriptor", run_descriptor, _descriptors, 500_000, "bytes"),
)  # fmt: skip
