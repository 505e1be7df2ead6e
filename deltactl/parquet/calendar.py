"""Detect legacy (Julian/Gregorian) dates and timestamps in files that Spark wrote.

Spark 2 wrote dates and timestamps in the hybrid calendar, which is Julian before 1582-10-15. Later
versions do so if ``spark.sql.parquet.datetimeRebaseModeInWrite`` is ``LEGACY``. The footer shows
this with some entries, and Spark converts such values when it reads them; other readers do not. A
file that deltactl rewrote would not have these entries, so Spark would read other dates.

Source: Spark's ``DataSourceUtils`` (``datetimeRebaseSpec``, ``int96RebaseSpec``).
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltactl.parquet.nested import walk_arrays, walk_leaves

_VERSION: Final = b"org.apache.spark.version"
_LEGACY_DATES: Final = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96: Final = b"org.apache.spark.legacyINT96"
_FIRST_COMMON_DAY: Final = -141_427  # 1582-10-15
# 1900-01-01 UTC. Before it, time zones used local mean time, which Spark converts too.
_FIRST_COMMON_SECOND: Final = -2_208_988_800


PROLEPTIC_CALENDAR: Final = {_VERSION: b"3.5.0"}
"""With this footer entry, Spark reads dates before 1582 as proleptic Gregorian.

Without it, Spark 3 refuses to read such dates, unless its session has a rebase mode.
"""


def has_datetimes(schema: pa.Schema) -> bool:
    """Return whether a schema has dates or timestamps at any depth."""
    return any(is_time(leaf.type) for member in schema for leaf in walk_leaves(member.type))


def is_time(type_: pa.DataType) -> bool:
    """Return whether a type is a date or timestamp, whose values depend on the calendar."""
    return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))


def first_common_value(type_: pa.DataType) -> int:
    """Return the first date (days) or timestamp (microseconds) that both calendars share."""
    return _FIRST_COMMON_DAY if pa.types.is_date(type_) else _FIRST_COMMON_SECOND * 10**6


def is_in_legacy_calendar(metadata: pq.FileMetaData, physical_type: str) -> bool:
    """Return whether Spark reads dates and timestamps of a file in the legacy calendar.

    Args:
        metadata: the file's footer.
        physical_type: the physical type of the column; there is a separate rule for ``INT96``.
    """
    facts = metadata.metadata or {}
    version = facts.get(_VERSION)
    if version is None:
        return False
    # Spark compares versions as texts too.
    if physical_type == "INT96":
        return version < b"3.1.0" or _LEGACY_INT96 in facts
    return version < b"3.0.0" or _LEGACY_DATES in facts


def legacy_columns(metadata: pq.FileMetaData, names: Set[str]) -> frozenset[str]:
    """Return the top-level columns that have leaves which may be in the legacy calendar."""
    if metadata.metadata is None or _VERSION not in metadata.metadata:
        return frozenset()
    leaves = map(metadata.schema.column, range(metadata.num_columns))
    paths = [
        f"{leaf.path}."
        for leaf in leaves
        # The types in which dates and timestamps are stored.
        if leaf.physical_type in ("INT32", "INT64", "INT96")
        and is_in_legacy_calendar(metadata, leaf.physical_type)
    ]
    # A name may contain dots. So the result can have too many columns, but never too few.
    return frozenset(n for n in names if any(path.startswith(f"{n}.") for path in paths))


def has_ambiguous_datetimes(array: pa.Array) -> bool:
    """Return whether a column has values that differ between the two calendars, at any depth."""
    return any(_has_ambiguous_values(leaf) for _, leaf in walk_arrays(array))


def _has_ambiguous_values(leaf: pa.Array) -> bool:
    if pa.types.is_dictionary(leaf.type):
        # It may have values of no row: a file can be refused needlessly, but none is missed.
        leaf = leaf.dictionary
    if pa.types.is_date32(leaf.type):
        return _is_below(leaf.view(pa.int32()), _FIRST_COMMON_DAY)
    if pa.types.is_timestamp(leaf.type):
        parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[leaf.type.unit]
        return _is_below(leaf.view(pa.int64()), _FIRST_COMMON_SECOND * parts)
    return False


def _is_below(numbers: pa.Array, least: int) -> bool:
    found = pc.min(numbers).as_py()
    return found is not None and found < least
