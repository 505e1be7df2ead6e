"""Collect the physical names of all files that a retained version needs.

- files that are live for any reader (with any comparison of paths), and their deletion vectors;
- removed files whose tombstone is younger than the cutoff;
- every file in a commit after the version that was current at the cutoff, whatever the timestamps
  of its tombstones: checkpoints drop tombstones after the retention of the table, not after
  ``--retain``;
- files of ``keep_versions`` and ``keep_last``, and the change data of their commits;
- files that other tables, such as shallow clones, reference (``clones``).

Names are yielded in batches, with repetitions, so that a lite run never has all of them in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import Warn
from deltactl.log.commits.events import CommitScan
from deltactl.log.delta_log import DeltaLog
from deltactl.log.lifetimes import added_by_text
from deltactl.log.physical_names import (
    event_names,
    file_names,
    locate,
    misread_names,
    possible_names,
)
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone_notes import CloneNote
from deltactl.operations.vacuum.clones import OtherTables
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.protocol.deletion_vectors import vector_files

_REFERENCE = ("path", "deletion_vector")

Role: TypeAlias = Literal["live", "retained", "possible"]
"""Why a name is kept: it is live in the latest version, or needed for another reason.

``possible`` names may be needed, and need not exist.
"""

Kept: TypeAlias = tuple[pa.ChunkedArray, Role]
"""Names to keep."""


@dataclass(frozen=True, slots=True)
class KeepRules:
    """The rules that select the files to keep.

    ``current_at_cutoff`` is the version that was current at the cutoff, ``None`` if the table is
    younger; ``scan`` covers at least the commits after it, and those after ``oldest_kept``.
    ``clones`` are the shallow clones that are noted in the table.
    """

    log: DeltaLog
    snapshot: Snapshot
    scan: CommitScan
    cutoff_ms: int
    current_at_cutoff: int | None
    options: VacuumOptions
    clones: Sequence[CloneNote]
    storage_options: Mapping[str, str]
    warn: Warn


def live_names(snapshot: Snapshot, role: Role = "live") -> Iterator[Kept]:
    """Yield the names of live files and their deletion vectors.

    An absolute name outside of the root may be another address of a file below it.
    """
    for batch in snapshot.kept_batches(_REFERENCE):
        vectors = pc.unique(vector_files(batch["deletion_vector"]).drop_null())
        for names in (batch["path"], pa.chunked_array([vectors], pa.string())):
            located = locate(snapshot.store, names)
            yield located.drop_null(), role
            if located.null_count:
                outside = names.filter(pc.is_null(located)).combine_chunks()
                yield from ((ends, "possible") for ends in possible_names(outside))


def keep_names(rules: KeepRules, oldest_kept: int | None) -> Iterator[Kept]:
    """Yield all names to keep, in batches, with the names for which some reader takes them.

    ``oldest_kept`` is the oldest of the last versions to keep, if requested.

    Raises:
        SafetyError: a file of the log cannot be located, or a noted clone cannot be read.
        TableError: a version to keep cannot be rebuilt, or a table to keep for does not exist.
    """
    for names, role in _named_by_the_log(rules, oldest_kept):
        yield names, role
        yield misread_names(rules.snapshot.store, names), "possible"
    others = OtherTables(rules.snapshot, rules.storage_options, rules.warn)
    for names in others.names_for(rules.options.also_keep_for):
        yield names, "possible"
    for names in others.names_for_clones(rules.clones):
        yield names, "possible"


def _named_by_the_log(rules: KeepRules, oldest_kept: int | None) -> Iterator[Kept]:
    store = rules.snapshot.store
    yield from live_names(rules.snapshot)
    for batch in rules.snapshot.tombstone_batches((*_REFERENCE, "deletion_timestamp_ms")):
        young = pc.greater_equal(batch["deletion_timestamp_ms"], rules.cutoff_ms)
        yield file_names(store, batch.filter(pc.fill_null(young, False))), "retained"
    first = rules.scan.first if rules.current_at_cutoff is None else rules.current_at_cutoff + 1
    if oldest_kept is not None:
        first = min(first, oldest_kept + 1)
    events = rules.scan.events
    yield event_names(store, events.filter(pc.greater_equal(events["version"], first))), "retained"
    yield event_names(store, added_by_text(rules.scan)), "retained"
    versions = {*rules.options.keep_versions}
    if oldest_kept is not None:
        # Commits show all changes after the oldest; each checkpoint shows only its own version.
        versions |= {oldest_kept, *range(oldest_kept, rules.scan.first)}
    changes = rules.scan.change_files
    wanted = pa.array(sorted(versions), pa.int64())
    is_kept = pc.or_(
        pc.greater_equal(changes["version"], first), pc.is_in(changes["version"], wanted)
    )
    yield locate(store, changes.filter(is_kept)["path"]).drop_null(), "retained"
    for version in sorted(versions):
        if version != rules.snapshot.version:
            kept = rules.log.snapshot(version)
            yield from live_names(kept, "retained")
