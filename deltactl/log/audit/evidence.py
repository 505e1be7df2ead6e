"""Find evidence that a checkpoint is right, although the commits differ from it.

A damaged commit can still be valid JSON. Then the checkpoint may have the only copy of its actions,
and must not be rewritten from the commits. A wrong checkpoint lacks actions or has old ones, but it
cannot have actions that no commit ever had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.log.audit.checksum import find_disagreements
from deltactl.log.audit.commit_doubts import CommitDoubts, ignore_broken
from deltactl.log.audit.path_actions import FirstActions
from deltactl.log.audit.path_texts import names_below_root
from deltactl.log.checkpoint.read import read_head
from deltactl.log.commits.contents import CommitBytes, find_actions
from deltactl.log.commits.file_actions import KEY_COLUMNS, file_keys
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.file_stores import FileStores
from deltactl.log.keyed_hash import SeenKeys
from deltactl.log.rebuildable import is_readable, split_runs
from deltactl.log.snapshot import Snapshot
from deltactl.units import format_count


class _Known(Visitor):
    """Collects what commits have: keys of files and of tombstones, ids of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.files, self.tombstones = SeenKeys(), SeenKeys()
        self.ids: set[object] = set()

    def see(self, commit: CommitBytes) -> bool:
        self.ids |= {it.get("id") for it in find_actions(commit.name, commit.data, "metaData")}
        return True

    def visit(self, commits: ParsedCommits) -> None:
        self.files.take(file_keys(commits.adds))
        self.files.take(file_keys(commits.removes))
        self.tombstones.take(file_keys(commits.removes))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What shows that a checkpoint may be right.

    ``files`` are live files of the checkpoint that exist, and that no commit adds. Without those
    that later commits remove: these commits read them, and added their rows in other files.
    """

    problem: str
    files: tuple[str, ...] = ()


class _LaterFiles(Visitor):
    """Leaves out names of files that commits add or remove."""

    def __init__(self, uri: str, names: Sequence[str]) -> None:
        super().__init__()
        self._uri, self.left = uri, pa.array(names, pa.string())

    def visit(self, commits: ParsedCommits) -> None:
        for files in (commits.adds, commits.removes):
            named = names_below_root(self._uri, files)
            self.left = self.left.filter(pc.invert(pc.is_in(self.left, value_set=named)))


def find_evidence(
    log: DeltaLog, own: Snapshot, replayed: Snapshot, most_files: int | None = 1
) -> Evidence | None:
    """Return what shows that a checkpoint may be right, or ``None`` if it is proven wrong.

    ``own`` is the version of the checkpoint, rebuilt from it alone, and ``replayed`` is the same
    version, rebuilt without it, from which it differs. ``most_files`` is the number of files to
    find that no commit adds; ``None``: all.

    Raises:
        StorageError: a file cannot be looked up.
    """
    first = replayed.segment.checkpoint_version + 1
    # Commits below the base too: a wrong checkpoint can have files that they added and removed.
    commits = [v for v in log.commit_files if v <= own.version]
    known, doubts, actions = _Known(), CommitDoubts(), FirstActions(log.uri)
    log.scan(commits, known, doubts, actions, on_broken=ignore_broken)
    if replayed.head is not None and replayed.head.non_file_actions.metadata is not None:
        known.ids.add(replayed.head.non_file_actions.metadata.id)
    if own.metadata.id not in known.ids:
        return Evidence(f"its metaData has the id {own.metadata.id}, which no commit has")
    doubt = doubts.since(first)
    if doubt is not None:
        return Evidence(doubt)
    names = sorted(islice(_find_unknown_files(log, own, replayed, known), most_files))
    if names:
        later = _LaterFiles(log.uri, names)
        log.scan([v for v in log.commit_files if v > own.version], later, on_broken=ignore_broken)
        problem = f"it has {names[0]}, which exists, and which no commit adds"
        if len(names) > 1:
            problem += f" (and {format_count(len(names) - 1, 'more such file')})"
        return Evidence(problem, tuple(later.left.to_pylist()))
    tombstone = _find_unknown_tombstone(own, replayed, known)
    if tombstone is not None:
        return Evidence(f"it has a tombstone of {tombstone}, which no commit removes")
    replaced = CommitDoubts()
    replaced.found = actions.find_unknown_removes()
    evidence = _compare_checksum(own, replayed) or replaced.since(first)
    return None if evidence is None else Evidence(evidence)


def find_foreign_id(
    log: DeltaLog, version: int, planned: Snapshot | None = None
) -> tuple[str, int] | None:
    """Return what shows that a checkpoint of a version is of another table, or ``None``.

    Also return the newest version before the files of this other table.

    If commits are missing, the checkpoint after them cannot be compared with those before them. But
    its ``metaData`` has the id of an older file, or one that came with a commit: writers keep it,
    or replace the table by a commit. Without missing commits, nothing is read.

    ``planned`` is the version if its checkpoint is not written yet.
    """
    commits = sorted(v for v in log.commit_files if v <= version)
    checkpoints = [c for c in log.checkpoints if c.version <= version]
    versions = sorted({*commits, *(c.version for c in checkpoints)})
    if len(split_runs(versions, log.commit_files.keys())) < 2:
        return None
    known: dict[object, int] = {}
    for commit in log.commits(commits):
        with suppress(CorruptLogError):
            for node in find_actions(commit.name, commit.data, "metaData"):
                known.setdefault(node.get("id"), commit.version or 0)
    heads = [read_head(log.store, c) for c in checkpoints if is_readable(log.store, c)]
    found = [(it.non_file_actions.metadata, it.version) for it in heads]
    ids = [(metadata.id, v) for metadata, v in found if metadata is not None]
    if planned is not None:
        ids.append((planned.metadata.id, version))
    for id_ in [id_ for id_, v in ids if v == version]:
        first = min(v for other, v in ids if other == id_)
        has_older = any(v < first for _, v in (*known.items(), *ids))
        if has_older and known.get(id_, version + 1) > first:
            before = max(v for v in versions if v < first)
            problem = f"its metaData has the id {id_}, which no file up to version {before} has"
            return problem, before
    return None


def _find_unknown_files(
    log: DeltaLog, own: Snapshot, replayed: Snapshot, known: _Known
) -> Iterator[str]:
    """Yield the files of the checkpoint that no commit has, but that exist with their sizes."""
    for batch in replayed.file_batches(KEY_COLUMNS):
        known.files.take(file_keys(batch))
    stores = FileStores(log.store, log.storage_options)
    for batch in own.file_batches(["path", "size_bytes", *KEY_COLUMNS]):
        unknown = batch.filter(known.files.take(file_keys(batch)))
        names = unknown["path"].to_pylist()
        found, errors = stores.find(names) if names else ({}, {})
        for name, size in zip(names, unknown["size_bytes"].to_pylist(), strict=True):
            info = found.get(name)
            # On storage that cannot be opened, it may exist.
            if name in errors or (info is not None and info.size_bytes == size):
                yield str(name)


def _find_unknown_tombstone(own: Snapshot, replayed: Snapshot, known: _Known) -> str | None:
    columns = ["path", *KEY_COLUMNS]
    for batch in replayed.tombstone_batches(columns):
        known.tombstones.take(file_keys(batch))
    for batch in own.tombstone_batches(columns):
        unknown = batch.filter(known.tombstones.take(file_keys(batch)))
        if len(unknown):
            return str(unknown["path"][0].as_py())
    return None


def _compare_checksum(own: Snapshot, replayed: Snapshot) -> str | None:
    """Return whether the checksum file agrees with the checkpoint, but not with the commits."""
    wrong, agreed = (
        find_disagreements(it.store, it, it.num_files, it.size_bytes) for it in (replayed, own)
    )
    if agreed is None or wrong is None or not agreed.keys() < wrong.keys():
        return None
    ours = (wrong[member] for member in wrong if member not in agreed)
    return f"the checksum file of its version agrees with it ({'; '.join(ours)})"
