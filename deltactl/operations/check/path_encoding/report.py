"""Find files that the log references by several path texts, and report them."""

from __future__ import annotations

from typing import Final

from deltactl.log.audit.path_texts import PATH_COLUMNS, PathTextIndex
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.findings import Findings
from deltactl.operations.check.path_encoding.pairs import PairVerdict, PathPair, find_path_pairs
from deltactl.units import format_count

_CODES: Final = {
    PairVerdict.REMOVE: "PATH_ENCODING",
    PairVerdict.UNCERTAIN: "PATH_ENCODING_DOUBTFUL",
}


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
    for batch in snapshot.tombstone_batches(PATH_COLUMNS):
        path_texts.take_removed(batch)
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
            _describe(pair),
            version=pair.added.version if version is None else version,
            file=pair.path,
        )
    if wanted:
        findings.note(
            f"{format_count(wanted, 'file is', 'files are')} live, which is right. A remove "
            "action with another path text did not remove the file, and a later RESTORE "
            "restored the file"
        )


def _describe(pair: PathPair) -> str:
    there = {
        True: "the file exists",
        False: "the file is missing",
        None: "the file is on other storage",
    }
    return f"{pair.problem}; {pair.added} added it; {there[pair.exists]}"
