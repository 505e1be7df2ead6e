"""Plan a conversion: schema, partitions, protocol and files, or all problems."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ConversionError
from deltactl.log.writing.actions import NewFile
from deltactl.operations.control_characters import explain_controls, find_controls
from deltactl.operations.convert.directory import LeftOut
from deltactl.operations.convert.footers import (
    Footers,
    count_other_values,
    find_hidden,
    note_hidden,
)
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.convert.schema import Partitioning, Problem, SchemaMerger, plan_partitions
from deltactl.operations.convert.tasks import FooterGroup
from deltactl.option_names import option
from deltactl.protocol.actions import CONVERTED, Metadata, Protocol
from deltactl.protocol.column_ids import MAX_COLUMN_ID, add_column_ids
from deltactl.protocol.features import COLUMN_MAPPING
from deltactl.protocol.new_tables import choose_protocol, list_property_features, list_type_features
from deltactl.protocol.property_rules import ensure_manifests_fit, parse_properties
from deltactl.protocol.schema import (
    StructType,
    encode_schema,
    is_void,
    leaf_types,
    walk_paths,
)
from deltactl.protocol.schema_rules import UNFIT_NAME
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_columns import (
    STATS_COLUMNS_KEY,
    StatsColumns,
    choose_stats_columns,
    ensure_stats_columns,
    list_leaves,
)
from deltactl.protocol.stats_encoding import LeafColumns, encode_stats_of_files
from deltactl.units import format_count

_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class ConvertPlan:
    """A planned table; ``files`` are in the order of their paths."""

    protocol: Protocol
    metadata: Metadata
    partitioning: Partitioning
    files: tuple[NewFile, ...] = field(repr=False)
    left_out: tuple[LeftOut, ...] = field(repr=False)
    widened: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Return the total size of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def num_rows(self) -> int:
        """Return the number of rows of all files."""
        return sum(file.num_records for file in self.files)


def plan_convert(
    footers: Footers,
    options: ConvertOptions,
    left_out: Sequence[LeftOut],
    *,
    table_id: str,
    listed_ms: int,
    where: str,
) -> ConvertPlan:
    """Plan a table from files.

    Raises:
        ConversionError: it has the problems of every file and column.
        UsageError: a property that cannot be set.
    """
    merger, notes = _merge_schemas(footers, SchemaMerger(options.schema_mode == "widen"))
    hidden = find_hidden(merger.struct, footers, options)
    notes += note_hidden(hidden)
    struct, dropped = _drop_empty(merger.struct, hidden)
    notes += dropped
    types = {f.name.lower(): f.type for f in struct.fields}
    partitioning, problems = plan_partitions(footers.names, options.partition_by, types)
    schema = _add_partitions(struct, partitioning)
    problems = [*footers.problems, *merger.problems, *_untyped(struct), *problems]
    unfit = [] if options.column_mapping else _unfit_names(schema)
    _ensure_no_problems([*problems, *unfit], where, needs_mapping=not problems)
    if footers.groups and not schema.fields:
        left = ", ".join(f.name for f in merger.struct.fields) or "none"
        raise ConversionError(
            f"{where} cannot become a table: its files have no usable columns (left out: {left})",
            hint="Check the path; nothing was changed.",
        )
    if not footers.groups:
        raise ConversionError(f"{where} contains no Parquet files", hint="Check the path.")
    protocol, metadata = _describe(
        schema, partitioning, options, table_id=table_id, now_ms=listed_ms
    )
    columns = choose_stats_columns(metadata, protocol) if options.statistics else None
    files = sorted(_list_files(footers, partitioning, columns), key=lambda file: file.path)
    both = [f.name for f in partitioning.fields if f.name.lower() in types]
    notes += _note_partitions(both, footers, partitioning, columns)
    notes += _note_delta_files(footers)
    notes += _note_controls(footers)
    if partitioning.assumes_utc:
        notes.append("timestamps without a zone in directory names are read as UTC")
    return ConvertPlan(
        protocol,
        metadata,
        partitioning,
        tuple(files),
        tuple(sorted([*left_out, *footers.left_out], key=lambda entry: entry.path)),
        tuple(sorted(merger.widened)),
        tuple(notes),
    )


def _note_delta_files(footers: Footers) -> list[str]:
    """Return the warning about files of Delta writers: the log that says which are live is lost."""
    found = [
        name
        for group in footers.groups
        for name in group.files.filter(group.files["is_of_delta"])["path"].to_pylist()
    ]
    if not found:
        return []
    files = format_count(len(found), "file was", "files were")
    return [
        f"{files} written by deltactl, delta-rs or Delta Kernel, such as {min(found)!r}. If the "
        "directory was a Delta table that lost its log, the files also have rows of old versions: "
        "deleted rows come back, and rewritten rows are there twice. To find out, look for keys "
        "that occur twice. If there are any, restore _delta_log from a backup instead"
    ]


def _note_controls(footers: Footers) -> list[str]:
    """Return the warning about files that delta-rs cannot read."""
    found = pa.chunked_array([it.files["path"] for it in footers.groups], pa.string())
    found = find_controls(found)
    return [explain_controls(len(found), pc.min(found).as_py())] if len(found) else []


def _note_partitions(
    both: Sequence[str], footers: Footers, partitioning: Partitioning, columns: StatsColumns | None
) -> list[str]:
    """Return the warnings about partition columns that are also in the files."""
    if not both:
        return []
    notes = [
        f"{', '.join(both)}: also in the files, but readers take the values of the directories"
    ]
    if columns is None:  # no bounds were read
        return notes
    for name in both:
        count = count_other_values(name, footers, partitioning, columns.string_prefix)
        if count:
            notes.append(
                f"{name}: {format_count(count, 'file')} with other values than those of the "
                "directories. Readers ignore these values, and an optimize drops them from the "
                "files that it rewrites"
            )
    return notes


def _merge_schemas(footers: Footers, merger: SchemaMerger) -> tuple[SchemaMerger, list[str]]:
    """Merge all schemas; return the merger and the warnings."""
    nanoseconds: dict[str, None] = {}
    for group in footers.groups:
        names = group.files["path"].to_pylist()
        merger.add(group.schema.struct, names)
        merger.problems += _unusable_columns(group)
        nanoseconds |= dict.fromkeys(group.schema.nanoseconds)
    if not nanoseconds:
        return merger, []
    return merger, [
        f"{', '.join(nanoseconds)}: the files store nanoseconds, which deltactl reads as "
        "microseconds. Spark cannot read such files. `deltactl optimize --zorder-by COLUMNS` "
        "rewrites all of them; without the option, it rewrites only files that it can merge"
    ]


def _unusable_columns(group: FooterGroup) -> list[Problem]:
    """Return columns that Delta does not support, file by file."""
    names = group.files["path"].to_pylist()
    return [(name, column, why) for column, why in group.schema.unusable for name in names]


def _ensure_no_problems(problems: Sequence[Problem], where: str, *, needs_mapping: bool) -> None:
    """Raise an error with every problem, if there are any.

    ``needs_mapping``: there are no others than names that column mapping allows.
    """
    if not problems:
        return
    shown = "; ".join(_show(problem) for problem in problems[:_SHOWN])
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    raise ConversionError(
        f"{where} cannot become a table because of {format_count(len(problems), 'problem')}: "
        f"{shown}{more}",
        problems=problems,
        hint=(
            f"Rerun with {option('column_mapping', True)}. "
            if needs_mapping
            else "Fix these files, move them, or change their names so that they begin with '_'. "
        )
        + "`problems` of the JSON output, or of the error, has all of them. Nothing was changed.",
    )


def _show(problem: Problem) -> str:
    path, column, why = problem
    column_text = f"column {column!r}" if column else ""
    return " ".join(text for text in (repr(path) if path else "", column_text, why) if text)


def _drop_empty(struct: StructType, hidden: Collection[str]) -> tuple[StructType, list[str]]:
    """Remove hidden and untyped columns, which have no value in any file."""
    empty = [f.name for f in struct.fields if is_void(f.type)]
    kept = tuple(f for f in struct.fields if f.name not in hidden and f.name not in empty)
    notes = [f"{', '.join(empty)}: left out, because no file has a value for it"] if empty else []
    return StructType(kept), notes


def _untyped(struct: StructType) -> list[Problem]:
    """Return members and elements without any value: unlike columns they cannot be removed."""
    return [
        ("", f.name, "contains a part that is null in every file and so has no type")
        for f in struct.fields
        if any(map(is_void, leaf_types(f.type)))
    ]


def _add_partitions(struct: StructType, partitioning: Partitioning) -> StructType:
    """Add partition columns: those also in the files keep their position, others come last."""
    types = {f.name.lower(): f for f in partitioning.fields}
    fields = [types.pop(f.name.lower(), f) for f in struct.fields]
    return StructType((*fields, *types.values()))


def _unfit_names(schema: StructType) -> list[Problem]:
    return [
        (
            "",
            name,
            f"needs {option('column_mapping')}: readers refuse ' ,;{{}}()\\n\\t=' in names",
        )
        for name, f in walk_paths(schema)
        if UNFIT_NAME.search(f.name)
    ]


def _describe(
    schema: StructType,
    partitioning: Partitioning,
    options: ConvertOptions,
    *,
    table_id: str,
    now_ms: int,
) -> tuple[Protocol, Metadata]:
    features = set(list_property_features(options.properties) | list_type_features(schema))
    configuration = {**parse_properties(options.properties), CONVERTED: "true"}
    schema_string = encode_schema(schema)
    if options.column_mapping:
        features.add(COLUMN_MAPPING.name)
        schema_string, last = add_column_ids(schema_string)
        configuration |= {"delta.columnMapping.mode": "name", MAX_COLUMN_ID: str(last)}
    metadata = Metadata(
        id=table_id,
        schema_string=schema_string,
        partition_columns=tuple(f.name for f in partitioning.fields),
        configuration=configuration,
        name=options.name,
        description=options.description,
        created_time_ms=now_ms,
    )
    ensure_stats_columns(metadata.data_schema, configuration.get(STATS_COLUMNS_KEY, ""))
    ensure_manifests_fit(metadata)
    return choose_protocol(features), metadata


def _list_files(
    footers: Footers, partitioning: Partitioning, columns: StatsColumns | None
) -> Iterator[NewFile]:
    """Yield every data file with its path in the log; without ``columns``, no statistics."""
    for group in footers.groups:
        rows = group.files["num_rows"].combine_chunks()
        stats = (
            None if columns is None else encode_stats_of_files(rows, _known_leaves(group), columns)
        )
        texts = [None] * len(rows) if stats is None else stats.to_pylist()
        for row, text in zip(group.files.to_pylist(), texts, strict=True):
            yield NewFile(
                path=row["path"],
                partition_values=partitioning.of(row["path"]),
                size_bytes=row["size_bytes"],
                modification_time_ms=row["modified_ms"],
                num_records=row["num_rows"],
                stats=text,
            )


def _known_leaves(group: FooterGroup) -> Mapping[FieldPath, LeafColumns]:
    """Return the leaves of the files; those that were not read are unknown, not all null."""
    unread = LeafColumns(pa.nulls(len(group.files), pa.int64()))
    return {leaf.path: unread for leaf in list_leaves(group.schema.struct)} | dict(group.leaves)
