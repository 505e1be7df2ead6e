"""Refuse a log cleanup that deletes the versions from which lost rows can be restored."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.commits.added_names import AddedNames
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.losses import find_losses
from deltactl.operations.missing_files import PRESENCE_COLUMNS
from deltactl.operations.run_context import RunContext
from deltactl.protocol.deletion_vectors import vector_files


def ensure_nothing_lost(
    log: DeltaLog, latest: Snapshot, added: AddedNames, context: RunContext
) -> None:
    """Refuse to delete the commits that ``added`` visited if one added a live file that is lost.

    ``added`` begins after the oldest version that can be read now: all versions need the files that
    it has. A version after the visited ones that does not need a lost file stays readable. So a
    cleanup looks up only the live files of the commits that it deletes.

    Raises:
        SafetyError: such a file does not exist, or has another size.
        DeltactlError: it cannot be found out, or another table has replaced this one.
    """
    paths, vectors = added.paths, added.vectors
    if not len(paths):
        return
    parts = []
    for batch in latest.file_batches(PRESENCE_COLUMNS):
        is_new = pc.is_in(batch["path"], value_set=paths)
        has_new = pc.is_in(vector_files(batch["deletion_vector"]), value_set=vectors)
        parts.append(batch.filter(pc.or_(is_new, has_new)))
    if not parts:
        return
    losses = find_losses(log.store, pa.concat_tables(parts), context)
    if (loss := losses.describe()) is None:
        return
    CommitBase.of(latest).ensure_same_table(log)
    raise SafetyError(
        f"{loss}. The cleanup would delete the versions of {log.uri} before it was added: a "
        "restore of such a version may bring its rows back",
        hint=f"Run `deltactl check TABLE` for details. {losses.remedies} Then rerun. Nothing was "
        "deleted.",
    )
