"""Seed bugs in the reports of runs, and in the files that runs leave behind."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deltactl.errors import CommitOutcomeUnknownError, ObjectExistsError, StorageError
from deltactl.log.committers.settle import settle_commit
from deltactl.log.listing import list_log
from deltactl.log.writing import transaction
from deltactl.operations.checkpoint import run as checkpoint
from deltactl.operations.checkpoint.write import write_checkpoint
from deltactl.operations.optimize.layout import tasks as layout_tasks
from deltactl.operations.optimize.run import OptimizeReport, optimize_table
from deltactl.operations.optimize.tasks import rewrite_files
from deltactl.operations.vacuum import planner as vacuum_planning
from deltactl.protocol.names import LOG_DIR, commit_name
from deltactl.storage.store import Store
from tests.explorer import tested
from tests.explorer.bug import Bug
from tests.explorer.world import COMMIT
from tests.support.commits import FACTS


def _answer_errors_by(act: Callable[[Store, str, bytes], None]) -> AbstractContextManager[object]:
    """After an error that is not "exists", call ``act`` and report a successful commit."""

    def hasty(
        store: Store, committer: Any, version: int, content: bytes, *_: Any, **__: Any
    ) -> Any:
        try:
            committer.commit(version, content, FACTS)
        except ObjectExistsError:
            return None
        except StorageError:
            act(store, committer.find(version), content)
        return committer.find(version)

    return patch.object(transaction, "settle_commit", hasty)


def _nothing(store: Store, name: str, content: bytes) -> None:
    """Treat the error as a success."""


def _put_next(store: Store, name: str, content: bytes) -> None:
    match = COMMIT.fullmatch(name)
    assert match
    store.put_if_absent(f"{LOG_DIR}/{commit_name(int(match[1]) + 1)}", content)


def _lose_with(error: type[Exception]) -> AbstractContextManager[object]:
    def losing(*args: Any, **named: Any) -> Any:
        name = settle_commit(*args, **named)
        if name is None:
            raise error(args[1].find(args[2]))
        return name

    return patch.object(transaction, "settle_commit", losing)


def _tell_of_all_but_the_last() -> AbstractContextManager[object]:
    def modest(*args: Any, **options: Any) -> OptimizeReport:
        report = optimize_table(*args, **options)
        return replace(report, versions=report.versions[:-1])

    return patch.object(tested, "optimize_table", modest)


def _name_after_the_newest() -> AbstractContextManager[object]:
    def late(log: Any, snapshot: Any, plan: Any, options: Any, run: Any) -> Any:
        newest = list_log(snapshot.store).latest_version
        return write_checkpoint(log, snapshot, replace(plan, version=newest), options, run)

    return patch.object(checkpoint, "write_checkpoint", late)


def _trust_the_log() -> AbstractContextManager[object]:
    """Let a full vacuum read only the files that commits removed, as a lite vacuum does."""

    def lite(self: Any, vacuumed_version: int | None) -> Any:
        return self._plan_lite(min(self.log.listing.commits), vacuumed_version)

    return patch.object(vacuum_planning.Planner, "_plan_full", lite)


def _write_outside() -> AbstractContextManager[object]:
    def astray(spec: Any, task: Any, attempt: int) -> Any:
        return rewrite_files(spec, replace(task, folder=f"../{task.folder}"), attempt)

    return patch.object(layout_tasks, "rewrite_files", astray)


OUTCOME_BUGS: Sequence[Bug] = (
    Bug("an error treated as a successful commit", lambda: _answer_errors_by(_nothing),
        "optimize against append", "an acknowledged commit stays", faults=1,
        kinds=frozenset({"fail"})),
    Bug("the same commit written again as the next version", lambda: _answer_errors_by(_put_next),
        "optimize against append", "a commit appears at most once", faults=1,
        kinds=frozenset({"ambiguous"})),
    Bug("a lost race reported as an unknown outcome", lambda: _lose_with(CommitOutcomeUnknownError),
        "optimize against append", "no false alarm"),
    Bug("a lost race that raises an unexpected error", lambda: _lose_with(KeyError),
        "optimize against append", "no unexpected error"),
    Bug("a report without the last commit", _tell_of_all_but_the_last, "optimize against append",
        "an unreported commit does not exist"),
    Bug("a checkpoint with the number of a later version", _name_after_the_newest,
        "append against checkpoint and cleanup", "a checkpoint changes no row"),
    Bug("a full vacuum that reads only the log", _trust_the_log, "optimize against append",
        "the next vacuum removes files left behind", faults=1, kinds=frozenset({"crash"})),
    Bug("output outside the table", _write_outside, "optimize against append",
        "nothing outside the root is touched"),
)  # fmt: skip
