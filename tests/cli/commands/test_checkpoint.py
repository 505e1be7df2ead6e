"""`deltactl checkpoint` from the shell: whole outputs, exit statuses, nothing changed by a look."""

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deltactl.errors import StorageError
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.cli.conftest import RunCli
from tests.support.table_builder import START_MS, Column, TableBuilder

DAY = 24 * 60 * 60
CLASSIC = f"{2:020d}.checkpoint.parquet"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Version 2 with three files of one row; the shell stands beside it."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(tmp_path / "events", [Column("id")])
    for add in [[{"id": 1}], [{"id": 2}]], [[{"id": 3}]]:
        builder.commit(*(builder.write_file(rows) for rows in add))
    return builder


def names(builder: TableBuilder) -> set[str]:
    return {info.name.rpartition("/")[2] for info in builder.store.list_from("_delta_log")}


def make_old(root: Path, days: int) -> None:
    for number, path in enumerate(sorted((root / "_delta_log").iterdir())):
        os.utime(path, (START_MS // 1000 - days * DAY + number,) * 2)


def test_a_dry_run_on_a_terminal(cli: RunCli, table: TableBuilder) -> None:
    before = names(table)
    ran = cli("checkpoint", "events", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Would write a classic checkpoint of version 2, at most 3 file actions\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl checkpoint events\n"
    )
    assert names(table) == before


def test_a_run_and_a_second_one(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("checkpoint", "events")
    assert (ran.code, ran.err) == (0, "")
    first, *rest = ran.out.splitlines()
    assert first == "Version 2 has a classic checkpoint, read back and verified"
    labels = ["live files", "tombstones", "written", "_last_checkpoint"]
    assert [line.split("  ")[1] for line in rest] == labels
    assert {CLASSIC, "_last_checkpoint"} <= names(table)
    again = cli("checkpoint", "events")
    assert (again.code, again.out) == (
        0,
        f"Nothing to do: version 2 already has a checkpoint:\n{CLASSIC}\n",
    )


def test_an_existing_checkpoint_keeps_its_form(cli: RunCli, table: TableBuilder) -> None:
    cli("checkpoint", "events", "--compat", "plain")
    again = cli("checkpoint", "events", "--compat", "spark")
    assert again.code == 0
    assert "already has a checkpoint" in again.out
    assert "--compat spark applies to new checkpoints only" in " ".join(again.out.split())


def test_an_outdated_hint_is_replaced(cli: RunCli, table: TableBuilder) -> None:
    cli("checkpoint", "events")
    table.store.put("_delta_log/_last_checkpoint", b'{"version":1,"size":1}')
    reason = f"version 2 already has a checkpoint:\n{CLASSIC}\n"
    planned = cli("checkpoint", "events", "--dry-run")
    assert planned.out.startswith(f"Would replace _last_checkpoint: {reason}")
    ran = cli("checkpoint", "events")
    assert (ran.code, ran.out) == (0, f"Replaced _last_checkpoint: {reason}")


def test_json_tells_the_kind_and_that_the_hint_moved(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("checkpoint", "events", "--kind", "classic", "-o", "json")
    found: dict[str, Any] = ran.document
    assert (ran.code, found["command"], found["table"]) == (0, "checkpoint", "events")
    assert (found["version_before"], found["version_after"]) == (2, 2)
    assert (found["dry_run"], found["engine"], found["error"]) == (False, "local", None)
    result = found["result"]
    assert (result["kind"], result["hint_moved"], result["cleanup"]) == ("classic", True, None)
    written = result["checkpoint"]
    assert (written["adds"], written["removes"], written["actions"]) == (3, 0, 5)
    assert len(written["files"]) == 1
    assert written["bytes"] == sum(
        info.size_bytes for info in table.store.stat_many(written["files"]) if info is not None
    )


def test_check_says_whether_one_is_due(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("checkpoint", "events", "--check")
    assert ran.code == 0
    assert ran.out == (
        "No checkpoint is due\n"
        "  version          2\n"
        "  last checkpoint  none yet\n"
        "  interval         10 commits\n"
    )
    assert cli("checkpoint", "events", "--check", "--if-needed", "commits=3").code == 3
    assert cli("checkpoint", "events", "--check", "--if-needed", "commits=4").code == 0
    table.change_metadata(properties={"delta.checkpointInterval": "3"})
    due = cli("checkpoint", "events", "--check", "-o", "json")
    assert due.code == 3
    assert due.result == {
        "version": 3,
        "last_checkpoint": None,
        "interval": 3,
        "due": True,
        "hint_problem": None,
    }
    assert CLASSIC not in names(table)


def test_check_says_that_the_hint_is_wrong(cli: RunCli, table: TableBuilder) -> None:
    cli("checkpoint", "events")
    table.append([{"id": 4}])
    table.store.put("_delta_log/_last_checkpoint", b'{"version":2,"size":5,"parts":2}')
    assert cli("checkpoint", "events", "--check", "--if-needed", "commits=2").code == 0
    due = cli("checkpoint", "events", "--check")
    assert due.code == 3
    assert "the number of parts in _delta_log/_last_checkpoint is wrong" in due.out
    cli("checkpoint", "events")
    assert cli("checkpoint", "events", "--check").code == 0


@pytest.mark.usefixtures("trusted_clock")
def test_cleanup_is_shown_then_done(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    make_old(tmp_path / "events", 60)
    shown = cli("checkpoint", "events", "--cleanup", "--dry-run")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[2].startswith("Would delete 2 files of the log (")
    assert lines[3] == "  oldest checkpoint   version 2"
    assert lines[6] == "  no longer readable  versions 0-1"
    assert lines[7] == f"  _delta_log/{0:020d}.json"
    assert f"{0:020d}.json" in names(table)
    ran = cli("checkpoint", "events", "--cleanup")
    assert ran.code == 0
    assert "no longer readable  versions 0-1\n" in ran.out
    assert names(table) == {CLASSIC, f"{2:020d}.json", "_last_checkpoint"}
    assert Table(str(tmp_path / "events")).snapshot().num_files == 3
    again = cli("checkpoint", "events", "--cleanup-only")
    assert again.out == (
        "Nothing to do: no checkpoint was requested\n"
        "  log cleanup: nothing is left before version 2\n"
    )


@pytest.mark.usefixtures("trusted_clock")
def test_a_log_file_that_is_not_deleted_is_counted(
    cli: RunCli, table: TableBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: LocalStore, names: Sequence[str]) -> dict[str, StorageError]:
        return {name: StorageError("denied") for name in names[:1]}

    make_old(tmp_path / "events", 60)
    monkeypatch.setattr(LocalStore, "delete_many", refuse)
    ran = cli("checkpoint", "events", "--cleanup")
    assert ran.code == 8
    assert "error: 1 log file was not deleted: denied\n" in ran.err


def test_a_cleanup_asks_if_only_the_clock_of_this_machine_shows_the_time(
    cli: RunCli, table: TableBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(tmp_path / "events", 60)
    before = names(table)
    monkeypatch.setattr("deltactl.cli.commands.checkpoint.can_ask", lambda session: True)
    monkeypatch.setattr("deltactl.cli.commands.checkpoint.ask", lambda session, question: False)
    shown = cli("checkpoint", "events", "--cleanup", "--dry-run")
    assert shown.code == 0
    assert "a real run asks this question: This machine's clock says " in shown.err
    assert "Delete 2 log files?" in shown.err
    shown = cli("checkpoint", "events", "--cleanup", "--dry-run", "--yes")
    assert "with --yes, a real run does not ask this question: This machine's" in shown.err
    assert names(table) == before
    refused = cli("checkpoint", "events", "--cleanup")
    assert refused.code == 6
    assert names(table) == before
    assert cli("checkpoint", "events", "--cleanup", "--yes").code == 0
    assert names(table) == {CLASSIC, f"{2:020d}.json", "_last_checkpoint"}


def test_without_a_terminal_a_cleanup_keeps_what_only_the_clock_calls_expired(
    cli: RunCli, table: TableBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(tmp_path / "events", 60)
    before = names(table)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ran = cli("checkpoint", "events", "--cleanup")
    assert ran.code == 0
    assert "warning: 2 log files are kept: only this machine's clock shows" in ran.err
    assert "--cleanup-only` on a terminal, which asks" in ran.err
    assert names(table) == before | {CLASSIC, "_last_checkpoint"}
    assert cli("checkpoint", "events", "--cleanup-only", "--yes").code == 0
    assert names(table) == {CLASSIC, f"{2:020d}.json", "_last_checkpoint"}


@pytest.mark.usefixtures("trusted_clock")
def test_a_cleanup_without_a_checkpoint_begins_with_what_it_did(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    assert cli("checkpoint", "events").code == 0
    make_old(tmp_path / "events", 60)
    ran = cli("checkpoint", "events", "--cleanup")
    assert ran.out.startswith("Deleted 2 files of the log (")


@pytest.mark.usefixtures("trusted_clock")
def test_hidden_files_of_killed_runs_go_a_day_later(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    """What others hide there stays, and what may still be written."""
    make_old(tmp_path / "events", 60)
    log = tmp_path / "events" / "_delta_log"
    killed, fresh = (log / f".deltactl-{digit * 32}.tmp" for digit in "ab")
    others = [log / ".deltactl-mine.tmp", log / f".deltactl-{'c' * 32}.tmp.bak"]
    for path in (killed, fresh, *others):
        path.write_bytes(b"half")
        if path != fresh:
            os.utime(path, (START_MS // 1000,) * 2)
    found = cli("checkpoint", "events", "--cleanup", "-o", "json").result
    assert found["cleanup"]["files"][-1] == f"_delta_log/{killed.name}"
    assert len(found["cleanup"]["files"]) == 3
    assert not killed.exists()
    assert all(path.exists() for path in (fresh, *others))


def test_hidden_files_alone_are_shown(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    name = f".deltactl-{'a' * 32}.tmp"
    path = tmp_path / "events" / "_delta_log" / name
    path.write_bytes(b"half")
    os.utime(path, (START_MS // 1000,) * 2)
    ran = cli("checkpoint", "events", "--cleanup-only", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert "Would delete 1 file of the log (4 B)" in ran.out
    assert name in ran.out
    assert "oldest checkpoint" not in ran.out
    assert path.exists()


def test_repair_names_the_culprit(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    cli("checkpoint", "events")
    broken = tmp_path / "events" / "_delta_log" / CLASSIC
    broken.write_bytes(broken.read_bytes()[:300])
    checked = cli("checkpoint", "events", "--repair", "--check")
    assert checked.code == 3
    assert checked.out.startswith("2 problems found: 1 checkpoint and _last_checkpoint checked\n")
    assert (
        f"  _delta_log/{CLASSIC}  found\n      problem: it cannot be read completely\n"
        in checked.out
    )
    ran = cli("checkpoint", "events", "--repair", "-o", "json")
    found = ran.result
    assert ran.code == 0
    assert [finding["repaired"] for finding in found["findings"]] == [True, True]
    sound = cli("checkpoint", "events", "--repair", "--check")
    assert (sound.code, sound.out) == (
        0,
        "Nothing to repair: 1 checkpoint and _last_checkpoint checked\n",
    )


def test_what_was_not_repaired_is_a_failure(cli: RunCli, table: TableBuilder) -> None:
    crc = {"numFiles": 0, "tableSizeBytes": 0, "numMetadata": 1, "numProtocol": 1}
    state = table.state
    node = {**crc, "metadata": state.metadata, "protocol": state.protocol}
    cli("checkpoint", "events", "--version", "1")
    table.store.put(f"_delta_log/{2:020d}.crc", json.dumps(node).encode())
    table.forget_commits(1)  # which of the two is wrong cannot be told any more
    ran = cli("checkpoint", "events", "--repair")
    assert ran.code == 1
    assert "was not repaired" in ran.err


def test_a_checkpoint_that_may_be_right_is_refused(cli: RunCli, table: TableBuilder) -> None:
    cli("checkpoint", "events")
    commit = f"_delta_log/{1:020d}.json"
    lines = table.store.read(commit).splitlines(keepends=True)
    table.store.put(commit, b"".join(line for line in lines if b'"add"' not in line))
    ran = cli("checkpoint", "events", "--repair")
    assert ran.code == 6
    assert "which no commit adds" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--kind", "v2"], 7, "run `deltactl alter events --add-feature v2Checkpoint` first"),
        (["--version", "9"], 1, "no version 9"),
        (["--version", "-1"], 2, "--version"),
        (["--kind", "odd"], 2, "odd"),
        (["--kind", "multipart"], 2, "auto, classic, v2"),
        (["--check", "--cleanup"], 2, "--check and --cleanup cannot"),
        (
            ["--repair", "--kind", "classic", "--cleanup"],
            2,
            "--repair and --kind cannot be combined",
        ),
        (["--cleanup-only", "--cleanup"], 2, "--cleanup-only"),
    ],
)
def test_a_refused_checkpoint_changes_nothing(
    cli: RunCli, table: TableBuilder, words: list[str], code: int, said: str
) -> None:
    before = names(table)
    ran = cli("checkpoint", "events", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert names(table) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("events", "--compact-log"), "Would compact the commits 0 to 2 into one file"),
        (("--compact-log", "events"), "Would compact the commits 0 to 2 into one file"),
        (("--compact-log", "1..2", "events"), "Would compact the commits 1 to 2 into one file"),
        (("events", "--compact-log=0..1"), "Would compact the commits 0 to 1 into one file"),
    ],
)
def test_the_range_of_a_compaction_may_be_left_out(
    cli: RunCli, table: TableBuilder, words: tuple[str, ...], told: str
) -> None:
    ran = cli("checkpoint", *words, "--dry-run")
    assert (ran.code, told in ran.out) == (0, True), ran.out
    assert "is not a range of at least two versions" in cli("checkpoint", "--compact-log=2..1").err
