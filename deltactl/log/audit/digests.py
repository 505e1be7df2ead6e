"""Compute a digest of the live files of a version that does not depend on their order.

The digest compares two ways to rebuild one version in this process. One batch at a time is in
memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys, sum_sizes
from deltactl.log.keyed_hash import add_sums, sum_of_hashes
from deltactl.numpy_types import Flags
from deltactl.parquet.nested import walk_arrays
from deltactl.protocol.arrow_schemas import array_of, flags_of
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.stats_decoding import parse_stats

_NUMBERS = ("size_bytes", "base_row_id", "default_row_commit_version")
STATE_COLUMNS = (*KEY_COLUMNS, "partition_values", *_NUMBERS)


@dataclass(frozen=True, slots=True)
class StateDigest:
    """Number and total bytes of files, and the sum of a 128-bit hash of each file.

    The hash covers path, deletion vector, size, partition values and row ids. It uses the key of
    this process. An empty partition value is null.
    """

    num_files: int = 0
    size_bytes: int = 0
    keys: int = 0

    def describe_difference(self, other: StateDigest) -> str | None:
        """Describe the difference; ``None`` if there is none."""
        if self.num_files != other.num_files:
            return f"{self.num_files} files instead of {other.num_files}"
        if self.size_bytes != other.size_bytes:
            return f"{self.size_bytes} bytes of files instead of {other.size_bytes}"
        said = "files, partition values or row ids that differ from the log"
        return said if self.keys != other.keys else None


def digest_state(batches: Iterable[pa.Table], partition_keys: Sequence[str] = ()) -> StateDigest:
    """Return the digest of batches with ``STATE_COLUMNS``; partition keys are physical names."""
    num_files = size_bytes = keys = 0
    for batch in batches:
        num_files += batch.num_rows
        size_bytes += sum_sizes(batch)
        for chunk in _describe(batch, partition_keys).chunks:
            keys = add_sums(keys, sum_of_hashes(chunk))
    return StateDigest(num_files, size_bytes, keys)


def _describe(batch: pa.Table, partition_keys: Sequence[str]) -> pa.ChunkedArray:
    """Return one string for each file, with the facts that the hash covers."""
    # A null would make the joined string null. None of the numbers can be negative.
    numbers = [pc.fill_null(batch[name], -1).cast(pa.string()) for name in _NUMBERS]
    values = [pc.fill_null(lookup_map(batch["partition_values"], k), "") for k in partition_keys]
    return pc.binary_join_element_wise(file_keys(batch), *numbers, *values, "\0")


STATS_COLUMNS: Final = (*KEY_COLUMNS, "stats")


@dataclass(frozen=True, slots=True)
class StatsDigest:
    """For each statistic, by its dotted name: how many files have it, and the sum of the hashes."""

    found: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def describe_difference(self, other: StatsDigest) -> str | None:
        """Return which statistics differ; ``None`` if none do."""
        shared = self.found.keys() & other.found.keys()
        differing = sorted(
            name
            # With another number of values, one side lacks some, which harms no reader.
            for name in shared
            if self.found[name][0] == other.found[name][0] and self.found[name] != other.found[name]
        )
        if not differing:
            return None
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        return f"statistics that differ from the log: {differing[0]}{more}"


def digest_stats(batches: Iterable[pa.Table], type_: pa.StructType) -> StatsDigest:
    """Return the digest of batches with ``STATS_COLUMNS``.

    ``type_`` is the type of the struct with the statistics.
    """
    found: dict[str, tuple[int, int]] = {}
    for batch in batches:
        keys = file_keys(batch).combine_chunks()
        parsed = parse_stats(batch["stats"].combine_chunks(), type_)
        for path, leaf in walk_arrays(parsed):
            name, values = ".".join(path), _normalise(leaf)
            there = pc.is_valid(values)
            # With the key of the file, so that a value of another file gives another hash.
            texts = pc.binary_join_element_wise(keys.filter(there), values.filter(there), "\0")
            count, total = found.get(name, (0, 0))
            found[name] = (count + len(texts), add_sums(total, sum_of_hashes(texts)))
    return StatsDigest(found)


def differing_stats(one: pa.Array, other: pa.Array, type_: pa.StructType | None) -> Flags:
    """Return which pairs of JSON strings have other statistics of a type; ``None``: other texts.

    Differences in form do not count, nor do bounds of booleans that only one has: structs in
    checkpoints have none.
    """
    is_other = flags_of(pc.not_equal(pc.fill_null(one, ""), pc.fill_null(other, "")))
    if type_ is None or not is_other.any():
        return is_other
    texts = (it.filter(array_of(is_other)) for it in (one, other))
    found = np.zeros(np.count_nonzero(is_other), np.bool_)
    for pair in zip(*(walk_arrays(parse_stats(it, type_)) for it in texts), strict=True):
        ours, theirs = (_normalise(leaf) for _, leaf in pair)
        found |= flags_of(pc.fill_null(pc.not_equal(ours, theirs), False))
        if not pa.types.is_boolean(pair[0][1].type):
            found |= flags_of(pc.xor(pc.is_null(ours), pc.is_null(theirs)))
    is_other[is_other] = found
    return is_other


def _normalise(array: pa.Array) -> pa.Array:
    """Return a statistic as strings. A value has the same string in JSON and in a struct."""
    if pa.types.is_timestamp(array.type):
        # JSON has milliseconds; a struct may have more digits.
        array = pc.floor_temporal(array, unit="millisecond")
    elif pa.types.is_floating(array.type):
        array = pc.add(array, 0.0)  # -0.0 becomes 0.0
    return array.cast(pa.string())
