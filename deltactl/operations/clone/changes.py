"""Find changes of a deep clone since the last run, except those that change no row."""

from __future__ import annotations

import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.listing import LogListing
from deltactl.log.replay import replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.operations.clone.commits import PastClone, app_id


def ensure_unchanged(
    current: Snapshot, listing: LogListing, past: PastClone | None, source: Snapshot
) -> None:
    """Refuse a clone with changes of others: a sync would undo them.

    Commits that only move rows, and commits without files, are allowed.

    Raises:
        SafetyError: the message says what changed.
    """
    where = current.store.uri
    txn = current.txns[app_id(source.metadata.id)]
    if past is None or not past.deep or past.source_version != txn.version:
        raise SafetyError(
            f"the log of {where} no longer has the commit of its last clone, so it is not known "
            "whether the clone was changed since",
            hint="Add --full to replace the clone's files by those of the source.",
        )
    infos = [listing.commits.get(v) for v in range(past.version + 1, current.version + 1)]
    known = [info for info in infos if info is not None]
    tail = replay_tail(current.store, known, current.metadata.partition_keys)
    news = tail.non_file_actions
    reason = None
    if len(known) < len(infos):
        reason = "its log is not complete"
    elif news.metadata is not None or news.protocol is not None:
        reason = "its schema, properties or protocol were changed"
    elif set(news.domains) - {ROW_TRACKING_DOMAIN}:
        reason = "its domain metadata were changed"
    elif any(pc.any(part["data_change"]).as_py() for part in (tail.adds, tail.removes)):
        reason = "rows were added or removed"
    if reason is not None:
        raise SafetyError(
            f"{where} was changed after the clone of version {txn.version}: {reason}",
            hint=f"Run `deltactl describe-history {where}` to see the changes. Run `deltactl "
            f"restore {where} --to-version {past.version}` to discard them, or add --full.",
        )
