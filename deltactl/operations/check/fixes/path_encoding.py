"""``check --fix path-encoding``: remove files that a ``remove`` with another path text left live.

Writes one commit with a ``remove`` that has the path text of the ``add``. If a file is live under
several texts, one is always kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.log.audit.audited_snapshot import load_audited
from deltactl.log.audit.path_texts import PATH_COLUMNS, PathTextIndex
from deltactl.log.delta_log import DeltaLog
from deltactl.log.snapshot import Snapshot
from deltactl.log.writing.commit_base import CommitBase
from deltactl.operations.append_only import find_append_only_refusal
from deltactl.operations.check.fixes.commit import FileCommit, commit_fix, describe_commit
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.operations.check.fixes.paths import choose_texts
from deltactl.operations.check.fixes.report import FixPlan, FixReport, describe_snapshot
from deltactl.operations.check.path_encoding.pairs import (
    PairVerdict,
    PathPair,
    PathPairs,
    count_rows,
    find_path_pairs,
)
from deltactl.operations.run_context import RunContext
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.features import Operation, ensure_supported


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class PathRepairReport(FixReport):
    """The pairs found, and those to remove (``chosen``)."""

    found: tuple[PathPair, ...]
    chosen: tuple[PathPair, ...]

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to repair."""
        return not self.chosen

    @property
    def left(self) -> tuple[PathPair, ...]:
        """Return the pairs that ``check`` still finds after the repair."""
        chosen = {it.row for it in self.chosen}
        return tuple(
            it for it in self.found if it.row not in chosen and it.verdict is not PairVerdict.WANTED
        )

    @property
    def num_left(self) -> int:
        """Return the number of pairs that are left."""
        return len(self.left)

    @property
    def num_rows(self) -> int | None:
        """Return rows that readers no longer return; ``None`` if it is not known for a file."""
        return count_rows(self.chosen)

    @property
    def size_bytes(self) -> int:
        """Return the total size of the removed files."""
        return sum(it.size_bytes for it in self.chosen)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return the pairs."""
        chosen = {it.row for it in self.chosen}
        return [{**it.to_dict(), "removed": it.row in chosen} for it in self.found]

    def to_dict(self) -> dict[str, Any]:
        """Return the ``result`` of the JSON envelope; sizes in bytes."""
        return {
            **FixReport.to_dict(self),
            "files_removed": len({it.row for it in self.chosen}),
            "rows_removed": self.num_rows,
            "bytes_removed": self.size_bytes,
            "pairs": self.rows,
        }


def plan_paths(log: DeltaLog, options: FixOptions, context: RunContext) -> FixPlan:
    """Plan to remove live files that writers removed by another text of their paths.

    ``options.texts`` are the live path texts to remove, or names that are live by one text; if
    empty, all with the verdict ``remove``.

    Raises:
        UsageError: a path is not that of one pair.
        SafetyError: all texts of a file were chosen.
    """
    snapshot, pairs = _find_pairs(log)
    found = () if pairs is None else pairs.found
    chosen = _choose(found, options, snapshot)
    report = PathRepairReport(
        **describe_snapshot(Fix.PATH_ENCODING, snapshot, context),
        found=found,
        chosen=chosen,
    )
    if pairs is not None and chosen:
        _ensure_one_remains(pairs, chosen)

    def apply(confirmed: FixReport) -> FixReport:
        assert pairs is not None
        removed = pairs.files.take(pa.array([it.row for it in chosen], pa.int64()))
        draft = FileCommit(
            uri=log.uri,
            description=describe_commit(confirmed, removed, ADD_SCHEMA.empty_table(), context),
            read_version=snapshot.version,
            removed=removed,
            needs_rows=True,  # those in the files may be the only copy of what another removes
        )
        return commit_fix(log, snapshot, draft, confirmed, context)

    return FixPlan(report, apply, find_append_only_refusal(CommitBase.of(snapshot)))


def _find_pairs(log: DeltaLog) -> tuple[Snapshot, PathPairs | None]:
    log.ensure_newest()
    snapshot = load_audited(log)
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REMOVE)
    path_texts = PathTextIndex(log.uri)
    for batch in snapshot.file_batches(PATH_COLUMNS):
        path_texts.take_live(batch)
    # All commits, because checkpoints do not keep expired tombstones.
    for commits in log.parsed_commits(sorted(log.commit_files), on_broken=lambda *_: None):
        path_texts.take_removed(commits.removes)
    return snapshot, find_path_pairs(log, snapshot, path_texts)


def _choose(
    found: Sequence[PathPair], options: FixOptions, snapshot: Snapshot
) -> tuple[PathPair, ...]:
    if not options.texts:
        return tuple(it for it in found if it.verdict is PairVerdict.REMOVE)
    columns = [[it.path for it in found], [it.text for it in found]]
    files = pa.table([pa.array(column, pa.string()) for column in columns], PATH_COLUMNS)
    texts = choose_texts(options, files, snapshot).to_pylist()
    return tuple(it for it in found if it.text in texts)


def _ensure_one_remains(pairs: PathPairs, chosen: Sequence[PathPair]) -> None:
    """Raise ``SafetyError`` if a file would lose all of its several live texts."""
    live = pc.value_counts(pairs.files["name"]).to_pylist()
    counts = {row["values"]: row["counts"] for row in live}
    names = [it.path for it in chosen]
    for name in dict.fromkeys(names):
        if counts[name] > 1 and names.count(name) == counts[name]:
            raise SafetyError(
                f"the log has {counts[name]} live paths for the file {name!r}. This run "
                "would remove all of them, and the table would lose the file. Nothing was removed",
                hint=f"Choose one of these paths, and rerun without {option('texts')} for it. The "
                "file then stays in the table under the chosen path.",
            )
