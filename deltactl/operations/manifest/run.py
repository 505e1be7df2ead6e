"""``generate-manifest``: write manifests for engines that read lists of data files.

snapshot -> content of each partition's manifest -> compare with existing ones -> write new and
changed ones, each replaced atomically -> delete those of removed partitions. During this time,
partitions may show different versions; the report has its duration.
"""

from __future__ import annotations

import shlex
from contextlib import closing

from deltactl.errors import DeltactlError, InterruptedRunError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.content import LiveFiles, ensure_no_vectors, load_table
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.plan import ManifestPlan, is_seen, plan_manifests
from deltactl.operations.manifest.report import ManifestReport
from deltactl.operations.manifest.write import (
    is_begun,
    read_recorded_version,
    record_version,
    write_manifests,
)
from deltactl.operations.missing_columns import ensure_columns
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.store import Store
from deltactl.units import format_count

__all__ = [
    "ManifestOptions",
    "ManifestPlan",
    "ManifestReport",
    "generate_manifests",
]


def generate_manifests(
    log: DeltaLog,
    options: ManifestOptions,
    context: RunContext,
    *,
    snapshot: Snapshot | None = None,
    live: LiveFiles | None = None,
    output: Store | None = None,
    dry_run: bool = False,
) -> ManifestReport:
    """Update manifests to a version; with ``dry_run`` or ``options.check``, only compare.

    ``snapshot`` is the version, and ``live`` its files, if they are already loaded (with these
    schemes); the files are closed. ``output`` contains ``_symlink_format_manifest``; the table
    itself if ``None``. After a cancel, no further manifest is written.

    Raises:
        UnsupportedFeatureError: deletion vectors or column mapping.
        SafetyError: the schema lacks required columns, or the file system takes the directories of
            two partitions for one.
        PredicateError: ``options.where`` is not about partition columns.
        InterruptedRunError: ``cancel`` was set; each manifest is old or new.
        StorageError: the store failed; each manifest is old or new.
        DeltactlError: there is no table or no such version, or the log is damaged.
    """
    if snapshot is None or live is None:
        snapshot, live = load_table(log, options.version, snapshot, options.schemes)
    with closing(live):
        return _generate(
            log, snapshot, live, options, context, output=output or log.store, dry_run=dry_run
        )


def _generate(
    log: DeltaLog,
    snapshot: Snapshot,
    live: LiveFiles,
    options: ManifestOptions,
    context: RunContext,
    *,
    output: Store,
    dry_run: bool,
) -> ManifestReport:
    writes = not (dry_run or options.check)
    if live.vectors and options.purge_first and not writes:
        files = format_count(live.vectors, "file has", "files have")
        context.warn(
            f"{files} deletion vectors. Without {option('dry_run')} and {option('check')}, "
            "deltactl first rewrites such files"
        )
    else:
        ensure_no_vectors(live, snapshot.store.uri)
    if options.ddl:
        ensure_columns(snapshot, "write DDL")
    plan = plan_manifests(log, snapshot, live, output=output, options=options, context=context)
    root = f"{output.uri}/{MANIFEST_DIR}"
    ddl: tuple[str, ...] = ()
    if options.ddl:
        from deltactl.operations.manifest.ddl import render_ddl

        ddl = tuple(render_ddl(snapshot, plan, root, options))
    if not writes:
        return ManifestReport(plan, root, dry_run=True, ddl=ddl)
    try:
        window_ms = write_manifests(plan, output, context)
    except InterruptedRunError as error:
        error.is_part_done = is_begun(plan, output)
        raise
    if options.where is None and options.since is None and output is snapshot.store:
        record_version(snapshot, context)
    return ManifestReport(plan, root, window_ms=window_ms, ddl=ddl)


def refresh_manifests(
    log: DeltaLog,
    before: int | None,
    context: RunContext,
) -> ManifestReport | None:
    """Update the manifests of the partitions that changed since the recorded version.

    This includes commits whose run was killed before it updated the manifests. Update all if no
    version is recorded, if ``before`` is ``None`` (there was no table), or if the table has no
    manifests. Do nothing unless ``delta.compatibility.symlinkFormatManifest.enabled`` is set. Never
    raise: the commits have succeeded, so a failure is a warning with the command to run.
    """
    store = log.store
    try:
        log.update()
        snapshot = log.snapshot()
        if not snapshot.properties.refreshes_manifests:
            return None
        has_manifests = before is not None and any(
            is_seen(name) for batch in store.walk(MANIFEST_DIR) for name in batch
        )
        since = read_recorded_version(snapshot) if has_manifests else None
        options = ManifestOptions(since=since)
        snapshot, live = load_table(log, None, snapshot)
        with closing(live):
            ensure_no_vectors(live, store.uri)
            plan = plan_manifests(
                log, snapshot, live, output=store, options=options, context=context
            )
            window_ms = write_manifests(plan, store, context.without_cancel())
        record_version(snapshot, context)
        return ManifestReport(plan, f"{store.uri}/{MANIFEST_DIR}", window_ms=window_ms)
    except DeltactlError as error:
        context.warn(
            f"the commit succeeded, but the manifests were not refreshed and still list old files: "
            f"{error.message}; run `deltactl generate-manifest {shlex.quote(store.uri)}`"
        )
        return None
