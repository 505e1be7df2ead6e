"""Check log compaction files: each must have the actions of its commits.

Other readers may use log compaction files instead of the commits. Source: PROTOCOL.md, "Log
Compaction Files".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, DeltactlError
from deltactl.log.audit.commit_doubts import find_doubts, find_unmeasured
from deltactl.log.audit.digests import digest_state
from deltactl.log.commits.contents import CommitReader
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.scan import parse_commits
from deltactl.log.delta_log import DeltaLog
from deltactl.log.keyed_hash import SeenKeys
from deltactl.log.replay import Tail, replay_tail
from deltactl.protocol.actions import Metadata, is_same_metadata
from deltactl.storage.store import FileInfo


@dataclass(frozen=True, slots=True)
class CompactionVerdict:
    """The result of the check of a log compaction file; ``problem`` is a text if the file is wrong.

    ``is_unproven``: the file could not be compared, because commits are missing or invalid, or they
    may have lost actions that this file has. ``unmeasured``: it has other actions than its commits,
    and this commit has no metrics that would show that it lost them.
    """

    last: int
    name: str
    problem: str | None = None
    is_unproven: bool = False
    unmeasured: str | None = None


def check_compactions(log: DeltaLog) -> Iterator[CompactionVerdict]:
    """Compare every log compaction file with its commits."""
    reader, listing = log.reader, log.listing
    keys = _partition_keys(log) if listing.compacted else []
    are_doubtful = cache(lambda: bool(find_doubts(log)))
    for (first, last), info in sorted(listing.compacted.items()):
        versions = range(first, last + 1)
        commits = [listing.commits[v] for v in versions if v in listing.commits]
        is_complete = len(commits) == len(versions)
        wanted = _replay_or_none(reader, commits, keys) if is_complete else None
        if wanted is None:
            yield CompactionVerdict(last, info.name, is_unproven=True)
            continue
        try:
            problem = _find_contradiction(reader, info, wanted, commits, keys)
        except CorruptLogError as error:
            problem = error.message
        if problem is not None and are_doubtful():
            yield CompactionVerdict(last, info.name, is_unproven=True)
        elif problem is not None and _has_more(reader, info, commits):
            found = (v for v in find_unmeasured(log, last) if v >= first)
            unmeasured = next(map(log.commit_file, found), None)
            yield CompactionVerdict(last, info.name, problem, unmeasured=unmeasured)
        else:
            yield CompactionVerdict(last, info.name, problem)


def _has_more(reader: CommitReader, compacted: FileInfo, commits: Sequence[FileInfo]) -> bool:
    """Return whether a log compaction file adds or removes other files than its commits."""
    known = [SeenKeys(), SeenKeys()]
    for part in parse_commits(reader.read(commits)):
        for seen, files in zip(known, (part.adds, part.removes), strict=True):
            seen.take(file_keys(files))
    try:
        stored = replay_tail(reader, [compacted])
    except CorruptLogError:
        return False
    pairs = zip(known, (stored.adds, stored.removes), strict=True)
    return any(pc.any(seen.take(file_keys(files))).as_py() for seen, files in pairs)


def _replay_or_none(
    reader: CommitReader, commits: Sequence[FileInfo], keys: Sequence[str]
) -> Tail | None:
    """Return the reconciled actions of commits; ``None`` if one of the commits is truncated.

    In this case, the log compaction file may have the only copy of the actions.
    """
    try:
        return replay_tail(reader, commits, keys)
    except CorruptLogError:
        return None


def _partition_keys(log: DeltaLog) -> list[str]:
    """Return physical names of partition columns, or none."""
    try:
        return list(log.without_warnings().snapshot().metadata.partition_keys)
    except DeltactlError:  # the error is reported where the version is rebuilt
        return []


def _find_contradiction(
    reader: CommitReader,
    compacted: FileInfo,
    wanted: Tail,
    commits: Sequence[FileInfo],
    keys: Sequence[str],
) -> str | None:
    """Describe how a log compaction file of any writer differs from its commits.

    If the same commits added a file and removed it, its tombstone has no effect, and writers may
    omit it. Removed domains are not compared.
    """
    stored = replay_tail(reader, [compacted], keys)
    found, expected = stored.non_file_actions, wanted.non_file_actions
    if found.protocol != expected.protocol or not _is_same(found.metadata, expected.metadata):
        return "its protocol or metaData is different"
    if found.txns != expected.txns or found.live_domains != expected.live_domains:
        return "its transactions or domain metadata are different"
    return _compare_adds(stored.adds, wanted.adds, keys) or _compare_removes(
        file_keys(stored.removes), file_keys(wanted.removes), reader, commits
    )


def _compare_adds(adds: pa.Table, wanted: pa.Table, keys: Sequence[str]) -> str | None:
    found = digest_state([adds], keys)
    difference = found.describe_difference(digest_state([wanted], keys))
    if difference is not None:
        return f"it adds {difference}"
    texts = [
        table["stats"].take(pc.sort_indices(file_keys(table))).combine_chunks()
        for table in (adds, wanted)
    ]
    return "it has different statistics of files" if _differ(*texts) else None


def _differ(one: pa.Array, other: pa.Array) -> bool:
    """Return whether two columns of JSON differ in content; differences in form do not count."""
    # A missing text is no difference: statistics are optional, and readers then read the file.
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    one, other = one.filter(unequal), other.filter(unequal)
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    return any(_read_json(text) != _read_json(wanted) for text, wanted in pairs)


def _read_json(text: str) -> object:
    """Return a string as a JSON value; if it is not JSON, the string itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _compare_removes(
    removed: pa.ChunkedArray,
    wanted: pa.ChunkedArray,
    reader: CommitReader,
    commits: Sequence[FileInfo],
) -> str | None:
    lacking = wanted.filter(pc.invert(pc.is_in(wanted, removed)))
    beyond = removed.filter(pc.invert(pc.is_in(removed, wanted)))
    if not len(lacking) and not len(beyond):
        return None
    added = _added_keys(reader, commits)
    if not pc.all(pc.is_in(lacking, added), min_count=0).as_py():
        return "it lacks remove actions of the commits that it combines"
    return "it removes files that the combined commits do not remove" if len(beyond) else None


def _added_keys(reader: CommitReader, commits: Sequence[FileInfo]) -> pa.Array:
    """Return the keys of all files that the commits add, also if they remove the file again."""
    parsed = parse_commits(reader.read(commits))
    return pa.concat_arrays([c for part in parsed for c in file_keys(part.adds).chunks])


def _is_same(one: Metadata | None, other: Metadata | None) -> bool:
    return one is other if one is None or other is None else is_same_metadata(one, other)
