"""Read the ``delta.clustering`` domain: the clustering columns of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltactl.protocol.actions import DomainMetadata
from deltactl.protocol.schema import StructType

CLUSTERING_DOMAIN = "delta.clustering"


def clustering_columns(domains: Mapping[str, DomainMetadata]) -> tuple[tuple[str, ...], ...]:
    """Return physical name paths of the clustering columns; empty if the table is not clustered.

    The domain can contain names, as in the example of the protocol, or name paths, as Delta on
    Spark writes. Both are read.
    """
    domain = domains.get(CLUSTERING_DOMAIN)
    if domain is None:
        return ()
    try:
        columns = json.loads(domain.configuration).get("clusteringColumns") or []
        return tuple((c,) if isinstance(c, str) else tuple(map(str, c)) for c in columns)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ()  # not valid: only statistics and display use the value, and both work without it


def clustering_names(domains: Mapping[str, DomainMetadata], schema: StructType) -> list[str]:
    """Return logical names of the clustering columns, nested ones dotted.

    Names that are not in the schema stay physical.
    """
    paths = clustering_columns(domains)
    known = [schema.fields_at(path) for path in paths]
    return [
        ".".join([*(field.name for field in fields), *path[len(fields) :]])
        for fields, path in zip(known, paths, strict=True)
    ]
