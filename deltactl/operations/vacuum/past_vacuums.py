"""Find the earlier vacuums that removed missing files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, Warn
from deltactl.operations.owners import find_owners
from deltactl.operations.vacuum.journal import list_removals, read_run
from deltactl.operations.vacuum.undo import NAME_IN_USE, plan_undo
from deltactl.storage.store import Store
from deltactl.units import format_timestamp


@dataclass(frozen=True, slots=True)
class PastVacuum:
    """A vacuum of a table that removed missing files; its undo restores the ``restorable`` of them.

    It restores the ``blocked`` of them when the files that have their names now are moved away.
    ``uri`` is the table, perhaps another one than that which uses the files.
    ``started_ms`` is ``None`` if its journal cannot be read.
    """

    uri: str
    run_id: str
    started_ms: int | None
    num_files: int
    restorable: pa.ChunkedArray
    blocked: pa.ChunkedArray

    @property
    def undo(self) -> str:
        """Return the command that restores the files."""
        return f"deltactl vacuum {shlex.quote(self.uri)} --undo {self.run_id}"


def find_past_vacuums(
    store: Store, missing: Sequence[str], storage_options: Mapping[str, str], warn: Warn
) -> tuple[PastVacuum, ...]:
    """Return the recorded vacuums that removed missing files, newest first; change nothing.

    They are those of the table, and of other tables whose files a shallow clone has.
    """
    found = _find_in(store, missing, warn)
    owners, unknown = find_owners(missing, storage_options)
    for problem in dict.fromkeys(unknown.values()):
        warn(f"it is not known whether a vacuum of another table removed files: {problem}")
    for owner in owners:
        for past in _find_in(owner.store, list(owner.names), warn):
            back, blocked = (
                pa.chunked_array([[owner.names[it] for it in names.to_pylist()]], pa.string())
                for names in (past.restorable, past.blocked)
            )
            found.append(replace(past, restorable=back, blocked=blocked))
    return tuple(found)


def _find_in(store: Store, missing: Sequence[str], warn: Warn) -> list[PastVacuum]:
    wanted, found = pa.array(missing, pa.string()), list[PastVacuum]()
    try:
        removals = list_removals(store)
    except DeltactlError as error:
        warn(f"it is not known which vacuum removed the files: {error.message}")
        return found
    for run_id, record in removals.items():
        try:
            _, files = read_run(store, run_id)
            names = files["path"].filter(pc.is_in(files["path"], value_set=wanted))
            if not len(names):
                continue
            undo, _ = plan_undo(store, run_id, files)
            in_use = [name for name, why in undo.impossible.items() if why == NAME_IN_USE]
            back, blocked = (
                names.filter(pc.is_in(names, value_set=pa.array(chosen, pa.string())))
                for chosen in (undo.restored, in_use)
            )
            started_ms = None if record is None else record.started_ms
            found.append(PastVacuum(store.uri, run_id, started_ms, len(names), back, blocked))
        except DeltactlError as error:
            warn(f"it is not known whether vacuum {run_id} removed the files: {error.message}")
    return found


def describe_vacuums(past: Iterable[PastVacuum]) -> str:
    """Return the end of a message about missing files: the vacuums that removed them."""
    text = ""
    for it in past:
        time = "" if it.started_ms is None else f" of {format_timestamp(it.started_ms)}"
        text += f"; vacuum {it.run_id}{time} removed {it.num_files:,}"
    return text


def list_undos(past: Iterable[PastVacuum]) -> list[str]:
    """Return the remedy for missing and wrong files that undos restore, if there are any."""
    undos, wrong = [], []
    for it in past:
        if number := len(it.restorable) + len(it.blocked):
            undos.append(f"`{it.undo}`, which restores {number:,}")
            wrong += it.blocked.to_pylist()
    more = f" and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
    first = f"move the wrong file {wrong[0]!r}{more} out of the table, then " if wrong else ""
    return [f"{first}run {' and '.join(undos)}"] if undos else []
