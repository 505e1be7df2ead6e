"""Build tags of a ``remove`` that show where the rows of the removed file are in the output.

If a commit of deltactl was first, another writer can apply its own deletion again to the output of
deltactl. The deletion vector of the same ``remove`` contains the rows that were deleted before.

Source: delta-io/delta#7407; Databricks writes the same tags.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from deltactl.log.writing.concurrent_deletes import Bin
from deltactl.protocol.arrow_schemas import STRING_MAP
from deltactl.protocol.paths import encode_path

COMPACTED_INTO: Final = "compactedInto"
COMPACTION_INFO: Final = "compactionInfo"


def tag_removes(bin_: Bin) -> pa.Table:
    """Return the files that a bin removes, with the tags of this module added to their tags.

    A file gets no tags if they would not be exact. This is so if no output keeps the order of rows,
    or if the ``remove`` has another deletion vector than the one that was read.
    """
    tags = [None if own is None else _others(own) for own in bin_.removed["tags"].to_pylist()]
    if bin_.inputs is not None and len(bin_.added) == 1:
        target = json.dumps([encode_path(bin_.added[0].path)], ensure_ascii=False)
        tags = [
            own if first is None else [*(own or ()), *_ours(target, first, physical)]
            for own, first, physical in zip(
                tags,
                bin_.inputs["first_row"].to_pylist(),
                bin_.inputs["physical_rows"].to_pylist(),
                strict=True,
            )
        ]
    index = bin_.removed.schema.get_field_index("tags")
    return bin_.removed.set_column(index, "tags", pa.array(tags, STRING_MAP))


def _others(tags: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in tags if key not in (COMPACTED_INTO, COMPACTION_INFO)]


def _ours(target: str, first_row: int, physical_rows: int) -> list[tuple[str, str]]:
    run = {"rowOffsetInTarget": first_row, "sourceNumPhysicalRecords": physical_rows}
    info = json.dumps([run], separators=(",", ":"))
    return [(COMPACTED_INTO, target), (COMPACTION_INFO, info)]
