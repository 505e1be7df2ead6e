"""Files that the log names by several texts: what readers return, and what the writers meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from deltactl.log.commits.changes import live_rows
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.listing import Checkpoint, LogListing
from deltactl.log.snapshot import Snapshot
from deltactl.operations.find_files import find_files, find_path_problem
from deltactl.operations.path_encoding.commits import SpellingLog, Writer
from deltactl.operations.path_encoding.history import LiveText
from deltactl.operations.path_encoding.suspects import SpellingSuspects
from deltactl.protocol.paths import is_absolute
from deltactl.units import format_count


class Verdict(StrEnum):
    """What is known of a live text: its rows are to go, are wanted, or nothing tells."""

    REMOVE = "remove"
    UNCERTAIN = "uncertain"
    WANTED = "wanted"


@dataclass(frozen=True, slots=True)
class Spelling:
    """A live text of a file that the log also names by ``other``.

    ``row`` is the place of its add in :attr:`Spellings.files`. ``removed`` is whose ``remove``
    names the other text; ``None`` where that is live too. ``num_rows`` leaves out deleted rows.
    """

    row: int
    path: str
    text: str
    other: str
    verdict: Verdict
    added: Writer
    removed: Writer | None
    problem: str
    num_rows: int | None
    size_bytes: int
    exists: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """The pair for JSON."""
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
class Spellings:
    """All that was found; ``files`` has the live adds of these names and their ``name``."""

    found: tuple[Spelling, ...]
    files: pa.Table = field(repr=False)


def find_spellings(
    snapshot: Snapshot,
    listing: LogListing,
    suspects: SpellingSuspects,
    skip: frozenset[Checkpoint] = frozenset(),
) -> Spellings | None:
    """Look at the names that the suspects leave; ``None`` where there are none.

    Commits are read again only where there are some.

    Args:
        snapshot: the version looked at.
        listing: its log.
        suspects: has taken the live files, and all removes of commits and of the checkpoint.
        skip: checkpoints that cannot be used.
    """
    hashes = suspects.find()
    if not len(hashes):
        return None
    chosen = [suspects.choose(batch, hashes) for batch in snapshot.file_batches()]
    files = pa.concat_tables(chosen).combine_chunks()
    history = SpellingLog(snapshot, listing, suspects, hashes, skip)
    found = list(_judge_all(files, history))
    there = _find_present(snapshot, found)
    return Spellings(tuple(replace(it, exists=there.get(it.path)) for it in found), files)


def _find_present(snapshot: Snapshot, found: Sequence[Spelling]) -> dict[str, bool]:
    """Whether each file is there; files that cannot be looked for are left out."""
    names = dict.fromkeys(it.path for it in found)
    asked = [name for name in names if is_absolute(name) or find_path_problem(name) is None]
    there, elsewhere = find_files(snapshot.store, asked)
    return {name: there.get(name) is not None for name in asked if name not in elsewhere}


def _judge_all(files: pa.Table, history: SpellingLog) -> Iterator[Spelling]:
    """The texts of each name, in the order of the files."""
    keys, rows = file_keys(files).to_pylist(), live_rows(files).to_pylist()
    by_name: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(files["name"].to_pylist()):
        by_name[name].append(row)
    texts, sizes = files["encoded_path"].to_pylist(), files["size_bytes"].to_pylist()
    for name, places in by_name.items():
        said = history.judge(name)
        live = {row: said.get(keys[row]) or LiveText(keys[row], texts[row], None) for row in places}
        for row, other, verdict, reason in _decide(live, _Alike(files)):
            it = live[row]
            removed = it.miss if other is None else None
            by = None if removed is None else history.writer(removed.version)
            yield Spelling(
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


@dataclass(frozen=True, slots=True)
class _Alike:
    """Tells whether two adds stand for the same rows."""

    files: pa.Table

    def __call__(self, one: int, other: int) -> bool:
        columns = ("partition_values", "size_bytes", "deletion_vector")
        return all(self.files[c][one].as_py() == self.files[c][other].as_py() for c in columns)


Decision = tuple[int, LiveText | None, Verdict, str | None]
"""A row, the live text that stays in its place, what is known, and what makes it doubtful."""


def _decide(live: Mapping[int, LiveText], is_alike: _Alike) -> Iterator[Decision]:
    """Say which live texts of one file are to go: never all of several."""
    kept = _choose_kept(live)
    for row, it in live.items():
        if it.miss is not None and it.restored is not None and len(live) == 1:
            yield row, None, Verdict.WANTED, f"version {it.restored} (RESTORE) brought it back"
        elif it.is_missed and row != kept:
            yield row, None, Verdict.UNCERTAIN if it.doubt else Verdict.REMOVE, it.doubt
        elif it.is_missed:
            doubt = it.doubt if len(live) == 1 else "no other text of the file would be left"
            yield row, None, Verdict.UNCERTAIN if doubt else Verdict.REMOVE, doubt
        elif kept is not None and row != kept and it.text != live[kept].text:
            doubt = None if is_alike(row, kept) else "the two adds do not say the same of the file"
            yield row, live[kept], Verdict.UNCERTAIN if doubt else Verdict.REMOVE, doubt


def _choose_kept(live: Mapping[int, LiveText]) -> int | None:
    """The row that stays where a file is live several times: the newest that nobody removed."""
    if len(live) == 1:
        return next(iter(live))
    return max(
        live,
        key=lambda row: (
            not live[row].is_missed,
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
    verdict: Verdict,
) -> str:
    count = "its rows" if rows is None else format_count(rows, "row")
    if other is not None:
        said = (
            f"it is live as {it.text!r} and as {other.text!r}: readers return {count} twice; "
            f"the newer add stays"
        )
    else:
        assert it.miss is not None
        is_twice = not it.miss.data_change and verdict is Verdict.REMOVE
        twice = ", a second time beside the files that it wrote" if is_twice else ""
        said = (
            f"{by} removed it as {it.miss.text!r}, but it is live as {it.text!r}: "
            f"readers still return {count}{twice}"
        )
    if verdict is Verdict.UNCERTAIN:
        return f"{said}; whether they are wanted is not known: {reason}"
    return f"{said}; {reason}" if reason else said


def count_rows(found: Sequence[Spelling]) -> int | None:
    """Rows of all of them; ``None`` where one does not say."""
    rows = [it.num_rows for it in found]
    return None if None in rows else sum(it or 0 for it in rows)
