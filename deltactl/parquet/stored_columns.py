"""Read how a footer stores its columns, in a form that can be compared with another file.

Source: parquet.thrift (``SchemaElement``, ``LogicalType``, ``ConvertedType``) and LogicalTypes.md
of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from deltactl.parquet.format import FileMetaData, SchemaElement
from deltactl.parquet.thrift import ThriftError, ThriftStruct

Annotation: TypeAlias = tuple[Any, ...]
LeafPath: TypeAlias = tuple[bytes, ...]

_MAX_DEPTH: Final = 64
_REPEATED: Final = 2  # of FieldRepetitionType
_FIXED_LEN_BYTE_ARRAY: Final = 7  # of Type
_INTEGER: Final = 10  # this and the next three: fields of LogicalType
_DECIMAL: Final = 5
_TIMESTAMP: Final = 8
_TIME: Final = 7
_MILLIS, _MICROS = 1, 2
_WIDTHS_OF_TYPES: Final = {1: 32, 2: 64}
# The field number in LogicalType that has the same meaning as a ConvertedType.
_CONVERTED: Final[dict[int, Annotation]] = {
    0: (1,), 1: (2,), 3: (3,), 4: (4,), 6: (6,), 19: (12,), 20: (13,),
    7: (_TIME, True, _MILLIS), 8: (_TIME, True, _MICROS),
    9: (_TIMESTAMP, True, _MILLIS), 10: (_TIMESTAMP, True, _MICROS),
    11: (_INTEGER, 8, False), 12: (_INTEGER, 16, False),
    13: (_INTEGER, 32, False), 14: (_INTEGER, 64, False),
    15: (_INTEGER, 8, True), 16: (_INTEGER, 16, True),
    17: (_INTEGER, 32, True), 18: (_INTEGER, 64, True),
    21: ("interval",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A top-level column. Two files store it in the same way if ``shape`` is equal.

    ``ids`` are the field ids of the column and all columns below it; ``None`` if they are missing.
    ``leaves`` are the paths of its leaves, and ``first_leaf`` is the index of the first leaf.
    ``repeated`` says for each leaf whether a row can have several values. ``elements`` are its
    elements of the schema, as the footer has them.
    """

    name: str
    shape: tuple[Any, ...]
    ids: tuple[int | None, ...]
    first_leaf: int
    leaves: tuple[LeafPath, ...]
    repeated: tuple[bool, ...]
    elements: tuple[ThriftStruct, ...] = field(compare=False, repr=False)


def read_columns(footer: ThriftStruct) -> list[StoredColumn]:
    """Return the top-level columns of a footer, in order.

    Raises:
        ThriftError: the schema is not a valid tree, or a name is not UTF-8.
    """
    stored = footer.members(FileMetaData.SCHEMA)
    elements = iter(stored)
    root = _next(elements)
    columns: list[StoredColumn] = []
    first_leaf, start = 0, 1
    for _ in range(root.integer(SchemaElement.NUM_CHILDREN) or 0):
        ids: list[int | None] = []
        leaves: list[tuple[LeafPath, bool]] = []
        shape = _read_shape(elements, (), ids, leaves)
        try:
            name = shape[0].decode()
        except UnicodeDecodeError as error:
            raise ThriftError("the name of a column is not UTF-8") from error
        paths, repeated = (tuple(parts) for parts in zip(*leaves, strict=True))
        members = tuple(stored[start : start + len(ids)])
        columns.append(StoredColumn(name, shape, tuple(ids), first_leaf, paths, repeated, members))
        first_leaf, start = first_leaf + len(leaves), start + len(ids)
    if next(elements, None) is not None:
        raise ThriftError("the schema has elements that belong to no column")
    return columns


def _next(elements: Iterator[Any]) -> ThriftStruct:
    element = next(elements, None)
    if not isinstance(element, ThriftStruct):
        raise ThriftError("the schema ends in the middle of a column")
    return element


def _read_shape(
    elements: Iterator[Any],
    parent: LeafPath,
    ids: list[int | None],
    leaves: list[tuple[LeafPath, bool]],
    *,
    repeated: bool = False,
) -> tuple[Any, ...]:
    """Return the shape of the next element, with the shapes of the elements below it.

    The path of each leaf is added to ``leaves``, with whether a row can have several values.
    """
    # A hostile schema could otherwise exceed Python's limit of recursion.
    if len(parent) >= _MAX_DEPTH:
        raise ThriftError(f"the schema nests deeper than {_MAX_DEPTH} levels")
    element = _next(elements)
    name = element.get(SchemaElement.NAME)
    if not isinstance(name, bytes):
        raise ThriftError("a column has no name")
    path = (*parent, name)
    ids.append(element.integer(SchemaElement.FIELD_ID))
    kind = element.integer(SchemaElement.TYPE)
    repetition = element.integer(SchemaElement.REPETITION)
    repeated = repeated or repetition == _REPEATED
    children = element.integer(SchemaElement.NUM_CHILDREN) or 0
    if not children:
        leaves.append((path, repeated))
        length = element.integer(SchemaElement.TYPE_LENGTH)
        fixed = length if kind == _FIXED_LEN_BYTE_ARRAY else None
        return (name, repetition, kind, fixed, _annotation(element, kind))
    members = [_read_shape(elements, path, ids, leaves, repeated=repeated) for _ in range(children)]
    return (name, repetition, _annotation(element, None), *members)


def _annotation(element: ThriftStruct, kind: int | None) -> Annotation:
    """Return the logical type. The old and the new form of a type give the same result."""
    logical = element.get(SchemaElement.LOGICAL_TYPE)
    if isinstance(logical, ThriftStruct) and logical.fields:
        # A union has one field.
        number, _, value = logical.fields[0]
        found = (number, *_parameters(number, value))
    else:
        converted = element.integer(SchemaElement.CONVERTED_TYPE)
        if converted == _DECIMAL:
            scale = element.integer(SchemaElement.SCALE) or 0
            found = (_DECIMAL, scale, element.integer(SchemaElement.PRECISION))
        else:
            found = _CONVERTED.get(-1 if converted is None else converted, ())
    # Signed integers of the width of the physical type need no annotation.
    return () if found == (_INTEGER, _WIDTHS_OF_TYPES.get(kind or 0), True) else found


def _parameters(number: int, value: Any) -> Annotation:
    if not isinstance(value, ThriftStruct):
        return ()
    if number == _DECIMAL:
        return (value.integer(1) or 0, value.integer(2))
    if number in (_TIME, _TIMESTAMP):
        unit = value.struct(2).fields
        return (value.get(1), unit[0][0] if unit else None)
    if number == _INTEGER:
        width = value.get(1)
        return (width[0] if isinstance(width, bytes) and width else None, value.get(2))
    return ()
