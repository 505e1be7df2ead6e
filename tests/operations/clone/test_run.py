"""``clone``: what the target gets, what is refused, and how a run continues."""

import errno
import json
import os
import shlex
import shutil
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltactl.cli.app import run
from deltactl.engine.base import Engine
from deltactl.engine.local import LocalEngine
from deltactl.errors import (
    AccessDeniedError,
    CommitDamagedError,
    ConflictError,
    CredentialsExpiredError,
    DataFileError,
    DeltactlError,
    InterruptedRunError,
    LeaseHeldError,
    NotATableError,
    SafetyError,
    StorageError,
    UnreachableError,
    UnsupportedFeatureError,
    UsageError,
    VersionNotFoundError,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.plan import COPY_SCHEMA, _once
from deltactl.operations.clone.report import CloneReport
from deltactl.operations.clone.run import clone_table
from deltactl.operations.clone_notes import (
    CloneNote,
    drop_note,
    mark_running,
    read_notes,
    write_note,
)
from deltactl.operations.leases import Holder, hold_lease
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.run import VacuumOptions
from deltactl.storage.errors import map_error
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.operations.vacuum.test_races import Meanwhile
from tests.support.clock import FixedClock
from tests.support.damage import check
from tests.support.folding_store import FoldingStore
from tests.support.forwarding import ForwardingStore
from tests.support.restores import bodies, commit_lines, memory_table
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import START_MS, Column, TableBuilder, commit_path, multiset
from tests.support.table_samples import FEATURES, build_sample


def clone(
    source: Store,
    target: Store,
    *,
    deep: bool = True,
    warnings: list[str] | None = None,
    dry_run: bool = False,
    cancel: threading.Event | None = None,
    first_id: int = 1,
    now_ms: int = START_MS + 3_600_000,
    **options: Any,
) -> CloneReport:
    warn = (lambda _: None) if warnings is None else warnings.append
    clock = FixedClock(now_ms, first_id=first_id)
    context = RunContext(warn=warn, sleep=lambda _: None, clock=clock, cancel=cancel)
    return clone_table(
        DeltaLog(source, context.warn),
        DeltaLog(target, context.warn),
        CloneOptions(deep, **options),
        context,
        dry_run=dry_run,
    )


def rows(store: Store) -> Any:
    return multiset(Table("x", store=store).scan().read_all().to_pylist())


def ids(store: Store) -> list[int]:
    return sorted(Table("x", store=store).scan().read_all()["id"].to_pylist())


def contents(store: Store) -> dict[str, bytes]:
    return {name: store.read(name) for name in sorted(names(store))}


def names(store: Store) -> set[str]:
    return {name for batch in store.walk() for name in batch}


def with_vectors(**options: Any) -> TableBuilder:
    """Versions 1: rows 1-3; 2: without 2, by a vector; 3: another file."""
    builder = memory_table(features=["deletionVectors"], **options)
    (path,) = builder.append([{"id": n} for n in (1, 2, 3)])
    builder.delete_rows(path, [1])
    builder.append([{"id": 9}])
    return builder


@pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])
@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_rows_and_vectors_of_every_kind(deep: bool, kind: str) -> None:
    builder = memory_table(features=["deletionVectors"])
    (path,) = builder.append([{"id": n} for n in (1, 2, 3)])
    builder.delete_rows(path, [1], kind)
    target = fresh_store()
    report = clone(builder.store, target, deep=deep)
    assert (report.version_after, report.plan.num_files) == (0, 1)
    assert ids(target) == [1, 3]
    if deep:
        assert report.files_copied == (1 if kind == "i" else 2)
        builder.store.delete_many(list(names(builder.store)))
        assert ids(target) == [1, 3]
        assert names(target) >= {path}
        (add,) = bodies(target, 0, "add")
        assert add["deletionVector"]["storageType"] == ("i" if kind == "i" else "u")
    else:
        assert not [name for name in names(target) if name.endswith((".parquet", ".bin"))]
        (add,) = bodies(target, 0, "add")
        assert add["path"] == f"{builder.store.uri}/{path}"
        assert add["deletionVector"]["storageType"] == ("i" if kind == "i" else "p")


@pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])
def test_an_earlier_version(deep: bool) -> None:
    builder = with_vectors()
    times = [info.modified_ms for info in builder.store.list_from("_delta_log")]
    choices: list[dict[str, Any]] = [{"version": 1}, {"timestamp_ms": times[2]}]
    for options in choices:
        target = fresh_store()
        report = clone(builder.store, target, deep=deep, **options)
        assert ids(target) == sorted(row["id"] for row in builder.rows(report.plan.version))
    assert report.plan.version == 2
    with pytest.raises(VersionNotFoundError, match="it has versions 0 to 3"):
        clone(builder.store, fresh_store(), deep=deep, version=4)


@pytest.mark.parametrize("features", sorted(FEATURES))
@pytest.mark.parametrize("shape", ["commits", "v2-parquet"])
def test_a_sample_of_all_types_with_special_characters(features: str, shape: str) -> None:
    store = fresh_store()
    builder = build_sample(store, shape=shape, features=features, layout="partitioned")
    for deep in (True, False):
        target = fresh_store()
        clone(store, target, deep=deep)
        assert rows(target) == rows(store)
        assert rows(store) == multiset(builder.rows())


def test_the_commit_of_a_shallow_clone_is_that_of_spark() -> None:
    builder = with_vectors(properties={"delta.appendOnly": "false"})
    target = fresh_store()
    clone(builder.store, target, deep=False)
    lines = commit_lines(target, 0)
    assert [next(iter(line)) for line in lines] == [
        "commitInfo", "metaData", "add", "add", "protocol",
    ]  # fmt: skip
    info = lines[0]["commitInfo"]
    assert info["operation"] == "CLONE"
    assert info["operationParameters"] == {
        "source": f"delta.`{builder.store.uri}`",
        "sourceVersion": 3,
    }
    assert ("readVersion" in info, info["isBlindAppend"]) == (False, False)
    size = sum(add["add"]["size"] for add in lines[2:4])
    assert info["operationMetrics"] == {
        "removedFilesSize": "0", "numRemovedFiles": "0", "sourceTableSize": str(size),
        "numCopiedFiles": "0", "copiedFilesSize": "0", "sourceNumOfFiles": "2",
    }  # fmt: skip
    assert info["userMetadata"] == f"shallow clone of version 3 of {builder.store.uri}"
    source = bodies(builder.store, 0, "metaData")[0]
    metadata = lines[1]["metaData"]
    assert metadata.pop("id") != source.pop("id")
    assert metadata == source
    assert all(add["add"]["dataChange"] for add in lines[2:4])
    (protocol,) = bodies(builder.store, 0, "protocol")
    assert set(lines[-1]["protocol"]["writerFeatures"]) == set(protocol["writerFeatures"])


def test_local_paths_are_as_spark_writes_them(tmp_path: Path) -> None:
    source = LocalStore(str(tmp_path / "so urce"))
    builder = TableBuilder(source, [Column("p", "string"), Column("id")], partition_by=["p"])
    builder.append([{"p": "a b%", "id": 1}], [{"p": "é", "id": 2}])
    target = LocalStore(str(tmp_path / "clone"))
    clone(source, target, deep=False)
    paths = {add["path"] for add in bodies(target, 0, "add")}
    root = f"file:{tmp_path}/so%20urce/"
    assert {path[: len(root)] for path in paths} == {root}
    relative = {path.removeprefix(root) for path in paths}
    assert relative == {add["path"] for add in bodies(source, 1, "add")}
    assert ids(target) == [1, 2]


def test_other_readers_read_deep_clones(tmp_path: Path) -> None:
    source = LocalStore(str(tmp_path / "source"))
    builder = TableBuilder(source, [Column("p", "string"), Column("id")], partition_by=["p"])
    builder.append([{"p": "a b", "id": 1}], [{"p": "b", "id": 2}])
    clone(source, LocalStore(str(tmp_path / "clone")))
    (tmp_path / "source").rename(tmp_path / "gone")
    for read in (rows_with_duckdb, rows_with_delta_rs):
        assert multiset(read(tmp_path / "clone")) == multiset(builder.rows())


@pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])
def test_a_source_that_is_a_shallow_clone(deep: bool) -> None:
    builder = with_vectors()
    middle, target = fresh_store(), fresh_store()
    clone(builder.store, middle, deep=False)
    clone(middle, target, deep=deep)
    assert ids(target) == [1, 3, 9]
    if deep:
        found = {name for name in names(target) if name.endswith(".parquet")}
        assert len(found) == 2
        assert all(name.startswith("clone-") for name in found)
        again = fresh_store()
        clone(middle, again)
        assert {n for n in names(again) if n.endswith((".parquet", ".bin"))} == {
            n for n in names(target) if n.endswith((".parquet", ".bin"))
        }
        builder.store.delete_many(list(names(builder.store)))
        assert ids(target) == [1, 3, 9]
    else:
        # The owner of the files keeps them for the second clone too.
        assert {note.clone_uri for note in read_notes(builder.store)} == {middle.uri, target.uri}
        assert read_notes(middle) == ()  # the target uses none of its files


def test_check_notes_that_a_shallow_clone_is_not_recorded(tmp_path: Path) -> None:
    source, target = LocalStore(f"{tmp_path}/%41 b"), LocalStore(f"{tmp_path}/c")
    builder = memory_table(Column("id"), Column("p", "string"), partition_by=["p"])
    builder.append([{"id": 1, "p": "a"}], [{"id": 2, "p": "b"}])
    builder.copy_to(source)
    clone(source, target, deep=False, where="p = 'a'")
    assert check(target).notes == ()
    clone(source, LocalStore(f"{tmp_path}/deep"))
    (note,) = read_notes(source)
    drop_note(source, note)
    assert check(LocalStore(f"{tmp_path}/deep")).notes == ()
    report = check(target)
    (text,) = report.notes
    assert text.startswith(f"{source.uri} has no record of this shallow clone")
    assert report.is_sound
    command = shlex.split(text.partition("`")[2].partition("`")[0])
    assert command[1:3] == ["clone", f"{tmp_path}/%41 b"]
    assert run(command[1:]) == 0
    assert [it.name for it in read_notes(source)] == [note.name]
    assert check(target).notes == ()
    (tmp_path / "%41 b").rename(tmp_path / "copy")
    again = TableBuilder(LocalStore(f"{tmp_path}/%41 b"), [Column("id")])
    for number in range(2):  # created again, at last with this version: no command would work
        (text,) = check(target).notes
        assert "It has no version 1 any longer, or was created again" in text
        again.append([{"id": number}])
    shutil.rmtree(tmp_path / "%41 b")
    (tmp_path / "copy").rename(tmp_path / "%41 b")
    (tmp_path / "%41 b").rename(tmp_path / "moved")
    assert check(target).notes == ()  # the findings are about missing files


def test_check_notes_the_owner_of_the_files_of_a_clone_of_a_clone() -> None:
    builder, middle, target = with_vectors(), fresh_store(), fresh_store()
    clone(builder.store, middle, deep=False)
    clone(middle, target, deep=False)
    assert check(target).notes == ()
    for note in read_notes(builder.store):
        drop_note(builder.store, note)
    (text,) = check(target).notes
    assert text.startswith(f"{builder.store.uri} has no record")
    clone(middle, target, deep=False)
    assert check(target).notes == ()


@pytest.mark.parametrize("is_local", [True, False], ids=["to-disk", "from-disk"])
def test_a_shallow_clone_on_another_kind_of_storage(tmp_path: Path, is_local: bool) -> None:
    disk, memory, copy = LocalStore(f"{tmp_path}/%41"), fresh_store(), LocalStore(f"{tmp_path}/b")
    source, target = (memory, disk) if is_local else (disk, memory)
    builder = with_vectors().copy_to(source)
    warnings: list[str] = []
    clone(source, target, deep=False, warnings=warnings)
    assert sum("cannot optimize or vacuum this clone" in text for text in warnings) == 1
    with pytest.raises(DeltactlError) as optimized:
        Table("x", store=target).optimize()
    with pytest.raises(DeltactlError) as vacuumed:
        Table("x", store=target).vacuum()
    for caught in (optimized, vacuumed):
        assert "`deltactl clone TABLE NEW --deep`" in (caught.value.hint or "")
    clone(target, copy)
    warnings.clear()
    clone(copy, LocalStore(f"{tmp_path}/c"), deep=False, warnings=warnings)
    assert not any("cannot optimize" in text for text in warnings)
    assert Table("x", store=copy).optimize().version_after == 1
    Table("x", store=copy).vacuum()
    assert ids(copy) == ids(builder.store)
    source.delete_many([name for name in names(source) if name.endswith(".bin")])
    with pytest.raises(DataFileError, match="does not exist"):
        clone(target, LocalStore(f"{tmp_path}/d"), deep=False)


def test_row_ids_stay_unique() -> None:
    builder = memory_table(
        features=["rowTracking", "domainMetadata"], properties={"delta.enableRowTracking": "true"}
    )
    builder.append([{"id": 1}, {"id": 2}])
    (path,) = builder.append([{"id": 3}])
    builder.remove(builder.append([{"id": 4}])[0])
    source = {a["path"]: a for v in (1, 2) for a in bodies(builder.store, v, "add")}
    for deep in (True, False):
        target = fresh_store()
        clone(builder.store, target, deep=deep)
        for add in bodies(target, 0, "add"):
            name = add["path"].removeprefix(f"{builder.store.uri}/")
            assert add["baseRowId"] == source[name]["baseRowId"]
            assert add["defaultRowCommitVersion"] == 0
        (domain,) = bodies(target, 0, "domainMetadata")
        assert json.loads(domain["configuration"])["rowIdHighWaterMark"] == 3
    assert path in source


def test_what_is_about_commits_of_the_source_does_not_travel() -> None:
    builder = memory_table(
        features=["inCommitTimestamp", "checkpointProtection"],
        properties={
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "4",
            "delta.inCommitTimestampEnablementTimestamp": "5",
            "delta.requireCheckpointProtectionBeforeVersion": "7",
            "delta.coordinatedCommits.commitCoordinator-preview": "x",
            "io.unitycatalog.tableId": "x",
            "mine": "kept",
        },
    )
    builder.append([{"id": 1}])
    target = fresh_store()
    clone(builder.store, target)
    (metadata,) = bodies(target, 0, "metaData")
    assert metadata["configuration"] == {"delta.enableInCommitTimestamps": "true", "mine": "kept"}
    (info,) = bodies(target, 0, "commitInfo")
    assert next(iter(info)) == "inCommitTimestamp"
    (txn,) = bodies(target, 0, "txn")
    table_id = bodies(builder.store, 0, "metaData")[0]["id"]
    assert (txn["appId"], txn["version"]) == (f"deltactl.clone:{table_id}", 1)


def test_a_clone_has_only_the_clustering_domain() -> None:
    builder = memory_table(features=["clustering", "domainMetadata"])
    builder.append([{"id": 1}])
    clustering = '{"clusteringColumns":[["id"]],"domainName":"delta.clustering"}'
    builder.commit(
        {"domainMetadata": {"domain": "delta.clustering", "configuration": clustering,
                            "removed": False}},
        {"domainMetadata": {"domain": "mine", "configuration": "x", "removed": False}},
    )  # fmt: skip
    target = fresh_store()
    clone(builder.store, target)
    assert [it["domain"] for it in bodies(target, 0, "domainMetadata")] == ["delta.clustering"]


def test_properties_are_set_over_those_of_the_source() -> None:
    builder = memory_table(properties={"delta.appendOnly": "true", "a": "1"})
    builder.append([{"id": 1}])
    target = fresh_store()
    properties = {"delta.enableDeletionVectors": "true", "b": "2"}
    clone(builder.store, target, properties={"delta.appendonly": "FALSE", **properties})
    snapshot = Table("x", store=target).snapshot()
    stored = {"a": "1", "delta.appendOnly": "false", **properties}
    assert snapshot.metadata.configuration == stored
    assert "deletionVectors" in (snapshot.protocol.reader_features or ())
    with pytest.raises(UsageError, match="cannot set the property"):
        CloneOptions(deep=True, properties={"delta.columnMapping.mode": "name"})
    target = fresh_store()
    with pytest.raises(UsageError, match="no data column 'nope'"):
        clone(builder.store, target, properties={"delta.dataSkippingStatsColumns": "nope"})
    assert not DeltaLog(target, pytest.fail).exists


def test_manifests_do_not_fit_column_mapping() -> None:
    builder = TableBuilder(fresh_store(), [Column("id")], mapping="name")
    target = fresh_store()
    properties = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    with pytest.raises(SafetyError, match="column mapping"):
        clone(builder.store, target, deep=True, properties=properties)
    assert contents(target) == {}
    builder.change_metadata(properties=properties)
    clone(builder.store, target, deep=True, properties={"team": "a"})
    assert Table("x", store=target).snapshot().properties.refreshes_manifests


def test_only_partitions_that_match_are_cloned() -> None:
    builder = memory_table(Column("p", "string"), Column("id"), partition_by=["p"])
    builder.append([{"p": "a", "id": 1}], [{"p": "b", "id": 2}])
    for deep in (True, False):
        target = fresh_store()
        report = clone(builder.store, target, deep=deep, where="p = 'b'")
        assert ids(target) == [2]
        assert report.plan.num_files == 1
        (info,) = bodies(target, 0, "commitInfo")
        assert json.loads(info["operationParameters"]["predicate"]) == [report.plan.predicate]
    with pytest.raises(UsageError):
        clone(builder.store, fresh_store(), where="id = 1")


def test_a_clone_of_an_empty_table_is_empty() -> None:
    builder = memory_table()
    for deep in (True, False):
        target = fresh_store()
        clone(builder.store, target, deep=deep)
        assert ids(target) == []


def test_a_dry_run_writes_nothing() -> None:
    builder = with_vectors()
    for deep in (True, False):
        target = fresh_store()
        before = contents(builder.store)
        report = clone(
            refuse_changes(builder.store), refuse_changes(target), deep=deep, dry_run=True
        )
        assert (report.version_after, report.plan.num_files) == (None, 2)
        # The files of the deletion vectors are copied, too.
        assert report.files_copied == (report.plan.copies.num_rows if deep else 0)
        assert names(target) == set()
        assert contents(builder.store) == before


def test_a_dry_run_looks_for_the_files_of_the_source() -> None:
    builder = with_vectors()
    lost = next(name for name in names(builder.store) if name.endswith(".parquet"))
    builder.store.delete_many([lost])
    for dry_run in (True, False):
        with pytest.raises(DataFileError, match="nothing was committed: 1 file of .* not exist"):
            clone(builder.store, fresh_store(), dry_run=dry_run)


def test_nothing_is_written_to_the_source_but_the_note() -> None:
    builder = with_vectors()
    before = contents(builder.store)
    clone(refuse_changes(builder.store), fresh_store())
    target = fresh_store()
    clone(refuse_changes(builder.store), target, deep=False, note=False)
    assert contents(builder.store) == before
    report = clone(builder.store, target := fresh_store(), deep=False)
    (note,) = read_notes(builder.store)
    assert (note.clone_uri, note.source_version) == (target.uri, 3)
    assert note.clone_id == bodies(target, 0, "metaData")[0]["id"]
    assert report.notes == (builder.store.uri,)
    assert contents(builder.store).keys() - before.keys() == {note.name}


def test_a_source_that_cannot_be_written_has_no_shallow_clone() -> None:
    builder = with_vectors()
    target = fresh_store()

    class Closed(ForwardingStore):
        def put(self, name: str, data: bytes) -> None:
            raise AccessDeniedError(f"cannot write {name!r}")

    with pytest.raises(SafetyError, match="cannot be recorded") as raised:
        clone(Closed(builder.store), target, deep=False)
    assert "note=False" in (raised.value.hint or "")
    assert names(target) == set()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_only_a_source_that_cannot_be_written_is_cloned_without_a_note(number: int) -> None:
    builder = with_vectors()
    target = fresh_store()

    class Full(ForwardingStore):
        def put(self, name: str, data: bytes) -> None:
            cause = OSError(number, os.strerror(number))
            raise map_error(cause, "write", name, self.uri) from cause

    before = contents(builder.store)
    with pytest.raises(DeltactlError) as raised:
        clone(Full(builder.store), target, deep=False)
    assert (raised.value.exit_code, "note=False" in (raised.value.hint or "")) == (
        (6, True) if number == errno.EROFS else (8, False)
    )
    assert (contents(builder.store), names(target)) == (before, set())


@pytest.mark.parametrize("error", [CredentialsExpiredError, UnreachableError])
def test_a_store_that_fails_does_not_make_a_clone_without_a_note(
    error: type[StorageError],
) -> None:
    class Failing(ForwardingStore):
        def put(self, name: str, data: bytes) -> None:
            raise error(f"cannot write {name!r}")

    with pytest.raises(error):
        clone(Failing(with_vectors().store), fresh_store(), deep=False)


@pytest.mark.parametrize("is_clone", [False, True])
def test_who_loses_the_target_takes_back_its_own_note_alone(is_clone: bool) -> None:
    builder = with_vectors()
    target = fresh_store()

    class Taken(ForwardingStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            if name == commit_path(0) and commit_path(0) not in names(target):
                if is_clone:
                    clone(builder.store, target, deep=False, first_id=1000)
                else:
                    TableBuilder(target, [Column("other")])
            super().put_if_absent(name, data)

    with pytest.raises(ConflictError, match="another writer created a table"):
        clone(builder.store, Taken(target), deep=False)
    winner = bodies(target, 0, "metaData")[0]["id"]
    assert [note.clone_id for note in read_notes(builder.store)] == [winner] * is_clone
    assert (bodies(target, 0, "commitInfo")[0]["operation"] == "CLONE") is is_clone


def test_a_clone_that_another_run_finished_meanwhile_is_not_to_be_deleted() -> None:
    builder = with_vectors()
    target = fresh_store()

    class Finished(ForwardingStore):
        """Another run ends after the log was listed."""

        def list_from(self, prefix: str, start: str = "") -> Any:
            found = list(super().list_from(prefix, start))
            if prefix == "_delta_log" and not names(target):
                clone(builder.store, target)
            return iter(found)

    with pytest.raises(
        ConflictError, match="another run created a Delta table in the clone target"
    ) as raised:
        clone(builder.store, Finished(target))
    assert raised.value.hint == "Rerun to see whether that table is already the wanted clone."
    assert clone(builder.store, target).is_done


@pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])
def test_places_that_are_refused(tmp_path: Path, deep: bool) -> None:
    root = tmp_path / "source"
    source = LocalStore(str(root))
    TableBuilder(source, [Column("id")]).append([{"id": 1}])
    (tmp_path / "link").symlink_to(root)
    before = names(LocalStore(str(tmp_path)))
    for place, text in (
        (root, "the same table"),
        (tmp_path / "link", "the same table"),
        (root / "inside", "is inside the source"),
        (tmp_path / "link" / "inside", "is inside the source"),
        (tmp_path, "is inside the target"),
    ):
        with pytest.raises(SafetyError, match=text):
            clone(source, LocalStore(str(place)), deep=deep)
    assert names(LocalStore(str(tmp_path))) == before
    TableBuilder(tmp_path / "other", [Column("id")])
    for place, text in (
        (tmp_path / "other", "already contains a table"),
        (tmp_path / "other" / "inside", "is inside the Delta table"),
    ):
        with pytest.raises(SafetyError, match=text):
            clone(source, LocalStore(str(place)), deep=deep)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "x").write_text("x")
    with pytest.raises(SafetyError, match="is not empty: it contains 'x'"):
        clone(source, LocalStore(str(tmp_path / "files")), deep=deep)
    assert (tmp_path / "files" / "x").read_text() == "x"
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["x"]


def test_a_catalog_managed_source_is_refused() -> None:
    builder = memory_table(features=["catalogManaged", "inCommitTimestamp"])
    target = fresh_store()
    with pytest.raises(UnsupportedFeatureError, match="without its catalog.*catalogManaged"):
        clone(builder.store, target)
    assert names(target) == set()


def test_two_clones_into_one_target() -> None:
    builder = with_vectors()
    target = fresh_store()
    clock = FixedClock(START_MS + 3_600_000)
    other = Holder.here("other", clock)
    with (
        hold_lease(target, "clone", other, clock=clock, warn=lambda _: None),
        pytest.raises(LeaseHeldError, match="another clone is running") as raised,
    ):
        clone(builder.store, target)
    assert "lease=False" not in (raised.value.hint or "")
    assert not [name for name in names(target) if not name.startswith("_deltactl/leases/")]
    clone(builder.store, target)
    assert ids(target) == [1, 3, 9]


@pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])
def test_a_source_that_is_not_whole(deep: bool) -> None:
    builder = with_vectors()
    store = builder.store
    (path,) = (add["path"] for add in bodies(store, 3, "add"))
    data = store.read(path)
    store.delete_many([path])
    target = fresh_store()
    with pytest.raises(DataFileError, match="1 file .*cannot be read.*it does not exist") as caught:
        clone(store, target, deep=deep)
    assert " --restorable`" in str(caught.value.hint)
    assert commit_path(0) not in names(target)
    assert read_notes(store) == ()
    store.put(path, data + b"x")
    with pytest.raises(DataFileError, match="but the log has"):
        clone(store, target, deep=deep)
    store.put(path, data)
    report = clone(store, target, deep=deep)
    assert ids(target) == [1, 3, 9]
    if deep:
        assert (report.files_copied, report.files_kept) == (1, 2)
        assert names(target) == {
            commit_path(0), *(n for n in names(store) if n.endswith((".parquet", ".bin"))),
        }  # fmt: skip


@pytest.mark.parametrize("deep", [True, False])
def test_the_undo_of_a_vacuum_that_removed_the_files_is_named(tmp_path: Path, deep: bool) -> None:
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    builder.append(*([{"id": n}] for n in range(5)))
    table = Table(tmp_path, warn=lambda _: None)
    table.optimize()
    run = table.vacuum(VacuumOptions(retain_ms=0, force_retention=True, quarantine=True))
    with pytest.raises(DataFileError, match=f" and 2 more; vacuum {run.run_id} of ") as caught:
        clone(builder.store, fresh_store(), version=1, deep=deep)
    assert f"--undo {run.run_id}`, which restores 5; " in str(caught.value.hint)


def test_a_rerun_copies_what_is_missing_or_broken() -> None:
    builder = with_vectors()
    target = fresh_store()
    clone(builder.store, target)
    whole = target.contents()
    files = sorted(n for n in names(target) if n.endswith(".parquet"))
    target.delete_many([commit_path(0), files[0]])
    target.put(files[1], b"x")
    with pytest.raises(SafetyError, match="is not empty: it contains"):
        clone(builder.store, target)
    table_id = bodies(builder.store, 0, "metaData")[0]["id"]
    record = {"source": builder.store.uri, "table_id": table_id, "version": 1}
    target.put("_deltactl/clone.json", json.dumps(record).encode())
    with pytest.raises(NotATableError) as unfinished:
        DeltaLog(target, pytest.fail).snapshot()
    assert str(unfinished.value.hint).startswith("Rerun the `deltactl clone`")
    report = clone(builder.store, target)
    assert (report.files_copied, report.files_kept) == (2, 1)
    assert names(target) == whole.keys()
    assert ids(target) == [1, 3, 9]


def test_an_unfinished_clone_of_another_table_is_refused() -> None:
    builder = with_vectors()
    target = fresh_store()
    record = {"source": "memory://other", "table_id": "other", "version": 1}
    target.put("_deltactl/clone.json", json.dumps(record).encode())
    with pytest.raises(SafetyError, match="an unfinished clone of memory://other"):
        clone(builder.store, target)
    target.put("_deltactl/clone.json", b"{}")
    with pytest.raises(SafetyError, match="does not say which table"):
        clone(builder.store, target)


def test_a_finished_clone_is_left_alone() -> None:
    builder = with_vectors()
    target = fresh_store()
    clone(builder.store, target)
    target.put("_deltactl/clone.json", b"left by a run that was killed")
    report = clone(builder.store, target)
    assert (report.is_done, report.version_before, report.version_after) == (True, 0, 0)
    assert "_deltactl/clone.json" not in names(target)
    builder.append([{"id": 10}])
    with pytest.raises(SafetyError, match="already contains a table") as raised:
        clone(builder.store, target)
    assert "sync=True" in (raised.value.hint or "")


@pytest.mark.parametrize("deep", [True, False], ids=["deep", "shallow"])
def test_an_interrupted_run_makes_no_table(deep: bool) -> None:
    builder = with_vectors()
    target = fresh_store()
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(InterruptedRunError, match="interrupted"):
        clone(builder.store, target, deep=deep, cancel=cancel)
    assert commit_path(0) not in names(target)
    clone(builder.store, target, deep=deep)
    assert ids(target) == [1, 3, 9]


def test_a_vacuum_that_was_at_work_is_reported() -> None:
    builder = with_vectors()
    (path,) = (add["path"] for add in bodies(builder.store, 3, "add"))
    target = fresh_store()

    class Vacuumed(ForwardingStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            super().put_if_absent(name, data)
            builder.store.delete_many([path])

    made = Table("x", store=Vacuumed(target), warn=lambda _: None)
    with pytest.raises(CommitDamagedError, match="the clone was created, but 1 file of") as caught:
        Table("x", store=builder.store).clone(made, deep=False)
    report = caught.value.report
    assert isinstance(report, CloneReport)
    assert [it.path for it in report.gone] == [f"{builder.store.uri}/{path}"]
    assert report.version_after == 0


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_note_that_is_deleted_during_the_run_is_missed(when: str) -> None:
    builder, target = with_vectors(), fresh_store()

    def forget() -> None:
        (note,) = read_notes(builder.store)
        assert note.begun_ms is not None
        drop_note(builder.store, note)

    class Forgetful(ForwardingStore):
        def list_from(self, prefix: str, start: str = "") -> Any:
            if read_notes(builder.store):
                forget()
            return super().list_from(prefix, start)

    if when == "before":
        source = Forgetful(builder.store)
        with pytest.raises(ConflictError, match="the record of the clone in .* was deleted"):
            clone(source, target, deep=False)
        assert names(target) == set()
        return
    report = clone(builder.store, Meanwhile(target, "put_if_absent", forget), deep=False)
    assert [it.problem for it in report.gone] == ["this record of the clone was deleted"]
    assert report.find_error() is not None


def test_a_clone_that_may_be_running_is_no_earlier_one() -> None:
    source, target = fresh_store(), fresh_store()
    source.restore(with_vectors().store.contents())  # type: ignore[attr-defined]
    other = CloneNote(target.uri, 1, START_MS, "another")
    write_note(source, other)
    mark_running(source, other)
    for hours, count in ((1, 0), (0, 1)):
        warnings: list[str] = []
        source.set_modified(other.mark, START_MS + hours * 3_600_000)
        clone(source, target, deep=False, warnings=warnings)
        assert sum("a record of an earlier shallow clone" in it for it in warnings) == count
        assert [it.name for it in read_notes(source) if it.begun_ms] == [other.name]
        target.restore({})


def test_files_are_copied_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    from deltactl.operations.clone import tasks

    monkeypatch.setattr(tasks, "_FILES_A_TASK", 3)
    builder = memory_table()
    builder.append(*([{"id": n}] for n in range(10)))
    target = fresh_store()
    assert clone(builder.store, target).files_copied == 10
    assert ids(target) == list(range(10))


def test_no_amount_of_bytes_starts_spark_on_this_machine() -> None:
    """A cluster that is named does, and so does ``--engine spark``."""
    builder = memory_table()
    builder.append([{"id": 1}])

    class NeverSized(LocalEngine):
        def sized(self, input_bytes: int) -> Engine:
            raise AssertionError("the bytes do not choose the engine")

    context = RunContext(warn=lambda _: None, engine=NeverSized())
    clone_table(
        DeltaLog(builder.store, context.warn),
        DeltaLog(fresh_store(), context.warn),
        CloneOptions(deep=True),
        context,
    )


def test_a_source_that_was_moved_is_vacuumed_once_its_old_address_leads_to_it(
    tmp_path: Path,
) -> None:
    source = LocalStore(str(tmp_path / "source"))
    TableBuilder(source, [Column("id")]).append([{"id": 1}], [{"id": 2}])
    target = LocalStore(str(tmp_path / "clone"))
    clone(source, target, deep=False)
    (tmp_path / "source").rename(tmp_path / "moved")
    table = Table(tmp_path / "moved", warn=lambda _: None)
    assert table.optimize().versions
    options = VacuumOptions(mode="full", retain_ms=0, force_retention=True)
    with pytest.raises(SafetyError, match="references files such as .*, but none below"):
        table.vacuum(options)
    (tmp_path / "source").symlink_to(tmp_path / "moved")
    table.vacuum(options)
    assert ids(target) == [1, 2]
    for read in (rows_with_delta_rs, rows_with_duckdb):
        assert sorted(row["id"] for row in read(tmp_path / "moved")) == [1, 2]


def test_a_clone_of_a_clone_does_not_stop_the_vacuum_of_either_source(tmp_path: Path) -> None:
    stores = [LocalStore(str(tmp_path / name)) for name in "abc"]
    TableBuilder(stores[0], [Column("id")]).append([{"id": 1}], [{"id": 2}])
    clone(stores[0], stores[1], deep=False)
    clone(stores[1], stores[2], deep=False)
    options = VacuumOptions(mode="full", retain_ms=0, force_retention=True)
    for name in "ab":
        table = Table(tmp_path / name, warn=lambda _: None)
        assert table.optimize().versions
        table.vacuum(options)
    assert ids(stores[2]) == [1, 2]
    # Later clones use files of the second table too.
    last = LocalStore(str(tmp_path / "d"))
    clone(stores[1], last, deep=False)
    assert [note.clone_uri for note in read_notes(stores[1])] == [last.uri]


@pytest.mark.parametrize(("name", "decoded"), [("day%20one", "day one"), ("%41", "A")])
def test_a_clone_of_a_clone_of_a_directory_with_an_escape_in_its_name(
    tmp_path: Path, name: str, decoded: str
) -> None:
    first, other = (LocalStore(str(tmp_path / each)) for each in (name, decoded))
    for store in (first, other):
        TableBuilder(store, [Column("id")]).append([{"id": 1}], [{"id": 2}])
    middle, last = (LocalStore(str(tmp_path / each)) for each in ("middle", "last"))
    warnings: list[str] = []
    for source, target in ((first, middle), (middle, last)):
        clone(source, target, deep=False, warnings=warnings)
    assert not any("did not find these tables" in text for text in warnings)
    assert {note.clone_uri for note in read_notes(first)} == {middle.uri, last.uri}
    assert read_notes(other) == ()
    for note in read_notes(first):
        if note.clone_uri == middle.uri:
            drop_note(first, note)
    Table("x", store=first).optimize()
    options = VacuumOptions(mode="full", retain_ms=0, force_retention=True)
    Table("x", store=first, warn=lambda _: None).vacuum(options)
    assert ids(last) == [1, 2]


def test_the_table_above_a_key_with_an_escape() -> None:
    """Only the addresses of local files are encoded."""
    source, outer = memory_table(), fresh_store()
    TableBuilder(MemoryStore(f"{outer.uri}%20"), [Column("id")])
    with pytest.raises(SafetyError, match="is inside the Delta table"):
        clone(source.store, MemoryStore(f"{outer.uri}%20/inside"))
    clone(source.store, MemoryStore(f"{outer.uri} /not inside"))


@pytest.mark.parametrize("ended", [False, True], ids=["at work", "ended"])
def test_an_old_version_that_a_vacuum_at_work_may_be_removing(ended: bool) -> None:
    builder = with_vectors()
    builder.commit(operation="VACUUM START")
    if ended:
        builder.commit(operation="VACUUM END")
        clone(builder.store, fresh_store(), deep=False, version=1)
        return
    target = fresh_store()
    with pytest.raises(SafetyError, match="began in version 4, .* files of version 1,") as raised:
        clone(builder.store, target, deep=False, version=1)
    assert "If it was killed, no rerun succeeds" in (raised.value.hint or "")
    assert read_notes(builder.store) == ()
    assert names(target) == set()
    clone(builder.store, fresh_store(), deep=False, version=1, note=False)
    # What was live when it began, it keeps.
    clone(builder.store, target, deep=False, version=3)
    assert ids(target) == [1, 3, 9]


def test_a_rerun_helps_only_if_all_unfinished_vacuums_hold_leases() -> None:
    builder, clock = with_vectors(), FixedClock(START_MS + 3_600_000)

    def begin(run_id: str) -> AbstractContextManager[None]:
        builder.commit(operation="VACUUM START", tags={"deltactl.runId": run_id})
        holder = Holder(run_id, "elsewhere", 1, clock.now_ms(), clock.now_ms() + 1)
        return hold_lease(builder.store, "vacuum", holder, clock=clock, warn=pytest.fail)

    with begin("killed"), pytest.raises(ConflictError, match="version 4, .* has not ended. ") as it:
        clone(builder.store, fresh_store(), deep=False, version=1)
    assert it.value.hint == "Rerun when the vacuum has ended. Or use deep=True."
    with begin("second"), pytest.raises(SafetyError, match="version 4, .*, or was killed"):
        clone(builder.store, fresh_store(), deep=False, version=1)


def test_the_note_is_there_before_vacuums_are_looked_for() -> None:
    builder = with_vectors()
    looked: list[bool] = []

    class Watched(ForwardingStore):
        def list_from(self, prefix: str, start: str = "") -> Any:
            if prefix == "_delta_log":
                looked.append(bool(read_notes(builder.store)))
            return super().list_from(prefix, start)

    clone(Watched(builder.store), fresh_store(), deep=False)
    assert looked[0] is False
    assert looked[-1] is True


def test_the_order_of_copies_does_not_depend_on_threads() -> None:
    nothing = pa.nulls(200, pa.int64())
    names = [pa.array([f"{part}-{row}" for row in range(200)]) for part in range(20)]
    copies = pa.concat_tables(
        pa.table([each, each, *[nothing] * 3], schema=COPY_SCHEMA) for each in (*names, names[0])
    )
    first, *others = (_once(copies) for _ in range(10))
    assert first.num_rows == 4_000 and all(first == other for other in others)


@pytest.mark.parametrize("sync", [False, True])
def test_names_that_the_target_takes_for_one_file_are_refused(sync: bool) -> None:
    """Spark writes files of the same name to all partitions of a task."""
    columns = (Column("id"), Column("p", "string"))
    builder = memory_table(*columns, partition_by=["p"])
    builder.append([{"id": 1, "p": "DE"}], name="part-0.parquet")
    target = FoldingStore(fresh_store())
    if sync:
        clone(builder.store, target, sync=True)
    builder.append([{"id": 2, "p": "de"}], name="part-0.parquet")
    before = contents(target)
    with pytest.raises(SafetyError, match=r"'p=DE/part-0.parquet' and 'p=de/part-0.parquet' would"):
        clone(builder.store, target, sync=sync)
    assert contents(target) == before
    assert ids(builder.store) == [1, 2]
    other = fresh_store()
    clone(builder.store, other)
    assert ids(other) == [1, 2]
