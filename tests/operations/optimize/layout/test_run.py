"""A layout run: the rows stay, their files change, and a next run has nothing to do."""

import itertools
import json
import re
from collections import Counter
from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from deltactl.engine.local import LocalEngine
from deltactl.errors import SafetyError, UsageError, VerificationError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.optimize.layout import tasks
from deltactl.operations.optimize.options import Layout
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.optimize.test_races import RacingStore
from tests.operations.optimize.test_rows import assert_kept, tables
from tests.support.clock import FixedClock
from tests.support.parameters import in_turn
from tests.support.stores import fresh_store, opened_as
from tests.support.table_builder import (
    LOG,
    START_MS,
    Column,
    TableBuilder,
    array_of,
    commit_path,
    multiset,
    struct_of,
)
from tests.support.table_samples import FEATURES, LAYOUTS, build_sample

_NUMBERS = itertools.count()
SMALL = 4000
COLUMNS = [Column("id"), Column("v", "string"), Column("w", "long")]


def run(store: Store, *, dry_run: bool = False, **options: Any) -> OptimizeReport:
    context = RunContext(
        warn=lambda message: None,
        engine=LocalEngine(workers=2),
        clock=FixedClock(START_MS + 10**9, first_id=1 + 1000 * next(_NUMBERS)),
        sleep=lambda seconds: None,
    )
    with opened_as(store):
        return optimize_table(
            DeltaLog(store, context.warn), OptimizeOptions(**options), context, dry_run=dry_run
        )


def rows_of(store: Store) -> Counter[Any]:
    return multiset(Table(store.uri, store=store).scan().read_all().to_pylist())


def actions_of(store: Store, version: int) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in store.read(commit_path(version)).splitlines():
        ((kind, body),) = json.loads(line).items()
        found.setdefault(kind, []).append(body)
    return found


def build(files: int = 6, rows: int = 50, **options: Any) -> TableBuilder:
    builder = TableBuilder(fresh_store(), COLUMNS, **options)
    for file in range(files):
        numbers = range(file, files * rows, files)
        builder.append([{"id": n, "v": f"v {n * 7 % 13}", "w": n * 31 % 97} for n in numbers])
    return builder


@pytest.mark.parametrize(("features", "layout"), in_turn(FEATURES, LAYOUTS))
def test_every_feature_in_every_layout_of_directories(features: str, layout: str) -> None:
    """Rows and row ids stay, and a second run has nothing to do."""
    builder = build_sample(fresh_store(), features=features, layout=layout)
    assert_kept(builder, OptimizeOptions(zorder_by="id,added", target_bytes=SMALL))
    assert run(builder.store, dry_run=True).plan.is_empty  # a plain run leaves them alone


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_table_keeps_its_rows(data: st.DataObject) -> None:
    builder = data.draw(tables())
    names = [
        column.name
        for column in builder.columns
        if isinstance(column.type, str)
        and column.type != "binary"
        and column.name not in builder.partition_by
        and column.name.strip()
    ]
    assume(names)
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    text = ",".join("`" + name.replace("`", "``") + "`" for name in chosen)
    layout = data.draw(st.sampled_from(get_args(Layout)))
    target = data.draw(st.sampled_from([200, 1000, 10**6]))
    assert_kept(builder, OptimizeOptions(cluster_by=text, layout=layout, target_bytes=target))


@pytest.mark.parametrize("layout", get_args(Layout))
def test_files_hold_ranges(layout: Any) -> None:
    builder = build(files=20, rows=200)
    before = rows_of(builder.store)
    size = sum(add["size"] for add in builder.state.files.values())
    report = run(builder.store, cluster_by="id", layout=layout, target_bytes=size // 8)
    assert rows_of(builder.store) == before
    assert report.files_added == 8
    adds = actions_of(builder.store, report.version_after)["add"]
    bounds = sorted(
        (stats["minValues"]["id"], stats["maxValues"]["id"])
        for stats in (json.loads(add["stats"]) for add in adds)
    )
    assert all(left[1] < right[0] for left, right in itertools.pairwise(bounds))


def test_the_commit_is_that_of_delta_on_spark_with_a_digest() -> None:
    builder = build()
    report = run(builder.store, zorder_by="id, W")
    info = actions_of(builder.store, report.version_after)["commitInfo"][0]
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"] == {
        "predicate": "[]",
        "zOrderBy": '["id","w"]',
        "clusterBy": "[]",
        "auto": False,
    }
    assert set(info["operationMetrics"]) == {
        "numAddedFiles", "numRemovedFiles", "numAddedBytes", "numRemovedBytes", "minFileSize",
        "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize", "numDeletionVectorsRemoved",
    }  # fmt: skip
    digest = json.loads(info["tags"]["deltactl.rowDigest"])
    assert digest["rows"] == 300
    assert digest["algorithm"] == "deltactl-rows-3"
    again = run(builder.store, zorder_by="w,v")
    info = actions_of(builder.store, again.version_after)["commitInfo"][0]
    assert json.loads(info["tags"]["deltactl.rowDigest"]) == digest


# -- which files ------------------------------------------------------------------------------


def test_new_files_are_placed_with_unfinished_clusters() -> None:
    builder = build()
    run(builder.store, cluster_by="id")
    finished = run(builder.store, dry_run=True, cluster_by="id")
    assert finished.plan.is_empty
    builder = reopened(builder)
    builder.append([{"id": 7, "v": "new", "w": 0}])
    small = run(builder.store, dry_run=True, cluster_by="id")
    assert small.plan.files.num_rows == 2
    assert small.plan.layout is not None
    assert small.plan.layout.placed_bytes > 0
    only_new = run(builder.store, dry_run=True, cluster_by="id", min_cluster_bytes=1)
    assert only_new.plan.files.num_rows == 1


def reopened(builder: TableBuilder) -> TableBuilder:
    """Let the builder go on after commits that it did not make."""
    version = Table(builder.store.uri, store=builder.store).snapshot().version
    while len(builder.commits) <= version:
        lines = builder.store.read(commit_path(len(builder.commits))).splitlines()
        builder.note([json.loads(line) for line in lines])
    return builder


def test_other_columns_layouts_and_full_place_again() -> None:
    builder = build()
    run(builder.store, cluster_by="id,v")
    for options in (
        {"cluster_by": "v,id"},
        {"cluster_by": "id"},
        {"cluster_by": "id,v", "layout": "hilbert"},
        {"zorder_by": "id,v"},
        {"cluster_by": "id,v", "full": True},
    ):
        assert not run(builder.store, dry_run=True, **options).plan.is_empty, options
    assert run(builder.store, dry_run=True, cluster_by="id,v").plan.is_empty


# -- safety -----------------------------------------------------------------------------------


def test_a_concurrent_delete_loses_its_cluster_only() -> None:
    columns = [Column("id"), Column("p", "string")]
    builder = TableBuilder(fresh_store(), columns, partition_by=["p"])
    paths = [builder.append([{"id": n, "p": "a"}], [{"id": -n, "p": "b"}]) for n in range(4)]
    racing = RacingStore(builder.store, before_1=lambda: builder.remove(paths[2][0]))
    report = run(racing, cluster_by="id")
    assert not report.conflicts
    assert [dropped.reason for dropped in report.dropped] == [
        "another writer removed some of the input files. This run changed the order of rows, so it "
        "cannot find their rows in the new files"
    ]
    assert report.rounds == 2
    expected = [{"id": n, "p": "a"} for n in (0, 1, 3)] + [{"id": -n, "p": "b"} for n in range(4)]
    assert rows_of(builder.store) == multiset(expected)


def test_rows_deleted_by_others_are_not_brought_back() -> None:
    builder = build(features=["deletionVectors"])
    path = next(iter(builder.state.files.values()))["path"]
    racing = RacingStore(builder.store, before_1=lambda: builder.delete_rows(path, [0, 1]))
    report = run(racing, cluster_by="id")
    assert report.rounds == 2
    expected = multiset(builder.rows(builder.version))
    assert rows_of(builder.store) == expected
    assert expected.total() == 298


def test_a_lost_and_a_doubled_row_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = build()
    before = list(builder.store.list_from(LOG, ""))
    sort = tasks._Job._sort

    def lose_one(job: Any, batches: Any) -> Any:
        for batch in sort(job, batches):
            yield batch.take(pa.array([0, *range(batch.num_rows - 1)]))

    monkeypatch.setattr(tasks._Job, "_sort", lose_one)
    with pytest.raises(VerificationError, match="do not contain the rows"):
        run(builder.store, cluster_by="id")
    assert list(builder.store.list_from(LOG, "")) == before
    live = {add["path"] for add in builder.state.files.values()}
    assert {info.name for info in builder.store.list_from("", "part-")} <= live


# -- usage ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster_by": "id", "zorder_by": "id"}, "cannot be combined"),
        ({"layout": "tile"}, "needs cluster_by"),
        ({"cluster_by": "id", "purge": True}, "with purge"),
        ({"zorder_by": "id", "rewrite": "copy"}, "rewrite='copy'"),
        ({"full": True}, "full needs cluster_by"),
        ({"cluster_by": " "}, "needs at least one column"),
        ({"cluster_by": "id,nope"}, "no column 'nope'"),
        ({"cluster_by": ["we`ird"]}, "no column 'we`ird'"),
        ({"cluster_by": "id,ID"}, "twice"),
        ({"cluster_by": "p"}, "partition column"),
        ({"zorder_by": "a1,a2,a3,a4,a5,a6,a7,a8,a9"}, "at most 8 are allowed"),
    ],
)
def test_layout_options_that_do_not_fit_are_usage_errors(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(build_odd_columns().store, dry_run=True, **options)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("list", "stores no minimum and maximum"),
        ("data", "stores no minimum and maximum"),
        ("s", "stores no minimum and maximum"),
        ("s.inner", "has no statistics"),
        ("late", "has no statistics"),
    ],
)
def test_columns_by_which_no_query_skips_files_are_refused(column: str, message: str) -> None:
    with pytest.raises(SafetyError, match=f"column '{column}' .*{message}"):
        run(build_odd_columns().store, dry_run=True, zorder_by=column)


@pytest.mark.parametrize(
    ("properties", "counts"),
    [
        ({"dataSkippingNumIndexedCols": "1"}, "dataSkippingNumIndexedCols"),
        ({"dataSkippingStatsColumns": "a"}, "dataSkippingStatsColumns"),
        # Readers and writers ignore the number then.
        (
            {"dataSkippingNumIndexedCols": "-1", "dataSkippingStatsColumns": "a"},
            "dataSkippingStatsColumns",
        ),
    ],
)
def test_the_hint_names_only_the_property_that_counts(
    properties: dict[str, str], counts: str
) -> None:
    named = {f"delta.{key}": value for key, value in properties.items()}
    builder = TableBuilder(fresh_store(), [Column("a"), Column("b")], properties=named)
    builder.append([{"a": 1, "b": 2}])
    with pytest.raises(SafetyError, match="has no statistics") as caught:
        run(builder.store, cluster_by="b")
    assert re.findall(r"delta\.(\w+)", caught.value.hint or "") == [counts]


ODD_NAMES = ("id.num", "a b", "a,b", "c`d")


def build_odd_names() -> TableBuilder:
    builder = TableBuilder(fresh_store(), [Column("id"), *map(Column, ODD_NAMES)])
    builder.append([{"id": 1, **dict.fromkeys(ODD_NAMES, 2)}])
    builder.append([{"id": 0, **dict.fromkeys(ODD_NAMES, 1)}])
    return builder


@pytest.mark.parametrize("column", ["id.num", "`id.num`", "a b", "`a,b`", ["a,b"], "`c``d`"])
def test_columns_with_odd_names_are_named_as_in_spark(column: str | list[str]) -> None:
    report = run(build_odd_names().store, zorder_by=column)
    assert len(report.versions) == 1


def test_the_hint_has_names_that_can_be_typed() -> None:
    builder = build_odd_names()
    with pytest.raises(UsageError, match="no column 'id.nom'") as caught:
        run(builder.store, zorder_by="id.nom")
    assert caught.value.hint == "Choose from: id, `id.num`, `a b`, `a,b`, `c``d`."
    shown = caught.value.hint.removeprefix("Choose from: ").removesuffix(".")
    assert run(builder.store, cluster_by=shown).versions


def build_odd_columns() -> TableBuilder:
    columns = [
        Column("id"),
        Column("p", "string"),
        Column("list", array_of("long")),
        Column("data", "binary"),
        Column("s", struct_of(Column("inner"))),
        Column("late"),
    ]
    properties = {"delta.dataSkippingNumIndexedCols": "3"}
    return TableBuilder(fresh_store(), columns, partition_by=["p"], properties=properties)


def test_inputs_that_others_deleted_need_no_work() -> None:
    builder = build(files=2)
    paths = [add["path"] for add in builder.state.files.values()]
    report = run(
        RacingStore(builder.store, before_1=lambda: builder.remove(*paths)), cluster_by="id"
    )
    assert not report.versions
    assert [dropped.reason for dropped in report.dropped] == [
        "other writers removed all of the input files"
    ]
    assert not rows_of(builder.store)


@pytest.mark.parametrize("full", [False, True])
def test_inputs_that_others_merged_get_the_layout(full: bool) -> None:
    """With ``full``, only their own files are placed again."""
    builder = build(files=2)
    paths = [add["path"] for add in builder.state.files.values()]
    before = rows_of(builder.store)
    rows = builder.rows(builder.version)

    def merge() -> None:
        builder.commit(*map(builder.remove_action, paths), builder.write_file(rows))

    report = run(RacingStore(builder.store, before_1=merge), cluster_by="id", full=full)
    assert (bool(report.versions), len(report.dropped)) == (not full, 1)
    assert not report.conflicts
    assert run(builder.store, cluster_by="id", dry_run=True).plan.is_empty != full
    assert rows_of(builder.store) == before
