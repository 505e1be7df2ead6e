"""Notes of shallow clones in their source: ``_deltactl/clones/<hash of the clone's address>.json``.

A note is written before the clone's commit, so that no vacuum removes files that the clone names.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Final

from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store

NOTES: Final = f"{OWN_DIR}/clones"


@dataclass(frozen=True, slots=True)
class CloneNote:
    """A shallow clone: its address, the version it was made from, ms since 1970 UTC."""

    clone_uri: str
    version: int
    created_ms: int


def write_note(store: Store, note: CloneNote) -> None:
    """Store a note, durably; it replaces an earlier one of the same clone."""
    name = sha256(note.clone_uri.encode()).hexdigest()[:32]
    store.put(f"{NOTES}/{name}.json", json.dumps(asdict(note), indent=2).encode())
