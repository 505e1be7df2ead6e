"""The scenarios of the clone suites of Delta on Spark."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from deltactl import NotATableError, SafetyError, Table, UsageError
from deltactl.errors import ignore_warning
from tests.interop.suites import ensure_test_exists, register
from tests.support.table_builder import Column, TableBuilder, commit_path, struct_of

_RUN: Final = "operations/clone/test_run.py::"
_REPLACE: Final = "operations/clone/test_replace.py::"
HELD: Final = {
    "a shallow clone has only a log, of absolute paths": (
        f"{_RUN}test_the_commit_of_a_shallow_clone_is_that_of_spark"
    ),
    "metrics of the commit": f"{_RUN}test_the_commit_of_a_shallow_clone_is_that_of_spark",
    "metrics of the command": (
        "cli/commands/test_clone.py::test_shallow_shows_whose_files_the_clone_needs"
    ),
    "of a version": f"{_RUN}test_an_earlier_version",
    "between file systems": (
        "operations/clone/test_object_stores.py::"
        "test_clones_between_disk_and_object_store_have_the_same_rows"
    ),
    "the target is a Delta table": f"{_RUN}test_places_that_are_refused",
    "the target has other files": f"{_RUN}test_places_that_are_refused",
    "into itself is refused": f"{_RUN}test_places_that_are_refused",
    "REPLACE": f"{_REPLACE}test_the_new_version_is_that_of_the_source_and_the_old_one_stays",
    "REPLACE of another table is refused, though Spark takes an empty one": (
        f"{_REPLACE}test_other_tables_are_not_replaced"
    ),
    "transactions of the source do not travel": (
        f"{_RUN}test_what_is_about_commits_of_the_source_does_not_travel"
    ),
    "properties over those of the source": (
        f"{_RUN}test_properties_are_set_over_those_of_the_source"
    ),
    "the protocol that properties need": (
        f"{_RUN}test_properties_are_set_over_those_of_the_source"
    ),
    "a clone of a clone uses no file of the clone between": (
        f"{_RUN}test_a_source_that_is_a_shallow_clone"
    ),
    "deletion vectors of each kind": f"{_RUN}test_rows_and_vectors_of_every_kind",
    "deletion vectors named by absolute path": f"{_RUN}test_rows_and_vectors_of_every_kind",
    "the commit of Spark": "interop/test_clone_spark.py::test_a_shallow_clone_is_that_of_spark",
}
SCENES: dict[str, Callable[[Path], None]] = {}
scene = partial(register, SCENES)


@pytest.mark.parametrize("scenario", HELD)
def test_another_test_holds(scenario: str) -> None:
    ensure_test_exists(HELD[scenario])


@pytest.mark.parametrize("scenario", SCENES)
def test_scenario(tmp_path: Path, scenario: str) -> None:
    SCENES[scenario](tmp_path)


def write(path: Path, *ids: int) -> None:
    write_deltalake(str(path), pa.table({"id": ids}), mode="append")


def clone(source: Path, target: Path, **options: Any) -> None:
    Table(source, warn=ignore_warning).clone(target, deep=False, **options)


def ids(path: Path) -> list[int]:
    return sorted(Table(path).scan().read_all()["id"].to_pylist())


@scene("what is written to a clone is not in its source")
def _(root: Path) -> None:
    write(root / "source", 1, 2)
    clone(root / "source", root / "clone")
    write(root / "clone", 3)
    assert (ids(root / "source"), ids(root / "clone")) == ([1, 2], [1, 2, 3])
    Table(root / "clone").optimize()
    assert (ids(root / "source"), ids(root / "clone")) == ([1, 2], [1, 2, 3])


@scene("of a day")
def _(root: Path) -> None:
    for number in range(3):
        write(root / "source", number)
    os.utime(root / "source" / commit_path(0), (820_540_800,) * 2)  # 1996-01-02
    clone(root / "source", root / "clone", timestamp="1996-01-12")
    assert ids(root / "clone") == [0]


@scene("no source")
def _(root: Path) -> None:
    for version in (None, 0):
        with pytest.raises(NotATableError):
            clone(root / "source", root / "clone", version=version)
    assert not (root / "clone").exists()


@scene("bare Parquet files")
def _(root: Path) -> None:
    (root / "source").mkdir()
    pq.write_table(pa.table({"id": [1]}), root / "source" / "1.parquet")
    with pytest.raises(NotATableError):
        clone(root / "source", root / "clone")
    assert not (root / "clone").exists()


@scene("REPLACE creates what does not exist")
def _(root: Path) -> None:
    write(root / "source", 1)
    clone(root / "source", root / "clone", replace=True)
    assert ids(root / "clone") == [1]


@scene("deletion vectors with a clone between")
def _(root: Path) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    builder = TableBuilder(
        root / "source", [Column("id")], features=["deletionVectors"], properties=vectors
    )
    files = builder.append(*([{"id": 30 * n + k} for k in range(30)] for n in range(3)))
    builder.delete_rows(files[0], [24])
    clone(root / "source", root / "one")
    builder.delete_rows(files[1], [12])
    clone(root / "one", root / "two")
    assert len(ids(root / "two")) == 89
    clone(root / "source", root / "one", replace=True)
    assert (len(ids(root / "one")), len(ids(root / "two"))) == (88, 89)
    # A vector that is there stays, also where no new one may be written; Spark refuses.
    off = {"delta.enableDeletionVectors": "false"}
    clone(root / "source", root / "off", properties=off)
    assert ids(root / "off") == ids(root / "source")


def refuse(key: str, value: str, root: Path) -> None:
    builder = TableBuilder(root / "source", [Column("id")], mapping="name")
    builder.append([{"id": 1}])
    with pytest.raises(UsageError, match="cannot set the property") as caught:
        clone(root / "source", root / "clone", properties={key: value})
    assert "alter" in str(caught.value.hint) or "Omit" in str(caught.value.hint)
    assert not (root / "clone").exists()


for _key, _value in (
    ("delta.columnMapping.maxColumnId", "123123"),
    ("delta.columnMapping.mode", "id"),
    ("delta.columnMapping.mode", "none"),
    ("delta.minWriterVersion", "7"),
    ("delta.feature.checkpointProtection", "enabled"),
):
    scene(f"{_key} = {_value} is refused")(partial(refuse, _key, _value))


@scene("column mapping and the columns of statistics stay")
def _(root: Path) -> None:
    nested = struct_of(Column("a", "integer"), Column("b", "integer"))
    properties = {"delta.dataSkippingStatsColumns": "c1,c2.a,c2.b"}
    columns = [Column("c0"), Column("c1"), Column("c2", nested)]
    builder = TableBuilder(root / "source", columns, mapping="name", properties=properties)
    builder.append([{"c0": 1, "c1": 2, "c2": {"a": 3, "b": 4}}])
    clone(root / "source", root / "clone")
    source, copy = (Table(root / name).snapshot() for name in ("source", "clone"))
    assert copy.metadata.configuration == source.metadata.configuration
    assert copy.metadata.schema == source.metadata.schema
    assert copy.protocol == source.protocol
    found = [Table(root / name).scan().read_all() for name in ("source", "clone")]
    assert found[0] == found[1]
    with pytest.raises(SafetyError):
        clone(root / "clone", root / "source", replace=True)
