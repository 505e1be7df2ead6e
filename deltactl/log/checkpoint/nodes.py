"""Parse and encode actions about checkpoint files: sidecars, metadata, `_last_checkpoint`.

The limits are those of Delta on Spark. Source: PROTOCOL.md, "Last Checkpoint File", "V2 Spec".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from deltactl.log.checkpoint.action_file import WrittenActions
from deltactl.log.checkpoint.schema import CheckpointLayout, spark_schema
from deltactl.storage.store import FileInfo

_SCHEMA_LIMIT: Final = 20_000  # both limits are those of Delta on Spark
_LISTED_LIMIT: Final = 30

Node: TypeAlias = dict[str, Any]


def file_node(file: FileInfo) -> Node:
    """Return the ``sidecar`` object (or a similar one) for a file of a V2 checkpoint.

    The object has the name of the file without its directory.
    """
    return {
        "path": file.name.rpartition("/")[2],
        "sizeInBytes": file.size_bytes,
        "modificationTime": file.modified_ms,
    }


def checkpoint_metadata(
    version: int, files: Sequence[WrittenActions], layout: CheckpointLayout
) -> Node:
    """Return the ``checkpointMetadata`` of a V2 checkpoint with these sidecars."""
    schema = json.dumps(spark_schema(layout.sidecar_schema), separators=(",", ":"))
    tags = {
        # All tags are strings, numbers too (PROTOCOL.md, "Checkpoint Metadata").
        "sidecarNumActions": str(sum(written.num_rows for written in files)),
        "sidecarSizeInBytes": str(sum(written.file.size_bytes for written in files)),
        "numOfAddFiles": str(sum(written.adds.count for written in files)),
    }
    if len(schema) <= _SCHEMA_LIMIT:
        tags["sidecarFileSchema"] = schema
    return {"version": version, "tags": tags}


def start_hint(version: int, files: Sequence[WrittenActions]) -> Node:
    """Return the first fields of `_last_checkpoint`, in the order that old readers require."""
    return {
        "version": version,
        "size": sum(written.num_rows for written in files),
        "sizeInBytes": sum(written.file.size_bytes for written in files),
        "numOfAddFiles": sum(written.adds.count for written in files),
    }


def schema_node(layout: CheckpointLayout) -> Node:
    """Return the ``checkpointSchema`` of `_last_checkpoint`; an empty object if it is long.

    Spark has the same limit.
    """
    schema = spark_schema(layout.whole_schema)
    too_long = len(json.dumps(schema, separators=(",", ":"))) > _SCHEMA_LIMIT
    return {} if too_long else {"checkpointSchema": schema}


def v2_node(top: FileInfo, non_file_actions: Sequence[Node], sidecars: Sequence[Node]) -> Node:
    """Return the ``v2Checkpoint`` of `_last_checkpoint`; long lists are omitted, as in Spark."""
    hint = file_node(top)
    if len(non_file_actions) <= _LISTED_LIMIT:
        hint["nonFileActions"] = list(non_file_actions)
    if len(sidecars) <= _LISTED_LIMIT:
        hint["sidecarFiles"] = list(sidecars)
    return hint
