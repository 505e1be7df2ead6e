"""Read and write ``_last_vacuum_info``: the version up to which a vacuum handled removed files.

Delta on Spark uses it for VACUUM LITE; it is not in the protocol. A missing or unreadable file
counts as unknown.
"""

from __future__ import annotations

import json

from deltactl.errors import ObjectNotFoundError
from deltactl.log.delta_log import DeltaLog
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


def trusted_version(log: DeltaLog, recorded: int | None, *, latest: int) -> int | None:
    """Return the recorded version, unless it is of an earlier table at this address.

    After a restore of the log from a backup, another commit may have this version.
    """
    if recorded is None or recorded > latest:
        return None
    written_ms, commit = log.listing.vacuum_info_ms, log.commit_files.get(recorded)
    is_older = written_ms is not None and commit is not None and commit.modified_ms > written_ms
    return None if is_older else recorded


def write_last_vacuum_info(store: Store, version: int | None) -> None:
    """Write the version; ``None`` means that the next vacuum needs a listing."""
    node = {} if version is None else {_KEY: version}
    # The line end is that of Delta on Spark.
    store.put(_NAME, (json.dumps(node, separators=(",", ":")) + "\n").encode())
