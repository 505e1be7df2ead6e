"""A commit of a writer whose clock was behind: its date shows no end of a retention."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from deltactl.errors import CorruptLogError
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import rows_with_delta_rs
from tests.support.damage import edit_action
from tests.support.table_builder import Column, TableBuilder, commit_path

pytestmark = pytest.mark.usefixtures("trusted_clock")

DAY_SECONDS = 24 * 3600


class Aged:
    """Versions 1 to 3 append a row each; version 4 replaces all; version 5 appends."""

    def __init__(self, root: Path, features: list[str]) -> None:
        self.root, self.now, self.has_times = root, time.time(), bool(features)
        self.builder = TableBuilder(LocalStore(str(root)), [Column("id")], features=features)
        paths = [self.builder.append([{"id": number}])[0] for number in (1, 2, 3)]
        added = self.builder.write_file([{"id": 4}])
        self.builder.commit(*map(self.builder.remove_action, paths), added)
        self.builder.append([{"id": 5}])

    def date(self, ages: list[float]) -> None:
        """Date each commit, and the removes of version 4, so many days before now."""
        stated = 0
        for version, days in enumerate(ages):
            when = self.now - days * DAY_SECONDS
            stated = max(int(when * 1000), stated + 1)  # as a writer does whose clock is behind
            if self.has_times:
                times = {"inCommitTimestamp": stated, "timestamp": int(when * 1000)}
                edit_action(self.builder, version, "commitInfo", **times)
            if version == 4:
                edit_action(self.builder, 4, "remove", deletionTimestamp=int(when * 1000))
            os.utime(self.root / commit_path(version), (when, when))
        for path in self.root.glob("*.parquet"):
            os.utime(path, (self.now - 60 * DAY_SECONDS,) * 2)

    def vacuum(self, **options: Any) -> tuple[int, list[str]]:
        said: list[str] = []
        report = Table(self.root, warn=said.append).vacuum(**options)
        return report.files_removed, said


@pytest.mark.parametrize("features", [[], ["inCommitTimestamp"]], ids=["dates", "in commits"])
@pytest.mark.parametrize("mode", ["lite", "full"])
def test_files_that_it_removed_are_kept_after_the_next_commit(
    tmp_path: Path, mode: str, features: list[str]
) -> None:
    table = Aged(tmp_path, features)
    table.date([13, 12, 11, 10, 40, 0])
    files, said = table.vacuum(mode=mode)
    assert files == 0
    assert any("commit 4 may be newer than its date" in it for it in said)
    Table(tmp_path).restore(version=3)
    assert sorted(row["id"] for row in rows_with_delta_rs(tmp_path)) == [1, 2, 3]


@pytest.mark.parametrize("ages", [[13, 12, 11, 10, 40, 9], [13, 12, 11, 10, 10.01, 0]])
def test_they_are_removed_when_the_next_commit_shows_it(tmp_path: Path, ages: list[float]) -> None:
    """Or if the clocks of two writers differ by minutes."""
    table = Aged(tmp_path, [])
    table.date(ages)
    assert table.vacuum(mode="full") == (3, [])


@pytest.mark.parametrize("days_ago", [0.001, -400])
def test_in_commit_timestamps_show_that_an_earlier_file_is_a_copy(
    tmp_path: Path, days_ago: float
) -> None:
    """Copied back today, or with a date in the future."""
    table = Aged(tmp_path, ["inCommitTimestamp"])
    table.date([13, 12, 11, 10, 9, 0.01])
    when = table.now - days_ago * DAY_SECONDS
    os.utime(tmp_path / commit_path(3), (when, when))
    assert table.vacuum(mode="full") == (3, [])


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_a_file_server_dates_the_commit_and_the_clock_of_the_writer_is_behind(
    tmp_path: Path, mode: str
) -> None:
    table = Aged(tmp_path, ["inCommitTimestamp"])
    table.date([13, 12, 11, 10, 40, 0])
    when = table.now - 900
    os.utime(tmp_path / commit_path(4), (when, when))
    files, said = table.vacuum(mode=mode)
    assert files == 0
    assert any("commit 4 may be newer than its date" in it for it in said)
    assert table.vacuum(mode="full", retain="0s", force_retention=True)[0] == 3


def test_each_run_says_why_files_are_kept(tmp_path: Path) -> None:
    table = Aged(tmp_path, [])
    table.date([13, 12, 11, 10, 40, 0])
    for _ in range(3):
        _, said = table.vacuum()
        assert any("commit 4 may be newer than its date" in it for it in said)


def test_the_latest_commit_is_misdated(tmp_path: Path) -> None:
    table = Aged(tmp_path, [])
    table.date([13, 12, 11, 10, 40, 39])
    assert table.vacuum(mode="full")[0] == 0
    assert table.vacuum(mode="full", retain="0s", force_retention=True)[0] == 3


def test_a_commit_that_is_empty_is_named_as_such(tmp_path: Path) -> None:
    table = Aged(tmp_path, ["inCommitTimestamp"])
    table.date([13, 12, 11, 10, 9, 0])
    table.builder.checkpoint(5)
    (tmp_path / commit_path(3)).write_bytes(b"")
    with pytest.raises(CorruptLogError, match="3.json is empty: the write was truncated"):
        table.vacuum(retain="10d")
