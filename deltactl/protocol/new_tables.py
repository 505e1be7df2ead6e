"""Choose the protocol of a new table from the features that its types and properties need.

Source: PROTOCOL.md, "Table Features" and "Table properties".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from deltactl.errors import UsageError
from deltactl.protocol.actions import Protocol
from deltactl.protocol.features import (
    APPEND_ONLY,
    COLUMN_MAPPING,
    INVARIANTS,
    MAX_READER_VERSION,
    MAX_WRITER_VERSION,
    REGISTRY,
    V2_CHECKPOINT,
)
from deltactl.protocol.schema import StructType, leaf_types

PLAIN: Final = Protocol(1, 2)
_MAPPED: Final = Protocol(2, 5)
# The features that versions (1, 2) imply. If a protocol has feature lists, they must be listed.
_ALWAYS: Final = frozenset({APPEND_ONLY.name, INVARIANTS.name})

_FLAGS: Final[Mapping[str, str | None]] = {
    "delta.appendonly": None,
    **{row.switch.lower(): row.name for row in REGISTRY.values() if row.switch is not None},
}
"""Boolean properties in lower case, and the feature that each property needs if it is true."""

_FREE: Final = frozenset(
    key.lower()
    for key in (
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointRetentionDuration",
        "delta.compatibility.symlinkFormatManifest.enabled",
        "delta.dataSkippingNumIndexedCols",
        "delta.dataSkippingStatsColumns",
        "delta.dataSkippingStringPrefixLength",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.isolationLevel",
        "delta.logRetentionDuration",
        "delta.parquet.compression.codec",
        "delta.parquet.format.version",
        "delta.sampleRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    )
)
"""Properties in lower case that need no feature."""


def list_property_features(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the features that a new table's properties need.

    Raises:
        UsageError: a ``delta.`` property is unknown, or it is not enough to set its value.
    """
    found = set()
    for key, value in properties.items():
        folded = key.lower()
        if not folded.startswith("delta.") or folded in _FREE:
            continue
        if folded == "delta.checkpointpolicy":
            found |= {V2_CHECKPOINT.name} if value.lower() == "v2" else set()
            continue
        if folded not in _FLAGS:
            raise UsageError(
                f"deltactl cannot set the property {key!r} on a new table",
                hint="Use --column-mapping."
                if "columnmapping" in folded
                else "Omit this property; other writers can set it afterwards.",
            )
        if value.lower() not in ("true", "false"):
            raise UsageError(f"the property {key!r} must be true or false, not {value!r}")
        feature = _FLAGS[folded]
        if feature is not None and value.lower() == "true":
            found.add(feature)
    return frozenset(found)


def list_type_features(schema: StructType) -> frozenset[str]:
    """Return the features that a schema's types need."""
    found = {leaf.name for leaf in leaf_types(schema)}
    return frozenset(
        row.name for row in REGISTRY.values() if not found.isdisjoint(row.column_types)
    )


def choose_protocol(features: Iterable[str]) -> Protocol:
    """Return the lowest protocol that supports the features; with legacy versions if possible."""
    wanted = frozenset(features)
    if not wanted:
        return PLAIN
    if wanted == {COLUMN_MAPPING.name}:
        return _MAPPED
    readers = frozenset(name for name in wanted if REGISTRY[name].reader)
    writers = wanted | _ALWAYS
    if not readers:
        return Protocol(1, MAX_WRITER_VERSION, None, writers)
    return Protocol(MAX_READER_VERSION, MAX_WRITER_VERSION, readers, writers)
