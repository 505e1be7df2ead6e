"""``generate-manifest --purge-first``: rewrite files with deleted rows, then write manifests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from deltactl.clock import Clock, SystemClock
from deltactl.engine.base import CancelToken, Engine, OnProgress
from deltactl.errors import InterruptedRunError, Warn
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.put import Sleep
from deltactl.operations.manifest.content import LiveFiles, load_table
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.report import ManifestReport
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.run import optimize_table
from deltactl.storage.store import Store


def generate_after_purge(
    store: Store,
    options: ManifestOptions,
    *,
    warn: Warn,
    snapshot: Snapshot | None = None,
    output: Store | None = None,
    engine: Engine | None = None,
    clock: Clock | None = None,
    storage_options: Mapping[str, str] | None = None,
    cancel: CancelToken | None = None,
    on_progress: OnProgress | None = None,
    dry_run: bool = False,
    sleep: Sleep = time.sleep,
) -> ManifestReport:
    """Generate manifests; before that, with ``options.purge_first``, purge the table.

    Args:
        store: the store of the table.
        options: the options of ``generate_manifests``.
        warn: receives warnings.
        snapshot: the version, if it is already loaded.
        output: contains ``_symlink_format_manifest``; the table itself if ``None``.
        engine: runs the purge.
        clock: measures how long partitions could differ.
        storage_options: for the workers of a purge.
        cancel: once set, no further manifest is written.
        on_progress: of a purge.
        dry_run: change nothing.
        sleep: waits between commit attempts of a purge.

    Raises:
        DeltactlError: the purge or ``generate_manifests`` failed.
    """
    clock = clock or SystemClock()
    live: LiveFiles | None = None
    purged_from = None
    if options.purge_first and not (dry_run or options.check):
        snapshot, live = load_table(store, options.version, warn, snapshot)
        if live.vectors:
            purged_from = snapshot.version
            snapshot, live = _purge(
                store,
                warn=warn,
                engine=engine,
                clock=clock,
                storage_options=storage_options,
                cancel=cancel,
                on_progress=on_progress,
                sleep=sleep,
            )
    try:
        report = generate_manifests(
            store,
            options,
            warn=warn,
            snapshot=snapshot,
            live=live,
            output=output,
            clock=clock,
            cancel=cancel,
            dry_run=dry_run,
        )
    except InterruptedRunError as error:
        error.is_part_done = error.is_part_done or purged_from is not None
        raise
    return replace(report, purged_from=purged_from)


def _purge(
    store: Store,
    *,
    warn: Warn,
    engine: Engine | None,
    clock: Clock,
    storage_options: Mapping[str, str] | None,
    cancel: CancelToken | None,
    on_progress: OnProgress | None,
    sleep: Sleep,
) -> tuple[Snapshot, LiveFiles]:
    report = optimize_table(
        store,
        OptimizeOptions(purge=True),
        warn=warn,
        engine=engine,
        clock=clock,
        storage_options=storage_options,
        cancel=cancel,
        on_progress=on_progress,
        sleep=sleep,
    )
    if report.interrupted:
        raise InterruptedRunError(
            "interrupted during the purge", is_part_done=bool(report.versions), hint="Run again."
        )
    return load_table(store, None, warn)
