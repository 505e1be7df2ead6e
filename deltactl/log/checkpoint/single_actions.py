"""Find rows of a Parquet checkpoint with more than one action.

Each row must have exactly one action (PROTOCOL.md, "Checkpoint Schema"). If a row has several,
readers differ in which action they use. So a file with such a row is not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from deltactl.log.commits.columns import ACTIONS, FILE_ACTIONS, find_shared_rows

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_BATCH_ROWS = 1 << 16


def ensure_single_actions(parquet: pq.ParquetFile, num_non_file: int) -> None:
    """Raise an error if a row has several actions, as far as the footer shows this.

    The footer counts adds and removes. If these and ``num_non_file`` together are the number of
    rows, no rows are read. One case is missed: for each action too many, the file has a row without
    any action. :func:`ensure_no_shared_rows` finds this case too.

    Raises:
        ValueError: a row has several actions.
    """
    counts = [_count_present(parquet, action) for action in FILE_ACTIONS]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or num_non_file + sum(known) != parquet.metadata.num_rows:
        ensure_no_shared_rows(parquet)


def ensure_no_shared_rows(parquet: pq.ParquetFile) -> None:
    """Raise an error if a row has several actions. This reads the smallest column of each action.

    Raises:
        ValueError: a row has several actions.
    """
    leaves = dict(_smallest_leaves(parquet))
    start = 0
    for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(leaves.values())):
        if (rows := find_shared_rows(batch.columns)).size:
            row = int(rows[0])
            names = [n for n in batch.schema.names if batch.column(n)[row].is_valid]
            raise ValueError(f"row {start + row + 1} has several actions: {', '.join(names)}")
        start += batch.num_rows


def count_nulls(parquet: pq.ParquetFile, path: str) -> int | None:
    """Return how many nulls the footer counts in a string column; ``None`` if it has no count."""
    nulls = 0
    index = list(leaf_paths(parquet.schema)).index(path)
    for group in range(parquet.metadata.num_row_groups):
        chunk = parquet.metadata.row_group(group).column(index)
        # The column must be a string: for other types, a bound that is too short would end the
        # process.
        statistics = chunk.statistics if chunk.physical_type == "BYTE_ARRAY" else None
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
    return nulls


def leaf_paths(schema: pq.ParquetSchema) -> Iterator[str]:
    """Yield the dotted path of each leaf column."""
    return (schema.column(index).path for index in range(len(schema)))


def _count_present(parquet: pq.ParquetFile, action: str) -> int | None:
    if action not in parquet.schema_arrow.names:
        return 0
    path = f"{action}.path"
    if path not in leaf_paths(parquet.schema):
        return None
    nulls = count_nulls(parquet, path)
    return None if nulls is None else parquet.metadata.num_rows - nulls


def _smallest_leaves(parquet: pq.ParquetFile) -> Iterator[tuple[str, str]]:
    """Yield, for each kind of action, the member of a simple type that has the fewest bytes."""
    sizes: dict[str, int] = {}
    metadata = parquet.metadata
    for index, path in enumerate(leaf_paths(parquet.schema)):
        groups = range(metadata.num_row_groups)
        sizes[path] = sum(metadata.row_group(g).column(index).total_compressed_size for g in groups)
    for field in parquet.schema_arrow:
        if field.name not in ACTIONS:
            continue
        members = list(field.type) if pa.types.is_struct(field.type) else []
        simple = [f"{field.name}.{m.name}" for m in members if not pa.types.is_nested(m.type)]
        leaves = [leaf for leaf in simple if leaf in sizes]
        yield field.name, min(leaves, key=sizes.__getitem__, default=field.name)
