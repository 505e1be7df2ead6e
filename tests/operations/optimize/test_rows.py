"""Optimize keeps the multiset of rows, and leaves nothing for a second run, on random tables."""

import datetime as dt
import string
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.engine.local import LocalEngine
from deltactl.operations.optimize.options import OptimizeOptions, Rewrite
from deltactl.operations.optimize.run import optimize_table
from deltactl.table import Table
from tests.support.parameters import all_pairs, in_turn
from tests.support.run import run_on
from tests.support.stores import MemoryStore, fresh_store
from tests.support.table_builder import Column, TableBuilder, array_of, map_of, multiset, struct_of
from tests.support.table_samples import FEATURES, LAYOUTS, SHAPES, build_sample

pytestmark = pytest.mark.thorough


_texts = st.text(st.characters(blacklist_categories=["Cs"]), max_size=5)
_times = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1))
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "byte": st.integers(-128, 127),
    "double": st.floats(),
    "float": st.floats(width=32),
    "string": _texts,
    "binary": st.binary(max_size=5),
    "boolean": st.booleans(),
    "date": st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "timestamp": _times.map(lambda t: t.replace(tzinfo=dt.UTC)),
    "timestamp_ntz": _times,
    "decimal(10,2)": st.decimals(-99999999, 99999999, places=2),
    "decimal(38,18)": st.decimals(
        Decimal("-99999999999999999999"), Decimal("99999999999999999999"), places=18
    ).filter(lambda d: len(d.as_tuple().digits) <= 38),
}
_PARTITION_TYPES = ("string", "integer", "date", "boolean", "timestamp", "decimal(10,2)")


def _types() -> st.SearchStrategy[Any]:
    names = st.sampled_from(sorted(_PRIMITIVES))
    return st.recursive(
        names,
        lambda inner: st.one_of(
            inner.map(array_of),
            st.tuples(st.sampled_from(["string", "long"]), inner).map(lambda t: map_of(*t)),
            st.lists(inner, min_size=1, max_size=2).map(
                lambda kinds: struct_of(*(Column(f"m{i}", k) for i, k in enumerate(kinds)))
            ),
        ),
        max_leaves=4,
    )


def _values(type_: Any) -> st.SearchStrategy[Any]:
    if isinstance(type_, str):
        return st.none() | _PRIMITIVES[type_]
    if type_["type"] == "struct":
        members = {node["name"]: _values(node["type"]) for node in type_["fields"]}
        return st.none() | st.fixed_dictionaries(members)
    if type_["type"] == "array":
        return st.none() | st.lists(_values(type_["elementType"]), max_size=3)
    return st.none() | st.dictionaries(
        _PRIMITIVES[type_["keyType"]], _values(type_["valueType"]), max_size=3
    ).map(lambda found: list(found.items()))


@st.composite
def tables(draw: st.DrawFn) -> TableBuilder:
    """Any columns, up to two partition columns, up to ten files, deleted rows in some."""
    store = fresh_store()
    names = draw(
        st.lists(
            st.text(string.ascii_letters + " .äé€-_'`", min_size=1, max_size=4),
            min_size=1,
            max_size=4,
            unique_by=str.lower,
        )
    )
    columns = [Column(name, draw(_types())) for name in names]
    partitions = [
        Column(f"part{i}", draw(st.sampled_from(_PARTITION_TYPES)))
        for i in range(draw(st.integers(0, 2)))
    ]
    features = draw(st.sets(st.sampled_from(["rowTracking", "inCommitTimestamp", "timestampNtz"])))
    builder = TableBuilder(
        store,
        [*columns, *partitions],
        partition_by=[column.name for column in partitions],
        mapping=draw(st.sampled_from(["none", "name", "id"])),
        features=["deletionVectors", *features],
    )
    row = {column.name: _values(column.type) for column in columns}
    choices = [{column.name: draw(_values(column.type)) for column in partitions} for _ in range(2)]
    for _ in range(draw(st.integers(0, 4))):
        files = []
        for _ in range(draw(st.integers(1, 3))):
            values = draw(st.sampled_from(choices))
            rows = draw(st.lists(st.fixed_dictionaries(row), min_size=1, max_size=6))
            files.append([{**each, **values} for each in rows])
        paths = builder.append(
            *files,
            row_group_rows=draw(st.integers(1, 5)),
            pad=draw(st.sampled_from([0, 0, 3000, 20000])),
            codec=draw(st.sampled_from(["snappy", "zstd", "none"])),
        )
        for path, rows in zip(paths, files, strict=True):
            gone = draw(st.just(set[int]()) | st.sets(st.integers(0, len(rows) - 1)))
            if gone:
                builder.delete_rows(path, gone, draw(st.sampled_from("upi")))
    return builder


def _check_rows(data: st.DataObject) -> None:
    builder = data.draw(tables())
    options = OptimizeOptions(
        target_bytes=data.draw(st.sampled_from([1, 4000, 10_000, 100_000])),
        verify=data.draw(st.sampled_from(["counts", "full"])),
        commit_every_bytes=data.draw(st.sampled_from([1, 10_000, 1 << 40])),
        purge=data.draw(st.sampled_from([False, False, True])),
        rewrite=data.draw(st.sampled_from(["copy", "copy", "encode", "auto"])),
    )
    assert_kept(builder, options)


def assert_kept(builder: TableBuilder, options: OptimizeOptions) -> None:
    expected = multiset(builder.rows())
    table = Table(builder.store.uri, store=builder.store, warn=lambda message: None)
    report = table.optimize(options, engine=LocalEngine(workers=1))
    assert not report.failures
    assert multiset(table.scan().read_all().to_pylist()) == expected
    assert len(report.versions) <= max(report.plan.num_bins, 0)
    second = table.optimize(options, dry_run=True)
    assert second.plan.is_empty, second.plan.partitions.to_pylist()


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_rows_stay_and_a_second_plan_is_empty(data: st.DataObject) -> None:
    _check_rows(data)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_rows_stay_and_a_second_plan_is_empty_at_length(data: st.DataObject) -> None:
    _check_rows(data)


@pytest.mark.parametrize(("shape", "features"), in_turn(SHAPES, ["mapped-by-id", "row-tracking"]))
def test_any_shape_of_the_log_is_optimized(shape: str, features: str) -> None:
    store = fresh_store()
    builder = build_sample(store, shape=shape, features=features, layout="partitioned-twice")
    assert_kept(builder, OptimizeOptions())


@pytest.mark.parametrize(
    ("features", "layout", "rewrite"), all_pairs(FEATURES, LAYOUTS, ["copy", "encode"])
)
def test_every_feature_in_every_layout_is_optimized(
    features: str, layout: str, rewrite: Rewrite
) -> None:
    store = fresh_store()
    builder = build_sample(store, features=features, layout=layout)
    assert_kept(builder, OptimizeOptions(verify="full", rewrite=rewrite))


def test_row_ids_outlive_two_rewrites() -> None:
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")], features=["rowTracking", "deletionVectors"])
    paths = builder.append(*([{"id": 10 * i + j} for j in range(4)] for i in range(4)))
    builder.delete_rows(paths[1], [0, 2])
    wanted = [(i, place) for place, i in enumerate(10 * i + j for i in range(4) for j in range(4))]
    wanted = [pair for pair in wanted if pair[0] not in (10, 12)]
    run_on(store, optimize_table, OptimizeOptions(verify="full"), warn=pytest.fail)
    assert _stored_ids(store) == wanted
    builder.note([])  # the version that was just committed; it handed out 14 ids of its own
    builder._next_row_id = 16 + 14
    builder.append(*([{"id": 100 + i}] for i in range(20)))
    run_on(store, optimize_table, OptimizeOptions(verify="full"), warn=pytest.fail)
    # What was rewritten first is the younger file: only the pairing matters here.
    assert sorted(_stored_ids(store)) == [*wanted, *((100 + i, 30 + i) for i in range(20))]


def _stored_ids(store: MemoryStore) -> list[tuple[int, int]]:
    (output,) = Table(store.uri, store=store).snapshot().files["path"].to_pylist()
    with store.open_input(output) as source:
        stored = pq.read_table(source)
    return list(zip(stored["id"].to_pylist(), stored["_row-id-col-1"].to_pylist(), strict=True))
