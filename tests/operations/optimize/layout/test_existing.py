"""Plain runs: files placed by an earlier run keep their layout, and new ones join it."""

import json
from typing import Any

import pytest

from deltactl.operations.optimize.layout.tags import CLUSTER_TAG, COLUMNS_TAG, LAYOUT_TAG
from deltactl.operations.row_proofs import PATH_TAG
from tests.operations.optimize.layout.test_run import actions_of, build, reopened, rows_of, run
from tests.operations.optimize.test_races import RacingStore
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, multiset

_DAYS = [Column("id"), Column("p", "string")]
TAGS = {LAYOUT_TAG, COLUMNS_TAG, CLUSTER_TAG, PATH_TAG, "deltactl.layoutRun"}


def tagged(builder: TableBuilder, rows: list[dict[str, Any]], **tags: str) -> str:
    """Commit a file that looks placed, and return its path."""
    action = builder.write_file(rows)
    path = str(action["add"]["path"])
    known = {LAYOUT_TAG: "tile", COLUMNS_TAG: '[["id"]]', CLUSTER_TAG: "c", PATH_TAG: path}
    action["add"]["tags"] = {**known, **tags}
    builder.commit(action)
    return path


def small_of(builder: TableBuilder) -> int:
    """Return a target size of which the table has about four files."""
    return int(sum(add["size"] for add in builder.state.files.values())) // 4


def placed(*, layout: str = "tile", **options: Any) -> tuple[TableBuilder, int]:
    builder = build(rows=200, **options)
    target = small_of(builder)
    run(builder.store, cluster_by="id,v", layout=layout, target_bytes=target)
    return reopened(builder), target


@pytest.mark.parametrize("layout", ["tile", "hilbert", "zorder", "linear"])
def test_new_files_are_placed_and_others_left(layout: str) -> None:
    builder, target = placed(layout=layout)
    old = set(builder.state.files)
    paths = builder.append([{"id": 1, "v": "new", "w": 0}], [{"id": 9, "v": None, "w": 0}])
    before = rows_of(builder.store)
    report = run(builder.store, target_bytes=target)
    found = actions_of(builder.store, report.version_after)
    assert {remove["path"] for remove in found["remove"]} == set(paths)
    (add,) = found["add"]
    assert set(add["tags"]) >= TAGS
    assert add["tags"][LAYOUT_TAG] == layout
    assert add["tags"][COLUMNS_TAG] == '[["id"],["v"]]'
    assert report.plan.left_alone["already in this layout"] == len(old)
    assert rows_of(builder.store) == before
    assert json.loads(found["commitInfo"][0]["tags"]["deltactl.rowDigest"])["rows"] == 2
    assert run(builder.store, dry_run=True, target_bytes=target).plan.is_empty


def test_small_clusters_are_joined_until_they_fill_a_file() -> None:
    builder, target = placed()
    for n in range(3):
        builder.append([{"id": n, "v": "new", "w": 0}])
        report = run(builder.store, target_bytes=target)
        assert report.files_removed == (1 if n == 0 else 2)
        assert report.files_added == 1
        builder = reopened(builder)


def test_small_files_are_joined_for_another_target() -> None:
    builder, target = placed()
    assert run(builder.store, dry_run=True, target_bytes=target).plan.is_empty
    builder.append([{"id": 1, "v": "new", "w": 0}])
    report = run(builder.store)
    assert report.files_added == 1
    assert report.plan.layout is not None
    assert report.plan.layout.placed_bytes > 0
    assert run(builder.store, dry_run=True).plan.is_empty


def test_tags_that_another_tool_copied_make_its_file_new() -> None:
    builder, target = placed()
    tags = next(iter(builder.state.files.values()))["tags"]
    copy = builder.write_file([{"id": 1, "v": "x", "w": 1}], tags=tags)
    builder.commit(copy)
    report = run(builder.store, target_bytes=target)
    found = actions_of(builder.store, report.version_after)
    assert [remove["path"] for remove in found["remove"]] == [copy["add"]["path"]]
    (add,) = found["add"]
    assert add["tags"][PATH_TAG] == add["path"]


def test_copied_tags_alone_are_no_layout() -> None:
    builder, _ = placed()
    tags = next(iter(builder.state.files.values()))["tags"]
    other = TableBuilder(fresh_store(), builder.columns)
    for n in range(2):
        other.commit(other.write_file([{"id": n, "v": "x", "w": 1}], tags=tags))
    report = run(other.store)
    (add,) = actions_of(other.store, report.version_after)["add"]
    assert set(add["tags"]) == {"deltactl.targetFileSize"}


@pytest.mark.parametrize(
    "tags",
    [
        {LAYOUT_TAG: "spiral"},
        {COLUMNS_TAG: "[["},
        {COLUMNS_TAG: "[]"},
        {COLUMNS_TAG: "7"},
        {COLUMNS_TAG: '[["gone"]]'},
        {COLUMNS_TAG: '[["id","x"]]'},
    ],
)
def test_files_of_a_layout_that_cannot_be_kept_are_left(tags: dict[str, str]) -> None:
    builder = build(files=4)
    for _ in range(2):
        tagged(builder, [{"id": 1, "v": "x", "w": 1}], **tags)
    plan = run(builder.store, dry_run=True).plan
    assert plan.layout is None
    assert plan.files.num_rows == 4
    assert plan.left_alone["clustered or Z-ordered (rewrite with cluster_by or full=True)"] == 2


def test_tags_without_a_cluster_place_nothing() -> None:
    builder = build(files=1)
    action = builder.write_file([{"id": 1, "v": "x", "w": 1}])
    tags = {LAYOUT_TAG: "tile", COLUMNS_TAG: '[["id"]]', PATH_TAG: action["add"]["path"]}
    action["add"]["tags"] = tags
    builder.commit(action)
    assert run(builder.store, dry_run=True, cluster_by="id").plan.files.num_rows == 2
    assert run(builder.store, dry_run=True).plan.files.num_rows == 1


def test_partitions_keep_their_own_layouts() -> None:
    builder = TableBuilder(fresh_store(), [*_DAYS, Column("v")], partition_by=["p"])
    for n in range(3):
        builder.append(*([{"id": n, "p": p, "v": -n}] for p in "abc"))
    run(builder.store, cluster_by="id", where="p = 'a'")
    run(builder.store, cluster_by="v", layout="linear", where="p = 'b'")
    builder = reopened(builder)
    builder.append(*([{"id": 7, "p": p, "v": 7}] for p in "abc"))
    before = rows_of(builder.store)
    report = run(builder.store)
    adds = actions_of(builder.store, report.version_after)["add"]
    layouts = {add["partitionValues"]["p"]: add["tags"].get(COLUMNS_TAG) for add in adds}
    assert layouts == {"a": '[["id"]]', "b": '[["v"]]', "c": None}
    assert rows_of(builder.store) == before
    assert run(builder.store, dry_run=True).plan.is_empty


def test_a_new_partition_has_the_layout_of_all_others() -> None:
    builder = TableBuilder(fresh_store(), _DAYS, partition_by=["p"])
    for n in range(3):
        builder.append(*([{"id": n, "p": p}] for p in "ab"))
    run(builder.store, cluster_by="id")
    builder = reopened(builder)
    builder.append([{"id": 7, "p": "c"}], [{"id": 8, "p": "c"}], [{"id": 7, "p": "d"}])
    report = run(builder.store)
    (add,) = actions_of(builder.store, report.version_after)["add"]
    assert add["partitionValues"] == {"p": "c"}  # that of one small file is not worth it yet
    assert add["tags"][COLUMNS_TAG] == '[["id"]]'
    assert run(builder.store, dry_run=True).plan.is_empty


def test_a_partition_of_which_only_a_part_is_joined_is_not_placed() -> None:
    """Its large files would be new ones of a placed partition in the next run."""
    builder = TableBuilder(fresh_store(), _DAYS, partition_by=["p"])
    builder.append(*([{"id": n, "p": "a"}] for n in range(3)))
    run(builder.store, cluster_by="id")
    builder = reopened(builder)
    large = [{"id": n, "p": "b"} for n in range(2000)]
    builder.append(large, *([{"id": n, "p": "b"}] for n in range(3)))
    target = max(add["size"] for add in builder.state.files.values())
    report = run(builder.store, target_bytes=target)
    (add,) = actions_of(builder.store, report.version_after)["add"]
    assert set(add["tags"]) == {"deltactl.targetFileSize"}
    assert report.files_removed == 3
    assert run(builder.store, dry_run=True, target_bytes=target).plan.is_empty


def test_large_files_of_other_partitions_are_left() -> None:
    builder = TableBuilder(fresh_store(), _DAYS, partition_by=["p"])
    builder.append(*([{"id": n, "p": "a"}] for n in range(3)))
    builder.append(*([{"id": n, "p": "b"}] for n in range(3)))
    run(builder.store, cluster_by="id", where="p = 'a'", target_bytes=200)
    plan = run(builder.store, dry_run=True, target_bytes=200).plan
    assert plan.left_alone["large enough"] == 3
    assert plan.is_empty


def test_a_purge_does_not_place_rows_and_drops_the_tags() -> None:
    builder = build(files=0, features=["deletionVectors"])
    for n in range(2):
        path = tagged(builder, [{"id": n, "v": "x", "w": 1}] * 2)
        builder.delete_rows(path, [0])
    report = run(builder.store, purge=True)
    (add,) = actions_of(builder.store, report.version_after)["add"]
    assert set(add["tags"]) == {"deltactl.targetFileSize"}
    assert "clusteringProvider" not in add


def test_copies_leave_placed_files_alone() -> None:
    builder, _ = placed()
    builder.append([{"id": 1, "v": "new", "w": 0}], [{"id": 2, "v": "new", "w": 0}])
    report = run(builder.store, rewrite="copy")
    assert report.files_removed == 2


def test_deleted_rows_are_removed_from_a_placed_file() -> None:
    builder = build(files=0, features=["deletionVectors"])
    path = tagged(builder, [{"id": n, "v": "x", "w": 1} for n in range(300)])
    builder.delete_rows(path, range(100))
    before = rows_of(builder.store)
    report = run(builder.store)
    (add,) = actions_of(builder.store, report.version_after)["add"]
    assert add["tags"][COLUMNS_TAG] == '[["id"]]'
    assert rows_of(builder.store) == before
    assert before.total() == 200


def test_files_that_others_took_are_placed_in_the_next_round() -> None:
    builder, target = placed()
    first, second = builder.append([{"id": 1, "v": "new", "w": 0}], [{"id": 9, "v": None, "w": 0}])
    store = RacingStore(builder.store, before_1=lambda: builder.remove(first))
    before = rows_of(builder.store)
    report = run(store, target_bytes=target)
    assert report.rounds == 2
    found = actions_of(builder.store, report.version_after)
    assert [remove["path"] for remove in found["remove"]] == [second]
    assert found["add"][0]["tags"][COLUMNS_TAG] == '[["id"],["v"]]'
    assert rows_of(builder.store) == before - multiset([{"id": 1, "v": "new", "w": 0}])
