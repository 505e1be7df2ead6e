"""Files that the log names by several texts, as findings."""

from __future__ import annotations

from typing import Final

from deltactl.log.listing import Checkpoint, LogListing
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.operations.path_encoding.pairs import Spelling, Verdict, find_spellings
from deltactl.operations.path_encoding.suspects import SPELLING_COLUMNS, SpellingSuspects
from deltactl.units import format_count

_CODES: Final = {
    Verdict.REMOVE: "PATH_ENCODING",
    Verdict.UNCERTAIN: "PATH_ENCODING_DOUBTFUL",
}


def check_spellings(
    snapshot: Snapshot,
    listing: LogListing,
    suspects: SpellingSuspects,
    broken: frozenset[Checkpoint],
    findings: Findings,
) -> None:
    """Find live files whose ``remove`` has another text, and files that are live under two.

    ``suspects`` has the live files and the removes of the commits.

    Raises:
        CorruptLogError: the tombstones of the checkpoint cannot be read.
    """
    for batch in snapshot.tombstone_batches(SPELLING_COLUMNS):
        suspects.take_removed(batch)
    found = find_spellings(snapshot, listing, suspects, broken)
    if found is None:
        return
    wanted = 0
    for spelling in found.found:
        if spelling.verdict is Verdict.WANTED:
            wanted += 1
            continue
        version = None if spelling.removed is None else spelling.removed.version
        findings.add(
            _CODES[spelling.verdict],
            _describe(spelling),
            version=spelling.added.version if version is None else version,
            file=spelling.path,
        )
    if wanted:
        findings.note(
            f"{format_count(wanted, 'file')} that a remove names by another text were brought back "
            "by a RESTORE since: readers return their rows, as they should"
        )


def _describe(spelling: Spelling) -> str:
    there = {True: "the file is there", False: "the file is gone", None: "it lies elsewhere"}
    return f"{spelling.problem}; {spelling.added} added it; {there[spelling.exists]}"
