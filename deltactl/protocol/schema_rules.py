"""Find problems of the schema in a metaData action. No I/O.

``check`` reports them, and ``features.ensure_supported`` refuses a table that has them. Source:
PROTOCOL.md, "Schema Serialization Format", "Partition Value Serialization", "Column Mapping".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from deltactl.protocol.actions import Metadata
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import (
    PHYSICAL_NAME_KEY,
    ArrayType,
    Field,
    MapType,
    PrimitiveType,
    StructType,
    find_lacking_metadata,
    is_supported,
    is_void,
    leaf_types,
    render_type,
    walk_fields,
    walk_types,
)

MAPPING_MODES: Final = frozenset({"none", "name", "id"})

UNFIT_NAME: Final = re.compile(r"[ ,;{}()\n\t=]")
"""Finds the characters that names of columns must not have without column mapping."""

# Types outside the protocol that Spark writes or reads.
_SPARK_TYPES: Final = re.compile(r"interval .*|time\(\d\)|(?:var)?char\(\d+\)|null|timestamp_ltz")


def schema_problems(metadata: Metadata, *, may_have_new_types: bool) -> list[str]:
    """Return all problems of a schema with columns; the ``ambiguity_problems`` come first.

    ``may_have_new_types``: whether a feature can have added types that deltactl does not know.

    Raises:
        CorruptLogError: the schema cannot be parsed.
    """
    problems = [*ambiguity_problems(metadata), *_column_problems(metadata)]
    problems += [
        f"the field {name!r} has no metadata, which only Delta on Spark can read"
        for name in find_lacking_metadata(metadata.schema_string or "{}")
    ]
    if not may_have_new_types:
        problems += _type_problems(metadata.schema)
    if metadata.column_mapping_mode != "none":
        problems += _counter_problems(metadata)
    return problems


def ambiguity_problems(metadata: Metadata) -> list[str]:
    """Return the problems because of which a reader may find no values, or another column's.

    Raises:
        CorruptLogError: the schema cannot be parsed.
    """
    if (problem := describe_mapping_mode(metadata)) is not None:
        return [problem]
    problems = []
    if metadata.missing_partition_columns and metadata.schema.fields:
        lack = explain_missing_columns(metadata)
        problems.append(f"{lack}: do not rewrite files before a commit completes the schema")
    if metadata.column_mapping_mode != "none":
        problems += _mapping_problems(metadata.schema)
    return problems


def describe_mapping_mode(metadata: Metadata) -> str | None:
    """Return why the column mapping mode is not valid, or ``None``."""
    if metadata.column_mapping_mode in MAPPING_MODES:
        return None
    text = metadata.configuration["delta.columnMapping.mode"]
    return f"delta.columnMapping.mode is {text!r}, which deltactl does not know"


def void_problems(schema: StructType) -> Iterator[str]:
    """Yield why no file can be written: Parquet has no void in lists and maps, and no empty struct.

    ``schema`` has the columns that files store. Other void columns are left out of files.
    """
    if schema.fields and all(is_void(field.type) for field in schema.fields):
        yield "void columns alone"
    for field in schema.fields:
        for kind in walk_types(field.type):
            match kind:
                case ArrayType(element) if is_void(element):
                    yield f"void in an array of column {field.name!r}"
                case MapType(key, value) if is_void(key) or is_void(value):
                    yield f"void in a map of column {field.name!r}"
                case StructType(fields) if fields and all(is_void(f.type) for f in fields):
                    yield f"a struct of void fields alone in column {field.name!r}"


def explain_missing_columns(metadata: Metadata) -> str | None:
    """Return the columns that a schema lacks, or ``None``.

    Raises:
        CorruptLogError: the schema cannot be parsed.
    """
    if missing := metadata.missing_partition_columns:
        plural = "s" if len(missing) > 1 else ""
        return f"its schema lacks the partition column{plural} {', '.join(map(repr, missing))}"
    return None if metadata.schema.fields else "its schema has no columns"


def _column_problems(metadata: Metadata) -> Iterator[str]:
    """Yield columns that differ only in case, and columns that cannot be partition columns."""
    for struct in _structs(metadata.schema):
        if not struct.fields and struct is not metadata.schema:
            yield "a struct has no fields"
        names = Counter(field.name.lower() for field in struct.fields)
        for name, times in sorted(names.items()):
            if times > 1:
                yield (
                    f"{times} fields of a struct have the same name {name!r}, if case is ignored"
                )
    columns = metadata.known_partition_fields
    for name, times in Counter(field.name for field in columns).items():
        if times > 1:
            yield f"the partition column {name!r} is listed {times} times"
    for field in dict.fromkeys(columns):
        if not can_partition(field):
            kind = render_type(field.type)
            yield f"the partition column {field.name!r} has type {kind}, which is not allowed"


def can_partition(column: Field) -> bool:
    """Return whether ``partitionValues`` can contain values of the type of the column."""
    return isinstance(column.type, PrimitiveType) and column.type.name != "variant"


def _type_problems(schema: StructType) -> Iterator[str]:
    """Yield types that the protocol does not define."""
    for name in sorted({leaf.name for leaf in leaf_types(schema)}):
        if not (is_supported(PrimitiveType(name)) or _SPARK_TYPES.fullmatch(name)):
            yield f"a column has type {name!r}, which Delta does not define"


def _mapping_problems(schema: StructType) -> Iterator[str]:
    """Yield problems of the column mapping that make columns of files ambiguous."""
    ids: Counter[int] = Counter()
    for field in walk_fields(schema):
        if PHYSICAL_NAME_KEY not in field.metadata:
            yield f"column {field.name!r} has no physical name, which column mapping needs"
        if (number := field.field_id) is None:
            yield f"column {field.name!r} has no id, which column mapping needs"
        else:
            ids[number] += 1
    for number, times in sorted(ids.items()):
        if times > 1:
            yield f"the column id {number} is used {times} times"
    for struct in _structs(schema):
        names = Counter(field.physical_name for field in struct.fields)
        for name, times in sorted(names.items()):
            if times > 1:
                yield f"the physical name {name!r} is used {times} times"


def _counter_problems(metadata: Metadata) -> Iterator[str]:
    """Yield a problem if the next column would get an id that is in use."""
    fields = walk_fields(metadata.schema)
    ids = [number for field in fields if (number := field.field_id) is not None]
    highest = max(ids, default=0)
    counter = TableProperties(metadata.configuration).integer(
        "delta.columnMapping.maxColumnId", highest
    )
    if counter < highest:
        yield f"delta.columnMapping.maxColumnId is {counter}, below the column id {highest}"


def _structs(schema: StructType) -> Iterator[StructType]:
    return (kind for kind in walk_types(schema) if isinstance(kind, StructType))
