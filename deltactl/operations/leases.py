"""Take the lease of a run on a table, and read and write the record of the last run.

    _deltactl/leases/<command>.<number>.json
    _deltactl/runs/<command>.json

Both are advisory; correctness does not depend on them. Without a lease, two runs at the same time
are safe but may do work twice; a run that loses its lease continues. Without a record, a command
does all pending work.

The active lease is the one with the highest number that has not expired. A run creates the lease
with the next number exclusively, then lists the leases again. The listing shows the time of its own
lease, by the clock of the store: if another lease is active at this time, the run deletes its own
lease and fails.

A run that was killed cannot delete its lease. On the same machine, another run sees that the
process does not exist, and begins at once. On another machine, it must wait until the lease
expires. If the clocks of both the run and the store were ahead, the lease would last for years: the
next run writes it again, so that it expires unless its run renews it. A run may also end without
the deletion of its lease while its process lives on, as if the store fails. So the lease of a
process that runs is not respected long after its expiry either, and in this process only if the run
has not ended.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from deltactl.clock import Clock
from deltactl.errors import (
    AccessDeniedError,
    DeltactlError,
    LeaseHeldError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    TransientStorageError,
    Warn,
)
from deltactl.option_names import option
from deltactl.storage.names import OWN_DIR
from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.store import FileInfo, Store
from deltactl.units import DAY_MS, HOUR_MS, format_timestamp

LEASE_MS: Final = 15 * 60 * 1000
"""How long a lease is valid after its last renewal, in ms."""

_log: Final = logging.getLogger(__name__)
LEASES_DIR: Final = f"{OWN_DIR}/leases"
_RUNS: Final = f"{OWN_DIR}/runs"
_RENEWALS: Final = 3
_TRIES: Final = 5
_LATE_MS: Final = HOUR_MS  # of renewals, as while the process is suspended or the store fails
_in_progress: Final[list[str]] = []  # the run ids of the leases that this process holds


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lease; times in ms since 1970 UTC.

    ``processes`` identifies the process namespace of ``pid``: see :func:`name_processes`.
    ``started`` is the time at which the process started, as the kernel counts it.
    """

    run_id: str
    host: str
    pid: int
    since_ms: int
    expires_ms: int
    processes: str = ""
    started: str = ""

    @classmethod
    def here(cls, run_id: str, clock: Clock) -> Holder:
        """Return a run of this process, with a lease that begins now."""
        now_ms = clock.now_ms()
        host, pid = socket.gethostname(), os.getpid()
        return cls(run_id, host, pid, now_ms, now_ms + LEASE_MS, name_processes(), _read_start(pid))

    @classmethod
    def parse(cls, found: Any) -> Holder:
        """Return a holder from its JSON form.

        Raises:
            ValueError, KeyError, TypeError: it is not one.
        """
        return cls(
            str(found["run_id"]),
            str(found["host"]),
            int(found["pid"]),
            int(found["since_ms"]),
            int(found["expires_ms"]),
            str(found.get("processes", "")),
            str(found.get("started", "")),
        )

    def describe(self) -> str:
        """Return a text with the holder, the start and the expiry."""
        where = f"{self.host} (pid {self.pid})" if self.pid else self.host
        since = f", since {format_timestamp(self.since_ms)}" if self.since_ms else ""
        until = format_timestamp(self.expires_ms)
        return f"run {self.run_id} on {where}{since}, until {until} unless it is renewed"

    def is_running(self) -> bool | None:
        """Return whether its process runs on this machine; ``None`` if this is not known."""
        if not self.processes or self.processes != name_processes():
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):  # exists, of another user; or not a valid process number
            pass
        started = _read_start(self.pid)
        # A later process may have the same number.
        return self.started == started if self.started and started else None

    def holds(self, now_ms: int) -> bool:
        """Return whether the lease is held: not if its process has ended, nor long after expiry."""
        running = self.is_running()
        if running and self.pid == os.getpid():
            return self.run_id in _in_progress
        late_ms = _LATE_MS if running else 0
        return running is not False and self.expires_ms + late_ms > now_ms


def name_processes() -> str:
    """Return an id of the process namespace of this process; ``""`` if it is not known.

    On Linux: the boot id of the machine and its PID namespace. Host names are not enough, because
    machines and containers may have the same one.
    """
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{started} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def find_free(store: Store, command: str, clock: Clock) -> dict[int, FileInfo] | None:
    """Return the unheld lease files of a command by number; ``None`` if the store failed.

    Raises:
        LeaseHeldError: another run holds the lease.
    """
    try:
        found = _list(store, command)
        _ensure_free(store, command, found, clock.now_ms())
    except LeaseHeldError:
        raise
    except DeltactlError:
        return None  # hold_lease tries again
    return found


def _read_start(pid: int) -> str:
    """Return when a process started, in ticks since the boot; ``""`` if it is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        return stat.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@contextmanager
def hold_lease(
    store: Store,
    command: str,
    holder: Holder,
    *,
    clock: Clock,
    warn: Warn,
    free: dict[int, FileInfo] | None = None,
) -> Iterator[None]:
    """Hold the lease of a command inside the block: renew it, and delete it at the end.

    If the store cannot write, or cannot create exclusively, the run continues without a lease, and
    warns when it succeeded.
    ``free``: what ``find_free`` found before; ``None``: look again.

    Raises:
        LeaseHeldError: another run holds it.
    """
    lease, failed = _Lease(store, command, holder, clock, warn), None
    try:
        _in_progress.append(holder.run_id)
        try:
            lease.acquire(free)
        except LeaseHeldError:
            raise
        except DeltactlError as error:
            _log.info("%s: no lease: %s", store.uri, error.message)
            lease.release()
            failed = error
        yield  # a run that fails, often by the same cause, says only its own error
    finally:
        try:
            lease.release()
        finally:
            with suppress(ValueError):  # an exception arrived before
                _in_progress.remove(holder.run_id)
    if failed is not None:
        warn(f"this run had no lease, so another run may have overlapped it: {failed.message}")


def _ensure_free(store: Store, command: str, found: dict[int, FileInfo], now_ms: int) -> None:
    for number in sorted(found, reverse=True):
        holder = _read(store, found[number])
        if holder is not None and holder.holds(now_ms):
            if found[number].modified_ms > now_ms + DAY_MS:
                holder = _date_again(store, found[number].name) or holder
            raise LeaseHeldError(
                f"another {command} is running on this table: {holder.describe()}",
                hint=f"Rerun later, or rerun with {option('lease', False)}: two runs at a time "
                "are safe, but may do the same work twice.",
            )


def _date_again(store: Store, name: str) -> Holder | None:
    """Write a lease file again, which gets the time of the store; return its holder.

    If the run was killed, the lease then expires; if not, its next renewal replaces the file.
    Return ``None`` if this fails, or if the run has ended.
    """
    try:
        store.put(name, store.read(name))
        info = store.stat_many([name])[0]
        return None if info is None else _read(store, info)
    except DeltactlError as error:
        _log.info("%s: %s keeps its time: %s", store.uri, name, error.message)
        return None


def list_leases(store: Store, now_ms: int) -> list[Holder]:
    """Return the holders of the leases that are held at a time, of any command."""
    return read_leases(store, store.list_from(LEASES_DIR), now_ms)


def read_leases(store: Store, infos: Iterable[FileInfo], now_ms: int) -> list[Holder]:
    """Return the holders of those of the listed leases that are held at a time."""
    holders = (_read(store, info) for info in infos if info.name.endswith(".json"))
    return [holder for holder in holders if holder and holder.holds(now_ms)]


def _list(store: Store, command: str) -> dict[int, FileInfo]:
    """Return the lease files of a command by number."""
    pattern = re.compile(rf"{re.escape(command)}\.(\d{{8,18}})\.json")
    infos = store.list_from(LEASES_DIR, f"{command}.")
    matches = ((pattern.fullmatch(info.name.rpartition("/")[2]), info) for info in infos)
    return {int(match[1]): info for match, info in matches if match}


def _read(store: Store, info: FileInfo) -> Holder | None:
    """Return the holder in a lease file.

    A file that is invalid, or that only another user can read, is respected until it would have
    expired; nobody knows when its run began. A holder whose clock is ahead holds for at most a day
    longer, and began at the latest when the file was written.
    """
    try:
        holder = Holder.parse(json.loads(store.read(info.name)))
        latest_ms = info.modified_ms + LEASE_MS + DAY_MS
        return replace(
            holder,
            since_ms=min(holder.since_ms, info.modified_ms),
            expires_ms=min(holder.expires_ms, latest_ms),
        )
    except ObjectNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AccessDeniedError):
        return Holder("unknown", "an unknown host", 0, 0, info.modified_ms + LEASE_MS)


@dataclass(slots=True)
class _Lease:
    """The lease of one run.

    Whatever happens is noted before it begins, because the handler of a signal may raise an
    exception at any point: ``release`` must then find the file and the thread.
    """

    store: Store
    command: str
    holder: Holder
    clock: Clock
    warn: Warn
    name: str = ""
    is_created: bool = False
    renewal: threading.Thread | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def acquire(self, free: dict[int, FileInfo] | None) -> None:
        """Create the file of the lease, and renew it from now on.

        Raises:
            LeaseHeldError: another run holds it.
        """
        for _ in range(_TRIES):
            found, free = free, None  # a second attempt looks again
            if found is None:
                found = _list(self.store, self.command)
                _ensure_free(self.store, self.command, found, self.clock.now_ms())
            if self._create(max(found, default=0) + 1):
                break
        else:
            raise LeaseHeldError(
                f"many runs of {self.command} start on this table at the same time",
                hint="Rerun later.",
            )
        now = _list(self.store, self.command)
        dated = [info.modified_ms for info in now.values() if info.name == self.name]
        now = {number: info for number, info in now.items() if info.name != self.name}
        _ensure_free(self.store, self.command, now, min([self.clock.now_ms(), *dated]))
        self.store.delete_many([info.name for info in now.values()])  # none of them is held
        _log.info("%s: holding %s until the run ends", self.store.uri, self.name)
        self.renewal = threading.Thread(target=self.run, name="deltactl-lease", daemon=True)
        self.renewal.start()

    def _create(self, number: int) -> bool:
        """Create the file; return ``False`` if another run has this number.

        If an answer is lost, the next put finds the file, and its content shows whose it is.
        """
        self.name, retry = f"{LEASES_DIR}/{self.command}.{number:08d}.json", RetryPolicy()
        for failures in range(_TRIES):
            try:
                self.store.put_if_absent(self.name, _encode(self.holder))
                break
            except ObjectExistsError:
                if not self._is_ours():
                    self.name = ""
                break
            except (AccessDeniedError, SafetyError):
                if not failures:  # no earlier put can have created it
                    self.name = ""
                raise
            except TransientStorageError:  # after the last, ``release`` looks whether it is there
                if failures == _TRIES - 1:
                    raise
            retry.pause(failures)
        self.is_created = bool(self.name)
        return self.is_created

    def release(self) -> None:
        """End the renewal, and delete the file, if it is still the file of this run.

        After the expiry, another run may have deleted it and created one with the same number.
        """
        self.over.set()
        if self.renewal is not None:
            with suppress(RuntimeError):  # it did not start, and will end at once
                self.renewal.join()
        with suppress(DeltactlError):  # it expires
            is_valid = self.is_created and self.clock.now_ms() < self.holder.expires_ms
            if self.name and (is_valid or self._is_ours()):
                self.store.delete_many([self.name])
            self.name = ""

    def _is_ours(self) -> bool:
        """Return whether the file is there and of this run."""
        try:
            return Holder.parse(json.loads(self.store.read(self.name))).run_id == self.holder.run_id
        except (ObjectNotFoundError, AccessDeniedError, ValueError, KeyError, TypeError):
            return False

    def run(self) -> None:
        """Renew the lease until the run ends."""
        while not self.over.wait(LEASE_MS / 1000 / _RENEWALS):
            with suppress(DeltactlError):  # tried again at the next renewal
                if not self.renew():
                    self.warn(
                        "the lease of this run is gone, so another run of the same command may "
                        "work on this table too. This run continues"
                    )
                    return

    def renew(self) -> bool:
        """Write a later expiry; return ``False`` if the lease expired and another run took it."""
        if not self._is_ours():
            return False
        later = replace(self.holder, expires_ms=self.clock.now_ms() + LEASE_MS)
        self.store.put(self.name, _encode(later))
        self.holder = later  # not before: until then, another run may take the lease
        return True


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run that left no pending work; times in ms since 1970 UTC.

    ``table_id`` is the id in the metadata of the table: the record does not apply to a later table
    at the same address. ``caught_up_version`` is the version up to which ``optimize``, or the
    update of manifests, has considered all partitions, by this run or an earlier one. ``commit`` is
    the size and the time of the commit of this version. In a record of manifests, ``address`` is
    that of their files.
    """

    run_id: str
    table_id: str
    started_ms: int
    ended_ms: int
    caught_up_version: int | None = None
    address: str = ""
    commit: str = ""


def read_last_run(store: Store, command: str) -> LastRun | None:
    """Return the record of the last run; ``None`` if there is none, or it is invalid."""
    try:
        found = {"address": "", "commit": "", **json.loads(store.read(f"{_RUNS}/{command}.json"))}
        values = {field.name: found[field.name] for field in fields(LastRun)}
    except (ObjectNotFoundError, ValueError, KeyError, TypeError):
        return None
    numbers = (values["started_ms"], values["ended_ms"], values["caught_up_version"] or 0)
    texts = (values["table_id"], values["address"], values["commit"])
    is_valid = all(type(it) is int for it in numbers) and all(isinstance(it, str) for it in texts)
    return LastRun(**values) if is_valid else None


def write_last_run(store: Store, command: str, run: LastRun) -> None:
    """Write the record of a run; it replaces the previous record.

    Raises:
        StorageError: it cannot be written.
    """
    store.put(f"{_RUNS}/{command}.json", _encode(run))


def _encode(content: Holder | LastRun) -> bytes:
    return (json.dumps(asdict(content), indent=2) + "\n").encode()
