"""Define constants of the Parquet format that Arrow does not expose. Imports no Arrow.

Source: the Parquet format, "File format", and its ``parquet.thrift``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

MAGIC: Final = b"PAR1"
ENCRYPTED_MAGIC: Final = b"PARE"
END_BYTES: Final = 8
"""Bytes after the footer: its length and the magic."""


class FileMetaData(IntEnum):
    """Field numbers of the footer."""

    SCHEMA, NUM_ROWS, ROW_GROUPS, CREATED_BY, COLUMN_ORDERS = 2, 3, 4, 6, 7


class SchemaElement(IntEnum):
    """Field numbers of a node of the schema."""

    TYPE, TYPE_LENGTH, REPETITION, NAME, NUM_CHILDREN = 1, 2, 3, 4, 5
    CONVERTED_TYPE, SCALE, PRECISION, FIELD_ID, LOGICAL_TYPE = 6, 7, 8, 9, 10


class RowGroup(IntEnum):
    """Field numbers of a row group."""

    COLUMNS, TOTAL_BYTE_SIZE, NUM_ROWS, SORTING_COLUMNS = 1, 2, 3, 4
    FILE_OFFSET, TOTAL_COMPRESSED_SIZE, ORDINAL = 5, 6, 7


class SortingColumn(IntEnum):
    """Field numbers of a sorting column."""

    COLUMN_INDEX = 1


class ColumnChunk(IntEnum):
    """Field numbers of a column chunk."""

    FILE_PATH, FILE_OFFSET, META_DATA = 1, 2, 3
    OFFSET_INDEX_OFFSET, OFFSET_INDEX_LENGTH, COLUMN_INDEX_OFFSET, COLUMN_INDEX_LENGTH = 4, 5, 6, 7
    CRYPTO_METADATA, ENCRYPTED_METADATA = 8, 9


class ColumnMetaData(IntEnum):
    """Field numbers of column chunk metadata."""

    TYPE, ENCODINGS, PATH, CODEC, NUM_VALUES = 1, 2, 3, 4, 5
    TOTAL_UNCOMPRESSED_SIZE, TOTAL_COMPRESSED_SIZE, KEY_VALUE_METADATA = 6, 7, 8
    DATA_PAGE_OFFSET, INDEX_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET = 9, 10, 11
    STATISTICS, ENCODING_STATS, BLOOM_FILTER_OFFSET, BLOOM_FILTER_LENGTH = 12, 13, 14, 15


class Statistics(IntEnum):
    """Field numbers of the statistics of a column chunk."""

    MAX, MIN, NULL_COUNT, MAX_VALUE, MIN_VALUE = 1, 2, 3, 5, 6
    IS_MAX_VALUE_EXACT, IS_MIN_VALUE_EXACT, NAN_COUNT = 7, 8, 9


OLD_BOUNDS: Final = frozenset({Statistics.MAX, Statistics.MIN})
"""Bounds whose order the format does not define."""

BOUNDS: Final = frozenset(Statistics) - {Statistics.NULL_COUNT, Statistics.NAN_COUNT}


class ColumnOrder(IntEnum):
    """Field numbers of the order of a column's bounds. The second field is for floats only."""

    TYPE_ORDER, IEEE_754_TOTAL_ORDER = 1, 2


class PageHeader(IntEnum):
    """Field numbers of a page header."""

    TYPE, UNCOMPRESSED_SIZE, COMPRESSED_SIZE = 1, 2, 3
    DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 5, 7, 8


class DataPageHeader(IntEnum):
    """Field numbers of a data page header, for both versions."""

    NUM_VALUES = 1


class OffsetIndex(IntEnum):
    """Field numbers of an offset index."""

    PAGE_LOCATIONS = 1


class PageLocation(IntEnum):
    """Field numbers of a page in an offset index. The size is the size of header and data."""

    OFFSET, COMPRESSED_SIZE = 1, 2


class BloomFilterHeader(IntEnum):
    """Field numbers of a Bloom filter header."""

    NUM_BYTES = 1


class PageType(IntEnum):
    """Types of pages."""

    DATA, INDEX, DICTIONARY, DATA_V2 = 0, 1, 2, 3


MAX_ROW_GROUPS: Final = 32_767
"""The largest ordinal of a row group, which is a 16-bit integer."""

CODECS: Final = ("none", "snappy", "gzip", "lzo", "brotli", "lz4_hadoop", "zstd", "lz4")
"""Names of the codecs, by number."""
