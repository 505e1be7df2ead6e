"""``--min-interval`` and leases: skip a run that is too early, refuse one that overlaps another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from deltactl.cli.options.leases import LeaseOptions, is_dry_run, is_other_task
from deltactl.clock import SystemClock
from deltactl.errors import DeltactlError, TableError
from deltactl.units import format_duration, format_timestamp

if TYPE_CHECKING:
    from deltactl.cli.session import Session
    from deltactl.operations.leases import LastRun
    from deltactl.storage.store import Store


@contextmanager
def take_lease(session: Session, params: Mapping[str, Any]) -> Iterator[str | None]:
    """Hold the lease from the first change in this context, and record the run if it succeeds.

    A run that is refused before its first change leaves nothing behind. Yields the reason to skip
    the run, if there is one.

    Raises:
        LeaseHeldError: another run is active.
        StorageError: the storage failed.
    """
    options, dry_run = session.take(LeaseOptions), is_dry_run(params)
    if options.min_interval_ms is None and dry_run:
        yield None
        return
    from deltactl.operations.find_tables import is_table
    from deltactl.operations.leases import Holder, find_free, hold_lease

    store = session.open_store(session.table or "")
    if not is_table(store):  # the command reports it better, and nothing is written
        yield None
        return
    is_other = is_other_task(params)
    interval_ms = None if is_other else options.min_interval_ms
    early = None if interval_ms is None else _find_early(store, session, interval_ms)
    if early is not None or dry_run:
        yield early
        return
    clock = SystemClock()
    holder = Holder.here(session.run_id, clock)
    command = session.command or ""
    with ExitStack() as stack:
        if options.lease:
            free, lock, is_held = find_free(store, command, clock), Lock(), False

            def begin() -> None:
                nonlocal is_held
                with lock:
                    if not is_held:
                        lease = hold_lease(
                            store, command, holder, clock=clock, warn=session.output.warn, free=free
                        )
                        stack.enter_context(lease)
                        is_held = True

            session.begin_changes = begin
            stack.callback(setattr, session, "begin_changes", None)
        yield None
        if not (is_other or session.has_skipped):
            _write_down(store, session, holder.since_ms, clock.now_ms())


def _find_early(store: Store, session: Session, interval_ms: int) -> str | None:
    from deltactl.operations.leases import read_last_run

    last = read_last_run(store, session.command or "")
    now_ms = SystemClock().now_ms()
    # Ignore a time in the future: clocks differ.
    if last is None or not 0 <= now_ms - last.started_ms < interval_ms:
        return None
    if not _is_of(last, store, session):
        return None
    return (
        f"the last run began at {format_timestamp(last.started_ms)}, less than "
        f"{format_duration(interval_ms)} ago"
    )


def _is_of(last: LastRun, store: Store, session: Session) -> bool:
    """Return whether a run was on this table, not on an earlier one at the same address."""
    from deltactl.log.delta_log import DeltaLog

    try:
        return DeltaLog(store, session.output.warn).snapshot().metadata.id == last.table_id
    except TableError:  # the command reports it better
        return False


def _write_down(store: Store, session: Session, started_ms: int, ended_ms: int) -> None:
    from deltactl.operations.leases import LastRun, read_last_run, write_last_run

    table_id = session.table_id
    if table_id is None:  # no table was read, so nothing was done
        return
    command = session.command or ""
    try:
        version, commit = session.caught_up or (None, "")
        if version is None:
            last = read_last_run(store, command)
            if last is not None and last.table_id == table_id:
                version, commit = last.caught_up_version, last.commit
        run = LastRun(session.run_id, table_id, started_ms, ended_ms, version, commit=commit)
        write_last_run(store, command, run)
    except DeltactlError as error:
        session.output.warn(
            "this run could not be recorded, so later runs with --min-interval ignore it: "
            f"{error.message}"
        )
