"""Record the version of the manifests, so that the next refresh catches up after a crash.

The record is ``_deltactl/runs/manifests.json``. Only tables that refresh their manifests after each
commit have it.
"""

from __future__ import annotations

from typing import Final

from deltactl.errors import DeltactlError
from deltactl.log.snapshot import Snapshot
from deltactl.operations.leases import LastRun, read_last_run, write_last_run
from deltactl.operations.run_context import RunContext

_RECORD: Final = "manifests"


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
