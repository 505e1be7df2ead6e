"""Read and write ``_last_vacuum_info``: the version up to which a vacuum handled removed files.

Delta on Spark uses it for VACUUM LITE; it is not in the protocol. A missing or unreadable file
counts as unknown.
"""

from __future__ import annotations

import json

from deltactl.errors import ObjectNotFoundError
from deltactl.protocol.names import LAST_VACUUM_INFO, LOG_DIR
from deltactl.storage.store import Store

_NAME = f"{LOG_DIR}/{LAST_VACUUM_INFO}"
_KEY = "latestCommitVersionOutsideOfRetentionWindow"


def read_last_vacuum_info(store: Store) -> int | None:
    """Return the version up to which all removed files are vacuumed; ``None`` if unknown."""
    try:
        node = json.loads(store.read(_NAME))
    except (ObjectNotFoundError, ValueError, RecursionError):
        return None
    version = node.get(_KEY) if isinstance(node, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        return None
    return version


def write_last_vacuum_info(store: Store, version: int | None) -> None:
    """Write the version; ``None`` means that the next vacuum needs a listing."""
    node = {} if version is None else {_KEY: version}
    # The line end is that of Delta on Spark.
    store.put(_NAME, (json.dumps(node, separators=(",", ":")) + "\n").encode())
