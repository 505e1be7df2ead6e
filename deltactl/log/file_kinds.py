"""Tell what the files of a log are, by their names."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.protocol.names import LOG_DIR, SIDECAR_DIR, STAGED_COMMITS_DIR

# The first pattern that matches counts.
_KINDS: Final = {
    "checkpoints": rf"^{LOG_DIR}/\d{{20}}\.checkpoint\.",
    "sidecars": rf"^{LOG_DIR}/{SIDECAR_DIR}/",
    "commits": rf"^{LOG_DIR}/(?:\d{{20}}|{STAGED_COMMITS_DIR}/[^/]*)\.json$",
    "other_log_files": rf"^{LOG_DIR}/",
}


def log_file_kinds(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the kind of each file: commits, checkpoints, sidecars or other_log_files, or null."""
    masks = [pc.match_substring_regex(names, pattern) for pattern in _KINDS.values()]
    conditions = pa.StructArray.from_arrays(
        [mask.combine_chunks() for mask in masks], names=list(_KINDS)
    )
    return pa.chunked_array([pc.case_when(conditions, *map(pa.scalar, _KINDS))])
