"""What lookups are expected to skip, and what they skip after the run."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltactl.errors import UsageError
from deltactl.operations.optimize.layout.expect import estimate_opened, measure_opened
from deltactl.operations.optimize.layout.placement import learn_placement
from deltactl.operations.thresholds import Need
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.operations.optimize.layout.test_run import reopened, run
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder

ROWS, FILES = 20_000, 8


def build(*, clustering: bool = False, partitions: int = 0) -> TableBuilder:
    """Return a table of random rows: even and skewed numbers, strings with nulls."""
    random = np.random.default_rng(7)
    columns = [Column("a"), Column("b", "double"), Column("s", "string")]
    more: dict[str, Any] = {}
    if partitions:
        columns.append(Column("p", "integer"))
        more["partition_by"] = ["p"]
    if clustering:
        text = json.dumps({"clusteringColumns": [["a"], ["b"], ["s"]]})
        more |= {
            "features": ["domainMetadata", "clustering"],
            "domains": {"delta.clustering": text},
        }
    builder = TableBuilder(fresh_store(), columns, **more)
    for file in range(FILES):
        rows = ROWS // FILES
        values = zip(
            random.integers(0, 1 << 40, rows).tolist(),
            random.lognormal(0, 1, rows).tolist(),
            random.integers(0, 10**9, rows).tolist(),
            strict=True,
        )
        found = [{"a": a, "b": b, "s": f"user-{s:09}" if s % 10 else None} for a, b, s in values]
        for row in found if partitions else ():
            row["p"] = file % partitions
        builder.append(found, stats=stats_of(found))
    return builder


def stats_of(rows: list[dict[str, Any]]) -> str:
    values = {
        name: [row[name] for row in rows if row[name] is not None] for name in ("a", "b", "s")
    }
    return json.dumps(
        {
            "numRecords": len(rows),
            "minValues": {name: min(found) for name, found in values.items()},
            "maxValues": {name: max(found) for name, found in values.items()},
            "nullCount": {name: len(rows) - len(found) for name, found in values.items()},
        }
    )


def skip_truly(store: Store, column: str) -> float:
    """Return the share of files that lookups of values of the table skip, by their bounds."""
    table = Table(store.uri, store=store)
    stats = [json.loads(text) for text in table.snapshot().files["stats"].to_pylist()]
    values = table.scan(columns=[column]).read_all()[column].drop_null().to_pylist()
    bounds = [(s["minValues"].get(column), s["maxValues"].get(column)) for s in stats]
    picked = values[:: max(1, len(values) // 500)]
    opened = [sum(lo is None or lo <= value <= hi for lo, hi in bounds) for value in picked]
    return 1 - float(np.mean(opened)) / len(bounds)


@pytest.mark.parametrize("partitions", [0, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"cluster_by": "a,b,s"},
        {"cluster_by": "s,a", "layout": "hilbert"},
        {"zorder_by": "b,a"},
        {"cluster_by": "a,b", "layout": "linear"},
        {},
    ],
)
def test_the_forecast_is_what_comes_true(options: dict[str, Any], partitions: int) -> None:
    """Within 6 of 100 files for each column, and what is expected of the log within 5."""
    builder = build(clustering=not options, partitions=partitions)
    target = open_table(builder).snapshot().size_bytes // 30
    forecast = run(builder.store, dry_run=True, target_bytes=target, **options).skipping
    assert forecast is not None
    for column in forecast.columns:
        assert column.before == pytest.approx(skip_truly(builder.store, column.column), abs=0.05)
    done = run(builder.store, target_bytes=target, **options)
    assert done.files_added == pytest.approx(forecast.files_after, rel=0.25)
    for column in forecast.columns:
        truth = skip_truly(builder.store, column.column)
        assert column.after == pytest.approx(truth, abs=0.06), column
    now = open_table(builder).detail(layout=True).layout
    assert now is not None
    assert [column.column for column in now.columns] == [c.column for c in forecast.columns]
    for column in now.columns:
        assert column.before == pytest.approx(skip_truly(builder.store, column.column), abs=0.05)


@pytest.mark.parametrize("where", [None, "p = 0"])
@pytest.mark.parametrize("layout", ["tile", "hilbert"])
def test_the_forecast_of_a_plain_run_that_keeps_a_layout(layout: Any, where: str | None) -> None:
    builder = build(partitions=2)
    target = open_table(builder).snapshot().size_bytes // 30
    run(builder.store, cluster_by="a,b", layout=layout, target_bytes=target)
    builder = reopened(builder)
    random = np.random.default_rng(3)
    for file in range(4):
        rows = [
            {"a": int(random.integers(0, 1 << 40)), "b": b, "s": "new", "p": file % 2}
            for b in random.lognormal(0, 1, 4000).tolist()
        ]
        builder.append(rows, stats=stats_of(rows))
    options: dict[str, Any] = {"target_bytes": target, "where": where}
    forecast = run(builder.store, dry_run=True, **options).skipping
    assert forecast is not None
    assert (forecast.layout, [c.column for c in forecast.columns]) == (layout, ["a", "b"])
    if where is not None:
        assert forecast.files < open_table(builder).snapshot().num_files
        return
    for column in forecast.columns:
        assert column.before == pytest.approx(skip_truly(builder.store, column.column), abs=0.05)
    done = run(builder.store, **options)
    assert done.files_added > 2
    for column in forecast.columns:
        truth = skip_truly(builder.store, column.column)
        assert column.after == pytest.approx(truth, abs=0.08), column


def open_table(builder: TableBuilder) -> Table:
    return Table(builder.store.uri, store=builder.store)


@pytest.mark.parametrize("files", [1, 2, 12, 36, 1000])
def test_tiles_multiply_to_the_number_of_files(files: int) -> None:
    opened = estimate_opened("tile", files, (10**6, 10**6, 3))
    assert 1 / np.prod(opened) == pytest.approx(files, rel=0.25)
    assert min(opened) >= 1 / 10**6
    assert opened[2] >= 1 / 3


def test_one_value_divides_nothing() -> None:
    assert estimate_opened("tile", 10, (1, 10**6)) == (1.0, 0.1)
    assert estimate_opened("hilbert", 16, (1, 10**6))[0] == 1.0
    assert estimate_opened("linear", 16, (10**6, 10**6)) == pytest.approx((1 / 16, 1.0), abs=0.01)


def test_nulls_are_looked_up_by_none() -> None:
    sample = [pa.array([None] * 50 + list(range(50)), pa.int64())]
    placement = learn_placement("tile", sample, 10)
    (opened,) = measure_opened(placement, sample)
    assert opened == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(("skip", "is_run"), [(0.0, False), (0.6, False), (0.8, True)])
def test_runs_only_if_lookups_skip_too_little(skip: float, is_run: bool) -> None:
    builder = build()
    target = open_table(builder).snapshot().size_bytes // 9
    run(builder.store, target_bytes=target, cluster_by="a,b")
    need = Need(skip=skip)
    report = run(builder.store, target_bytes=target, cluster_by="a,b", full=True, need=need)
    assert (report.skipped is None) == is_run
    if not is_run:
        assert "lookups skip 67% of the files" in str(report.skipped)


def test_a_limit_for_lookups_needs_columns() -> None:
    with pytest.raises(UsageError, match="need skip needs clustering columns"):
        run(build().store, need=Need(skip=0.5))


def test_columns_of_the_survey() -> None:
    table = open_table(build())
    with pytest.raises(UsageError, match="the table has no clustering columns"):
        table.detail(layout=True)
    assert table.detail().layout is None
    layout = open_table(build(clustering=True)).detail(layout=True).layout
    assert layout is not None
    found = layout.to_dict()
    assert found["columns"][2:] == [
        {
            "column": "s",
            "skipped_before": 0.0001,
            "skipped_after": 0.0,
            "files_without_statistics": 0,
        }
    ]
    assert [it["column"] for it in found.pop("columns")] == ["a", "b", "s"]
    assert found == {"layout": "hilbert", "files_before": FILES, "files_after": 1}
