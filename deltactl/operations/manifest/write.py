"""Write the manifests of a plan, then delete those of removed partitions.

The version of the manifests is recorded, so that the next refresh catches up after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeVar

from deltactl.errors import DeltactlError, InterruptedRunError, StorageError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.leases import LastRun, read_last_run, write_last_run
from deltactl.operations.manifest.plan import ManifestPlan, ensure_distinct
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from deltactl.units import format_count

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

_RECORD: Final = "manifests"


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
            f"{len(failed)} manifests of removed partitions could not be deleted, such as "
            f"{name!r}: {error.message}",
            hint="Rerun, or delete these manifests. Until then, their readers return rows that "
            "were removed from the table.",
        )
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


def is_begun(plan: ManifestPlan, output: Store) -> bool:
    """Return whether the first manifest has been replaced; a local disk shows no partial file."""
    with suppress(StorageError):
        return plan.is_first_written(output)
    return False


def read_recorded_version(snapshot: Snapshot) -> int | None:
    """Return the version that all manifests had; ``None`` if it is not known."""
    last = read_last_run(snapshot.store, _RECORD)
    if last is None or last.table_id != snapshot.metadata.id or last.caught_up_version is None:
        return None
    # A later version is of an earlier table at this address.
    return last.caught_up_version if last.caught_up_version <= snapshot.version else None


def record_version(snapshot: Snapshot, context: RunContext) -> None:
    """Record that all manifests have the version of a snapshot; a failure is a warning."""
    if not snapshot.properties.refreshes_manifests:
        return
    now_ms = context.clock.now_ms()
    run = LastRun(
        context.run_id or "",
        snapshot.metadata.id,
        now_ms,
        now_ms,
        caught_up_version=snapshot.version,
    )
    try:
        write_last_run(snapshot.store, _RECORD, run)
    except DeltactlError as error:
        context.warn(
            "the version of the manifests could not be recorded, so the next refresh compares more "
            f"of them: {error.message}"
        )
