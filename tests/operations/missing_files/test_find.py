"""Files that a version needs and that are missing, as a restore finds them."""

from pathlib import Path

import pytest

from deltactl.cli.pages.changes import describe_restore
from deltactl.errors import SafetyError
from deltactl.operations import missing_files
from tests.support.restores import damaged, ids, latest, restore
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
    # Version 3 may contain what the restore is to undo.
    whole = 1 if "vector" in what else 0
    assert f"restore version {whole}, the last version before it that has all its files;" in hint
    assert latest(builder.store) == 4


@pytest.mark.parametrize("what", ["file", "kept file", "vector", "size"])
def test_without_what_is_missing(what: str) -> None:
    builder, _ = damaged(what)
    report = restore(builder.store, 2, ignore_missing=True, expect_files=1)
    assert ids(builder.store) == ([2] if what == "kept file" else [3])
    assert report.plan.lost.num_rows == 1
    assert report.plan.files_after == 1
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
        with pytest.raises(SafetyError, match="more than 5% of the 2 files") as caught:
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
    with pytest.raises(SafetyError, match="only its deletion vector is missing") as caught:
        restore(builder.store, 6, ignore_missing=True)
    assert "--fix missing-vectors" in (caught.value.hint or "")


def test_a_version_of_which_nothing_exists_is_not_restored() -> None:
    """Perhaps the storage is not mounted, and the latest version has lost its files too."""
    builder, _ = damaged("file")
    builder.store.delete_many(list(builder.data))
    with pytest.raises(SafetyError, match="none of the 2 files to restore from version 1"):
        restore(builder.store, 1, ignore_missing=True)


def test_a_live_file_in_another_spelling_is_not_given_up() -> None:
    """Not by a restore of an older version either."""
    builder, path = damaged("kept file")
    builder.store.put(path.upper(), b"")
    with pytest.raises(SafetyError, match="can perhaps be restored"):
        restore(builder.store, 2, ignore_missing=True)


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
