"""Encode rows in memory as one row group, to write them next to copied chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.errors import VerificationError
from deltactl.parquet.amend import amend_footer
from deltactl.parquet.facts import FactCollector
from deltactl.parquet.format import END_BYTES, FileMetaData, RowGroup
from deltactl.parquet.null_counts import count_nulls, read_null_counts
from deltactl.parquet.thrift import ThriftStruct, decode
from deltactl.parquet.writer import WriteOptions, open_parquet
from deltactl.protocol.stats_columns import StatsColumns

_PARTS_PER_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """A Parquet file in memory that has one row group; ``facts`` are facts about its rows."""

    num_rows: int
    data: memoryview = field(repr=False)
    chunks: list[ThriftStruct] = field(repr=False)
    facts: FactCollector = field(repr=False)

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file; fewer bytes at its end."""
        return bytes(self.data[offset : offset + length])


def encode_segment(table: pa.Table, options: WriteOptions, stats: StatsColumns) -> Segment:
    """Encode rows as a row group. There must be at least one row.

    Raises:
        VerificationError: the row count or null counts in the footer differ from the table.
        pa.ArrowException: the rows cannot be encoded.
    """
    facts = FactCollector(table.schema, stats)
    facts.collect(table)
    buffer = pa.BufferOutputStream()
    with open_parquet(buffer, table, options) as writer:
        writer.write_table(table, row_group_size=table.num_rows)
    data = memoryview(buffer.getvalue())
    _ensure_counts(table, pq.read_metadata(pa.BufferReader(data)))
    length = int.from_bytes(data[-END_BYTES:-4], "little") + END_BYTES
    footer = amend_footer(
        bytes(data[-length:]), unbounded=facts.nan_columns, opaque=facts.negative_zero_columns
    )
    (group,) = decode(footer[:-END_BYTES]).members(FileMetaData.ROW_GROUPS)
    return Segment(table.num_rows, data, group.members(RowGroup.COLUMNS), facts)


def divide_columns(table: pa.Table, cores: int) -> list[pa.Table]:
    """Divide the columns into parts that follow each other, so that ``cores`` threads end together.

    The parts have about the same number of bytes. There are at most four for each thread.
    """
    if cores == 1:
        return [table]
    ends = list(accumulate(column.nbytes for column in table.columns))
    # Not zero, even if no column has bytes.
    share = ends[-1] // (cores * _PARTS_PER_CORE) + 1
    numbers = range(table.num_columns)
    parts = groupby(numbers, key=lambda number: (ends[number] - 1) // share)
    return [table.select(list(part)) for _, part in parts]


def _ensure_counts(table: pa.Table, footer: pq.FileMetaData) -> None:
    if footer.num_rows != table.num_rows or footer.num_row_groups != 1:
        raise VerificationError(
            f"{table.num_rows} rows in 1 row group were encoded, but the footer says "
            f"{footer.num_rows} rows in {footer.num_row_groups} row groups"
        )
    for name, nulls in read_null_counts(footer).items():
        encoded = count_nulls(table[name])
        if nulls != encoded:
            raise VerificationError(
                f"column {name!r} was written with {encoded} nulls, but the footer has {nulls}"
            )
