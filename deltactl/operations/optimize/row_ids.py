"""Write row ids and row commit versions of input rows into hidden columns of the output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import VerificationError
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.reader import LiveBatch


@dataclass(frozen=True, slots=True)
class RowTrackingColumns:
    """Names of the hidden columns that keep row ids and commit versions through a rewrite."""

    row_id: str
    commit_version: str


def keep_row_ids(live: LiveBatch, file: DataFile, names: RowTrackingColumns) -> pa.RecordBatch:
    """Fill the hidden columns: the value stored in the file, else the one implied by the row index.

    A row's implied id counts physical rows, deleted ones included (PROTOCOL.md, "Row Tracking").

    Raises:
        VerificationError: the log gives the file no base id.
    """
    columns = live.columns
    if file.base_row_id is None or file.default_row_commit_version is None:
        raise VerificationError(
            f"{file.path!r} has no baseRowId, but the table has row tracking",
            hint="Backfill row tracking with the engine that writes the table, then rerun.",
        )
    positions = np.arange(live.first_row, live.first_row + live.num_physical_rows, dtype=np.int64)
    if live.mask is not None:
        positions = positions[np.asarray(live.mask)]
    implied = {
        names.row_id: pa.array(positions + file.base_row_id),
        names.commit_version: pa.scalar(file.default_row_commit_version, pa.int64()),
    }
    for name, value in implied.items():
        index = columns.schema.get_field_index(name)
        filled = pc.coalesce(columns.column(index), value)
        columns = columns.set_column(index, columns.schema.field(index), filled)
    return columns
