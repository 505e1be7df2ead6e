"""Compute a digest of rows that does not depend on their order, to verify that rows only moved.

Each live row has a hash of 128 bits over all of its columns, with their names and nulls, and over
its partition values. The digest is the number of rows, and the sum of these hashes modulo 2^128.
The sum counts equal rows; with an exclusive or, two equal rows would give zero. The module
``hashes`` defines the hash of a value. If the type of a column is widened, the digest does not
change.

The sums of single columns prove nothing: they only show which column differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from deltactl.numpy_types import Hashes
from deltactl.parquet.hashes import finish, hash_values, key_of

ALGORITHM: Final = "deltactl-rows-3"
"""The version of the hash functions. Change this number when a hash changes."""

_MODULUS: Final = 1 << 128
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
# The hashes of this number of rows (several arrays of 8 bytes a row) fit the cache of a core.
_CACHED_ROWS: Final = 1 << 13


@dataclass(frozen=True, slots=True)
class RowDigest:
    """The number of rows, the sum of their hashes, and for each column the sum of its hashes."""

    rows: int = 0
    total: int = 0
    columns: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: RowDigest) -> RowDigest:
        """Return the digest of the rows of both digests."""
        names = self.columns.keys() | other.columns.keys()
        columns = {
            name: (self.columns.get(name, 0) + other.columns.get(name, 0)) % (1 << 64)
            for name in sorted(names)
        }
        return RowDigest(self.rows + other.rows, (self.total + other.total) % _MODULUS, columns)

    @property
    def hex(self) -> str:
        """Return the sum of the row hashes as 32 hexadecimal digits."""
        return f"{self.total:032x}"

    def find_difference(self, other: RowDigest) -> str | None:
        """Return how the rows of another digest differ; ``None`` if the rows are the same."""
        if self.rows != other.rows:
            return f"{self.rows} rows became {other.rows}"
        if self.total == other.total:
            return None
        names = self.columns.keys() | other.columns.keys()
        differ = [n for n in sorted(names) if self.columns.get(n) != other.columns.get(n)]
        if differ:
            return f"values of {', '.join(map(repr, differ))} differ"
        return "values are in other rows than before"


class RowDigester:
    """Compute the digest of batches of rows of one schema."""

    def __init__(self, schema: pa.Schema) -> None:
        """Take the schema of the rows; its names are the names in the files."""
        self._keys = [key_of(name) for name in schema.names]
        self._names = schema.names

    def digest(
        self, batch: pa.RecordBatch, partition_values: Mapping[str, pa.Scalar] | None = None
    ) -> RowDigest:
        """Return the digest of the rows of a batch, which have the same partition values."""
        # The numbers of columns are added to both halves of the hash of each row.
        numbers = [(int(seed), int(factor)) for seed, factor in self._keys]
        for name, value in (partition_values or {}).items():
            seed, factor = key_of(name)
            hashed = hash_values(pa.repeat(value, 1), factor)
            numbers.append((int(seed) + int(hashed[0]), int(factor)))
        first = sum(number for number, _ in numbers) % (1 << 64)
        second = sum(number * factor for number, factor in numbers) % (1 << 64)
        total = RowDigest()
        for start in range(0, batch.num_rows, _CACHED_ROWS):
            total += self._digest_some(batch.slice(start, _CACHED_ROWS), first, second)
        return total

    def _digest_some(self, batch: pa.RecordBatch, low: int, high: int) -> RowDigest:
        first = np.full(batch.num_rows, low, np.uint64)
        second = np.full(batch.num_rows, high, np.uint64)
        columns = {}
        for name, (_, factor), array in zip(self._names, self._keys, batch.columns, strict=True):
            hashes = hash_values(array, factor)
            # Modulo 2^64, like all sums of NumPy here.
            columns[name] = int(np.add.reduce(hashes))
            first += hashes
            hashes *= factor
            second += hashes
        first = finish(first)
        second += first
        return RowDigest(batch.num_rows, _sum(first, finish(second)), columns)


def _sum(high: Hashes, low: Hashes) -> int:
    """Return the sum of numbers of 128 bits modulo 2^128."""
    # In halves of 32 bits, because a sum of NumPy would lose what carries over to the high half.
    carried = (int((low >> np.uint64(32)).sum()) << 32) + int((low & _LOW_HALF).sum())
    return ((int(np.add.reduce(high)) << 64) + carried) % _MODULUS
