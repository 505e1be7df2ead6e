"""What a vacuum does with files, by its own rules: so the commands of a report do what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    ConflictError,
    DeltactlError,
    InterruptedRunError,
    SafetyError,
    ignore_warning,
)
from deltactl.log.commits.events import EventCollector
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone_notes import read_notes
from deltactl.operations.converted import names_in_actions, was_converted
from deltactl.operations.run_context import RunContext
from deltactl.operations.storage.expiry import find_expiry
from deltactl.operations.trusted_time import planning_now
from deltactl.operations.vacuum.kept_files import OtherTables
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.planner import Planner
from deltactl.operations.vacuum.retention import resolve_retention
from deltactl.operations.vacuum.spellings import find_named
from deltactl.protocol.path_columns import absolute_mask
from deltactl.protocol.vacuum_names import writer_mask


@dataclass(frozen=True, slots=True)
class Fates:
    """Of files that are not live: whether a vacuum finds them in the log, and what keeps them.

    ``until_ms``: when the retention has passed, null if unknown; ``is_shared``: a clone names them;
    ``is_writers``: a vacuum takes their names for those of a writer of the table.
    """

    is_named: pa.Array
    until_ms: pa.Array
    is_shared: pa.Array
    is_writers: pa.Array


def open_planner(
    log: DeltaLog, snapshot: Snapshot, events: EventCollector, context: RunContext
) -> Planner | None:
    """Return the planner of a vacuum of a version; ``None`` if such a vacuum would be refused."""
    options = VacuumOptions()
    try:
        now_ms = planning_now(log, snapshot, context, context.clock.now_ms())
        retention = resolve_retention(snapshot.properties, options, now_ms)
        clones = read_notes(log.store)
    except InterruptedRunError:
        raise
    except DeltactlError:
        return None
    return Planner(log, snapshot, options, retention, context, clones, events)


def find_fates(planner: Planner | None, files: pa.Table, known: pa.Array) -> Fates:
    """Return the fates of files: ``name``, ``size_bytes``, ``modified_ms``.

    ``known``: the names in any file of the log, for a table whose vacuum would be refused.
    """
    names = files["name"]
    try:
        if planner is not None:
            scan = planner.log.events(planner.snapshot, planner.log.first_commit, planner.events)
            is_named = find_named(names, names_in_actions(planner.snapshot, scan))
            shared = pa.chunked_array([pa.array([], pa.string()), *_shared(planner)])
            ends = _ends(planner, files, is_named)
            is_writers = writer_mask(names)
            if was_converted(planner.snapshot, scan):
                is_writers = pc.and_(is_writers, False)
            return Fates(is_named, ends, pc.is_in(names, value_set=shared), is_writers)
    except InterruptedRunError:
        raise
    except DeltactlError:  # the search says which file of the log cannot be read
        pass
    no = pa.repeat(pa.scalar(False), len(names))
    return Fates(pc.is_in(names, value_set=known), pa.nulls(len(names), pa.int64()), no, no)


def _ends(planner: Planner, files: pa.Table, is_named: pa.Array) -> pa.Array:
    """Return when the retention of each file has passed: since its removal, else since it is."""
    is_here = pc.invert(absolute_mask(files["name"]).combine_chunks())
    here = files.filter(is_here).rename_columns({"name": "path"})
    old = pa.array(find_expiry(planner, here).old_ms)
    unknown = pc.if_else(is_named.filter(is_here), None, here["modified_ms"].combine_chunks())
    ends = pc.add(pc.if_else(pc.less(old, 0), unknown, old), planner.retention.retain_ms)
    return pc.replace_with_mask(pa.nulls(files.num_rows, pa.int64()), is_here, ends)


def _shared(planner: Planner) -> Iterator[pa.Array]:
    """Yield the names that recorded clones reference; a clone that is not readable is searched."""
    tables = OtherTables(planner.snapshot, planner.context, ignore_warning)
    for note in planner.clones:
        try:
            for names in tables.names_for_clones([note]):
                yield from names.chunks
        except (SafetyError, ConflictError):
            continue
