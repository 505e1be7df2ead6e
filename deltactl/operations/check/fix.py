"""``check --fix path-encoding``: remove what a ``remove`` with another text left live.

One commit with a ``remove`` that has the text of the ``add``. Of a file that is live under several
texts one always stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.clock import Clock, SystemClock
from deltactl.engine.base import CancelToken, Engine
from deltactl.engine.local import LocalEngine
from deltactl.errors import CorruptLogError, InterruptedRunError, SafetyError, UsageError, Warn
from deltactl.log.commits.changes import parse_commits
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.listing import LogListing, list_log, outlast_cleanup
from deltactl.log.not_a_table import no_table_error
from deltactl.log.replay import Tail
from deltactl.log.snapshot import Snapshot, load_snapshot
from deltactl.log.writing.base import CommitBase
from deltactl.log.writing.put import Sleep
from deltactl.log.writing.remove_files import Removal, remove_files
from deltactl.log.writing.run_tags import engine_info, run_tags
from deltactl.operations.after_commit import follow_commit
from deltactl.operations.path_encoding.pairs import (
    Spelling,
    Spellings,
    Verdict,
    count_rows,
    find_spellings,
)
from deltactl.operations.path_encoding.suspects import (
    SPELLING_COLUMNS,
    SpellingSuspects,
    file_names,
)
from deltactl.protocol.features import Operation, ensure_supported, has_feature
from deltactl.protocol.stats import num_records
from deltactl.storage.store import Store

FIX: Final = "path-encoding"
_OPERATION: Final = "FSCK"
"""What Delta's history calls a commit that takes file entries out of the log."""

_APPEND_ONLY: Final = "delta.appendOnly"


@dataclass(frozen=True, slots=True)
class PathRepairReport:
    """What was found, which of it goes (``chosen``), and the version that removes it.

    ``version_after`` is ``None`` where nothing was committed.
    """

    version: int
    table_id: str
    found: tuple[Spelling, ...]
    chosen: tuple[Spelling, ...]
    engine: str
    version_after: int | None = None
    dry_run: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there to repair."""
        return not self.chosen

    @property
    def left(self) -> tuple[Spelling, ...]:
        """What check goes on to find once this is done."""
        chosen = {it.row for it in self.chosen}
        return tuple(
            it for it in self.found if it.row not in chosen and it.verdict is not Verdict.WANTED
        )

    @property
    def num_rows(self) -> int | None:
        """Rows that readers return no more; ``None`` where a file does not say."""
        return count_rows(self.chosen)

    @property
    def size_bytes(self) -> int:
        """Bytes of the files that are removed."""
        return sum(it.size_bytes for it in self.chosen)

    def to_dict(self) -> dict[str, Any]:
        """The ``result`` of the JSON envelope; sizes in bytes."""
        chosen = {it.row for it in self.chosen}
        return {
            "fix": FIX,
            "version": self.version,
            "version_after": self.version_after,
            "files_removed": len(chosen),
            "rows_removed": self.num_rows,
            "bytes_removed": self.size_bytes,
            "files_left": len(self.left),
            "pairs": [{**it.to_dict(), "removed": it.row in chosen} for it in self.found],
        }


Confirm: TypeAlias = Callable[[PathRepairReport], bool]
"""Is shown what is found and what goes; whether it may."""


def repair_paths(
    store: Store,
    texts: Sequence[str] = (),
    *,
    warn: Warn,
    engine: Engine | None = None,
    clock: Clock | None = None,
    sleep: Sleep = time.sleep,
    storage_options: Mapping[str, str] | None = None,
    confirm: Confirm | None = None,
    cancel: CancelToken | None = None,
    dry_run: bool = False,
    run_id: str | None = None,
) -> PathRepairReport:
    """Remove live files that writers removed by another text of their paths.

    Args:
        store: where the table is.
        texts: the live texts to remove, as the log has them; all whose writers' wish is certain
            where none are given.
        warn: takes what is worth knowing but stops nothing.
        engine: where a checkpoint that is due is written.
        clock: for times and ids.
        sleep: waits between attempts; seconds.
        storage_options: settings of the table's storage.
        confirm: is asked before the commit.
        cancel: once set, nothing is committed.
        dry_run: only look.
        run_id: of the run, for the commit.

    Raises:
        UsageError: a text is none of those found.
        SafetyError: the table is append-only, the answer was no, or all texts of a file were named.
        UnsupportedFeatureError: a table feature forbids it.
        ConflictError: another writer touched the files, or changed the table.
        InterruptedRunError: ``cancel`` was set.
        CorruptLogError: the log is damaged.
    """
    clock, engine = clock or SystemClock(), engine or LocalEngine()
    snapshot, spellings = outlast_cleanup(lambda: _look(store, warn))
    found = () if spellings is None else spellings.found
    chosen = _choose(found, texts)
    report = PathRepairReport(
        snapshot.version, snapshot.metadata.id, found, chosen, engine.name, dry_run=dry_run
    )
    if report.is_empty or spellings is None:
        return report
    _ensure_one_stays(spellings, chosen)
    refusal = _find_refusal(CommitBase.of(snapshot))
    if dry_run:
        if refusal is not None:
            warn(f"a real run would be refused: {refusal.message}; {refusal.hint}")
        return report
    if refusal is not None:
        raise refusal
    if confirm is not None and not confirm(report):
        raise SafetyError("not confirmed: nothing was removed")
    if cancel is not None and cancel.is_set():
        raise InterruptedRunError("interrupted; nothing was removed")
    store.ensure_put_if_absent()
    removal = _build_removal(spellings.files, report, engine, run_id)
    version = remove_files(
        snapshot,
        removal,
        clock=clock,
        sleep=sleep,
        ensure=_ensure_may_remove,
        touches=lambda winners: _touches(store.uri, winners, chosen),
    )
    follow_commit(
        snapshot,
        version,
        warn=warn,
        engine=engine,
        clock=clock,
        storage_options=storage_options or {},
    )
    return PathRepairReport(
        snapshot.version, snapshot.metadata.id, found, chosen, engine.name, version
    )


def _look(store: Store, warn: Warn) -> tuple[Snapshot, Spellings | None]:
    listing = list_log(store)
    if listing.latest_version is None:
        raise no_table_error(store)
    snapshot = load_snapshot(store, warn=warn, listing=listing)
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REMOVE)
    suspects = SpellingSuspects(store.uri)
    for batch in snapshot.file_batches(SPELLING_COLUMNS):
        suspects.take_live(batch)
    for batch in snapshot.tombstone_batches(SPELLING_COLUMNS):
        suspects.take_removed(batch)
    _take_commits(store, listing, suspects)
    return snapshot, find_spellings(snapshot, listing, suspects)


def _take_commits(store: Store, listing: LogListing, suspects: SpellingSuspects) -> None:
    """Take the removes of all commits: those of old tombstones are in no checkpoint."""
    names = [listing.commits[version].name for version in sorted(listing.commits)]
    logs = (
        CommitBytes(name, data) for name, data in zip(names, store.read_many(names), strict=True)
    )
    for parsed in parse_commits(logs):
        if not isinstance(parsed, CorruptLogError):
            suspects.take_removed(parsed.removes)


def _choose(found: Sequence[Spelling], texts: Sequence[str]) -> tuple[Spelling, ...]:
    if not texts:
        return tuple(it for it in found if it.verdict is Verdict.REMOVE)
    known = {it.text for it in found}
    for text in texts:
        if text not in known:
            raise UsageError(
                f"{text!r} is not the live text of a pair that was found",
                hint="give it as `deltactl check` names it; without --path all certain ones go",
            )
    return tuple(it for it in found if it.text in texts)


def _ensure_one_stays(spellings: Spellings, chosen: Sequence[Spelling]) -> None:
    """Refuse to remove a file under all of several texts."""
    live = pc.value_counts(spellings.files["name"]).to_pylist()
    counts = {row["values"]: row["counts"] for row in live}
    names = [it.path for it in chosen]
    for name in dict.fromkeys(names):
        if counts[name] > 1 and names.count(name) == counts[name]:
            raise SafetyError(
                f"{name!r} is live under {counts[name]} texts, and all of them were to go",
                hint="leave out the text that is to stay; nothing was removed",
            )


def _find_refusal(base: CommitBase) -> SafetyError | None:
    is_set = base.metadata.configuration.get(_APPEND_ONLY, "false").lower() == "true"
    if not (is_set and has_feature(base.protocol, "appendOnly")):
        return None
    return SafetyError(
        f"the table is append-only ({_APPEND_ONLY}): its rows may not be removed",
        hint=f"If they are to go all the same, let its owner set {_APPEND_ONLY} to false first.",
    )


def _ensure_may_remove(base: CommitBase) -> None:
    ensure_supported(base.protocol, base.metadata, Operation.REMOVE)
    refusal = _find_refusal(base)
    if refusal is not None:
        raise refusal


def _build_removal(
    files: pa.Table, report: PathRepairReport, engine: Engine, run_id: str | None
) -> Removal:
    chosen = files.take(pa.array([it.row for it in report.chosen], pa.int64()))
    chosen = chosen.append_column("num_records", num_records(chosen["stats"]))
    metrics = {
        "numRemovedFiles": str(chosen.num_rows),
        "numRemovedBytes": str(report.size_bytes),
        "numAddedFiles": "0",
    }
    if report.num_rows is not None:
        metrics["numDeletedRows"] = str(report.num_rows)
    return Removal(
        files=chosen,
        operation=_OPERATION,
        parameters={"fix": FIX},
        metrics=metrics,
        engine_info=engine_info(engine.name),
        tags=run_tags(run_id),
    )


def _touches(uri: str, winners: Tail, chosen: Sequence[Spelling]) -> bool:
    """Whether commits name one of the files, by any text, or remove rows.

    These may be what was written in place of the files: then the files have the only copy.
    """
    if pc.any(pc.fill_null(winners.removes["data_change"], True)).as_py():
        return True
    ours = pa.array([it.path for it in chosen], pa.string())
    return any(
        pc.any(pc.is_in(file_names(uri, files), value_set=ours)).as_py()
        for files in (winners.adds, winners.removes)
        if files.num_rows
    )
