"""What a sync or a replacement changes in an earlier clone, and the commit of these changes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.commits.file_actions import file_keys, sized_file_keys, sum_sizes
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description
from deltactl.operations.clone.commits import PastClone, clone_txn
from deltactl.operations.clone.live_files import compare_live
from deltactl.operations.clone.plan import ClonePlan, names_of
from deltactl.operations.clone.report import CloneReport
from deltactl.operations.clone.source_history import has_cloned
from deltactl.operations.restored_state import (
    RestoreCommit,
    RestoredState,
    is_same_state,
    restored_state,
)
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import replace_column
from deltactl.protocol.features import Operation, ensure_supported, merge_protocols
from deltactl.protocol.properties import TableProperties
from deltactl.storage.store import Store
from deltactl.units import format_count


@dataclass(frozen=True, slots=True)
class Update:
    """What a sync or a replacement adds and removes, and the new state of the target.

    ``again`` are live files of the target to add again, with other statistics or row ids.
    ``moved`` are source files whose rows later commits of the clone moved, as rows of
    ``COPY_SCHEMA``: they are not copied, but must be as they were.
    """

    current: Snapshot
    plan: ClonePlan
    added: pa.Table = field(repr=False)
    again: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)
    state: RestoredState = field(repr=False)
    is_empty: bool
    moved: pa.Table = field(repr=False)

    @property
    def files_added(self) -> int:
        """Return the number of files that the commit adds."""
        return int(self.added.num_rows + self.again.num_rows)

    def report(self, target: Store, context: RunContext, *, dry_run: bool) -> CloneReport:
        """Return the report of the plan."""
        return CloneReport(
            self.plan,
            target.uri,
            context.engine.name,
            context.engine.reason,
            self.current.version,
            dry_run=dry_run,
            is_done=self.is_empty,
            files_added=self.files_added,
            files_removed=self.removed.num_rows,
            bytes_removed=sum_sizes(self.removed),
        )

    def draft(
        self, description: Description, context: RunContext, done: str, *, undoes: bool
    ) -> RestoreCommit:
        """Return the commit; ``done`` is what messages call it.

        ``undoes``: whether a rerun undoes changes that other writers made to the clone.
        """
        history = f"`deltactl describe-history {shlex.quote(self.current.store.uri)}`"
        rerun = "Rerun only if you want to undo that change too." if undoes else "Then rerun."
        return RestoreCommit(
            description=description,
            read_version=self.current.version,
            ensure=ensure_may_write,
            added=_without_versions(self.added),
            removed=self.removed,
            again=self.again,
            state=self.state,
            txn=clone_txn(self.plan, context.clock.now_ms()),
            done=done,
            hint=f"Run {history} to see the other writer's change. {rerun}",
        )


def compare(
    current: Snapshot,
    source: Snapshot,
    plan: ClonePlan,
    past: PastClone | None,
    then: Snapshot | None = None,
    *,
    full: bool,
) -> Update:
    """Return the differences; unless ``full``, a clone of the same version is not compared.

    ``then`` is the version of ``past``, if it is known.
    """
    state = _state(current, source, plan)
    copies = _with_past_times(plan.copies, current, then)
    same = is_same_state(state, current)
    if same and not full and past is not None and has_cloned(past, plan, then):
        # An optimize of the clone may have moved rows: they are still the rows of the source.
        empty = plan.files.slice(0, 0)
        kept = pc.is_in(copies["target"], value_set=names_of(current.files))
        plan = replace(plan, copies=copies.filter(kept))
        moved = copies.filter(pc.and_(pc.invert(kept), pc.is_valid(copies["modified_ms"])))
        return Update(current, plan, empty, empty, empty, state, is_empty=True, moved=moved)
    theirs, ours = sized_file_keys(plan.files), sized_file_keys(current.files)
    places = pc.index_in(theirs, value_set=ours)
    files, is_other = compare_live(plan.files, current.files, places, state)
    added, again = files.filter(pc.is_null(places)), files.filter(is_other)
    if not full:
        _ensure_not_replaced(current, added)
    removed = current.files.filter(pc.invert(pc.is_in(ours, value_set=theirs)))
    # A commit must not add and remove a file of the same path and vector.
    same_files = pc.is_in(file_keys(removed), value_set=file_keys(added))
    removed = removed.filter(pc.invert(same_files))
    kept, new = (
        pc.is_in(copies["target"], value_set=names_of(it)) for it in (current.files, added)
    )
    copies = copies.filter(pc.or_(kept, new))
    plan = replace(plan, files=files, copies=copies)
    has_changes = added.num_rows or again.num_rows or removed.num_rows
    is_same_version = past is not None and past.source_version == plan.version
    is_empty = same and is_same_version and not has_changes
    return Update(current, plan, added, again, removed, state, is_empty, moved=copies.slice(0, 0))


def _ensure_not_replaced(current: Snapshot, added: pa.Table) -> None:
    """Refuse to replace files that versions of the clone need by files of the same names.

    Raises:
        SafetyError: there is such a file.
    """
    columns = ("path", "size_bytes")
    for batch in chain(current.file_batches(columns), current.tombstone_batches(columns)):
        sizes = batch["size_bytes"].take(pc.index_in(added["path"], value_set=batch["path"]))
        is_other = pc.fill_null(pc.not_equal(sizes, added["size_bytes"]), False)
        if len(names := added["path"].filter(is_other)):
            raise SafetyError(
                f"{current.store.uri} has other files with the names of "
                f"{format_count(len(names), 'new file')} of the source, such as "
                f"{names[0].as_py()!r}. Versions of the clone need them",
                hint="Choose an empty directory for a new clone. To replace these files, also in "
                f"earlier versions of the clone, add {option('full', True)}.",
            )


def _with_past_times(copies: pa.Table, current: Snapshot, then: Snapshot | None) -> pa.Table:
    """Return the copies with the times of those that the clone has, or had after its last run."""
    columns = ["path", "size_bytes", "modification_time_ms"]
    known = current.files.select(columns)
    if then is not None:  # a commit of the clone may have moved the rows of a copy
        files = then.files.select(columns)
        is_live = pc.is_in(files["path"], value_set=known["path"])
        known = pa.concat_tables([known, files.filter(pc.invert(is_live))])
    places = pc.index_in(copies["target"], value_set=known["path"])
    times = known["modification_time_ms"].take(places)
    # A new deletion vector does not change the file.
    is_other = pc.not_equal(known["size_bytes"].take(places), copies["size_bytes"])
    times = pc.if_else(pc.fill_null(is_other, False), None, times)
    return replace_column(copies, "modified_ms", times)


def _state(current: Snapshot, source: Snapshot, plan: ClonePlan) -> RestoredState:
    """Return the state of the target afterwards; its protocol is never downgraded."""
    protocol = merge_protocols(current.protocol, plan.protocol)
    domains = {domain.domain: domain for domain in plan.domains}
    wanted = replace(source, protocol=protocol, metadata=plan.metadata, domains=domains)
    return restored_state(current, wanted, protocol)


def ensure_may_remove(update: Update) -> None:
    """Refuse to remove files of a clone with ``delta.appendOnly``."""
    if update.removed.num_rows and TableProperties(update.state.metadata.configuration).flag(
        "delta.appendOnly"
    ):
        raise SafetyError(
            f"this run must remove {format_count(update.removed.num_rows, 'file', 'files')} from "
            "the clone, but delta.appendOnly forbids removing files",
            hint=f"Rerun with {option('properties')} delta.appendOnly=false. This changes the "
            "property of the clone, not of the source.",
        )


def ensure_may_write(base: CommitBase) -> None:
    """Refuse a table with a feature that forbids it."""
    ensure_supported(base.protocol, base.metadata, Operation.CLONE)


def _without_versions(added: pa.Table) -> pa.Table:
    """Return files with the version of the sync as row commit version."""
    nothing = pa.nulls(added.num_rows, pa.int64())
    return replace_column(added, "default_row_commit_version", nothing)
