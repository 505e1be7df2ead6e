"""Tags of a ``remove`` that say where the rows of the file are now.

Source: delta-io/delta#7407; Databricks writes the same. A writer that lost the race against our
commit can replay its deletion on our output. Which rows were deleted before is in the deletion
vector of the same ``remove``.
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
    """Return the files that a bin removes, with the tags beside those that they have.

    A file has no such tags if they would not be exact: without an output that keeps the order, and
    where the ``remove`` names another deletion vector than the one that was read.
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
