"""``generate-manifest --purge-first``: rewrite files with deleted rows, then write manifests."""

from __future__ import annotations

from dataclasses import replace

from deltactl.errors import InterruptedRunError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.manifest.content import ManifestLines, load_table
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.place import choose_place
from deltactl.operations.manifest.plan import find_vectors
from deltactl.operations.manifest.record import Writing
from deltactl.operations.manifest.report import ManifestReport
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.storage.store import Store


def generate_after_purge(
    log: DeltaLog,
    options: ManifestOptions,
    context: RunContext,
    *,
    output: Store | None = None,
    dry_run: bool = False,
) -> ManifestReport:
    """Generate manifests; before that, with ``options.purge_first``, purge their partitions.

    See ``generate_manifests``; ``context`` runs the purge, too.

    Raises:
        SafetyError: ``output`` is in a log, or of another table.
        DeltactlError: the purge or ``generate_manifests`` failed.
    """
    snapshot: Snapshot | None = None
    lines: ManifestLines | None = None
    purged_from = None
    output = choose_place(log.store, output)
    if options.purge_first and not (dry_run or options.check):
        snapshot, lines = load_table(log, options.version, schemes=options.schemes)
        try:
            # The manifests of more partitions may be outdated.
            quiet = replace(context, warn=ignore_warning)
            since = Writing(log, output, quiet).read().limit_since(snapshot, options.since)
            chosen = replace(options, since=since)
            folders = find_vectors(log, snapshot, lines, chosen, context)
        except BaseException:
            lines.close()
            raise
        if folders:
            lines.close()
            purged_from = snapshot.version
            is_whole = chosen.where is None and chosen.since is None
            _purge(log, context, None if is_whole else frozenset(folders))
            snapshot, lines = load_table(log, None, schemes=options.schemes)
    try:
        report = generate_manifests(
            log, options, context, snapshot=snapshot, lines=lines, output=output, dry_run=dry_run
        )
    except InterruptedRunError as error:
        error.is_part_done = error.is_part_done or purged_from is not None
        raise
    return replace(report, purged_from=purged_from)


def _purge(log: DeltaLog, context: RunContext, partitions: frozenset[str] | None) -> None:
    from deltactl.operations.optimize.options import OptimizeOptions
    from deltactl.operations.optimize.run import optimize_table

    report = optimize_table(log, OptimizeOptions(purge=True, partitions=partitions), context)
    if report.interrupted:
        raise InterruptedRunError(
            "interrupted during the purge",
            is_part_done=bool(report.versions),
            hint=f"Rerun with {option('purge_first', True)}.",
        )
    if error := report.find_error():
        raise error
