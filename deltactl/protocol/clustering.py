"""Read the ``delta.clustering`` domain: the clustering columns of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltactl.protocol.actions import DomainMetadata

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
