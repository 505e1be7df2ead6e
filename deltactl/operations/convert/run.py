"""``convert``: make a directory of Parquet files a table, in place, in one commit.

listing -> footers on an engine -> one schema, partitions, statistics -> size and time of each file
are still those before its footer was read -> version 0, put if absent.
No file is written before that commit, and no data file is changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.commits.events import CommitScan, EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.table_probe import ensure_no_table_above
from deltactl.log.writing.actions import Actions
from deltactl.log.writing.added_files import AddedFiles
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description, engine_info
from deltactl.operations.convert.directory import PARQUET_ENDINGS, list_directory
from deltactl.operations.convert.footers import read_all_footers
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.convert.plan import ConvertPlan, plan_convert
from deltactl.operations.convert.report import ConvertReport
from deltactl.operations.convert.tasks import FooterSpec
from deltactl.operations.converted import names_in_log, was_converted
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.new_tables import list_property_features
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import render_type

__all__ = ["ConvertOptions", "ConvertPlan", "ConvertReport", "convert_directory"]

_PARQUET: Final = rf"(?i)(?:{'|'.join(map(re.escape, PARQUET_ENDINGS))})$"
_HIDDEN: Final = r"(?:^|/)[._](?:[^/=]*/|[^/]*$)"
"""A hidden file, or a directory in its path, as ``list_directory`` decides."""


def convert_directory(
    log: DeltaLog, options: ConvertOptions, context: RunContext, *, dry_run: bool = False
) -> ConvertReport:
    """Convert a directory. One that already is a table is reported as such, and not changed.

    Raises:
        ConversionError: files cannot be part of a table; the error lists all of them.
        FilesGoneError: files were deleted or written again during the run; nothing was committed.
        SafetyError: the directory is in a table, contains one, or has other metadata.
        UnsupportedFeatureError: it is an Iceberg or Hudi table.
        UsageError: a property that cannot be set.
        CommitOutcomeUnknownError: the outcome of the commit is unknown.
    """
    list_property_features(options.properties)
    store = log.store
    if report := log.retry_after_cleanup(lambda: _describe_table(log, context, dry_run=dry_run)):
        _warn_of_partitions(log, options, context)
        return report
    _ensure_no_old_log(log)
    ensure_no_table_above(
        store,
        hint="Copy the files to a directory outside that table. Do not move them: that table may "
        "use them.",
    )
    listed_ms = context.clock.now_ms()
    files = AddedFiles(store, context.clock, are_foreign=True)
    directory = list_directory(store)
    properties = TableProperties(options.properties)
    spec = FooterSpec(
        store.uri, context.storage_options, options.statistics, properties.string_prefix_length
    )
    footers = read_all_footers(directory.candidates, options, properties, spec, context)
    plan = plan_convert(
        footers,
        options,
        directory.left_out,
        table_id=context.clock.new_id(),
        listed_ms=listed_ms,
        where=store.uri,
    )
    for note in plan.notes:
        context.warn(note)
    if dry_run:
        return ConvertReport(plan, context.engine.name, dry_run=True)
    log.ensure_can_commit()
    base = CommitBase(-1, plan.protocol, plan.metadata)
    transaction = context.transaction(log, base, files)
    if transaction.create(_new_table(plan, options, context.engine.name)):
        if properties.refreshes_manifests:
            from deltactl.operations.manifest.run import refresh_manifests

            refresh_manifests(log, None, context)
        return ConvertReport(plan, context.engine.name, None, 0)
    log.update()
    snapshot = log.snapshot()
    context.warn(
        "another writer created a Delta table in this directory during the run. This run did not "
        "change that table"
    )
    return ConvertReport(None, context.engine.name, None, snapshot.version)


def _describe_table(log: DeltaLog, context: RunContext, *, dry_run: bool) -> ConvertReport | None:
    """Return the report on a directory that already is a table; ``None`` if it is not one."""
    if not log.exists:
        return None
    events = EventCollector()
    snapshot = log.snapshot(visitors=[events])
    scan = log.events(snapshot, log.first_commit, events)
    return ConvertReport(
        None,
        context.engine.name,
        snapshot.version,
        snapshot.version,
        dry_run,
        unnamed_files=_count_unnamed_files(snapshot, scan),
        vacuum_keeps_them=was_converted(snapshot, scan),
    )


def _warn_of_partitions(log: DeltaLog, options: ConvertOptions, context: RunContext) -> None:
    """Warn if the partition columns of an existing table, or their types, are not as requested."""
    if options.partition_by is None:
        return
    types = {f.name: f.type for f in log.snapshot().metadata.known_partition_fields}
    wanted = {it.name: it.type or types.get(it.name) for it in options.partition_by}
    if wanted != types:
        shown = ", ".join(f"{name} {render_type(kind)}" for name, kind in types.items()) or "none"
        context.warn(
            f"{option('partition_by')} has no effect: this already is a table, with the partition "
            f"columns: {shown}"
        )


def _ensure_no_old_log(log: DeltaLog) -> None:
    """Refuse a log without commits: it may be the rest of a damaged table."""
    for name in log.file_names():
        if not name.startswith("."):
            raise SafetyError(
                f"{log.uri} has a _delta_log that contains {name!r}, but no commits",
                hint="If there was a table, restore its log from a backup. Otherwise delete "
                "_delta_log and rerun.",
            )


def _new_table(plan: ConvertPlan, options: ConvertOptions, engine: str) -> Actions:
    """Source: Delta's CONVERT operation; numbers and flags in its parameters are raw."""
    description = Description(
        operation="CONVERT",
        parameters={
            "numFiles": len(plan.files),
            "partitionedBy": json.dumps(
                list(plan.metadata.partition_columns), ensure_ascii=False, separators=(",", ":")
            ),
            "collectStats": options.statistics,
            "sourceFormat": "parquet",
        },
        metrics={"numConvertedFiles": str(len(plan.files))},
        engine_info=engine_info(engine),
    )
    return Actions(
        description=description,
        read_version=-1,
        protocol=plan.protocol,
        metadata=plan.metadata,
        added=plan.files,
    )


def _count_unnamed_files(snapshot: Snapshot, scan: CommitScan) -> int:
    """Return the number of Parquet files under the root that no action names.

    Actions that a log cleanup deleted are unknown. ``scan`` has all commits that are in the log.
    """
    parts = snapshot.store.walk_tree(lambda directory: not re.search(_HIDDEN, f"{directory}/"))
    names = pa.chunked_array(
        [_only_data_files([*part.files, *part.unaddressable]) for part in parts], pa.binary()
    )
    for batch in names_in_log(snapshot, scan):
        names = names.filter(pc.invert(pc.is_in(names, value_set=batch.cast(pa.binary()))))
    return len(names)


def _only_data_files(names: Sequence[str]) -> pa.Array:
    # Bytes: a name on a disk may not be UTF-8; then no action can name it.
    found = pa.array([name.encode(errors="surrogateescape") for name in names], pa.binary())
    found = found.filter(pc.match_substring_regex(found, _PARQUET))
    return found.filter(pc.invert(pc.match_substring_regex(found, _HIDDEN)))
