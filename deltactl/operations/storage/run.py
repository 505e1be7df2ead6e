"""``describe-detail --storage``: what the files of a table are for, and what they cost.

One listing, or an inventory, and one pass over the log, as for a dry run of a full vacuum.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from deltactl.errors import ConflictError, SafetyError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.file_kinds import log_file_kinds
from deltactl.log.upkeep.cleanup import plan_cleanup
from deltactl.operations.run_context import RunContext
from deltactl.operations.storage.expiry import find_expiry
from deltactl.operations.storage.options import StorageOptions
from deltactl.operations.storage.reasons import find_reasons, has_role, sum_reasons
from deltactl.operations.storage.report import Reason, StorageReport, Use
from deltactl.operations.stored_files import Listing, list_facts
from deltactl.operations.vacuum.candidates import Sorting
from deltactl.operations.vacuum.kept_files import OtherTables, reads_iceberg
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.planner import Planner
from deltactl.operations.vacuum.run import open_planner
from deltactl.option_names import option


def survey_storage(
    log: DeltaLog, options: StorageOptions, context: RunContext, *, orphans: Orphans = "keep"
) -> StorageReport:
    """Report the files below the root of a table. What a vacuum removes depends on ``orphans``.

    Raises:
        DeltactlError: as for a dry run of ``vacuum``, except that a shallow clone that cannot be
            read only warns; or the inventory cannot be read.
    """
    return log.retry_after_cleanup(lambda: _survey(log, options, context, orphans))


def _survey(
    log: DeltaLog, options: StorageOptions, context: RunContext, orphans: Orphans
) -> StorageReport:
    vacuum_options = VacuumOptions(mode="full", inventory=options.inventory)
    planner, _ = open_planner(log, vacuum_options, orphans, context)
    planner.read_others = cache(lambda: list(_read_others(planner)))
    listing = _list(log, options, context)
    return _report(planner, listing, planner.sort_files(listing), options)


def _read_others(planner: Planner) -> Iterator[pa.ChunkedArray]:
    """Yield the names that other tables reference; a clone that cannot be read only warns."""
    context = planner.context
    tables = OtherTables(planner.snapshot, context)
    for note in planner.clones:
        try:
            yield from tables.names_for_clones([note])
        except (SafetyError, ConflictError) as error:
            context.warn(
                f"{error.message}. Its files are counted as if it did not use them, but a vacuum "
                "would be refused"
            )
    if reads_iceberg(planner.snapshot):
        yield from tables.names_for_iceberg()


def _list(log: DeltaLog, options: StorageOptions, context: RunContext) -> Listing:
    if options.inventory is None:
        return list_facts(log.store)
    # Readers of other formats are slow to import.
    from deltactl.operations.vacuum.inventory import read_inventory

    storage_options = context.storage_options
    listing = read_inventory(log.store, options.inventory, storage_options, facts=True)
    if log_file_kinds(listing.files).null_count == len(listing.files):
        context.warn(f"{option('inventory')} has no file of the log: the log is not counted")
    return listing


def _report(
    planner: Planner, listing: Listing, sorting: Sorting, options: StorageOptions
) -> StorageReport:
    assert listing.facts is not None
    retain_ms, now_ms = planner.retention.retain_ms, planner.retention.now_ms
    codes = find_reasons(listing, sorting)
    reasons = sum_reasons(codes, listing.facts["size_bytes"].to_numpy())
    kept = listing.rows().filter(pa.array(has_role(sorting, "retained")))
    expiry = find_expiry(planner, kept)
    removable = reasons.get(Reason.REMOVABLE, Use(0, 0)).bytes
    versions = planner.snapshot.store.versions
    to_free = -(-sum(use.bytes for use in reasons.values()) // 2) - removable
    return StorageReport(
        version=planner.snapshot.version,
        table_id=planner.snapshot.metadata.id,
        is_listed=options.inventory is None,
        retention_ms=retain_ms,
        reasons=reasons,
        removable=sorting.removable,
        versions=expiry.by_version(retain_ms),
        days=expiry.by_day(retain_ms, now_ms),
        cleanup=_find_cleanup(planner, now_ms),
        halving_ms=retain_ms if to_free <= 0 else expiry.find_retention(to_free, now_ms),
        price=options.price,
        not_counted=None if versions is None else versions.term,
    )


def _find_cleanup(planner: Planner, now_ms: int) -> Use | None:
    """Return the log files that a cleanup deletes after a checkpoint of the latest version."""
    snapshot = planner.snapshot
    try:
        plan = plan_cleanup(planner.log, snapshot, now_ms, planned=snapshot.version)
    except SafetyError as error:
        planner.context.warn(f"a log cleanup would be refused: {error.message}")
        return None
    return Use(len(plan.files), plan.size_bytes)
