"""Find the protocol of the latest version, without the state of the table."""

from __future__ import annotations

import json
from contextlib import suppress

from deltactl.errors import MALFORMED, CorruptLogError, StorageError
from deltactl.log.commits.contents import CommitBytes, CommitReader, find_actions
from deltactl.log.listing import LogListing
from deltactl.log.segment import select_segment
from deltactl.protocol.actions import Protocol, parse_protocol


def latest_protocol(reader: CommitReader, listing: LogListing) -> Protocol | None:
    """Return the protocol of the latest version of a table with in-commit timestamps.

    It is in the newest commit that changes it, or in the checkpoint before. The checksum file of
    the version has it too, but counts only if it has the in-commit timestamp of the commit: a file
    that is left from other commits has another.

    Returns:
        ``None`` if one of these files cannot be used.
    """
    with suppress(CorruptLogError, StorageError, *MALFORMED):
        segment = select_segment(listing)
        if segment.commit is not None:
            newest = reader.read_one(segment.commit)
            found = _last_in(newest) or _in_checksum(reader, listing, newest)
            if found is not None:
                return found
        # From the newest on: the first protocol applies.
        for commit in reader.read(segment.tail[::-1]):
            if (found := _last_in(commit)) is not None:
                return found
        if segment.checkpoint is not None:
            from deltactl.log.checkpoint.read import read_head  # it needs Arrow

            return read_head(reader.store, segment.checkpoint).non_file_actions.protocol
    return None


def _last_in(commit: CommitBytes) -> Protocol | None:
    nodes = [*find_actions(commit.name, commit.data, "protocol")]
    return parse_protocol(nodes[-1]) if nodes else None


def _in_checksum(reader: CommitReader, listing: LogListing, commit: CommitBytes) -> Protocol | None:
    file = None if listing.latest_version is None else listing.checksums.get(listing.latest_version)
    if file is None:
        return None
    with suppress(StorageError, RecursionError, *MALFORMED):
        node = json.loads(reader.store.read(file.name))
        if node["inCommitTimestampOpt"] == commit.in_commit_timestamp:
            return parse_protocol(node["protocol"])
    return None
