"""The scenarios of the vacuum suite of Delta on Spark."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import NotATableError, SafetyError, Table, UsageError
from deltactl.operations.vacuum.options import VacuumOptions
from tests.interop.judges import rows_with_delta_rs
from tests.interop.suites import ensure_test_exists, register
from tests.operations.vacuum.test_local import Disk, age
from tests.support.table_builder import LOG, Column, TableBuilder
from tests.support.vacuum_scenes import DAY, HOUR, Scene

_RUN: Final = "operations/vacuum/test_run.py::"
_LOCAL: Final = "operations/vacuum/test_local.py::"
_CLI: Final = "cli/commands/test_vacuum.py::"
HELD: Final = {
    "hidden files and directories stay": f"{_RUN}test_hidden_names_stay_at_every_level",
    "a partition column begins with an underscore": f"{_RUN}test_hidden_names_stay_at_every_level",
    "directories that became empty go, over several levels": (
        f"{_LOCAL}test_files_go_and_what_became_empty_with_them"
    ),
    "an empty directory goes": (f"{_LOCAL}test_files_go_and_what_became_empty_with_them"),
    "live, removed, planted and external files over a month": (
        f"{_RUN}test_expired_tombstones_go_and_young_ones_stay"
    ),
    "a file as old as the retention stays": f"{_RUN}test_the_cutoff_itself_keeps",
    "a removed file outside the table stays": (
        f"{_RUN}test_files_outside_the_root_are_never_touched"
    ),
    "special characters in the path": f"{_RUN}test_names_are_compared_decoded",
    "less than the retention on request": (
        "interop/test_habits.py::test_vacuum_removes_the_same_files"
    ),
    "another retention than that of the table, which Spark ignores": (
        f"{_RUN}test_longer_retention_than_the_tables_reads_the_commits"
    ),
    "replaced deletion vectors go, others stay": (
        f"{_RUN}test_superseded_vectors_go_and_live_ones_stay"
    ),
    "change data goes with the retention": f"{_RUN}test_change_data_goes_by_age_alone",
    "deletion vectors of removed files stay as long as the files": (
        f"{_RUN}test_vectors_of_young_tombstones_stay"
    ),
    "START and END with parameters and metrics": (
        f"{_RUN}test_start_and_end_commits_are_as_delta_writes_them"
    ),
    "a dry run leaves no trace": f"{_CLI}test_a_dry_run_shows_the_plan_and_removes_nothing",
    "nothing to delete: no commit, other than Spark": f"{_RUN}test_nothing_to_do_commits_nothing",
    "an inventory of other columns": f"{_LOCAL}test_files_that_are_no_inventory_of_this_table",
    "an inventory in place of a listing": (
        f"{_LOCAL}test_a_dumped_listing_serves_as_inventory_without_any_listing"
    ),
    "an inventory with hidden and other files": (
        f"{_LOCAL}test_an_inventory_is_believed_in_names_only"
    ),
    "an inventory with LITE is refused": f"{_CLI}test_wrong_usage_exits_2",
    "a table that a catalog manages is refused": (
        f"{_RUN}test_features_that_are_not_supported_refuse"
    ),
    "Hudi metadata are hidden": f"{_RUN}test_hidden_names_stay_at_every_level",
    "Iceberg metadata are hidden": (
        f"{_RUN}test_iceberg_tables_below_a_uniform_table_are_kept_whole"
    ),
    "by the log alone: from where the last run ended": (
        "operations/vacuum/test_lite.py::test_lite_goes_on_from_the_record"
    ),
    "by the log alone: again": (
        "operations/vacuum/test_lite.py::test_nothing_expired_since_the_last_run_ends_at_once"
    ),
    "by the log alone": (
        "operations/vacuum/test_lite.py::test_lite_finds_what_commits_removed_and_lists_nothing"
    ),
    "by the log alone where commits are gone": (
        "operations/vacuum/test_lite.py::"
        "test_lite_refuses_where_it_cannot_see_and_names_the_way_out"
    ),
}
SCENES: dict[str, Callable[[Path], None]] = {}
scene = partial(register, SCENES)

_NOW: Final[dict[str, Any]] = {"retain": "0h", "force_retention": True, "mode": "full"}


@pytest.mark.parametrize("scenario", HELD)
def test_another_test_holds(scenario: str) -> None:
    ensure_test_exists(HELD[scenario])


@pytest.mark.usefixtures("trusted_clock")
@pytest.mark.parametrize("scenario", SCENES)
def test_scenario(tmp_path: Path, scenario: str) -> None:
    SCENES[scenario](tmp_path / "t")


def names(path: Path) -> set[str]:
    found = {str(it.relative_to(path)) for it in path.rglob("*.*") if it.is_file()}
    return {it for it in found if not it.startswith((LOG, "_deltactl"))}


@scene("a planted file, then a removed one, then a table of nothing but its log")
def _(path: Path) -> None:
    disk = Disk(path)
    disk.write("planted.txt")
    assert set(disk.plan()) == {disk.gone, "planted.txt"}
    assert names(disk.path) == {disk.live, disk.gone, "planted.txt"}
    disk.vacuum()
    assert names(disk.path) == {disk.live}
    DeltaTable(str(disk.path)).delete()
    for retention, left in ((None, {disk.live}), (0, set()), (0, set())):
        disk.vacuum(retain_ms=retention, force_retention=retention == 0)
        assert names(disk.path) == left
    assert rows_with_delta_rs(disk.path) == []


@scene("a directory that is no table")
def _(path: Path) -> None:
    path.mkdir()
    pq.write_table(pa.table({"id": [1]}), path / "a.parquet")
    age(path)
    for place in (path, path / "nothing"):
        with pytest.raises(NotATableError):
            Table(place).vacuum(**_NOW)
    assert names(path) == {"a.parquet"}


@scene("a partition of a table")
def _(path: Path) -> None:
    write_deltalake(str(path), pa.table({"id": [1], "p": ["a"]}), partition_by=["p"])
    with pytest.raises(NotATableError) as caught:
        Table(path / "p=a").vacuum(**_NOW)
    assert caught.value.hint == f"Open the table at {path.as_uri()}."


@scene("a negative retention")
def _(path: Path) -> None:
    write_deltalake(str(path), pa.table({"id": [1]}))
    with pytest.raises(UsageError):
        Table(path).vacuum(retain="-2h")
    with pytest.raises(UsageError):
        VacuumOptions(retain_ms=-2 * HOUR)


@scene("less than the retention is refused, with deletion vectors too")
def _(_: Path) -> None:
    table = Scene("deletionVectors")
    (path,) = table.append(2)
    table.delete_rows(1, path, 0)
    with pytest.raises(SafetyError):
        table.vacuum(retain_ms=0)


@scene("a directory metadata goes where no table is published as Iceberg")
def _(_: Path) -> None:
    table = Scene()
    table.append(60)
    table.plant(60, "metadata/file1.json")
    assert table.plan() == {"metadata/file1.json": "orphan"}


@scene("deletion vectors go version by version")
def _(_: Path) -> None:
    table = Scene("deletionVectors", properties={"delta.enableDeletionVectors": "true"})
    table.builder.partition_by = ()
    paths = table.ago(
        50, lambda: table.builder.append(*([{"id": 10 * n + k, "p": "a"} for k in range(10)]
                                           for n in range(3)))
    )  # fmt: skip
    for path in paths:
        table.delete_rows(40, path, 0)  # version 4
    table.remove(30, paths[0])  # version 5
    for path in paths[1:]:
        table.delete_rows(20, path, 1)  # version 7
    left = []
    for days in (45, 35, 25, 15):
        version = table.builder.version
        planned = set(table.plan(retain_ms=days * DAY))
        assert not planned & table.needed(version)
        left.append((len([it for it in planned if it.endswith(".bin")]),
                     len([it for it in planned if it.endswith(".parquet")])))  # fmt: skip
    # The first file and its vector, then the vectors that others replaced.
    assert left == [(0, 0), (0, 0), (1, 1), (3, 1)]


@scene("purged deletion vectors go")
def _(path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    builder = TableBuilder(
        path, [Column("id")], features=["deletionVectors"], properties=properties
    )
    files = builder.append(*([{"id": 10 * n + k} for k in range(10)] for n in range(5)))
    for name in files[:4]:
        builder.delete_rows(name, range(0, 10, 2))
    rows = rows_with_delta_rs(path)
    Table(path).optimize(purge=True)
    assert len([*path.glob("*.bin")]) == 4
    Table(path).vacuum(**_NOW)
    assert not [*path.glob("*.bin")]
    assert len([*path.glob("*.parquet")]) == Table(path).snapshot().num_files
    assert sorted(row["id"] for row in rows_with_delta_rs(path)) == sorted(r["id"] for r in rows)
