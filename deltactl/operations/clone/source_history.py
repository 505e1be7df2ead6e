"""Find out whether a source still has the version that was cloned, or lost commits since then.

A source that was restored from a backup uses the numbers of the lost commits again. The digest of
the cloned commit shows this, and after a log cleanup the files: a file of the clone that the source
does not have any more was removed by a commit, whose tombstone is in the log for
``delta.deletedFileRetentionDuration``.
"""

from __future__ import annotations

from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.naming import naming
from deltactl.log.snapshot import Snapshot
from deltactl.operations.clone.commits import PastClone, sorted_keys
from deltactl.operations.clone.plan import ClonePlan, digest_commit, with_relative_names
from deltactl.option_names import option
from deltactl.units import DAY_MS, format_count


def has_cloned(past: PastClone, plan: ClonePlan, then: Snapshot | None) -> bool:
    """Return whether a commit of a clone is that of the plan, not of another history.

    ``then`` is the version of that commit: if a digest is not known, its files are compared.
    """
    found = (past.deep, past.source_table_id, past.source_version, past.predicate)
    if found != (plan.deep, plan.source_table_id, plan.version, plan.predicate):
        return False
    if None not in (past.source_commit, plan.source_commit):
        return past.source_commit == plan.source_commit
    if then is None:
        return False
    return bool(sorted_keys(then.file_batches(KEY_COLUMNS)) == sorted_keys([plan.files]))


def ensure_same_history(
    source: DeltaLog,
    target: DeltaLog,
    past: PastClone,
    plan: ClonePlan,
    *,
    snapshot: Snapshot,
    then: Snapshot | None,
    now_ms: int,
) -> None:
    """Refuse a source that lost the version that was cloned, and then used its number again.

    A sync would remove the rows of the lost versions, or do nothing if no version is newer. Warn if
    it is not known, because tombstones may have expired or the clone lost ``then``.

    ``snapshot`` is the version of the source to clone, ``then`` the target after its last run.

    Raises:
        SafetyError: the commit of this version is another one, or files have no tombstone.
        ObjectNotFoundError: a log cleanup deleted the commit.
    """
    version = past.source_version
    digest = digest_commit(source.reader, source.commit_files.get(version))
    is_clone = f"{target.uri} is a clone of version {version} of {source.uri}"
    if None not in (digest, past.source_commit):
        if digest == past.source_commit:
            return
        raise _lost(
            f"{is_clone}, but this version of the source is now another commit: the source lost "
            "commits, and others have their numbers"
        )
    unknown = f"{is_clone}, and it is not known whether the source still has the same commit"
    if then is None:
        target.warn(f"{unknown}, or lost commits. The log of the clone no longer shows its files")
        return
    gone = _find_unexplained(snapshot, plan, then.files)
    if not gone.num_rows:
        return
    text = (
        f"{unknown}. {format_count(gone.num_rows, 'file', 'files')} of this version, such as "
        f"{gone['path'][0].as_py()!r}, are neither in the source nor removed by a commit of its log"
    )
    kept_since_ms = now_ms - snapshot.properties.deleted_file_retention_ms + DAY_MS
    if pc.any(pc.greater(gone["modification_time_ms"], kept_since_ms)).as_py():
        raise _lost(f"{text}: probably the source lost commits, and others have their numbers")
    target.warn(
        f"{text}. A log cleanup deleted these commits, or the source lost the files, as in a "
        f"restore from a backup: check this before a vacuum of the clone. Version {past.version} "
        "of the clone has these files"
    )


def _lost(message: str) -> SafetyError:
    return SafetyError(
        message,
        hint="Check whether the source was restored from a backup: the clone may have the only "
        "copy of the lost rows. Or its delta.deletedFileRetentionDuration was raised since. "
        f"Add {option('full', True)} to set the clone to the new versions.",
    )


def _find_unexplained(source: Snapshot, plan: ClonePlan, files: pa.Table) -> pa.Table:
    """Return the files of an earlier version of a clone that the source neither has nor removed."""
    files = files.filter(pc.invert(pc.is_in(file_keys(files), value_set=file_keys(plan.files))))
    if not files.num_rows:
        return files
    with naming(source.store.uri):
        columns = ("path", *KEY_COLUMNS)
        # Live files are known, too: the condition of the plan may leave them out.
        for batch in chain(source.file_batches(columns), source.tombstone_batches(columns)):
            known = file_keys(with_relative_names(source.store, batch))
            files = files.filter(pc.invert(pc.is_in(file_keys(files), value_set=known)))
    return files
