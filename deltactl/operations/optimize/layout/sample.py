"""Read a sample of the layout columns, from row groups of all files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.operations.optimize.layout.placement import Placement, learn_placement
from deltactl.operations.optimize.layout.ranks import cut
from deltactl.operations.optimize.layout.request import LayoutRequest
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.facts import select_leaf
from deltactl.parquet.reader import DEFAULT_BATCH_ROWS, RowReader
from deltactl.protocol.stats import FieldPath
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store

_SAMPLED_ROWS: Final = 1 << 18
_PROBES: Final = 128
# Of rows that are decoded at once; several files are read at the same time.
_READ_BYTES: Final = 4 << 20
_LEAST_BATCH_ROWS: Final = 1 << 8


def select_leaves(batch: pa.RecordBatch, paths: Sequence[FieldPath]) -> list[pa.Array]:
    """Return the columns of a layout."""
    return [select_leaf(batch, path) for path in paths]


def sample_placement(
    store: Store,
    reader: RowReader,
    request: LayoutRequest,
    files: Sequence[DataFile],
    wanted_files: int,
) -> Placement:
    """Decide the placement of the rows of a cluster, from a sample of its columns.

    Raises:
        DataFileError: a file of the sample is missing or broken.
    """
    sample = read_sample(store, reader, files, request.paths)
    return learn_placement(request.layout, sample, wanted_files)


def read_sample(
    store: Store, reader: RowReader, files: Sequence[DataFile], paths: Sequence[FieldPath]
) -> list[pa.Array]:
    """Return values of the columns, from at most 128 row groups; they include deleted rows.

    Long strings are cut.

    Raises:
        DataFileError: a file is missing or broken.
    """
    chosen = reader.select({path[0] for path in paths})
    probes = choose_probes([file.size_bytes for file in files])

    def read(item: tuple[int, list[float]]) -> list[list[pa.Array]]:
        number, places = item
        return _read_groups(store, chosen, files[number], places, paths)

    none = select_leaves(pa.RecordBatch.from_pylist([], chosen.schema), paths)
    parts = [part for found in each_in_parallel(read, probes, at_once=4) for part in found]
    return [pa.concat_arrays(arrays) for arrays in zip(none, *parts, strict=True)]


def choose_batch_rows(footer: pq.FileMetaData, most_bytes: int) -> int:
    """Return how many rows of a file to read at once: fewer if the rows are wide."""
    groups = map(footer.row_group, range(footer.num_row_groups))
    size_bytes = sum(int(group.total_byte_size) for group in groups)
    row_bytes = size_bytes // max(1, int(footer.num_rows))
    return max(_LEAST_BATCH_ROWS, min(DEFAULT_BATCH_ROWS, most_bytes // max(1, row_bytes)))


def choose_probes(sizes: Sequence[int], probes: int = _PROBES) -> list[tuple[int, list[float]]]:
    """Return file numbers, and places in each file (0 to 1), evenly distributed over all bytes."""
    ends = np.cumsum(np.maximum(np.array(sizes, np.float64), 1.0))
    places = (np.arange(probes) + 0.5) * ends[-1] / probes
    numbers = np.searchsorted(ends, places, "right")
    starts = np.concatenate([[0.0], ends])
    within = (places - starts[numbers]) / (starts[numbers + 1] - starts[numbers])
    found: dict[int, list[float]] = {}
    for number, place in zip(numbers.tolist(), within.tolist(), strict=True):
        found.setdefault(number, []).append(place)
    return list(found.items())


def _read_groups(
    store: Store,
    reader: RowReader,
    file: DataFile,
    places: Sequence[float],
    paths: Sequence[FieldPath],
) -> list[list[pa.Array]]:
    """Return values of the row groups at these places, as many for each place."""
    parts = []
    with reader.open(store, file) as parquet:
        batch_rows = choose_batch_rows(parquet.metadata, _READ_BYTES)
        groups = Counter(int(place * parquet.num_row_groups) for place in places)
        for group, count in sorted(groups.items()):
            if group >= parquet.num_row_groups:
                continue  # a file without rows
            rows = parquet.metadata.row_group(group).num_rows
            step = max(1, rows * _PROBES // (_SAMPLED_ROWS * count))
            for live in reader.read_groups(parquet, file, None, [group], batch_rows=batch_rows):
                picked = pa.array(np.arange(0, live.columns.num_rows, step))
                leaves = select_leaves(live.columns, paths)
                parts.append([cut(leaf.take(picked)) for leaf in leaves])
    return parts
