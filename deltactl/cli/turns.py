"""Whose turn it is: a run that is too early is skipped, one that overlaps another refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from deltactl.cli.options.groups import Group
from deltactl.clock import SystemClock
from deltactl.errors import DeltactlError, TableError
from deltactl.units import format_duration, format_timestamp, parse_duration

if TYPE_CHECKING:
    from deltactl.cli.session import Session
    from deltactl.operations.last_run import LastRun
    from deltactl.storage.store import Store

MinIntervalOption = Annotated[
    str | None,
    typer.Option(
        "--min-interval",
        metavar="TIME",
        help="Do nothing if the last run that ended well began within this time  "
        "[default: always run]",
        show_default=False,
        rich_help_panel=Group.SELECTION,
    ),
]
NoLeaseOption = Annotated[
    bool,
    typer.Option(
        "--no-lease",
        help="Run even if another run of this command is at work on the table",
        rich_help_panel=Group.SAFETY,
    ),
]


_LOOKS: Final = ("check", "dry_run")
_ASIDE: Final = ("cleanup_only", "purge_quarantine", "repair", "undo")


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """When a run may begin.

    ``is_look`` is for one that changes nothing and needs no turn, ``is_aside`` for one that does
    something else than the command does every night.
    """

    min_interval_ms: int | None = None
    has_lease: bool = True
    is_look: bool = False
    is_aside: bool = False

    @classmethod
    def take(cls, params: dict[str, Any]) -> TurnOptions:
        """Move these options out of parsed parameters.

        Raises:
            UsageError: a time that cannot be understood.
        """
        interval = params.pop("min_interval", None)
        return cls(
            None if interval is None else parse_duration(interval),
            not params.pop("no_lease", False),
            any(params.get(name) for name in _LOOKS),
            any(params.get(name) for name in _ASIDE),
        )


def declare_turn_options(
    min_interval: MinIntervalOption = None, no_lease: NoLeaseOption = False
) -> None:
    """Carry the declarations above in the only form that Typer reads: a signature."""


@contextmanager
def take_turn(session: Session, options: TurnOptions) -> Iterator[str | None]:
    """Hold the lease while the context lasts, and write the run down if it ends well.

    Gives the reason why the run is to be skipped, if it is.

    Raises:
        LeaseHeldError: another run is at work.
        StorageError: the storage failed.
    """
    if options.is_look and options.min_interval_ms is None:
        yield None
        return
    import socket

    from deltactl.operations.find_tables import is_table
    from deltactl.operations.lease import LEASE_MS, Holder, hold_lease, name_processes

    store = session.open_store(session.table or "")
    if not is_table(store):  # the command says so better, and nothing is written there
        yield None
        return
    early = _find_early(store, session, options)
    if early is not None or options.is_look:
        yield early
        return
    clock = SystemClock()
    started_ms = clock.now_ms()
    holder = Holder(
        session.run_id,
        socket.gethostname(),
        os.getpid(),
        started_ms,
        started_ms + LEASE_MS,
        name_processes(),
    )
    command = session.command or ""
    lease = hold_lease(store, command, holder, clock=clock, warn=session.output.warn)
    with lease if options.has_lease else nullcontext():
        yield None
        if not (options.is_aside or session.has_skipped):
            _write_down(store, session, started_ms, clock.now_ms())


def _find_early(store: Store, session: Session, options: TurnOptions) -> str | None:
    from deltactl.operations.last_run import read_last_run

    if options.min_interval_ms is None or options.is_aside:
        return None
    last = read_last_run(store, session.command or "")
    now_ms = SystemClock().now_ms()
    # A time from the future says nothing: clocks differ.
    if last is None or not 0 <= now_ms - last.started_ms < options.min_interval_ms:
        return None
    if not _is_of(last, store, session):
        return None
    return (
        f"the last run began at {format_timestamp(last.started_ms)}, less than "
        f"{format_duration(options.min_interval_ms)} ago"
    )


def _is_of(last: LastRun, store: Store, session: Session) -> bool:
    """Whether a run was on this table, and not on one that stood here before."""
    from deltactl.log.snapshot import load_snapshot

    try:
        return load_snapshot(store, warn=session.output.warn).metadata.id == last.table_id
    except TableError:  # the command says so better
        return False


def _write_down(store: Store, session: Session, started_ms: int, ended_ms: int) -> None:
    from deltactl.operations.last_run import LastRun, read_last_run, write_last_run

    table_id = session.table_id
    if table_id is None:  # nothing was read, so nothing was done
        return
    command = session.command or ""
    try:
        caught_up = session.caught_up_version
        if caught_up is None:
            last = read_last_run(store, command)
            if last is not None and last.table_id == table_id:
                caught_up = last.caught_up_version
        run = LastRun(session.run_id, table_id, started_ms, ended_ms, caught_up)
        write_last_run(store, command, run)
    except DeltactlError as error:
        session.output.warn(
            f"the run could not be written down for --min-interval: {error.message}"
        )
