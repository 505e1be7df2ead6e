"""Tables with their own clustering columns: cubes, tags and commits are those of Delta on Spark."""

import json
from typing import Any

import pytest

from deltactl.errors import UsageError
from tests.operations.optimize.layout.test_run import COLUMNS, actions_of, reopened, rows_of, run
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, struct_of

_CUBE = {"ZCUBE_ID": "one", "ZCUBE_ZORDER_BY": '["id","w"]'}


def build(*, mapping: str = "none", columns: Any = (("id",), ("w",))) -> TableBuilder:
    text = json.dumps({"clusteringColumns": columns, "domainName": "delta.clustering"})
    builder = TableBuilder(
        fresh_store(),
        COLUMNS,
        features=["domainMetadata", "clustering"],
        domains={"delta.clustering": text},
        mapping=mapping,
    )
    for file in range(4):
        builder.append([{"id": 4 * n + file, "v": "x", "w": -n} for n in range(50)])
    return builder


def test_the_commit_is_that_of_delta_on_spark() -> None:
    builder = build()
    before = rows_of(builder.store)
    report = run(builder.store)
    assert report.files_removed == 4
    found = actions_of(builder.store, report.version_after)
    info = found["commitInfo"][0]
    assert info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": "[]",
        "clusterBy": '["id","w"]',
        "auto": False,
        "isFull": False,
    }
    assert json.loads(info["tags"]["deltactl.rowDigest"])["rows"] == 200
    (add,) = found["add"]
    assert add["clusteringProvider"] == "liquid"
    assert set(add["tags"]) == {"ZCUBE_ID", "ZCUBE_ZORDER_BY", "deltactl.targetFileSize"}
    assert add["tags"]["ZCUBE_ZORDER_BY"] == '["id","w"]'
    assert rows_of(builder.store) == before


def test_all_outputs_of_a_run_are_one_cube() -> None:
    builder = build()
    size = sum(add["size"] for add in builder.state.files.values())
    report = run(builder.store, target_bytes=size // 4)
    adds = actions_of(builder.store, report.version_after)["add"]
    assert len(adds) == 4
    assert len({add["tags"]["ZCUBE_ID"] for add in adds}) == 1
    assert run(builder.store, dry_run=True, target_bytes=size // 4).plan.is_empty


def test_new_files_join_the_unfinished_cube() -> None:
    builder = build()
    run(builder.store)
    builder = reopened(builder)
    builder.append([{"id": 7, "v": "new", "w": 0}])
    joined = run(builder.store, dry_run=True).plan
    assert joined.files.num_rows == 2
    assert joined.layout is not None
    assert joined.layout.placed_bytes > 0
    alone = run(builder.store, dry_run=True, min_cluster_bytes=1).plan
    assert alone.files.num_rows == 1
    assert alone.left_alone["in a finished cluster"] == 1


@pytest.mark.parametrize("is_finished", [True, False])
def test_small_files_of_a_cube_are_merged_once_for_a_larger_target(is_finished: bool) -> None:
    builder = build()
    before = rows_of(builder.store)
    size = sum(add["size"] for add in builder.state.files.values())
    cluster: dict[str, Any] = {"min_cluster_bytes": 1} if is_finished else {}
    run(builder.store, target_bytes=size // 4, **cluster)
    for same in (size // 4, size // 3):  # the target of a large table rises as it grows
        assert run(builder.store, dry_run=True, target_bytes=same, **cluster).plan.is_empty
    report = run(builder.store, target_bytes=4 * size, **cluster)
    assert (report.files_removed, report.files_added) == (4, 1)
    assert rows_of(builder.store) == before
    for later in (4 * size, 8 * size):
        assert run(builder.store, dry_run=True, target_bytes=later, **cluster).plan.is_empty


def test_one_outgrown_file_alone_is_left() -> None:
    builder = build()
    run(builder.store, target_bytes=1 << 20)
    for _ in range(2):
        assert run(builder.store, dry_run=True, target_bytes=1 << 30).plan.is_empty


def test_cubes_of_spark_count() -> None:
    builder = build()
    builder.remove(*(add["path"] for add in builder.state.files.values()))
    rows = [{"id": 1, "v": "x", "w": 2}]
    adds = [builder.write_file(rows, tags=_CUBE, clusteringProvider="liquid") for _ in range(2)]
    builder.commit(*adds)
    assert run(builder.store, dry_run=True).plan.is_empty
    assert run(builder.store, dry_run=True, full=True).plan.is_empty
    assert not run(builder.store, dry_run=True, full=True, layout="tile").plan.is_empty
    full = run(builder.store, full=True, cluster_by="id,w")
    assert full.files_removed == 2
    info = actions_of(builder.store, full.version_after)["commitInfo"][0]
    assert info["operationParameters"]["isFull"] is True


def test_two_unfinished_cubes_become_one() -> None:
    builder = build()
    builder.remove(*(add["path"] for add in builder.state.files.values()))
    rows = [{"id": 1, "v": "x", "w": 2}]
    for cube in ("one", "two"):
        tags = {**_CUBE, "ZCUBE_ID": cube}
        builder.commit(builder.write_file(rows, tags=tags, clusteringProvider="liquid"))
    assert run(builder.store).files_removed == 2


@pytest.mark.parametrize(
    ("tags", "provider"),
    [({"ZCUBE_ID": "o", "ZCUBE_ZORDER_BY": '["v"]'}, "liquid"), ({}, "another")],
)
def test_files_clustered_otherwise_wait_for_full(tags: dict[str, str], provider: str) -> None:
    builder = build()
    run(builder.store)
    builder = reopened(builder)
    rows = [{"id": 1, "v": "x", "w": 2}]
    builder.commit(builder.write_file(rows, tags=tags, clusteringProvider=provider))
    plan = run(builder.store, dry_run=True).plan
    assert plan.is_empty
    assert plan.left_alone["clustered by other columns (rewrite with full=True)"] == 1
    assert run(builder.store, full=True).files_removed == 2
    assert run(builder.store, dry_run=True, full=True).plan.is_empty


def test_tags_have_logical_names_of_mapped_and_nested_columns() -> None:
    nested = Column("st", struct_of(Column("x"), Column("y")))
    builder = TableBuilder(
        fresh_store(), [Column("a"), nested], features=["clustering"], mapping="name"
    )
    first, second = builder.columns
    inner = second.type["fields"][0]["metadata"]["delta.columnMapping.physicalName"]
    text = json.dumps({"clusteringColumns": [[second.physical, inner], [first.physical]]})
    builder.commit(
        {"domainMetadata": {"domain": "delta.clustering", "configuration": text, "removed": False}}
    )
    for n in range(3):
        builder.append([{"a": n, "st": {"x": -n, "y": None}}, {"a": None, "st": None}])
    before = rows_of(builder.store)
    report = run(builder.store)
    (add,) = actions_of(builder.store, report.version_after)["add"]
    assert add["tags"]["ZCUBE_ZORDER_BY"] == '["st.x","a"]'
    assert rows_of(builder.store) == before
    assert run(builder.store, dry_run=True).plan.is_empty


def test_odd_names_are_in_backticks_as_delta_on_spark_writes_them() -> None:
    names = ["a.b", "q`x", "my col", "\u00e9", "1a", "12", "a-b", "_a", "select"]
    builder = TableBuilder(
        fresh_store(), [Column(name) for name in names], features=["clustering"], mapping="name"
    )
    for chosen, expected in (
        (names[:4], ["`a.b`", "`q``x`", "`my col`", "`\u00e9`"]),
        (names[4:8], ["`1a`", "`12`", "`a-b`", "_a"]),
        (names[8:], ["select"]),
    ):
        physical = [[column.physical] for column in builder.columns if column.name in chosen]
        text = json.dumps({"clusteringColumns": physical, "domainName": "delta.clustering"})
        domain = {"domain": "delta.clustering", "configuration": text, "removed": False}
        builder.commit({"domainMetadata": domain})
        builder.append([dict.fromkeys(names, 1)])
        report = run(builder.store, full=True)
        found = actions_of(builder.store, report.version_after)
        assert json.loads(found["add"][0]["tags"]["ZCUBE_ZORDER_BY"]) == expected
        parameters = found["commitInfo"][0]["operationParameters"]
        assert json.loads(parameters["clusterBy"]) == expected
        builder = reopened(builder)


def test_options_beside_the_definition() -> None:
    builder = build()
    assert run(builder.store, dry_run=True, cluster_by="id,w").plan.files.num_rows == 4
    for options, message in (
        ({"cluster_by": "w,id"}, "own clustering columns: id, w"),
        ({"zorder_by": "id"}, "own clustering columns: id, w"),
        ({"zorder_by": "id", "layout": "tile"}, "cannot be combined with zorder_by"),
    ):
        with pytest.raises(UsageError, match=message):
            run(builder.store, dry_run=True, **options)


@pytest.mark.parametrize("options", [{}, {"cluster_by": "id,w"}])
def test_another_curve_makes_cubes_too(options: dict[str, Any]) -> None:
    builder = build()
    report = run(builder.store, layout="tile", **options)
    assert report.plan.layout is not None
    assert report.plan.layout.request.layout == "tile"
    (add,) = actions_of(builder.store, report.version_after)["add"]
    assert add["tags"]["ZCUBE_ZORDER_BY"] == '["id","w"]'
    assert run(builder.store, dry_run=True).plan.is_empty


def test_a_purge_and_copies_do_not_cluster() -> None:
    builder = build()
    assert run(builder.store, dry_run=True, purge=True).plan.layout is None
    assert run(builder.store, dry_run=True, rewrite="copy").plan.layout is None
    run(builder.store)
    assert run(builder.store, dry_run=True, rewrite="copy").plan.is_empty


@pytest.mark.parametrize("columns", [[["gone"]], [["v"], ["nope", "x"]]])
def test_a_definition_that_does_not_fit_the_schema(columns: Any) -> None:
    builder = build(columns=columns)
    plan = run(builder.store, dry_run=True).plan
    assert plan.layout is None
    assert plan.files.num_rows == 4
