"""Refuse a log cleanup that deletes the versions from which lost rows can be restored."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.commits.events import CommitScan
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.losses import find_losses
from deltactl.operations.missing_files import PRESENCE_COLUMNS
from deltactl.operations.run_context import RunContext
from deltactl.protocol.deletion_vectors import vector_files


def ensure_nothing_lost(
    log: DeltaLog, latest: Snapshot, scan: CommitScan, first: int, context: RunContext
) -> None:
    """Refuse to delete the commits of a scan if one of them added a live file that is lost.

    ``first`` is the oldest version that can be read now: all versions need the files that it has.
    A version after the scan that does not need a lost file stays readable. So a cleanup looks up
    only the live files of the commits that it deletes.

    Raises:
        SafetyError: such a file does not exist, or has another size.
        DeltactlError: it cannot be found out, or another table has replaced this one.
    """
    events = scan.events
    adds = events.filter(pc.and_(events["is_add"], pc.greater(events["version"], first)))
    if not adds.num_rows:
        return
    parts = []
    for batch in latest.file_batches(PRESENCE_COLUMNS):
        vectors = vector_files(batch["deletion_vector"])
        is_new = pc.is_in(batch["path"], value_set=adds["path"])
        has_new = pc.is_in(vectors, value_set=adds["vector_file"], skip_nulls=True)
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
