"""Moving ``_last_checkpoint`` on, never back.

Source: PROTOCOL.md, "Last Checkpoint File".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltactl.log.hint import HINT_NAME, encode_hint
from deltactl.log.listing import list_log
from deltactl.storage.store import Store


def move_hint(store: Store, hint: Mapping[str, Any]) -> bool:
    """Let ``_last_checkpoint`` name a checkpoint, unless there is a newer one.

    The log is listed anew: another writer may have checkpointed meanwhile. A hint that is torn,
    or names what is not there, is replaced like any other.

    Returns:
        Whether it was written.

    Raises:
        StorageError: the store failed.
    """
    version = int(hint["version"])
    if any(found.version > version for found in list_log(store, version + 1).checkpoints):
        return False
    store.put(HINT_NAME, encode_hint(hint))
    return True
