"""Columns whose type is not decoded: the row groups of their files can only be copied.

Files that store such columns in different ways are never written into one file. Nothing is known
about values: the log gets null counts, but no bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltactl.errors import DataFileError, UnsupportedFeatureError
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.option_names import option
from deltactl.parquet.projection import FileFields, Matcher, ensure_field_ids
from deltactl.parquet.splice.source import Source
from deltactl.parquet.stored_columns import StoredColumn
from deltactl.protocol.actions import Metadata
from deltactl.protocol.schema import Field, is_decoded
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf


@dataclass(frozen=True, slots=True)
class UndecodedColumns:
    """The stored columns of a table whose type is not decoded, and how files are searched."""

    fields: tuple[Field, ...] = ()
    mapping_mode: str = "none"

    @classmethod
    def of(cls, metadata: Metadata) -> UndecodedColumns:
        """Return those of a table."""
        fields = (f for f in metadata.data_schema.fields if not is_decoded(f.type))
        return cls(tuple(fields), metadata.column_mapping_mode)

    @property
    def names(self) -> frozenset[str]:
        """Return their physical names."""
        return frozenset(field.physical_name for field in self.fields)

    def find(self, source: Source) -> tuple[StoredColumn, ...]:
        """Return the columns as a file stores them; those that it lacks are omitted.

        Raises:
            DataFileError: the file has a column under another name than the table.
        """
        if not self.fields:
            return ()
        schema = source.metadata.schema.to_arrow_schema()
        present, matcher = FileFields(schema), Matcher(self.mapping_mode)
        ensure_field_ids(matcher, schema, source.name)
        found = []
        for field in self.fields:
            index = matcher.find(field, present)
            if index is None:
                continue
            if present.names[index] != field.physical_name:
                raise DataFileError(
                    f"{source.name!r} has the column {field.name!r} under the name "
                    f"{present.names[index]!r}, which a copy would keep"
                )
            found.append(source.columns[field.physical_name])
        return tuple(found)

    def explain(self) -> str:
        """Return why row groups are copied."""
        names = ", ".join(repr(field.name) for field in self.fields)
        if len(self.fields) == 1:
            return f"the type of column {names} is not decoded"
        return f"the types of columns {names} are not decoded"

    def without_bounds(self, stats: StatsColumns) -> StatsColumns:
        """Return the statistics to write: of these columns only the null counts in footers."""
        leaves = [
            leaf if leaf.path[0] not in self.names else _counted(leaf) for leaf in stats.leaves
        ]
        return replace(stats, leaves=tuple(leaf for leaf in leaves if leaf is not None))


def _counted(leaf: StatsLeaf) -> StatsLeaf | None:
    if leaf.kind == "nested":  # footers count null elements, not null lists
        return None
    return leaf if not leaf.has_bounds else replace(leaf, kind="other")


def adapt_options(metadata: Metadata, options: OptimizeOptions) -> OptimizeOptions:
    """Return the options with which a table can be rewritten: if a type is not decoded, by copies.

    Raises:
        UnsupportedFeatureError: the options move rows, which only decoded rows can.
    """
    undecoded = UndecodedColumns.of(metadata)
    if not undecoded.fields:
        return options
    if options.places_rows:
        given = option("zorder_by" if options.zorder_by is not None else "cluster_by")
        raise UnsupportedFeatureError(
            f"{given} moves rows between files, but {undecoded.explain()}",
            hint=f"Rerun without {given}: row groups are copied as they are.",
        )
    return replace(options, rewrite="copy", min_row_group_bytes=None)
