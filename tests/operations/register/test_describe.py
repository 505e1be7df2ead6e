"""What a catalog should say about a table, and about its manifests."""

from pathlib import Path

from deltactl.catalog.names import parse_name
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.register.describe import describe_table, list_partitions
from deltactl.operations.run_context import RunContext
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.support.table_builder import Column, TableBuilder


def test_manifests_with_another_scheme_are_up_to_date(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("p", "string")], partition_by=["p"])
    builder.append([{"id": 1, "p": "a"}], [{"id": 2, "p": "b"}])
    Table(str(tmp_path)).generate_manifest(schemes={"file": "hdfs"})
    said: list[str] = []

    def values() -> set[tuple[str, ...]]:
        log = DeltaLog(LocalStore(str(tmp_path)), said.append)
        snapshot = log.snapshot()
        name = parse_name("hive://sales.t")
        wanted = describe_table(snapshot, name, "the metastore", is_symlink=True)
        context = RunContext(warn=said.append)
        partitions, refusal = list_partitions(log, snapshot, wanted, context)
        assert refusal is None
        return set(partitions)

    assert values() == {("a",), ("b",)}
    assert said == []
    builder.append([{"id": 3, "p": "a"}])
    assert values() == {("a",), ("b",)}
    command = "`deltactl generate-manifest TABLE --scheme-map file=hdfs`"
    assert said == [f"the manifests are not up to date. Run {command}, then rerun."]
