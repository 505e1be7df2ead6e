"""Find columns with an existence default that a data file lacks.

For the rows of such a file, Spark returns the value of ``EXISTS_DEFAULT``, and other readers return
null. PROTOCOL.md does not mention the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from deltactl.parquet.projection import FileFields, Matcher
from deltactl.protocol.schema import ArrayType, DeltaType, MapType, StructType, walk_fields

_DEFAULT: Final = "EXISTS_DEFAULT"


def has_defaults(struct: StructType) -> bool:
    """Return whether a column of a schema, at any depth, has an existence default."""
    return any(_DEFAULT in field.metadata for field in walk_fields(struct))


def find_lacking(struct: StructType, schema: pa.Schema, matcher: Matcher) -> str | None:
    """Return the name of a column with an existence default that a file lacks, or ``None``.

    Raises:
        DataFileError: a column is ambiguous.
    """
    return next(_lacking(struct, FileFields(schema), matcher), None)


def _lacking(struct: StructType, present: FileFields, matcher: Matcher) -> Iterator[str]:
    for field in struct.fields:
        index = matcher.find(field, present)
        if index is not None:
            yield from _lacking_inside(field.type, present.type_of(index), matcher)
        # The default can be that of a field inside of a struct that the file lacks.
        elif has_defaults(StructType((field,))):
            yield field.name


def _lacking_inside(kind: DeltaType, stored: pa.DataType, matcher: Matcher) -> Iterator[str]:
    match kind:
        case StructType() if pa.types.is_struct(stored):
            yield from _lacking(kind, FileFields(stored), matcher)
        case ArrayType(element) if hasattr(stored, "value_type"):
            yield from _lacking_inside(element, stored.value_type, matcher)
        case MapType(key, value) if pa.types.is_map(stored):
            yield from _lacking_inside(key, stored.key_type, matcher)
            yield from _lacking_inside(value, stored.item_type, matcher)
