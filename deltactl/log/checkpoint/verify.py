"""Read a written checkpoint back and compare it, before `_last_checkpoint` refers to it.

This includes a check that Spark makes: the checkpoint has as many adds as the snapshot has files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from deltactl.errors import CorruptLogError, DeltactlError, StorageError, VerificationError
from deltactl.log.checkpoint.key_digest import Fingerprint, KeyDigest, join_fingerprints
from deltactl.log.checkpoint.read import (
    CheckpointHead,
    Piece,
    read_adds,
    read_head,
    read_removes,
    row_group_rows,
)
from deltactl.log.checkpoint.write import WrittenActions
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.listing import Checkpoint
from deltactl.log.threads import count_threads, read_ahead
from deltactl.protocol.action_nodes import encode_protocol
from deltactl.storage.names import is_local_uri
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store

_Read: TypeAlias = Callable[
    [Store, CheckpointHead, Sequence[str], Sequence[Piece]], Iterator[pa.Table]
]

_KEY_COLUMNS = ("encoded_path", "deletion_vector", "size_bytes")


def verify_actions(store: Store, version: int, written: WrittenActions) -> None:
    """Read a file's actions back, and compare counts, bytes and a digest of the keys.

    Raises:
        VerificationError: the message names the file and what differs.
        StorageError: the store failed. The file may still be valid.
    """
    head = CheckpointHead(version, (written.file.name,))
    for kind, expected, counts, read in (
        ("add", written.adds, written.group_adds, read_adds),
        ("remove", written.removes, written.group_removes, read_removes),
    ):
        try:
            shares = _share_groups(store, head, counts)
            work = partial(_digest_share, store, head, counts, read)
            parts = [part for share in each_in_parallel(work, shares) for part in share]
        except CorruptLogError as error:
            raise VerificationError(f"{written.file.name} cannot be read back: {error}") from error
        _compare(f"{written.file.name}: {kind} actions", expected, join_fingerprints(parts))


def _share_groups(store: Store, head: CheckpointHead, counts: Sequence[int]) -> list[range]:
    """Divide the row groups of a local file among threads; ``counts`` are their actions.

    On object stores, each thread would send requests of its own.
    """
    whole = range(len(counts))
    most = min(count_threads(), sum(count > 0 for count in counts))
    if most < 2 or not is_local_uri(store.uri):
        return [whole]
    found = len(row_group_rows(store, head, head.parts[0]))
    if found != len(counts):
        raise CorruptLogError(f"it has {found} row groups, but {len(counts)} were written")
    ends = np.cumsum(counts)
    cuts = [int(np.abs(ends - ends[-1] * n / most).argmin()) + 1 for n in range(1, most)]
    return [whole[first:last] for first, last in pairwise([0, *cuts, len(counts)]) if first < last]


def _digest_share(
    store: Store, head: CheckpointHead, counts: Sequence[int], read: _Read, share: range
) -> list[Fingerprint]:
    """Return the digest of each row group, and a last one for rows that were not written."""
    is_whole = len(share) == len(counts)
    piece = Piece(head.parts[0], None if is_whole else tuple(share))
    tables = read(store, head, _KEY_COLUMNS, (piece,))
    rest = iter(counts[share.start : share.stop])
    found = [KeyDigest()]
    room = next(rest, None)
    for table in read_ahead(tables) if is_whole else tables:
        for batch in table.to_batches():
            start = 0
            while start < batch.num_rows:
                while room == 0:
                    found.append(KeyDigest())
                    room = next(rest, None)
                part = batch.slice(start, room)
                found[-1].add(part)
                start += part.num_rows
                room = None if room is None else room - part.num_rows
    return [digest.finish() for digest in found]


def _compare(what: str, expected: Fingerprint, found: Fingerprint) -> None:
    if expected == found:
        return
    if expected.count != found.count:
        detail = f"{expected.count} were written, but the file has {found.count}"
    elif expected.size_bytes != found.size_bytes:
        detail = (
            f"files of {expected.size_bytes} bytes were written, but {found.size_bytes} bytes are "
            "stored"
        )
    else:
        detail = "the stored keys differ from the written keys"
    raise VerificationError(f"{what}: {detail}", hint="Rerun. No reader uses the new checkpoint.")


def verify_head(
    store: Store, checkpoint: Checkpoint, expected: NonFileActions, sidecars: Sequence[str]
) -> None:
    """Read non-file actions back; compare them and the sidecars with the snapshot.

    Raises:
        VerificationError: the message names what differs.
        StorageError: the store failed. The checkpoint may still be valid.
    """
    where = checkpoint.names[0]
    try:
        head = read_head(store, checkpoint)
    except StorageError:
        raise
    except DeltactlError as error:
        raise VerificationError(f"{where} cannot be read back: {error}") from error
    for what, found, wanted in (
        ("protocol", _shown(head.non_file_actions), _shown(expected)),
        ("metaData", head.non_file_actions.metadata, expected.metadata),
        ("txn", head.non_file_actions.txns, expected.txns),
        ("domainMetadata", head.non_file_actions.domains, expected.domains),
        ("sidecar", sorted(head.sidecars), sorted(sidecars)),
    ):
        if found != wanted:
            raise VerificationError(
                f"{where} was read back, and its {what} differs from what was written",
                hint="Rerun. No file refers to the new checkpoint.",
            )


def _shown(non_file_actions: NonFileActions) -> object:
    """Return the protocol in a form to compare.

    If the versions allow both, an absent feature list and an empty list are equal.
    """
    return None if non_file_actions.protocol is None else encode_protocol(non_file_actions.protocol)
