"""Columns that are copied as they are: of types that are not decoded, and shredded variants.

Files that store such columns in different ways are never written into one file. Nothing is known
about values of a type that is not decoded: the log gets null counts, but no bounds, because
PROTOCOL.md defines no order for them. Variants can also be decoded, and written unshredded. They
stay shredded only if ``delta.enableVariantShredding`` is true: otherwise no new file may have
shredded variants.
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
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import Field, StructType, is_decoded, is_variant, leaf_types
from deltactl.protocol.stats_columns import StatsColumns, StatsLeaf, list_leaves


@dataclass(frozen=True, slots=True)
class UndecodedColumns:
    """The stored columns of a table whose type is not decoded, and how files are searched.

    ``variants``: the columns that stay shredded if all files of a bin are shredded in the same way.
    ``may_shred``: whether new files may have shredded variants.
    """

    fields: tuple[Field, ...] = ()
    mapping_mode: str = "none"
    variants: tuple[Field, ...] = ()
    may_shred: bool = False

    @classmethod
    def of(cls, metadata: Metadata) -> UndecodedColumns:
        """Return those of a table."""
        stored = metadata.data_schema.fields
        fields = tuple(f for f in stored if not is_decoded(f.type))
        may_shred = TableProperties(metadata.configuration).flag("delta.enableVariantShredding")
        carried = (f for f in stored if may_shred and f not in fields and _is_carried(f))
        return cls(fields, metadata.column_mapping_mode, tuple(carried), may_shred)

    @property
    def names(self) -> frozenset[str]:
        """Return their physical names."""
        return frozenset(field.physical_name for field in self.fields)

    def find(self, source: Source) -> tuple[StoredColumn, ...]:
        """Return the columns as a file stores them; those that it lacks are omitted.

        Variants that are not shredded are omitted too.

        Raises:
            DataFileError: the file has a column under another name than the table, or has shredded
                variants in a column that is not decoded, and new files may not have them.
        """
        if not (self.fields or self.variants):
            return ()
        schema = source.metadata.schema.to_arrow_schema()
        present, matcher = FileFields(schema), Matcher(self.mapping_mode)
        ensure_field_ids(matcher, schema, source.name)
        found = []
        for field in (*self.fields, *self.variants):
            index = matcher.find(field, present)
            if index is None:
                continue
            if present.names[index] != field.physical_name:
                raise DataFileError(
                    f"{source.name!r} has the column {field.name!r} under the name "
                    f"{present.names[index]!r}, which a copy would keep"
                )
            stored = source.columns[field.physical_name]
            is_shredded = _has_variants(field) and any(b"typed_value" in it for it in stored.leaves)
            if is_shredded and not self.may_shred:
                raise DataFileError(
                    f"{source.name!r} has shredded variants in the column {field.name!r}, which a "
                    "copy would keep, but delta.enableVariantShredding is not true"
                )
            if field in self.fields or is_shredded:
                found.append(stored)
        return tuple(found)

    def explain(self) -> str:
        """Return why row groups are copied."""
        if not self.fields:
            names = ", ".join(repr(field.name) for field in self.variants)
            return f"variants are shredded: {names}"
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


def _has_variants(field: Field) -> bool:
    return any(map(is_variant, leaf_types(field.type)))


def _is_carried(field: Field) -> bool:
    """Return whether a column has variants, and its footers have all facts for the log."""
    kinds = {leaf.kind for leaf in list_leaves(StructType((field,)))}
    return "variant" in kinds and kinds.isdisjoint({"nested", "float"})


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
