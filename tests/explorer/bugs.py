"""Seed bugs in the code under test: the explorer must find each of them."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ObjectExistsError
from deltactl.log.commits.key_sets import RowStore, StoredRows
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import HINT_NAME, encode_hint
from deltactl.log.listing import LogListing
from deltactl.log.physical_names import locate
from deltactl.log.replay import Tail
from deltactl.log.upkeep import cleanup
from deltactl.log.writing import actions, transaction
from deltactl.log.writing.actions import NewFile, add_line
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_times import choose_times
from deltactl.log.writing.concurrent_deletes import Bin, ConcurrentCommits, Verdict
from deltactl.operations.alter import run as alter
from deltactl.operations.check.fixes.stats import StatsCommit
from deltactl.operations.checkpoint import run as checkpoint
from deltactl.operations.checkpoint.write import write_checkpoint
from deltactl.operations.optimize import commit_bins as optimize_run
from deltactl.operations.optimize import rewrite_commit
from deltactl.operations.optimize import tasks as optimize_tasks
from deltactl.operations.restored_state import RestoreCommit
from deltactl.operations.run_context import RunContext
from deltactl.operations.stored_files import Listing
from deltactl.operations.vacuum import horizon as vacuum_horizon
from deltactl.operations.vacuum import kept_files as vacuum_keep
from deltactl.operations.vacuum import planner as vacuum_planning
from deltactl.operations.vacuum import run as vacuum
from deltactl.operations.vacuum.options import Orphans, VacuumOptions
from deltactl.operations.vacuum.run import VacuumReport
from deltactl.protocol.names import LOG_DIR, SIDECAR_DIR
from deltactl.storage.store import FileInfo, Store
from tests.explorer import tested
from tests.explorer.bug import Bug
from tests.explorer.carry_bugs import CARRY_BUGS
from tests.explorer.catalog_bugs import CATALOG_BUGS
from tests.explorer.clone_bugs import CLONE_BUGS
from tests.explorer.log_store_bugs import LOG_STORE_BUGS
from tests.explorer.outcome_bugs import OUTCOME_BUGS
from tests.support.commits import FACTS


def _skip_conflicts() -> AbstractContextManager[object]:
    def nobody(self: Any, bins: Sequence[Bin], *rest: Any, **options: Any) -> list[Verdict]:
        return [Verdict(bin_) for bin_ in bins]

    return patch.object(ConcurrentCommits, "judge", nobody)


def _skip_recheck() -> AbstractContextManager[object]:
    """Read nothing back: "exists" is another writer's commit, any other error a failed commit."""

    def hasty(
        store: Store, committer: Any, version: int, content: bytes, *_: Any, **__: Any
    ) -> Any:
        try:
            committer.commit(version, content, FACTS)
        except ObjectExistsError:
            return None
        return committer.find(version)

    return patch.object(transaction, "settle_commit", hasty)


def _look_then_put() -> AbstractContextManager[object]:
    def racing(
        store: Store, committer: Any, version: int, content: bytes, *_: Any, **__: Any
    ) -> Any:
        name = committer.find(version)
        if store.stat_many([name]) != [None]:
            return None
        store.put(name, content)
        return name

    return patch.object(transaction, "settle_commit", racing)


def _remove_in_doubt() -> AbstractContextManager[object]:
    class NeverRaised(Exception):
        pass

    return patch.object(optimize_run, "KEEPS_FILES", NeverRaised)


def _hint_first() -> AbstractContextManager[object]:
    write = write_checkpoint

    def too_early(log: Any, snapshot: Any, plan: Any, options: Any, run: Any) -> Any:
        snapshot.store.put(HINT_NAME, encode_hint({"version": plan.version, "size": 1}))
        return write(log, snapshot, plan, options, run)

    return patch.object(checkpoint, "write_checkpoint", too_early)


@contextmanager
def _forget_vectors() -> Iterator[None]:
    def data_only(store: Store, files: pa.Table) -> pa.ChunkedArray:
        return locate(store, files["path"])

    def none(vectors: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([pa.nulls(len(vectors), pa.string())])

    forgetful = patch.multiple(vacuum_keep, file_names=data_only, vector_files=none)
    with forgetful, patch.object(vacuum_horizon, "_ensure_expired"):  # which would find it out
        yield


@contextmanager
def _late_cutoff() -> Iterator[None]:
    held = threading.local()
    run = vacuum.vacuum_table

    def remember(
        log: DeltaLog, options: VacuumOptions, context: RunContext, *, orphans: Orphans
    ) -> VacuumReport:
        held.clock = context.clock
        return run(log, options, context, orphans=orphans)

    class Late(vacuum_planning.Planner):
        def _list(self, hidden: Any) -> Listing:
            listing = super()._list(hidden)
            now = held.clock.now_ms()
            self.retention = replace(self.retention, cutoff_ms=now - self.retention.retain_ms)
            return listing

    with patch.object(tested, "vacuum_table", remember), patch.object(vacuum, "Planner", Late):
        yield


def _use_no_sidecar() -> AbstractContextManager[object]:
    def all_old(
        store: Store, listing: LogListing, base: int, before_ms: int, warnings: list[str]
    ) -> tuple[FileInfo, ...]:
        found = store.list_from(f"{LOG_DIR}/{SIDECAR_DIR}")
        return tuple(info for info in found if info.modified_ms < before_ms)

    return patch.object(cleanup, "_find_orphans", all_old)


def _clean_up_too_much() -> AbstractContextManager[object]:
    def latest(snapshot: Any, listing: LogListing, times: Any, cutoff_ms: int) -> int:
        return max(listing.commits)

    return patch.object(cleanup, "_find_boundary", latest)


def _drop_vectors_on_rebase() -> AbstractContextManager[object]:
    rebase = ConcurrentCommits.rebase

    def forgetful(self: Any, tail: Tail) -> None:
        again = pc.is_in(tail.removes["path"], value_set=tail.adds["path"])
        removes = tail.removes.filter(pc.invert(again))
        rebase(
            self, replace(tail, add_rows=_rows(tail.adds.slice(0, 0)), remove_rows=_rows(removes))
        )

    return patch.object(ConcurrentCommits, "rebase", forgetful)


def _rows(actions: pa.Table) -> StoredRows:
    rows = RowStore(actions.schema, 1 << 30)
    rows.add(actions.append_column("seq", pa.nulls(len(actions), pa.int64()).fill_null(0)))
    return rows.select(np.ones(len(actions), np.bool_))


def _forget_earlier_winners() -> AbstractContextManager[object]:
    commit_lot = rewrite_commit.BinCommitter.commit

    def anew(self: Any, *args: Any) -> Any:
        winners = self._concurrent
        winners._adds, winners._removes = winners._adds.slice(0, 0), winners._removes.slice(0, 0)
        winners._index()
        return commit_lot(self, *args)

    return patch.object(rewrite_commit.BinCommitter, "commit", anew)


def _mix_up_statistics() -> AbstractContextManager[object]:
    make = optimize_tasks.new_file

    def mixed(*args: Any) -> NewFile:
        file: NewFile = make(*args)
        stats = json.loads(file.stats or "{}")
        for bounds in ("minValues", "maxValues"):
            values = stats[bounds]
            values["id"], values["v"] = values["v"], values["id"]
        return replace(file, stats=json.dumps(stats))

    return patch.object(optimize_tasks, "new_file", mixed)


def _claim_change() -> AbstractContextManager[object]:
    return patch.object(
        actions, "add_line", lambda file, ids, **_: add_line(file, ids, data_change=True)
    )


@contextmanager
def _stale_times() -> Iterator[None]:
    held = threading.local()

    def first(base: CommitBase, log: Any, clock: Any, *args: Any, **more: Any) -> dict[str, Any]:
        if getattr(held, "clock", None) is not clock:
            held.clock, held.times = clock, choose_times(base, log, clock, *args, **more)
        found: dict[str, Any] = held.times
        return dict(found)

    with patch.object(transaction, "choose_times", first):
        yield


@contextmanager
def _stale_row_ids() -> Iterator[None]:
    """Take row ids from the mark of the version that was read, also after a lost race."""
    held = threading.local()
    encode = actions.encode_commit

    def stale(base: CommitBase, *rest: Any) -> Any:
        held.domains = getattr(held, "domains", base.domains)
        return encode(replace(base, domains=held.domains), *rest)

    with patch.object(transaction, "encode_commit", stale):
        yield


def _ask_protocol_once() -> AbstractContextManager[object]:
    return patch.object(rewrite_commit, "ensure_supported", lambda *args: None)


BUGS: Sequence[Bug] = (
    Bug(
        "a put that overwrites a commit",
        nullcontext,
        "optimize against append",
        "one winner per version",
        model="plain",
    ),
    Bug(
        "an existence check and a put instead of put-if-absent",
        _look_then_put,
        "optimize against append",
        "one winner per version",
    ),
    Bug(
        "no conflict check",
        _skip_conflicts,
        "optimize against delete of the same file",
        "ConsistentRead",
    ),
    Bug(
        "own commit treated as the commit of another writer",
        _skip_recheck,
        "optimize against append",
        "nothing reachable is removed",
        faults=1,
        kinds=frozenset({"lie"}),
    ),
    Bug(
        "an error treated as a failed commit",
        _skip_recheck,
        "optimize against append",
        "nothing reachable is removed",
        model="link",
        faults=1,
        kinds=frozenset({"ambiguous"}),
    ),
    Bug(
        "output removed while the outcome of its commit is unknown",
        _remove_in_doubt,
        "optimize against append",
        "nothing reachable is removed",
        faults=1,
        kinds=frozenset({"outage"}),
    ),
    Bug(
        "_last_checkpoint written before the checkpoint",
        _hint_first,
        "append against checkpoint and cleanup",
        "_last_checkpoint is not ahead",
    ),
    Bug(
        "a vacuum that removes deletion vectors in use",
        _forget_vectors,
        "append against vacuum full",
        "nothing reachable is removed",
    ),
    Bug(
        "a vacuum that calculates its cutoff after the listing",
        _late_cutoff,
        "append against vacuum full, while time passes",
        "nothing reachable is removed",
    ),
    Bug(
        "cleanup removes a sidecar in use",
        _use_no_sidecar,
        "append against checkpoint and cleanup",
        "nothing reachable is removed",
    ),
    Bug(
        "cleanup removes files inside the retention",
        _clean_up_too_much,
        "append against checkpoint and cleanup",
        "nothing reachable is removed",
    ),
    Bug(
        "new deletion vector of another writer ignored",
        _drop_vectors_on_rebase,
        "optimize against deletion vector",
        "ConsistentRead",
    ),
    Bug(
        "commits of other writers ignored in the next batch",
        _forget_earlier_winners,
        "optimize in batches against delete",
        "ConsistentRead",
    ),
    Bug(
        "statistics of the wrong column",
        _mix_up_statistics,
        "optimize against append",
        "statistics are true",
    ),
    Bug(
        "dataChange true in a commit that only moves rows",
        _claim_change,
        "optimize against append",
        "a commit that only moves rows has dataChange false",
    ),
    Bug(
        "old in-commit timestamp used again on retry",
        _stale_times,
        "optimize against append, with times",
        "in-commit timestamps increase",
    ),
    Bug(
        "old row ids used again on retry",
        _stale_row_ids,
        "optimize against append, with row ids",
        "row ids are new",
    ),
    Bug(
        "protocol not checked again on retry",
        _ask_protocol_once,
        "optimize against protocol upgrade",
        "no commit violates the protocol",
    ),
    Bug(
        "a restore that does not check newer commits",
        lambda: patch.object(RestoreCommit, "rebase", lambda *args: None),
        "restore against append",
        "ConsistentRead",
    ),
    *LOG_STORE_BUGS,
    *OUTCOME_BUGS,
    *CATALOG_BUGS,
    *CARRY_BUGS,
    *CLONE_BUGS,
    Bug(
        "statistics added to a file that got a deletion vector",
        lambda: patch.object(StatsCommit, "_drop", lambda *args: None),
        "statistics against deletion vector",
        "ConsistentRead",
    ),
    Bug(
        "deletion vectors dropped without a look at new files",
        lambda: patch.object(alter, "TRACES", {}),
        "drop of vectors against deletion vector",
        "no commit violates the protocol",
    ),
)
