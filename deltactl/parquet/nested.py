"""Walk over nested Arrow types and arrays, in the order of Parquet columns (depth first).

Paths have the names that Arrow's writer gives to Parquet groups: ``list.element`` below a list,
``key_value.key`` and ``key_value.value`` below a map. An extension type is handled as its storage
type.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from deltactl.protocol.stats import FieldPath


class Node(NamedTuple):
    """A type at a path; ``repeated`` is true if it is below a list or map."""

    path: FieldPath
    type: pa.DataType
    repeated: bool


def walk_types(type_: pa.DataType, path: FieldPath = (), repeated: bool = False) -> Iterator[Node]:
    """Yield a type and all types below it. Each type comes before its children."""
    if isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    yield Node(path, type_, repeated)
    if pa.types.is_struct(type_):
        for member in type_:
            yield from walk_types(member.type, (*path, member.name), repeated)
    elif pa.types.is_map(type_):
        yield from walk_types(type_.key_type, (*path, "key_value", "key"), True)
        yield from walk_types(type_.item_type, (*path, "key_value", "value"), True)
    elif pa.types.is_nested(type_):
        yield from walk_types(type_.value_type, (*path, "list", "element"), True)


def walk_leaves(type_: pa.DataType, path: FieldPath = ()) -> Iterator[Node]:
    """Yield the types that are stored as Parquet columns."""
    return (node for node in walk_types(type_, path) if not pa.types.is_nested(node.type))


def null_array(rows: int, type_: pa.DataType) -> pa.Array:
    """Return nulls; below a null struct, required members have values, as Arrow's writer demands.

    The required members of a file are those of variants.
    """
    return pa.array([None] * rows, type_) if type_.num_fields else pa.nulls(rows, type_)


def walk_arrays(array: pa.Array, path: FieldPath = ()) -> Iterator[tuple[FieldPath, pa.Array]]:
    """Yield path and values of each leaf.

    Values below a null struct are null. Values below a null list are omitted.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_struct(kind):
        # Unlike `field`, `flatten` makes members null where the struct is null.
        for member, values in zip(kind, array.flatten(), strict=True):
            yield from walk_arrays(values, (*path, member.name))
    elif pa.types.is_map(kind):
        start, end = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
        # `values` has the entries of all rows, also of those outside of a slice.
        entries = array.values.slice(start, end - start)
        for name, values in zip(("key", "value"), entries.flatten(), strict=True):
            yield from walk_arrays(values, (*path, "key_value", name))
    elif pa.types.is_nested(kind):
        yield from walk_arrays(array.flatten(), (*path, "list", "element"))
    else:
        yield path, array
