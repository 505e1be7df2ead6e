"""Row groups of an older checkpoint that are copied byte for byte, and those that are encoded."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import CorruptLogError, StorageError, VerificationError
from deltactl.log.checkpoint import copies, spliced_groups, write
from deltactl.log.checkpoint.spliced_groups import GroupCopy, SplicedGroups
from deltactl.log.commits.file_rows import HeldRows
from deltactl.log.snapshot import load_snapshot
from deltactl.operations.checkpoint import tasks
from deltactl.parquet.splice import verify
from deltactl.storage.local.store import LocalStore
from tests.interop.judges import rows_with_delta_rs, rows_with_duckdb
from tests.support.checkpoints import checkpoint, fail, log_names
from tests.support.table_builder import LOG, Column, TableBuilder

ROWS = 12


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(self: HeldRows, columns: Sequence[str]) -> Iterator[pa.Table]:
        rows = self.table.select(columns).combine_chunks()
        yield from (rows.slice(start, ROWS) for start in range(0, len(rows), ROWS))

    monkeypatch.setattr(HeldRows, "batches", batches)
    monkeypatch.setattr(write, "_ROW_GROUP_ROWS", ROWS)
    monkeypatch.setattr(copies, "_LEAST_ROWS", ROWS // 2)
    monkeypatch.setattr(tasks, "_LEAST_COPIED_BYTES", 1)


@pytest.fixture(autouse=True)
def copied(monkeypatch: pytest.MonkeyPatch) -> list[GroupCopy]:
    """The row groups that the last checkpoint copied."""
    found: list[GroupCopy] = []
    copy = SplicedGroups.copy

    def note(self: SplicedGroups, wanted: GroupCopy) -> None:
        found.append(wanted)
        copy(self, wanted)

    monkeypatch.setattr(SplicedGroups, "copy", note)
    return found


class Scene:
    """A table with a checkpoint of some row groups."""

    def __init__(self, folder: Path, num_files: int = 4 * ROWS, **options: Any) -> None:
        self.folder = folder
        self.builder = TableBuilder(
            LocalStore(str(folder)), (Column("id"), Column("p", "string")), **options
        )
        self.paths: list[str] = []
        self.add_files(num_files)

    def add_files(self, count: int) -> None:
        first = len(self.paths)
        for start in range(first, first + count, ROWS):
            rows = [
                {"id": n, "p": f"x{n % 3}"} for n in range(start, min(start + ROWS, first + count))
            ]
            self.paths += self.builder.append(*([row] for row in rows))

    def remove(self, *numbers: int) -> None:
        removes = [self.builder.remove_action(self.paths[number]) for number in numbers]
        self.builder.commit(*removes)

    def checkpoint(self, **options: Any) -> pq.ParquetFile:
        checkpoint(self.builder.store, **options)
        return self.parquet()

    def path(self) -> Path:
        return self.folder / LOG / f"{self.builder.version:020}.checkpoint.parquet"

    def parquet(self) -> pq.ParquetFile:
        return pq.ParquetFile(self.path())


def add_chunks(path: Path) -> list[bytes]:
    """The bytes of all chunks of `add` of each row group."""
    parquet, data = pq.ParquetFile(path), path.read_bytes()
    found = []
    for number in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(number)
        chunks = [group.column(index) for index in range(group.num_columns)]
        adds = [chunk for chunk in chunks if chunk.path_in_schema.startswith("add.")]
        places = [
            (c.dictionary_page_offset or c.data_page_offset, c.total_compressed_size) for c in adds
        ]
        found.append(b"".join(data[start : start + size] for start, size in places))
    return found


def count_equal(scene: Scene, before: Path) -> int:
    """The number of row groups of the older checkpoint that the new one has byte for byte."""
    old = set(add_chunks(before))
    return sum(chunk in old for chunk in add_chunks(scene.path()))


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


def ensure_all_readers_see(scene: Scene, expected: list[int]) -> None:
    """Judge the checkpoint alone: the commits before it are not there."""
    for name in log_names(scene.builder.store):
        if name.endswith(".json") and int(name[:20]) < scene.builder.version:
            (scene.folder / LOG / name).unlink()
    assert ids(rows_with_delta_rs(scene.folder)) == expected
    assert ids(rows_with_duckdb(scene.folder)) == expected
    live = {scene.paths[number] for number in expected}
    snapshot = load_snapshot(scene.builder.store, warn=fail)
    assert set(snapshot.files["path"].to_pylist()) == live
    adds = [add for add in scene.parquet().read().column("add").to_pylist() if add is not None]
    assert {add["path"] for add in adds} == live
    assert all(json.loads(add["stats"])["numRecords"] == 1 for add in adds)
    assert all(
        add["dataChange"] is False and dict(add["partitionValues"]).keys() == {"p"} for add in adds
    )


def sorted_rows(parquet: pq.ParquetFile) -> list[str]:
    return sorted(map(str, parquet.read().to_pylist()))


def encoded(scene: Scene) -> pq.ParquetFile:
    """Write the newest checkpoint again, without copies."""
    scene.path().unlink()
    (scene.folder / LOG / "_last_checkpoint").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "_LEAST_COPIED_BYTES", 1 << 60)
        return scene.checkpoint()


def partitioned(folder: Path, num_files: int = 4 * ROWS) -> Scene:
    return Scene(folder, num_files, partition_by=["p"])


def grown(folder: Path) -> tuple[Scene, Path]:
    """Return a table with a checkpoint and a later file, and the path of this checkpoint."""
    scene = partitioned(folder)
    scene.checkpoint()
    before = scene.path()
    scene.add_files(1)
    return scene, before


def test_row_groups_of_live_files_are_copied(copied: list[GroupCopy], tmp_path: Path) -> None:
    scene = partitioned(tmp_path)
    first = scene.checkpoint()
    before = scene.path()
    assert [first.metadata.row_group(n).num_rows for n in range(5)] == [2, *[ROWS] * 4]
    scene.add_files(3)
    second = scene.checkpoint()
    assert len(copied) == 4
    assert count_equal(scene, before) == 5  # with that of protocol and metadata
    assert [second.metadata.row_group(n).num_rows for n in range(6)] == [2, *[ROWS] * 4, 3]
    for number in range(1, 5):
        assert second.read_row_group(number).equals(first.read_row_group(number))
    ensure_all_readers_see(scene, list(range(4 * ROWS + 3)))


@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_the_whole_file_is_as_if_it_were_encoded(
    copied: list[GroupCopy], tmp_path: Path, version: str
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    before = scene.path()
    # Another program, with the same writer of Parquet and fewer columns.
    table = pq.read_table(before).drop_columns(["txn", "domainMetadata"])
    pq.write_table(table, before, version=version, row_group_size=ROWS + 1, store_schema=False)
    scene.add_files(1)
    spliced = scene.checkpoint()
    assert len(copied) == 3  # the first has other actions
    assert sorted_rows(spliced) == sorted_rows(encoded(scene))


def test_a_row_group_with_a_removed_file_is_encoded(
    copied: list[GroupCopy], tmp_path: Path
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    scene.remove(ROWS + 1)
    scene.checkpoint()
    assert len(copied) == 3
    expected = [n for n in range(4 * ROWS) if n != ROWS + 1]
    ensure_all_readers_see(scene, expected)


def test_a_file_that_is_added_again_is_not_there_twice(
    copied: list[GroupCopy], tmp_path: Path
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    scene.builder.commit({"add": scene.builder.find(scene.paths[0])})
    scene.checkpoint()
    assert len(copied) == 3
    ensure_all_readers_see(scene, list(range(4 * ROWS)))


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_of_checkpoints_has_the_rows_that_encoded_ones_have(
    copied: list[GroupCopy], tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    scene = Scene(tmp_path, 2 * ROWS, partition_by=["p"], features=["deletionVectors"])
    scene.checkpoint()
    for _ in range(3):
        number = random.randrange(len(scene.paths) - ROWS, len(scene.paths))
        scene.add_files(random.choice([1, ROWS - 1, 2 * ROWS]))
        match random.choice(["remove", "again", "vector"]):
            case "remove":
                scene.remove(number)
            case "again":
                add = scene.builder.find(scene.paths[number])
                scene.builder.commit({"add": {**add, "tags": {"T": "1"}}})
            case _:
                scene.builder.delete_rows(scene.paths[number], [0])
        spliced = sorted_rows(scene.checkpoint())
        assert spliced == sorted_rows(encoded(scene))
        files = load_snapshot(scene.builder.store, warn=fail).files
        assert files.num_rows == len(scene.builder.state.files)
    assert copied


def test_nothing_more_is_tried_after_two_row_groups_were_refused(
    copied: list[GroupCopy], tmp_path: Path
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    scene.remove(0, ROWS)
    scene.checkpoint()
    assert len(copied) == 0
    ensure_all_readers_see(scene, [n for n in range(4 * ROWS) if n not in (0, ROWS)])


def test_small_row_groups_are_joined(copied: list[GroupCopy], tmp_path: Path) -> None:
    scene = partitioned(tmp_path, ROWS + 5)
    scene.checkpoint()
    scene.add_files(ROWS - 5)
    found = scene.checkpoint()
    assert len(copied) == 1
    counts = [found.metadata.row_group(n).num_rows for n in range(found.num_row_groups)]
    assert counts == [2, ROWS, ROWS]


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any], **options: Any) -> None:
    """Write a checkpoint again; ``change`` changes each add in place."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        if row["add"] is not None:
            change(row["add"])
    changed = pa.Table.from_pylist(rows, table.schema)
    settings: dict[str, Any] = {"version": "1.0", "store_schema": False} | options
    pq.write_table(changed, path, row_group_size=ROWS + 2, **settings)


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "as it is": lambda add: None,
    "dataChange": lambda add: add.update(dataChange=True),
    "no partitionValues": lambda add: add.update(partitionValues=None),
    "an old key": lambda add: add.update(partitionValues=[("p", "x0"), ("old", None)]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_values_that_would_be_written_otherwise_are_encoded(
    copied: list[GroupCopy], tmp_path: Path, change: str
) -> None:
    scene = Scene(tmp_path, partition_by=["p"] if change != "no partitionValues" else [])
    scene.checkpoint()
    before = scene.path()
    rewrite(before, CHANGES[change])
    scene.add_files(1)
    found = scene.checkpoint()
    assert len(copied) == (3 if change == "as it is" else 0)
    adds = [add for add in found.read().column("add").to_pylist() if add is not None]
    assert len(adds) == 4 * ROWS + 1
    assert not any(add["dataChange"] for add in adds)
    assert all("old" not in dict(add["partitionValues"]) for add in adds)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd"},
        {"compression": "none"},
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "column_encoding": {"add.size": "DELTA_BINARY_PACKED"}},
    ],
    ids=lambda options: next(iter(options)) + str(options.get("compression", "")),
)
def test_other_settings_of_the_writer_are_encoded(
    copied: list[GroupCopy], tmp_path: Path, options: dict[str, Any]
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    before = scene.path()
    rewrite(before, CHANGES["as it is"], **options)
    scene.add_files(1)
    scene.checkpoint()
    assert len(copied) == 0
    ensure_all_readers_see(scene, list(range(4 * ROWS + 1)))


@pytest.mark.parametrize("name", [b"parquet-cpq", b"parquet-cp\xcb"], ids=["other", "not-utf-8"])
def test_another_writer_is_encoded(copied: list[GroupCopy], tmp_path: Path, name: bytes) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    before = scene.path()
    data = before.read_bytes()
    assert data.count(b"parquet-cpp-arrow version") == 1
    before.write_bytes(data.replace(b"parquet-cpp-arrow version", name + b"-arrow version"))
    scene.add_files(1)
    scene.checkpoint()
    assert len(copied) == 0


@pytest.mark.parametrize("options", [{"compat": "spark"}, {"compat": "plain"}])
def test_other_layouts_are_encoded(
    copied: list[GroupCopy], tmp_path: Path, options: dict[str, Any]
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    scene.add_files(1)
    scene.checkpoint(**options)
    assert len(copied) == 0


def test_pages_that_are_stored_otherwise_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, before = grown(tmp_path)
    ensure = SplicedGroups.ensure_stored

    def damage_first(self: SplicedGroups, *arguments: Any) -> None:
        group = pq.read_metadata(scene.path()).row_group(2)
        columns = [group.column(index) for index in range(group.num_columns)]
        (stats,) = [c for c in columns if c.path_in_schema == "add.stats"]
        data = bytearray(scene.path().read_bytes())
        data[stats.data_page_offset + 40] ^= 1
        scene.path().write_bytes(bytes(data))
        ensure(self, *arguments)

    monkeypatch.setattr(SplicedGroups, "ensure_stored", damage_first)
    with pytest.raises(VerificationError, match="pages of a column chunk differ"):
        scene.checkpoint()
    assert before.exists()


class _Unreadable:
    """A file on a disk that fails."""

    def read_at(self, length: int, offset: int) -> bytes:
        raise OSError(errno.EIO, "the disk failed")


def test_a_disk_that_fails_during_a_copy_names_the_file_that_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, before = grown(tmp_path)
    copy = SplicedGroups.copy
    monkeypatch.setattr(
        SplicedGroups, "copy", lambda self, one: copy(self, replace(one, opened=_Unreadable()))
    )
    with pytest.raises(StorageError, match=before.name):
        scene.checkpoint()
    names = log_names(scene.builder.store)
    assert [name for name in names if "checkpoint" in name] == [before.name, "_last_checkpoint"]


def test_a_checkpoint_that_cannot_be_read_back_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    scene.add_files(1)
    monkeypatch.setattr(verify, "has_pages", lambda *_: _Unreadable().read_at(0, 0))
    with pytest.raises(StorageError, match=scene.path().name):
        scene.checkpoint()
    assert scene.path().exists()


def test_bytes_are_copied_in_pieces(
    copied: list[GroupCopy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spliced_groups, "_COPIED_BYTES", 7)
    scene, before = grown(tmp_path)
    scene.checkpoint()
    assert len(copied) == 4
    assert count_equal(scene, before) == 5  # with that of protocol and metadata
    ensure_all_readers_see(scene, list(range(4 * ROWS + 1)))


def test_a_small_checkpoint_is_encoded(
    copied: list[GroupCopy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    monkeypatch.setattr(tasks, "_LEAST_COPIED_BYTES", scene.path().stat().st_size + 1)
    scene.add_files(1)
    scene.checkpoint()
    assert not copied


def test_a_checkpoint_that_is_replaced_meanwhile_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = partitioned(tmp_path)
    scene.checkpoint()
    before = scene.path()
    copy = SplicedGroups.copy

    def replace(self: SplicedGroups, wanted: GroupCopy) -> None:
        # Another writer writes the same actions in other row groups.
        other = before.with_suffix(".other")
        pq.write_table(pq.read_table(before), other, row_group_size=5)
        other.rename(before)
        copy(self, wanted)

    monkeypatch.setattr(SplicedGroups, "copy", replace)
    scene.remove(2 * ROWS)
    scene.checkpoint()
    monkeypatch.undo()
    ensure_all_readers_see(scene, [n for n in range(4 * ROWS) if n != 2 * ROWS])


def test_damage_in_a_row_group_is_named(tmp_path: Path) -> None:
    scene = partitioned(tmp_path)
    parquet = scene.checkpoint()
    before = scene.path()
    group = parquet.metadata.row_group(2)
    columns = [group.column(index) for index in range(group.num_columns)]
    (stats,) = [c for c in columns if c.path_in_schema == "add.stats"]
    data = bytearray(before.read_bytes())
    start = stats.data_page_offset
    data[start : start + stats.total_compressed_size] = b"\xff" * stats.total_compressed_size
    before.write_bytes(bytes(data))
    scene.add_files(1)
    with pytest.raises(CorruptLogError, match=before.name):
        scene.checkpoint()
    assert not scene.path().exists()
