"""``check --fix path-encoding``: remove files that a ``remove`` with another path text left live.

Writes one commit with a ``remove`` that has the path text of the ``add``. If a file is live under
several texts, one is always kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ConflictError, InterruptedRunError, SafetyError, UsageError
from deltactl.log.audit.path_texts import PATH_COLUMNS, PathTextIndex, file_names
from deltactl.log.delta_log import DeltaLog
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.actions import Actions, as_removes
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_info import RESTORE, Description, engine_info, run_tags
from deltactl.operations.after_commit import run_after_commit
from deltactl.operations.append_only import find_append_only_refusal
from deltactl.operations.check.path_encoding.pairs import (
    PairVerdict,
    PathPair,
    PathPairs,
    count_rows,
    find_path_pairs,
)
from deltactl.operations.run_context import RunContext
from deltactl.operations.short_repr import ShortRepr
from deltactl.option_names import option
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.stats import num_records

FIX: Final = "path-encoding"
_OPERATION: Final = "FSCK"
"""Delta's operation name of a commit that removes file entries from the log."""


@dataclass(frozen=True, slots=True, repr=False)
class PathRepairReport(ShortRepr):
    """The pairs found, those to remove (``chosen``), and the version that removes them.

    ``version_after`` is ``None`` if nothing was committed.
    """

    version: int
    table_id: str
    found: tuple[PathPair, ...]
    chosen: tuple[PathPair, ...]
    engine: str
    version_after: int | None = None
    dry_run: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to repair."""
        return not self.chosen

    @property
    def left(self) -> tuple[PathPair, ...]:
        """Return the pairs that ``check`` still finds after the repair."""
        chosen = {it.row for it in self.chosen}
        return tuple(
            it for it in self.found if it.row not in chosen and it.verdict is not PairVerdict.WANTED
        )

    @property
    def num_rows(self) -> int | None:
        """Return rows that readers no longer return; ``None`` if it is not known for a file."""
        return count_rows(self.chosen)

    @property
    def size_bytes(self) -> int:
        """Return the total size of the removed files."""
        return sum(it.size_bytes for it in self.chosen)

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        chosen = {it.row for it in self.chosen}
        return {
            "fix": FIX,
            "version": self.version,
            "version_after": self.version_after,
            "files_removed": len(chosen),
            "rows_removed": self.num_rows,
            "bytes_removed": self.size_bytes,
            "files_left": len(self.left),
            "pairs": [{**it.to_dict(), "removed": it.row in chosen} for it in self.found],
        }


Confirm: TypeAlias = Callable[[PathRepairReport], bool]
"""Called with the report before the commit; returns whether to proceed."""


def repair_paths(
    log: DeltaLog,
    texts: Sequence[str],
    context: RunContext,
    *,
    confirm: Confirm | None = None,
    dry_run: bool = False,
) -> PathRepairReport:
    """Remove live files that writers removed by another text of their paths.

    ``texts`` are the live path texts to remove, as in the log; if empty, all with the verdict
    ``remove``. ``confirm`` is called before the commit.

    Raises:
        UsageError: a text is not the live text of a pair.
        SafetyError: the table is append-only, the repair was not confirmed, or all texts of a file
            were chosen.
        UnsupportedFeatureError: a table feature forbids it.
        ConflictError: another writer changed the files or the table.
        InterruptedRunError: ``cancel`` was set.
        CorruptLogError: the log is damaged.
    """
    snapshot, pairs = log.retry_after_cleanup(lambda: _find_pairs(log))
    found = () if pairs is None else pairs.found
    chosen = _choose(found, texts)
    report = PathRepairReport(
        snapshot.version, snapshot.metadata.id, found, chosen, context.engine.name, dry_run=dry_run
    )
    if report.is_empty or pairs is None:
        return report
    _ensure_one_remains(pairs, chosen)
    refusal = find_append_only_refusal(CommitBase.of(snapshot))
    if dry_run:
        context.warn_of_refusal(refusal)
        return report
    if refusal is not None:
        raise refusal
    if confirm is not None and not confirm(report):
        raise SafetyError("not confirmed: nothing was removed")
    if context.is_cancelled:
        raise InterruptedRunError("interrupted; nothing was removed")
    log.ensure_can_commit()
    transaction = context.transaction(log, CommitBase.of(snapshot))
    after = transaction.commit(_RemoveCommit(log.uri, pairs.files, report, context))
    run_after_commit(log, snapshot, after, context)
    return replace(report, version_after=after.version)


def _find_pairs(log: DeltaLog) -> tuple[Snapshot, PathPairs | None]:
    log.ensure_exists()
    snapshot = log.snapshot()
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REMOVE)
    path_texts = PathTextIndex(log.uri)
    for batch in snapshot.file_batches(PATH_COLUMNS):
        path_texts.take_live(batch)
    _take_commits(log, path_texts)
    return snapshot, find_path_pairs(log, snapshot, path_texts)


def _take_commits(log: DeltaLog, path_texts: PathTextIndex) -> None:
    """Add the removes of all commits: checkpoints do not keep expired tombstones."""
    versions = sorted(log.commit_files)
    for commits in log.parsed_commits(versions, on_broken=lambda *_: None):
        path_texts.take_removed(commits.removes)


def _choose(found: Sequence[PathPair], texts: Sequence[str]) -> tuple[PathPair, ...]:
    if not texts:
        return tuple(it for it in found if it.verdict is PairVerdict.REMOVE)
    known = {it.text for it in found}
    for text in texts:
        if text not in known:
            raise UsageError(
                f"{option('texts')} {text!r} is not a live path that `deltactl check` reports as "
                "PATH_ENCODING or PATH_ENCODING_DOUBTFUL",
                hint="Give the path as `deltactl check TABLE` shows it, or omit "
                f"{option('texts')}.",
            )
    return tuple(it for it in found if it.text in texts)


def _ensure_one_remains(pairs: PathPairs, chosen: Sequence[PathPair]) -> None:
    """Raise ``SafetyError`` if a file would lose all of its several live texts."""
    live = pc.value_counts(pairs.files["name"]).to_pylist()
    counts = {row["values"]: row["counts"] for row in live}
    names = [it.path for it in chosen]
    for name in dict.fromkeys(names):
        if counts[name] > 1 and names.count(name) == counts[name]:
            raise SafetyError(
                f"the log has {counts[name]} live paths for the file {name!r}. This run "
                "would remove all of them, and the table would lose the file. Nothing was removed",
                hint=f"Choose one of these paths, and rerun without {option('texts')} for it. The "
                "file then stays in the table under the chosen path.",
            )


def _ensure_may_remove(base: CommitBase) -> None:
    ensure_supported(base.protocol, base.metadata, Operation.REMOVE)
    refusal = find_append_only_refusal(base)
    if refusal is not None:
        raise refusal


class _RemoveCommit:
    """The commit that removes files, if no other writer changed them or the table."""

    def __init__(
        self, uri: str, files: pa.Table, report: PathRepairReport, context: RunContext
    ) -> None:
        self._uri, self._report, self._context = uri, report, context
        chosen = files.take(pa.array([it.row for it in report.chosen], pa.int64()))
        chosen = chosen.append_column("num_records", num_records(chosen["stats"]))
        self._removed = as_removes(chosen, data_change=True)

    def prepare(self, base: CommitBase) -> Actions:
        """See ``Draft.prepare``."""
        _ensure_may_remove(base)
        report, context = self._report, self._context
        metrics = {
            "numRemovedFiles": str(self._removed.num_rows),
            "numRemovedBytes": str(report.size_bytes),
            "numAddedFiles": "0",
        }
        if report.num_rows is not None:
            metrics["numDeletedRows"] = str(report.num_rows)
        description = Description(
            operation=_OPERATION,
            parameters={"fix": FIX},
            metrics=metrics,
            engine_info=engine_info(context.engine.name),
            tags=run_tags(context.run_id),
        )
        return Actions(description=description, read_version=report.version, removed=self._removed)

    def rebase(self, base: CommitBase, concurrent: Tail) -> None:
        """See ``Draft.rebase``."""
        reason = None
        latest = concurrent.non_file_actions
        if latest.metadata is not None or latest.protocol is not None:
            reason = "another writer changed the table's schema, properties or protocol"
        elif _touches(self._uri, concurrent, self._report.chosen):
            reason = "another writer added or removed the same files, or removed rows"
        elif RESTORE in concurrent.operations:  # it may need files that it does not add
            reason = "another writer restored an older version"
        if reason is not None:
            raise ConflictError(f"nothing was committed: {reason}", hint="Rerun.")


def _touches(uri: str, concurrent: Tail, chosen: Sequence[PathPair]) -> bool:
    """Return whether commits add or remove one of the files, by any text, or remove rows.

    The removed rows may be the replacement of the rows in the files: then the files have the only
    copy.
    """
    if pc.any(pc.fill_null(concurrent.removes["data_change"], True)).as_py():
        return True
    ours = pa.array([it.path for it in chosen], pa.string())
    return any(
        pc.any(pc.is_in(file_names(uri, files), value_set=ours)).as_py()
        for files in (concurrent.adds, concurrent.removes)
        if files.num_rows
    )
