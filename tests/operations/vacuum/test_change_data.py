"""The change data of a commit without change data files are the files that it added and removed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl.table import Table

NOW: dict[str, Any] = {"retain": "0s", "force_retention": True}


def build(root: Path, **properties: str) -> None:
    """Versions 0 and 1 append; version 2 deletes a whole file; version 3 appends."""
    configuration = {f"delta.{name}": value for name, value in properties.items()}
    for number, day in enumerate(["a", "b", None, "b"]):
        if day is None:
            DeltaTable(root).delete("day = 'a'")
            continue
        rows = pa.table({"id": [number], "day": [day]})
        options: dict[str, Any] = {} if number else {"configuration": configuration}
        write_deltalake(root, rows, mode="append", partition_by=["day"], **options)


def read_changes(root: Path, version: int) -> list[tuple[int, str]]:
    feed = DeltaTable(root).load_cdf(starting_version=version, ending_version=version)
    rows = pa.table(feed.read_all())
    return sorted(zip(rows["id"].to_pylist(), rows["_change_type"].to_pylist(), strict=True))


@pytest.mark.parametrize("mode", ["lite", "full"])
@pytest.mark.parametrize("options", [{"keep_last": 2}, {"keep_versions": [2]}])
def test_those_of_a_kept_version_are_kept(
    tmp_path: Path, options: dict[str, Any], mode: Any
) -> None:
    build(tmp_path, enableChangeDataFeed="true")
    assert read_changes(tmp_path, 2) == [(0, "delete")]
    report = Table(tmp_path).vacuum(mode=mode, **NOW, **options)
    assert report.files_removed == 0
    assert read_changes(tmp_path, 2) == [(0, "delete")]


def test_those_of_a_restore_are_kept(tmp_path: Path) -> None:
    build(tmp_path, enableChangeDataFeed="true")
    Table(tmp_path).restore(version=1)
    before = read_changes(tmp_path, 4)
    Table(tmp_path).vacuum(keep_last=1, **NOW)
    assert read_changes(tmp_path, 4) == before


def test_a_table_without_a_feed_keeps_no_file_for_it(tmp_path: Path) -> None:
    build(tmp_path)
    assert Table(tmp_path).vacuum(keep_last=2, **NOW).files_removed == 1


def test_versions_that_lose_them_are_named(tmp_path: Path) -> None:
    build(tmp_path, enableChangeDataFeed="true")
    horizon = Table(tmp_path).vacuum(**NOW).plan.horizon
    assert horizon is not None
    assert (horizon.ends, horizon.change_data_ends) == (((0, 1),), ((2, 2),))
    with pytest.raises(Exception, match="day=a"):
        read_changes(tmp_path, 2)


def test_an_optimize_has_no_change_data(tmp_path: Path) -> None:
    build(tmp_path, enableChangeDataFeed="true")
    Table(tmp_path).optimize()
    horizon = Table(tmp_path).vacuum(keep_last=1, **NOW).plan.horizon
    assert horizon is not None
    assert horizon.change_data_ends == ((2, 2),)
