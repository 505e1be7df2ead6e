"""Days of long ago in files of Spark: which of them readers take for different days.

Spark 2 wrote dates and timestamps in the hybrid calendar, Julian before 1582-10-15, and later
versions do where they are asked to (``spark.sql.parquet.datetimeRebaseModeInWrite``). A footer says
so, and Spark moves such values when it reads them; others take the numbers as they are. What is
written anew says nothing of it, and would be other days for Spark.

Source: Spark's ``DataSourceUtils`` (``datetimeRebaseSpec``, ``int96RebaseSpec``).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_VERSION: Final = b"org.apache.spark.version"
_LEGACY_DATES: Final = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96: Final = b"org.apache.spark.legacyINT96"
_FIRST_COMMON_DAY: Final = -141_427  # 1582-10-15
# 1900-01-01 UTC: before it the clocks of places differ too, by how they set them to the sun.
_FIRST_COMMON_SECOND: Final = -2_208_988_800


NEW_CALENDAR: Final = {_VERSION: b"3.5.0"}
"""What a footer says so that Spark takes days of long ago as they are.

Spark 3 refuses to read them in files without it, unless its session is told what they mean.
"""


def holds_days(schema: pa.Schema) -> bool:
    """Whether a schema has dates or timestamps at any depth."""
    return any(_is_of_days(member.type) for member in schema)


def _is_of_days(type_: pa.DataType) -> bool:
    if isinstance(type_, pa.BaseExtensionType):
        return _is_of_days(type_.storage_type)
    if pa.types.is_nested(type_):
        return any(_is_of_days(type_.field(index).type) for index in range(type_.num_fields))
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def is_in_old_calendar(metadata: pq.FileMetaData, physical_type: str) -> bool:
    """Whether Spark reads dates and timestamps of a file as those of the old calendar.

    Args:
        metadata: the file's footer.
        physical_type: of the column in question; ``INT96`` has a rule of its own.
    """
    facts = metadata.metadata or {}
    version = facts.get(_VERSION)
    if version is None:
        return False
    if physical_type == "INT96":
        return version < b"3.1.0" or _LEGACY_INT96 in facts
    return version < b"3.0.0" or _LEGACY_DATES in facts


def old_columns(metadata: pq.FileMetaData, names: Set[str]) -> frozenset[str]:
    """Those of top-level columns with leaves that may be times of the old calendar."""
    if metadata.metadata is None or _VERSION not in metadata.metadata:
        return frozenset()
    leaves = map(metadata.schema.column, range(metadata.num_columns))
    paths = [
        f"{leaf.path}."
        for leaf in leaves
        if leaf.physical_type in ("INT32", "INT64", "INT96")
        and is_in_old_calendar(metadata, leaf.physical_type)
    ]
    # A name may have dots itself: one column too many is looked at, never one too few.
    return frozenset(n for n in names if any(path.startswith(f"{n}.") for path in paths))


def holds_disputed_days(array: pa.Array) -> bool:
    """Whether a column has dates or timestamps, at any depth, that the two calendars dispute."""
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return holds_disputed_days(array.storage)
    if pa.types.is_dictionary(type_):
        return holds_disputed_days(array.dictionary)
    if pa.types.is_struct(type_):
        return any(map(holds_disputed_days, array.flatten()))
    if pa.types.is_map(type_):
        return holds_disputed_days(array.keys) or holds_disputed_days(array.items)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return holds_disputed_days(array.values)
    if pa.types.is_date32(type_):
        return _is_below(array.view(pa.int32()), _FIRST_COMMON_DAY)
    if pa.types.is_timestamp(type_):
        parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
        return _is_below(array.view(pa.int64()), _FIRST_COMMON_SECOND * parts)
    return False


def _is_below(numbers: pa.Array, least: int) -> bool:
    found = pc.min(numbers).as_py()
    return found is not None and found < least
