"""Choose the leaf columns of a table that get statistics.

Source: PROTOCOL.md, "Per-file Statistics"; the table properties ``delta.dataSkippingStatsColumns``
and ``delta.dataSkippingNumIndexedCols``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from deltactl.errors import UsageError, Warn, ignore_warning
from deltactl.protocol.actions import Metadata, Protocol
from deltactl.protocol.column_names import (
    find_column,
    follow_path,
    format_column,
    list_columns,
    parse_column_list,
)
from deltactl.protocol.features import DELETION_VECTORS, has_feature
from deltactl.protocol.properties import DEFAULT_STRING_PREFIX, TableProperties
from deltactl.protocol.schema import DeltaType, Field, PrimitiveType, StructType
from deltactl.protocol.stats import FieldPath, LeafStats
from deltactl.suggest import with_suggestion

INDEXED_COLUMNS_KEY: Final = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS_KEY: Final = "delta.dataSkippingStatsColumns"
"""If it is set, it replaces ``INDEXED_COLUMNS_KEY``."""

_KINDS = {
    "byte": "integer",
    "short": "integer",
    "integer": "integer",
    "long": "integer",
    "float": "float",
    "double": "float",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "string": "string",
    "boolean": "boolean",
    "variant": "variant",
    "void": "void",
}
_UNBOUNDED = frozenset({"variant", "nested", "void", "other"})


@dataclass(frozen=True, slots=True)
class StatsLeaf:
    """A column or struct member that gets statistics and is not a struct itself.

    ``kind`` is the format of its bounds: integer, float, decimal, date, timestamp, timestamp_ntz,
    string or boolean. The kinds variant, nested (arrays and maps), void and other get null counts
    only.

    Delta on Spark writes no bounds of booleans, but delta-rs does. So bounds of booleans are
    written: if a file had bounds only for its other columns, a filter on the boolean column would
    wrongly return no rows in datasets of delta-rs.
    """

    path: tuple[str, ...]
    kind: str

    @property
    def has_bounds(self) -> bool:
        """Return whether minimum and maximum are written."""
        return self.kind not in _UNBOUNDED


@dataclass(frozen=True, slots=True)
class StatsColumns:
    """The leaves of a table that get statistics, by physical path and in the schema's order.

    ``tight_bounds`` says whether to write ``tightBounds``, which tables with deletion vectors
    require. ``known``: null counts, and bounds of variants as texts, which are written as they are.
    """

    leaves: tuple[StatsLeaf, ...] = ()
    string_prefix: int = DEFAULT_STRING_PREFIX
    tight_bounds: bool = False
    known: Mapping[FieldPath, LeafStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Leaf:
    logical: tuple[str, ...]
    physical: tuple[str, ...]
    kind: str


def choose_stats_columns(
    metadata: Metadata,
    protocol: Protocol,
    *,
    clustering: Sequence[tuple[str, ...]] = (),
    warn: Warn = ignore_warning,
) -> StatsColumns:
    """Return the leaves that the table properties select.

    Args:
        metadata: columns and properties of the table.
        protocol: shows whether the table supports deletion vectors.
        clustering: physical paths of clustering columns, which always have statistics.
        warn: receives properties that are ignored.
    """
    properties = TableProperties(metadata.configuration, warn)
    if (unknown := find_unknown_names(metadata)) is not None:
        warn(f"{unknown}. Correct it with `deltactl alter TABLE --set KEY=VALUE`")
    leaves = list(_walk(metadata.data_schema, (), ()))
    is_wanted = _property_filter(properties, leaves)
    always = {tuple(path) for path in clustering}
    return StatsColumns(
        leaves=tuple(
            StatsLeaf(leaf.physical, leaf.kind)
            for leaf in leaves
            if leaf.physical in always or is_wanted(leaf)
        ),
        string_prefix=properties.string_prefix_length,
        tight_bounds=has_feature(protocol, DELETION_VECTORS),
    )


def ensure_stats_columns(schema: StructType, value: str) -> None:
    """Refuse columns of statistics that Delta on Spark refuses; members may have any type.

    ``schema`` is without partition columns.

    Raises:
        UsageError: a column is missing, has another type, or is given twice.
    """
    leaves: list[tuple[str, ...]] = []
    for text, fields in _find_named(schema, value):
        if fields is None:
            raise _explain_missing(schema, text)
        last = fields[-1]
        if len(fields) == 1 and not _may_be_named(last.type):
            raise UsageError(
                f"{STATS_COLUMNS_KEY}: Delta on Spark allows no column of the type of {text!r}",
                hint="Omit columns of the types boolean, binary, array and map.",
            )
        path = tuple(field.name for field in fields)
        within = last.type if isinstance(last.type, StructType) else None
        leaves += [path] if within is None else [leaf.logical for leaf in _walk(within, path, ())]
    twice = sorted(format_column(path) for path, times in Counter(leaves).items() if times > 1)
    if twice:
        raise UsageError(f"{STATS_COLUMNS_KEY}: {twice[0]} is given twice", hint="Give each once.")


def find_unknown_names(metadata: Metadata) -> str | None:
    """Return which name in ``STATS_COLUMNS_KEY`` is no column, and what follows, or ``None``."""
    value = TableProperties(metadata.configuration).text(STATS_COLUMNS_KEY)
    named = () if value is None else _find_named(metadata.data_schema, value)
    text = next((text for text, fields in named if fields is None), None)
    if text is None:
        return None
    return (
        f"the table property {STATS_COLUMNS_KEY} has {text!r}, which is no data column: new files "
        "get no statistics for it"
    )


def _find_named(schema: StructType, value: str) -> Iterator[tuple[str, list[Field] | None]]:
    """Yield each name in a value of ``STATS_COLUMNS_KEY``, and the fields along its path."""
    for text in list_columns(value):
        paths = parse_column_list(text)
        yield text, follow_path(schema, paths[0]) if paths else None


def _explain_missing(schema: StructType, text: str) -> UsageError:
    message = f"{STATS_COLUMNS_KEY}: there is no data column {text!r}"
    meant = find_column(schema, text)
    if meant is None:
        return UsageError(with_suggestion(message, text, [f.name for f in schema.fields]))
    name = format_column([field.name for field in meant])
    return UsageError(message, hint=f"Write {name}, with the backticks.")


def _may_be_named(kind: DeltaType) -> bool:
    if isinstance(kind, PrimitiveType):
        return kind.name not in ("boolean", "binary")
    return isinstance(kind, StructType)


def list_leaves(struct: StructType) -> tuple[StatsLeaf, ...]:
    """Return every leaf that could get statistics, in the schema's order."""
    return tuple(StatsLeaf(leaf.physical, leaf.kind) for leaf in _walk(struct, (), ()))


def _walk(
    struct: StructType, logical: tuple[str, ...], physical: tuple[str, ...]
) -> Iterator[_Leaf]:
    for member in struct.fields:
        names = (*logical, member.name)
        stored = (*physical, member.physical_name)
        if isinstance(member.type, StructType):
            yield from _walk(member.type, names, stored)
        else:
            yield _Leaf(names, stored, _kind_of(member.type))


def _kind_of(delta_type: DeltaType) -> str:
    if not isinstance(delta_type, PrimitiveType):
        return "nested"
    if delta_type.name.startswith("decimal"):
        return "decimal"
    return _KINDS.get(delta_type.name, "other")


def _property_filter(
    properties: TableProperties, leaves: Sequence[_Leaf]
) -> Callable[[_Leaf], bool]:
    named = properties.text(STATS_COLUMNS_KEY)
    if named is not None:
        paths = [_fold(path) for path in parse_column_list(named)]
        return lambda leaf: any(_fold(leaf.logical)[: len(path)] == path for path in paths)
    count = properties.indexed_columns_count
    counted = leaves if count < 0 else leaves[:count]
    indexed = {leaf.physical for leaf in counted}
    return lambda leaf: leaf.physical in indexed


def _fold(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in path)
