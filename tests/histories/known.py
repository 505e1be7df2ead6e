"""Defects of other programs that histories run into: each has a name here, and a narrow rule.

What is not here is a failure. Each was looked at with a third reader.
"""

import re
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl import Table
from deltactl.protocol.path_columns import not_java_text_mask

NO_NEGATIVE_DECIMALS_IN_PARTITIONS: Final = True
"""delta-rs 1.6.6 writes the partition value -1.25 as ``-1.-25``: no reader can read the table then,
delta-rs included. Histories with delta-rs have no negative decimals in partition columns."""

NO_COLON_IN_NAMES_OF_PARTITION_COLUMNS: Final = True
"""delta-rs 1.6.6 writes the path ``a:b=1/x.parquet`` as it is. By RFC 3986 that is a URI with the
scheme ``a``: neither delta-rs nor Spark reads the table then; DuckDB and deltactl do."""

FINDINGS_OF_DELTA_RS: Final = frozenset({"PATH_ENCODING", "PATH_ENCODING_DOUBTFUL"})
"""delta-rs 1.6.6 removes files that Spark added with non-ASCII paths by another text: rows stay."""


def unread_by_duckdb(partition_by: Collection[str], *, is_mapped: bool) -> Collection[str]:
    """The columns that DuckDB does not read.

    DuckDB 1.5.5 reads nulls for all partition columns of a table with column mapping; Spark,
    delta-rs and deltactl read the values.
    """
    return partition_by if is_mapped else ()


def has_checkpoints_of_two_kinds(table: Path) -> bool:
    """Return whether a version has a checkpoint in one file and one in parts.

    Delta on Spark 4.4.0 writes parts beside a checkpoint in one file. DuckDB 1.5.5 then takes one
    of the two at random, and fails where `_last_checkpoint` names the other.
    """
    names = [path.name for path in (table / "_delta_log").glob("*.checkpoint.*parquet")]
    single = {name[:20] for name in names if re.fullmatch(r"\d{20}\.checkpoint\.parquet", name)}
    parts = {name[:20] for name in names if re.search(r"\.checkpoint\.\d{10}\.\d{10}\.", name)}
    return bool(single & parts)


def loses_files_to_spark(table: Path) -> bool:
    """Return whether VACUUM of Delta on Spark 4.4.0 would delete live files: docs/adr/0004.

    delta-rs 1.6.6 escapes non-ASCII characters in ``add.path`` of files that it writes, and in
    ``remove.path`` of files that Spark wrote: these stay live, and VACUUM takes them for removed.
    """
    snapshot = Table(str(table)).snapshot()
    columns = ["encoded_path"]
    batches = chain(snapshot.file_batches(columns), snapshot.tombstone_batches(columns))
    return any(pc.any(not_java_text_mask(batch["encoded_path"])).as_py() for batch in batches)


def counts_otherwise(field: pa.Field, *, in_partition: bool) -> bool:
    """Whether delta-rs compares values of a column in its own way: see ``blanks_as_nulls``."""
    return in_partition and pa.types.is_string(field.type)


def has_lossy_bounds(arrow: pa.DataType, *, writes_delta_rs: bool) -> bool:
    """Whether bounds of a column may be wrong in the log, so that readers skip files they need.

    delta-rs 1.6.6 writes bounds of decimals by way of 64-bit floats, which hold 15 digits.
    """
    return writes_delta_rs and pa.types.is_decimal(arrow) and arrow.precision > 15


def blanks_as_nulls(table: pa.Table, partition_by: Collection[str]) -> pa.Table:
    """Return what delta-rs or Delta on Spark read, with null for the partition value ``""``.

    PROTOCOL.md: an empty string is a null partition value. So read DuckDB and deltactl. delta-rs
    1.6.6 and Delta on Spark 4.4.0 read an empty string; Delta on Spark never writes one.
    """
    for at, field in enumerate(table.schema):
        if field.name in partition_by and (
            pa.types.is_string_view(field.type) or pa.types.is_string(field.type)
        ):
            texts = table[field.name].cast(pa.string())
            texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
            table = table.set_column(at, field.name, texts)
    return table
