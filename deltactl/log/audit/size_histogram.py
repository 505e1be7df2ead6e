"""The histogram of file sizes in version checksum files.

Source: PROTOCOL.md, "File Size Histogram Schema". The boundaries are those of Delta on Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from deltactl.log.snapshot import Snapshot
from deltactl.units import GIB, KIB, MIB

MEMBERS: Final = ("fileSizeHistogram", "histogramOpt")
"""The name of the member, and the one that earlier versions of Delta on Spark wrote."""

BOUNDARIES: Final = (
    0,
    *(8 * KIB << power for power in range(10)),
    *range(8 * MIB, 44 * MIB, 4 * MIB),
    *range(48 * MIB, 124 * MIB, 8 * MIB),
    *range(124 * MIB, 148 * MIB, 4 * MIB),
    *range(160 * MIB, 592 * MIB, 16 * MIB),
    *range(640 * MIB, 1472 * MIB, 64 * MIB),
    *range(1536 * MIB, 2176 * MIB, 128 * MIB),
    *range(2304 * MIB, 4352 * MIB, 256 * MIB),
    *(8 * GIB << power for power in range(6)),
)
"""The first size of each bin, in bytes; the last bin has no end."""


def encode_histogram(snapshot: Snapshot, boundaries: Sequence[int] = BOUNDARIES) -> dict[str, Any]:
    """Return the histogram of the live files, as the JSON member has it; reads only sizes."""
    edges = np.asarray(boundaries, np.int64)
    counts, totals = np.zeros_like(edges), np.zeros_like(edges)
    for batch in snapshot.file_batches(["size_bytes"]):
        sizes: npt.NDArray[np.int64] = batch["size_bytes"].drop_null().to_numpy()
        # A negative size, which only a damaged log has, is in the first bin.
        bins = np.maximum(np.searchsorted(edges, sizes, side="right") - 1, 0)
        np.add.at(counts, bins, 1)
        np.add.at(totals, bins, sizes)
    return {
        "sortedBinBoundaries": edges.tolist(),
        "fileCounts": counts.tolist(),
        "totalBytes": totals.tolist(),
    }


def histogram_problem(node: Mapping[str, Any], snapshot: Snapshot) -> str | None:
    """Return why the histogram of a checksum file is wrong; ``None`` if it is right or absent."""
    for member in MEMBERS:
        found = node.get(member)
        if found is None:
            continue
        edges = found["sortedBinBoundaries"]
        if list(edges[:1]) != [0] or sorted(set(edges)) != edges:
            return f"{member} has boundaries that do not increase from 0"
        if dict(found) != encode_histogram(snapshot, edges):
            return f"{member} differs from the log"
    return None
