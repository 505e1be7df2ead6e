"""Every command works on a table whose newest commits only its committer knows."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from deltactl.engine.local import LocalEngine
from deltactl.errors import CommitOutcomeUnknownError, ConflictError, SafetyError, StorageError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.writing.commit_base import CommitBase
from deltactl.log.writing.commit_times import choose_times
from deltactl.operations.check.options import CheckOptions
from deltactl.operations.check.run import check_table
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.checkpoint.run import checkpoint_table
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.run import clone_table
from deltactl.operations.detail import load_detail
from deltactl.operations.history.diff import diff_versions
from deltactl.operations.history.run import HistoryOptions, commit_files, load_history
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.run import generate_manifests
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.optimize.run import optimize_table
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.run import restore_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.scan import scan_snapshot
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.open import open_store
from tests.support.clock import FixedClock
from tests.support.commits import settle
from tests.support.staged_committer import StagedCommitter
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path


class Scene:
    """A table of three published versions, with a committer that stages the next ones."""

    def __init__(self, *, keep: int = 10, features: Sequence[str] = ()) -> None:
        self.store = fresh_store()
        self.builder = TableBuilder(self.store, [Column("id")], features=features)
        for number in range(3):
            self.builder.append([{"id": number}])
        self.published = self.builder.version
        self.committer = StagedCommitter(self.store, self.published, keep=keep)
        self.context = RunContext(
            warn=pytest.fail,
            engine=LocalEngine(workers=1),
            clock=FixedClock(),
            sleep=lambda seconds: None,
        )

    def log(self) -> DeltaLog:
        return DeltaLog(self.store, pytest.fail, committer=self.committer)

    def ids(self, version: int | None = None) -> list[int]:
        snapshot = self.log().snapshot(version)
        return sorted(scan_snapshot(snapshot, None).read_all()["id"].to_pylist())

    def optimize(self) -> int:
        report = optimize_table(self.log(), OptimizeOptions(), self.context)
        (version,) = report.versions
        return version

    def vacuum(self, name: str) -> tuple[int, ...]:
        """Remove an old file that no commit names."""
        self.store.put(name, b"x")
        self.store.set_modified(name, 0)
        options = VacuumOptions(
            mode="full", retain_ms=0, force_retention=True, max_orphan_fraction=1.0
        )
        return vacuum_table(self.log(), options, self.context, orphans="all").versions

    def restore(self, version: int) -> int:
        report = restore_table(self.log(), RestoreOptions(version), self.context)
        assert report.version_after is not None
        return report.version_after


def test_each_command_sees_the_commits_that_are_not_published() -> None:
    scene = Scene()
    first = scene.published
    assert scene.optimize() == first + 1
    assert scene.restore(1) == first + 2
    assert scene.ids() == [0]
    assert scene.restore(first + 1) == first + 3
    assert scene.ids() == [0, 1, 2]
    log, context = scene.log(), scene.context
    latest = first + 3
    assert scene.store.stat_many([commit_path(first + 1)]) == [None], "nothing is published yet"
    history = load_history(log, HistoryOptions())
    operations = [row["operation"] for row in history.rows]
    assert operations[:3] == ["RESTORE", "RESTORE", "OPTIMIZE"]
    assert load_detail(scene.log()).version == latest
    assert diff_versions(scene.log(), first, None).last == latest
    assert commit_files(scene.log(), first + 1).partitions
    assert not check_table(scene.log(), CheckOptions(), context).findings.num_rows
    assert generate_manifests(scene.log(), ManifestOptions(), context).plan.version == latest
    target = fresh_store()
    clone = clone_table(
        scene.log(), DeltaLog(target, pytest.fail), CloneOptions(deep=True), context
    )
    assert clone.plan.version == latest
    assert scene.vacuum("left-behind.parquet") == (latest + 1, latest + 2)
    assert scene.ids() == [0, 1, 2]
    assert DeltaLog(scene.store, pytest.fail).snapshot().version == first
    scene.committer.publish_all()
    assert DeltaLog(scene.store, pytest.fail).snapshot().version == latest + 2
    assert scene.ids() == [0, 1, 2]


def test_a_checkpoint_stops_at_what_is_published() -> None:
    scene = Scene()
    scene.optimize()
    report = checkpoint_table(scene.log(), CheckpointOptions(compact_log=True), scene.context)
    assert report.written is not None
    assert report.written.version == scene.published
    names = [info.name.rpartition("/")[2] for info in scene.store.list_from(LOG_DIR)]
    compacted = [name for name in names if "compacted" in name]
    assert max(compacted) == f"{0:020d}.{scene.published:020d}.compacted.json"
    assert scene.ids() == [0, 1, 2]


def test_a_version_that_is_not_published_gets_no_checkpoint() -> None:
    scene = Scene()
    version = scene.optimize()
    with pytest.raises(SafetyError, match="is not published"):
        checkpoint_table(scene.log(), CheckpointOptions(version), scene.context)
    scene.committer.publish_all()
    report = checkpoint_table(scene.log(), CheckpointOptions(version), scene.context)
    assert report.written is not None


def test_a_checkpoint_is_due_when_its_version_is_published() -> None:
    scene = Scene(keep=4)
    for _ in range(4):
        scene.restore(1)
        scene.restore(2)
    assert scene.committer.latest == scene.published + 8 >= 10
    assert not scene.log().listing.checkpoints
    for _ in range(4):
        scene.restore(1)
        scene.restore(2)
    assert [it.version for it in scene.log().listing.checkpoints] == [10]


def test_a_commit_may_be_published_and_its_staged_file_removed_during_a_run() -> None:
    scene = Scene(features=["inCommitTimestamp"])
    scene.restore(1)
    log = scene.log()
    base = CommitBase.of(log.snapshot())
    assert base.commit_file is not None
    assert "_staged_commits" in base.commit_file.name
    times = choose_times(base, scene.log(), scene.context.clock)
    scene.committer.publish_all()
    assert scene.store.stat_many([base.commit_file.name]) == [None]
    assert base.ensure_table_is_there(log)
    assert choose_times(base, scene.log(), scene.context.clock) == times
    scene.store.delete_many([log.commit_file(base.version)])
    with pytest.raises(ConflictError, match="the table was replaced during the run"):
        base.ensure_table_is_there(log)


def test_a_commit_that_is_published_while_it_is_read_back_is_not_lost() -> None:
    scene = Scene()
    found = scene.committer.find

    def find(version: int) -> str:
        name = found(version)
        scene.committer.publish_all()
        return name

    with patch.object(scene.committer, "find", find):
        version = scene.optimize()
    assert scene.ids(version) == [0, 1, 2]
    assert scene.store.stat_many([commit_path(version)]) != [None]


def test_a_committer_that_cannot_name_the_commit_leaves_the_outcome_unknown() -> None:
    scene = Scene()
    failing = patch.object(scene.committer, "find", side_effect=StorageError("no answer"))
    with failing, pytest.raises(CommitOutcomeUnknownError):
        scene.optimize()
    assert scene.ids() == [0, 1, 2], "its files stay"


def test_a_failed_attempt_on_a_local_path_may_still_arrive(tmp_path: Path) -> None:
    """Only put-if-absent on a local path is over when it fails; a committer may be elsewhere."""

    def answer(now: str) -> None:
        if now == "before":
            raise StorageError("no answer")

    store = open_store(str(tmp_path), {})
    committer = StagedCommitter(store, -1, answer=answer)
    with pytest.raises(CommitOutcomeUnknownError):
        settle(store, committer, 0, b'{"commitInfo":{"txnId":"a"}}\n')


def test_only_some_commits_are_staged() -> None:
    scene = Scene(keep=2)
    for version in (1, 2, 1, 2, 1):
        scene.restore(version)
    listing = scene.log().listing
    assert listing.published_through == scene.published + 3
    assert scene.log().published_version == scene.published + 3
    assert "_staged_commits" in listing.commits[scene.published + 5].name
    assert scene.ids() == [0]


def test_a_commit_tells_its_facts() -> None:
    scene = Scene(features=["inCommitTimestamp"])
    version = scene.optimize()
    facts = scene.committer.facts[version]
    info = load_history(scene.log(), HistoryOptions(limit=1)).rows[0]
    assert facts.in_commit_timestamp == info["timestamp"]
    assert (facts.protocol, facts.metadata, facts.domains) == (None, None, ())
    restored = scene.committer.facts[scene.restore(1)]
    assert restored.metadata is not None
    assert restored.protocol is not None
