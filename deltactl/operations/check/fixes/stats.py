"""``check --fix stats``: compute statistics that are missing, too short or wrong.

The files are added again with new statistics, in commits that change no data. Source: the operation
COMPUTE STATS of Delta on Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    DeltactlError,
    InterruptedRunError,
    name_commits,
)
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.audit.path_texts import names_below_root
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import Actions
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import Description, engine_info, run_tags
from deltactl.operations.after_commit import run_after_commit
from deltactl.operations.check.files import FileCheck
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.operations.check.fixes.report import FixPlan, FixReport, describe_snapshot
from deltactl.operations.check.fixes.stats_tasks import (
    MISSING,
    SHORT,
    WRONG,
    StatsSpec,
    compute_stats,
)
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.tasks import CheckSpec
from deltactl.operations.check.versions import LiveFiles
from deltactl.operations.optimize.copy_candidates import table_stats
from deltactl.operations.run_context import RunContext
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported

COMPUTE_STATS: Final = "COMPUTE STATS"
_FILES_A_COMMIT: Final = 10_000
_FOUND: Final = pa.schema(
    [
        ("path", pa.string()),
        ("has_vector", pa.bool_()),
        ("reason", pa.string()),
        ("stats", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class StatsReport(FixReport):
    """The files that get new statistics.

    ``found`` has the columns of ``_FOUND``; ``stats`` are null for files that cannot be read.
    ``num_dropped`` files were left, because other writers changed them or the table meanwhile.
    """

    found: pa.Table = field(repr=False)
    num_dropped: int = 0

    @property
    def num_files(self) -> int:
        """Return the number of files with new statistics."""
        return int(len(self.found) - self.num_unread)

    @property
    def num_unread(self) -> int:
        """Return the number of files that cannot be read."""
        return int(self.found["stats"].null_count)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to repair."""
        return not self.num_files

    @property
    def num_left(self) -> int:
        """Return the number of files that keep their statistics."""
        return self.num_unread + self.num_dropped

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of files by reason."""
        readable = self.found.filter(pc.is_valid(self.found["stats"]))
        known = Counter(readable["reason"].to_pylist())
        return {reason: known[reason] for reason in (MISSING, SHORT, WRONG)}

    @property
    def rows(self) -> pa.Table:
        """Return the files."""
        changed = pc.is_valid(self.found["stats"])
        return self.found.select(["path", "reason"]).append_column("changed", changed)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope."""
        counts = {name.replace(" ", "_"): count for name, count in self.counts.items()}
        return {
            **FixReport.to_dict(self),
            "versions": list(self.versions),
            "files_changed": self.num_files - self.num_dropped,
            "files_dropped": self.num_dropped,
            "files_unread": self.num_unread,
            "reasons": counts,
            "files": self.rows.to_pylist(),
        }


def plan_stats(log: DeltaLog, options: FixOptions, context: RunContext) -> FixPlan:
    """Compute the statistics of all live files that need new ones.

    Raises:
        UnsupportedFeatureError: a table feature forbids it.
        InterruptedRunError: ``cancel`` was set.
    """
    log.ensure_newest()
    snapshot = load_audited(log)
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
    files = LiveFiles(snapshot)
    check = FileCheck(files.batches, CheckOptions(depth=Depth.FOOTERS), snapshot.version)
    context = replace(context, engine=context.engine.sized(check.input_bytes))
    spec = CheckSpec(log.uri, context.storage_options, files.metadata, Depth.FOOTERS, False)
    worker = partial(compute_stats, StatsSpec(spec, table_stats(snapshot)))
    parts = [_FOUND.empty_table()]
    for _, batch in check.results(worker, context):
        parts.append(pa.Table.from_pylist([asdict(it) for it in batch], _FOUND))
    if context.is_cancelled:
        raise InterruptedRunError("interrupted; nothing was changed", hint="Rerun.")
    found = pa.concat_tables(parts).sort_by("path")
    report = StatsReport(**describe_snapshot(Fix.STATS, snapshot, context), found=found)
    return FixPlan(report, partial(_commit, log, snapshot, context))


def _commit(log: DeltaLog, snapshot: Snapshot, context: RunContext, report: FixReport) -> FixReport:
    """Add the files again, so many in a commit."""
    assert isinstance(report, StatsReport)
    transaction = context.transaction(log, CommitBase.of(snapshot))
    draft = StatsCommit(log.uri, snapshot, context)
    versions: list[int] = []
    num_done, error = 0, None
    try:
        for files in _cut(_changed_files(snapshot, report.found)):
            if context.is_cancelled:
                raise InterruptedRunError("interrupted", is_part_done=bool(versions), hint="Rerun.")
            draft.take(files)
            try:
                if draft.num_files:
                    versions.append(transaction.commit(draft).version)
                    num_done += draft.num_files
            except AllChangedError:
                continue
            except ConflictError as raised:
                if not versions or isinstance(raised, CommitOutcomeUnknownError):
                    raise
                break
    except DeltactlError as raised:
        if not versions:
            raise
        error = name_commits(raised, versions)
    if versions:
        run_after_commit(log, snapshot, transaction.base, context, keeps_history=True)
    num_dropped = report.num_files - num_done
    return replace(report, num_dropped=num_dropped, versions=tuple(versions), error=error)


def _changed_files(snapshot: Snapshot, found: pa.Table) -> Iterator[pa.Table]:
    """Yield the files with their new statistics, rows of ``ADD_SCHEMA``."""
    found = found.filter(pc.is_valid(found["stats"])).combine_chunks()
    keys = _keys(found["path"], found["has_vector"]).combine_chunks()
    for batch in snapshot.file_batches(ADD_SCHEMA.names):
        ours = _keys(batch["path"], pc.is_valid(batch["deletion_vector"]))
        places = pc.index_in(ours, value_set=keys)
        chosen = batch.filter(pc.is_valid(places))
        new = {
            "stats": found["stats"].take(places.drop_null()),
            "data_change": pa.array(np.zeros(chosen.num_rows, np.bool_)),
        }
        columns = [new[name] if name in new else chosen[name] for name in ADD_SCHEMA.names]
        yield pa.table(columns, schema=ADD_SCHEMA)


def _keys(paths: pa.ChunkedArray, has_vector: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(pc.if_else(has_vector, "v", "-"), paths, "")


def _cut(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of so many rows."""
    waiting = ADD_SCHEMA.empty_table()
    for batch in batches:
        waiting = pa.concat_tables([waiting, batch])
        while waiting.num_rows >= _FILES_A_COMMIT:
            yield waiting.slice(0, _FILES_A_COMMIT)
            waiting = waiting.slice(_FILES_A_COMMIT)
    if waiting.num_rows:
        yield waiting


class AllChangedError(ConflictError):
    """Other writers changed all files of a commit."""


class StatsCommit:
    """Commits that add files again, but those that another writer added or removed since then.

    A file that another writer gave a deletion vector would lose it: an ``add`` without the vector
    would be live again. The files of earlier commits are remembered for the later ones.
    """

    def __init__(self, uri: str, snapshot: Snapshot, context: RunContext) -> None:
        self._uri, self._read_version = uri, snapshot.version
        self._touched: list[pa.Array] = []
        self._files = ADD_SCHEMA.empty_table()
        self._description = Description(
            operation=COMPUTE_STATS,
            parameters={"predicate": "[]"},
            engine_info=engine_info(context.engine.name, context.engine.reason),
            tags=run_tags(context.run_id),
            isolation_level="SnapshotIsolation",
        )

    @property
    def num_files(self) -> int:
        """Return the number of files in the commit."""
        return int(self._files.num_rows)

    def take(self, files: pa.Table) -> None:
        """Take the files of the next commit."""
        self._files = files
        for names in self._touched:
            self._drop(names)

    def _drop(self, names: pa.Array) -> None:
        is_touched = pc.is_in(names_below_root(self._uri, self._files), value_set=names)
        self._files = self._files.filter(pc.invert(is_touched))

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        ensure_supported(base.protocol, base.metadata, Operation.REWRITE)
        return Actions(
            description=self._description,
            read_version=self._read_version,
            added=self._files,
        )

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        if concurrent.changes_table:
            raise ConflictError(
                "nothing was committed: another writer changed the table's schema, properties or "
                "protocol",
                hint="Rerun.",
            )
        for files in (concurrent.adds, concurrent.removes):
            if files.num_rows:
                names = names_below_root(self._uri, files).combine_chunks()
                self._touched.append(names)
                self._drop(names)
        if not self._files.num_rows:
            raise AllChangedError("nothing was committed: other writers changed all files")
