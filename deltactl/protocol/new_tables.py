"""Choose the protocol of a new table from the features that its types and properties need.

Source: PROTOCOL.md, "Table Features" and "Table properties".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from deltactl.errors import UsageError
from deltactl.protocol.actions import Protocol
from deltactl.protocol.features import REGISTRY, list_features, protocol_of
from deltactl.protocol.property_rules import needed_feature, parse_properties
from deltactl.protocol.schema import StructType, leaf_types

PLAIN: Final = Protocol(1, 2)

_AFTERWARDS: Final = frozenset(
    {
        "delta.enableRowTracking",
        "delta.enableMaterializePartitionColumnsFeature",
        "delta.columnMapping.mode",
    }
)
"""Properties that need row ids, partition columns in files, or ids of columns."""


def list_property_features(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the features that a new table's properties need.

    Raises:
        UsageError: a ``delta.`` property or its value is not possible.
    """
    parsed = parse_properties(properties)
    for key in parsed.keys() & _AFTERWARDS:
        value = " to `name`" if key == "delta.columnMapping.mode" else ""
        raise UsageError(
            f"deltactl cannot set the property {key!r} on a new table",
            hint=f"Omit this property; `deltactl alter` can set it{value} afterwards.",
        )
    found = (needed_feature(key, value) for key, value in parsed.items())
    return frozenset(name for name in found if name is not None)


def list_type_features(schema: StructType) -> frozenset[str]:
    """Return the features that a schema's types need."""
    found = {leaf.name for leaf in leaf_types(schema)}
    return frozenset(
        row.name for row in REGISTRY.values() if not found.isdisjoint(row.column_types)
    )


def choose_protocol(features: Iterable[str]) -> Protocol:
    """Return the lowest protocol of a new table that supports the features."""
    return protocol_of(list_features(PLAIN) | frozenset(features))
