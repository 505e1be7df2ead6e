"""Derive the protocol, metadata and domain metadata of a clone from its source.

Source: PROTOCOL.md, "In-Commit Timestamps", "Row Tracking", "Clustered Table"; the rules of CLONE
in Delta on Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol
from deltactl.protocol.clustering import CLUSTERING_DOMAIN
from deltactl.protocol.features import list_features, merge_protocols
from deltactl.protocol.new_tables import choose_protocol, list_property_features

# Properties about commits of the source, which a clone does not have, and about its coordinator.
_OF_THE_SOURCE: Final = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
    "io.unitycatalog.tableId",
    "ucTableId",
)
_COORDINATION: Final = "delta.coordinatedCommits."


def clone_metadata(source: Metadata, table_id: str, properties: Mapping[str, str]) -> Metadata:
    """Return the metadata of a clone: the source's, with its own id and properties."""
    configuration = {
        key: value
        for key, value in source.configuration.items()
        if key not in _OF_THE_SOURCE and not key.startswith(_COORDINATION)
    }
    folded = {key.lower() for key in properties}
    kept = {key: value for key, value in configuration.items() if key.lower() not in folded}
    return replace(source, id=table_id, configuration=kept | dict(properties))


def clone_protocol(source: Protocol, properties: Mapping[str, str]) -> Protocol:
    """Return the source's protocol, with the features that properties need."""
    needed = list_property_features(properties) - list_features(source)
    return merge_protocols(source, choose_protocol(needed)) if needed else source


def clone_domains(source: Snapshot) -> tuple[DomainMetadata, ...]:
    """Return the domains that are copied: clustering columns, and the high-water mark of row ids.

    Other domains belong to their writers and describe the source.
    """
    found = (source.domains.get(name) for name in (ROW_TRACKING_DOMAIN, CLUSTERING_DOMAIN))
    return tuple(domain for domain in found if domain is not None and not domain.removed)
