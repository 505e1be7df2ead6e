"""``restore``: what comes back, what never goes back, and what is refused."""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deltactl.clock import SystemClock
from deltactl.errors import (
    CommitDamagedError,
    ConflictError,
    CorruptLogError,
    FilesGoneError,
    InterruptedRunError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.report import RestoreReport
from deltactl.operations.restore.run import restore_table
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.operations.vacuum.undo import undo_vacuum
from deltactl.operations.vacuum_commits import find_open_vacuums
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.storage.store import FileInfo, Store
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.forwarding import ForwardingStore
from tests.support.restores import (
    bodies,
    commit_lines,
    damaged,
    ids,
    keys,
    latest,
    memory_table,
    restore,
)
from tests.support.run import run_on
from tests.support.stores import MemoryStore
from tests.support.table_builder import Column, TableBuilder, commit_path, dv_id, encode_lines

QUARANTINE = VacuumOptions(retain_ms=0, force_retention=True, quarantine=True)


def with_vectors(**options: Any) -> TableBuilder:
    """Versions 1: rows 1-3; 2: without 2, by a vector; 3: another file; 4: without 1 too."""
    builder = memory_table(features=["deletionVectors"], **options)
    (path,) = builder.append([{"id": n} for n in (1, 2, 3)])
    builder.delete_rows(path, [1])
    builder.append([{"id": 9}])
    builder.delete_rows(path, [0])
    return builder


def test_files_and_vectors_come_back_and_go_again() -> None:
    builder = with_vectors()
    store = builder.store
    before = keys(store), ids(store)
    for target, rows in ((1, [1, 2, 3]), (2, [1, 3]), (3, [1, 3, 9]), (0, []), (4, [3, 9])):
        report = restore(store, target)
        assert ids(store) == rows, target
        assert keys(store) == keys(store, target)
        assert report.version_after == latest(store)
        assert Table("x", store=store).snapshot().num_files == report.plan.files_after
        assert Table("x", store=store).snapshot().size_bytes == report.plan.bytes_after
    assert (keys(store), ids(store)) == before
    assert [ids(store, version) for version in range(1, 6)] == [
        [1, 2, 3], [1, 3], [1, 3, 9], [3, 9], [1, 2, 3],
    ]  # fmt: skip


def test_one_path_with_two_vectors_is_removed_and_added_in_one_commit() -> None:
    store = with_vectors().store
    restore(store, 2)
    (removed,) = (it for it in bodies(store, 5, "remove") if "deletionVector" in it)
    (added,) = bodies(store, 5, "add")
    assert removed["path"] == added["path"]
    assert dv_id(removed["deletionVector"]) != dv_id(added["deletionVector"])
    assert added["dataChange"] is removed["dataChange"] is removed["extendedFileMetadata"] is True


def test_the_commit_has_the_members_of_delta_on_spark() -> None:
    store = with_vectors().store
    restore(store, 1)
    order = [next(iter(line)) for line in commit_lines(store, 5)]
    assert order == ["commitInfo", "metaData", "add", "remove", "remove", "protocol"]
    info = commit_lines(store, 5)[0]["commitInfo"]
    assert info["operation"] == "RESTORE"
    assert info["operationParameters"] == {"version": 1, "timestamp": None}
    assert (info["readVersion"], info["isolationLevel"], info["isBlindAppend"]) == (
        4,
        "Serializable",
        False,
    )
    assert list(info["operationMetrics"]) == [
        "numRestoredFiles",
        "removedFilesSize",
        "numRemovedFiles",
        "restoredFilesSize",
        "numOfFilesAfterRestore",
        "tableSizeAfterRestore",
    ]


def test_a_time_names_the_version_that_was_current() -> None:
    builder = memory_table()
    store = builder.store
    assert isinstance(store, MemoryStore)
    for number in (1, 2, 3):
        builder.append([{"id": number}])
        store.set_modified(commit_path(number), 1_700_000_000_000 + number * 10_000)
    store.set_modified(commit_path(0), 1_700_000_000_000)
    restore(store, timestamp_ms=1_700_000_029_999)
    assert ids(store) == [1, 2]
    parameters = commit_lines(store, 4)[0]["commitInfo"]["operationParameters"]
    assert parameters == {"version": None, "timestamp": "2023-11-14 22:13:49.999"}


@pytest.mark.parametrize("target", [4, 6])
def test_there_may_be_nothing_to_do(target: int) -> None:
    store = with_vectors().store
    restore(store, 1)
    restore(store, 4)  # version 6 is the same as version 4
    assert restore(store, target).version_after is None
    assert latest(store) == 6


@pytest.mark.parametrize("target", [4, 6])
def test_a_version_without_its_files_is_refused_also_if_nothing_differs(target: int) -> None:
    builder = with_vectors()
    restore(builder.store, 1)
    restore(builder.store, 4)  # version 6 is the same as version 4
    path = min(key[0] for key in keys(builder.store, 4))
    builder.store.delete_many([path])
    plan = restore(builder.store, target, dry_run=True).plan
    assert ([it.path for it in plan.missing], plan.is_empty) == ([path], False)
    with pytest.raises(SafetyError, match=f"1 file of version {target} cannot be read"):
        restore(builder.store, target)
    assert latest(builder.store) == 6


def test_a_dry_run_writes_nothing() -> None:
    store = with_vectors().store
    assert isinstance(store, MemoryStore)
    before = store.contents()
    report = restore(store, 1, dry_run=True)
    assert store.contents() == before
    assert (report.version_after, report.plan.diff.num_remarked) == (None, 1)
    assert report.plan.diff.removed.num_files == 2


def test_a_dry_run_tells_the_clustering_columns() -> None:
    builder = memory_table(Column("id"), features=["clustering", "domainMetadata"])
    clustering = {"domain": "delta.clustering", "removed": False}
    builder.commit(
        {"domainMetadata": {**clustering, "configuration": '{"clusteringColumns":[["id"]]}'}}
    )
    facts = restore(builder.store, 0, dry_run=True).plan.diff.facts
    assert facts == {"clustering columns": ("id", None)}


class Meanwhile(ForwardingStore):
    """Another writer acts once, before or after the commit is put."""

    def __init__(self, inner: Store, act: Callable[[], object], when: str = "before") -> None:
        super().__init__(inner)
        self._act, self._when, self._is_done = act, when, False

    def put_if_absent(self, name: str, data: bytes) -> None:
        if self._when == "before":
            self._once()
        super().put_if_absent(name, data)
        self._once()

    def _once(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._act()


CHANGES: dict[str, Callable[[TableBuilder], object]] = {
    "append": lambda it: it.append([{"id": 7}]),
    "delete": lambda it: it.remove(next(iter(it.state.files))[0]),
    "properties": lambda it: it.change_metadata(properties={"a": "b"}),
    "protocol": lambda it: it.commit(it.protocol_action(["deletionVectors", "v2Checkpoint"])),
    "domain": lambda it: it.commit(
        {"domainMetadata": {"domain": "x", "configuration": "", "removed": False}}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_concurrent_change_is_a_conflict(change: str) -> None:
    builder = with_vectors()
    with pytest.raises(ConflictError, match="nothing was restored") as caught:
        restore(Meanwhile(builder.store, lambda: CHANGES[change](builder)), 1)
    assert caught.value.exit_code == 4
    assert latest(builder.store) == 5
    assert keys(builder.store) == set(builder.state.files)


HARMLESS: dict[str, Callable[[TableBuilder], object]] = {
    "vacuum": lambda it: it.commit(operation="VACUUM START"),
    "txn": lambda it: it.commit({"txn": {"appId": "a", "version": 1}}),
}


@pytest.mark.parametrize("change", HARMLESS)
def test_commits_that_change_nothing_are_no_conflict(change: str) -> None:
    builder = with_vectors(properties={"delta.enableDeletionVectors": "true"})
    report = restore(Meanwhile(builder.store, lambda: HARMLESS[change](builder)), 1)
    assert report.version_after == 6
    assert ids(builder.store) == [1, 2, 3]


def test_an_append_only_table_is_refused() -> None:
    builder = memory_table(features=["appendOnly"], properties={"delta.appendOnly": "true"})
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    with pytest.raises(SafetyError, match=r"delta\.appendOnly") as caught:
        restore(builder.store, 1)
    assert caught.value.exit_code == 6
    warnings: list[str] = []
    restore(builder.store, 1, warnings, dry_run=True)
    assert "a real run would be refused" in warnings[0]
    assert latest(builder.store) == 2


def test_an_unknown_feature_is_refused() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["sampleFeature"]}
    builder.commit({"protocol": protocol})
    with pytest.raises(UnsupportedFeatureError, match="sampleFeature"):
        restore(builder.store, 0)


def test_nothing_is_begun_after_a_signal() -> None:
    store = with_vectors().store
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(InterruptedRunError):
        run_on(store, restore_table, RestoreOptions(1), cancel=cancel)
    assert latest(store) == 4


def test_it_is_asked_before_the_commit() -> None:
    store = with_vectors().store
    with pytest.raises(SafetyError, match="not confirmed"):
        run_on(store, partial(restore_table, confirm=lambda _: False), RestoreOptions(1))
    assert latest(store) == 4


def test_all_undos_that_are_needed_are_named(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    paths = builder.append(*([{"id": n}] for n in range(2)))
    builder.append([{"id": 2}])
    table = Table(str(tmp_path))
    runs = []
    for path in paths:
        action = {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}
        commit = commit_path(latest(builder.store) + 1)
        builder.store.put_if_absent(commit, encode_lines([action]))
        runs.append(table.vacuum(QUARANTINE).run_id)
    with pytest.raises(SafetyError) as caught:
        table.restore(version=1)
    command = f"`deltactl vacuum {builder.store.uri} --undo"
    both = (f"{command} {run}`, which restores 1" for run in reversed(runs))
    assert f"run {' and '.join(both)}." in (caught.value.hint or "")


def test_the_vacuum_that_removed_the_files_is_named(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    (path,) = builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    builder.remove(path)
    table = Table(str(tmp_path))
    run = table.vacuum(QUARANTINE).run_id
    with pytest.raises(SafetyError) as caught:
        table.restore(version=1)
    assert f"vacuum {run} of" in caught.value.message
    assert (caught.value.hint or "").endswith(f" --undo {run}`, which restores 1.")
    for expected in (None, 1):  # not lost, so not to be omitted either
        with pytest.raises(SafetyError, match="can perhaps be restored: .*--undo"):
            table.restore(version=1, ignore_missing=True, expect_files=expected)
    undo_vacuum(builder.store, "last")
    assert table.restore(version=1).version_after == 6


def test_a_wrong_file_in_the_place_of_one_in_quarantine(tmp_path: Path) -> None:
    """Such as one that was copied back in part."""
    builder = TableBuilder(tmp_path, [Column("id")])
    path, _ = builder.append([{"id": 1}], [{"id": 2}])
    builder.remove(path)
    table = Table(str(tmp_path))
    run = table.vacuum(QUARANTINE).run_id
    (tmp_path / path).write_bytes(b"PAR1")
    with pytest.raises(SafetyError, match=f"vacuum {run} of .* removed 1") as caught:
        table.restore(version=1)
    way = f"move the wrong file '{path}' out of the table, then run `deltactl vacuum"
    assert way in (caught.value.hint or "")
    assert (caught.value.hint or "").endswith(f" --undo {run}`, which restores 1.")
    with pytest.raises(SafetyError, match=f"has 4 bytes.* can perhaps be restored: .*{run}"):
        table.restore(version=1, ignore_missing=True, expect_files=1)
    (tmp_path / path).rename(tmp_path.parent / f"{tmp_path.name}.parquet")
    undo_vacuum(builder.store, str(run))
    table.restore(version=1)
    assert ids(builder.store) == [1, 2]


def test_a_vacuum_without_a_record_is_named_by_its_version() -> None:
    builder, _ = damaged("file")
    builder.commit(operation="VACUUM START")
    builder.commit(operation="VACUUM END")
    with pytest.raises(SafetyError, match="vacuums since then: version 6"):
        restore(builder.store, 2)


def test_a_vacuum_at_work_is_told_and_what_it_takes_is_found() -> None:
    builder = with_vectors()
    (path,) = {key[0] for key in keys(builder.store, 1)}
    builder.commit(operation="VACUUM START")
    warnings: list[str] = []
    store = Meanwhile(builder.store, lambda: builder.store.delete_many([path]), "after")
    with pytest.raises(CommitDamagedError, match="is committed, but 1 restored file") as caught:
        Table("x", store=store, warn=warnings.append).restore(version=1)
    assert f"deltactl vacuum {store.uri} --undo last" in (caught.value.hint or "")
    assert "the vacuum that began in version 5" in warnings[0]
    report = caught.value.report
    assert isinstance(report, RestoreReport)
    assert report.version_after == 6
    assert [it.path for it in report.gone] == [path]


@pytest.mark.parametrize("kinds", [["START", "END"], ["END"]])
def test_what_a_vacuum_took_before_the_commit_is_not_committed(kinds: list[str]) -> None:
    """It began and ended, or ended, between the plan and the commit."""
    builder = with_vectors()
    (path,) = {key[0] for key in keys(builder.store, 1)}

    def vacuum() -> None:
        for kind in kinds:
            builder.commit(operation=f"VACUUM {kind}")
        builder.store.delete_many([path])

    with pytest.raises(FilesGoneError, match="nothing was committed: .*1 file does not exist"):
        restore(Meanwhile(builder.store, vacuum), 1)
    assert latest(builder.store) == 4 + len(kinds)


def test_a_reader_feature_that_comes_back_is_told() -> None:
    builder = with_vectors()
    builder.commit(builder.protocol_action([]))
    warnings: list[str] = []
    restore(builder.store, 1, warnings)
    assert "the restore adds deletionVectors, as in version 1: engines without" in warnings[0]


def test_a_writer_feature_that_comes_back_is_told() -> None:
    builder = with_vectors()
    builder.commit(builder.protocol_action(["deletionVectors", "changeDataFeed"]))
    builder.commit(builder.protocol_action(["deletionVectors"]))
    warnings: list[str] = []
    restore(builder.store, 5, warnings)
    assert "adds changeDataFeed, as in version 5: engines without it can no longer write" in str(
        warnings
    )


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_fix_of_missing_files_is_named_only_for_files_that_are_gone(is_gone: bool) -> None:
    """It leaves a file of another size, such as half a copy."""
    builder = with_vectors()
    ((path, _),) = keys(builder.store, 1)
    if is_gone:
        builder.store.delete_many([path])
    else:
        builder.store.put(path, b"")
    with pytest.raises(SafetyError) as caught:
        restore(builder.store, 1)
    assert ("--fix missing-files" in str(caught.value.hint)) == is_gone


@pytest.mark.parametrize("lacking", [0, 1, 10_000])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_version_is_restorable_if_its_vectors_are_long_enough(
    lacking: int, has_checkpoint: bool
) -> None:
    builder = with_vectors()
    snapshot = DeltaLog(builder.store, pytest.fail).snapshot(2)
    (batch,) = snapshot.file_batches(["deletion_vector"])
    (name,) = vector_files(batch["deletion_vector"]).to_pylist()
    if has_checkpoint:
        builder.checkpoint()
    data = builder.store.read(name)
    builder.store.put(name, data[: max(len(data) - lacking, 0)])
    found = Table("x", store=builder.store).restorable()[2]
    assert (found.state, found.num_gone) == (("gone", 1) if lacking else ("readable", 0))
    if lacking:
        with pytest.raises(SafetyError, match="1 file of version 2 cannot be read"):
            restore(builder.store, 2)
    else:
        restore(builder.store, 2)


@pytest.mark.parametrize("is_left", [False, True])
def test_the_fix_of_missing_files_is_not_named_if_the_latest_version_has_no_files(
    is_left: bool,
) -> None:
    """It is refused then: perhaps the storage is not mounted."""
    builder = with_vectors()
    left = builder.append([{"id": 8}]) if is_left else []
    builder.store.delete_many([path for path, _ in keys(builder.store) if path not in left])
    with pytest.raises(SafetyError, match="1 file of version 1 cannot be read") as caught:
        restore(builder.store, 1)
    hint = str(caught.value.hint)
    assert ("--fix missing-files" in hint) == is_left
    assert ("remount the storage of the table" in hint) != is_left


def test_a_vacuum_that_ended_is_not_told() -> None:
    builder = with_vectors()
    builder.commit(operation="VACUUM START")
    builder.commit(operation="VACUUM END")
    warnings: list[str] = []
    restore(builder.store, 1, warnings)
    assert warnings == []


def test_a_vacuum_that_was_killed_is_told_from_later_ones() -> None:
    builder = with_vectors()
    builder.commit(operation="VACUUM START", tags={"deltactl.runId": "killed"})
    for run in ("second", "third"):
        builder.commit(operation="VACUUM START", tags={"deltactl.runId": run})
        builder.commit(operation="VACUUM END", tags={"deltactl.runId": run})
    assert find_open_vacuums(DeltaLog(builder.store, pytest.fail)) == {5: "killed"}
    warnings: list[str] = []
    restore(builder.store, 1, warnings)
    assert "began in version 5, " in warnings[0]
    assert " has not ended, or was killed (no VACUUM END commit)" in warnings[0]


def test_a_store_that_fails_after_the_commit_is_not_taken_for_success() -> None:
    class Failing(Meanwhile):
        failed = False

        def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
            if self._is_done:
                raise StorageError("the store is away")
            return super().stat_many(names)

    builder = with_vectors()
    with pytest.raises(CommitDamagedError, match="is restored, but .*: the store is away"):
        restore(Failing(builder.store, lambda: None), 1)
    assert DeltaLog(builder.store, pytest.fail).latest_version == 5


def test_a_restore_corrects_an_invalid_retention() -> None:
    builder = memory_table()
    name = "delta.deletedFileRetentionDuration"
    builder.change_metadata(configuration={name: "interval 1 month"})
    assert restore(builder.store, 0).ends == ()
    assert name not in Table("x", store=builder.store).snapshot().metadata.configuration


def test_versions_that_the_next_vacuum_ends_are_named() -> None:
    builder = memory_table()
    store = builder.store
    assert isinstance(store, MemoryStore)
    now = SystemClock().now_ms()
    day = 86_400_000
    (first,) = builder.append([{"id": 1}])
    (second,) = builder.append([{"id": 2}])
    builder.remove(second)
    builder.append([{"id": 3}])
    builder.remove(first)
    for version, days in enumerate((40, 30, 20, 10, 9, 1)):
        store.set_modified(commit_path(version), now - days * day)
    warnings: list[str] = []
    report = restore(store, 1, warnings, now=True)
    assert report.ends == ((2, 2),)
    assert "version 1 is older than the retention of 7d" in warnings[0]
    assert "makes version 2 unreadable" in warnings[0]
    assert ids(store) == [1]


@pytest.mark.parametrize("before, after", [("30 days", "0 hours"), ("0 hours", "30 days")])
def test_the_retention_after_the_restore_decides(tmp_path: Path, before: str, after: str) -> None:
    name = "delta.deletedFileRetentionDuration"
    builder = TableBuilder(tmp_path, [Column("id")], properties={name: f"interval {after}"})
    builder.append([{"id": 1}])
    (second,) = builder.append([{"id": 2}])
    builder.remove(second)
    builder.change_metadata(configuration={name: f"interval {before}"})
    builder.append([{"id": 3}])
    warnings: list[str] = []
    is_shorter = after == "0 hours"
    report = restore(builder.store, 1, warnings, now=True)
    assert report.ends == (((2, 2), (5, 5)) if is_shorter else ())
    assert any("becomes shorter: a vacuum" in it for it in warnings) is is_shorter
    Table(str(tmp_path)).vacuum()
    with pytest.raises(SafetyError, match="1 file of version 5") if is_shorter else nullcontext():
        restore(builder.store, 5)


def test_a_version_that_was_append_only_is_restored_with_a_warning() -> None:
    """The printed way back would be refused."""
    builder = memory_table(properties={"delta.appendOnly": "true"})
    builder.append([{"id": 1}])
    builder.change_metadata(configuration={})
    builder.append([{"id": 2}])
    warnings: list[str] = []
    report = restore(builder.store, 1, warnings)
    assert report.version_after == 4
    assert ids(builder.store) == [1]
    assert "append-only" in warnings[0]
    with pytest.raises(SafetyError, match="append-only"):
        restore(builder.store, 3)


# -- some partitions --------------------------------------------------------------------------


def partitioned(**options: Any) -> TableBuilder:
    columns = [Column("p", "string"), Column("id")]
    builder = memory_table(*columns, partition_by=["p"], **options)
    (a, _) = builder.append([{"p": "a", "id": 1}], [{"p": "b", "id": 2}])
    builder.remove(a)
    builder.append([{"p": "a", "id": 3}], [{"p": "b", "id": 4}], [{"p": "c", "id": 5}])
    return builder


def test_only_the_partitions_that_match() -> None:
    builder = partitioned()
    restore(builder.store, 1, where="p = 'a'")
    assert ids(builder.store) == [1, 2, 4, 5]
    lines = commit_lines(builder.store, 4)
    assert [next(iter(line)) for line in lines] == ["commitInfo", "add", "remove"]
    parameters = lines[0]["commitInfo"]["operationParameters"]
    assert parameters == {"version": 1, "timestamp": None, "predicate": "[\"p = 'a'\"]"}


def test_a_partition_that_did_not_exist_is_emptied() -> None:
    builder, warnings = partitioned(), list[str]()
    restore(builder.store, 1, warnings, where="p = 'c'")
    assert ids(builder.store) == [2, 3, 4]
    assert warnings == [
        "no file of version 1 is in a partition with p = 'c': the restore only removes files"
    ]
    assert restore(builder.store, 1, warnings, where="p = 'c'").version_after is None
    assert "no file of version 4 or 1 is in a partition with p = 'c'" in warnings[1]
    assert """ --blame "p = 'c'"` shows""" in warnings[1]
    restore(builder.store, 4, warnings, where="p = 'c'")
    assert warnings[-1].startswith("no file of version 4 is in a partition")


@pytest.mark.parametrize(
    ("value", "offer"),
    [
        ("b", "restore version 2 with the same where, the last version before version 3 that has "),
        ("c", None),  # before, this partition did not exist: a restore would only remove files
    ],
)
def test_an_older_version_is_offered_only_if_it_has_the_partition(
    value: str, offer: str | None
) -> None:
    builder = partitioned()
    (gone,) = (it[0] for it in keys(builder.store, 3) - keys(builder.store, 2) if value in it[0])
    builder.store.delete_many([gone])
    builder.remove(gone)
    builder.append([{"p": value, "id": 6}])
    with pytest.raises(SafetyError) as caught:
        restore(builder.store, 3, where=f"p = '{value}'")
    hint = caught.value.hint or ""
    assert ("restore version" in hint) == (offer is not None)
    if offer is not None:
        assert f"{offer}all its files: this removes 1 other file (1 row) of the latest" in hint


def test_schema_and_properties_stay() -> None:
    builder = partitioned()
    builder.change_metadata(columns=[*builder.columns, Column("b")], properties={"x": "y"})
    restore(builder.store, 1, where="p = 'a'")
    metadata = Table("x", store=builder.store).snapshot().metadata
    assert [field.name for field in metadata.schema.fields] == ["p", "id", "b"]
    assert metadata.configuration == {"x": "y"}
    assert ids(builder.store) == [1, 2, 4, 5]


def test_only_the_files_of_these_partitions_must_exist() -> None:
    builder = partitioned()
    (gone,) = (key[0] for key in keys(builder.store, 1) if "p=a" in key[0])
    builder.store.delete_many([gone])
    restore(builder.store, 1, where="p = 'b'")
    with pytest.raises(SafetyError, match="cannot be read"):
        restore(builder.store, 1, where="p = 'a'")


MISFITS: dict[str, tuple[Callable[[TableBuilder], object], str]] = {
    "type": (
        lambda it: it.change_metadata(columns=[Column("p", "string"), Column("id", "string")]),
        "was long, and is string",
    ),
    "column": (
        lambda it: it.change_metadata(columns=[Column("p", "string"), Column("other")]),
        "no longer has the columns 'id', .* Add them again",
    ),
    "not null": (
        lambda it: it.change_metadata(columns=[Column("p", "string"), Column("id", "long", False)]),
        "is NOT NULL now",
    ),
    "new and not null": (
        lambda it: it.change_metadata(columns=[*it.columns, Column("b", "long", False)]),
        "'b' is new",
    ),
    "check": (
        lambda it: it.change_metadata(properties={"delta.constraints.c": "id > 2"}),
        "delta.constraints.c",
    ),
    "partition columns": (
        lambda it: it.commit(it.metadata_action(partitionColumns=["p", "id"])),
        "partition columns were changed",
    ),
    "another table": (
        lambda it: it.commit(it.metadata_action(id="other")),
        "replaced by another one",
    ),
    "mapping": (
        lambda it: it.commit(
            it.protocol_action([], "name"),
            it.metadata_action(properties={"delta.columnMapping.mode": "name"}),
        ),
        "column mapping was changed",
    ),
}


@pytest.mark.parametrize("change", MISFITS)
def test_files_that_do_not_fit_are_refused(change: str) -> None:
    builder = partitioned()
    act, text = MISFITS[change]
    act(builder)
    with pytest.raises(SafetyError, match=text) as caught:
        restore(builder.store, 1, where="p = 'a'")
    assert "without where" in (caught.value.hint or "")
    assert latest(builder.store) == 4


FACTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "identity": (
        {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 2},
        {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 1},
        "generate values again",
    ),
    "identity without a mark": (
        {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 2},
        {"delta.identity.start": 1, "delta.identity.step": 1},
        "generate values again",
    ),
    "earlier types": (
        {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]},
        {},
        "no longer lists the earlier types",
    ),
    "shorter varchar": (
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(10)"},
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(9)"},
        "another CHAR or VARCHAR",
    ),
    "a varchar since then": ({}, {"__CHAR_VARCHAR_TYPE_STRING": "varchar(9)"}, "another CHAR"),
    "a longer char": (
        {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"},
        {"__CHAR_VARCHAR_TYPE_STRING": "char(9)"},
        "another CHAR",
    ),
}


def swap_facts(builder: TableBuilder, before: dict[str, Any], now: dict[str, Any]) -> int:
    """Write rows between two kinds of metadata of a column; return the version with both."""
    p = Column("p", "string")
    builder.change_metadata(columns=[p, Column("id", metadata=before)])
    version = builder.version
    builder.append([{"id": 9, "p": "a"}])
    builder.change_metadata(columns=[p, Column("id", metadata=now)])
    return version


@pytest.mark.parametrize("change", FACTS)
def test_files_that_a_column_was_changed_after_are_refused(change: str) -> None:
    builder = partitioned()
    before, now, text = FACTS[change]
    version = swap_facts(builder, before, now)
    with pytest.raises(SafetyError, match=text):
        restore(builder.store, version, where="p = 'a'")
    restore(builder.store, version)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("varchar(9)", "varchar(10)"),
        ("varchar(9)", None),
        ("char(9)", "varchar(9)"),
        ("array<varchar(9)>", "array<varchar(10)>"),
    ],
)
def test_files_of_a_shorter_varchar_fit(before: str, now: str | None) -> None:
    builder = partitioned()
    facts = [{"__CHAR_VARCHAR_TYPE_STRING": it} if it else {} for it in (before, now)]
    version = swap_facts(builder, *facts)
    assert restore(builder.store, version, where="p = 'a'").version_after is not None


def test_files_with_row_ids_of_another_time_are_refused() -> None:
    """Row tracking was dropped and enabled again: the ids are in use."""
    builder = partitioned(features=["rowTracking"])
    column = "delta.rowTracking.materializedRowIdColumnName"
    restore(builder.store, 1, where="p = 'a'", dry_run=True)
    builder.change_metadata(properties={column: "_row-id-col-2"})
    with pytest.raises(SafetyError, match="row tracking was dropped and enabled again"):
        restore(builder.store, 1, where="p = 'a'")


def test_row_ids_that_moved_rows_have_too_are_told() -> None:
    builder = partitioned(features=["rowTracking"], properties={"delta.enableRowTracking": "true"})
    warnings: list[str] = []
    restore(builder.store, 2, warnings, where="p = 'a'")  # it adds nothing
    assert warnings.pop().endswith("the restore only removes files")
    restore(builder.store, 3, warnings, where="p = 'a'")  # the other partitions are the same
    assert warnings == []
    restore(builder.store, 1, warnings, where="p = 'a'")
    (warning,) = warnings
    assert "moved rows to other partitions after version 1" in warning


def test_a_lost_feature_is_refused() -> None:
    builder = partitioned(features=["deletionVectors"])
    builder.commit(builder.protocol_action(["domainMetadata"]))
    with pytest.raises(SafetyError, match="no longer has the features deletionVectors"):
        restore(builder.store, 1, where="p = 'a'")


# -- with readers -----------------------------------------------------------------------------


@pytest.fixture
def local(tmp_path: Path) -> TableBuilder:
    """Partitions with special characters, a vector, a checkpoint and a changed schema."""
    columns = [Column("p", "string"), Column("id")]
    features = ["deletionVectors"]
    builder = TableBuilder(tmp_path, columns, partition_by=["p"], features=features)
    path, _ = builder.append([{"p": "a b", "id": 1}, {"p": "a b", "id": 2}], [{"p": None, "id": 3}])
    builder.delete_rows(path, [0])
    builder.checkpoint()
    builder.append([{"p": "ü%", "id": 4}])
    builder.change_metadata(columns=[*builder.columns, Column("b", "string")])
    builder.append([{"p": "a b", "id": 5, "b": "x"}])
    return builder


def test_other_readers_read_what_is_restored(local: TableBuilder, tmp_path: Path) -> None:
    table = Table(str(tmp_path))
    for version in (2, 1, 5, 3):
        table.restore(version=version)
        wanted = sorted(ids(local.store, version))
        assert sorted(row["id"] for row in rows_with_duckdb(tmp_path)) == wanted
        assert sorted(row["id"] for row in rows_with_delta_rs(tmp_path)) == wanted
    assert table.check().findings.num_rows == 0


def test_manifests_follow(tmp_path: Path) -> None:
    on = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    builder = TableBuilder(tmp_path, [Column("id")])
    (first,) = builder.append([{"id": 1}])
    builder.change_metadata(properties=on)
    (second,) = builder.append([{"id": 2}])
    table = Table(str(tmp_path))
    manifest = tmp_path / "_symlink_format_manifest" / "manifest"
    table.restore(version=2)
    assert first in manifest.read_text()
    assert second not in manifest.read_text()
    table.restore(version=3)
    assert second in manifest.read_text()


def test_an_invalid_commit_is_an_error(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id")])
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    (tmp_path / commit_path(1)).write_bytes(encode_lines([{"metaData": {}}])[:-3])
    with pytest.raises(CorruptLogError):
        Table(str(tmp_path)).restore(version=0)
