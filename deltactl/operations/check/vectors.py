"""Check deletion vectors: they exist, can be decoded, and match the log and the data file.

Source: PROTOCOL.md, "Deletion Vectors".

Errors of writers that compare files by path only: if a ``remove`` lacks the deletion vector of its
file, the file stays live (trinodb/trino#31253). If a checkpoint keeps only one action per path, it
loses the file that a deletion added (trinodb/trino#31252). Source: PROTOCOL.md, "Action
Reconciliation".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltactl.errors import CorruptLogError, DataFileError
from deltactl.log.commits.file_actions import decoded_names
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.file_stores import FileStores
from deltactl.log.keyed_hash import wide_hash_names
from deltactl.log.snapshot import Snapshot
from deltactl.numpy_types import Integers, WideHashes
from deltactl.operations.check.findings import Findings
from deltactl.parquet.data_file import DataFile
from deltactl.parquet.open_files import load_deletion_vector
from deltactl.protocol.deletion_vectors import unique_ids
from deltactl.units import format_count

VECTOR_COLUMNS: Final = ("path", "encoded_path", "deletion_vector")
"""Columns of a file action that identify its logical file."""

_Actions: TypeAlias = tuple[WideHashes, WideHashes, Integers]

_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class Vector:
    """The result of checking a deletion vector; ``bitmap`` only if it was decoded and is valid."""

    bitmap: BitMap64 | None = None
    is_valid: bool = True


BROKEN_VECTOR = Vector(is_valid=False)


def name_vector_file(file: DataFile, findings: Findings) -> str | None:
    """Return the decoded name of a vector's file; ``None``: none, inline or invalid."""
    try:
        return None if file.deletion_vector is None else file.deletion_vector.file_name
    except CorruptLogError as error:
        problem = f"the deletion vector of {file.path} is invalid: {error.message}"
        findings.add("VECTOR_UNREADABLE", problem, file=file.path)
        return None


def check_vector(stores: FileStores, file: DataFile, num_rows: int, findings: Findings) -> Vector:
    """Decode a file's vector, and compare it with the log and the file's rows."""
    vector = file.deletion_vector
    if vector is None:
        return Vector()
    named, what = vector.file_name, f"the deletion vector of {file.path}"
    if named is None:  # finding the commit that contains it would need a search
        named, what = file.path, "its inline deletion vector"
    try:
        bitmap = load_deletion_vector(stores.of(named), vector, count=False)
    except (DataFileError, CorruptLogError) as error:
        findings.add("VECTOR_UNREADABLE", f"{what} cannot be read: {error.message}", file=named)
        return BROKEN_VECTOR
    problems = []
    if len(bitmap) != vector.cardinality:
        problem = f"{what} deletes {len(bitmap)} rows, but the log has {vector.cardinality}"
        problems.append(("VECTOR_CARDINALITY", problem))
    if bitmap and bitmap.max() >= num_rows:
        problem = f"{what} deletes row {bitmap.max()}, but the data file has {num_rows} rows"
        problems.append(("VECTOR_ROWS", problem))
    for code, problem in problems:
        findings.add(code, problem, file=named)
    return BROKEN_VECTOR if problems else Vector(bitmap)


@dataclass(slots=True)
class VectorIndex:
    """Index, by hashes, the adds with deletion vectors and the removes of commits.

    Memory: 40 bytes for each of them and for each live file with a vector, and the writer of each
    commit.
    """

    _adds: list[_Actions] = field(default_factory=list)
    _removes: list[_Actions] = field(default_factory=list)
    _live: list[_Actions] = field(default_factory=list)
    _writers: dict[int, str] = field(default_factory=dict)

    def take_writer(self, version: int, writer: object) -> None:
        """Store the ``engineInfo`` of a commit."""
        if isinstance(writer, str):
            self._writers[version] = writer

    def take(self, parsed: ParsedCommits) -> None:
        """Add the file actions of commits."""
        adds = parsed.adds.filter(pc.is_valid(parsed.adds["deletion_vector"]))
        for files, index in ((adds, self._adds), (parsed.removes, self._removes)):
            index.append((*_hash(files), files["version"].to_numpy()))

    def forget_live(self) -> None:
        """Discard the live files."""
        self._live.clear()

    def take_live(self, files: pa.Table) -> None:
        """Add live files."""
        files = files.filter(pc.is_valid(files["deletion_vector"]))
        names, keys = _hash(files)
        self._live.append((names, keys, np.full(len(names), _NEVER)))

    def describe(self, files: pa.Table) -> str:
        """Return which commit added the newest of these files, and its writer, if it is known."""
        _, keys, versions = _join(self._adds)
        found = versions[np.isin(keys, _hash(files)[1])]
        return f"; {self._name(int(found.max()))} added the newest" if len(found) else ""

    def check(self, snapshot: Snapshot, first: int, findings: Findings) -> None:
        """Compare the live files with the commits from version ``first`` on, which are all read."""
        last = snapshot.version
        adds, removes = (_between(_join(part), first, last) for part in (self._adds, self._removes))
        live = _join(self._live)
        if len(live[0]):
            self._find_missed(snapshot, live, _newest(adds, live[1]), removes, findings)
        self._find_lost(snapshot, live, adds, removes, findings)

    def _find_missed(
        self,
        snapshot: Snapshot,
        live: _Actions,
        added: Integers,
        removes: _Actions,
        findings: Findings,
    ) -> None:
        """Find removes of live files that are newer than the adds and have other vectors."""
        order = np.argsort(live[0], kind="stable")
        names, keys, added = live[0][order], live[1][order], added[order]
        starts, ends = (np.searchsorted(names, removes[0], side) for side in ("left", "right"))
        counts = ends - starts
        at = np.repeat(np.arange(len(counts)), counts)
        place = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[at]
        missed = (removes[1][at] != keys[place]) & (removes[2][at] > added[place])
        hit = keys[place[missed]].tolist(), removes[2][at[missed]].tolist()
        found = dict(zip(*hit, strict=True))
        for path, key in self._paths(snapshot, found.keys()):
            version = found[key]
            findings.add(
                "REMOVE_MISSED",
                f"{self._name(version)} removed the file, but with another deletion vector: the "
                f"file is still live",
                version=version,
                file=path,
            )

    @staticmethod
    def _paths(snapshot: Snapshot, keys: Collection[bytes]) -> list[tuple[str, bytes]]:
        wanted = np.array(list(keys), "S16")
        found: list[tuple[str, bytes]] = []
        for batch in snapshot.file_batches(VECTOR_COLUMNS) if len(wanted) else ():
            hashes = _hash(batch)[1]
            hit = np.isin(hashes, wanted)
            paths = batch["path"].filter(pa.array(hit)).to_pylist()
            found += zip(paths, hashes[hit].tolist(), strict=True)
        return found

    def _find_lost(
        self,
        snapshot: Snapshot,
        live: _Actions,
        adds: _Actions,
        removes: _Actions,
        findings: Findings,
    ) -> None:
        """Find files that commits added and no commit removed, but that are not live."""
        checkpoint = snapshot.segment.checkpoint
        if checkpoint is None or any(row[2] == checkpoint.names[0] for row in findings.rows):
            return
        keys = np.unique(adds[1])
        added, removed = _newest(adds, keys), _newest(removes, keys)
        lost = (added > removed) & (added <= checkpoint.version) & ~np.isin(keys, live[1])
        if lost.any():
            versions = np.unique(added[lost])
            findings.add(
                "CHECKPOINT_WRONG",
                f"it lacks {format_count(int(lost.sum()), 'file')} with deletion vectors that no "
                f"commit removed; "
                f"{self._name(int(versions[0]))} added the first of them",
                version=checkpoint.version,
                file=checkpoint.names[0],
            )

    def say_writer(self, version: int) -> str:
        """Return who wrote a commit, in words."""
        writer = self._writers.get(version)
        return "its commitInfo does not name the writer" if writer is None else f"by {writer!r}"

    def _name(self, version: int) -> str:
        return f"version {version} ({self.say_writer(version)})"


def _hash(files: pa.Table) -> tuple[WideHashes, WideHashes]:
    """Return hashes of the names, and of the names with the ids of the vectors."""
    names = pa.chunked_array(decoded_names(files).chunks, pa.string())
    vectors = pa.chunked_array(
        [pc.fill_null(unique_ids(chunk), "") for chunk in files["deletion_vector"].chunks],
        pa.string(),
    )
    keys = pc.binary_join_element_wise(names, vectors, "\0")
    return wide_hash_names(names), wide_hash_names(keys)


def _join(parts: Sequence[_Actions]) -> _Actions:
    names, keys, versions = zip(*parts, strict=True) if parts else ([], [], [])
    none = np.zeros(0, "S16")
    return (
        np.concatenate([none, *names]),
        np.concatenate([none, *keys]),
        np.concatenate([np.zeros(0, np.int64), *versions]),
    )


def _between(actions: _Actions, first: int, last: int) -> _Actions:
    hit = (actions[2] >= first) & (actions[2] <= last)
    return actions[0][hit], actions[1][hit], actions[2][hit]


def _newest(actions: _Actions, keys: WideHashes) -> Integers:
    """Return the newest version with an action on each key; -1 for none."""
    found = np.full(len(keys), _NEVER, np.int64)
    if len(actions[1]):
        order = np.lexsort((actions[2], actions[1]))
        known, versions = actions[1][order], actions[2][order]
        last = np.searchsorted(known, keys, "right") - 1
        hit = (last >= 0) & (known[np.maximum(last, 0)] == keys)
        found[hit] = versions[last[hit]]
    return found
