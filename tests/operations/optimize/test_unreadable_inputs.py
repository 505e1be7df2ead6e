"""A file that cannot be read stops its bin; the other files of the bin are still rewritten."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltactl.errors import DataFileError, FileMissingError, StorageError, TransientStorageError
from deltactl.operations.optimize.unreadable_inputs import unreadable_mask
from deltactl.table import Table
from tests.support.forwarding import ForwardingStore
from tests.support.table_builder import Column, TableBuilder


def build(root: Path, files: int) -> list[str]:
    builder = TableBuilder(root, [Column("id")])
    return [builder.append([{"id": number}, {"id": -number}])[0] for number in range(files)]


@pytest.mark.parametrize("options", [{}, {"cluster_by": "id"}, {"rewrite": "copy"}])
def test_the_other_files_of_the_bin_are_rewritten(tmp_path: Path, options: dict[str, Any]) -> None:
    names = build(tmp_path, 6)
    (tmp_path / names[0]).write_bytes(b"no Parquet file at all")
    (tmp_path / names[3]).unlink()
    table = Table(tmp_path)
    with pytest.raises(DataFileError, match="2 files were not rewritten") as caught:
        table.optimize(**options)
    report: Any = caught.value.report
    assert (report.files_removed, report.files_added, report.rounds) == (4, 1, 2)
    [failure] = report.failures
    assert failure.files == 2
    assert isinstance(failure.error, DataFileError)
    live = pa.concat_tables(table.snapshot().file_batches(["path"]))["path"].to_pylist()
    assert set(live) & set(names) == {names[0], names[3]}
    with pytest.raises(DataFileError):
        table.optimize(**options)
    assert table.snapshot().version == report.version_after


@pytest.mark.parametrize("options", [{"rewrite": "encode"}, {"zorder_by": "id"}])
def test_a_damaged_page_behind_a_good_footer_stops_its_file_only(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    names = build(tmp_path, 5)
    for name in names[1:3]:
        data = bytearray((tmp_path / name).read_bytes())
        data[4:12] = b"\xff" * 8  # the header of the first page
        (tmp_path / name).write_bytes(data)
    with pytest.raises(DataFileError, match="2 files were not rewritten") as caught:
        Table(tmp_path).optimize(**options)
    report: Any = caught.value.report
    assert (report.files_removed, report.files_added, report.rounds) == (3, 1, 3)
    assert sum(failure.files for failure in report.failures) == 2
    assert all(isinstance(failure.error, DataFileError) for failure in report.failures)


def test_a_bin_whose_files_are_all_unreadable_is_not_tried_again(tmp_path: Path) -> None:
    for name in build(tmp_path, 3):
        (tmp_path / name).unlink()
    with pytest.raises(FileMissingError):
        Table(tmp_path).optimize()


@pytest.mark.parametrize(
    ("error", "found"), [(StorageError("denied"), True), (TransientStorageError("busy"), False)]
)
def test_no_file_counts_as_unreadable_while_the_store_is_busy(
    tmp_path: Path, error: StorageError, found: bool
) -> None:
    class Failing(ForwardingStore):
        def read(self, name: str) -> bytes:
            raise error

        def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
            raise error

    build(tmp_path, 2)
    table = Table(tmp_path)
    plan = table.optimize(dry_run=True).plan
    store = Failing(table.snapshot().store)
    assert unreadable_mask(store, plan.files, error).tolist() == [found] * 2
