"""Count the changes of each commit: from its metrics, or from its actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.visitors import Visitor
from deltactl.log.history.columns import as_long

if TYPE_CHECKING:
    from deltactl.log.commits.changes import CommitChange
    from deltactl.log.commits.parsed import ParsedCommits

# Metrics of files added, their bytes, files removed, their bytes; of an operation, or the default.
_USUAL = ("numAddedFiles", "numAddedBytes", "numRemovedFiles", "numRemovedBytes")
_WRITTEN = ("numFiles", "numOutputBytes", "numRemovedFiles", "numRemovedBytes")
_FILE_METRICS: Mapping[str, tuple[str, str, str, str]] = {
    "WRITE": _WRITTEN,
    "CREATE TABLE AS SELECT": _WRITTEN,
    "STREAMING UPDATE": ("numAddedFiles", "numOutputBytes", "numRemovedFiles", "numRemovedBytes"),
    "MERGE": (
        "numTargetFilesAdded",
        "numTargetBytesAdded",
        "numTargetFilesRemoved",
        "numTargetBytesRemoved",
    ),
    "RESTORE": ("numRestoredFiles", "restoredFilesSize", "numRemovedFiles", "removedFilesSize"),
}
# Metrics of rows added, removed and updated: names of Delta on Spark, and of delta-rs.
_ROW_METRICS: Mapping[str, tuple[str, str, str]] = {
    "WRITE": ("numOutputRows", "", ""),
    "CREATE TABLE AS SELECT": ("numOutputRows", "", ""),
    "STREAMING UPDATE": ("numOutputRows", "", ""),
    "DELETE": ("", "numDeletedRows", ""),
    "UPDATE": ("", "", "numUpdatedRows"),
    "MERGE": ("numTargetRowsInserted", "numTargetRowsDeleted", "numTargetRowsUpdated"),
}
_IN_DELTA_RS: Mapping[str, str] = {
    "numOutputRows": "num_added_rows",
    "numDeletedRows": "num_deleted_rows",
    "numUpdatedRows": "num_updated_rows",
    "numTargetRowsInserted": "num_target_rows_inserted",
    "numTargetRowsDeleted": "num_target_rows_deleted",
    "numTargetRowsUpdated": "num_target_rows_updated",
}
_REARRANGING = frozenset({"OPTIMIZE", "REORG"})


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of a commit; ``None`` if unknown."""

    files_added: int | None = None
    bytes_added: int | None = None
    files_removed: int | None = None
    bytes_removed: int | None = None
    rows_added: int | None = None
    rows_removed: int | None = None
    rows_updated: int | None = None


def change_from_metrics(info: Mapping[str, Any]) -> Change | None:
    """Return the change from ``commitInfo`` metrics; ``None`` if they lack files or bytes."""
    metrics, operation = info.get("operationMetrics"), info.get("operation")
    if not isinstance(metrics, dict) or not isinstance(operation, str):
        return None
    names = _FILE_METRICS.get(operation, _USUAL)
    added, added_bytes, removed, removed_bytes = (as_long(metrics.get(name)) for name in names)
    if removed is None and _only_adds(operation, info.get("operationParameters")):
        removed = 0
    if removed == 0:
        removed_bytes = 0
    if None in (added, added_bytes, removed, removed_bytes):
        return None
    return Change(added, added_bytes, removed, removed_bytes, *_rows_from_metrics(info))


def _rows_from_metrics(info: Mapping[str, Any] | None) -> tuple[int | None, int | None, int | None]:
    """Return rows added, removed and updated, as far as the metrics have them."""
    info = info or {}
    metrics, operation = info.get("operationMetrics"), info.get("operation")
    if isinstance(operation, str) and operation in _REARRANGING:
        return 0, 0, None
    if not isinstance(metrics, dict) or not isinstance(operation, str):
        return None, None, None
    names = _ROW_METRICS.get(operation, ("", "", ""))
    added, removed, updated = (
        as_long(metrics.get(name, metrics.get(_IN_DELTA_RS.get(name)))) for name in names
    )
    return added, removed, updated


def _only_adds(operation: str, parameters: Any) -> bool:
    if operation == "CREATE TABLE AS SELECT":
        return True
    mode = parameters.get("mode") if isinstance(parameters, dict) else None
    return operation == "WRITE" and mode in ("Append", "ErrorIfExists")


class ChangeCounter(Visitor):
    """Collect the changes of commits; count those without metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: dict[int, Change] = {}

    def see(self, commit: CommitBytes) -> bool:
        """Use the metrics of a commit, if they are enough."""
        change = None if commit.info is None else change_from_metrics(commit.info)
        if change is None and b'"add"' not in commit.data and b'"remove"' not in commit.data:
            change = Change(0, 0, 0, 0)
        if change is None or commit.version is None:
            return True
        self.changes[commit.version] = change
        return False

    def visit(self, commits: ParsedCommits) -> None:
        """Count the file actions of commits."""
        from deltactl.log.commits.changes import count_changes

        counted = count_changes(commits.adds, commits.removes, commits.versions)
        for commit, version in zip(commits.commits, commits.versions, strict=True):
            self.changes[version] = _change_with_rows(counted[version], commit.info)


def change_from_counts(counted: CommitChange) -> Change:
    """Return counts as a change."""
    added, removed = counted.added, counted.removed
    sizes = added.num_files, added.size_bytes, removed.num_files, removed.size_bytes
    return Change(*sizes, added.num_rows, removed.num_rows)


def _change_with_rows(counted: CommitChange, info: Mapping[str, Any] | None) -> Change:
    """Return counts as a change; rows from metrics, else the net difference."""
    change, rows = change_from_counts(counted), _rows_from_metrics(info)
    if rows == (None, None, None):
        if not counted.data_change:
            rows = 0, 0, None
        elif change.rows_added is not None and change.rows_removed is not None:
            net = change.rows_added - change.rows_removed
            rows = max(net, 0), max(-net, 0), None
    return replace(change, rows_added=rows[0], rows_removed=rows[1], rows_updated=rows[2])
