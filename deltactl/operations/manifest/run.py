"""``generate-manifest``: write manifests for engines that read lists of data files.

snapshot -> content of each partition's manifest -> compare with existing ones -> write new and
changed ones, each replaced atomically -> delete those of removed partitions -> look whether the
table is still the same. During this time, partitions may show different versions; the report has
its duration.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from deltactl.errors import (
    DeltactlError,
    InterruptedRunError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.manifest.content import (
    ManifestLines,
    load_table,
    warn_of_old_types,
)
from deltactl.operations.manifest.directories import ensure_distinct
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.place import find_schemes, record_table, render_command
from deltactl.operations.manifest.plan import STALE, ManifestPlan, plan_manifests
from deltactl.operations.manifest.record import Writing, as_record, has_record
from deltactl.operations.manifest.report import ManifestReport
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.missing_files import (
    PRESENCE_COLUMNS,
    find_missing,
    list_missing,
)
from deltactl.operations.owners import RESTORE_OLDER, find_away
from deltactl.operations.partition_groups import group_partitions
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import array_of
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.path_columns import parent_directories
from deltactl.storage.store import Store
from deltactl.units import format_count

__all__ = ["ManifestOptions", "ManifestPlan", "ManifestReport", "generate_manifests"]

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
# Other writers may commit faster than manifests are written.
_MOST_PASSES: Final = 4


def generate_manifests(
    log: DeltaLog,
    options: ManifestOptions,
    context: RunContext,
    *,
    snapshot: Snapshot | None = None,
    lines: ManifestLines | None = None,
    output: Store | None = None,
    dry_run: bool = False,
) -> ManifestReport:
    """Update manifests to a version; with ``dry_run`` or ``options.check``, only compare.

    ``snapshot`` is the version, and ``lines`` are its lines, if they are already loaded (with these
    schemes); they are closed. ``output`` contains ``_symlink_format_manifest``; the table
    itself if ``None``. After a cancel, no further manifest is written.

    Raises:
        UnsupportedFeatureError: deletion vectors or column mapping.
        SafetyError: the schema lacks required columns, files of the earlier version are missing, or
            the file system takes the directories of two partitions for one.
        PredicateError: ``options.where`` is not about partition columns.
        InterruptedRunError: ``cancel`` was set; each manifest is old or new.
        StorageError: the store failed; each manifest is old or new.
        ConflictError: the table was replaced during the run.
        DeltactlError: there is no table or no such version, or the log is damaged.
    """
    if snapshot is None or lines is None:
        snapshot, lines = load_table(log, options.version, snapshot, options.schemes)
    place = output or log.store
    with closing(lines):
        log.ensure_allowed(None)
        if lines.unused:
            context.warn(
                f"no address in the manifests of {log.uri} has the scheme "
                f"{', '.join(sorted(lines.unused))}, so {option('schemes')} does not replace it"
            )
        options = replace(options, check=options.check or dry_run)
        is_whole, is_earlier = options.where is None, options.version is not None
        writing = Writing(log, place, context, is_whole=is_whole, is_earlier=is_earlier)
        if not options.check and _is_recorded(snapshot, options, place):
            with writing:
                options = replace(options, since=writing.limit_since(snapshot, options.since))
                report = _write_newest(
                    log, snapshot, lines, options, context, output=place, writing=writing
                )
        else:
            if options.check and options.since is not None:
                since = writing.read().limit_since(snapshot, options.since)
                options = replace(options, since=since)
            report = _generate(log, snapshot, lines, options, context, output=place)
    if not report.plan.is_empty:
        warn_of_old_types(snapshot, context.warn)
    return report


def _is_recorded(snapshot: Snapshot, options: ManifestOptions, place: Store) -> bool:
    """Return whether the version of the manifests is recorded: only if a later run needs it.

    These are refreshes after commits, and runs with ``since``.
    """
    is_own = place is snapshot.store
    if options.since is not None or (is_own and snapshot.properties.refreshes_manifests):
        return True
    return has_record(place, needs_version=not is_own)


def _write_newest(
    log: DeltaLog,
    snapshot: Snapshot,
    lines: ManifestLines,
    options: ManifestOptions,
    context: RunContext,
    *,
    output: Store,
    writing: Writing,
) -> ManifestReport:
    """Write manifests until the log has no later version, which another run may have written.

    Return the report of the first pass. ``lines`` are closed.
    """
    reports: list[ManifestReport] = []
    while True:
        is_newest = options.version is not None or not log.has_versions_from(snapshot.version + 1)
        if reports and (is_newest or len(reports) == _MOST_PASSES):
            break
        base = CommitBase.of(snapshot)
        if not is_newest:
            lines.close()
            snapshot, lines = load_table(log, None, schemes=options.schemes)
        with closing(lines):
            if not is_newest:
                base.ensure_same_table(log)  # else `since` is of another table
            report = _generate(
                log, snapshot, lines, options, context, output=output, writing=writing
            )
        reports.append(report)
        options = replace(options, since=snapshot.version, ddl=None)
    if is_newest:
        writing.end(snapshot)
    return reports[0]


def _generate(
    log: DeltaLog,
    snapshot: Snapshot,
    lines: ManifestLines,
    options: ManifestOptions,
    context: RunContext,
    *,
    output: Store,
    writing: Writing | None = None,
) -> ManifestReport:
    if options.ddl:
        ensure_columns(snapshot, "write DDL")
    plan = plan_manifests(log, snapshot, lines, output=output, options=options, context=context)
    if plan.vectors and options.purge_first and options.check:
        files = format_count(plan.vectors, "file has", "files have")
        context.warn(
            f"{files} deletion vectors, so readers of manifests would return deleted rows. "
            f"Without {option('dry_run')} and {option('check')}, deltactl first rewrites such "
            "files, and the manifests list other files"
        )
    elif plan.vectors:
        raise _has_vectors(plan.vectors, snapshot.store.uri, options)
    if options.version is not None and snapshot.version != log.listed.latest_version:
        _ensure_files(snapshot, plan, context)
    root = f"{output.uri}/{MANIFEST_DIR}"
    ddl: tuple[str, ...] = ()
    if options.ddl:
        from deltactl.operations.manifest.ddl import render_ddl

        place = f"{output.engine_uri}/{MANIFEST_DIR}"
        ddl = tuple(render_ddl(snapshot, plan, place, options))
    if options.check:
        return ManifestReport(plan, root, dry_run=True, ddl=ddl)
    if output is not snapshot.store and writing is None:
        record_table(output, as_record(snapshot, context))
    if writing is not None:
        writing.begin(snapshot)
    try:
        window_ms = write_manifests(plan, output, context)
    except InterruptedRunError as error:
        error.is_part_done = _is_begun(plan, output)
        raise
    CommitBase.of(snapshot).ensure_same_table(log)
    return ManifestReport(plan, root, window_ms=window_ms, ddl=ddl)


def _ensure_files(snapshot: Snapshot, plan: ManifestPlan, context: RunContext) -> None:
    """Look for the files in the manifests of an earlier version: a vacuum may have removed them."""
    folders = {it.folder for it in plan.partitions if it.state != STALE}
    fields = snapshot.metadata.partition_fields

    def choose(files: pa.Table) -> pa.Table:
        groups = group_partitions(files["partition_values"], fields, by_text=True)
        is_in = np.array([label in folders for label in groups.labels()], np.bool_)
        return files.filter(array_of(is_in[groups.ids]))

    batches = map(choose, snapshot.file_batches((*PRESENCE_COLUMNS, "partition_values")))
    missing = find_missing(snapshot.store, batches, context)
    if missing:
        names = [it.path for it in missing]
        away = find_away(snapshot.store, names, context.storage_options)
        if away is not None:
            raise away.refusal(RESTORE_OLDER)
        raise SafetyError(
            f"no manifest was written: {format_count(len(missing), 'file', 'files')} of version "
            f"{snapshot.version} cannot be read: {list_missing(missing)}",
            hint=f"Run `deltactl describe-history {shlex.quote(snapshot.store.uri)} --restorable` "
            "to see which versions have all their files.",
        )


def _has_vectors(count: int, table: str, options: ManifestOptions) -> UnsupportedFeatureError:
    """Return the error for files with deletion vectors: readers would return deleted rows."""
    files = format_count(count, f"live file of {table} has", f"live files of {table} have")
    quoted = shlex.quote(table)
    if options.version is not None:  # a purge does not change it
        hint = (
            f"Omit {option('version')}, and add {option('purge_first', True)}: it writes the "
            "manifests of a new version without deletion vectors."
        )
    elif options.where is not None:
        where = shlex.quote(options.where)
        hint = f"Run `deltactl generate-manifest {quoted} --where {where} --purge-first`."
    else:
        hint = (
            f"Run `deltactl optimize {quoted} --purge`, or `deltactl generate-manifest {quoted} "
            "--purge-first`."
        )
    return UnsupportedFeatureError(
        f"{files} deletion vectors: readers of manifests would return deleted rows", hint=hint
    )


# Source: the hook that Delta on Spark runs after commits of tables with this property.
# The record lets the next refresh catch up after a crash.
def refresh_manifests(
    log: DeltaLog, before: int | None, context: RunContext
) -> ManifestReport | None:
    """Update the manifests of the partitions that changed since the recorded version.

    This includes commits whose run was killed before it updated the manifests. Update all if no
    version is recorded, if ``before`` is ``None`` (there was no table), or if the table has no
    manifests. Keep the scheme that the manifests have. Do nothing unless
    ``delta.compatibility.symlinkFormatManifest.enabled`` is set. Never raise: the commits have
    succeeded, so a failure is a warning with the command to run.
    """
    store = log.store
    schemes: dict[str, str] | None = None
    try:
        log.update()
        snapshot = log.snapshot()
        if not snapshot.properties.refreshes_manifests:
            return None
        log.ensure_allowed(None)
        schemes = find_schemes(log)
        with Writing(log, store, context) as writing:
            is_known = before is not None and schemes is not None
            since = writing.recorded_version(snapshot) if is_known else None
            options = ManifestOptions(since=since, schemes=schemes or {})
            snapshot, lines = load_table(log, None, snapshot, options.schemes)
            rest = context.without_cancel()
            return _write_newest(log, snapshot, lines, options, rest, output=store, writing=writing)
    except DeltactlError as error:
        context.warn(
            f"the commit succeeded, but the manifests were not refreshed: {error.message}; "
            + (
                error.hint
                if isinstance(error, UnsupportedFeatureError) and error.hint is not None
                else f"run {render_command(shlex.quote(store.uri), schemes or {})}"
            )
        )
        return None


def write_manifests(plan: ManifestPlan, output: Store, context: RunContext) -> int | None:
    """Write, then delete; return how long that took, ``None`` if there was nothing to do.

    Raises:
        SafetyError: the file system takes the directories of two partitions for one.
        InterruptedRunError: ``cancel`` was set.
    """
    left = output.delete_many(plan.leftovers) if plan.leftovers else {}
    if left:
        context.warn(
            f"{format_count(len(left), 'hidden file', 'hidden files')} of killed runs could not be "
            f"deleted, such as {min(left)!r}"
        )
    if plan.is_empty:
        return None
    ensure_distinct(output, plan.alike)
    started = context.clock.monotonic()
    _log.info("%s: writing manifests of version %d", output.uri, plan.version)
    output.put_many(_until_cancelled(plan.iter_writes(), context))
    for name, blocks in _until_cancelled(plan.iter_large(), context):
        _put_large(output, name, blocks)
    # Delete last: until then, readers of a removed partition find its files, which a vacuum keeps.
    failed = output.delete_many(plan.stale)
    if failed:
        name, error = next(iter(failed.items()))
        raise StorageError(
            f"{format_count(len(failed), 'manifest')} of removed partitions could not be deleted, "
            f"such as {name!r}: {error.message}",
            hint="Rerun, or delete these manifests. Until then, their readers return rows that "
            "were removed from the table.",
        )
    if output.directories:
        stale = pa.chunked_array([pa.array(plan.stale, pa.string())])
        folders = parent_directories(stale) - {MANIFEST_DIR}
        output.directories.remove_directories(sorted(folders, key=len, reverse=True))
    return round((context.clock.monotonic() - started) * 1000)


def _put_large(output: Store, name: str, blocks: Iterator[memoryview]) -> None:
    """Write or replace a manifest in parts; readers see the old or the new one."""
    file = output.open_replacement(name)
    try:
        for block in blocks:
            file.write(block)
        file.close()
    finally:
        file.discard()  # nothing is left to discard after `close`


def _until_cancelled(
    files: Iterator[tuple[str, T]], context: RunContext
) -> Iterator[tuple[str, T]]:
    """Yield the files; raise before the next or after the last once the run is cancelled."""
    for file in files:
        _ensure_wanted(context)
        yield file
    _ensure_wanted(context)


def _ensure_wanted(context: RunContext) -> None:
    if context.is_cancelled:
        raise InterruptedRunError(
            "interrupted; each manifest is either new or unchanged", hint="Rerun."
        )


def _is_begun(plan: ManifestPlan, output: Store) -> bool:
    """Return whether the first manifest has been replaced; a local disk shows no partial file."""
    with suppress(StorageError):
        return plan.is_first_written(output)
    return False
