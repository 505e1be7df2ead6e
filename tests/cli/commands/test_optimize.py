"""`deltactl optimize` from the shell: whole outputs, exit statuses, nothing changed by a look."""

import csv
import datetime as dt
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.cli.conftest import RunCli
from tests.support.table_builder import Column, TableBuilder, _pad, commit_path, multiset

ROW = {"id": 1, "v": "x" * 50}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Three partitions of five, three and one files, of fixed sizes; the shell stands beside it."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(
        tmp_path / "events",
        [Column("id"), Column("v", "string"), Column("day", "date"), Column("p", "string")],
        partition_by=["day", "p"],
        features=["deletionVectors"],
    )
    files = {"2024-01-01": 5, "2024-01-02": 3, "2024-01-03": 1}
    adds = []
    for day, count in files.items():
        for _ in range(count):
            row = {**ROW, "day": dt.date.fromisoformat(day), "p": "a b"}
            add = builder.write_file([row, row, row])
            pad_to(builder, add, 100_000)
            adds.append(add)
    builder.commit(*adds)
    return builder


def pad_to(builder: TableBuilder, add: dict[str, Any], size: int) -> None:
    path = unquote(add["add"]["path"])
    data = builder.store.read(path)
    builder.store.put(path, _pad(data, size - len(data)))
    add["add"]["size"] = size


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a_dry_run_on_a_terminal(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("optimize", "events", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Would rewrite 8 files (781.3 KiB) into 2, target 256 MiB, version 1\n"
        "  copied   0 of 8 row groups, 0 B of 781.3 KiB\n"
        "  encoded  below --min-row-group (8 row groups)\n"
        "\n"
        "Partitions to rewrite\n"
        "  partition             files  after       size  to rewrite\n"
        "  day=2024-01-01/p=a b      5      1  488.3 KiB   488.3 KiB\n"
        "  day=2024-01-02/p=a b      3      1    293 KiB     293 KiB\n"
        "\n"
        "Files by size\n"
        "  size of a file  now                           after\n"
        "  < 1 MiB           9  #######################      3  ########\n"
        "  small now: 9 of 9 files (100%), 878.9 KiB; small is below 192 MiB\n"
        "  small after: 3 of 3 files (100%), 878.9 KiB; small is below 192 MiB\n"
        "\n"
        "Not rewritten\n"
        "  files  reason\n"
        "      1  not worth a rewrite yet\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl optimize events\n"
    )


def test_the_command_to_type_next(cli: RunCli, table: TableBuilder) -> None:
    """As it was typed, quoted for a shell; what may be a password is left out."""
    secret = ("--storage-option", "key=hunter2", "--storage-option=token=a=b")
    ran = cli("optimize", "events", "--check", "--where", "p = 'a b'", *secret, "--dry-run")
    last = ran.out.splitlines()[-1]
    assert last == (
        """  deltactl optimize events --where "p = 'a b'" """
        "--storage-option key=... --storage-option=token=..."
    )
    assert "hunter2" not in ran.out + ran.err


def test_a_run_shows_sizes_rows_engine_and_undo(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("optimize", "events")
    assert (ran.code, ran.err) == (0, "")
    size = sum(path.stat().st_size for path in Path("events").rglob("part-*.parquet"))
    lines = ran.out.splitlines()
    assert lines[0] == "8 files became 2 in version 2"
    assert lines[1] == f"  size     781.3 KiB -> {size / 1024:.1f} KiB"
    assert lines[2:] == [
        "  rows     24 rewritten: row and null counts equal",
        "  target   256 MiB",
        "  copied   0 of 8 row groups, 0 B of 781.3 KiB",
        "  encoded  below --min-row-group (8 row groups)",
        "  engine   local (input below 1 GiB, no cluster configured)",
        "  undo     the old files stay until a vacuum; version 1 can still be read",
        "",
        "Not rewritten",
        "  files  reason",
        "      1  not worth a rewrite yet",
    ]


def test_a_second_run_has_nothing_to_do(cli: RunCli, table: TableBuilder) -> None:
    cli("optimize", "events")
    ran = cli("optimize", "events")
    assert ran.code == 0
    assert ran.out.startswith("Nothing to do")
    assert "version 2" in ran.out
    assert "      2  already written for this target size\n" in ran.out


def test_check_exits_3_while_there_is_work(cli: RunCli, table: TableBuilder) -> None:
    before = contents(Path("events"))
    ran = cli("optimize", "events", "--check")
    assert ran.code == 3
    assert "Would rewrite 8 files" in ran.out
    assert contents(Path("events")) == before
    assert cli("optimize", "events").code == 0
    assert cli("optimize", "events", "--check").code == 0


def test_looking_changes_nothing_at_all(cli: RunCli, table: TableBuilder) -> None:
    before = contents(Path("events"))
    for form in ("table", "json", "ndjson", "csv"):
        assert cli("optimize", "events", "--dry-run", "-o", form).code == 0
        assert cli("optimize", "events", "--purge", "--dry-run", "-o", form).code == 0
    assert contents(Path("events")) == before


def test_csv_has_a_row_for_each_partition_of_the_plan(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("optimize", "events", "--dry-run", "-o", "csv")
    assert list(csv.DictReader(io.StringIO(ran.out))) == [
        {
            "partition": f"day=2024-01-0{day}/p=a b",
            "files_before": str(count),
            "files_after": "1",
            "bytes_before": str(100_000 * count),
            "bytes_to_rewrite": str(100_000 * count),
            "bins": "1",
        }
        for day, count in ((1, 5), (2, 3))
    ]


def test_json_describes_the_run(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("optimize", "events", "-o", "json", "--where", "day = DATE '2024-01-01'")
    node, result = ran.document, ran.result
    assert (node["version_before"], node["version_after"], node["dry_run"]) == (1, 2, False)
    assert node["engine_reason"] == "input below 1 GiB, no cluster configured"
    assert (node["engine"], node["exit_code"], node["status"]) == ("local", 0, "done")
    assert (node["warnings"], node["error"], node["skipped"]) == ([], None, None)
    assert result["versions"] == [2]
    assert (result["files_removed"], result["files_added"]) == (5, 1)
    assert (result["bytes_removed"], result["rows_rewritten"]) == (500_000, 15)
    assert result["plan"]["left_alone"] == {"not matched by --where": 4}
    assert result["failures"] == result["conflicts"] == result["strays"] == []


def test_commits_in_batches(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("optimize", "events", "--commit-every", "1B", "--commit-every", "1h", "-o", "json")
    assert ran.result["versions"] == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--target-size", "0B"], "--target-size"),
        (["--codec", "middle-out"], "middle-out"),
        (["--codec", "zstd:x"], "zstd:x"),
        (["--codec", "zstd:99"], "zstd"),
        (["--codec", "zstd:--5"], "is not NAME or NAME:LEVEL"),
        (["--codec", "zstd:²"], "is not NAME or NAME:LEVEL"),
        (["--codec", "zstd:"], "is not NAME or NAME:LEVEL"),
        (["--commit-every", "1h", "--commit-every", "2h"], "--commit-every"),
        (["--commit-every", "soon"], "soon"),
        (["--commit-every", "0s"], "--commit-every must be more than zero"),
        (["--commit-every", "0B"], "--commit-every must be more than zero"),
        (["--where", "id = 1"], "id"),
        (["--where", "day ="], "SQL"),
        (["--min-row-group", "0MiB"], "--min-row-group must be more than zero"),
        (["--min-row-group", "1MiB", "--rewrite", "copy"], "be combined with --rewrite copy"),
        (["--min-row-group", "1MiB", "--rewrite", "encode"], "be combined with --rewrite encode"),
        (["--rewrite", "copy", "--codec", "gzip"], ".parquet' is compressed with snappy"),
        (["--rewrite", "copy", "--codec", "gzip", "--dry-run"], "is compressed with snappy"),
    ],
)
def test_wrong_usage_shows_the_value_and_changes_nothing(
    cli: RunCli, table: TableBuilder, arguments: list[str], word: str
) -> None:
    before = contents(Path("events"))
    ran = cli("optimize", "events", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert word in ran.err
    assert "Traceback" not in ran.err
    assert contents(Path("events")) == before


def test_a_broken_file_is_a_failure_although_other_bins_are_committed(
    cli: RunCli, table: TableBuilder
) -> None:
    victim = Path("events") / "day=2024-01-02" / "p=a b" / "f00006.parquet"
    victim.write_bytes(b"")
    ran = cli("optimize", "events", "-o", "json")
    node = ran.document
    assert ran.code == 1
    assert (node["error"]["code"], node["exit_code"]) == ("DATA_FILE", 1)
    assert "f00006.parquet" in node["error"]["message"]
    assert node["error"]["hint"].startswith("Run `deltactl explain FILE_SIZE`")
    assert node["result"]["versions"] == [2, 3]
    assert node["result"]["failures"][0]["files"] == 1
    ran = cli("optimize", "events")
    assert ran.code == 1
    assert "f00006.parquet" in ran.err


def test_a_missing_file_is_named_by_its_code(cli: RunCli, table: TableBuilder) -> None:
    (Path("events") / "day=2024-01-02" / "p=a b" / "f00006.parquet").unlink()
    ran = cli("optimize", "events", "-o", "json")
    node = ran.document
    assert (ran.code, node["status"]) == (1, "failed")
    assert node["error"]["code"] == "FILE_MISSING"
    failed = cli("optimize", "events", "--cluster-by", "nope", "-o", "json").document
    assert (failed["version_before"], failed["version_after"]) == (3, None)
    assert node["result"]["versions"] == [2, 3]
    assert ran.err.startswith("error: 1 file was not rewritten: ")


def test_a_version_with_a_missing_file_is_not_called_readable(
    cli: RunCli, table: TableBuilder
) -> None:
    (Path("events") / "day=2024-01-02" / "p=a b" / "f00006.parquet").unlink()
    out = cli("optimize", "events").out
    assert "the old files stay until a vacuum\n" in out
    assert "can still be read" not in out


class Rival:
    """Deletes a row of a file of some days, each time before optimize commits a bin of that day."""

    def __init__(
        self, table: TableBuilder, monkeypatch: pytest.MonkeyPatch, *days: bytes, times: int = 99
    ) -> None:
        self.table, self.days, self.left = table, days, times
        self.real: Callable[..., None] = LocalStore.put_if_absent
        self.patch = monkeypatch
        self.commits = 0
        monkeypatch.setattr(LocalStore, "put_if_absent", lambda *args: self.put(*args))

    def put(self, store: LocalStore, name: str, data: bytes) -> None:
        victims = [path for path in self.table.data if any(d in path.encode() for d in self.days)]
        if self.left and any(path.encode()[:14] in data for path in victims):
            self.left -= 1
            self.patch.setattr(LocalStore, "put_if_absent", self.real)
            while Path("events", commit_path(self.table.version + 1)).exists():
                self.table.note([])
            row, at = divmod(self.commits, 3)
            deletes = [victims[at]] + ([victims[5 + at]] if len(victims) > 5 else [])
            self.table.commit(*(a for v in deletes for a in self.table.delete_actions(v, [row])))
            self.commits += 1
            self.patch.setattr(LocalStore, "put_if_absent", lambda *args: self.put(*args))
        self.real(store, name, data)


def test_a_lost_bin_is_done_again(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Rival(table, monkeypatch, b"2024-01-02", times=1)
    ran = cli("optimize", "events", "--no-lease")
    assert ran.code == 0
    assert ran.out.startswith("8 files became 2 in versions 3-4\n")
    said = " ".join(ran.out.split())
    assert "1 bin, which deltactl planned again in 1 round" in said
    assert "Do not restore version 1: this would also undo 1 commit of other writers" in said
    assert "left" not in said
    rows = Table("events").scan().read_all().to_pylist()
    assert multiset(rows) == multiset(table.rows())


def test_a_bin_that_is_lost_in_every_round_is_partial_success(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        Rival(table, patch, b"2024-01-02")
        ran = cli("optimize", "events", "--no-lease", "--min-interval", "1d")
    assert ran.code == 5
    assert "error: 3 files were not changed: " in ran.err
    assert "hint: Rerun to rewrite the rest. 5 files became 1 in version 3." in ran.err
    assert ran.out.startswith("5 files became 1 in version 3\n")
    ran = cli("optimize", "events", "--no-lease", "--min-interval", "1d", "-o", "json")
    assert ran.code == 0
    assert ran.document["skipped"] is None  # the first run did not end well
    rows = Table("events").scan().read_all().to_pylist()
    assert multiset(rows) == multiset(table.rows())


def test_a_race_lost_in_every_round_exits_4(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = Rival(table, monkeypatch, b"2024-01-01", b"2024-01-02")
    ran = cli("optimize", "events", "--no-lease")
    assert (ran.code, ran.out) == (4, "")
    assert rival.commits == 4
    assert "error: " in ran.err
    assert "hint: " in ran.err
    assert {str(p) for p in Path("events").rglob("part-*")} == set()


def test_an_interrupt_in_this_process(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltactl.parquet import writer

    real = writer.DataFileWriter.close

    def close(self: writer.DataFileWriter, *before_sync: Any) -> writer.WrittenFile:
        os.kill(os.getpid(), signal.SIGINT)
        return real(self, *before_sync)

    monkeypatch.setattr(writer.DataFileWriter, "close", close)
    ran = cli("optimize", "events", "--max-concurrent", "1")
    assert ran.code == 130
    assert "interrupted; 5 files became 1 in version 2" in ran.err
    assert "hint: Rerun" in ran.err
