"""``generate-manifest``: files for engines that read a table by lists of its data files.

snapshot -> content of each partition's manifest -> compare with what is there -> write new and
changed ones, each replaced whole -> delete those of partitions that are gone. In between,
partitions may show different versions; the report tells for how long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain, repeat
from typing import Final

from deltactl.clock import Clock, SystemClock
from deltactl.engine.base import CancelToken, Engine, OnProgress
from deltactl.errors import InterruptedRunError, StorageError, Warn
from deltactl.log.listing import outlast_cleanup
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.log.writing.put import Sleep
from deltactl.operations.columns import ensure_columns
from deltactl.operations.manifest.content import (
    LiveFiles,
    ensure_no_vectors,
    load_live_files,
)
from deltactl.operations.manifest.ddl import render_ddl
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.plan import ManifestPlan, plan_manifests
from deltactl.operations.manifest.report import ManifestReport
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.protocol.vacuum_names import MANIFEST_DIR
from deltactl.storage.store import Store

_log: Final = logging.getLogger(__name__)

__all__ = [
    "ManifestOptions",
    "ManifestPlan",
    "ManifestReport",
    "generate_manifests",
]


def generate_manifests(
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
    """Bring manifests in line with a version; with ``dry_run`` or ``options.check``, only compare.

    Args:
        store: the table's.
        options: see there.
        warn: takes what stops nothing.
        snapshot: the version wanted, where it is loaded already.
        output: where ``_symlink_format_manifest`` lies; in the table itself when ``None``.
        engine: where a purge runs.
        clock: measures how long partitions could differ.
        storage_options: for the workers of a purge.
        cancel: no manifest is begun once it is set.
        on_progress: of a purge.
        dry_run: change nothing.
        sleep: of a purge, after a lost race.

    Raises:
        UnsupportedFeatureError: deletion vectors or column mapping.
        SafetyError: the schema lacks columns that are needed.
        PredicateError: ``options.where`` is not about partition columns.
        InterruptedRunError: ``cancel`` was set; each manifest is old or new.
        StorageError: the store failed; each manifest is old or new.
        DeltactlError: no table there, no such version, a damaged log, or a purge failed.
    """
    clock, output = clock or SystemClock(), output or store
    snapshot, live = _look(store, options.version, warn, snapshot)
    writes = not (dry_run or options.check)
    purged_from = None
    if live.vectors and options.purge_first and writes:
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
    if live.vectors and options.purge_first and not writes:
        warn(f"{live.vectors} files have deletion vectors: a purge would rewrite them first")
    else:
        ensure_no_vectors(live, store.uri)
    if options.ddl:
        ensure_columns(snapshot, "write DDL")
    plan = plan_manifests(snapshot, live, output, options, now_ms=clock.now_ms(), warn=warn)
    root = f"{output.uri}/{MANIFEST_DIR}"
    ddl = tuple(render_ddl(snapshot, plan, root, options)) if options.ddl else ()
    if not writes:
        return ManifestReport(plan, root, dry_run=True, ddl=ddl)
    try:
        window_ms = _execute(plan, output, clock, warn, cancel)
    except InterruptedRunError as error:
        error.is_part_done = purged_from is not None or _is_begun(plan, output)
        raise
    return ManifestReport(plan, root, window_ms=window_ms, purged_from=purged_from, ddl=ddl)


def _look(
    store: Store, version: int | None, warn: Warn, given: Snapshot | None = None
) -> tuple[Snapshot, LiveFiles]:
    snapshots = chain([given] if given else [], repeat(None))

    def look() -> tuple[Snapshot, LiveFiles]:
        snapshot = next(snapshots) or load_snapshot(store, version, warn=warn)
        return snapshot, load_live_files(snapshot)

    return outlast_cleanup(look)


def _execute(
    plan: ManifestPlan, output: Store, clock: Clock, warn: Warn, cancel: CancelToken | None
) -> int | None:
    """Write, then delete; give how long that took, ``None`` where nothing was to be done."""
    left = output.delete_many(plan.leftovers) if plan.leftovers else {}
    if left:
        warn(f"{len(left)} hidden files of killed runs could not be removed, such as {min(left)!r}")
    if plan.is_empty:
        return None
    started = clock.monotonic()
    _log.info("%s: writing manifests of version %d", output.uri, plan.version)
    output.put_many(_until_cancelled(plan.iter_writes(), cancel))
    # Last: until then readers of a vanished partition find its files, which a vacuum still spares.
    failed = output.delete_many(plan.stale)
    if failed:
        name, error = next(iter(failed.items()))
        raise StorageError(
            f"{len(failed)} manifests of vanished partitions could not be deleted, such as "
            f"{name!r}: {error.message}",
            hint="Readers still find the files that they name. Delete them, or run again.",
        )
    return round((clock.monotonic() - started) * 1000)


def _until_cancelled(
    files: Iterator[tuple[str, bytes]], cancel: CancelToken | None
) -> Iterator[tuple[str, bytes]]:
    """The files; raises before the next, or after the last, once ``cancel`` is set."""
    for file in files:
        _ensure_wanted(cancel)
        yield file
    _ensure_wanted(cancel)


def _ensure_wanted(cancel: CancelToken | None) -> None:
    if cancel is not None and cancel.is_set():
        raise InterruptedRunError(
            "interrupted; each manifest is new or as it was", hint="Run again."
        )


def _is_begun(plan: ManifestPlan, output: Store) -> bool:
    """Whether the first manifest to be written is new already: a disk shows none for long."""
    first = next(plan.iter_writes(), None)
    if first is None:
        return False
    name, content = first
    with suppress(StorageError):
        return output.read(name) == content
    return False


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
    # Here, because optimize refreshes manifests itself after its commits.
    from deltactl.operations.optimize.run import optimize_table

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
    return _look(store, None, warn)
