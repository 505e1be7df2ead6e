"""Find changes of a deep clone since the last run, except those that change no row."""

from __future__ import annotations

import shlex
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError, TableError
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.operations.clone.commits import PastClone, app_id
from deltactl.option_names import option
from deltactl.protocol.actions import is_same_metadata

_PROTOCOL: Final = "its protocol was changed"


def ensure_unchanged(
    log: DeltaLog,
    current: Snapshot,
    past: PastClone | None,
    source: Snapshot,
) -> None:
    """Refuse a clone with changes of others: a sync would undo them.

    Commits that only move rows, commits without files, and changes that a restore discarded are
    allowed.

    Raises:
        SafetyError: the message says what changed.
    """
    where = shlex.quote(current.store.uri)
    txn = current.txns[app_id(source.metadata.id)]
    if past is None or not past.deep or past.source_version != txn.version:
        raise SafetyError(
            f"the log of {where} no longer has the commit of the last clone run. So it is "
            "unknown whether the clone was changed after that run",
            hint=f"Add {option('full', True)} to replace the clone's files with those of the "
            "source.",
        )
    reason = _find_reason(log, current, past.version)
    if reason is None or _is_as_cloned(log, current, past.version):
        return
    full = option("full", True)
    hint = f"Add {full} to replace the clone's files and state with those of the source."
    if reason != _PROTOCOL:  # a restore keeps the protocol
        hint = (
            f"Run `deltactl describe-history {where}` to see the changes. Run `deltactl restore "
            f"{where} --to-version {past.version}` to discard them, or add {full}."
        )
    raise SafetyError(
        f"{where} was changed after the last clone run, which copied version {txn.version} of the "
        f"source: {reason}",
        hint=hint,
    )


def _find_reason(log: DeltaLog, current: Snapshot, version: int) -> str | None:
    """Return what the commits after a version changed; ``None`` if they only rearranged rows."""
    first, last = version + 1, current.version
    if not log.has_commits(first, last):
        return "its log is not complete"
    tail = log.replay(range(first, last + 1), current.metadata.partition_keys)
    news = tail.non_file_actions
    if news.protocol is not None:
        return _PROTOCOL
    if news.metadata is not None:
        return "its schema or properties were changed"
    if set(news.domains) - {ROW_TRACKING_DOMAIN}:
        return "its domain metadata were changed"
    rows = chain.from_iterable(
        it.batches(["data_change"]) for it in (tail.add_rows, tail.remove_rows)
    )
    if any(pc.any(part["data_change"]).as_py() for part in rows):
        return "rows were added or removed"
    return None


def _is_as_cloned(log: DeltaLog, current: Snapshot, version: int) -> bool:
    """Return whether the changes since a version were discarded, as by a restore."""
    try:
        then = log.snapshot(version)
    except TableError:
        return False
    return (
        current.protocol == then.protocol
        and is_same_metadata(current.metadata, then.metadata)
        and _domains(current) == _domains(then)
        and _keys(current) == _keys(then)
    )


def _domains(snapshot: Snapshot) -> dict[str, str]:
    return {
        name: domain.configuration
        for name, domain in snapshot.domains.items()
        if name != ROW_TRACKING_DOMAIN and not domain.removed
    }


def _keys(snapshot: Snapshot) -> pa.ChunkedArray:
    keys = [file_keys(batch) for batch in snapshot.file_batches(KEY_COLUMNS)]
    chunks = [chunk for column in keys for chunk in column.chunks]
    found = pa.chunked_array(chunks, pa.string())
    return found.take(pc.sort_indices(found)).combine_chunks()
