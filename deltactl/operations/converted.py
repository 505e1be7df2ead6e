"""Decide whether a table was made from a directory of Parquet files.

Other programs may still write files to such a directory, and the plain Parquet writer of Spark
gives them the names of a Delta writer. So a vacuum keeps what no action names.

Any of these facts shows a conversion:

- The property ``deltactl.converted``, which ``convert`` sets.
- A commit in the log has the operation ``CONVERT``.
- A live or removed file has a name that no Delta writer gives.
- The first commits are not in the log any more, and a live file is older than the table: metaData
  has the time at which the table was created. Without this time, nothing shows that the table was
  not converted.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import CommitScan
from deltactl.log.physical_names import event_names, file_names, locate
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.actions import CONVERTED
from deltactl.protocol.vacuum_names import writer_mask
from deltactl.units import HOUR_MS

# Some writers write the first files before the metaData.
_FIRST_WRITE_MS = HOUR_MS
_NAME_COLUMNS = ("path", "deletion_vector")


def is_marked_converted(snapshot: Snapshot, scan: CommitScan) -> bool:
    """Return whether the property or a commit says that the table was converted."""
    return CONVERTED in snapshot.metadata.configuration or scan.has_conversion


def was_converted(snapshot: Snapshot, scan: CommitScan) -> bool:
    """Return whether something shows that the table of ``snapshot`` was converted.

    ``scan`` has all commits that are in the log.

    Raises:
        SafetyError: a file of the log cannot be located.
        StorageError: the log cannot be read.
    """
    metadata = snapshot.metadata
    if is_marked_converted(snapshot, scan):
        return True
    if scan.first > 0 and metadata.created_time_ms is None:
        return True
    return any(
        pc.any(pc.invert(writer_mask(names))).as_py() for names in names_in_log(snapshot, scan)
    ) or (scan.first > 0 and _has_older_files(snapshot))


def names_in_log(snapshot: Snapshot, scan: CommitScan) -> Iterator[pa.ChunkedArray]:
    """Yield the physical names in a snapshot, its tombstones and the commits of a scan."""
    yield from names_in_actions(snapshot, scan)
    yield from (file_names(snapshot.store, it) for it in snapshot.kept_batches(_NAME_COLUMNS))


def names_in_actions(snapshot: Snapshot, scan: CommitScan) -> Iterator[pa.ChunkedArray]:
    """Yield the physical names in the commits of a scan and in the tombstones of a snapshot."""
    store = snapshot.store
    yield event_names(store, scan.events)
    yield locate(store, scan.change_files["path"]).drop_null()
    yield from (file_names(store, it) for it in snapshot.tombstone_batches(_NAME_COLUMNS))


def _has_older_files(snapshot: Snapshot) -> bool:
    assert snapshot.metadata.created_time_ms is not None
    before_ms = snapshot.metadata.created_time_ms - _FIRST_WRITE_MS
    batches = snapshot.kept_batches(("modification_time_ms",))
    times = (pc.min(batch["modification_time_ms"]).as_py() for batch in batches)
    return any(time is not None and time < before_ms for time in times)
