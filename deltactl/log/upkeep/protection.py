"""Apply checkpoint protection: old clients must not read history that used a dropped feature.

Source: the RFC "Checkpoint Protection" (``delta.requireCheckpointProtectionBeforeVersion``).
"""

from __future__ import annotations

from deltactl.errors import MALFORMED, CorruptLogError, SafetyError, UnsupportedFeatureError
from deltactl.log.checkpoint.read import read_head
from deltactl.log.commits.info import find_actions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.actions import Protocol, parse_protocol
from deltactl.protocol.features import (
    CHECKPOINT_PROTECTION,
    Operation,
    ensure_supported,
    has_feature,
)
from deltactl.protocol.properties import ensure_valid_property

NO_HISTORY_IS_DELETED = "no history is deleted"


def ensure_unprotected(log: DeltaLog, snapshot: Snapshot, base: int) -> None:
    """Raise an error for a cleanup up to ``base`` that checkpoint protection forbids.

    A cleanup is allowed in one of these cases:

    - It removes all protected versions at once.
    - It removes no protected checkpoint.
    - deltactl supports the protocol of every version that the cleanup removes, and of the first
      version that remains.

    Raises:
        SafetyError: none of these cases applies, or the property is not valid.
    """
    if not has_feature(snapshot.protocol, CHECKPOINT_PROTECTION):
        return
    key = "delta.requireCheckpointProtectionBeforeVersion"
    with ensure_valid_property(key, NO_HISTORY_IS_DELETED):
        protected = snapshot.properties.protected_before_version
    if base >= protected:
        return
    if not any(checkpoint.version < base for checkpoint in log.listing.checkpoints):
        return
    try:
        for protocol in _find_protocols(log, base):
            ensure_supported(protocol, snapshot.metadata, Operation.CHECKPOINT)
    except (CorruptLogError, UnsupportedFeatureError, *MALFORMED) as error:
        raise SafetyError(
            f"the log before version {base} is not deleted: it has a protocol that deltactl does "
            f"not support, and {key} protects a part of the log before version {protected}: "
            f"{error}",
            hint=f"Wait until all versions before {protected} have expired. Then a cleanup may "
            "delete all of them together, whatever their protocol is.",
        ) from error


def _find_protocols(log: DeltaLog, base: int) -> list[Protocol]:
    """Return every protocol that applied to a version up to ``base``."""
    store, listing = log.store, log.listing
    found = [
        parse_protocol(node)
        for commit in log.commits(v for v in sorted(listing.commits) if v <= base)
        for node in find_actions(commit.name, commit.data, "protocol")
    ]
    for checkpoint in listing.checkpoints:
        if checkpoint.version <= base:
            protocol = read_head(store, checkpoint).non_file_actions.protocol
            found += [] if protocol is None else [protocol]
    return found
