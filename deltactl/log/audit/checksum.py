"""Read, check and write version checksum files (``N.crc``).

Delta on Spark computes the next checksum from the last one. So deltactl writes a file only if it
computed every field from the whole snapshot, and it never replaces a file.

Source: PROTOCOL.md, "Version Checksum File".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from deltactl.errors import MALFORMED, CorruptLogError, ObjectExistsError, ObjectNotFoundError
from deltactl.log.audit.size_histogram import MEMBERS, encode_histogram, histogram_problem
from deltactl.log.commits.contents import in_commit_timestamp
from deltactl.log.committers.committer import create_file
from deltactl.log.snapshot import Snapshot
from deltactl.protocol.action_nodes import (
    encode_domain,
    encode_metadata,
    encode_protocol,
    encode_txn,
)
from deltactl.protocol.actions import (
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    is_same_metadata,
    parse_domain_metadata,
    parse_metadata,
    parse_protocol,
    parse_txn,
)
from deltactl.protocol.names import LOG_DIR, checksum_name
from deltactl.storage.store import Store

# Some readers take these from the file instead of the commits.
READ_MEMBERS: Final = frozenset({"protocol", "metadata", "inCommitTimestampOpt"})
# They differ if file actions of commits were lost.
COUNTS: Final = frozenset({"numFiles", "tableSizeBytes"})
# Writers fill in the other members in different ways, so a difference there shows no damage.
DECISIVE: Final = ("numFiles", "tableSizeBytes", "metadata")


@dataclass(frozen=True, slots=True)
class Checksum:
    """The content of a checksum file; only the counts are required."""

    num_files: int
    size_bytes: int
    protocol: Protocol | None
    metadata: Metadata | None
    domains: dict[str, DomainMetadata] | None
    txns: dict[str, Txn] | None

    def compare_files(self, num_files: int, size_bytes: int) -> dict[str, str]:
        """Return how the counts differ from those of the log, by member."""
        counts = (
            ("numFiles", self.num_files, num_files),
            ("tableSizeBytes", self.size_bytes, size_bytes),
        )
        return {key: f"{key} is {a}, but the log has {b}" for key, a, b in counts if a != b}

    def compare_state(
        self, protocol: Protocol, metadata: Metadata, domains: Mapping[str, DomainMetadata]
    ) -> dict[str, str]:
        """Return which actions differ from those of the log, by member, without transactions."""
        wrong = [*self.compare_metadata(metadata)]
        # As nodes, an empty list of features and none are equal.
        if self.protocol is not None and encode_protocol(self.protocol) != encode_protocol(
            protocol
        ):
            wrong.append("protocol")
        if self.domains is not None and self.domains != dict(domains):
            wrong.append("domainMetadata")
        return {member: f"{member} differs from the log" for member in wrong}

    def compare_metadata(self, metadata: Metadata | None) -> dict[str, str]:
        """Return how the metadata differ from those of the log, if both are known, by member."""
        if self.metadata is None or metadata is None or is_same_metadata(self.metadata, metadata):
            return {}
        return {"metadata": "metadata differs from the log"}


def find_disagreements(
    store: Store, snapshot: Snapshot, num_files: int, size_bytes: int
) -> dict[str, str] | None:
    """Return how the version's checksum file differs from the snapshot; ``None`` if none exists.

    The texts are by member of the file, or by its name if the whole file is not valid.

    Raises:
        StorageError: the store failed; the file may be valid.
    """
    name = f"{LOG_DIR}/{checksum_name(snapshot.version)}"
    try:
        node = json.loads(store.read(name))
        found = _parse_checksum(node)
    except ObjectNotFoundError:
        return None
    except (*MALFORMED, RecursionError) as error:
        return {name: f"{name} is not a version checksum ({type(error).__name__}: {error})"[:300]}
    try:
        sizes = histogram_problem(node, snapshot)
    except MALFORMED as error:
        sizes = f"the histogram of sizes is malformed ({type(error).__name__}: {error})"[:300]
    wrong = found.compare_files(num_files, size_bytes)
    wrong |= found.compare_state(snapshot.protocol, snapshot.metadata, snapshot.domains)
    # If transactions expire, the current time decides which of them are still valid.
    expires = snapshot.properties.txn_retention_ms is not None
    if found.txns is not None and not expires and found.txns != dict(snapshot.txns):
        wrong["setTransactions"] = "setTransactions differs from the log"
    if sizes is not None:
        wrong["histogram"] = sizes
    wrong |= _compare_constants(node) | _compare_time(node, snapshot)
    return {member: f"{name}: {text}" for member, text in wrong.items()}


def find_contradiction(snapshot: Snapshot) -> str | None:
    """Return how the version's checksum file differs from its files or schema, or ``None``.

    Raises:
        StorageError: the store failed.
    """
    counts = snapshot.num_files, snapshot.size_bytes
    found = find_disagreements(snapshot.store, snapshot, *counts) or {}
    return "; ".join(found[member] for member in DECISIVE if member in found) or None


def _compare_constants(node: Mapping[str, Any]) -> dict[str, str]:
    counts = {member: node.get(member) for member in ("numMetadata", "numProtocol")}
    wrong = {member: count for member, count in counts.items() if count not in (None, 1)}
    return {member: f"{member} is {count}, but must be 1" for member, count in wrong.items()}


def _compare_time(node: Mapping[str, Any], snapshot: Snapshot) -> dict[str, str]:
    """Compare the in-commit timestamp with the commit, if the commit can be read."""
    member, actual = "inCommitTimestampOpt", None
    if node.get(member) is None or not snapshot.properties.in_commit_timestamps:
        return {}
    with suppress(CorruptLogError, ObjectNotFoundError):
        actual = in_commit_timestamp(_read_info(snapshot))
    if actual is None or node[member] == actual:
        return {}
    return {member: f"{member} is {node[member]}, but its commit has {actual}"}


def _read_info(snapshot: Snapshot) -> dict[str, Any] | None:
    commit = snapshot.segment.commit
    return None if commit is None else snapshot.reader.read_one(commit).info


def read_checksum(store: Store, version: int) -> Checksum | None:
    """Return a version's checksum file; ``None`` if there is none, or it is not valid.

    Raises:
        StorageError: the store failed.
    """
    try:
        return _parse_checksum(json.loads(store.read(f"{LOG_DIR}/{checksum_name(version)}")))
    except (*MALFORMED, RecursionError, ObjectNotFoundError):
        return None


def _parse_checksum(node: Mapping[str, Any]) -> Checksum:
    """Return the content of a checksum file.

    Raises:
        Exception: one of ``MALFORMED``.
    """
    domains, txns = node.get("domainMetadata"), node.get("setTransactions")
    return Checksum(
        int(node["numFiles"]),
        int(node["tableSizeBytes"]),
        parse_protocol(node["protocol"]) if "protocol" in node else None,
        parse_metadata(node["metadata"]) if "metadata" in node else None,
        None if domains is None else {d["domain"]: parse_domain_metadata(d) for d in domains},
        None if txns is None else {t["appId"]: parse_txn(t) for t in txns},
    )


def write_checksum(store: Store, snapshot: Snapshot, num_files: int, size_bytes: int) -> str | None:
    """Write the version's checksum file; return its name, or ``None`` if there is already one.

    Raises:
        CorruptLogError: the commit of the version is broken.
    """
    name = f"{LOG_DIR}/{checksum_name(snapshot.version)}"
    info = _read_info(snapshot)
    node: dict[str, Any] = {}
    if info is not None and isinstance(txn_id := info.get("txnId"), str):
        node["txnId"] = txn_id
    node |= {
        "tableSizeBytes": size_bytes,
        "numFiles": num_files,
        # The protocol requires both, and always 1 (PROTOCOL.md, "Version Checksum File").
        "numMetadata": 1,
        "numProtocol": 1,
    }
    # Required if the table has these timestamps, and else not allowed.
    if snapshot.properties.in_commit_timestamps:
        timestamp = in_commit_timestamp(info)
        if timestamp is None:
            return None  # then some members of the checksum are unknown
        node["inCommitTimestampOpt"] = timestamp
    if snapshot.properties.txn_retention_ms is None:  # else the time decides
        node["setTransactions"] = [encode_txn(txn) for txn in snapshot.txns.values()]
    node |= {
        "domainMetadata": [encode_domain(domain) for domain in snapshot.domains.values()],
        "metadata": encode_metadata(snapshot.metadata),
        "protocol": encode_protocol(snapshot.protocol),
        MEMBERS[0]: encode_histogram(snapshot),
    }
    try:
        text = json.dumps(node, ensure_ascii=False, separators=(",", ":"))
        create_file(store, name, text.encode())
    except ObjectExistsError:
        return None
    return name
