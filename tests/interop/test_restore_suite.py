"""The scenarios of the restore suites of Delta on Spark."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import NotATableError, Table
from tests.interop.judges import READERS, rows_with_delta_rs, rows_with_duckdb
from tests.interop.suites import ensure_test_exists, register
from tests.support.table_builder import commit_path

_RUN: Final = "operations/restore/test_run.py::"
HELD: Final = {
    "to a version": f"{_RUN}test_files_and_vectors_come_back_and_go_again",
    "a restore is restored, and its source": (
        f"{_RUN}test_files_and_vectors_come_back_and_go_again"
    ),
    "deletion vectors, to versions with and without them": (
        f"{_RUN}test_files_and_vectors_come_back_and_go_again"
    ),
    "to before a feature was enabled: the protocol stays, the property is that of the version": (
        "interop/restored.py::unpack[row tracking since]"
    ),
    "to a time": f"{_RUN}test_a_time_names_the_version_that_was_current",
    "metrics in the history": f"{_RUN}test_the_commit_has_the_members_of_delta_on_spark",
    "metrics of the command": (
        "cli/commands/test_restore.py::test_every_format_reports_the_restore"
    ),
    "after a vacuum": f"{_RUN}test_a_version_without_its_files_is_refused_also_if_nothing_differs",
    "the commit of Spark, action by action": (
        "interop/test_restore_spark.py::test_a_restore_commits_the_same_actions_as_spark"
    ),
    "deletion vectors with change data": (
        "interop/restored.py::unpack[partitions and change data]"
    ),
    "column mapping by name": "interop/restored.py::unpack[column mapping]",
}
SCENES: dict[str, Callable[[Path], None]] = {}
scene = partial(register, SCENES)


@pytest.mark.parametrize("scenario", HELD)
def test_another_test_holds(scenario: str) -> None:
    ensure_test_exists(HELD[scenario])


@pytest.mark.parametrize("scenario", SCENES)
def test_scenario(tmp_path: Path, scenario: str) -> None:
    SCENES[scenario](tmp_path / "t")


def append(path: Path, *ids: int) -> None:
    write_deltalake(str(path), pa.table({"id": ids}), mode="append")


def ids(path: Path) -> list[int]:
    found = [
        sorted(it["id"] for it in read(path)) for read in (rows_with_delta_rs, rows_with_duckdb)
    ]
    assert found[0] == found[1]
    return found[0]


@scene("a day names the version of its midnight")
def _(path: Path) -> None:
    for number, day in enumerate((20, 25)):
        append(path, number)
        os.utime(path / commit_path(number), (1_700_000_000 + 86_400 * day,) * 2)
    Table(path).restore(timestamp="2023-12-05")
    assert ids(path) == [0]


@scene("no table")
def _(path: Path) -> None:
    with pytest.raises(NotATableError):
        Table(path).restore(version=0)
    assert not path.exists()


@scene("change data of a restore are the rows that differ")
def _(path: Path) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(path), pa.table({"id": [0, 1]}), configuration=properties)
    append(path, 2)
    table = DeltaTable(str(path))
    table.delete("id < 1")
    table.update(predicate="id > 1", updates={"id": "4"})
    for target, version, expected in ((2, 4, {2: 1, 4: -1}), (1, 5, {0: 1}), (0, 6, {2: -1})):
        Table(path).restore(version=target)
        changes = pa.table(DeltaTable(str(path)).load_cdf(version, version).read_all())
        net: dict[int, int] = {}
        for row in changes.to_pylist():
            assert row["_commit_version"] == version
            step = {"insert": 1, "delete": -1}[row["_change_type"]]
            net[row["id"]] = net.get(row["id"], 0) + step
        assert {key: count for key, count in net.items() if count} == expected


@scene("to before column mapping and back, as Spark 4.4 does")
def _(path: Path) -> None:
    append(path, 1)
    append(path, 2)
    Table(path).alter(properties={"delta.columnMapping.mode": "name"})
    mapped = Table(path).snapshot()
    Table(path).restore(version=0)
    assert ids(path) == [1]
    restored = Table(path).snapshot()
    assert restored.metadata.column_mapping_mode == "none" != mapped.metadata.column_mapping_mode
    Table(path).restore(version=mapped.version)
    assert [count(path) for count in READERS.values()] == [2, 2]
    assert [Table(path).scan(version=it).read_all().num_rows for it in range(5)] == [1, 2, 2, 1, 2]
