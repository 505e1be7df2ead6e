"""Constants of the Parquet file format that Arrow does not expose. Arrow is not imported here.

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

    SCHEMA, ROW_GROUPS = 2, 4


class SchemaElement(IntEnum):
    """Field numbers of a node of the schema."""

    NAME, NUM_CHILDREN, LOGICAL_TYPE = 4, 5, 10


class RowGroup(IntEnum):
    """Field numbers of a row group."""

    COLUMNS = 1


class ColumnChunk(IntEnum):
    """Field numbers of a column chunk."""

    META_DATA, COLUMN_INDEX_OFFSET, COLUMN_INDEX_LENGTH = 3, 6, 7


class ColumnMetaData(IntEnum):
    """Field numbers of the metadata of a column chunk."""

    STATISTICS, ENCODING_STATS = 12, 13


class Statistics(IntEnum):
    """Field numbers of the statistics of a column chunk."""

    MAX, MIN, MAX_VALUE, MIN_VALUE, IS_MAX_VALUE_EXACT, IS_MIN_VALUE_EXACT = 1, 2, 5, 6, 7, 8
