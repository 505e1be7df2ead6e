"""Compute a digest of rows that does not depend on their order, to verify that rows only moved.

Each live row has a hash of 128 bits over all of its columns: name, null or value, partition values
included. The digest is the sum of these hashes modulo 2^128, with the number of rows. With a sum,
equal rows are counted; with an exclusive or, two equal rows would cancel each other. Values have
the same hash in all integer types, in all float types and in all units of time, so that a widened
column does not change the digest; all NaNs are one value, and 0.0 and -0.0 are two.

Numbers up to 64 bits have different hashes; two longer values have the same hash with a probability
of 2^-64. The sums of single columns are no proof: they only show the column that differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ALGORITHM: Final = "deltactl-rows-1"
"""Version of the definition of the hashes; change it when the hashes change."""

Hashes = npt.NDArray[np.uint64]

_MODULUS: Final = 1 << 128
_NULL: Final = np.uint64(0x9E3779B97F4A7C15)
_LENGTH: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_BASE: Final = 0x5851F42D4C957F2D
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
# Number of powers in a table: the table and the products fit into the cache of a core.
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class RowDigest:
    """The number of rows, the sum of their hashes, and a sum for each column."""

    rows: int = 0
    total: int = 0
    columns: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: RowDigest) -> RowDigest:
        """Return the digest of the rows of both."""
        names = self.columns.keys() | other.columns.keys()
        columns = {
            name: (self.columns.get(name, 0) + other.columns.get(name, 0)) % (1 << 64)
            for name in sorted(names)
        }
        return RowDigest(self.rows + other.rows, (self.total + other.total) % _MODULUS, columns)

    @property
    def hex(self) -> str:
        """Return the sum as 32 hexadecimal digits."""
        return f"{self.total:032x}"

    def find_difference(self, other: RowDigest) -> str | None:
        """Return how the rows of another digest differ; ``None`` if they are the same."""
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
        """Set the columns of the rows; names are physical names."""
        self._seeds = [_seeds_of(name) for name in schema.names]
        self._names = schema.names

    def digest(
        self, batch: pa.RecordBatch, partition_values: Mapping[str, pa.Scalar] | None = None
    ) -> RowDigest:
        """Return the digest of the rows of a batch, all with the same partition values."""
        if not batch.num_rows:
            return RowDigest()
        first = np.zeros(batch.num_rows, np.uint64)
        second = np.zeros(batch.num_rows, np.uint64)
        columns = {}
        for name, (seed, factor), array in zip(
            self._names, self._seeds, batch.columns, strict=True
        ):
            hashes = _mix(hash_values(array) + seed)
            columns[name] = int(np.add.reduce(hashes))
            first += hashes
            second += hashes * factor
        for name, value in (partition_values or {}).items():
            seed, factor = _seeds_of(name)
            constant = _mix(hash_values(pa.array([value.as_py()], value.type)) + seed)
            first += constant
            second += constant * factor
        first = _mix(first)
        second = _mix(second + first)
        return RowDigest(batch.num_rows, _sum(first, second), columns)


def _sum(high: Hashes, low: Hashes) -> int:
    """Return the sum of numbers of 128 bits modulo 2^128."""
    carried = (int((low >> np.uint64(32)).sum()) << 32) + int((low & _LOW_HALF).sum())
    return ((int(np.add.reduce(high)) << 64) + carried) % _MODULUS


def _seeds_of(name: str) -> tuple[np.uint64, np.uint64]:
    """Return an addend and an odd factor that identify a column."""
    seed, factor = np.frombuffer(hashlib.blake2b(name.encode(), digest_size=16).digest(), "<u8")
    return np.uint64(seed), np.uint64(factor | np.uint64(1))


def _mix(numbers: Hashes) -> Hashes:
    """Return numbers in which each bit depends on every bit of the input; the input is changed."""
    numbers ^= numbers >> np.uint64(30)
    numbers *= _FIRST
    numbers ^= numbers >> np.uint64(27)
    numbers *= _SECOND
    numbers ^= numbers >> np.uint64(31)
    return numbers


def hash_values(array: pa.Array) -> Hashes:
    """Return a hash of each value, at any depth; a new array.

    Raises:
        TypeError: a type that no column of a Delta table has.
    """
    if isinstance(array, pa.ExtensionArray):
        return hash_values(array.storage)
    if pa.types.is_null(array.type) or not len(array):
        return np.full(len(array), _NULL)
    if isinstance(array, pa.DictionaryArray):
        return hash_values(array.dictionary_decode())
    hashes = _hash_present(array)
    if array.null_count:
        hashes[np.asarray(array.is_null())] = _NULL
    return hashes


def _hash_present(array: pa.Array) -> Hashes:
    """Return the hashes of values; hashes of nulls are undefined."""
    kind = array.type
    if pa.types.is_struct(kind):
        hashes = np.full(len(array), _LENGTH)
        for index in range(kind.num_fields):
            seed, factor = _seeds_of(kind.field(index).name)
            hashes += _mix(hash_values(array.field(index)) + seed) * factor
        return _mix(hashes)
    if pa.types.is_map(kind):
        entries, offsets = _members(array)
        keys, items = hash_values(entries.field(0)), hash_values(entries.field(1))
        return _hash_sequences(_mix(keys * _LENGTH + items), offsets)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        members, offsets = _members(array)
        return _hash_sequences(_mix(hash_values(members)), offsets)
    if pa.types.is_decimal(kind):
        return _hash_decimals(array)
    if pa.types.is_floating(kind):
        doubles = np.asarray(pc.fill_null(array, 0.0)).astype(np.float64)
        doubles[np.isnan(doubles)] = np.nan  # readers do not tell NaNs apart
        return _mix(doubles.view(np.uint64))
    if pa.types.is_timestamp(kind):
        return _hash_times(array)
    if pa.types.is_boolean(kind):
        return _mix(np.asarray(pc.fill_null(array, False)).astype(np.uint64))
    if _is_bytes(kind):
        return _hash_bytes(array)
    if kind.num_buffers == 2 and kind.bit_width in INTEGERS:
        plain = array.view(INTEGERS[kind.bit_width])
        return _mix(np.asarray(pc.fill_null(plain, 0)).astype(np.int64).view(np.uint64))
    raise TypeError(f"rows of type {kind} have no digest")


INTEGERS: Final = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


def _is_bytes(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_view = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    return bool(is_text or is_binary or is_view or pa.types.is_fixed_size_binary(kind))


def _members(array: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the elements of lists or maps, and the offsets of each list in them."""
    offsets = np.asarray(array.offsets).astype(np.int64)
    first = int(offsets[0])
    return array.values.slice(first, int(offsets[-1]) - first), offsets - first


def _hash_decimals(array: pa.Array) -> Hashes:
    if not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(38, array.type.scale))
    words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset :][: 2 * len(array)]
    return _mix(_mix(words[1::2] * _LENGTH) + words[0::2])


def _hash_times(array: pa.Array) -> Hashes:
    """Return the same hash for the same time in any unit."""
    counts = np.asarray(pc.fill_null(array.view(pa.int64()), 0)).astype(np.int64)
    if array.type.unit == "ns":
        counts, rest = np.divmod(counts, 1000)
        return _mix(counts.view(np.uint64)) + rest.astype(np.uint64) * _LENGTH
    counts = counts * {"s": 1_000_000, "ms": 1000, "us": 1}[array.type.unit]
    return _mix(counts.view(np.uint64))


def _hash_bytes(array: pa.Array) -> Hashes:
    offsets, data = view_bytes(array)
    return _hash_sequences(data, offsets)


def view_bytes(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the offsets of strings or binary values, and their bytes."""
    if not (pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)):
        array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    starts = np.frombuffer(offsets, np.int64)[array.offset :][: len(array) + 1]
    return starts, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def _hash_sequences(elements: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> Hashes:
    """Return the hash of each sequence: a polynomial of its elements, and its length.

    ``elements`` are bytes or hashes. The polynomials of many sequences come from one running sum;
    that of a sequence is divided by the power at its start, which is odd and so has an inverse.
    """
    starts = offsets.astype(np.int64)
    lengths = np.diff(starts)
    hashes = np.zeros(len(lengths), np.uint64)
    powers, inverses = _tables()
    row = 0
    while row < len(lengths):
        start = int(starts[row])
        end = int(np.searchsorted(starts, start + _BLOCK, "right")) - 1
        if end <= row:
            hashes[row] = _hash_long(elements[start : int(starts[row + 1])])
            row += 1
            continue
        block = elements[start : int(starts[end])]
        sums = np.zeros(len(block) + 1, np.uint64)
        np.cumsum(np.multiply(block, powers[: len(block)], dtype=np.uint64), out=sums[1:])
        places = starts[row : end + 1] - start
        hashes[row:end] = (sums[places[1:]] - sums[places[:-1]]) * inverses[places[:-1]]
        row = end
    return _mix(hashes + lengths.astype(np.uint64) * _LENGTH)


def _hash_long(elements: npt.NDArray[Any]) -> np.uint64:
    """Return the polynomial of a sequence longer than a block."""
    powers, _ = _tables()
    total = 0
    for start in range(0, len(elements), _BLOCK):
        block = elements[start : start + _BLOCK]
        products = np.multiply(block, powers[: len(block)], dtype=np.uint64)
        total += int(np.add.reduce(products)) * pow(_BASE, start, 1 << 64)
    return np.uint64(total % (1 << 64))


_POWER_TABLES: list[tuple[Hashes, Hashes]] = []


def _tables() -> tuple[Hashes, Hashes]:
    """Return the powers of the base and of its inverse modulo 2^64, from 0 on."""
    if not _POWER_TABLES:
        inverse = pow(_BASE, -1, 1 << 64)
        _POWER_TABLES.append((_powers(_BASE), _powers(inverse)))
    return _POWER_TABLES[0]


def _powers(base: int) -> Hashes:
    factors = np.full(_BLOCK + 1, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
