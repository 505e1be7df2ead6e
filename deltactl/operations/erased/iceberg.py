"""Search manifests of Iceberg: partition values, paths, and bounds of columns. Needs pyiceberg.

Source: the table specification of Apache Iceberg, "Manifests" and "Appendix D: Single-value
serialization".
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.avro.file import AvroFile
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from deltactl.operations.erased.sought import TRUNCATED, Sought, count_true
from deltactl.operations.iceberg_metadata import StoreFile

_BOUNDS = frozenset({"lower_bounds", "upper_bounds"})
_SUMMARY = frozenset({"lower_bound", "upper_bound"})


def manifest_has_value(name: str, data: bytes, sought: Sought, *, is_users: bool) -> bool:
    """Return whether a manifest, a list of manifests, or a file of rows of a user has a value.

    Raises:
        Exception: it cannot be read; pyiceberg raises errors of several libraries.
    """
    encoded = {form for value in sought.values for form in _encode(value)}
    plain = {_as_in_partition(value) for value in sought.values}
    texts: dict[bool, list[str]] = {True: [], False: []}
    with AvroFile[Any](StoreFile(name, data)) as records:
        for record in records:
            for path, value in _leaves(record, records.schema.as_struct(), ()):
                # The rows of a user have columns as partitions have.
                is_partition = "partition" in path or (is_users and sought.has_name(path[-1]))
                if isinstance(value, bytes) and not is_partition:
                    if _is_sought(path, sought) and _is_bound(value, encoded):
                        return True
                elif is_partition and value in plain:
                    return True
                elif isinstance(value, str) or is_partition:
                    texts[is_partition].append(str(value))
    masks = (sought.in_texts(pa.array(it, pa.string()), numbers) for numbers, it in texts.items())
    return any(map(count_true, masks))


def _leaves(value: Any, kind: IcebergType, path: tuple[Any, ...]) -> Iterator[tuple[Any, Any]]:
    match kind:
        case _ if value is None:
            return
        case StructType():
            for place, field in enumerate(kind.fields):
                yield from _leaves(value[place], field.field_type, (*path, field.name))
        case ListType():
            for member in value:
                yield from _leaves(member, kind.element_type, path)
        case MapType():
            for key, member in value.items():
                yield from _leaves(member, kind.value_type, (*path, key))
        case _:
            yield path, value


def _is_sought(path: tuple[Any, ...], sought: Sought) -> bool:
    """Return whether bytes are a bound of a column of the predicate, or of any partition."""
    if path[-1] in _SUMMARY:
        return True
    return not _BOUNDS.isdisjoint(path[-2:-1]) and (
        not sought.field_ids or path[-1] in sought.field_ids
    )


def _is_bound(value: bytes, encoded: Collection[bytes]) -> bool:
    """Return whether a bound is a value, or the first part of one."""
    if value in encoded:
        return True
    # The last character of a truncated upper bound is greater than that of the value.
    ends = (end for end in (value, value[:-1]) if len(end) >= TRUNCATED - 1)
    return any(it.startswith(end) for end in ends for it in encoded)


def _as_in_partition(value: pa.Scalar) -> Any:
    """Return a value as the reader of Avro returns it: a time is a number."""
    is_time = pa.types.is_temporal(value.type)
    return value.cast(f"int{value.type.bit_width}").as_py() if is_time else value.as_py()


def _encode(value: pa.Scalar) -> Iterator[bytes]:
    """Yield the forms that a value has as a bound; integers may have been promoted."""
    kind, found = value.type, value.as_py()
    if isinstance(found, str | bytes):
        yield found if isinstance(found, bytes) else found.encode()
    elif isinstance(found, Decimal):
        unscaled = int(found.scaleb(kind.scale))
        yield unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
    elif isinstance(found, float):
        yield from (struct.pack("<f", found), struct.pack("<d", found))
    elif not isinstance(found, bool):
        number = pa.array([value]).view(f"int{kind.bit_width}")[0].as_py()
        yield struct.pack("<q", number)
        if kind.bit_width <= 32 or -(1 << 31) <= number < 1 << 31:
            yield struct.pack("<i", number)
