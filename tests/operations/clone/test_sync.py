"""``clone --deep --sync``: an earlier clone is brought up to its source."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.codes import load_codes
from deltactl.errors import (
    CommitDamagedError,
    ConflictError,
    DataFileError,
    SafetyError,
    UsageError,
    ignore_warning,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.clone import tasks
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.run import VacuumOptions
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import Store
from deltactl.table import Table
from deltactl.units import DAY_MS
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.operations.clone.test_run import clone, contents, ids, names, with_vectors
from tests.support.checkpoints import memory_of
from tests.support.forwarding import ForwardingStore
from tests.support.history_logs import set_time
from tests.support.restores import bodies, commit_lines, memory_table, restore
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import START_MS, Column, TableBuilder, commit_path, encode_lines


def sync(source: Store, target: Store, **options: Any) -> Any:
    return clone(source, target, sync=True, **options)


def synced(files: int = 1) -> tuple[TableBuilder, MemoryStore, MemoryStore]:
    """A table with a row, 1 and so on, in each file; its store; and the store of its clone."""
    builder, target = memory_table(), fresh_store()
    builder.append(*([{"id": number}] for number in range(1, files + 1)))
    sync(builder.store, target)
    return builder, memory_of(builder), target


def keys(store: Store) -> set[tuple[str, str]]:
    """The live files by path and vector."""
    files = Table("x", store=store).snapshot().files
    columns = (files[name].to_pylist() for name in ("encoded_path", "deletion_vector"))
    return {(path, json.dumps(vector)) for path, vector in zip(*columns, strict=True)}


def rewritten(data: bytes) -> bytes:
    """A valid Parquet file of the same size, of another writer."""
    return data.replace(b"parquet-cpp", b"Parquet-cpp")


def replace_in_place(store: MemoryStore, path: str, shift_ms: int) -> bytes:
    """Replace a file by one of the same size and another time; return what it was."""
    (info,) = store.stat_many([path])
    assert info is not None
    before = store.read(path)
    store.put(path, rewritten(before))
    store.set_modified(path, info.modified_ms + shift_ms)
    return before


def ensure_noticed(source: Store, target: Store, path: str) -> None:
    for dry_run in (True, False):
        with pytest.raises(SafetyError, match="1 file has another modification time") as caught:
            sync(source, target, dry_run=dry_run)
        assert path in caught.value.message
        assert "full=True" in (caught.value.hint or "")


def test_new_files_gone_files_and_vectors() -> None:
    builder = with_vectors()
    source, target = builder.store, fresh_store()
    assert sync(source, target).version_after == 0  # the first run of a job that repeats
    report = sync(source, target)
    assert (report.is_done, report.version_after) == (True, 0)
    builder.append([{"id": 4}, {"id": 5}])
    (path,) = builder.append([{"id": 6}])
    builder.delete_rows(path, [0])
    (first, *_) = (add["path"] for add in bodies(source, 1, "add"))
    builder.remove(first)
    report = sync(source, target, dry_run=True)
    assert (report.version_after, report.files_added, report.files_removed) == (None, 2, 1)
    assert ids(target) == [1, 3, 9]
    report = sync(source, target)
    assert (report.version_before, report.version_after) == (0, 1)
    # Two files and a vector; a file that is there already is only looked at.
    assert (report.files_copied, report.files_kept) == (3, 1)
    assert ids(target) == [4, 5, 9]
    assert keys(target) == keys(source)
    (info,), (txn,) = bodies(target, 1, "commitInfo"), bodies(target, 1, "txn")
    assert (info["operation"], info["operationParameters"]["sourceVersion"]) == ("CLONE", 7)
    assert info["operationMetrics"]["numRemovedFiles"] == "1"
    assert txn["version"] == 7
    assert Table("x", store=target).scan(0).read_all().num_rows == 3
    assert sync(source, target).is_done


def test_a_new_vector_of_the_same_file() -> None:
    builder = with_vectors()
    source, target = builder.store, fresh_store()
    sync(source, target)
    (path,) = (add["path"] for add in bodies(source, 3, "add"))
    builder.delete_rows(path, [0])
    report = sync(source, target)
    assert (report.files_added, report.files_removed) == (1, 1)
    assert (report.files_copied, report.files_kept) == (1, 3)
    assert ids(target) == [1, 3]


def test_metadata_and_protocol_follow() -> None:
    builder = memory_table()
    builder.append([{"id": 1}])
    source, target = builder.store, fresh_store()
    sync(source, target, properties={"mine": "1"})
    before = Table("x", store=target).snapshot()
    builder.change_metadata(
        columns=[*builder.columns, Column("new", "string")],
        configuration={"delta.enableDeletionVectors": "true"},
        protocol=TableBuilder.protocol_action(["deletionVectors"]),
    )
    sync(source, target)
    after = Table("x", store=target).snapshot()
    assert (
        after.metadata.id == before.metadata.id != Table("x", store=source).snapshot().metadata.id
    )
    assert [field.name for field in after.metadata.schema.fields] == ["id", "new"]
    assert after.metadata.configuration == {"mine": "1", "delta.enableDeletionVectors": "true"}
    assert "deletionVectors" in (after.protocol.reader_features or ())


def test_our_own_maintenance_does_not_count() -> None:
    builder = memory_table()
    builder.append([{"id": 1}], [{"id": 2}])
    source, target = builder.store, fresh_store()
    sync(source, target)
    table = Table("x", store=target)
    assert table.optimize(OptimizeOptions()).versions
    table.vacuum(VacuumOptions())
    table.checkpoint()
    version = table.snapshot().version
    assert sync(source, target).is_done
    builder.append([{"id": 3}])
    report = sync(source, target)
    # The files that the optimize replaced are still there, and are live again.
    assert (report.files_copied, report.version_after) == (1, version + 1)
    assert ids(target) == [1, 2, 3]
    assert keys(target) == keys(source)


ADD = {"add": {"path": "x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1,
               "dataChange": True}}  # fmt: skip


def _changed_rows(target: Store) -> None:
    target.put(commit_path(1), encode_lines([ADD]))


def _changed_metadata(target: Store) -> None:
    (metadata,) = bodies(target, 0, "metaData")
    changed = {**metadata, "configuration": {"other": "1"}}
    target.put(commit_path(1), encode_lines([{"metaData": changed}]))


def _changed_domain(target: Store) -> None:
    domain = {"domain": "mine", "configuration": "x", "removed": False}
    target.put(commit_path(1), encode_lines([{"domainMetadata": domain}]))


def test_rows_of_others_that_an_optimize_moved_are_noticed() -> None:
    builder, _, target = synced()
    [name] = Table("x", store=target).snapshot().files["path"].to_pylist()
    data = target.read(name)
    target.put("x.parquet", data)
    target.put(commit_path(1), encode_lines([{"add": {**ADD["add"], "size": len(data)}}]))
    assert Table("x", store=target).optimize().versions
    assert ids(target) == [1, 1]
    with pytest.raises(SafetyError, match="rows were added or removed"):
        sync(builder.store, target)
    sync(builder.store, target, full=True)
    assert ids(target) == [1]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_changed_rows, "rows were added or removed"),
        (_changed_metadata, "schema or properties were changed"),
        (_changed_domain, "its domain metadata"),
    ],
)
def test_a_clone_that_was_changed_is_refused(change: Any, text: str) -> None:
    builder, source, target = synced()
    change(target)
    builder.append([{"id": 2}])
    with pytest.raises(SafetyError, match=text) as raised:
        sync(source, target)
    assert "full=True" in (raised.value.hint or "")
    assert Table("x", store=target).snapshot().version == 1
    sync(source, target, full=True)
    assert ids(target) == [1, 2]
    assert keys(target) == keys(source)


@pytest.mark.parametrize("change", [_changed_rows, _changed_metadata])
def test_a_restore_of_the_clone_is_the_way_out(change: Any) -> None:
    builder, source, target = synced()
    change(target)
    builder.append([{"id": 2}])
    with pytest.raises(SafetyError) as raised:
        sync(source, target)
    assert "--to-version 0` to discard them" in (raised.value.hint or "")
    Table("x", store=target).restore(version=0)
    assert sync(source, target).files_added == 1
    assert ids(target) == [1, 2]
    # Its commit repeats protocol and metadata.
    Table("x", store=target, warn=lambda _: None).restore(version=0)
    with pytest.raises(SafetyError, match="rows were added or removed"):
        sync(source, target)


def test_no_restore_discards_a_new_protocol() -> None:
    builder = memory_table()
    source, target = builder.store, fresh_store()
    sync(source, target)
    upgrade = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}
    target.put(commit_path(1), encode_lines([upgrade]))
    builder.append([{"id": 2}])
    with pytest.raises(SafetyError, match="its protocol was changed") as raised:
        sync(source, target)
    assert "restore" not in (raised.value.hint or "")
    sync(source, target, full=True)
    assert ids(target) == [2]


def test_other_sources_and_targets_are_refused() -> None:
    builder, target = with_vectors(), fresh_store()
    sync(builder.store, target)
    other = memory_table()
    other.change_metadata(id="another")
    other.append([{"id": 7}])
    with pytest.raises(SafetyError, match="is a clone of a table with the id"):
        sync(other.store, target)
    sync(other.store, target, full=True)
    assert ids(target) == [7]
    with pytest.raises(SafetyError, match="not a deep clone by deltactl"):
        sync(builder.store, other.store, full=True)
    shallow = fresh_store()
    clone(builder.store, shallow, deep=False)
    with pytest.raises(SafetyError, match="not a deep clone by deltactl"):
        sync(builder.store, shallow)


def test_a_source_that_went_back_is_refused() -> None:
    builder, target = with_vectors(), fresh_store()
    sync(builder.store, target)
    with pytest.raises(SafetyError, match="is a clone of version 3 of .* older version 1"):
        sync(builder.store, target, version=1)
    sync(builder.store, target, version=1, full=True)
    assert ids(target) == [1, 2, 3]
    sync(builder.store, target)
    assert ids(target) == [1, 3, 9]


def with_lost_commits() -> tuple[Store, TableBuilder]:
    """A clone of version 4, and its source, restored from a backup of version 3."""
    builder, target = with_vectors(), fresh_store()
    restored = builder.copy_to(builder.store)
    builder.append([{"id": 4}])
    assert sync(builder.store, target).version_after == 0
    builder.store.delete_many([commit_path(4)])
    restored.write_file([{"id": 0}])  # the next file has another name than the lost one
    return target, restored


@pytest.mark.parametrize("newest", [4, 5])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_source_that_used_the_numbers_of_lost_commits_again_is_refused(
    newest: int, dry_run: bool
) -> None:
    target, source = with_lost_commits()
    for number in range(4, newest + 1):
        source.append([{"id": 10 + number}])
    with pytest.raises(SafetyError, match="version 4 of .* is now another commit") as refused:
        sync(source.store, target, dry_run=dry_run)
    assert "full=True" in str(refused.value.hint)
    assert target.stat_many([commit_path(1)]) == [None]
    sync(source.store, target, full=True)
    assert ids(target) == [1, 3, 9, *range(14, newest + 11)]
    source.append([{"id": 20}])
    assert sync(source.store, target).version_after == 2


@pytest.mark.parametrize("deep", [True, False])
def test_a_rerun_does_not_take_another_commit_for_the_cloned_one(deep: bool) -> None:
    builder, target = with_vectors(), fresh_store()
    restored = builder.copy_to(fresh_store())
    builder.append([{"id": 4}])
    clone(builder.store, target, deep=deep)
    assert clone(builder.store, target, deep=deep).is_done
    restored.append([{"id": 5}], operation="MERGE")
    with pytest.raises(SafetyError, match="already contains a table"):
        clone(restored.store, target, deep=deep)


def without_digest(target: Store) -> None:
    """Remove the digest of the source's commit from the clone, as after an earlier release."""
    lines = commit_lines(target, 0)
    for line in lines:
        line.get("commitInfo", {"tags": {}})["tags"].pop("deltactl.cloneSourceCommit", None)
    target.put(commit_path(0), "\n".join(map(json.dumps, lines)).encode())


@pytest.mark.parametrize("reason", ["a log cleanup", "an earlier release"])
@pytest.mark.parametrize("newest", [4, 5])
@pytest.mark.parametrize("optimized", [False, True])
def test_lost_commits_are_noticed_by_files_without_tombstones(
    reason: str, newest: int, optimized: bool
) -> None:
    target, source = with_lost_commits()
    for number in range(4, newest + 1):
        source.append([{"id": 10 + number}])
    if reason == "a log cleanup":
        source.checkpoint()
        source.forget_commits(newest + 1)
    else:
        without_digest(target)
    if optimized:
        Table("x", store=target).optimize(OptimizeOptions())
    with pytest.raises(SafetyError, match="the source lost commits") as refused:
        sync(source.store, target)
    assert "1 file of this version, such as 'f00003.parquet'" in refused.value.message
    assert 4 in ids(target)
    sync(source.store, target, full=True)
    assert ids(target) == [1, 3, 9, *range(14, newest + 11)]


def test_a_file_that_is_older_than_the_tombstones_of_the_source_is_told() -> None:
    target, source = with_lost_commits()
    source.change_metadata(configuration={"delta.deletedFileRetentionDuration": "interval 1 day"})
    source.append([{"id": 15}])
    without_digest(target)
    lines = commit_lines(target, 0)
    for line in lines:
        if line.get("add", {}).get("path") == "f00003.parquet":  # the lost one
            line["add"]["modificationTime"] = START_MS - DAY_MS
    target.put(commit_path(0), "\n".join(map(json.dumps, lines)).encode())
    warnings = list[str]()
    assert sync(source.store, target, warnings=warnings).version_after == 1
    (told,) = warnings
    assert "1 file of this version, such as 'f00003.parquet'" in told
    assert "Version 0 of the clone has these files" in told
    assert ids(target) == [1, 3, 9, 15]


def test_a_clone_that_lost_the_version_of_its_last_run_is_told() -> None:
    builder, target = with_vectors(), fresh_store()
    sync(builder.store, target)
    builder.append([{"id": 4}])
    sync(builder.store, target)
    Table("x", store=target).optimize(OptimizeOptions())
    Table("x", store=target).checkpoint()
    target.delete_many([commit_path(0)])
    builder.append([{"id": 5}])
    builder.checkpoint()
    builder.forget_commits(builder.version)
    warnings = list[str]()
    sync(builder.store, target, warnings=warnings)
    assert "The log of the clone no longer shows its files" in warnings[0]
    assert ids(target) == [1, 3, 4, 5, 9]


@pytest.mark.parametrize("kind", ["u", "p"])
def test_files_that_commits_removed_do_not_stop_a_sync_after_a_log_cleanup(kind: str) -> None:
    builder, target = memory_table(features=["deletionVectors"]), fresh_store()
    first, second = builder.append([{"id": 1}], [{"id": 2}, {"id": 3}])
    builder.delete_rows(second, [0], kind)
    sync(builder.store, target)
    builder.remove(first)
    builder.delete_rows(second, [0, 1], kind)
    builder.append([{"id": 4}])
    builder.checkpoint()
    builder.forget_commits(builder.version + 1)
    warnings = list[str]()
    sync(builder.store, target, warnings=warnings)
    assert (ids(target), warnings) == ([4], [])
    assert sync(builder.store, target).is_done


@pytest.mark.parametrize("deep", [True, False])
def test_a_rerun_compares_the_files_if_the_commit_is_gone(deep: bool) -> None:
    builder, target = with_vectors(), fresh_store()
    restored = builder.copy_to(fresh_store())
    builder.append([{"id": 4}])
    clone(builder.store, target, deep=deep)
    builder.checkpoint()
    builder.forget_commits(5)
    assert clone(builder.store, target, deep=deep).is_done
    restored.write_file([{"id": 0}])
    restored.append([{"id": 5}])
    restored.checkpoint()
    restored.forget_commits(5)
    with pytest.raises(SafetyError, match="already contains a table"):
        clone(restored.store, target, deep=deep)


def test_the_predicate_stays() -> None:
    builder = memory_table(Column("p", "string"), Column("id"), partition_by=["p"])
    builder.append([{"p": "a", "id": 1}], [{"p": "b", "id": 2}])
    source, target = builder.store, fresh_store()
    sync(source, target, where="p = 'b'")
    builder.append([{"p": "a", "id": 3}], [{"p": "b", "id": 4}])
    sync(source, target)
    assert ids(target) == [2, 4]
    with pytest.raises(SafetyError, match="was cloned with where"):
        sync(source, target, where="p = 'a'")
    sync(source, target, where="p = 'a'", full=True)
    assert ids(target) == [1, 3]


@pytest.mark.parametrize("where", ["p is null", "p in ('b','c')", "p<>'a'", "p IS NULL"])
def test_the_same_predicate_in_another_spelling(where: str) -> None:
    builder = memory_table(Column("p", "string"), Column("id"), partition_by=["p"])
    builder.append([{"p": None, "id": 1}], [{"p": "b", "id": 2}])
    target = fresh_store()
    sync(builder.store, target, where=where)
    builder.append([{"p": None, "id": 3}], [{"p": "b", "id": 4}])
    report = sync(builder.store, target, where=where)
    assert report.files_added == 1
    assert sync(builder.store, target).is_done


LAST_DAYS = "day >= current_date() - interval 1 day"


def days() -> TableBuilder:
    """A table with a row for each of the days 12, 13 and 14; the first run is on day 14."""
    builder = memory_table(Column("day", "date"), Column("id"), partition_by=["day"])
    builder.append(*([{"day": f"2023-11-{day}", "id": day}] for day in (12, 13, 14)))
    return builder


@pytest.mark.parametrize("where", [None, LAST_DAYS, "day >= date_sub(current_date(), 1)"])
@pytest.mark.parametrize("is_cleaned_up", [False, True])
def test_a_condition_with_the_current_date_moves(where: str | None, is_cleaned_up: bool) -> None:
    builder, target = days(), fresh_store()
    sync(builder.store, target, where=LAST_DAYS)
    assert ids(target) == [13, 14]
    for number in (1, 2):  # also if the source has no new version
        now_ms = START_MS + number * DAY_MS
        if number == 1:
            builder.append([{"day": "2023-11-15", "id": 15}])
        if is_cleaned_up:
            builder.checkpoint()
            builder.forget_commits(builder.version + 1)
        report = sync(builder.store, target, where=where, now_ms=now_ms)
        assert (report.version_after, report.files_removed) == (number, 1)
        assert ids(target) == [14, 15][number - 1 :]
        assert sync(builder.store, target, where=where, now_ms=now_ms).is_done
    assert Table("x", store=target).snapshot(0).files.num_rows == 2
    with pytest.raises(
        SafetyError, match=r"cloned with where 'day >= current_date\(\) - .*'"
    ) as no:
        sync(builder.store, target, where="day >= '2023-11-14'", now_ms=now_ms)
    assert no.value.hint is not None and no.value.hint.startswith("Omit where to keep")


def test_a_condition_that_an_earlier_release_stored_does_not_move() -> None:
    builder, target = days(), fresh_store()
    sync(builder.store, target, where=LAST_DAYS)
    lines = commit_lines(target, 0)
    for line in lines:
        line.get("commitInfo", {"tags": {}})["tags"].pop("deltactl.cloneWhere", None)
    target.put(commit_path(0), "\n".join(map(json.dumps, lines)).encode())
    builder.append([{"day": "2023-11-15", "id": 15}])
    tomorrow = START_MS + DAY_MS
    with pytest.raises(SafetyError, match="was cloned with where .*DATE '2023-11-13'"):
        sync(builder.store, target, where=LAST_DAYS, now_ms=tomorrow)
    sync(builder.store, target, now_ms=tomorrow)
    assert ids(target) == [13, 14, 15]
    sync(builder.store, target, where=LAST_DAYS, full=True, now_ms=tomorrow)
    sync(builder.store, target, where=LAST_DAYS, now_ms=tomorrow + DAY_MS)
    assert ids(target) == [15]


def test_a_condition_on_a_column_that_no_longer_partitions_the_source() -> None:
    columns = (Column("p", "string"), Column("q", "string"), Column("id"))
    builder, target = memory_table(*columns, partition_by=["p"]), fresh_store()
    builder.append([{"p": "a", "q": "b", "id": 1}], [{"p": "b", "q": "b", "id": 2}])
    sync(builder.store, target, where="p = 'a'")
    path, other = (path for path, _ in builder.state.files)
    builder.remove(path, other)
    builder.change_metadata(partitionColumns=["q"])
    for where in (None, "q = 'b'"):
        with pytest.raises(
            SafetyError, match="cloned with where \"p = 'a'\", which does not fit"
        ) as no:
            sync(builder.store, target, where=where)
        assert no.value.hint is not None and no.value.hint.startswith("Add full=True, and where")
    assert sync(builder.store, target, where="q = 'b'", full=True).files_removed == 1


def test_a_log_without_the_last_clone_is_refused() -> None:
    builder, target = with_vectors(), fresh_store()
    sync(builder.store, target)
    Table("x", store=target).optimize(OptimizeOptions())
    Table("x", store=target).checkpoint()
    commits = [n for n in names(target) if n.endswith("00000.json")]
    assert len(commits) == 1
    target.delete_many(commits)
    builder.append([{"id": 10}])
    with pytest.raises(SafetyError, match="no longer has the commit of the last clone run"):
        sync(builder.store, target)
    sync(builder.store, target, full=True)
    assert ids(target) == [1, 3, 9, 10]


def test_a_sync_removes_no_file_of_an_append_only_clone() -> None:
    builder = memory_table(properties={"delta.appendOnly": "true"})
    (path,) = builder.append([{"id": 1}])
    source, target, free = builder.store, fresh_store(), fresh_store()
    sync(source, target)
    sync(source, free, properties={"delta.appendOnly": "false"})
    builder.append([{"id": 2}])
    sync(source, target)
    assert ids(target) == [1, 2]
    builder.remove(path, data_change=False)
    with pytest.raises(SafetyError, match=r"delta\.appendOnly forbids"):
        sync(source, target)
    sync(source, free)
    sync(source, target, properties={"delta.appendOnly": "false"})
    assert ids(free) == ids(target) == [2]


def test_a_sync_keeps_row_ids_and_sets_its_own_commit_version() -> None:
    builder = memory_table(features=["rowTracking", "domainMetadata"])
    builder.append([{"id": 1}, {"id": 2}])
    source, target = builder.store, fresh_store()
    sync(source, target)
    builder.append([{"id": 3}])
    sync(source, target)
    (theirs,), (ours,) = bodies(source, 2, "add"), bodies(target, 1, "add")
    assert ours["baseRowId"] == theirs["baseRowId"]
    assert ours["defaultRowCommitVersion"] == 1
    (domain,) = bodies(target, 1, "domainMetadata")
    assert json.loads(domain["configuration"])["rowIdHighWaterMark"] == 2


def test_another_writer_wins() -> None:
    builder, _, target = synced()
    builder.append([{"id": 2}])

    class Beaten(ForwardingStore):
        def put_if_absent(self, name: str, data: bytes) -> None:
            if name == commit_path(1):
                _changed_rows(target)
            super().put_if_absent(name, data)

    with pytest.raises(ConflictError, match="nothing was synced: another writer added") as raised:
        sync(builder.store, Beaten(target))
    assert raised.value.hint == (
        f"Run `deltactl describe-history {target.uri}` to see the other writer's change. "
        "Then rerun."
    )
    assert Table("x", store=target).snapshot().version == 1


@pytest.mark.parametrize("shift_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("grows", [True, False])
def test_a_file_that_was_replaced_in_place_is_noticed(shift_ms: int, grows: bool) -> None:
    builder, source, target = synced(files=2)
    path = next(iter(builder.data))
    copied = replace_in_place(source, path, shift_ms)
    if grows:
        builder.append([{"id": 3}])
    ensure_noticed(source, target, path)
    assert (target.read(path), Table("x", store=target).snapshot().version) == (copied, 0)
    report = sync(source, target, full=True)
    # The run that was refused had copied the new file.
    assert (report.files_copied, report.files_added) == (1, 1 + grows)
    assert target.read(path) == source.read(path) != copied
    assert sync(source, target).is_done


@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("shift_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("is_vacuumed", [True, False])
def test_a_file_that_was_replaced_is_noticed_after_an_optimize_of_the_clone(
    grows: bool, shift_ms: int, is_vacuumed: bool
) -> None:
    """The clone has the rows of the file as it was, in another file."""
    builder, source, target = synced(files=2)
    Table("x", store=target).optimize()
    path = next(iter(builder.data))
    if is_vacuumed:
        target.delete_many([*builder.data])
    copied = replace_in_place(source, path, shift_ms)
    if grows:
        builder.append([{"id": 3}])
    ensure_noticed(source, target, path)
    assert Table("x", store=target).snapshot().version == 1
    assert sync(source, target, full=True).files_removed == 1
    assert target.read(path) == source.read(path) != copied
    assert sync(source, target).is_done


def test_a_sync_copies_no_files_whose_rows_an_optimize_of_the_clone_moved() -> None:
    builder, source, target = synced(files=2)
    Table("x", store=target).optimize()
    target.delete_many([*builder.data])
    report = sync(source, target)
    assert (report.is_done, report.files_copied, report.version_after) == (True, 0, 1)
    assert target.stat_many([*builder.data]) == [None, None]


def test_a_file_that_was_replaced_and_lost_rows_is_noticed() -> None:
    """Its copy has the time of a clock that was ahead."""
    builder = TableBuilder(fresh_store(), [Column("id")], features={"deletionVectors"})
    target = fresh_store()
    (path,) = builder.append([{"id": 1}, {"id": 2}])
    sync(builder.store, target)
    copied = target.read(path)
    builder.store.put(path, rewritten(copied))
    (info,) = builder.store.stat_many([path])
    assert info is not None
    target.set_modified(path, info.modified_ms + DAY_MS // 2)
    builder.delete_rows(path, [0])
    with pytest.raises(SafetyError, match="1 file has another modification time"):
        sync(builder.store, target)
    assert sync(builder.store, target, full=True).files_copied == 1
    assert target.read(path) == builder.store.read(path) != copied


def test_lost_files_of_the_clone_alone_are_replaced_by_those_of_the_source() -> None:
    builder, source, target = synced(files=2)
    table = Table("x", store=target)
    table.optimize()
    (lost,) = (row["path"] for row in table.snapshot().files.to_pylist())
    assert sync(source, target).is_done
    target.delete_many([lost])
    assert sync(source, target).files_added == 2
    assert {name for name, _ in keys(target)} == {*builder.data}
    assert sorted(table.scan().read_all()["id"].to_pylist()) == [1, 2]


def test_a_file_that_was_replaced_in_the_second_of_its_copy_is_copied_again() -> None:
    """The clone's log has no time of it any more, because another writer removed the copy."""
    builder, source, target = synced(files=2)
    path = next(iter(builder.data))
    remove = {"path": path, "deletionTimestamp": 1, "dataChange": True}
    target.put(commit_path(1), json.dumps({"remove": remove}).encode())
    copied = target.read(path)
    source.put(path, rewritten(copied))
    target.set_modified(path, 1_700_000_000_100)
    source.set_modified(path, 1_700_000_000_165)
    assert sync(source, target, full=True).files_copied == 1
    assert target.read(path) == source.read(path) != copied


@pytest.mark.parametrize("is_local", [False, True])
def test_the_time_of_a_copy_by_a_clock_that_was_ahead_counts_for_nothing(
    tmp_path: Path, is_local: bool
) -> None:
    """The copy is older than the replaced source file. On a disk, the run has the wrong clock."""
    builder = TableBuilder(tmp_path / "source", [Column("id")])
    (path,) = builder.append([{"id": 1}])
    target: Any = LocalStore(str(tmp_path / "target")) if is_local else fresh_store()
    sync(builder.store, target)
    remove = {"path": path, "deletionTimestamp": 1, "dataChange": True}
    target.put(commit_path(1), json.dumps({"remove": remove}).encode())
    copied = target.read(path)
    (tmp_path / "source" / path).write_bytes(rewritten(copied))
    set_time(tmp_path / "source" / path, START_MS)
    if is_local:  # this run's clock is an hour after START_MS
        set_time(tmp_path / "target" / path, START_MS + 1_800_000)
        for commit in (tmp_path / "target/_delta_log").iterdir():
            set_time(commit, START_MS - 40 * DAY_MS)
    else:
        target.set_modified(path, START_MS + 40 * DAY_MS)
    assert sync(builder.store, target, full=True).files_copied == 1
    assert target.read(path) == (tmp_path / "source" / path).read_bytes() != copied


@pytest.mark.parametrize("is_live", [True, False])
def test_a_file_of_the_clone_alone_is_not_replaced(is_live: bool) -> None:
    builder, _, target = synced(files=2)
    path = next(iter(builder.data))
    same_id = partial(
        RunContext, warn=ignore_warning, run_id="7e0c7a52-4ab5-4f0e-9d39-2f7a41fb3d10"
    )
    optimize_table(DeltaLog(target, ignore_warning), OptimizeOptions(), same_id())
    own = {name: data for name, data in target.contents().items() if name.startswith("part-")}
    own = {name: data for name, data in own.items() if "7e0c7a52" in name}
    assert len(own) == 1
    if not is_live:
        restore(target, 0)
    builder.remove(path)
    builder.append([{"id": number} for number in range(3, 300)])
    optimize_table(DeltaLog(builder.store, ignore_warning), OptimizeOptions(), same_id())
    with pytest.raises(SafetyError, match="other files with the names of 1 new file ") as caught:
        sync(builder.store, target)
    assert "full=True" in (caught.value.hint or "")
    assert own.items() <= target.contents().items()


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("part", [slice(None), slice(4, 30)], ids=["all", "values"])
def test_no_copy_is_replaced_if_a_source_file_is_damaged(
    monkeypatch: pytest.MonkeyPatch, part: slice, dry_run: bool
) -> None:
    monkeypatch.setattr(tasks, "_FILES_A_TASK", 1)
    builder = memory_table()
    paths = builder.append([{"id": 1}], [{"id": 2}])
    source, target = builder.store, fresh_store()
    sync(source, target)
    copied = {path: target.read(path) for path in paths}
    assert isinstance(source, MemoryStore)
    damaged = bytearray(copied[paths[1]])
    damaged[part] = b"x" * len(damaged[part])
    for path, data in ((paths[0], copied[paths[0]]), (paths[1], bytes(damaged))):
        source.put(path, data)
        source.set_modified(path, 3_600_000)
    what = "not a Parquet file" if part.stop is None else "cannot be decoded"
    with pytest.raises(DataFileError, match=what) as caught:
        sync(source, target, full=True, dry_run=dry_run)
    assert (paths[0] in caught.value.message, paths[1] in caught.value.message) == (False, True)
    assert {path: target.read(path) for path in paths} == copied
    assert Table("x", store=target).snapshot().version == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data[:-1], "but the log has at least"),
        (lambda data: b"", "it has 0 bytes, but the log has at least"),
        (lambda data: data + b"xx", "but its copy has .*, which may be right"),
    ],
)
def test_no_copy_of_a_vector_is_replaced_by_a_damaged_one(
    change: Callable[[bytes], bytes], problem: str
) -> None:
    builder, target = with_vectors(), fresh_store()
    sync(builder.store, target)
    before = contents(target)
    (vector,) = (name for batch in target.walk() for name in batch if name.endswith(".bin"))
    builder.store.put(vector, change(builder.store.read(vector)))
    for options in ({}, {"dry_run": True}):
        with pytest.raises(DataFileError, match=f"{vector}.*{problem}"):
            sync(builder.store, target, **options)
    assert contents(target) == before
    target.put(vector, b"")  # a copy that is too small is no evidence
    if "copy" in problem:
        sync(builder.store, target)
        assert target.read(vector) == builder.store.read(vector)


def test_a_dry_run_counts_the_copies_that_would_be_replaced() -> None:
    builder, source, target = synced(3)
    (path, *_) = (add["path"] for add in bodies(source, 1, "add"))
    source.put(path, source.read(path))
    source.set_modified(path, 3_600_000)
    before = contents(target)
    plan = sync(builder.store, target, full=True, dry_run=True)
    assert contents(target) == before
    report = sync(builder.store, target, full=True)
    for it in (plan, report):
        assert (it.files_copied, it.files_added, it.files_kept) == (1, 1, 2)
    assert plan.bytes_copied == report.bytes_copied > 0
    assert (plan.dry_run, plan.version_after, report.version_after) == (True, None, 1)


@pytest.mark.parametrize("full", [False, True])
def test_a_copy_that_is_gone_is_copied_again(full: bool) -> None:
    builder, target = with_vectors(), fresh_store()
    sync(builder.store, target)
    (gone, *_) = (n for n in names(target) if n.endswith(".parquet"))
    target.delete_many([gone])
    for dry_run in (True, False):
        report = sync(builder.store, target, full=full, dry_run=dry_run)
        assert (report.is_done, report.files_copied) == (not full, 1)
    assert report.files_kept == 2 if full else report.version_after == 0
    assert ids(target) == [1, 3, 9]


def test_a_damaged_copy_of_equal_size_is_repaired_as_the_texts_say() -> None:
    builder, source, target = synced(2)
    path = next(iter(builder.data))
    damaged = bytearray(target.read(path))
    damaged[4:30] = b"x" * 26
    target.put(path, bytes(damaged))
    assert sync(source, target, full=True).files_copied == 0
    table = Table("x", store=target)
    (finding,) = table.check(depth="data").findings.to_pylist()
    assert (finding["code"], finding["file"]) == ("FILE_UNREADABLE", path)
    remedies = " ".join(load_codes()["FILE_UNREADABLE"].remedies)
    assert "--deep --sync` copies missing files again. Delete a damaged file before" in remedies
    target.delete_many([path])
    assert sync(source, target).files_copied == 1
    assert table.check(depth="data").is_sound


@pytest.mark.parametrize("kind", [{"deep": True, "sync": True}, {"deep": False, "replace": True}])
def test_outdated_manifests_of_the_clone_are_told(tmp_path: Path, kind: dict[str, Any]) -> None:
    builder = TableBuilder(tmp_path / "source", [Column("id")])
    builder.append([{"id": 1}])
    source, target = builder.store, LocalStore(str(tmp_path / "clone"))
    clone(source, target, deep=kind["deep"])
    target.put("_symlink_format_manifest/manifest", b"")
    warnings: list[str] = []
    clone(source, target, warnings=warnings, **kind)
    assert not any("are outdated" in it for it in warnings), "nothing was committed"
    builder.append([{"id": 2}])
    clone(source, target, warnings=warnings, **kind)
    assert sum("/_symlink_format_manifest are outdated" in it for it in warnings) == 1


def test_a_path_that_the_source_added_again_is_not_removed(tmp_path: Path) -> None:
    """As a writer does that overwrites files of fixed names: the clone may need the old one."""
    builder = TableBuilder(tmp_path / "source", [Column("id")])
    (path,) = builder.append([{"id": 1}])
    source, target = builder.store, LocalStore(str(tmp_path / "target"))
    sync(source, target)
    pq.write_table(pa.table({"id": pa.array([5, 6, 7, 8], pa.int64())}), tmp_path / "source" / path)
    size = (tmp_path / "source" / path).stat().st_size
    add = {**builder.find(path), "size": size, "stats": '{"numRecords":4}'}
    builder.commit({"add": add})
    with pytest.raises(SafetyError, match="other files with the names of 1 new file "):
        sync(source, target)
    report = sync(source, target, full=True)
    assert (report.files_copied, report.files_added, report.files_removed) == (1, 1, 0)
    for read in (rows_with_delta_rs, rows_with_duckdb):
        assert sorted(row["id"] for row in read(tmp_path / "target")) == [5, 6, 7, 8]
    assert sync(source, target).is_done


def test_options_that_do_not_fit() -> None:
    choices: list[tuple[dict[str, Any], str]] = [
        ({"deep": False, "sync": True}, "sync needs deep"),
        ({"deep": True, "full": True}, "full needs sync"),
        ({"deep": True, "note": False}, "note=False is for shallow"),
        ({"deep": True, "version": 1, "timestamp_ms": 1}, "cannot be combined"),
    ]
    for options, text in choices:
        with pytest.raises(UsageError, match=text):
            CloneOptions(**options)


class _Overwritten(ForwardingStore):
    """Another writer overwrites each commit."""

    def put_if_absent(self, name: str, data: bytes) -> None:
        super().put_if_absent(name, data)
        if name.startswith("_delta_log/"):
            self._inner.put(name, b"{}\n")


@pytest.mark.parametrize("kind", ["new", "sync", "shallow", "replace"])
def test_the_hint_about_a_doubtful_commit_names_the_clone(kind: str) -> None:
    builder, target = memory_table(), fresh_store()
    builder.append([{"id": 1}])
    options: dict[str, Any] = {"deep": kind in ("new", "sync")}
    if kind in ("sync", "replace"):
        clone(builder.store, target, **options)
        builder.append([{"id": 2}])
        options[kind] = True
    with pytest.raises(CommitDamagedError, match="overwritten") as caught:
        clone(builder.store, _Overwritten(target), **options)
    assert f"Run `deltactl check {target.uri}`, then rerun." in str(caught.value.hint)


@pytest.mark.parametrize("grows", [True, False])
def test_a_file_with_another_time_and_the_same_content_is_not_refused(
    monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    """As after `vacuum --undo`, or after the source was copied from elsewhere."""
    builder, source, target = synced(files=2)
    path, other = builder.data
    (before,) = target.stat_many([path])
    for name in (path, other):
        set_later(source, name)
    if grows:
        builder.append([{"id": 3}])
    assert sync(source, target, dry_run=True).files_added == (3 if grows else 0)
    report = sync(source, target)
    assert (report.is_done, report.files_copied, report.files_kept) == (not grows, grows, 2)
    assert target.stat_many([path]) == [before]
    assert ids(target) == ids(source)
    if grows:
        (time,) = (it["modificationTime"] for it in bodies(target, 1, "add") if it["path"] == path)
        assert [info.modified_ms for info in source.stat_many([path]) if info] == [time]
        assert all(
            add["dataChange"] == (add["path"] not in (path, other))
            for add in bodies(target, 1, "add")
        )
        with monkeypatch.context() as patch:
            patch.setattr(tasks, "has_same_bytes", pytest.fail)  # the clone has the new times
            assert sync(source, target).is_done
    copied = replace_in_place(source, path, 9_000_000)
    ensure_noticed(source, target, path)
    assert target.read(path) == copied


def set_later(store: MemoryStore, path: str) -> None:
    (info,) = store.stat_many([path])
    assert info is not None
    store.set_modified(path, info.modified_ms + 5_400_000)
