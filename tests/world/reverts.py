"""Repairs taken back, one at a time: the world must find each within its first seeds.

python -m tests.world.reverts            all of them; prints the seed that finds each
python -m tests.world.reverts clock      those whose names have this text
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock, patch

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError, StorageError
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.committers.settle import settle_commit
from deltactl.log.writing import transaction
from deltactl.log.writing.added_files import AddedFiles
from deltactl.operations import after_commit
from deltactl.operations.checkpoint import run as checkpoint_run
from deltactl.operations.checkpoint import write as checkpoint_write
from deltactl.operations.clone import sync as clone_sync
from deltactl.operations.clone import tasks as clone_tasks
from deltactl.operations.convert import directory as convert_directory
from deltactl.operations.maintain import observe as maintain_observe
from deltactl.operations.manifest import run as manifest_run
from deltactl.operations.manifest.record import Writing
from deltactl.operations.optimize import run as optimize_run
from deltactl.operations.restore import plan as restore_plan
from deltactl.operations.restore import run as restore_run
from deltactl.operations.vacuum import candidates, kept_files, planner
from deltactl.operations.vacuum import run as vacuum_run
from deltactl.parquet.splice import writer as splice_writer
from deltactl.storage.local import exclusive
from tests.support.stores import FaultyStore
from tests.world.run import make_history, run_history

MOST_SEEDS = 200


@dataclass(frozen=True)
class Revert:
    """A repair that ``apply`` takes back; ``seed`` is one of those that find it."""

    name: str
    apply: Callable[[], AbstractContextManager[object]]
    seed: int


@contextmanager
def _keep_no_landed_files() -> Iterator[None]:
    def like_parquet(names: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.match_substring_regex(names, r"\.parquet$|deletion_vector_[^/]*\.bin$")

    with patch.object(candidates, "writer_mask", like_parquet), _forget_conversions():
        yield


def _forget_conversions() -> AbstractContextManager[object]:
    return patch.object(planner, "was_converted", lambda *_: False)


@contextmanager
def _patch_all(name: str, value: Any, *modules: ModuleType) -> Iterator[None]:
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(patch.object(module, name, value))
        yield


@contextmanager
def _ignore_spellings() -> Iterator[None]:
    with (
        patch.object(planner, "find_missing", lambda _, live, *__, **___: live.slice(0, 0)),
        patch.object(planner, "ensure_not_needed", lambda *_: None),
    ):
        yield


def _by_clock(log: Any, snapshot: Any, context: Any, *_: Any, **__: Any) -> int:
    now_ms: int = context.clock.now_ms()
    return now_ms


def _prove_nothing() -> AbstractContextManager[object]:
    nothing = Mock(return_value=None)
    return patch.multiple(AddedFiles, ensure_present=nothing, ensure_still_present=nothing)


@contextmanager
def _decide_by_the_table_before() -> Iterator[None]:
    follow, checkpoint = after_commit.run_after_commit, checkpoint_run.checkpoint_table

    def follow_by(log: Any, before: Any, after: Any, *rest: Any, **others: Any) -> Any:
        return follow(log, before, replace(after, metadata=before.metadata), *rest, **others)

    def always(log: Any, options: Any, *rest: Any, **others: Any) -> Any:
        return checkpoint(log, replace(options, if_enabled=False), *rest, **others)

    with (
        _patch_all(
            "run_after_commit", follow_by, clone_sync, restore_run, vacuum_run, optimize_run
        ),
        patch.object(checkpoint_run, "checkpoint_table", always),
    ):
        yield


def _trust_the_clock() -> AbstractContextManager[object]:
    expiring = (checkpoint_run, maintain_observe, vacuum_run)
    return _patch_all("planning_now", _by_clock, *expiring)


def _trust_the_clock_in_cleanups() -> AbstractContextManager[object]:
    return _patch_all("trusted_now", _by_clock, checkpoint_run)


def _trust_the_clock_in_checkpoints() -> AbstractContextManager[object]:
    return _patch_all("trusted_now", _by_clock, checkpoint_write)


@contextmanager
def _know_one_address() -> Iterator[None]:
    with (
        patch.object(kept_files, "possible_names", lambda _: iter(())),
        patch.object(kept_files.OtherTables, "_has_one_of", lambda *_: True),
    ):
        yield


def _keep_missing_files() -> AbstractContextManager[object]:
    def none(target: Any, lost: pa.Table, *_: Any) -> pa.Table:
        return lost.slice(0, 0)

    return patch.object(restore_plan, "_live_in_both", none)


def _forget_change_data() -> AbstractContextManager[object]:
    named = kept_files._named_by_the_log

    def without_changes(rules: Any, oldest_kept: int | None) -> Iterator[pa.ChunkedArray]:
        scan = replace(rules.scan, change_files=rules.scan.change_files.slice(0, 0))
        return named(replace(rules, scan=scan), oldest_kept)

    return patch.object(kept_files, "_named_by_the_log", without_changes)


def _ignore_vectors() -> AbstractContextManager[object]:
    ensure = convert_directory._ensure_only_files

    def without_vectors(names: Sequence[str], where: str) -> None:
        ensure([name for name in names if "deletion_vector_" not in name], where)

    return patch.object(convert_directory, "_ensure_only_files", without_vectors)


def _refresh_own_partitions() -> AbstractContextManager[object]:
    refresh = manifest_run.refresh_manifests

    def since_own_base(log: Any, before: int | None, context: Any) -> Any:
        with patch.object(Writing, "recorded_version", lambda *_: before):
            return refresh(log, before, context)

    return patch.object(manifest_run, "refresh_manifests", since_own_base)


def _count_links() -> AbstractContextManager[object]:
    return patch.object(exclusive, "_are_same", lambda path, _: Path(path).stat().st_nlink == 2)


def _sync_once() -> AbstractContextManager[object]:
    return patch.object(FaultyStore, "sync_directories", lambda *_: None)


@contextmanager
def _read_no_copies() -> Iterator[None]:
    """Small pages, as those of a world, are also compared when their headers are read."""
    with (
        patch.object(splice_writer, "ensure_copied", lambda *_: None),
        patch.object(splice_writer, "ensure_all_pages", lambda *_: None),
    ):
        yield


def _build_on_any_time() -> AbstractContextManager[object]:
    read = vars(CommitBytes)["in_commit_timestamp"].fget

    def read_if_any(commit: CommitBytes) -> int:
        try:
            return int(read(commit))
        except CorruptLogError:
            return 0

    return patch.object(CommitBytes, "in_commit_timestamp", property(read_if_any))


def _believe_commits() -> AbstractContextManager[object]:
    def commit(store: Any, committer: Any, version: int, *given: Any, sleep: Any) -> Any:
        try:
            committer.commit(version, *given)
        except StorageError:
            return settle_commit(store, committer, version, *given, sleep=sleep)
        return committer.find(version)

    return patch.object(transaction, "settle_commit", commit)


def _see_no_replacements() -> AbstractContextManager[object]:
    return patch.object(clone_tasks, "_is_same_time", lambda *_: True)


def _compare_no_foreign_files() -> AbstractContextManager[object]:
    return patch.object(AddedFiles, "_find_changed", lambda *_: [])


REVERTS = (
    Revert("1: what no action names goes, whatever its name", _keep_no_landed_files, 15),
    Revert("1: what no action names goes, though the table was converted", _forget_conversions, 15),
    Revert("3: a commit does not prove that its files exist", _prove_nothing, 13),
    Revert("3: convert does not compare files again", _compare_no_foreign_files, 9),
    Revert("4: a vacuum takes names as it lists them", _ignore_spellings, 98),
    Revert("5: the clock decides what vacuum deletes", _trust_the_clock, 146),
    Revert("5: the clock decides which log files expire", _trust_the_clock_in_cleanups, 77),
    Revert("5: the clock decides what checkpoints forget", _trust_the_clock_in_checkpoints, 77),
    Revert("6: the table before a commit decides", _decide_by_the_table_before, 35),
    Revert("7: a clone knows its source by one address", _know_one_address, 84),
    Revert("7: clone --sync does not see files that were replaced", _see_no_replacements, 62),
    Revert(
        "8: restore --ignore-missing keeps files that both versions have", _keep_missing_files, 33
    ),
    Revert("8: --keep-last forgets change data", _forget_change_data, 43),
    Revert("8: convert reads deleted rows", _ignore_vectors, 42),
    Revert("8: a refresh of manifests does not catch up", _refresh_own_partitions, 150),
    Revert("8: two links mean that a commit won", _count_links, 16),
    Revert("8: a sync that failed is not repeated", _sync_once, 64),
    Revert("8: what the kernel copied is not read back", _read_no_copies, 66),
    Revert("8: a commit follows one without an in-commit timestamp", _build_on_any_time, 59),
    Revert("9: a commit is not read again", _believe_commits, 47),
)


def find(revert: Revert, first: int = 1, most: int = MOST_SEEDS) -> tuple[int, str] | None:
    """The first seed that finds a repair taken back, and the rule that is broken."""
    for seed in range(first, first + most):
        print(seed, end="\r", file=sys.stderr, flush=True)
        with revert.apply():
            outcome = run_history(make_history(seed))
        if outcome.failure is not None and run_history(outcome.history).failure is None:
            return seed, outcome.failure.kind
    return None


def main(words: Sequence[str]) -> int:
    """Print which seed finds each; gives 1 if one is not found."""
    missed = 0
    for revert in REVERTS:
        if all(word in revert.name for word in words):
            began, found = time.monotonic(), find(revert)
            missed += found is None
            print(f"{revert.name}: {found} ({time.monotonic() - began:.0f} s)", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
