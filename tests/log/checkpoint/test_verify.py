"""A checkpoint file with other rows than were written is found, whatever its row groups are."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.errors import VerificationError
from deltactl.log.checkpoint import action_file
from deltactl.log.checkpoint.action_file import WrittenActions
from deltactl.log.checkpoint.verify import verify_actions
from deltactl.storage.open import open_store
from tests.log.checkpoint.test_action_file import make_adds, open_writer

NAME = "x.parquet"


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_file, "_ROW_GROUP_ROWS", 10)


def write_file(folder: Path, num_rows: int) -> WrittenActions:
    with open_writer(folder) as writer:
        for first in range(0, num_rows, 4):
            writer.write_adds(make_adds(first, min(4, num_rows - first)))
        return writer.close()


@pytest.mark.parametrize("num_rows", [0, 1, 12, 121])
def test_a_sound_file_is_accepted(tmp_path: Path, num_rows: int) -> None:
    verify_actions(open_store(str(tmp_path)), 0, write_file(tmp_path, num_rows))


def stored_groups(folder: Path) -> list[pa.Table]:
    parquet = pq.ParquetFile(folder / NAME)
    return [parquet.read_row_group(number) for number in range(parquet.num_row_groups)]


def store_groups(folder: Path, groups: list[pa.Table]) -> None:
    with pq.ParquetWriter(folder / NAME, groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)


@pytest.mark.parametrize("damage", ["more", "fewer", "swapped", "twice", "other rows"])
def test_other_row_groups_are_found(tmp_path: Path, damage: str) -> None:
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
    else:
        moved = pa.concat_tables([groups[3], groups[4]])
        groups[3:5] = [moved.slice(0, 5), moved.slice(5)]
        groups[4] = pa.concat_tables([groups[4].slice(1), groups[4].slice(0, 1)])
    store_groups(tmp_path, groups)
    with pytest.raises(VerificationError):
        verify_actions(open_store(str(tmp_path)), 0, written)


def test_a_wrong_count_is_named(tmp_path: Path) -> None:
    written = write_file(tmp_path, 24)
    wrong = replace(written, adds=replace(written.adds, count=25))
    with pytest.raises(VerificationError, match="25 were written, but the file has 24"):
        verify_actions(open_store(str(tmp_path)), 0, wrong)
