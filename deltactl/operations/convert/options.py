"""Options of ``convert``: among them names and types of partition columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from deltactl.errors import UsageError
from deltactl.option_fields import Pairs, ensure_declared, execution_option, selection_option
from deltactl.option_names import option
from deltactl.protocol.schema import MAX_DECIMAL_DIGITS, PrimitiveType

SchemaMode: TypeAlias = Literal["strict", "widen"]

_TYPES: Final[Mapping[str, str]] = {
    **{name: name for name in ("string", "boolean", "float", "double", "date")},
    **{name: name for name in ("byte", "short", "integer", "long")},
    **{name: name for name in ("timestamp", "timestamp_ntz", "binary")},
    # Of Spark's SQL.
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "bool": "boolean",
    "varchar": "string",
    "char": "string",
    "timestamp_ltz": "timestamp",
    # Of Arrow, which delta-rs takes.
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "utf8": "string",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "date32": "date",
    "date32[day]": "date",
    "timestamp[us]": "timestamp_ntz",
    "timestamp[us,tz=utc]": "timestamp",
}
_LENGTH: Final = re.compile(r"(?<=char)\([0-9]+\)$")
_DECIMAL: Final = re.compile(
    r"(?:decimal|decimal128|dec|numeric)\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)"
)
_COLUMN: Final = re.compile(
    r"(?:`((?:[^`]|``)+)`|([^\s,`]+))(?:\s+(\w+(?:\s*\([^)]*\)|\s*\[[^]]*\])?))?"
)


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Parsed options of ``convert``."""

    partition_by: Annotated[tuple[PartitionColumn, ...], to_partition_columns] | None = (
        selection_option(
            None,
            'Partition columns in order, with types: "date date, country string"',
            metavar="COLUMNS",
            default="the columns in the directory names; deltactl guesses their types from the "
            "values",
            is_basic=True,
        )
    )
    statistics: bool = execution_option(True, "Do not write column statistics to the log")
    schema_mode: SchemaMode = execution_option(
        "strict",
        "What to do if a column has different types in different files. strict: fail. widen: use a "
        "common type",
        is_settable=True,
        is_basic=True,
    )
    column_mapping: bool = execution_option(
        False,
        "Enable column mapping by name. Then columns can have any name, and can be renamed and "
        "dropped",
    )
    properties: Pairs = selection_option(
        {},
        "Set this property of the table; may be repeated",
        flag="property",
        metavar="PROPERTY=VALUE",
        is_repeated=True,
    )
    name: str | None = selection_option(None, "Name of the table", metavar="TEXT", is_basic=True)
    description: str | None = selection_option(
        None, "Description of the table", metavar="TEXT", is_basic=True
    )

    def __post_init__(self) -> None:
        ensure_declared(self)


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A requested partition column; ``type`` ``None``: to be inferred."""

    name: str
    type: PrimitiveType | None = None


def parse_partition_by(text: str) -> tuple[PartitionColumn, ...]:
    """Parse columns such as ``date date, country string``; types may be omitted, to be inferred.

    Raises:
        UsageError: it cannot be parsed; the message has the position.
    """
    columns: list[PartitionColumn] = []
    position = 0
    while rest := text[position:].strip():
        match = _COLUMN.match(rest)
        if match is None or (match.end() < len(rest) and rest[match.end() :].lstrip()[:1] != ","):
            raise UsageError(
                f"it cannot be parsed at {rest[:40]!r}",
                hint=f"Write names and types, such as {option('partition_by')} "
                '"date date, country string".',
            )
        name = match[1].replace("``", "`") if match[1] else match[2]
        if name.lower() in (column.name.lower() for column in columns):
            raise UsageError(f"it names {name!r} twice")
        columns.append(PartitionColumn(name, _parse_type(match[3]) if match[3] else None))
        comma = rest.find(",", match.end())
        position = len(text) if comma < 0 else text.index(rest) + comma + 1
    return tuple(columns)


def to_partition_columns(columns: str | Sequence[PartitionColumn]) -> tuple[PartitionColumn, ...]:
    """Return partition columns, or those of a text for ``parse_partition_by``."""
    return parse_partition_by(columns) if isinstance(columns, str) else tuple(columns)


def _parse_type(text: str) -> PrimitiveType:
    folded = _LENGTH.sub("", "".join(text.lower().split()))
    if (known := _TYPES.get(folded)) is not None:
        return PrimitiveType(known)
    if folded in ("decimal", "dec", "numeric"):
        return PrimitiveType("decimal(10,0)")
    if match := _DECIMAL.fullmatch(folded):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= MAX_DECIMAL_DIGITS and scale <= precision:
            return PrimitiveType(f"decimal({precision},{scale})")
    raise UsageError(
        f"{text!r} is not a type that partition columns can have",
        hint="Use byte, short, integer, long, float, double, decimal(p,s), string, boolean, "
        "date, timestamp, timestamp_ntz or binary.",
    )
