"""Parse and format names of files in ``_delta_log`` (PROTOCOL: File Types).

A version has exactly 20 digits, so that the byte order of a listing is the order of versions. The
files of a version have this order in a listing: ``N.checkpoint*``, ``N.crc``, ``N.json``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

LOG_DIR: Final = "_delta_log"
LAST_CHECKPOINT: Final = "_last_checkpoint"
LAST_VACUUM_INFO: Final = "_last_vacuum_info"
SIDECAR_DIR: Final = "_sidecars"
STAGED_COMMITS_DIR: Final = "_staged_commits"
TEMP_COMMITS_DIR: Final = ".tmp"  # of commits that DynamoDB decides

CheckpointKind: TypeAlias = Literal["classic", "multipart", "uuid"]
CheckpointFormat: TypeAlias = Literal["parquet", "json"]

_MAX_VERSION: Final = 2**63 - 1
_COMMIT_LENGTH: Final = len("00000000000000000000.json")
_VERSIONED: Final = re.compile(r"([0-9]{20})\.(.+)", re.DOTALL)
_COMPACTED: Final = re.compile(r"([0-9]{20})\.compacted\.json")
_MULTIPART: Final = re.compile(r"checkpoint\.([0-9]{1,10})\.([0-9]{1,10})\.parquet")
_UUID: Final = re.compile(r"checkpoint\.[^./]+\.(json|parquet)")


@dataclass(frozen=True, slots=True)
class CommitFile:
    """``N.json``: one commit."""

    version: int


@dataclass(frozen=True, slots=True)
class ChecksumFile:
    """``N.crc``: a summary of the table at a version."""

    version: int


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """One file of a checkpoint.

    ``part`` (from 1) and ``num_parts`` are set for multi-part checkpoints. Only UUID-named ones (V2
    spec) may be JSON.
    """

    version: int
    kind: CheckpointKind
    part: int | None
    num_parts: int | None
    format: CheckpointFormat


@dataclass(frozen=True, slots=True)
class CompactedFile:
    """``x.y.compacted.json``: reconciled actions of the commits ``start`` to ``end``, inclusive."""

    start: int
    end: int


LogFile: TypeAlias = CommitFile | ChecksumFile | CheckpointFile | CompactedFile


def parse_log_name(name: str) -> LogFile | None:
    """Parse the name of a file directly in ``_delta_log``; return ``None`` for names to ignore.

    Names to ignore are no errors, because the protocol allows other files:

    - unknown names, temporary files and side files
    - versions above 2^63-1
    - a part number that is above the number of parts
    - a compacted file that ends before it starts
    """
    commit = parse_commit_name(name)
    if commit is not None:
        return CommitFile(commit)
    match = _VERSIONED.fullmatch(name)
    if match is None or int(match[1]) > _MAX_VERSION:
        return None
    return _parse_suffix(int(match[1]), match[2])


def parse_commit_name(name: str) -> int | None:
    """Return the version of a commit from its name in ``_delta_log``; ``None`` for other names.

    In a long log, nearly all files are commits, so this uses no regular expression.
    """
    if len(name) != _COMMIT_LENGTH or not name.endswith(".json"):
        return None
    digits = name[:20]
    if not (digits.isascii() and digits.isdigit()):
        return None
    version = int(digits)
    return version if version <= _MAX_VERSION else None


def commit_version(name: str) -> int | None:
    """Return the version of a commit from its name in the table; ``None`` for other names.

    The commit may be staged. Source: PROTOCOL.md, "Catalog-managed tables".
    """
    directory, _, file_name = name.rpartition("/")
    if directory == LOG_DIR:
        return parse_commit_name(file_name)
    if directory != f"{LOG_DIR}/{STAGED_COMMITS_DIR}":
        return None
    digits, _, rest = file_name.partition(".")
    return parse_commit_name(f"{digits}.json") if rest.endswith(".json") else None


def _parse_suffix(version: int, suffix: str) -> LogFile | None:
    if suffix == "crc":
        return ChecksumFile(version)
    if match := _COMPACTED.fullmatch(suffix):
        end = int(match[1])
        return CompactedFile(version, end) if version < end <= _MAX_VERSION else None
    return _parse_checkpoint(version, suffix)


def _parse_checkpoint(version: int, suffix: str) -> CheckpointFile | None:
    if suffix == "checkpoint.parquet":
        return CheckpointFile(version, "classic", None, None, "parquet")
    if match := _MULTIPART.fullmatch(suffix):
        part, num_parts = int(match[1]), int(match[2])
        if not 1 <= part <= num_parts:
            return None
        return CheckpointFile(version, "multipart", part, num_parts, "parquet")
    if match := _UUID.fullmatch(suffix):
        file_format: CheckpointFormat = "json" if match[1] == "json" else "parquet"
        return CheckpointFile(version, "uuid", None, None, file_format)
    return None


def version_prefix(version: int) -> str:
    """Return the name from which a listing of ``version`` and later starts: 20 digits and a dot."""
    return f"{version:020d}."


def commit_name(version: int) -> str:
    """Return ``N.json``."""
    return f"{version:020d}.json"


def commit_file(version: int) -> str:
    """Return the name of the commit file of a version in the store."""
    return f"{LOG_DIR}/{commit_name(version)}"


def checksum_name(version: int) -> str:
    """Return ``N.crc``."""
    return f"{version:020d}.crc"


def checkpoint_name(
    version: int, unique_id: str | None = None, file_format: CheckpointFormat = "parquet"
) -> str:
    """Return ``N.checkpoint.parquet``; with ``unique_id``, the UUID-named form (V2 spec)."""
    if unique_id is None:
        return f"{version:020d}.checkpoint.parquet"
    return f"{version:020d}.checkpoint.{unique_id}.{file_format}"


def compacted_name(start: int, end: int) -> str:
    """Return ``x.y.compacted.json``; both versions are included."""
    return f"{start:020d}.{end:020d}.compacted.json"


MANIFEST_DIR: Final = "_symlink_format_manifest"


TABLE_MARKERS: Final = (
    "_delta_log/_last_checkpoint",
    "_delta_log/00000000000000000000.json",
    ".hoodie/hoodie.properties",
    "metadata/version-hint.text",
)
"""Files that show, without a listing, that a directory is a table. Some tables lack them."""
