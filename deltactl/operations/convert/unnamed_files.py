"""Count the files in the directory of a table that no action of its log names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.events import CommitScan
from deltactl.log.snapshot import Snapshot
from deltactl.operations.convert.directory import PARQUET_ENDINGS
from deltactl.operations.converted import names_in_log

_PARQUET: Final = rf"(?i)(?:{'|'.join(map(re.escape, PARQUET_ENDINGS))})$"
_HIDDEN: Final = r"(?:^|/)[._](?:[^/=]*/|[^/]*$)"
"""A hidden file, or a directory in its path, as ``list_directory`` decides."""


def count_unnamed_files(snapshot: Snapshot, scan: CommitScan) -> int:
    """Return the number of Parquet files under the root that no action names.

    Actions that a log cleanup deleted are unknown. ``scan`` has all commits that are in the log.

    Raises:
        SafetyError: a file of the log cannot be located.
        StorageError: the directory cannot be listed, or the log cannot be read.
    """
    parts = snapshot.store.walk_tree(lambda directory: not re.search(_HIDDEN, f"{directory}/"))
    names = pa.chunked_array([_only_data_files(part.files) for part in parts], pa.binary())
    for batch in names_in_log(snapshot, scan):
        names = names.filter(pc.invert(pc.is_in(names, value_set=batch.cast(pa.binary()))))
    return len(names)


def _only_data_files(names: Sequence[str]) -> pa.Array:
    # Bytes: a name on a disk may not be UTF-8; then no action can name it.
    found = pa.array([name.encode(errors="surrogateescape") for name in names], pa.binary())
    found = found.filter(pc.match_substring_regex(found, _PARQUET))
    return found.filter(pc.invert(pc.match_substring_regex(found, _HIDDEN)))
