"""``check --fix missing-files`` and ``missing-vectors``: only what is certainly lost leaves."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import (
    ConflictError,
    SafetyError,
    StorageError,
    Table,
    UsageError,
    VacuumOptions,
    convert,
)
from deltactl.errors import (
    AccessDeniedError,
    CommitOutcomeUnknownError,
    DeltactlError,
    ObjectNotFoundError,
    ignore_warning,
)
from deltactl.operations.check.fixes.missing import MissingReport
from deltactl.storage.local.store import LocalStore
from deltactl.storage.store import FileInfo, Store, Versions
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.damage import check, codes
from tests.support.forwarding import ForwardingStore
from tests.support.path_texts import TextTable
from tests.support.restores import bodies, ids, latest, restore
from tests.support.stores import Crash, Fault, FaultyStore, States, fault_points, fresh_store
from tests.support.table_builder import LOG, Column, TableBuilder, commit_path

FILES, VECTORS = "missing-files", "missing-vectors"


def fix(store: Store, kind: Any = FILES, **options: Any) -> MissingReport:
    options = {"warn": lambda _: None} | options
    report = Table("x", store=store, warn=options.pop("warn")).fix(kind=kind, **options)
    assert isinstance(report, MissingReport)
    return report


def many(store: Store | None = None, count: int = 40, **options: Any) -> TableBuilder:
    """Files of two rows, of which one may be lost; the first has a deletion vector."""
    features = options.pop("features", ["deletionVectors"])
    builder = TableBuilder(store or fresh_store(), [Column("id")], features=features, **options)
    paths = builder.append(*([{"id": 2 * n}, {"id": 2 * n + 1}] for n in range(count)))
    if "deletionVectors" in features:
        builder.delete_rows(paths[0], [1])
    return builder


def path_of(builder: TableBuilder, number: int) -> str:
    return f"f{number + 1:05d}.parquet"


def vector_of(store: Store) -> str:
    return next(name for batch in store.walk() for name in batch if name.endswith(".bin"))


def test_files_of_a_wrong_checkpoint_are_not_lost() -> None:
    builder, other = many(features=[]), many(features=[], count=41)
    other.checkpoint(1)
    name = f"{LOG}/{1:020d}.checkpoint.parquet"
    builder.store.put(name, other.store.read(name))
    for dry_run in (True, False):
        with pytest.raises(SafetyError, match="the checkpoint of version 1 of .* disagrees with"):
            fix(builder.store, dry_run=dry_run)
    assert latest(builder.store) == 1


def test_a_lost_file_leaves_the_table(tmp_path: Path) -> None:
    builder = many(LocalStore(str(tmp_path)), features=[])
    lost = path_of(builder, 3)
    (tmp_path / lost).unlink()
    plan = fix(builder.store, dry_run=True)
    assert (plan.version_after, latest(builder.store)) == (None, 1)
    found = DeltaTable(str(tmp_path)).repair(dry_run=True)["files_removed"]
    assert found == plan.chosen["path"].to_pylist() == [lost]
    report = fix(builder.store)
    wanted = [n for n in range(80) if n not in (6, 7)]
    for read in (rows_with_delta_rs, rows_with_duckdb):
        assert sorted(row["id"] for row in read(tmp_path)) == wanted
    assert report.version_after == 2
    assert report.to_dict()["rows_removed"] == 2
    (info,) = bodies(builder.store, 2, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("FSCK", {"fix": FILES})
    assert info["operationMetrics"]["numDeletedRows"] == "2"
    (remove,) = bodies(builder.store, 2, "remove")
    assert (remove["path"], remove["dataChange"]) == (lost, True)
    assert Table(str(tmp_path)).check().is_sound
    assert fix(builder.store).is_empty
    Table(str(tmp_path)).restore(version=1, ignore_missing=True)  # also a version before the fix
    assert sorted(row["id"] for row in rows_with_delta_rs(tmp_path)) == wanted


def test_a_fix_is_undone_by_a_restore() -> None:
    builder = many()
    lost = path_of(builder, 3)
    data = builder.store.read(lost)
    builder.store.delete_many([lost])
    fix(builder.store)
    builder.store.put(lost, data)
    before = latest(builder.store) - 1
    Table("x", store=builder.store).restore(version=before)
    assert len(ids(builder.store)) == 79


class OddStore(ForwardingStore):
    """Lookups of data files fail, or find nothing ``hidden`` times."""

    def __init__(self, inner: Store, error: Exception | None = None, hidden: int = 0) -> None:
        super().__init__(inner)
        self._error, self._hidden = error, hidden

    def stat_many(self, names: Sequence[str]) -> list[FileInfo | None]:
        if not any(name.endswith(".parquet") for name in names):
            return super().stat_many(names)
        if self._error is not None:
            raise self._error
        self._hidden -= 1
        return super().stat_many(names) if self._hidden < 0 else [None] * len(names)


@pytest.mark.parametrize(
    "error", [AccessDeniedError("403"), StorageError("timed out")], ids=lambda it: type(it).__name__
)
def test_an_error_of_a_lookup_is_no_answer(error: StorageError) -> None:
    builder = many()
    builder.store.delete_many([path_of(builder, 3)])
    with pytest.raises(StorageError):
        fix(OddStore(builder.store, error))
    assert latest(builder.store) == 2


def test_a_file_that_one_lookup_does_not_find_stays() -> None:
    builder = many()
    assert fix(OddStore(builder.store, hidden=1)).is_empty


def test_a_file_that_comes_back_meanwhile_stays() -> None:
    builder = many()
    lost = path_of(builder, 3)
    data = builder.store.read(lost)
    builder.store.delete_many([lost])

    def bring_back(report: object) -> bool:
        builder.store.put(lost, data)
        return True

    with pytest.raises(ConflictError, match="exists again"):
        fix(builder.store, confirm=bring_back)
    assert latest(builder.store) == 2


def test_what_another_writer_does_meanwhile() -> None:
    builder = many()
    lost = path_of(builder, 3)
    builder.store.delete_many([lost])

    def commit_first(report: object) -> bool:
        builder.append([{"id": 100}])
        builder.delete_rows(path_of(builder, 4), [0])
        return True

    assert fix(builder.store, confirm=commit_first).version_after == 5
    other = path_of(builder, 5)
    builder.note(
        [{"commitInfo": {}}, *({"remove": it} for it in bodies(builder.store, 5, "remove"))]
    )
    builder.store.delete_many([other])

    def delete_first(report: object) -> bool:
        builder.remove(other)
        return True

    with pytest.raises(ConflictError, match="another writer added or removed the same files"):
        fix(builder.store, confirm=delete_first)
    assert latest(builder.store) == 6


@pytest.mark.parametrize(
    ("count", "gone", "options", "message"),
    [
        (40, 3, {}, "more than 5% of the 40 files"),
        (40, 3, {"expect_files": 2}, "2 were expected"),
        (40, 1, {"expect_files": 2}, "2 were expected"),
        (40, 3, {"expect_files": 3}, None),
        (40, 2, {}, None),
        (1, 1, {"expect_files": 1}, "none of the 1 file of"),
        (40, 40, {"expect_files": 40}, "none of the 40 files of"),
        (40, 40, {"expect_files": 1, "texts": ("f00002.parquet",)}, "none of the 40 files of"),
    ],
)
def test_many_lost_files(
    count: int, gone: int, options: dict[str, Any], message: str | None
) -> None:
    builder = many(count=count)
    builder.store.delete_many([path_of(builder, n) for n in range(gone)])
    if message is None:
        assert fix(builder.store, **options).chosen.num_rows == gone
        return
    with pytest.raises(SafetyError, match=message):
        fix(builder.store, **options)
    warnings: list[str] = []
    fix(builder.store, dry_run=True, warn=warnings.append, **options)
    assert message in warnings[0]
    assert latest(builder.store) == 2


def test_a_directory_without_files(tmp_path: Path) -> None:
    """Its storage may not be mounted; behind a link it is no directory of the table at all."""
    columns = [Column("p", "string"), Column("id")]
    builder = TableBuilder(tmp_path / "t", columns, partition_by=["p"])
    builder.append(*([{"p": str(n), "id": n}] for n in range(40)))
    folder, elsewhere = tmp_path / "t" / "p=7", tmp_path / "disk"
    elsewhere.mkdir()
    folder.rename(elsewhere / "p=7")
    with pytest.raises(SafetyError, match="the directory 'p=7' has no files at all"):
        fix(builder.store)
    folder.symlink_to(elsewhere / "p=8")
    with pytest.raises(SafetyError, match="'p=7/f00008.parquet' is behind a link"):
        fix(builder.store, expect_files=1)
    folder.unlink()
    folder.mkdir()
    (folder / "f00008.parquet").symlink_to(elsewhere / "f00008.parquet")
    with pytest.raises(SafetyError, match="'p=7/f00008.parquet' is a link to a file"):
        fix(builder.store, expect_files=1)
    (folder / "f00008.parquet").unlink()
    assert fix(builder.store, expect_files=1).version_after == 2


@pytest.mark.parametrize(
    "other",
    ["p=\u00e9/f00001.parquet", "p=e\u0301/f00001.parquet", "p=%C3%A9/F00001.parquet"],
    ids=["decoded", "decomposed", "upper case"],
)
def test_a_file_in_another_spelling_stays(other: str) -> None:
    columns = [Column("p", "string"), Column("id")]
    builder = TableBuilder(fresh_store(), columns, partition_by=["p"])
    builder.append(*([{"p": "é", "id": n}] for n in range(40)))
    text = next(iter(builder.state.files))[0]
    name = "p=%C3%A9/f00001.parquet"
    builder.store.put(other, builder.store.read(name))
    builder.store.delete_many([name])
    report = fix(builder.store)
    assert (report.version_after, report.num_left) == (None, 1)
    with pytest.raises(UsageError, match="is not the path of a missing file"):
        fix(builder.store, texts=["f"])
    assert fix(builder.store, texts=[text]).version_after == 2


def two_lost(root: Path, first: str, second: str, kind: str) -> Table:
    """A table whose log has two files, by these path texts, that are lost or lack their vectors."""
    table = TextTable(root)
    for text in (first, second, *(f"p=1/{n}.parquet" for n in range(30))):
        table.add(text)
        if kind == VECTORS and text in (first, second):
            path = root / "_delta_log" / f"{table.version:020}.json"
            info, line = path.read_text("utf-8").splitlines()
            vector = {"storageType": "p", "pathOrInlineDv": f"{root.as_uri()}/{text[-9]}.bin"}
            add = json.loads(line)
            add["add"]["deletionVector"] = {**vector, "sizeInBytes": 34, "cardinality": 1}
            path.write_text(f"{info}\n{json.dumps(add)}\n", "utf-8")
        elif kind == FILES and text in (first, second):
            (root / table.name_of(text)).unlink()
    return Table(str(root), warn=lambda _: None)


@pytest.mark.parametrize("kind", [FILES, VECTORS])
@pytest.mark.parametrize("form", ["name", "text"])
def test_a_path_is_a_name_or_a_text(tmp_path: Path, kind: str, form: str) -> None:
    text, other = "p=a%20b%2525é/a.parquet", "p=a%20b%2525é/b.parquet"
    table = two_lost(tmp_path, text, other, kind)
    name = "p=a b%25é/a.parquet"
    if kind == FILES:
        assert name in table.check().findings["file"].to_pylist()
    given, keeps = name if form == "name" else text, kind == VECTORS
    report = table.fix(kind=kind, texts=[given], expect_files=1, keep_deleted_rows=keeps)
    assert isinstance(report, MissingReport)
    assert (report.chosen["path"].to_pylist(), report.num_left) == ([name], 1)


def test_a_path_of_two_files_is_refused(tmp_path: Path) -> None:
    """The name of one file is the path text of another one, be that lost or not."""
    raw, encoded, twice = (f"p={it}/a.parquet" for it in ("é", "%C3%A9", "%25C3%25A9"))
    table = two_lost(tmp_path, encoded, twice, FILES)
    with pytest.raises(UsageError, match="names more than one file") as error:
        table.fix(kind=FILES, texts=[encoded], dry_run=True)
    assert "--fix missing-files --dry-run -o json` shows" in (error.value.hint or "")
    for given in (raw, twice):
        report = table.fix(kind=FILES, texts=[given], dry_run=True, expect_files=1)
        assert isinstance(report, MissingReport)
        assert report.chosen["encoded_path"].to_pylist() == [encoded if given == raw else twice]
    for present in (raw, encoded):
        (tmp_path / present).write_bytes(b"")
        with pytest.raises(UsageError, match="names more than one file"):
            table.fix(kind=FILES, texts=[encoded], dry_run=True)
        (tmp_path / present).unlink()


def test_a_name_with_two_texts_is_refused(tmp_path: Path) -> None:
    first, second = "p=é/%61.parquet", "p=%C3%A9/%61.parquet"
    table = two_lost(tmp_path, first, second, FILES)
    with pytest.raises(UsageError, match="names more than one file"):
        table.fix(kind=FILES, texts=["p=é/a.parquet"])
    report = table.fix(kind=FILES, texts=[first], dry_run=True)
    assert isinstance(report, MissingReport)
    assert report.chosen["encoded_path"].to_pylist() == [first]


@pytest.mark.parametrize("kind", [FILES, VECTORS])
def test_the_hint_for_an_unknown_path_does_not_widen_the_fix(kind: str) -> None:
    with pytest.raises(UsageError, match="is not the path of a") as error:
        fix(many().store, kind, texts=["f"], drop_files=kind == VECTORS)
    assert error.value.hint == (
        f"Give a path that `deltactl check TABLE --fix {kind} --dry-run` shows."
    )


def quarantined(root: Path) -> tuple[TableBuilder, str, str | None]:
    """A table that removed a file, which is in the quarantine of a vacuum; also the run's id."""
    builder = many(LocalStore(str(root)))
    builder.remove(lost := path_of(builder, 3))
    options = VacuumOptions(retain_ms=0, force_retention=True, mode="full", quarantine=True)
    return builder, lost, Table(str(root)).vacuum(options).run_id


@pytest.mark.parametrize("is_clone", [False, True])
def test_what_a_quarantine_has_is_offered_first(tmp_path: Path, is_clone: bool) -> None:
    """The quarantine of the table, or that of the table whose files a shallow clone has."""
    root = tmp_path / "a table, 100%25"
    builder, lost, _ = quarantined(root)
    assert not (root / lost).exists()
    adds = bodies(builder.store, 1, "add")
    store = builder.store
    if is_clone:
        store = LocalStore(str(tmp_path / "clone"))
        files = [{"add": {**add, "path": f"{builder.store.uri}/{add['path']}"}} for add in adds]
        TableBuilder(store, [Column("id")]).commit(*files)
    else:
        line = json.dumps({"add": adds[3]}) + "\n"
        store.put_if_absent(commit_path(latest(store) + 1), line.encode())
    report = fix(store)
    assert (report.version_after, report.num_left) == (None, 1)
    place = report.to_dict()["files"][0]["place"]
    assert f"deltactl vacuum {builder.store.uri} --undo" in place
    (repair,) = Table("x", store=store).check().findings["repair"].to_pylist()
    assert repair.startswith(f"deltactl vacuum {builder.store.uri} --undo")
    with pytest.raises(DeltactlError) as caught:
        Table("x", store=store).clone(str(tmp_path / "deep"))
    assert repair in (caught.value.hint or "")


@pytest.mark.parametrize("journal", ['{"a newer version": "wrote it"}', "", None])
def test_a_file_in_a_quarantine_stays_if_the_journal_cannot_be_read(
    tmp_path: Path, journal: str | None
) -> None:
    builder, lost, run = quarantined(tmp_path)
    record = tmp_path / f"_deltactl/vacuum/{run}/run.json"
    if journal is None:
        record.unlink()
    else:
        record.write_text(journal)
    line = json.dumps({"add": bodies(builder.store, 1, "add")[3]}) + "\n"
    builder.store.put_if_absent(commit_path(latest(builder.store) + 1), line.encode())
    report = fix(builder.store)
    assert (report.version_after, report.num_left) == (None, 1)
    assert f"'_deltactl/quarantine/{run}/{lost}' has it" in report.to_dict()["files"][0]["place"]


def test_a_quarantine_that_cannot_be_looked_up_ends_the_run(tmp_path: Path) -> None:
    class Denied(ForwardingStore):
        def list_directories(self, prefix: str = "") -> list[str]:
            if prefix.startswith("_deltactl"):
                raise AccessDeniedError("access denied")
            return super().list_directories(prefix)

    builder = many(LocalStore(str(tmp_path)))
    (tmp_path / path_of(builder, 3)).unlink()
    with pytest.raises(AccessDeniedError):
        fix(Denied(builder.store))
    assert latest(builder.store) == builder.version


def test_a_vector_in_a_quarantine_comes_back_by_the_command_that_check_shows(
    tmp_path: Path,
) -> None:
    builder = many(LocalStore(str(tmp_path)), count=1)
    path, lost = path_of(builder, 0), vector_of(builder.store)
    (without,), (deleted,) = (bodies(builder.store, version, "add") for version in (1, 2))
    builder.commit(builder.remove_action(path), {"add": without})
    table = Table(str(tmp_path))
    table.vacuum(retain="0s", force_retention=True, mode="full", quarantine=True)
    builder.commits += [[]] * (latest(builder.store) - builder.version)  # of the vacuum
    builder.commit(builder.remove_action(path), {"add": deleted})
    (finding,) = (it for it in table.check().findings.to_pylist() if it["file"] == lost)
    assert finding["code"] == "VECTOR_MISSING"
    assert finding["repair"].startswith(f"deltactl vacuum {builder.store.uri} --undo ")
    assert lost in table.undo_vacuum(finding["repair"].split()[-1]).restored


class VersionedStore(ForwardingStore):
    """Says of deleted files whether an older version exists."""

    def __init__(self, inner: Store, error: StorageError | None) -> None:
        super().__init__(inner)
        self._error = error

    @property
    def versions(self) -> Versions:
        return self

    def undelete_many(
        self, names: Sequence[str], *, dry_run: bool = False
    ) -> dict[str, StorageError]:
        assert dry_run
        return {} if self._error is None else dict.fromkeys(names, self._error)


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (None, "the bucket keeps an older version"),
        (AccessDeniedError("403"), "it is not known whether an older version exists: 403"),
        (ObjectNotFoundError("404"), None),
    ],
)
def test_what_the_bucket_has_is_offered_first(
    error: StorageError | None, place: str | None
) -> None:
    builder = many()
    builder.store.delete_many([path_of(builder, 3)])
    report = fix(VersionedStore(builder.store, error))
    assert report.num_left == (0 if place is None else 1)
    assert report.version_after == (3 if place is None else None)
    assert (report.to_dict()["files"][0]["place"] or "").startswith(place or "")


def test_a_restore_says_what_the_bucket_has_if_no_file_of_the_version_exists() -> None:
    builder = many(count=2, features=[])
    builder.store.delete_many([path_of(builder, number) for number in range(2)])
    builder.append([{"id": 9}])
    with pytest.raises(SafetyError) as caught:
        restore(VersionedStore(builder.store, None), 1)
    assert "the bucket keeps an older version: restore it" in (caught.value.hint or "")


def test_append_only_tables_are_refused() -> None:
    builder = many(features=[], properties={"delta.appendOnly": "true"})
    builder.store.delete_many([path_of(builder, 3)])
    with pytest.raises(SafetyError, match="append-only"):
        fix(builder.store)


def test_a_change_data_feed_that_cannot_be_read() -> None:
    builder = many(features=[], properties={"delta.enableChangeDataFeed": "true"})
    builder.store.delete_many([path_of(builder, 3)])
    warnings: list[str] = []
    fix(builder.store, warn=warnings.append)
    assert "the changes of the version that this fix commits cannot be read" in warnings[0]


def test_a_lost_vector_needs_a_choice() -> None:
    builder = many(features=["deletionVectors", "rowTracking"])
    store = builder.store
    (before,) = (a for a in bodies(store, 2, "add"))
    store.delete_many([vector_of(store)])
    assert (fix(store).is_empty, fix(store).num_others) == (True, 1)
    report = fix(store, VECTORS)
    assert (report.is_empty, report.num_left) == (True, 1)
    (row,) = report.to_dict()["files"]
    assert (row["rows"], row["live_rows"], row["changed"]) == (2, 1, False)
    assert latest(store) == 2
    kept = fix(store, VECTORS, keep_deleted_rows=True)
    assert (kept.version_after, kept.num_rows) == (3, 1)
    assert ids(store) == list(range(80))
    (add,), (remove,) = bodies(store, 3, "add"), bodies(store, 3, "remove")
    assert "deletionVector" not in add
    assert json.loads(add["stats"]) == {"numRecords": 2}
    assert remove["deletionVector"] == before["deletionVector"]
    for key in ("path", "baseRowId", "defaultRowCommitVersion", "partitionValues", "size"):
        assert add[key] == before[key]


def test_a_file_with_a_lost_vector_can_be_dropped() -> None:
    builder = many()
    builder.store.delete_many([vector_of(builder.store)])
    report = fix(builder.store, VECTORS, drop_files=True)
    assert (report.version_after, report.num_rows) == (3, 1)
    assert ids(builder.store) == list(range(2, 80))


@pytest.mark.parametrize(
    "options",
    [
        {"kind": FILES, "drop_files": True},
        {"kind": "path-encoding", "expect_files": 1},
        {"kind": VECTORS, "drop_files": True, "keep_deleted_rows": True},
        {},
        {"texts": ["x"]},
        {"kind": "missing"},
    ],
    ids=str,
)
def test_options_that_do_not_fit(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Table("x", store=fresh_store()).fix(**options)


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("action", ["crash", "error"])
@pytest.mark.parametrize("kind", [FILES, VECTORS])
def test_faults_at_every_call(kind: str, action: Any, when: Any) -> None:
    """Afterwards the table is as before or as after, and a second run does the rest."""
    builder = many(count=21)
    store = builder.store
    store.delete_many([path_of(builder, 3) if kind == FILES else vector_of(store)])
    options = {"drop_files": True} if kind == VECTORS else {}
    before = store.contents()  # type: ignore[attr-defined]
    counted = FaultyStore(store)
    assert fix(counted, kind, **options).version_after == 3
    after = ids(store)
    seen, states = set(), States(store)  # type: ignore[arg-type]
    for at in fault_points(counted.calls, when, action):
        store.restore(before)  # type: ignore[attr-defined]
        error: BaseException | None = None
        try:
            fix(FaultyStore(store, Fault(at, action, when)), kind, **options)
        except (Crash, DeltactlError) as raised:
            error = raised
        is_done = latest(store) == 3
        if not isinstance(error, Crash | CommitOutcomeUnknownError):
            assert is_done == (error is None), counted.calls[at - 1]
        assert set(before) <= set(store.contents())  # type: ignore[attr-defined]
        if states.is_new():
            assert fix(store, kind, **options).is_empty == is_done
            assert (latest(store), ids(store)) == (3, after)
        seen.add(is_done)
    # The commit is the last change, so no process dies after it.
    later = {True} if action == "error" else set()
    assert seen == ({False, *later} if when == "before" else {True})


def test_a_file_of_another_size_is_not_the_moved_one(tmp_path: Path) -> None:
    for number in (1, 2):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    lost = Path(DeltaTable(tmp_path).file_uris()[0])
    lost.unlink()
    (tmp_path / "backup").mkdir()
    (tmp_path / "backup" / lost.name).write_bytes(b"PAR1")
    report = Table(tmp_path).fix(kind="missing-files", expect_files=1)
    assert (report.version_after, report.num_left) == (2, 0)


def test_a_name_that_any_program_gives_shows_no_move(tmp_path: Path) -> None:
    """DuckDB gives the name ``data_0.parquet`` to a file of each directory."""
    builder = TableBuilder(tmp_path, [Column("id")])
    builder.append([{"id": 2}])
    add = builder.write_file([{"id": 1}])
    (tmp_path / "other").mkdir()
    (tmp_path / add["add"]["path"]).rename(tmp_path / "other/data_0.parquet")
    add["add"]["path"] = "data_0.parquet"
    builder.commit(add)
    report = Table(tmp_path).fix(kind="missing-files", expect_files=1)
    assert (report.version_after, report.num_left) == (3, 0)


def test_a_file_in_another_directory_stays(tmp_path: Path) -> None:
    """A tool that renames directories to lower case moved it."""
    rows = pa.table({"id": [1, 2], "P": ["a", "b"]})
    write_deltalake(tmp_path, rows, partition_by=["P"])
    (name,) = (tmp_path / "P=a").iterdir()
    (tmp_path / "P=a").rename(tmp_path / "p=a")
    report = Table(tmp_path).fix(kind="missing-files", expect_files=1)
    assert isinstance(report, MissingReport)
    assert (report.version_after, report.num_left) == (None, 1)
    place = report.rows["place"][0].as_py()
    assert place.startswith(f"'p=a/{name.name}' has the same file name")
    (tmp_path / "p=a").rename(tmp_path / "P=a")
    assert codes(check(LocalStore(str(tmp_path)))) == []


def test_a_file_that_was_moved_from_a_directory_without_values_stays(tmp_path: Path) -> None:
    """A converted table may have any directories."""
    for number in range(2):
        write_deltalake(tmp_path / "sales", pa.table({"id": [number]}), mode="append")
    shutil.rmtree(tmp_path / "sales/_delta_log")
    convert(tmp_path, warn=ignore_warning)
    moved = sorted((tmp_path / "sales").iterdir())[0]
    (tmp_path / "archive").mkdir()
    moved.rename(tmp_path / "archive" / moved.name)
    report = Table(tmp_path).fix(kind="missing-files", expect_files=1)
    assert isinstance(report, MissingReport)
    assert (report.version_after, report.num_left) == (None, 1)
    place = report.rows["place"][0].as_py()
    assert place.startswith(f"'archive/{moved.name}' has the same file name")
