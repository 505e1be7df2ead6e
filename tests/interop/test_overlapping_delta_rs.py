"""Operations of delta-rs that begin before an optimize commits, and end after it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from deltactl.table import Table
from tests.support.restores import ids_of

IDS = [0, 1, 2, 3]
ROW = pa.table({"id": [100]})
ONE = pa.table({"id": [1]})
Act = Callable[[DeltaTable], object]


def overlap(root: Path, act: Act) -> Table:
    """Run an operation of a writer that read the version before an optimize."""
    for number in IDS:
        write_deltalake(root, pa.table({"id": [number]}), mode="append")
    stale = DeltaTable(root)
    table = Table(str(root))
    table.optimize()
    act(stale)
    return Table(str(root))


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (lambda it: write_deltalake(it, ROW, mode="overwrite"), [*IDS, 100]),
        (lambda it: it.delete(), IDS),
        (lambda it: it.optimize.compact(), sorted(IDS * 2)),
    ],
    ids=["overwrite", "delete", "compact"],
)
def test_what_delta_rs_does_not_detect_is_found(tmp_path: Path, act: Act, left: list[int]) -> None:
    table = overlap(tmp_path, act)
    assert ids_of(table) == left
    (row,) = table.check().findings.to_pylist()
    assert (row["code"], row["version"]) == ("REMOVE_REPEATED", 5)
    assert row["problem"].startswith("it removes 4 files that version 4 had already removed")


@pytest.mark.parametrize(
    "act",
    [
        lambda it: write_deltalake(it, ONE, mode="overwrite", predicate="id = 1"),
        lambda it: it.delete("id = 1"),
        lambda it: it.update(updates={"id": "9"}, predicate="id = 1"),
        lambda it: (
            it.merge(ROW, "t.id = s.id", source_alias="s", target_alias="t")
            .when_not_matched_insert_all()
            .execute()
        ),
    ],
    ids=["overwrite", "delete", "update", "merge"],
)
def test_delta_rs_detects_it_for_operations_with_a_predicate(tmp_path: Path, act: Act) -> None:
    with pytest.raises(CommitFailedError, match="concurrent"):
        overlap(tmp_path, act)
    table = Table(str(tmp_path))
    assert ids_of(table) == IDS
    assert not table.check().findings.num_rows


def test_files_that_were_added_again_can_be_removed_again(tmp_path: Path) -> None:
    """A restore adds them again."""
    for number in IDS:
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    table = Table(str(tmp_path))
    table.optimize()
    table.restore(version=3)
    DeltaTable(tmp_path).delete()
    assert not Table(str(tmp_path)).check().findings.num_rows
