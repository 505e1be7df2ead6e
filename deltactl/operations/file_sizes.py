"""Count files by size, and calculate the share of small files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltactl.operations.target_size import DEFAULT_MIN_SHARE, choose_target_bytes
from deltactl.units import GIB, MIB

if TYPE_CHECKING:  # few sizes are counted without Arrow
    import pyarrow as pa

    from deltactl.numpy_types import Integers

EDGES = (64 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, GIB)
"""Bounds between buckets in bytes; the first bucket begins at 0, the last has no end."""


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Files and bytes by bucket (one more than ``EDGES``), and those of fewer bytes than ``small``.

    A file without a size in the log counts as one of 0 bytes.
    """

    files: tuple[int, ...]
    bytes: tuple[int, ...]
    small: int
    small_files: int
    small_bytes: int

    @property
    def num_files(self) -> int:
        """Return the number of files."""
        return sum(self.files)

    @property
    def size_bytes(self) -> int:
        """Return the total size of the files."""
        return sum(self.bytes)

    @property
    def small_share(self) -> float:
        """Return the share of small files, 0 to 1; 0 if there are no files."""
        return self.small_files / self.num_files if self.num_files else 0.0

    def replaced(self, removed: FileSizes, added: FileSizes) -> FileSizes:
        """Return the counts without ``removed`` and with ``added``, of the same ``small``."""
        return FileSizes(
            _exchange(self.files, removed.files, added.files),
            _exchange(self.bytes, removed.bytes, added.bytes),
            self.small,
            *_exchange(*((it.small_files, it.small_bytes) for it in (self, removed, added))),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: buckets with files, ``to_bytes`` null for the last."""
        starts, ends = (0, *EDGES), (*EDGES, None)
        return {
            "histogram": [
                {"from_bytes": start, "to_bytes": end, "files": files, "bytes": size}
                for start, end, files, size in zip(
                    starts, ends, self.files, self.bytes, strict=True
                )
                if files
            ],
            "small_below_bytes": self.small,
            "small_files": self.small_files,
            "small_bytes": self.small_bytes,
            "small_file_share": round(self.small_share, 4),
        }


def _exchange(
    before: tuple[int, ...], removed: tuple[int, ...], added: tuple[int, ...]
) -> tuple[int, ...]:
    # A run may also remove files of others that its plan did not count.
    return tuple(max(a - b, 0) + c for a, b, c in zip(before, removed, added, strict=True))


def sum_groups(groups: Integers, sizes: Integers, num_groups: int) -> tuple[Integers, Integers]:
    """Return the number of members and the sum of sizes of each group."""
    import numpy as np

    totals = np.zeros(num_groups, np.int64)
    np.add.at(totals, groups, sizes)  # exact, where weights of bincount are floats
    return np.bincount(groups, minlength=num_groups), totals


def count_sizes(sizes: Integers, small: int) -> FileSizes:
    """Count sizes in bytes by bucket."""
    import numpy as np

    sizes = np.maximum(sizes, 0)
    bucket = np.searchsorted(EDGES, sizes, side="right")
    counts, totals = sum_groups(bucket, sizes, len(EDGES) + 1)
    is_small = sizes < small
    return FileSizes(
        tuple(counts.tolist()),
        tuple(totals.tolist()),
        small,
        int(is_small.sum()),
        int(sizes[is_small].sum()),
    )


def count_table_sizes(batches: Iterable[pa.Table], target_property: int | None) -> FileSizes:
    """Count live files, given as batches with ``size_bytes``; needs 8 bytes of memory per file.

    A file is small as in ``optimize``: less than 75% of its target size.
    """
    import numpy as np
    import pyarrow.compute as pc

    found = [pc.fill_null(batch["size_bytes"], 0).to_numpy() for batch in batches]
    sizes: Integers = np.concatenate([np.empty(0, np.int64), *found])
    target_bytes = choose_target_bytes(None, target_property, int(sizes.sum()))
    return count_sizes(sizes, int(target_bytes * DEFAULT_MIN_SHARE))


def cut_files(sizes: Integers, most_files: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the first file and the end of each task: so many files and bytes, or one large file."""
    import numpy as np

    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        fitting = int(np.searchsorted(ends, before + most_bytes, side="right"))
        stop = min(max(fitting, start + 1), start + most_files)
        yield start, stop
        start = stop
