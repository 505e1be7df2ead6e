"""``check --fix missing-files`` and ``missing-vectors``: remove entries of files that are lost.

A file of which only the deletion vector is lost still has its rows, deleted ones included. So what
happens with it must be chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError
from deltactl.log.audit.audited_snapshot import ensure_matches_commits, load_audited
from deltactl.log.commits.changes import live_rows, sum_rows
from deltactl.log.commits.events import EventCollector
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.log.delta_log import DeltaLog
from deltactl.log.find_files import find_files, is_placed
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.append_only import find_append_only_refusal
from deltactl.operations.check.fixes.commit import (
    FileCommit,
    commit_fix,
    describe_commit,
    ensure_may_remove,
)
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.operations.check.fixes.paths import choose_texts
from deltactl.operations.check.fixes.report import FixPlan, FixReport, describe_snapshot
from deltactl.operations.lost_files import (
    LostFiles,
    ensure_still_lost,
    find_loss_refusal,
    find_lost,
)
from deltactl.operations.missing_files import (
    PRESENCE_COLUMNS,
    Missing,
    find_missing,
    list_missing,
)
from deltactl.operations.run_context import RunContext
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.stats import num_records

_LOOKED_UP: Final = 1000  # only for a warning
_NO_SIZES: Final = pa.chunked_array([], pa.string())
"""A file of another size exists: sizes need not be compared."""


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class MissingReport(FixReport):
    """The lost files, and those to change.

    ``lost`` are files of this kind; ``num_others`` files of the other kind. ``is_chosen`` is a mask
    of those to change.
    """

    lost: LostFiles = field(repr=False)
    is_chosen: pa.Array = field(repr=False)
    num_others: int
    keeps_deleted_rows: bool = False

    @property
    def chosen(self) -> pa.Table:
        """Return the files to change, rows of ``ADD_SCHEMA``."""
        return self.lost.files.filter(self.is_chosen)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to repair."""
        return not self.chosen.num_rows

    @property
    def num_left(self) -> int:
        """Return the number of lost files that stay in the table."""
        return int(self.lost.files.num_rows - self.chosen.num_rows)

    @property
    def num_rows(self) -> int | None:
        """Return live rows that are lost, or deleted rows that come back; ``None``: unknown."""
        if not self.keeps_deleted_rows:
            return sum_rows(self.chosen)
        deleted = pc.struct_field(self.chosen["deletion_vector"], "cardinality")
        return int(pc.sum(deleted).as_py() or 0)

    @property
    def rows(self) -> pa.Table:
        """Return the lost files."""
        files, names = self.lost.files, self.lost.names
        places = [self.lost.places.get(name) for name in names.to_pylist()]
        return pa.table(
            {
                "path": files["path"],
                "text": files["encoded_path"],
                "missing": names,
                "rows": num_records(files["stats"]),
                "live_rows": live_rows(files),
                "bytes": files["size_bytes"],
                "place": pa.array(places, pa.string()),
                "changed": self.is_chosen,
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        is_kept = self.keeps_deleted_rows
        return {
            **FixReport.to_dict(self),
            "files_removed": 0 if is_kept else self.chosen.num_rows,
            "rows_removed": 0 if is_kept else self.num_rows,
            "bytes_removed": 0 if is_kept else sum_sizes(self.chosen),
            "vectors_dropped": self.chosen.num_rows if is_kept else 0,
            "rows_undeleted": self.num_rows if is_kept else 0,
            "files": self.rows.to_pylist(),
        }


def plan_missing(log: DeltaLog, options: FixOptions, context: RunContext) -> FixPlan:
    """Plan to remove the entries of lost files.

    Raises:
        UsageError: a path is not that of one lost file.
        SafetyError: the storage of the files is not accessible; or the checkpoint is wrong.
        StorageError: a lookup failed.
    """
    log.ensure_newest()
    snapshot = load_audited(log, or_warn=True)
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REMOVE)
    batches = snapshot.file_batches(PRESENCE_COLUMNS)
    missing = find_missing(snapshot.store, batches, context, _NO_SIZES)
    found = find_lost(snapshot, missing, log.storage_options)
    _warn_of_others(missing, found, context)
    is_ours = found.is_vector
    if options.kind is Fix.MISSING_FILES:
        is_ours = pc.invert(is_ours)
    lost = found.filter(is_ours)
    if lost.files.num_rows and snapshot.head is not None:
        # The files of a wrong checkpoint may be those of another table or version.
        ensure_matches_commits(log, snapshot.head.version)
    report = MissingReport(
        **describe_snapshot(options.kind or Fix.MISSING_FILES, snapshot, context),
        lost=lost,
        is_chosen=_choose(lost, options, snapshot),
        num_others=found.files.num_rows - lost.files.num_rows,
        keeps_deleted_rows=options.keep_deleted_rows,
    )
    chosen = lost.filter(report.is_chosen)
    if chosen.files.num_rows and snapshot.properties.change_feed_enabled:
        lost_part = "vectors" if options.keep_deleted_rows else "rows of the missing files"
        context.warn(
            "the table has a change data feed: the changes of the version that this fix commits "
            f"cannot be read, because the {lost_part} are lost"
        )
    if not options.keep_deleted_rows:
        _warn_of_inputs(log, snapshot, chosen, context)
    refusal = find_append_only_refusal(CommitBase.of(snapshot)) or find_loss_refusal(
        log.uri, chosen, chosen.files.num_rows, snapshot.num_files, options.expect_files
    )
    return FixPlan(report, partial(_commit, log, snapshot, chosen, context), refusal)


def _warn_of_inputs(
    log: DeltaLog, snapshot: Snapshot, chosen: LostFiles, context: RunContext
) -> None:
    """Warn if the files that a commit rewrote to a lost one still exist."""
    if not chosen.files.num_rows:
        return
    with suppress(DeltactlError):  # a commit that is needed is gone, or cannot be read
        events = log.events(snapshot, log.first_commit, EventCollector()).events
        is_lost = pc.and_(events["is_add"], pc.is_in(events["path"], chosen.files["path"]))
        versions = pc.unique(events["version"].filter(is_lost))
        is_input = pc.invert(pc.or_(events["is_add"], events["is_change"]))
        inputs = events.filter(pc.and_(is_input, pc.is_in(events["version"], versions)))
        inputs = inputs.slice(0, _LOOKED_UP)
        found, _ = find_files(snapshot.store, inputs["path"].to_pylist())
        names = pa.array([name for name, info in found.items() if info is not None], pa.string())
        kept = inputs.filter(pc.is_in(inputs["path"], names))
        if kept.num_rows:
            version = pc.min(kept["version"]).as_py()
            way = "copy them before a vacuum removes them"
            if log.rebuildable({version - 1}):
                way = (
                    f"until a vacuum, `deltactl restore TABLE --to-version {version - 1}` may "
                    "bring their rows back. It undoes all later versions; what they wrote must "
                    "be written again"
                )
            context.warn(f"files that version {version} rewrote to lost ones still exist: {way}")


def _warn_of_others(missing: Sequence[Missing], found: LostFiles, context: RunContext) -> None:
    """Warn of files that exist, but with another size, such as a truncated deletion vector."""
    gone = set(found.names.to_pylist())
    left = tuple(it for it in missing if it.path not in gone and is_placed(it.path))
    if left:
        context.warn(
            f"left, because a file has the name: {list_missing(left)}. For data files, `deltactl "
            "explain FILE_SIZE` says what helps; for deletion vectors, `deltactl explain "
            "VECTOR_UNREADABLE`"
        )


def _commit(
    log: DeltaLog, snapshot: Snapshot, chosen: LostFiles, context: RunContext, report: FixReport
) -> FixReport:
    assert isinstance(report, MissingReport)
    removed = chosen.files
    added = _without_vectors(removed) if report.keeps_deleted_rows else ADD_SCHEMA.empty_table()

    def ensure(base: CommitBase) -> None:
        ensure_may_remove(base)
        ensure_still_lost(snapshot.store, chosen.names)

    draft = FileCommit(
        uri=log.uri,
        description=describe_commit(report, removed, added, context),
        read_version=snapshot.version,
        removed=removed,
        added=added,
        ensure=ensure,
    )
    return commit_fix(log, snapshot, draft, report, context)


def _choose(lost: LostFiles, options: FixOptions, snapshot: Snapshot) -> pa.Array:
    """Return a mask of the files to change: those that can be found nowhere, or that are named."""
    files = lost.files
    if options.kind is Fix.MISSING_VECTORS and not (
        options.drop_files or options.keep_deleted_rows
    ):
        return pa.array(np.zeros(files.num_rows, np.bool_))
    if not options.texts:
        places = pa.array(lost.places.keys(), pa.string())
        return pc.invert(pc.is_in(lost.names, value_set=places)).combine_chunks()
    texts = choose_texts(options, files, snapshot)
    return pc.is_in(files["encoded_path"], value_set=texts).combine_chunks()


def _without_vectors(files: pa.Table) -> pa.Table:
    """Return the files without deletion vectors; only the number of rows is kept of the statistics.

    Bounds that were computed without the deleted rows would hide these rows.
    """
    counts = num_records(files["stats"]).cast(pa.string())
    stats = pc.binary_join_element_wise('{"numRecords":', counts, "}", "")
    vectors = pa.nulls(files.num_rows, files.schema.field("deletion_vector").type)
    for name, column in (("stats", stats), ("deletion_vector", vectors)):
        place = files.schema.get_field_index(name)
        files = files.set_column(place, files.schema.field(name), column)
    return files
