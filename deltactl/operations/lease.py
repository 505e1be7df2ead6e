"""A lease: who runs a command on a table tells others, so that two runs do not do the work twice.

    _deltactl/leases/<command>.<number>.json

It is advice and no part of correctness: two runs at a time are safe without it, and a run that
loses its lease goes on. The highest number that has not expired holds. It is taken by creating the
next number exclusively, then looking once more; whoever then sees another that holds gives way.

A run that was killed cannot give its lease back. Who runs on the same machine sees that the process
is no more and does not wait for the end of the lease; elsewhere it has to expire.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from deltactl.clock import Clock
from deltactl.errors import (
    DeltactlError,
    LeaseHeldError,
    ObjectExistsError,
    ObjectNotFoundError,
    Warn,
)
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import FileInfo, Store
from deltactl.units import format_timestamp

LEASE_MS: Final = 15 * 60 * 1000
"""How long a lease holds after its last renewal, in ms."""

_log: Final = logging.getLogger(__name__)
_FOLDER: Final = f"{OWN_DIR}/leases"
_RENEWALS: Final = 3
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease; times in ms since 1970 UTC.

    ``processes`` names the set of processes that ``pid`` belongs to: see :func:`name_processes`.
    """

    run_id: str
    host: str
    pid: int
    since_ms: int
    expires_ms: int
    processes: str = ""

    def describe(self) -> str:
        """Say who, since when and until when."""
        return (
            f"run {self.run_id} on {self.host} (pid {self.pid}), since "
            f"{format_timestamp(self.since_ms)}, until {format_timestamp(self.expires_ms)} unless "
            "it is renewed"
        )

    def is_gone(self) -> bool:
        """Whether its process is surely no more: a process of this machine that is not there."""
        if not self.processes or self.processes != name_processes():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):  # somebody else's and there, or no number of a process
            pass
        return False


def name_processes() -> str:
    """Name the processes that can be seen from here, or give ``""`` where that cannot be told.

    On Linux the start of the machine and the space of process numbers: hosts, and containers on one
    of them, may well have the same name.
    """
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{started} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


@contextmanager
def hold_lease(
    store: Store, command: str, holder: Holder, *, clock: Clock, warn: Warn
) -> Iterator[None]:
    """Hold the lease of a command while the context lasts; renew it, and give it back.

    Where the store cannot create exclusively, or not at all, the run goes on without.

    Raises:
        LeaseHeldError: another run holds it.
    """
    try:
        name = _acquire(store, command, holder, clock)
    except LeaseHeldError:
        raise
    except DeltactlError as error:
        warn(f"running without a lease, other runs are not kept away: {error.message}")
        yield
        return
    _log.info("%s: holding %s until the run ends", store.uri, name)
    renewal = _Renewal(store, name, holder, clock, warn)
    thread = threading.Thread(target=renewal.run, name="deltactl-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        renewal.over.set()
        thread.join()
        with suppress(DeltactlError):  # it expires
            store.delete_many([name])


def _acquire(store: Store, command: str, holder: Holder, clock: Clock) -> str:
    """Take the lease; give the name of its file."""
    for _ in range(_TRIES):
        found = _list(store, command)
        _ensure_free(store, command, found, clock)
        name = f"{_FOLDER}/{command}.{max(found, default=0) + 1:08d}.json"
        try:
            store.put_if_absent(name, _encode(holder))
        except ObjectExistsError:
            if not _is_ours(store, name, holder):
                continue
        now = _list(store, command)
        now = {number: info for number, info in now.items() if info.name != name}
        try:
            _ensure_free(store, command, now, clock)
        except LeaseHeldError:
            store.delete_many([name])
            raise
        store.delete_many([info.name for info in now.values()])  # none of them holds
        return name
    raise LeaseHeldError(
        f"many runs of {command} want this table at the same time", hint="run again later"
    )


def _ensure_free(store: Store, command: str, found: dict[int, FileInfo], clock: Clock) -> None:
    for number in sorted(found, reverse=True):
        holder = _read(store, found[number])
        if holder is None or holder.is_gone():
            continue
        if holder.expires_ms > clock.now_ms():
            raise LeaseHeldError(
                f"another {command} is at work on this table: {holder.describe()}",
                hint="run again later; --no-lease goes ahead, which is safe and does work twice",
            )


def _list(store: Store, command: str) -> dict[int, FileInfo]:
    """The files of a command's leases by number."""
    pattern = re.compile(rf"{re.escape(command)}\.(\d{{8,18}})\.json")
    infos = store.list_from(_FOLDER, f"{command}.")
    matches = ((pattern.fullmatch(info.name.rpartition("/")[2]), info) for info in infos)
    return {int(match[1]): info for match, info in matches if match}


def _read(store: Store, info: FileInfo) -> Holder | None:
    """The holder by a file; whoever wrote what cannot be read holds until it is old enough."""
    try:
        said = json.loads(store.read(info.name))
        return Holder(
            str(said["run_id"]),
            str(said["host"]),
            int(said["pid"]),
            int(said["since_ms"]),
            int(said["expires_ms"]),
            str(said.get("processes", "")),
        )
    except ObjectNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        written = info.modified_ms
        return Holder("unknown", "an unknown host", 0, written, written + LEASE_MS)


def _is_ours(store: Store, name: str, holder: Holder) -> bool:
    """Whether a retry of the library found what its own first try had created."""
    try:
        return store.read(name) == _encode(holder)
    except ObjectNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class _Renewal:
    """Renews a lease until it is over."""

    store: Store
    name: str
    holder: Holder
    clock: Clock
    warn: Warn
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.wait(LEASE_MS / 1000 / _RENEWALS):
            with suppress(DeltactlError):  # the next time will do
                if not self.renew():
                    self.warn("the lease on this table was lost to another run; this one goes on")
                    return

    def renew(self) -> bool:
        """Write a later end down; not where the lease expired and was taken over."""
        if self.store.stat_many([self.name])[0] is None:
            return False
        later = replace(self.holder, expires_ms=self.clock.now_ms() + LEASE_MS)
        self.store.put(self.name, _encode(later))
        return True


def _encode(holder: Holder) -> bytes:
    return (json.dumps(asdict(holder), indent=2) + "\n").encode()
