"""``_last_vacuum_info``: up to which version a vacuum has dealt with what commits removed.

Delta on Spark keeps it for its LITE mode; it is not in the protocol. Absent or unreadable, it says
nothing.
"""

from __future__ import annotations

import json

from deltactl.errors import ObjectNotFoundError
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.store import Store

_NAME = f"{LOG_DIR}/_last_vacuum_info"
_KEY = "latestCommitVersionOutsideOfRetentionWindow"


def read_bookmark(store: Store) -> int | None:
    """The version up to which nothing is left for a vacuum by the log; ``None`` if not known."""
    try:
        node = json.loads(store.read(_NAME))
    except ObjectNotFoundError:
        return None
    except (ValueError, RecursionError):
        return None
    version = node.get(_KEY) if isinstance(node, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        return None
    return version


def write_bookmark(store: Store, version: int | None) -> None:
    """Set the bookmark; ``None`` says that only a listing can tell what is left."""
    node = {} if version is None else {_KEY: version}
    store.put(_NAME, (json.dumps(node, separators=(",", ":")) + "\n").encode())
