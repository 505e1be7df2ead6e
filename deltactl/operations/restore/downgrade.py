"""``--allow-protocol-downgrade``: choose the protocol, and check when it may be older.

Source: PROTOCOL.md, "Protocol Evolution", "Drop Feature". Readers of the older protocol must never
replay actions that they do not support: if they ignore a deletion vector, deleted rows are returned
again.
"""

from __future__ import annotations

import shlex

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.row_ids import ROW_TRACKING_DOMAIN
from deltactl.option_names import option
from deltactl.protocol.actions import Protocol
from deltactl.protocol.features import (
    CHECKPOINT_PROTECTION,
    DELETION_VECTORS,
    DOMAIN_METADATA,
    REGISTRY,
    ROW_TRACKING,
    V2_CHECKPOINT,
    Feature,
    has_feature,
    list_features,
    merge_protocols,
)
from deltactl.protocol.properties import DEFAULT_RETENTION_MS
from deltactl.units import format_duration, format_timestamp


def downgraded_protocol(current: Snapshot, target: Snapshot) -> Protocol:
    """Return the target's protocol, with the features that protect history, row ids and domains.

    A commit may only change or remove domains if the protocol has their feature.
    """
    kept: list[Feature] = []
    if has_feature(current.protocol, CHECKPOINT_PROTECTION):
        kept.append(CHECKPOINT_PROTECTION)
    if current.domains:
        kept.append(DOMAIN_METADATA)
    if ROW_TRACKING_DOMAIN in current.domains:
        kept += [ROW_TRACKING, *(REGISTRY[name] for name in ROW_TRACKING.needs)]
    if not kept:
        return target.protocol
    names = frozenset(feature.name for feature in kept)
    return merge_protocols(target.protocol, Protocol(1, 7, writer_features=names))


def find_downgrade_refusal(
    current: Snapshot, protocol: Protocol, removed: pa.Table
) -> SafetyError | None:
    """Return the reason why readers of the older protocol would misread the log, if any.

    ``protocol`` is the one to write; ``removed`` are the files that the restore removes.
    """
    dropped = list_features(current.protocol) - list_features(protocol)
    readers = sorted(name for name in dropped if name not in REGISTRY or REGISTRY[name].reader)
    if not readers:
        return None
    where = shlex.quote(current.store.uri)
    if current.segment.checkpoint_version != current.version:
        since, checkpoint = "", current.segment.checkpoint
        if checkpoint is not None:
            since = f" after the checkpoint of version {checkpoint.version}"
        return _refuse(
            readers,
            f"readers that do not support these features would still read the commits{since}",
            hint=f"Run `deltactl checkpoint {where}`, then rerun.",
        )
    if V2_CHECKPOINT.name in dropped and _has_v2_checkpoint(current):
        return _refuse(
            readers,
            "the latest checkpoint is a V2 checkpoint",
            hint=f"Restore without {option('allow_protocol_downgrade')}; run `deltactl checkpoint "
            f"{where} --kind classic`; then rerun with {option('allow_protocol_downgrade', True)}.",
        )
    if DELETION_VECTORS.name in dropped:
        return _find_vectors(current, removed, readers)
    return None


def _has_v2_checkpoint(current: Snapshot) -> bool:
    checkpoint, head = current.segment.checkpoint, current.head
    return (checkpoint is not None and checkpoint.kind == "uuid") or bool(head and head.sidecars)


def _find_vectors(current: Snapshot, removed: pa.Table, readers: list[str]) -> SafetyError | None:
    retention_ms = current.properties.duration_ms(
        "delta.deletedFileRetentionDuration", DEFAULT_RETENTION_MS
    )
    checkpoint = f"`deltactl checkpoint {shlex.quote(current.store.uri)}`"
    if removed["deletion_vector"].null_count < removed.num_rows:
        return _refuse(
            readers,
            "the restore would remove files with deletion vectors, and their tombstones would "
            "stay in the log",
            hint=f"Restore without {option('allow_protocol_downgrade')} now. When the retention "
            f"of {format_duration(retention_ms)} has passed, run {checkpoint}, then restore with "
            f"{option('allow_protocol_downgrade', True)}.",
        )
    newest = _newest_vector_tombstone(current)
    if newest is None:
        return None
    return _refuse(
        readers,
        "tombstones in the log have deletion vectors",
        hint=f"Wait until {format_timestamp(newest + retention_ms)}. Then run {checkpoint}, "
        f"which drops expired tombstones, and rerun.",
    )


def _newest_vector_tombstone(current: Snapshot) -> int | None:
    newest = None
    for batch in current.tombstone_batches(("deletion_vector", "deletion_timestamp_ms")):
        marked = batch.filter(batch["deletion_vector"].is_valid())
        if marked.num_rows:
            found = pc.max(pc.fill_null(marked["deletion_timestamp_ms"], 0)).as_py()
            newest = found if newest is None else max(newest, found)
    return newest


def _refuse(readers: list[str], reason: str, *, hint: str) -> SafetyError:
    return SafetyError(
        f"the restore cannot yet remove {', '.join(readers)} from the table's features: {reason}",
        hint=hint,
    )
