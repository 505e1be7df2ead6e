"""``check --proofs``: digests of rows that layout runs stored, calculated again."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.engine.local import LocalEngine
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.report import CheckReport
from deltactl.operations.check.run import check_table
from tests.operations.optimize.layout.test_run import COLUMNS, actions_of, build, reopened, run
from tests.support.run import run_on
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path
from tests.support.table_samples import FEATURES, LAYOUTS, build_sample


def check(store: Any, **options: Any) -> CheckReport:
    chosen = CheckOptions(**{"proofs": True, **options})
    return run_on(store, check_table, chosen, engine=LocalEngine(workers=2))


def change(store: Any, path: str, rewrite: Any) -> None:
    """Write a data file again with other rows, under the same name."""
    table = pq.read_table(pa.BufferReader(store.read(path)))
    sink = pa.BufferOutputStream()
    pq.write_table(rewrite(table), sink)
    store.delete_many([path])
    store.put(path, sink.getvalue().to_pybytes())


def placed(**options: Any) -> tuple[TableBuilder, int, str]:
    builder = build(**options)
    report = run(builder.store, cluster_by="id")
    (add,) = actions_of(builder.store, report.version_after)["add"]
    return builder, report.version_after, add["path"]


def swap(name: str) -> Any:
    def swapped(table: pa.Table) -> pa.Table:
        order = [1, 0, *range(2, table.num_rows)]
        index = table.schema.get_field_index(name)
        return table.set_column(index, table.schema.field(name), table[name].take(pa.array(order)))

    return swapped


def test_digests_agree() -> None:
    builder, _, _ = placed()
    report = check(builder.store)
    assert report.is_sound
    assert report.to_dict()["digests"] == 1
    assert check(builder.store, depth=Depth.DATA).counts.num_rows == 300  # each row once


@pytest.mark.parametrize(
    ("rewrite", "problem"),
    [
        (swap("v"), "the digest of the rows in its files is"),
        (lambda table: table.slice(1), "have 299 rows, but the commit recorded 300"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "have 301 rows"),
        (lambda table: pa.concat_tables([table.slice(1), table.slice(1, 1)]), "the digest"),
    ],
)
def test_rows_that_changed_since_are_found(rewrite: Any, problem: str) -> None:
    builder, version, path = placed()
    change(builder.store, path, rewrite)
    (found,) = check(builder.store, depth=Depth.EXISTS).findings.to_pylist()
    assert found["code"] == "ROWS_CHANGED"
    assert found["version"] == version
    assert found["file"] == commit_path(version)
    assert problem in found["problem"]


def test_rows_in_another_partition_are_found() -> None:
    builder = TableBuilder(fresh_store(), [*COLUMNS, Column("p", "string")], partition_by=["p"])
    builder.append(*([{"id": n, "v": "x", "w": n, "p": "ab"[n % 2]}] for n in range(8)))
    version = run(builder.store, cluster_by="id").version_after
    assert check(builder.store).is_sound
    swapped = builder.store.read(commit_path(version)).replace(b'"p":"a"', b'"p":"B"')
    swapped = swapped.replace(b'"p":"b"', b'"p":"a"').replace(b'"p":"B"', b'"p":"b"')
    builder.store.put(commit_path(version), swapped)
    (found,) = check(builder.store, depth=Depth.EXISTS).findings.to_pylist()
    assert (found["code"], found["version"]) == ("ROWS_CHANGED", version)


def test_older_versions_are_compared_while_their_files_are_left() -> None:
    builder, version, path = placed()
    run(builder.store, cluster_by="v")
    assert check(builder.store).counts.num_digests == 2
    change(builder.store, path, swap("v"))
    (found,) = check(builder.store).findings.to_pylist()
    assert found["version"] == version
    builder.store.delete_many([path])
    report = check(builder.store)
    assert report.is_sound
    assert report.counts.num_digests == 1
    assert any("does not exist any more" in note for note in report.notes)


def test_a_broken_file_is_named() -> None:
    builder, _, path = placed()
    size = len(builder.store.read(path))
    builder.store.delete_many([path])
    builder.store.put(path, b"x" * size)
    (found,) = check(builder.store).findings.to_pylist()
    assert (found["code"], found["file"]) == ("FILE_UNREADABLE", path)


def test_the_schema_is_that_of_the_rows() -> None:
    """Columns that were added later are not in the digest."""
    builder, _, _ = placed()
    builder = reopened(builder)
    builder.change_metadata(columns=[*COLUMNS, Column("later")])
    report = check(builder.store)
    assert report.is_sound
    assert report.counts.num_digests == 1


@pytest.mark.parametrize("features", FEATURES)
def test_digests_agree_on_tables_with_any_feature(features: str) -> None:
    builder = build_sample(fresh_store(), features=features, layout=list(LAYOUTS)[-1])
    assert run(builder.store, zorder_by="id").versions
    report = check(builder.store)
    assert report.is_sound, report.findings.to_pylist()
    assert report.counts.num_digests == 1


def test_files_that_were_only_joined_are_not_in_the_digest() -> None:
    columns = [*COLUMNS, Column("p", "string")]
    builder = TableBuilder(fresh_store(), columns, partition_by=["p"])
    rows = [[{"id": n, "v": "x", "w": n, "p": p}] for n in range(4) for p in "ab"]
    builder.append(*rows)
    run(builder.store, cluster_by="id", where="p = 'a'")
    run(builder.store, cluster_by="v", where="p = 'b'", target_bytes=100)
    builder = reopened(builder)
    builder.append(*rows, *([{"id": n, "v": "x", "w": n, "p": "c"}] for n in range(4)))
    report = run(builder.store)
    adds = actions_of(builder.store, report.version_after)["add"]
    assert len({"deltactl.layout" in add["tags"] for add in adds}) == 2
    assert check(builder.store).is_sound
    assert check(builder.store).counts.num_digests == 3


def test_a_table_of_its_own_clustering_columns() -> None:
    text = json.dumps({"clusteringColumns": [["id"]], "domainName": "delta.clustering"})
    builder = build(features=["domainMetadata", "clustering"], domains={"delta.clustering": text})
    run(builder.store)
    report = check(builder.store)
    assert report.is_sound
    assert report.counts.num_digests == 1


@pytest.mark.parametrize(
    "text", ["", "7", "{}", '{"algorithm":"new","rows":1,"sum":"0"}', '{"rows":"x"}']
)
def test_digests_that_are_not_known_are_left(text: str) -> None:
    builder = build(files=1)
    add = builder.write_file([{"id": 1, "v": "x", "w": 1}])
    builder.commit(add, operation="OPTIMIZE", tags={"deltactl.rowDigest": text})
    report = check(builder.store)
    assert report.is_sound
    assert report.counts.num_digests == 0
    assert any("is not known to this version of deltactl" in note for note in report.notes) == (
        "new" in text
    )


def test_nothing_is_read_without_the_option() -> None:
    builder, _, path = placed()
    change(builder.store, path, swap("v"))
    assert "ROWS_CHANGED" not in check(builder.store, proofs=False).count_codes()
