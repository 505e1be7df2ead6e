"""``restore``: what comes back, what never goes back, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deltactl.clock import Clock, SystemClock
from deltactl.errors import (
    ConflictError,
    InterruptedRunError,
    SafetyError,
    UnsupportedFeatureError,
    UsageError,
    VersionNotFoundError,
)
from deltactl.log.listing import list_log
from deltactl.operations.missing_files import find
from deltactl.operations.restore.options import RestoreOptions
from deltactl.operations.restore.report import RestoreReport
from deltactl.operations.restore.run import restore_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum_commits import find_open_vacuums
from deltactl.storage.forwarding import ForwardingStore
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import FileInfo, Store
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.clock import FixedClock
from tests.support.stores import CountingStore, MemoryStore
from tests.support.table_builder import (
    START_MS,
    Action,
    Column,
    TableBuilder,
    commit_path,
    dv_id,
    encode_lines,
)

_numbers = iter(range(10**6))


def memory_table(*columns: Column, **options: Any) -> TableBuilder:
    store = MemoryStore(f"memory://restore-{next(_numbers)}")
    return TableBuilder(store, columns or (Column("id"),), **options)


def restore(
    store: Store, version: int | None = None, warnings: list[str] | None = None, **options: Any
) -> RestoreReport:
    warn = (lambda _: None) if warnings is None else warnings.append
    clock: Clock = SystemClock() if options.pop("now", False) else FixedClock(START_MS + 3_600_000)
    context = RunContext(warn=warn, sleep=lambda _: None, clock=clock)
    dry_run = options.pop("dry_run", False)
    return restore_table(store, RestoreOptions(version, **options), context, dry_run=dry_run)


def commit_lines(store: Store, version: int) -> list[Action]:
    text = store.read(commit_path(version)).decode()
    return [json.loads(line) for line in text.splitlines()]


def bodies(store: Store, version: int, action: str) -> list[Action]:
    return [line[action] for line in commit_lines(store, version) if action in line]


def keys(store: Store, version: int | None = None) -> set[tuple[str, str | None]]:
    """The live files by path and vector."""
    files = Table("x", store=store).snapshot(version).files.to_pylist()
    found = set()
    for row in files:
        vector = row["deletion_vector"]
        node = vector and {
            "storageType": vector["storage_type"],
            "pathOrInlineDv": vector["path_or_inline_dv"],
            **({} if vector["offset"] is None else {"offset": vector["offset"]}),
        }
        found.add((row["encoded_path"], dv_id(node)))
    return found


def ids(store: Store, version: int | None = None) -> list[int]:
    rows = Table("x", store=store).scan(version).read_all()
    return sorted(rows["id"].to_pylist())


def latest(store: Store) -> int:
    return Table("x", store=store).snapshot().version


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


@pytest.mark.parametrize("target", [4, 5])
def test_there_may_be_nothing_to_do(target: int) -> None:
    store = with_vectors().store
    restore(store, 1)
    restore(store, 4)  # version 6 is the same as version 4
    before = latest(store)
    assert restore(store, 6 if target == 5 else 4).version_after is None
    assert latest(store) == before


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, UsageError, "needs --to-version or --to-timestamp"),
        ({"version": 1, "timestamp_ms": 1}, UsageError, "cannot be combined"),
        ({"version": -1}, UsageError, "must not be negative"),
        ({"version": 5}, VersionNotFoundError, "no version 5: it has versions 0 to 4"),
        ({"timestamp_ms": 1}, VersionNotFoundError, "before the first commit"),
        ({"timestamp_ms": 1 << 45}, VersionNotFoundError, r"after the latest commit .*version 4"),
    ],
)
def test_a_target_outside_the_log(options: dict[str, Any], error: Any, text: str) -> None:
    store = with_vectors().store
    with pytest.raises(error, match=text):
        restore(store, **options)
    assert latest(store) == 4


def test_a_dry_run_writes_nothing() -> None:
    store = with_vectors().store
    assert isinstance(store, MemoryStore)
    before = store.contents()
    report = restore(store, 1, dry_run=True)
    assert store.contents() == before
    assert (report.version_after, report.plan.diff.num_remarked) == (None, 1)
    assert report.plan.diff.removed.num_files == 2


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
    import threading

    builder = with_vectors()
    cancel = threading.Event()
    cancel.set()
    context = RunContext(warn=lambda _: None, cancel=cancel)
    with pytest.raises(InterruptedRunError):
        restore_table(builder.store, RestoreOptions(1), context)
    assert latest(builder.store) == 4


def test_it_is_asked_before_the_commit() -> None:
    builder = with_vectors()
    context = RunContext(warn=lambda _: None)
    with pytest.raises(SafetyError, match="not confirmed"):
        restore_table(builder.store, RestoreOptions(1), context, confirm=lambda _: False)
    assert latest(builder.store) == 4


# -- missing files ----------------------------------------------------------------------------


def damaged(what: str) -> tuple[TableBuilder, str]:
    """Version 2 lacks something: 1 adds a file, 2 marks a row, 3 removes it, 4 appends."""
    builder = memory_table(features=["deletionVectors"])
    path, kept = builder.append([{"id": 1}, {"id": 2}], [{"id": 3}])
    builder.delete_rows(path, [0])
    builder.remove(path)
    builder.append([{"id": 4}])
    store = builder.store
    vector = next(name for batch in store.walk() for name in batch if name.endswith(".bin"))
    match what:
        case "file":
            store.delete_many([path])
        case "kept file":
            path = kept
            store.delete_many([path])
        case "vector":
            path = vector
            store.delete_many([vector])
        case "short vector":
            path = vector
            store.put(vector, store.read(vector)[:-1])
        case "size":
            store.put(path, store.read(path) + b"x")
    return builder, path


@pytest.mark.parametrize("what", ["file", "kept file", "vector", "short vector", "size"])
def test_a_version_that_is_not_whole_is_refused(what: str) -> None:
    builder, path = damaged(what)
    with pytest.raises(SafetyError) as caught:
        restore(builder.store, 2)
    assert "1 file of version 2 cannot be read" in caught.value.message
    assert path in caught.value.message
    assert "the log has no vacuum since then" in caught.value.message
    hint = caught.value.hint or ""
    whole = {"kept file": 0, "file": 3, "size": 3}.get(what, 1)
    assert f"restore version {whole}, the nearest with all its files;" in hint
    assert latest(builder.store) == 4


@pytest.mark.parametrize("what", ["file", "vector", "size"])
def test_without_what_is_missing(what: str) -> None:
    builder, _ = damaged(what)
    report = restore(builder.store, 2, ignore_missing=True)
    assert ids(builder.store) == [3]
    assert report.plan.lost.num_rows == 1
    assert report.to_dict()["files_lost"] == report.plan.lost["path"].to_pylist()


def test_many_files_are_looked_for_on_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "_FILES_A_TASK", 1)
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    paths = builder.append([{"id": 1}], [{"id": 2}], [{"id": 3}])
    builder.remove(*paths)
    (tmp_path / paths[1]).unlink()
    with pytest.raises(SafetyError, match=paths[1]):
        restore(builder.store, 1)
    report = restore(builder.store, 1, ignore_missing=True)
    assert report.plan.added.num_rows == 2


def test_kept_files_of_a_large_table_are_looked_for_in_a_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files below a link are in no listing, and exist all the same."""
    monkeypatch.setattr(find, "_FEWEST_TO_LIST", 1)
    columns = [Column("p", "string"), Column("id")]
    builder = TableBuilder(
        LocalStore(str(tmp_path / "t")), columns, partition_by=["p"], features=["deletionVectors"]
    )
    one, two, _, gone = builder.append(*([{"p": p, "id": n}] for n, p in enumerate("abcd")))
    builder.delete_rows(two, [0])
    builder.remove(gone)
    (tmp_path / "t" / "p=c").rename(tmp_path / "elsewhere")
    (tmp_path / "t" / "p=c").symlink_to(tmp_path / "elsewhere")
    counted = CountingStore(builder.store)
    assert restore(counted, 2, dry_run=True).plan.missing == ()
    assert "stat_many" in counted.touched(gone)
    assert "stat_many" not in counted.touched(one)
    (vector,) = (tmp_path / "t").glob("*.bin")
    vector.rename(tmp_path / "vector")
    assert [it.path for it in restore(counted, 2, dry_run=True).plan.missing] == [vector.name]
    (tmp_path / "vector").rename(vector)
    (tmp_path / "t" / one).unlink()
    (tmp_path / "t" / gone).write_bytes(b"")
    missing = restore(counted, 2, dry_run=True).plan.missing
    assert [it.path for it in missing] == [one, gone]


def test_the_vacuum_that_removed_the_files_is_named(tmp_path: Path) -> None:
    from deltactl import VacuumOptions

    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    (path,) = builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    builder.remove(path)
    table = Table(str(tmp_path))
    options = VacuumOptions(retain_ms=0, force_retention=True, quarantine=True)
    run = table.vacuum(options).run_id
    with pytest.raises(SafetyError) as caught:
        table.restore(1)
    assert f"vacuum {run} of" in caught.value.message
    assert f"--undo {run}`, which restores 1;" in (caught.value.hint or "")
    from deltactl.operations.vacuum.undo import undo_vacuum

    undo_vacuum(builder.store, "last")
    assert table.restore(1).version_after == 6


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
    report = restore(store, 1, warnings)
    assert "the vacuum that began in version 5" in warnings[0]
    assert report.version_after == 6
    assert [it.path for it in report.gone] == [path]


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
    assert find_open_vacuums(builder.store, list_log(builder.store)) == (5,)


def test_a_store_that_fails_after_the_commit_does_not_fail_the_run() -> None:
    class Failing(Meanwhile):
        failed = False

        def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
            from deltactl.errors import StorageError

            if self._is_done:
                raise StorageError("the store is away")
            return super().stat_many(names)

    builder = with_vectors()
    warnings: list[str] = []
    report = restore(Failing(builder.store, lambda: None), 1, warnings)
    assert report.version_after == 5
    assert "could not be checked again: the store is away" in warnings[0]


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
    assert "version 1 is older than the table's retention of 7d" in warnings[0]
    assert "makes version 2 unreadable" in warnings[0]
    assert ids(store) == [1]


# -- what never goes back ---------------------------------------------------------------------


def test_the_protocol_keeps_the_features_of_both() -> None:
    builder = memory_table(features=["domainMetadata"])
    builder.append([{"id": 1}])
    builder.commit(builder.protocol_action(["deletionVectors"]))
    restore(builder.store, 1)
    (protocol,) = bodies(builder.store, 3, "protocol")
    assert protocol == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "domainMetadata"],
    }


def identity(mark: int | None, step: int = 1) -> Column:
    facts: dict[str, Any] = {"delta.identity.start": 1, "delta.identity.step": step}
    if mark is not None:
        facts["delta.identity.highWaterMark"] = mark
    return Column("id", metadata=facts)


@pytest.mark.parametrize(
    ("old", "now", "step", "kept"),
    [(5, 9, 1, 9), (None, 9, 1, 9), (9, 5, 1, 9), (-5, -9, -1, -9), (5, None, 1, 5)],
)
def test_marks_of_identity_columns(old: int | None, now: int | None, step: int, kept: int) -> None:
    builder = memory_table(identity(old, step))
    builder.append([{"id": 1}])
    builder.change_metadata(columns=[identity(now, step), Column("b")])
    restore(builder.store, 1)
    (metadata,) = bodies(builder.store, 3, "metaData")
    (field,) = json.loads(metadata["schemaString"])["fields"]
    assert field["metadata"]["delta.identity.highWaterMark"] == kept


def test_column_ids_and_protected_history_stay() -> None:
    builder = memory_table(mapping="name")
    builder.append([{"id": 1}])
    protected = {"delta.requireCheckpointProtectionBeforeVersion": "7"}
    builder.change_metadata(columns=[*builder.columns, Column("b")], properties=protected)
    restore(builder.store, 1)
    (metadata,) = bodies(builder.store, 3, "metaData")
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "2"
    assert metadata["configuration"] | protected == metadata["configuration"]
    assert [f["name"] for f in json.loads(metadata["schemaString"])["fields"]] == ["id"]


def test_row_ids_stay_and_are_assigned_where_there_were_none() -> None:
    builder = memory_table()
    (old,) = builder.append([{"id": 1}, {"id": 2}])
    builder.features = frozenset(["rowTracking"])
    names = {
        "delta.rowTracking.materializedRowIdColumnName": "_a",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_b",
        "delta.enableRowTracking": "true",
    }
    builder.remove(old)
    builder.change_metadata(protocol=builder.protocol_action(["rowTracking"]), properties=names)
    (new,) = builder.append([{"id": 3}, {"id": 4}, {"id": 5}])
    restore(builder.store, 1)
    (added,) = bodies(builder.store, 5, "add")
    assert (added["baseRowId"], added["defaultRowCommitVersion"]) == (3, 5)
    (mark,) = bodies(builder.store, 5, "domainMetadata")
    assert json.loads(mark["configuration"])["rowIdHighWaterMark"] == 4
    restore(builder.store, 4)
    (added,) = bodies(builder.store, 6, "add")
    assert (added["path"], added["baseRowId"]) == (new, 0)
    assert bodies(builder.store, 6, "domainMetadata") == []


def test_a_file_without_a_count_of_rows_gets_no_row_ids() -> None:
    builder = memory_table()
    builder.commit(builder.write_file([{"id": 1}], stats=None))
    (path,) = {key[0] for key in builder.state.files}
    builder.remove(path)
    builder.change_metadata(protocol=builder.protocol_action(["rowTracking"]))
    with pytest.raises(SafetyError, match="row ids cannot be assigned"):
        restore(builder.store, 1)


CLUSTERED = '{{"clusteringColumns":[["{}"]],"domainName":"delta.clustering"}}'


def test_clustering_comes_back_and_other_domains_go() -> None:
    domains = {"delta.clustering": CLUSTERED.format("id"), "mine": "1"}
    builder = memory_table(Column("id"), Column("b"), features=["clustering"], domains=domains)
    builder.append([{"id": 1, "b": 1}])
    builder.commit(
        {
            "domainMetadata": {
                "domain": "delta.clustering",
                "configuration": CLUSTERED.format("b"),
                "removed": False,
            }
        }
    )
    restore(builder.store, 1)
    found = {it["domain"]: it for it in bodies(builder.store, 3, "domainMetadata")}
    assert found["delta.clustering"]["configuration"] == CLUSTERED.format("id")
    assert found["mine"]["removed"] is True
    assert set(Table("x", store=builder.store).snapshot().domains) == {"delta.clustering"}


ICT = {"delta.enableInCommitTimestamps": "true"}
ENABLED = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


def test_in_commit_timestamps_stay_on_with_the_properties_of_the_log() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    builder.features = frozenset(["inCommitTimestamp"])
    protocol = builder.protocol_action(["inCommitTimestamp"])
    at = dict(zip(ENABLED, ("2", "1700000005000"), strict=True))
    builder.change_metadata(protocol=protocol, properties={**ICT, **at})
    builder.append([{"id": 2}])
    builder.append([{"id": 3}])
    restore(builder.store, 3)
    info, metadata = (next(iter(it.values())) for it in commit_lines(builder.store, 5)[:2])
    previous = builder.commits[4][0]["commitInfo"]["inCommitTimestamp"]
    assert info["inCommitTimestamp"] > previous
    assert next(iter(info)) == "inCommitTimestamp"
    assert metadata["configuration"] == {**ICT, **at}


def test_in_commit_timestamps_end_with_a_version_without_them_and_begin_again() -> None:
    builder = memory_table(features=["inCommitTimestamp"])
    builder.append([{"id": 1}])
    off = {"delta.enableInCommitTimestamps": "false"}
    builder.change_metadata(properties=off)
    builder.features = frozenset()
    builder.append([{"id": 2}])
    store = builder.store
    assert isinstance(store, MemoryStore)
    far = SystemClock().now_ms() + 3_600_000
    store.set_modified(commit_path(3), far)
    restore(store, 1)  # on again, from version 4 on
    info, metadata = (next(iter(it.values())) for it in commit_lines(store, 4)[:2])
    assert info["inCommitTimestamp"] > far
    wanted = dict(zip(ENABLED, ("4", str(info["inCommitTimestamp"])), strict=True))
    assert metadata["configuration"] == {**ICT, **wanted}
    restore(store, 3)
    info, metadata = (next(iter(it.values())) for it in commit_lines(store, 5)[:2])
    assert "inCommitTimestamp" not in info
    assert metadata["configuration"]["delta.enableInCommitTimestamps"] == "false"


# -- an older protocol ------------------------------------------------------------------------


def upgraded() -> TableBuilder:
    """Version 1 is without deletion vectors, version 3 has one."""
    builder = memory_table()
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    builder.commit(builder.protocol_action(["deletionVectors"]))
    builder.delete_rows(path, [0])
    return builder


def test_a_downgrade_waits_until_older_readers_read_right() -> None:
    builder = upgraded()
    store = builder.store
    with pytest.raises(SafetyError, match="commits after the checkpoint") as caught:
        restore(store, 1, allow_protocol_downgrade=True)
    assert "deltactl checkpoint" in (caught.value.hint or "")
    Table("x", store=store).checkpoint()
    with pytest.raises(SafetyError, match="files with deletion vectors would be removed"):
        restore(store, 1, allow_protocol_downgrade=True)
    restore(store, 1, now=True)
    Table("x", store=store).checkpoint()
    with pytest.raises(SafetyError, match="tombstones in the log carry deletion vectors") as caught:
        restore(store, 1, allow_protocol_downgrade=True)
    assert "Wait until " in (caught.value.hint or "")
    assert latest(store) == 4


def test_a_downgrade() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    builder.commit(builder.protocol_action(["deletionVectors"]))
    builder.append([{"id": 2}])
    Table("x", store=builder.store).checkpoint()
    restore(builder.store, 1, allow_protocol_downgrade=True)
    protocol = Table("x", store=builder.store).snapshot().protocol
    assert (protocol.min_reader_version, protocol.writer_features) == (1, None)
    assert ids(builder.store) == [1]


def test_a_downgrade_keeps_what_protects_row_ids() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    builder.features = frozenset(["rowTracking"])
    builder.change_metadata(protocol=builder.protocol_action(["rowTracking"]))
    builder.append([{"id": 2}])
    restore(builder.store, 1, allow_protocol_downgrade=True)
    features = Table("x", store=builder.store).snapshot().protocol.writer_features
    assert features is not None
    assert {"rowTracking", "domainMetadata"} <= features


def test_a_downgrade_keeps_the_feature_of_the_domains_that_it_removes() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    features = ["clustering", "domainMetadata"]
    domains = {"delta.clustering": CLUSTERED.format("id"), "mine": "1"}
    builder.commit(
        builder.protocol_action(features),
        *(
            {"domainMetadata": {"domain": name, "configuration": text, "removed": False}}
            for name, text in domains.items()
        ),
    )
    builder.append([{"id": 2}])
    restore(builder.store, 1, allow_protocol_downgrade=True)
    assert len(bodies(builder.store, 4, "domainMetadata")) == 2
    protocol = Table("x", store=builder.store).snapshot().protocol
    assert protocol.writer_features is not None
    assert "domainMetadata" in protocol.writer_features
    assert "clustering" not in protocol.writer_features


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
    builder = partitioned()
    restore(builder.store, 1, where="p = 'c'")
    assert ids(builder.store) == [2, 3, 4]
    assert restore(builder.store, 1, where="p = 'c'").version_after is None


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
    "not null": (
        lambda it: it.change_metadata(columns=[Column("p", "string"), Column("id", "long", False)]),
        "must not be null now",
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
    assert "without --where" in (caught.value.hint or "")
    assert latest(builder.store) == 4


def test_a_lost_feature_is_refused() -> None:
    builder = partitioned(features=["deletionVectors"])
    builder.commit(builder.protocol_action(["domainMetadata"]))
    with pytest.raises(SafetyError, match="no longer has the features deletionVectors"):
        restore(builder.store, 1, where="p = 'a'")


# -- with readers -----------------------------------------------------------------------------


@pytest.fixture
def local(tmp_path: Path) -> Iterator[TableBuilder]:
    """Partitions with special characters, a vector, a checkpoint and a changed schema."""
    columns = [Column("p", "string"), Column("id")]
    features = ["deletionVectors"]
    builder = TableBuilder(
        LocalStore(str(tmp_path)), columns, partition_by=["p"], features=features
    )
    path, _ = builder.append([{"p": "a b", "id": 1}, {"p": "a b", "id": 2}], [{"p": None, "id": 3}])
    builder.delete_rows(path, [0])
    builder.checkpoint()
    builder.append([{"p": "ü%", "id": 4}])
    builder.change_metadata(columns=[*builder.columns, Column("b", "string")])
    builder.append([{"p": "a b", "id": 5, "b": "x"}])
    yield builder


def test_other_readers_read_what_is_restored(local: TableBuilder, tmp_path: Path) -> None:
    table = Table(str(tmp_path))
    for version in (2, 1, 5, 3):
        table.restore(version)
        wanted = sorted(ids(local.store, version))
        assert sorted(row["id"] for row in rows_with_duckdb(tmp_path)) == wanted
        assert sorted(row["id"] for row in rows_with_delta_rs(tmp_path)) == wanted
    assert table.check().findings.num_rows == 0


def test_manifests_follow(tmp_path: Path) -> None:
    on = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    (first,) = builder.append([{"id": 1}])
    builder.change_metadata(properties=on)
    (second,) = builder.append([{"id": 2}])
    table = Table(str(tmp_path))
    manifest = tmp_path / "_symlink_format_manifest" / "manifest"
    table.restore(2)
    assert first in manifest.read_text()
    assert second not in manifest.read_text()
    table.restore(3)
    assert second in manifest.read_text()


def test_a_checkpoint_is_written_when_it_is_due(tmp_path: Path) -> None:
    interval = {"delta.checkpointInterval": "3"}
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")], properties=interval)
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    Table(str(tmp_path)).restore(1)
    assert (tmp_path / "_delta_log" / f"{3:020}.checkpoint.parquet").exists()


def test_of_a_log_whose_beginning_was_cleaned_up(tmp_path: Path) -> None:
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    for number in range(1, 6):
        builder.append([{"id": number}])
    builder.checkpoint(3)
    builder.forget_commits(3)
    Table(str(tmp_path)).restore(3)
    assert ids(builder.store) == [1, 2, 3]
    with pytest.raises(VersionNotFoundError, match="has versions 3 to 6"):
        Table(str(tmp_path)).restore(2)


def test_an_invalid_commit_is_an_error(tmp_path: Path) -> None:
    from deltactl.errors import CorruptLogError

    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    builder.append([{"id": 1}])
    builder.append([{"id": 2}])
    (tmp_path / commit_path(1)).write_bytes(encode_lines([{"metaData": {}}])[:-3])
    with pytest.raises(CorruptLogError):
        Table(str(tmp_path)).restore(0)
