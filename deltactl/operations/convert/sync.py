"""``convert --sync``: add files that are new in a converted directory, each once.

The log alone does not show which files are new: expired tombstones of removed files are deleted. So
each commit of convert contains a watermark: a time up to which all files were listed. If tombstones
may be missing, only files newer than the watermark count as new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from deltactl.errors import SafetyError, UnsupportedFeatureError
from deltactl.log.listing import LogListing
from deltactl.log.physical_names import locate
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.append import Append, append_files
from deltactl.log.writing.run_tags import engine_info
from deltactl.operations.after_commit import follow_commit
from deltactl.operations.convert.directory import LeftOut, list_directory
from deltactl.operations.convert.footers import Footers, read_all_footers
from deltactl.operations.convert.hidden import find_hidden_in_sync, note_hidden
from deltactl.operations.convert.new_files import choose_new_files
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.convert.partition_by import PartitionColumn
from deltactl.operations.convert.partitions import Problem, plan_partitions
from deltactl.operations.convert.plan import (
    APP_ID,
    REGISTERED_TAG,
    ConvertPlan,
    ensure_no_problems,
    list_files,
    unusable_columns,
)
from deltactl.operations.convert.report import ConvertReport
from deltactl.operations.convert.schema import SchemaMerger
from deltactl.operations.convert.tasks import FooterSpec
from deltactl.operations.find_files import find_files
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import Txn
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.features import (
    DELETION_VECTORS,
    ROW_TRACKING,
    Operation,
    ensure_supported,
    has_feature,
)
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.schema import (
    ArrayType,
    DeltaType,
    Field,
    MapType,
    PrimitiveType,
    StructType,
    is_void,
    render_type,
    walk_fields,
)
from deltactl.protocol.stats_columns import choose_stats_columns

_SHOWN: Final = 5
_RULES_OF_ROWS: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
_LIVE_COLUMNS: Final = ("path", "size_bytes", "modification_time_ms", "tags")


def sync_directory(
    snapshot: Snapshot,
    listing: LogListing,
    options: ConvertOptions,
    context: RunContext,
    *,
    dry_run: bool,
) -> ConvertReport:
    """Add the files that are new since the last listing.

    Raises:
        ConversionError: new files do not match the table; the error lists all of them.
        SafetyError: there is no watermark, or a live file differs from the listing.
        UnsupportedFeatureError: the table has constraints that the new rows may violate.
        ConflictError: another writer committed first.
    """
    watermark = snapshot.txns.get(APP_ID)
    if watermark is None:
        raise SafetyError(
            f"{snapshot.store.uri} has no record of the last listing in its log, so --sync cannot "
            f"tell which files are new",
            hint="Use --sync only on tables that `deltactl convert` created. If the table sets "
            "delta.setTransactionRetentionDuration, the record may have expired.",
        )
    _ensure_takes_files(snapshot)
    listed_ms = context.clock.now_ms()
    directory = list_directory(snapshot.store)
    _ensure_unchanged(snapshot)
    choice = choose_new_files(
        snapshot, listing, directory.candidates, watermark.version, margin_ms=options.margin_ms
    )
    choice.warn_of_doubt(context.warn)
    if choice.fresh and not dry_run:
        snapshot.store.ensure_put_if_absent()
    spec = FooterSpec(
        snapshot.store.uri,
        context.storage_options,
        _wants_statistics(snapshot, options),
        snapshot.properties.string_prefix_length,
    )
    footers = read_all_footers(choice.fresh, options, snapshot.properties, spec, context)
    left_out = (*directory.left_out, *choice.left_out, *footers.left_out)
    newest = max(watermark.version, listed_ms, footers.newest_ms)
    plan = _plan(snapshot, footers, options, left_out, newest)
    for note in plan.notes:
        context.warn(note)
    version = snapshot.version
    if dry_run or not plan.files:
        return ConvertReport(plan, context.engine.name, version, version, dry_run, sync=True)
    append = Append(
        files=plan.files,
        txn=Txn(APP_ID, newest, listed_ms),
        operation="CONVERT",
        parameters={
            "numFiles": len(plan.files),
            "collectStats": options.statistics,
            "sourceFormat": "parquet",
            "sync": True,
        },
        metrics={"numConvertedFiles": str(len(plan.files))},
        engine_info=engine_info(context.engine.name),
    )
    after = append_files(snapshot, append, clock=context.clock, sleep=context.sleep)
    follow_commit(snapshot, after, context)
    return ConvertReport(plan, context.engine.name, version, after, sync=True)


def _ensure_takes_files(snapshot: Snapshot) -> None:
    """Refuse tables with constraints, which are not checked on the new rows."""
    protocol, metadata = snapshot.protocol, snapshot.metadata
    ensure_supported(protocol, metadata, Operation.REWRITE)
    ensure_columns(snapshot, "add files to the schema")
    rules = [key for key in metadata.configuration if key.startswith("delta.constraints.")]
    for column in walk_fields(metadata.schema):
        if not column.nullable:
            rules.append(f"NOT NULL of column {column.name!r}")
        found = (key for key in _RULES_OF_ROWS if key in column.metadata)
        rules += [f"{key} of column {column.name!r}" for key in found]
    if metadata.column_mapping_mode == "id":
        rules.append("columns mapped by field ids, which the new files lack")
    if rules:
        raise UnsupportedFeatureError(
            f"new files cannot be added: the table has {', '.join(rules[:_SHOWN])}",
            hint="Add the new files with a writer that checks rows, such as Spark.",
        )


def _wants_statistics(snapshot: Snapshot, options: ConvertOptions) -> bool:
    # Files with deletion vectors or row ids must have numRecords.
    return options.statistics or has_feature(snapshot.protocol, ROW_TRACKING, DELETION_VECTORS)


def _ensure_unchanged(snapshot: Snapshot) -> None:
    """Refuse if live files differ from the log: files replaced in place are not reliable."""
    changed: list[str] = []
    for batch in snapshot.file_batches(_LIVE_COLUMNS):
        names = locate(snapshot.store, batch["path"])
        inside = batch.filter(names.is_valid())
        paths = names.drop_null().to_pylist()
        found, _ = find_files(snapshot.store, paths)
        infos = [found[path] for path in paths]
        sizes = np.array([-1 if i is None else i.size_bytes for i in infos], np.int64)
        times = np.array([-1 if i is None else i.modified_ms for i in infos], np.int64)
        differs = sizes != inside["size_bytes"].to_numpy()
        # Other writers use their own clock: only listed files can be compared.
        registered = lookup_map(inside["tags"], REGISTERED_TAG).is_valid().to_numpy()
        differs |= registered & (times != inside["modification_time_ms"].to_numpy())
        changed += [paths[row] for row in np.flatnonzero(differs)]
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise SafetyError(
            f"live files of the table changed since they were added: "
            f"{', '.join(map(repr, changed[:_SHOWN]))}{more}",
            hint="Restore the files, or delete the table's log and convert the directory again. "
            "Never replace files of a table in place.",
        )


def _plan(
    snapshot: Snapshot,
    footers: Footers,
    options: ConvertOptions,
    left_out: Sequence[LeftOut],
    watermark_ms: int,
) -> ConvertPlan:
    metadata = snapshot.metadata
    asked = [
        PartitionColumn(f.physical_name, f.type)
        for f in metadata.partition_fields
        if isinstance(f.type, PrimitiveType)
    ]
    partitioning, problems = plan_partitions(footers.names, asked, {})
    hidden = [find_hidden_in_sync(snapshot, group) for group in footers.groups]
    problems = [*footers.problems, *_misfits(snapshot, footers, hidden, options), *problems]
    ensure_no_problems(problems, snapshot.store.uri)
    columns = choose_stats_columns(
        metadata, snapshot.protocol, clustering=clustering_columns(snapshot.domains)
    )
    wanted = columns if _wants_statistics(snapshot, options) else None
    return ConvertPlan(
        snapshot.protocol,
        metadata,
        partitioning,
        tuple(sorted(list_files(footers, partitioning, wanted), key=lambda file: file.path)),
        tuple(sorted(left_out, key=lambda entry: entry.path)),
        watermark_ms,
        notes=tuple(note_hidden(frozenset().union(*hidden))),
    )


def _misfits(
    snapshot: Snapshot,
    footers: Footers,
    hidden: Sequence[frozenset[str]],
    options: ConvertOptions,
) -> list[Problem]:
    """Return the columns of new files that do not fit the table."""
    partitions = {f.physical_name.lower() for f in snapshot.metadata.partition_fields}
    seed = _physical(snapshot.metadata.data_schema)
    problems: list[Problem] = []
    for group, left_out in zip(footers.groups, hidden, strict=True):
        names = group.files["path"].to_pylist()
        merger = SchemaMerger(options.schema_mode == "widen", seed)
        stored = [
            f
            for f in group.schema.struct.fields
            if f.name.lower() not in partitions and f.name not in left_out and not is_void(f.type)
        ]
        merger.add(StructType(tuple(stored)), names)
        problems += merger.problems
        problems += unusable_columns(group)
        for merged in merger.struct.fields:
            known = seed.find(merged.name)
            if known is None or known.type != merged.type:
                has = "no such column" if known is None else render_type(known.type)
                why = f"needs {render_type(merged.type)}, the table has {has}"
                problems += [(name, merged.name, why) for name in names]
    return problems


def _physical(struct: StructType) -> StructType:
    """Return the columns as they are in files, with physical names only."""

    def plain(kind: DeltaType) -> DeltaType:
        match kind:
            case StructType():
                return _physical(kind)
            case ArrayType():
                return ArrayType(plain(kind.element))
            case MapType():
                return MapType(plain(kind.key), plain(kind.value))
            case _:
                return kind

    return StructType(tuple(Field(f.physical_name, plain(f.type)) for f in struct.fields))
