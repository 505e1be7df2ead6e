"""Read a written checkpoint back and compare it, before `_last_checkpoint` refers to it.

This includes a check that Spark makes: the checkpoint has as many adds as the snapshot has files.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltactl.errors import CorruptLogError, DeltactlError, StorageError, VerificationError
from deltactl.log.checkpoint.action_file import Fingerprint, KeyDigest, WrittenActions
from deltactl.log.checkpoint.read import CheckpointHead, RowGroupRange, read_file_actions, read_head
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.threads import read_ahead
from deltactl.protocol.action_nodes import encode_protocol
from deltactl.storage.store import Store

_KEY_COLUMNS = ("encoded_path", "deletion_vector", "size_bytes")


def verify_actions(store: Store, version: int, written: WrittenActions) -> None:
    """Read a file's actions back, and compare counts, bytes and a digest of the keys.

    Raises:
        VerificationError: the message names the file and what differs.
        StorageError: the store failed. The file may still be valid.
    """
    head = CheckpointHead(version, (written.file.name,))
    ranges = (RowGroupRange(written.file.name),)
    for kind, expected in (("add", written.adds), ("remove", written.removes)):
        digest = KeyDigest()
        try:
            for table in read_ahead(read_file_actions(store, head, kind, _KEY_COLUMNS, ranges)):
                for batch in table.to_batches():
                    digest.add(batch)
        except CorruptLogError as error:
            raise VerificationError(f"{written.file.name} cannot be read back: {error}") from error
        _compare(f"{written.file.name}: {kind} actions", expected, digest.finish())


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
