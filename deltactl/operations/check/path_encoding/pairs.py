"""Decide for files with several path texts whether their writers removed them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from deltactl.log.audit.path_texts import PATH_COLUMNS, PathTextIndex
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.changes import live_rows
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.delta_log import DeltaLog
from deltactl.log.find_files import find_files, find_path_problem
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.path_encoding.commits import LiveText, PathHistory, Writer
from deltactl.protocol.paths import is_absolute
from deltactl.units import format_count


class PairVerdict(StrEnum):
    """Whether a live text is to be removed, by the intent of its writers."""

    REMOVE = "remove"
    UNCERTAIN = "uncertain"
    WANTED = "wanted"


_CODES: Final = {
    PairVerdict.REMOVE: "PATH_ENCODING",
    PairVerdict.UNCERTAIN: "PATH_ENCODING_DOUBTFUL",
}


@dataclass(frozen=True, slots=True)
class PathPair:
    """A live path text of a file that has the path text ``other`` too.

    ``row`` is the row of its add in :attr:`PathPairs.files`. ``removed`` is the writer of the
    ``remove`` with the other text; ``None`` if that text is live too. ``num_rows`` excludes deleted
    rows.
    """

    row: int
    path: str
    text: str
    other: str
    verdict: PairVerdict
    added: Writer
    removed: Writer | None
    problem: str
    num_rows: int | None
    size_bytes: int
    exists: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as JSON values."""
        return {
            "path": self.path,
            "text": self.text,
            "other_text": self.other,
            "verdict": self.verdict.value,
            "version_added": self.added.version,
            "added_by": self.added.by,
            "version_removed": None if self.removed is None else self.removed.version,
            "removed_by": None if self.removed is None else self.removed.by,
            "rows": self.num_rows,
            "bytes": self.size_bytes,
            "exists": self.exists,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class PathPairs:
    """All pairs of a version; ``files``: the live adds of these files, with ``name``."""

    found: tuple[PathPair, ...]
    files: pa.Table = field(repr=False)


def find_path_pairs(
    log: DeltaLog,
    snapshot: Snapshot,
    path_texts: PathTextIndex,
    skip: frozenset[Checkpoint] = frozenset(),
) -> PathPairs | None:
    """Return the pairs of a version; ``None`` if no live name has several texts.

    Commits are read again only if one has.

    ``path_texts`` are the live files and all removes of commits; ``skip`` are checkpoints that
    cannot be used.

    Raises:
        CorruptLogError: the tombstones of the checkpoint cannot be read.
    """
    for batch in snapshot.tombstone_batches(PATH_COLUMNS):
        path_texts.take_removed(batch)
    hashes = path_texts.find()
    if not len(hashes):
        return None
    chosen = [path_texts.choose(batch, hashes) for batch in snapshot.file_batches()]
    files = pa.concat_tables(chosen).combine_chunks()
    history = PathHistory(log, snapshot, path_texts, hashes, skip)
    found = list(_list_pairs(files, history))
    exists = _find_present(snapshot, found)
    return PathPairs(tuple(replace(it, exists=exists.get(it.path)) for it in found), files)


def _find_present(snapshot: Snapshot, found: Sequence[PathPair]) -> dict[str, bool]:
    """Return whether each file exists; files on other storage or with invalid paths are absent."""
    names = dict.fromkeys(it.path for it in found)
    valid = [name for name in names if is_absolute(name) or find_path_problem(name) is None]
    present, elsewhere = find_files(snapshot.store, valid)
    return {name: present.get(name) is not None for name in valid if name not in elsewhere}


def _list_pairs(files: pa.Table, history: PathHistory) -> Iterator[PathPair]:
    """Yield the pairs of each name, in the order of the files."""
    keys, rows = file_keys(files).to_pylist(), live_rows(files).to_pylist()
    by_name: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(files["name"].to_pylist()):
        by_name[name].append(row)
    texts, sizes = files["encoded_path"].to_pylist(), files["size_bytes"].to_pylist()
    for name, group in by_name.items():
        known = history.live_texts(name)
        live = {row: known.get(keys[row]) or LiveText(keys[row], texts[row], None) for row in group}
        for row, other, verdict, reason in _decide(live, files):
            it = live[row]
            removed = it.unmatched if other is None else None
            by = None if removed is None else history.writer(removed.version)
            yield PathPair(
                row,
                name,
                it.text,
                other.text if other is not None else (removed.text if removed else ""),
                verdict,
                history.writer(it.added),
                by,
                _explain(it, other, by=by, rows=rows[row], reason=reason, verdict=verdict),
                rows[row],
                sizes[row] or 0,
            )


def _are_equal(files: pa.Table, one: int, other: int) -> bool:
    """Return whether two adds describe the same rows."""
    columns = ("partition_values", "size_bytes", "deletion_vector")
    return all(files[name][one].as_py() == files[name][other].as_py() for name in columns)


Decision = tuple[int, LiveText | None, PairVerdict, str | None]
"""A row, the live text that is kept instead of the row, the verdict, and the reason."""


def _decide(live: Mapping[int, LiveText], files: pa.Table) -> Iterator[Decision]:
    """Yield the verdict for each live text of one file; never remove all of several."""
    kept = _choose_kept(live)
    for row, it in live.items():
        other, doubt = None, it.doubt
        if it.unmatched is not None and it.restored is not None and len(live) == 1:
            reason = f"version {it.restored} (RESTORE) restored this file"
            yield row, None, PairVerdict.WANTED, reason
            continue
        if it.removal_intended:
            if row == kept and len(live) > 1:
                doubt = "the file would have no other live path"
        elif row != kept and it.text != live[kept].text:
            other, is_same = live[kept], _are_equal(files, row, kept)
            doubt = None if is_same else "the two adds describe the file differently"
        else:
            continue
        yield row, other, PairVerdict.UNCERTAIN if doubt else PairVerdict.REMOVE, doubt


def _choose_kept(live: Mapping[int, LiveText]) -> int:
    """Return the row to keep of a file that is live several times: the latest not removed."""
    return max(
        live,
        key=lambda row: (
            not live[row].removal_intended,
            -1 if (added := live[row].added) is None else added,
            live[row].text,
        ),
    )


def _explain(
    it: LiveText,
    other: LiveText | None,
    *,
    by: Writer | None,
    rows: int | None,
    reason: str | None,
    verdict: PairVerdict,
) -> str:
    count = "its rows" if rows is None else format_count(rows, "row")
    if other is not None:
        problem = (
            f"it is live as {it.text!r} and as {other.text!r}: readers return {count} twice; "
            f"the newer add is kept"
        )
    else:
        assert it.unmatched is not None
        is_twice = not it.unmatched.data_change and verdict is PairVerdict.REMOVE
        twice = (
            ", in addition to the same rows in the files that this commit wrote" if is_twice else ""
        )
        problem = (
            f"{by} removed it as {it.unmatched.text!r}, but it is live as {it.text!r}: "
            f"readers still return {count}{twice}"
        )
    if verdict is PairVerdict.UNCERTAIN:
        return f"{problem}; it is unknown whether the table should have these rows: {reason}"
    return f"{problem}; {reason}" if reason else problem


def count_rows(found: Sequence[PathPair]) -> int | None:
    """Return the number of rows of all pairs; ``None`` if it is not known for one."""
    rows = [it.num_rows for it in found]
    return None if None in rows else sum(it or 0 for it in rows)


def check_path_pairs(
    log: DeltaLog,
    snapshot: Snapshot,
    path_texts: PathTextIndex,
    broken: frozenset[Checkpoint],
    findings: Findings,
) -> None:
    """Find live files whose ``remove`` has another path text, and files that are live under two.

    ``path_texts`` contains the live files and the removes of the commits.

    Raises:
        CorruptLogError: the tombstones of the checkpoint cannot be read.
    """
    found = find_path_pairs(log, snapshot, path_texts, broken)
    if found is None:
        return
    wanted = 0
    for pair in found.found:
        if pair.verdict is PairVerdict.WANTED:
            wanted += 1
            continue
        version = None if pair.removed is None else pair.removed.version
        findings.add(
            _CODES[pair.verdict],
            _say(pair),
            version=pair.added.version if version is None else version,
            file=pair.path,
        )
    if wanted:
        findings.note(
            f"{format_count(wanted, 'file is', 'files are')} live, which is right. A remove "
            "action with another path text did not remove the file, and a later RESTORE "
            "restored the file"
        )


def _say(pair: PathPair) -> str:
    there = {
        True: "the file exists",
        False: "the file is missing",
        None: "the file is on other storage",
    }
    return f"{pair.problem}; {pair.added} added it; {there[pair.exists]}"
