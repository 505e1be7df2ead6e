"""Keep the statistics of floats of files whose row groups may be copied; see ``FLOAT_STATS``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.snapshot import Snapshot
from deltactl.protocol.arrow_schemas import array_of
from deltactl.protocol.stats_columns import choose_stats_columns
from deltactl.protocol.stats_decoding import parse_stats, stats_type


def float_stats_type(snapshot: Snapshot) -> pa.StructType | None:
    """Return the type of the statistics of the float leaves; ``None`` if there are none.

    Bounds of 32-bit floats are doubles too, because some readers parse them as such.
    """
    leaves = choose_stats_columns(snapshot.metadata, snapshot.protocol).leaves
    paths = [leaf.path for leaf in leaves if leaf.kind == "float"]
    if not paths:
        return None
    return stats_type(dict.fromkeys(paths, pa.float64()), paths, tight=True)


def keep_float_stats(files: pa.Table, kind: pa.StructType, min_bytes: int) -> pa.ChunkedArray:
    """Return a list for each file: its statistics if it is large enough, else empty.

    An empty list takes the memory of an offset, and most tables have many more small files.
    """
    wanted = pc.and_(pc.greater_equal(files["size_bytes"], min_bytes), files["stats"].is_valid())
    mask = pc.fill_null(wanted, False)
    chunks = parse_stats(files["stats"].filter(mask), kind).chunks
    offsets = np.concatenate([[0], np.cumsum(mask.to_numpy())]).astype(np.int32)
    values = pa.concat_arrays(chunks or [pa.array([], kind)])
    return pa.chunked_array([pa.ListArray.from_arrays(array_of(offsets), values)])
