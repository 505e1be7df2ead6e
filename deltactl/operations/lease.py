"""A lease: a run of a command on a table announces itself, so that work is not done twice.

    _deltactl/leases/<command>.<number>.json

It is advisory, not needed for correctness: concurrent runs are safe without it, and a run that
loses its lease continues. The highest number that has not expired is valid. A run takes the lease
by creating the next number exclusively, then lists again; if another lease is valid, it gives up.

A killed run cannot release its lease. A run on the same machine sees that the process no longer
exists and ignores the lease; on other machines it has to expire.
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
"""How long a lease is valid after its last renewal, in ms."""

_log: Final = logging.getLogger(__name__)
_FOLDER: Final = f"{OWN_DIR}/leases"
_RENEWALS: Final = 3
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lease; times in ms since 1970 UTC.

    ``processes`` identifies the process namespace of ``pid``: see :func:`name_processes`.
    """

    run_id: str
    host: str
    pid: int
    since_ms: int
    expires_ms: int
    processes: str = ""

    def describe(self) -> str:
        """Return the holder, its start and the expiry as text."""
        return (
            f"run {self.run_id} on {self.host} (pid {self.pid}), since "
            f"{format_timestamp(self.since_ms)}, until {format_timestamp(self.expires_ms)} unless "
            "it is renewed"
        )

    def is_gone(self) -> bool:
        """Return whether its process was on this machine and certainly no longer exists."""
        if not self.processes or self.processes != name_processes():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (
            OSError,
            OverflowError,
        ):  # it exists but belongs to another user, or the number is invalid
            pass
        return False


def name_processes() -> str:
    """Return an id of the visible process namespace, or ``""`` if unknown.

    On Linux, the boot id and the pid namespace: hosts, and containers on one host, may have the
    same name.
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
    """Hold the lease of a command during the context; renew it, and release it at the end.

    If the store cannot create files exclusively, or not at all, the run continues without a lease.

    Raises:
        LeaseHeldError: another run holds it.
    """
    try:
        name = _acquire(store, command, holder, clock)
    except LeaseHeldError:
        raise
    except DeltactlError as error:
        warn(f"running without a lease, so other runs are not excluded: {error.message}")
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
    """Take the lease; return the name of its file."""
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
        store.delete_many([info.name for info in now.values()])  # none of them is valid
        return name
    raise LeaseHeldError(
        f"many runs of {command} start on this table at the same time", hint="Rerun later."
    )


def _ensure_free(store: Store, command: str, found: dict[int, FileInfo], clock: Clock) -> None:
    for number in sorted(found, reverse=True):
        holder = _read(store, found[number])
        if holder is None or holder.is_gone():
            continue
        if holder.expires_ms > clock.now_ms():
            raise LeaseHeldError(
                f"another {command} is running on this table: {holder.describe()}",
                hint="Rerun later, or rerun with --no-lease, which is safe but may do work twice.",
            )


def _list(store: Store, command: str) -> dict[int, FileInfo]:
    """Return the lease files of a command by number."""
    pattern = re.compile(rf"{re.escape(command)}\.(\d{{8,18}})\.json")
    infos = store.list_from(_FOLDER, f"{command}.")
    matches = ((pattern.fullmatch(info.name.rpartition("/")[2]), info) for info in infos)
    return {int(match[1]): info for match, info in matches if match}


def _read(store: Store, info: FileInfo) -> Holder | None:
    """Return the holder in a file; an unreadable lease is valid until it is old enough."""
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
    """Return whether the existing file was created by an earlier attempt of this run."""
    try:
        return store.read(name) == _encode(holder)
    except ObjectNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class _Renewal:
    """Renews a lease until it is released or lost."""

    store: Store
    name: str
    holder: Holder
    clock: Clock
    warn: Warn
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.over.wait(LEASE_MS / 1000 / _RENEWALS):
            with suppress(DeltactlError):  # the next renewal may succeed
                if not self.renew():
                    self.warn("another run took the lease on this table; this one continues")
                    return

    def renew(self) -> bool:
        """Extend the lease, unless it expired and another run took it."""
        if self.store.stat_many([self.name])[0] is None:
            return False
        later = replace(self.holder, expires_ms=self.clock.now_ms() + LEASE_MS)
        self.store.put(self.name, _encode(later))
        return True


def _encode(holder: Holder) -> bytes:
    return (json.dumps(asdict(holder), indent=2) + "\n").encode()
