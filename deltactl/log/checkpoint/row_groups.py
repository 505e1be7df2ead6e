"""Write the row groups of a checkpoint file.

Every reader of Delta accepts this Parquet: format 1.0, data pages v1, plain and dictionary
encodings, snappy, no Arrow schema.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.log.checkpoint.schema import (
    CheckpointLayout,
    described_leaves,
    dictionary_leaves,
)
from deltactl.storage.store import Replacement

_PAGE_VALUES: Final = 1 << 14


class RowGroupWriter(Protocol):
    """Writes row groups to a sink, which the caller closes."""

    def write(self, rows: pa.Table) -> None:
        """Encode rows as the next row group."""
        ...

    def close(self) -> None:
        """Write the footer."""
        ...


def open_parquet(sink: Any, schema: pa.Schema, layout: CheckpointLayout) -> pq.ParquetWriter:
    """Open Arrow's writer with the settings of checkpoints."""
    compat = layout.compat
    return pq.ParquetWriter(
        sink,
        schema,
        version="1.0",
        data_page_version="1.0",
        compression="none" if compat == "plain" else "snappy",
        use_dictionary=dictionary_leaves(schema, compat),
        write_statistics=described_leaves(schema),
        write_batch_size=_PAGE_VALUES,
        store_schema=False,
        use_deprecated_int96_timestamps=compat == "spark",
    )


class EncodedGroups:
    """Encodes all row groups."""

    def __init__(self, sink: Replacement, schema: pa.Schema, layout: CheckpointLayout) -> None:
        self._writer = open_parquet(sink, schema, layout)

    def write(self, rows: pa.Table) -> None:
        """Encode rows as the next row group."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()
