"""A fingerprint of the statistics of a version's files, a number for each that there is.

For comparing two ways to rebuild one version. A checkpoint may leave statistics out: those of a
column are compared only where both sides have as many. Memory holds a batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.audit.digests import sum_of_hashes
from deltactl.log.checkpoint.parsed_stats import parse_stats
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys

STATS_COLUMNS: Final = (*KEY_COLUMNS, "stats")


@dataclass(frozen=True, slots=True)
class StatsDigest:
    """By the dotted name of a statistic: how many files have it, and the sum of their hashes."""

    found: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def describe_difference(self, other: StatsDigest) -> str | None:
        """The statistics that are others, in words; ``None`` when none are."""
        shared = self.found.keys() & other.found.keys()
        differing = sorted(
            name
            for name in shared
            if self.found[name][0] == other.found[name][0] and self.found[name] != other.found[name]
        )
        if not differing:
            return None
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        return f"other statistics than the log says: {differing[0]}{more}"


def digest_stats(batches: Iterable[pa.Table], type_: pa.StructType) -> StatsDigest:
    """The digest of batches with ``STATS_COLUMNS``; ``type_`` is that of ``stats_parsed``."""
    found: dict[str, tuple[int, int]] = {}
    for batch in batches:
        keys = file_keys(batch).combine_chunks()
        parsed = parse_stats(batch["stats"].combine_chunks(), type_)
        for name, values in _leaves(parsed, ""):
            there = pc.is_valid(values)
            texts = pc.binary_join_element_wise(keys.filter(there), values.filter(there), "\0")
            count, total = found.get(name, (0, 0))
            found[name] = (count + len(texts), (total + sum_of_hashes(texts)) % 2**64)
    return StatsDigest(found)


def _leaves(array: pa.Array, name: str) -> Iterator[tuple[str, pa.Array]]:
    """Each statistic by its dotted name, as texts."""
    if pa.types.is_struct(array.type):
        # Flattened: what lies in a null struct is null.
        for member, values in zip(array.type, array.flatten(), strict=True):
            yield from _leaves(values, f"{name}.{member.name}" if name else member.name)
        return
    if pa.types.is_timestamp(array.type):
        # JSON holds milliseconds, a struct may hold what is finer.
        array = pc.floor_temporal(array, unit="millisecond")
    elif pa.types.is_floating(array.type):
        array = pc.add(array, 0.0)  # -0.0 is 0.0
    yield name, array.cast(pa.string())
