"""The digests of a file are those of its row groups; a row group too many or too few is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import VerificationError
from deltactl.log.checkpoint import verify, write
from deltactl.log.checkpoint.read import CheckpointHead
from deltactl.log.checkpoint.verify import verify_actions
from deltactl.log.checkpoint.write import WrittenActions
from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import open_store
from tests.log.checkpoint.test_write import make_adds, open_writer

NAME = "x.parquet"


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "_ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(pa, "cpu_count", lambda: 3)


def write_file(folder: Path, num_rows: int) -> WrittenActions:
    with open_writer(folder) as writer:
        for first in range(0, num_rows, 4):
            writer.write_adds(make_adds(first, min(4, num_rows - first)))
        return writer.close()


@pytest.mark.parametrize("num_rows", [0, 1, 12, 13, 24, 35, 100, 121])
def test_a_file_is_read_back_in_shares(tmp_path: Path, num_rows: int) -> None:
    written = write_file(tmp_path, num_rows)
    assert sum(written.group_adds) == num_rows
    shares = verify._share_groups(
        LocalStore(str(tmp_path)), CheckpointHead(0, (NAME,)), written.group_adds
    )
    groups = [group for share in shares for group in share]
    assert groups == list(range(len(written.group_adds)))
    assert len(shares) == max(1, min(3, len(written.group_adds)))
    verify_actions(open_store(str(tmp_path)), 0, written)


def stored_groups(folder: Path) -> list[pa.Table]:
    parquet = pq.ParquetFile(folder / NAME)
    return [parquet.read_row_group(number) for number in range(parquet.num_row_groups)]


def store_groups(folder: Path, groups: list[pa.Table]) -> None:
    with pq.ParquetWriter(folder / NAME, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)


@pytest.mark.parametrize("cpus", [1, 3])
@pytest.mark.parametrize("damage", ["more", "fewer", "swapped", "twice", "other rows", "divided"])
def test_other_row_groups_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str, cpus: int
) -> None:
    monkeypatch.setattr(pa, "cpu_count", lambda: cpus)
    written = write_file(tmp_path, 60)
    groups = stored_groups(tmp_path)
    store_groups(tmp_path, groups)
    verify_actions(open_store(str(tmp_path)), 0, written)
    if damage == "more":
        groups.append(groups[0])
    elif damage == "fewer":
        del groups[-1]
    elif damage == "swapped":
        groups[1:3] = groups[2:0:-1]
    elif damage == "twice":
        groups[3] = groups[2]
    elif damage == "other rows":
        moved = pa.concat_tables([groups[3], groups[4]])
        groups[3:5] = [moved.slice(0, 5), moved.slice(5)]
        groups[4] = pa.concat_tables([groups[4].slice(1), groups[4].slice(0, 1)])
    else:
        groups[0:1] = [groups[0].slice(0, 5), groups[0].slice(5)]
    store_groups(tmp_path, groups)
    if damage == "divided" and cpus == 1:  # the same rows in the same order
        verify_actions(open_store(str(tmp_path)), 0, written)
        return
    with pytest.raises(VerificationError):
        verify_actions(open_store(str(tmp_path)), 0, written)


def test_a_wrong_count_is_named(tmp_path: Path) -> None:
    written = write_file(tmp_path, 24)
    wrong = replace(written, adds=replace(written.adds, count=25))
    with pytest.raises(VerificationError, match="25 were written, but the file has 24"):
        verify_actions(open_store(str(tmp_path)), 0, wrong)
