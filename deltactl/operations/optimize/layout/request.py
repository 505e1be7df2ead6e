"""Check the requested layout against the table: columns and kind of layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from deltactl.errors import SafetyError, UsageError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.optimize.options import (
    DEFAULT_LAYOUT,
    LIQUID_LAYOUT,
    Layout,
    OptimizeOptions,
)
from deltactl.option_names import option
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.column_names import Columns, find_column, format_column, list_columns
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_columns import (
    INDEXED_COLUMNS_KEY,
    STATS_COLUMNS_KEY,
    StatsLeaf,
    choose_stats_columns,
    list_leaves,
)

LayoutKind: TypeAlias = Literal["cluster", "zorder", "liquid"]

_MOST_COLUMNS: Final = 8


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """A column to place rows by: its name as it can be typed, and its physical path."""

    name: str
    path: FieldPath


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """The layout of a run.

    ``cluster`` places new files and unfinished clusters; ``zorder`` places whole partitions;
    ``liquid`` is ``cluster`` with the clustering columns of the table, in the form of Delta on
    Spark.
    """

    kind: LayoutKind
    layout: Layout
    columns: tuple[LayoutColumn, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of the columns, as they can be typed."""
        return [column.name for column in self.columns]

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """Return the physical paths of the columns."""
        return tuple(column.path for column in self.columns)


def resolve_request(snapshot: Snapshot, options: OptimizeOptions) -> LayoutRequest | None:
    """Return the layout of the options, or of the clustering columns of the table.

    ``None`` if there is none: a purge and ``--rewrite copy`` do not place rows.

    Raises:
        SafetyError: no query skips files by a column.
        UsageError: a column cannot be used, or the table has other clustering columns.
    """
    defined = clustering_columns(snapshot.domains)
    chosen = option("zorder_by" if options.zorder_by is not None else "cluster_by")
    if options.zorder_by is not None:
        if defined:
            raise _defined_by_table(snapshot, chosen, defined)
        columns = resolve_columns(snapshot, chosen, options.zorder_by)
        return LayoutRequest("zorder", "zorder", columns)
    if options.cluster_by is not None:
        columns = resolve_columns(snapshot, chosen, options.cluster_by)
        if not defined:
            return LayoutRequest("cluster", options.layout or DEFAULT_LAYOUT, columns)
        if tuple(column.path for column in columns) != defined:
            raise _defined_by_table(snapshot, chosen, defined)
    elif not defined:
        _ensure_meaning(options)
    if not defined or options.purge or options.rewrite == "copy":
        return None
    own = find_columns(snapshot, defined)
    return None if own is None else LayoutRequest("liquid", options.layout or LIQUID_LAYOUT, own)


def _ensure_meaning(options: OptimizeOptions) -> None:
    """Refuse layout options if neither the command nor the table has columns."""
    columns = f"{option('cluster_by')} or {option('zorder_by')}"
    for given, is_given, needed in (
        (option("full"), options.full, columns),
        (option("layout"), options.layout is not None, option("cluster_by")),
    ):
        if is_given:
            raise UsageError(
                f"{given} needs {needed}: the table has no clustering columns of its own",
                hint=f"Add {needed}, or remove {given}.",
            )


def _defined_by_table(snapshot: Snapshot, given: str, paths: Sequence[FieldPath]) -> UsageError:
    columns = find_columns(snapshot, paths) or ()
    names = ", ".join(column.name for column in columns)
    return UsageError(
        f"{given} cannot replace the table's own clustering columns: {names}",
        hint=f"Rerun without {given} to cluster by the table's columns. To change these columns, "
        "run ALTER TABLE ... CLUSTER BY first.",
    )


def find_columns(snapshot: Snapshot, paths: Sequence[FieldPath]) -> tuple[LayoutColumn, ...] | None:
    """Return columns by their physical paths; ``None`` if one is missing or has no order."""
    leaves = {leaf.path: leaf for leaf in list_leaves(snapshot.metadata.data_schema)}
    columns = []
    for path in paths:
        leaf = leaves.get(path)
        if leaf is None or not leaf.has_bounds:
            return None
        names = [field.name for field in snapshot.metadata.data_schema.fields_at(path)]
        columns.append(LayoutColumn(format_column(names), path))
    return tuple(columns)


def resolve_columns(snapshot: Snapshot, given: str, columns: Columns) -> tuple[LayoutColumn, ...]:
    """Return the columns that an option names, each as in ``a`` or ``b.c``.

    Raises:
        SafetyError: no query skips files by a column.
        UsageError: a column cannot be used.
    """
    texts = list_columns(columns)
    if not texts:
        raise UsageError(f"{given} needs at least one column")
    if len(texts) > _MOST_COLUMNS:
        raise UsageError(
            f"{given} names {len(texts)} columns; at most {_MOST_COLUMNS} are allowed",
            hint="Keep the columns that queries use most often in filters. Each added column makes "
            "filters on the other columns less effective.",
        )
    found: dict[FieldPath, LayoutColumn] = {}
    for text in texts:
        column = _resolve(snapshot, given, text)
        if column.path in found:
            raise UsageError(f"{given} names column {column.name!r} twice")
        found[column.path] = column
    return tuple(found.values())


def _resolve(snapshot: Snapshot, given: str, text: str) -> LayoutColumn:
    metadata = snapshot.metadata
    fields = find_column(metadata.schema, text)
    if fields is None:
        known = ", ".join(format_column([field.name]) for field in metadata.data_schema.fields)
        raise UsageError(
            f"{given}: the table has no column {text!r}", hint=f"Choose from: {known}."
        )
    name = format_column([field.name for field in fields])
    if fields[0] in metadata.known_partition_fields:
        raise UsageError(
            f"{given} names the partition column {name!r}: in this column, all rows of a file "
            "have the same value",
            hint=f"Omit this column from {given}: deltactl arranges rows within each partition.",
        )
    physical = tuple(field.physical_name for field in fields)
    leaves = {leaf.path: leaf for leaf in list_leaves(metadata.data_schema)}
    _ensure_statistics(snapshot, f"{given}: column {name!r}", physical, leaves.get(physical))
    return LayoutColumn(name, physical)


def _ensure_statistics(
    snapshot: Snapshot, what: str, path: FieldPath, leaf: StatsLeaf | None
) -> None:
    """Refuse a column by which no query skips a file."""
    if leaf is None or not leaf.has_bounds:
        raise SafetyError(
            f"{what} has a type for which Delta stores no minimum and maximum, so queries cannot "
            "use it to skip files",
            hint="Choose columns of numbers, strings, dates or timestamps. For a struct, choose "
            "one of its fields, such as a.b.",
        )
    chosen = choose_stats_columns(snapshot.metadata, snapshot.protocol)
    if path not in {collected.path for collected in chosen.leaves}:
        is_named = snapshot.properties.text(STATS_COLUMNS_KEY) is not None
        raise SafetyError(
            f"{what} has no statistics, so queries cannot use it to skip files",
            hint=(f"Add it to {STATS_COLUMNS_KEY}" if is_named else f"Raise {INDEXED_COLUMNS_KEY}")
            + " with `deltactl alter TABLE --set KEY=VALUE`. Then run `deltactl check TABLE --fix "
            "stats`.",
        )
