"""Encode non-file actions as JSON objects of the log, without the key of the action.

These functions are the inverse of the ``parse_`` functions of ``protocol.actions``. Source:
PROTOCOL.md, "Actions".
"""

from __future__ import annotations

from typing import Any, Final

from deltactl.protocol.actions import DomainMetadata, Metadata, Protocol, Txn

_FEATURES_READER: Final = 3
_FEATURES_WRITER: Final = 7


def encode_protocol(protocol: Protocol) -> dict[str, Any]:
    """Return a ``protocol`` object. It has feature lists only if the versions need them."""
    node: dict[str, Any] = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    # Protocols with these versions must have the lists, even if the lists are empty (PROTOCOL.md,
    # "Checkpoint Schema").
    if protocol.reader_features or protocol.min_reader_version >= _FEATURES_READER:
        node["readerFeatures"] = sorted(protocol.reader_features or ())
    if protocol.writer_features or protocol.min_writer_version >= _FEATURES_WRITER:
        node["writerFeatures"] = sorted(protocol.writer_features or ())
    return node


def encode_metadata(metadata: Metadata) -> dict[str, Any]:
    """Return a ``metaData`` object; null fields are omitted."""
    node = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.format_provider, "options": dict(metadata.format_options)},
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": metadata.created_time_ms,
    }
    return {name: value for name, value in node.items() if value is not None}


def encode_txn(txn: Txn) -> dict[str, Any]:
    """Return a ``txn`` object."""
    node = {"appId": txn.app_id, "version": txn.version, "lastUpdated": txn.last_updated_ms}
    return {name: value for name, value in node.items() if value is not None}


def encode_domain(domain: DomainMetadata) -> dict[str, Any]:
    """Return a ``domainMetadata`` object."""
    return {
        "domain": domain.domain,
        "configuration": domain.configuration,
        "removed": domain.removed,
    }
