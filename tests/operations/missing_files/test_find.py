"""Files that a version needs and that are missing, as a restore finds them."""

from pathlib import Path

import pytest

from deltactl.cli.pages.changes import describe_restore
from deltactl.errors import SafetyError
from deltactl.operations import missing_files
from deltactl.operations.restore import omission
from tests.support.restores import damaged, ids, latest, memory_table, restore
from tests.support.stores import CountingStore
from tests.support.table_builder import Column, TableBuilder


@pytest.mark.parametrize("what", ["file", "kept file", "vector", "short vector", "size"])
def test_a_version_that_is_not_whole_is_refused(what: str) -> None:
    builder, path = damaged(what)
    with pytest.raises(SafetyError) as caught:
        restore(builder.store, 2)
    assert "1 file of version 2 cannot be read" in caught.value.message
    assert path in caught.value.message
    assert "the log has no vacuum since then" in caught.value.message
    hint = caught.value.hint or ""
    # Version 3 may contain what the restore is to undo, and version 0 has no files.
    whole = (
        "; restore version 1, the last version before version 2 that has all its files: this "
        "removes 1 other file (1 row) of the latest version."
    )
    assert (whole in hint, "restore version" in hint) == ("vector" in what, "vector" in what)
    first = "copy the missing files back from a backup"
    if what in ("size", "short vector"):
        first = "move the files that have another size out of the table, and copy the right ones"
    assert hint.startswith(f"Do one of these: {first}")
    # Only then the latest version needs the file.
    assert ("--fix missing-files`" in hint) == (what == "kept file")
    omit = "rerun with ignore_missing=True and expect_files=1 to restore the version without them"
    assert (omit in hint) == (what not in ("size", "short vector"))
    assert (f"{omit}: this removes 1 other file (1 row) of the latest" in hint) == (omit in hint)
    assert latest(builder.store) == 4


@pytest.mark.parametrize("what", ["file", "kept file", "vector", "short vector", "size"])
def test_without_what_is_missing(what: str) -> None:
    builder, path = damaged(what)
    if what in ("size", "short vector"):
        with pytest.raises(SafetyError, match=f"'{path}' exists .it has "):
            restore(builder.store, 2, ignore_missing=True, expect_files=1)
        builder.store.delete_many([path])
    report = restore(builder.store, 2, ignore_missing=True, expect_files=1)
    assert ids(builder.store) == ([2, 5] if what == "kept file" else [3, 5])
    assert report.plan.lost.num_rows == 1
    assert report.plan.files_after == 2
    assert report.to_dict()["files_lost"] == report.plan.lost["path"].to_pylist()
    again = restore(builder.store, 2, ignore_missing=True)
    assert (again.plan.is_empty, again.version_after) == (True, None)
    shown = str([*describe_restore(again, "t")])
    assert "but without 1 file of that version that cannot be read" in shown
    assert again.plan.missing[0].path in shown


def test_a_missing_file_of_the_latest_version_can_be_dropped() -> None:
    """By the rules of `check --fix missing-files`, as one of an older version."""
    builder, _ = damaged("kept file")
    for version in (2, 4):
        with pytest.raises(SafetyError, match="more than 5% of the [23] files") as caught:
            restore(builder.store, version, ignore_missing=True)
        assert "rerun with expect_files=1" in (caught.value.hint or "")
        with pytest.raises(SafetyError, match="2 were expected"):
            restore(builder.store, version, ignore_missing=True, expect_files=2)
    builder.append(*([{"id": n}] for n in range(5, 25)))
    restore(builder.store, 5, ignore_missing=True)
    assert (latest(builder.store), ids(builder.store)) == (6, list(range(4, 25)))
    builder = damaged("kept file")[0]
    paths = builder.append(*([{"id": n}, {"id": n}] for n in range(5, 45)))
    builder.delete_rows(paths[0], [0])
    vectors = [name for batch in builder.store.walk() for name in batch if name.endswith(".bin")]
    builder.store.delete_many(vectors)
    with pytest.raises(SafetyError, match="exists and is live, and only the deletion vector") as it:
        restore(builder.store, 6, ignore_missing=True)
    assert "--fix missing-vectors" in (it.value.hint or "")


@pytest.mark.parametrize("now", [1, 3])
@pytest.mark.parametrize("is_short", [False, True])
def test_a_live_file_is_not_omitted_for_a_vector_that_it_had(now: int, is_short: bool) -> None:
    """It is live without a vector, or with another one."""
    builder = memory_table(features=["deletionVectors"])
    path, _ = builder.append([{"id": 1}, {"id": 2}, {"id": 3}], [{"id": 4}])
    builder.delete_rows(path, [0])
    (vector,) = (name for batch in builder.store.walk() for name in batch if name.endswith(".bin"))
    builder.delete_rows(path, [1])
    restore(builder.store, now)
    data = builder.store.read(vector)
    builder.store.delete_many([vector])
    if is_short:
        builder.store.put(vector, data[:-1])
    with pytest.raises(SafetyError, match="exists and is live, and only the deletion vector that"):
        restore(builder.store, 2, ignore_missing=True, expect_files=1)
    with pytest.raises(SafetyError, match=f"1 file of version 2 .*: '{path}' .its deletion") as it:
        restore(builder.store, 2)
    assert "ignore_missing=True would be refused: " in (it.value.hint or "")
    assert "rerun" not in (it.value.hint or "")


@pytest.mark.parametrize("is_live", [True, False])
def test_a_file_with_another_content_is_moved_away_first(is_live: bool) -> None:
    """After a restore without it, a vacuum deletes it: perhaps the only copy of its rows."""
    builder = memory_table()
    path, other = builder.append([{"id": 1}], [{"id": 2}])
    builder.remove(other if is_live else path)
    builder.store.put(path, builder.store.read(path) + b"x")
    with pytest.raises(SafetyError, match=f"'{path}' exists .*has .* bytes.*: perhaps") as caught:
        restore(builder.store, 1, ignore_missing=True, expect_files=1)
    assert "explain FILE_SIZE" in (caught.value.hint or "")
    with pytest.raises(SafetyError, match="1 file of version 1 cannot be read") as caught:
        restore(builder.store, 1)
    hint = caught.value.hint or ""
    assert f"ignore_missing=True would be refused: '{path}' exists" in hint
    assert "Move it, and all other such files, out of the table" in hint
    builder.store.delete_many([path])
    restore(builder.store, 1, ignore_missing=True, expect_files=1)
    assert ids(builder.store) == [2]


def test_files_are_counted_once_however_much_of_them_is_missing() -> None:
    builder, vector = damaged("vector")
    path = "f00001.parquet"
    plan = restore(builder.store, 2, dry_run=True).plan
    assert [(it.path, vector in it.problem) for it in plan.unreadable] == [(path, True)]
    assert (plan.lost_rows, plan.lost_bytes) == (1, len(builder.store.read(path)))
    builder.store.delete_many([path])
    plan = restore(builder.store, 2, dry_run=True).plan
    assert [(it.path, it.problem) for it in plan.unreadable] == [(path, "it does not exist")]
    assert [it.path for it in plan.missing] == sorted([vector, path])
    with pytest.raises(SafetyError, match="1 file of version 2 cannot be read"):
        restore(builder.store, 2)
    restore(builder.store, 2, ignore_missing=True, expect_files=1)


def test_a_hint_looks_up_again_only_some_of_the_missing_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(omission, "_LOOKED_UP", 2)
    builder = memory_table()
    paths = builder.append(*([{"id": n}] for n in range(9)))
    version = latest(builder.store)
    builder.remove(*paths)
    lookups = []
    for deleted in (paths[1:], paths[:1]):  # with one left, and none
        builder.store.delete_many(deleted)
        counted = CountingStore(builder.store)
        with pytest.raises(SafetyError):
            restore(counted, version)
        asked = counted.names["stat_many"]
        lookups.append(sorted(asked.count(path) for path in paths))
    assert lookups == [[0] * 7 + [1] * 2] * 2


def test_a_version_of_which_nothing_exists_is_not_restored() -> None:
    """Perhaps the storage is not mounted, and the latest version has lost its files too."""
    builder, _ = damaged("file")
    builder.store.delete_many(list(builder.data))
    with pytest.raises(SafetyError, match="none of the 3 files to restore from version 1"):
        restore(builder.store, 1, ignore_missing=True)
    with pytest.raises(SafetyError, match="3 files of version 1 cannot be read") as caught:
        restore(builder.store, 1)
    assert "rerun" not in (caught.value.hint or "")
    assert "ignore_missing=True would be refused: none of the 3 files" in (caught.value.hint or "")


def test_a_restore_that_would_bring_nothing_back_is_refused() -> None:
    builder = memory_table()
    path, _ = builder.append([{"id": 1}], [{"id": 2}])
    builder.remove(path)
    builder.store.delete_many([path])
    unchanged = restore(builder.store, 1, ignore_missing=True, expect_files=1)
    assert (unchanged.plan.is_empty, unchanged.version_after) == (True, None)
    builder.append([{"id": 3}])
    why = r"none of the 1 file .* a restore would only remove 1 other file \(1 row\) of the latest"
    with pytest.raises(SafetyError, match=why):
        restore(builder.store, 1, ignore_missing=True, expect_files=1)
    with pytest.raises(SafetyError) as caught:
        restore(builder.store, 1)
    assert "rerun" not in (caught.value.hint or "")
    assert "ignore_missing=True would be refused: none of the 1" in (caught.value.hint or "")
    assert ids(builder.store) == [2, 3]


def test_nothing_to_restore_is_no_success_if_nothing_of_the_version_exists() -> None:
    """The latest version is empty, as the other one without its files."""
    builder = memory_table()
    paths = builder.append([{"id": 1}], [{"id": 2}])
    builder.remove(*paths)
    builder.store.delete_many(paths)
    with pytest.raises(SafetyError, match="none of the 2 files to restore from version 1"):
        restore(builder.store, 1, ignore_missing=True)


def test_a_live_file_in_another_spelling_is_not_given_up() -> None:
    """Not by a restore of an older version either."""
    builder, path = damaged("kept file")
    builder.store.put(path.upper(), b"")
    with pytest.raises(SafetyError, match="can perhaps be restored"):
        restore(builder.store, 2, ignore_missing=True)
    with pytest.raises(SafetyError, match="1 file of version 2 cannot be read") as caught:
        restore(builder.store, 2)
    assert "can perhaps be restored: a file with this name in another" in (caught.value.hint or "")


def test_many_files_are_looked_for_on_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_files, "_FILES_A_TASK", 1)
    builder = TableBuilder(tmp_path, [Column("id")])
    paths = builder.append([{"id": 1}], [{"id": 2}], [{"id": 3}])
    builder.remove(*paths)
    (tmp_path / paths[1]).unlink()
    with pytest.raises(SafetyError, match=paths[1]):
        restore(builder.store, 1)
    report = restore(builder.store, 1, ignore_missing=True, expect_files=1)
    assert report.plan.added.num_rows == 2


def test_kept_files_of_a_large_table_are_looked_for_in_a_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files below a link are in no listing, and exist all the same."""
    monkeypatch.setattr(missing_files, "_FEWEST_TO_LIST", 1)
    columns = [Column("p", "string"), Column("id")]
    builder = TableBuilder(
        tmp_path / "t", columns, partition_by=["p"], features=["deletionVectors"]
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


def test_an_older_version_of_the_same_partitions_is_offered(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("p", "string")], partition_by=["p"])
    (first,) = builder.append([{"id": 1, "p": "a"}])
    second = builder.write_file([{"id": 2, "p": "a"}])
    builder.commit(builder.remove_action(first), second)
    name = second["add"]["path"]
    builder.commit(builder.remove_action(name), builder.write_file([{"id": 3, "p": "a"}]))
    (tmp_path / name).unlink()
    with pytest.raises(SafetyError) as caught:
        restore(builder.store, 2, where="p = 'a'")
    way = "restore version 1 with the same where, the last version before version 2 that has"
    assert way in str(caught.value.hint)
