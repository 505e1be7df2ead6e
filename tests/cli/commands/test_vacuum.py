"""`deltactl vacuum` from the shell: whole outputs, exit statuses, nothing changed by a look."""

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltactl.cli.output.page import Page
from deltactl.cli.pages.vacuum import describe_vacuum
from deltactl.errors import (
    AccessDeniedError,
    ConflictError,
    CredentialsExpiredError,
    FileMissingError,
    StorageError,
)
from deltactl.operations.clone_notes import CloneNote, mark_running, read_notes, write_note
from deltactl.operations.vacuum import purge, removal
from deltactl.operations.vacuum.lost import find_vacuum_error
from deltactl.operations.vacuum.purge import PurgeReport
from deltactl.operations.vacuum.report import FileFailure
from deltactl.operations.vacuum.run import VacuumOptions, vacuum_table
from deltactl.operations.vacuum.undo import UndoReport
from deltactl.storage.local.store import LocalStore
from tests.cli.conftest import RunCli
from tests.cli.output.test_output import Screen
from tests.support.run import run_on
from tests.support.table_builder import Column, TableBuilder, commit_path

ALL = "--include-unknown"
OLD_MS = 1_600_000_000_000  # 2020-09-13: older than any retention

pytestmark = pytest.mark.usefixtures("trusted_clock")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Two live files and two removed ones, an orphan, an empty folder; the shell beside it."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(
        tmp_path / "events", [Column("id"), Column("p", "string")], partition_by=["p"]
    )
    adds = [builder.write_file([{"id": i, "p": p}]) for i, p in enumerate("aabb")]
    builder.commit(*adds)
    paths = [add["add"]["path"] for add in adds]
    builder.remove(paths[1], paths[2])
    for name in (paths[1], paths[2]):
        builder.store.put(name, b"x" * 1024)
    builder.store.put("p=c/orphan.parquet", b"x" * 500)
    (tmp_path / "events" / "none").mkdir()
    for folder, folders, files in os.walk(tmp_path / "events"):
        for name in [*folders, *files]:
            os.utime(Path(folder, name), (OLD_MS / 1000, OLD_MS / 1000))
    return builder


def give_logged_sizes(table: TableBuilder) -> None:
    """Let the two removed files have the sizes that the log has."""
    for add in (line["add"] for line in table.commits[1] if "add" in line):
        path = Path("events", add["path"])
        os.truncate(path, add["size"])
        os.utime(path, (OLD_MS / 1000, OLD_MS / 1000))


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def steady(text: str) -> str:
    """The output with what changes from run to run made steady."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
    return re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{8}", "RUN", text)


def test_a_dry_run_shows_the_plan_and_removes_nothing(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    before = contents(tmp_path)
    ran = cli("vacuum", "events", ALL, "--mode", "full", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert steady(ran.out) == (
        "Would remove 3 files (2.5 KiB) and 2 empty directories, version 2\n"
        "\n"
        "Files by reason\n"
        "  reason     files   size  oldest      newest\n"
        "  tombstone      2  2 KiB  2020-09-13  2020-09-13\n"
        "  orphan         1  500 B  2020-09-13  2020-09-13\n"
        "\n"
        "Directories\n"
        "  directory  files   size  oldest      newest\n"
        "  p=a            1  1 KiB  2020-09-13  2020-09-13\n"
        "  p=b            1  1 KiB  2020-09-13  2020-09-13\n"
        "  p=c            1  500 B  2020-09-13  2020-09-13\n"
        "\n"
        "cutoff  TIME, 7d by the default of\n"
        "        delta.deletedFileRetentionDuration\n"
        "mode    full: 5 files under the root\n"
        "\n"
        "Versions that can be read\n"
        "  readable now          versions 0-2\n"
        "  would expire          version 1\n"
        "  cost of keeping them  2 KiB\n"
        "  version  size of files to remove that it needs\n"
        "        1                                  2 KiB\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl vacuum events --include-unknown --mode full\n"
    )
    assert contents(tmp_path) == before


def test_a_real_run_and_its_undo(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    before = contents(tmp_path / "events" / "p=a")
    ran = cli("vacuum", "events", ALL, "--mode", "full", "--yes", "--quarantine")
    assert (ran.code, ran.err) == (0, "")
    assert steady(ran.out).startswith(
        "3 files moved to quarantine (2.5 KiB)\n"
        "  directories  2 empty ones removed\n"
        "  run          RUN\n"
        "  committed    versions 3-4\n"
        "  kept until   TIME, at least\n"
        "  undo         deltactl vacuum events --undo RUN\n"
    )
    assert not (tmp_path / "events" / "p=c").exists()
    assert cli("vacuum", "events", ALL, "--mode", "full", "--check").code == 0
    lite = cli("vacuum", "events", ALL, "--mode", "lite", "--check")
    assert "--include-unknown had no effect" in lite.err
    planned = cli("vacuum", "events", "--undo", "last", "--dry-run", "-o", "json")
    [said] = planned.document["warnings"]
    assert "a later vacuum may remove restored files that" in said
    undone = cli("vacuum", "events", "--undo", "last", "--yes")
    assert (undone.code, undone.err) == (0, "")
    assert steady(undone.out).startswith(
        "Restored 3 files of run RUN\n  A later vacuum may remove restored files that the latest"
    )
    assert contents(tmp_path / "events" / "p=a") == before
    again = cli("vacuum", "events", "--undo", "last")
    assert steady(again.out) == "Restored 0 files of run RUN; 3 files are already there\n"
    purged = cli("vacuum", "events", "--purge-quarantine", "--yes")
    assert (purged.code, purged.out) == (0, "Deleted 0 quarantined files (0 B)\n")


def test_an_undo_shows_the_files_that_other_runs_have_in_quarantine(
    cli: RunCli, table: TableBuilder
) -> None:
    runs = []
    for _ in range(2):
        ran = cli("vacuum", "events", "--yes", "--quarantine", "--max-files", "1")
        runs += re.findall(r"--undo (\S+)", ran.out)
    shown = cli("vacuum", "events", "--undo", "last", "--dry-run", "-o", "json").out
    other = {"run_id": runs[0], "files": 1}
    assert json.loads(shown)["result"]["quarantined"] == [other]
    page = " ".join(cli("vacuum", "events", "--undo", "last").out.split())
    assert f"run {runs[0]} still has 1 file in quarantine" in page
    assert f"deltactl vacuum events --undo {runs[0]}" in page
    assert "still has" not in cli("vacuum", "events", "--undo", "last").out


def test_an_undo_and_a_purge_without_work_change_nothing(cli: RunCli, table: TableBuilder) -> None:
    cli("vacuum", "events", "--yes", "--quarantine")
    purge = ("vacuum", "events", "--purge-quarantine")
    page = cli(*purge, "--dry-run").out
    assert page.startswith(
        "Would delete 0 quarantined files (0 B); 1 run is kept, at least until\n"
    )
    assert "To do it" not in page
    undo = ("vacuum", "events", "--undo", "last")
    cli(*undo)
    for words in ((*undo, "--dry-run"), undo, (*purge, "--yes")):
        assert json.loads(cli(*words, "-o", "json").out)["status"] == "unchanged"


def test_a_check_says_whether_a_purge_has_work(cli: RunCli, table: TableBuilder) -> None:
    purge = ("vacuum", "events", "--purge-quarantine")
    cli("vacuum", "events", "--yes", "--quarantine", "--quarantine-for", "0h")
    before = sorted(Path("events").rglob("*"))
    for form in ("table", "github", "junit", "ndjson"):
        assert cli(*purge, "--check", "-o", form).code == 3
    assert cli(*purge, "--check", "-o", "json").document["status"] == "needed"
    assert cli(*purge, "--check", "--dry-run").code == 3
    assert sorted(Path("events").rglob("*")) == before
    assert cli(*purge, "--dry-run").code == 0
    assert cli(*purge, "--yes").code == 0
    done = cli(*purge, "--check", "-o", "json")
    assert (done.code, done.document["status"]) == (0, "unchanged")


@pytest.mark.parametrize("task", [("--undo", "last"), ("--forget-clone", "a clone")])
def test_a_check_is_of_work_that_comes_again(
    cli: RunCli, table: TableBuilder, task: Sequence[str]
) -> None:
    ran = cli("vacuum", "events", *task, "--check")
    assert ran.code == 2
    assert f"{task[0]} and --check cannot be combined" in ran.err


def test_a_purge_keeps_files_that_a_later_version_needs(cli: RunCli, table: TableBuilder) -> None:
    _, lost, *_ = (action["add"] for action in table.commits[1] if "add" in action)
    ran = cli("vacuum", "events", "--yes", "--quarantine", "--quarantine-for", "0h")
    assert ran.code == 0
    run = re.findall(r"--undo (\S+)", ran.out)[0]
    table.note([])
    table.note([])
    table.commit({"add": lost})
    for words in (["--dry-run"], ["--yes"]):
        kept = cli("vacuum", "events", "--purge-quarantine", "--force-retention", *words)
        assert (kept.code, kept.err) == (
            6,
            f"error: the quarantined files of run {run} are kept: the latest version (5) "
            "needs 1 file that is only there, such as "
            f"{lost['path']!r}\nhint: Run `deltactl vacuum events --undo {run}`, which moves the "
            "files back.\nnote: See `deltactl explain SAFETY`.\n",
        )
    table.store.put(lost["path"], b"other")
    undone = cli("vacuum", "events", "--undo", run)
    assert undone.code == 1
    assert f"vacuum removed is in '_deltactl/quarantine/{run}/{lost['path']}'." in undone.err
    table.store.delete_many([lost["path"]])
    assert cli("vacuum", "events", "--undo", run).code == 0


def test_a_purge_reports_files_that_another_writer_uses(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = PurgeReport(False, ("a-run",), 1, 7, (), lost=("p=a/lost.parquet",))
    monkeypatch.setattr(purge, "purge_quarantine", lambda *_, **__: report)
    ran = cli("vacuum", "events", "--purge-quarantine", "--yes")
    assert ran.code == FileMissingError("").exit_code
    assert "Removed, but the table needs them (1)\n  p=a/lost.parquet" in ran.out
    assert ran.err.startswith("error: another writer started using 1 file during the deletion: p=a")
    assert "hint: Copy these files back from a backup. Or run `deltactl restore events" in ran.err


def test_a_clone_that_is_gone_is_forgotten_only_on_request(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    clone = LocalStore(str(tmp_path / "a clone"))
    write_note(table.store, CloneNote(clone.uri, 1, OLD_MS, "an-id"))
    refused = cli("vacuum", "events", ALL, "--mode", "full", "--yes")
    assert refused.code == 6
    assert f"the shallow clone {clone.uri!r} of version 1 is recorded in" in refused.err
    assert f"deltactl vacuum {table.store.uri} --forget-clone {clone.uri}" in refused.err
    shown = cli("vacuum", "events", "--forget-clone", "a clone", "--dry-run")
    assert shown.code == 0
    assert shown.out.startswith(f"Would delete the record of the shallow clone\n{clone.uri}\n")
    asked = cli("vacuum", "events", "--forget-clone", "a clone")
    assert asked.code == 6
    assert cli("vacuum", "events", ALL, "--mode", "full", "--yes").code == 6
    forgotten = cli("vacuum", "events", "--forget-clone", "a clone", "--yes", "-o", "json")
    assert forgotten.code == 0
    assert forgotten.result == {
        "clone": clone.uri,
        "source_version": 1,
        "noted_at": "2020-09-13T12:26:40.000Z",
        "clone_id": "an-id",
        "host": "",
    }
    assert cli("vacuum", "events", ALL, "--mode", "full", "--yes").code == 0


def test_a_clone_of_a_moved_table_is_not_forgotten(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    assert cli("clone", "events", "clone", "--shallow").code == 0
    (tmp_path / "events").rename(tmp_path / "moved")
    for option in ("--dry-run", "--yes"):
        refused = cli("vacuum", "moved", "--forget-clone", "clone", option)
        assert refused.code == 6
        assert "references files of this table, such as '" in refused.err
    assert len(read_notes(LocalStore("moved"))) == 1


def test_the_record_of_a_clone_that_may_be_running_is_not_forgotten(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    note = CloneNote(LocalStore(str(tmp_path / "clone")).uri, 1, OLD_MS)
    write_note(table.store, note)
    mark_running(table.store, note)
    assert cli("vacuum", "events", ALL, "--mode", "full", "--yes").code == 4
    for option in ("--dry-run", "--yes"):
        refused = cli("vacuum", "events", "--forget-clone", "clone", option)
        assert refused.code == 4
        assert f"to '{note.clone_uri}' may be running since" in refused.err
        assert read_notes(table.store) == (note,)
    os.utime(tmp_path / "events" / note.mark, (OLD_MS / 1000, OLD_MS / 1000))
    assert cli("vacuum", "events", ALL, "--mode", "full", "--yes").code == 6
    assert cli("vacuum", "events", "--forget-clone", "clone", "--yes").code == 0
    assert read_notes(table.store) == ()


def test_a_vacuum_that_a_new_clone_stops_halfway_is_a_part(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = iter([(), (CloneNote("file:///new", 1, OLD_MS),)])  # before the removal and after it
    monkeypatch.setattr(removal, "read_notes", lambda _: next(notes))
    ran = cli("vacuum", "events", ALL, "--mode", "full", "--yes", "-o", "json")
    envelope = ran.document
    assert (ran.code, envelope["error"]["code"]) == (5, "PARTIAL")
    assert "a shallow clone of this table was created" in envelope["error"]["message"]
    assert envelope["result"]["files_removed"] > 0


def test_the_plan_names_the_clones_whose_files_stay(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    clone = TableBuilder(tmp_path / "clone", [Column("id")])
    write_note(table.store, CloneNote(clone.store.uri, 1, OLD_MS))
    shown = cli("vacuum", "events", ALL, "--mode", "full", "--dry-run").out
    assert f"shallow clone {clone.store.uri}: its files are kept" in " ".join(shown.split())
    envelope = cli("vacuum", "events", ALL, "--dry-run", "-o", "json").document
    assert [note["clone"] for note in envelope["result"]["clones"]] == [clone.store.uri]


def test_deleted_files_cannot_come_back(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("vacuum", "events", ALL, "--mode", "full", "--yes")
    assert ran.code == 0
    assert "possible only in a bucket of S3 or GCS with versioning" in ran.out
    undone = cli("vacuum", "events", "--undo", "last")
    assert undone.code == 1
    assert "cannot be restored" in undone.err
    assert "`deltactl describe-history events --restorable`" in undone.err
    assert undone.out.count("not in quarantine") == 1
    assert (
        "\nCannot be restored: 3 files: not in quarantine, and no older version was" in undone.out
    )
    assert cli("vacuum", "events", "--undo", "nope").code == 2


def test_a_lost_file_is_worse_than_a_refused_one() -> None:
    refused = StorageError("the store said no")
    lost = FileMissingError("no version", hint="Copy it.")
    report = UndoReport("a-run", False, (), {"a": refused, "b": lost, "c": refused})
    worst = report.find_error()
    assert worst is not None
    assert (worst.code, worst.exit_code, worst.hint) == ("FILE_MISSING", 1, "Copy it.")
    assert worst.message == "3 files cannot be restored: b: no version"


def test_check_exits_3_until_a_vacuum_ran(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    before = contents(tmp_path)
    ran = cli("vacuum", "events", ALL, "--check", "-o", "json")
    assert ran.code == 3
    result = ran.result
    assert (result["files"], result["folders"]) == (3, 2)
    assert contents(tmp_path) == before
    assert cli("vacuum", "events", ALL, "--yes").code == 0
    ran = cli("vacuum", "events", ALL, "--check")
    assert ran.code == 0
    assert ran.out.startswith("Nothing to remove in version 4\n")


def test_without_a_terminal_yes_is_needed(
    cli: RunCli, table: TableBuilder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ran = cli("vacuum", "events", ALL)
    assert ran.code == 6
    assert "--yes was not given: Delete 3 files (2.5 KiB)? 1 version will no longer" in ran.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("stdin", "options", "is_kept"),
    [
        (io.StringIO(), ("--yes",), True),
        (io.StringIO(), ("--yes", ALL), False),
        (Screen("y\n"), (), False),
        (Screen(), ("--yes",), True),
        (Screen(), ("--yes", "-j", "2", "events"), True),
    ],
)
def test_only_a_run_that_asks_on_a_terminal__removes_what_no_action_names(
    cli: RunCli,
    table: TableBuilder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stdin: io.StringIO,
    options: tuple[str, ...],
    is_kept: bool,
) -> None:
    write_deltalake(tmp_path / "rs", pa.table({"id": [1]}))
    name = "part-00000-6a09e667-f3bc-4908-8b2f-3bcc908bc8a1-c000.snappy.parquet"
    leftover = tmp_path / "rs" / name
    leftover.write_bytes(b"x")
    os.utime(leftover, (OLD_MS / 1000, OLD_MS / 1000))
    monkeypatch.setattr("sys.stdin", stdin)
    ran = cli("vacuum", "rs", *options, "--mode", "full")
    assert ran.code == 0, ran.err
    assert leftover.exists() == is_kept
    if is_kept and "-j" not in options:
        assert "1 not in the log, and this run is unattended" in ran.out


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 6, 3), ("\n", 6, 3), ("y\n", 0, 0)])
def test_on_a_terminal_it_asks(
    cli: RunCli,
    table: TableBuilder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    left: int,
) -> None:
    monkeypatch.setattr("sys.stdin", Screen(answer))
    ran = cli("vacuum", "events", ALL, "--retain", "1h", "--force-retention")
    assert ran.code == code, ran.err
    assert "keeps removed files for 1h, but the table's retention is 7d" in ran.err
    gone = [path for path in tmp_path.rglob("*.parquet") if path.stat().st_size in (1024, 500)]
    assert len([path for path in gone if "_deltactl" not in path.parts]) == left


def test_short_retention_needs_force_and_yes(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = cli("vacuum", "events", "--retain", "1h", "--yes")
    assert ran.code == 6
    assert "--retain 1h is less than this table's retention of 7d" in ran.err
    assert "--force-retention" in ran.err
    assert cli("vacuum", "events", "--retain", "1h", "--dry-run").code == 6
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert cli("vacuum", "events", ALL, "--retain", "1h", "--force-retention").code == 6
    assert cli("vacuum", "events", ALL, "--retain", "1h", "--force-retention", "--yes").code == 0


def test_too_many_orphans_end_with_exit_6(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    for number in range(9):
        path = tmp_path / "events" / "stray" / f"{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (OLD_MS / 1000, OLD_MS / 1000))
    ran = cli("vacuum", "events", ALL, "--yes", "-o", "json")
    assert ran.code == 6
    error = ran.document["error"]
    assert error["code"] == "SAFETY"
    assert "10 of 14 files in the table directory (71%)" in error["message"]
    assert "stray: 9; p=c: 1" in error["message"]
    assert "--max-orphan-fraction" in error["hint"]
    shown = cli("vacuum", "events", ALL, "--dry-run")
    assert shown.code == 0
    assert "a real run would be refused" in shown.err
    assert cli("vacuum", "events", ALL, "--yes", "--max-orphan-fraction", "0.8").code == 0


def test_json_has_totals_and_csv_has_each_file(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("vacuum", "events", ALL, "--mode", "full", "--dry-run", "-o", "json")
    envelope, result = ran.document, ran.result
    assert (envelope["dry_run"], envelope["engine"]) == (True, "local")
    assert (envelope["version_before"], envelope["version_after"]) == (2, 2)
    assert result["by_reason"][0] == {
        "reason": "tombstone",
        "files": 2,
        "bytes": 2048,
        "oldest": "2020-09-13T12:26:40.000Z",
        "newest": "2020-09-13T12:26:40.000Z",
    }
    assert result["horizon"]["ends"] == [[1, 1]]
    assert result["horizon"]["change_data_ends"] == []
    assert result["retention"]["retain_ms"] == 7 * 86_400_000
    shown = cli("vacuum", "events", ALL, "--dry-run", "-o", "csv").out
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert [row["reason"] for row in rows] == ["tombstone", "tombstone", "orphan"]
    assert rows[2]["path"] == "p=c/orphan.parquet"
    lines = cli("vacuum", "events", ALL, "--dry-run", "-o", "ndjson").out.splitlines()
    assert [json.loads(line)["size_bytes"] for line in lines] == [1024, 1024, 500]


@pytest.mark.parametrize(
    "words",
    [
        ("--retain", "7"),
        ("--retain", "soon"),
        ("--mode", "half"),
        ("--max-files", "0"),
        ("--max-orphan-fraction", "2"),
        ("--undo", "last", "--purge-quarantine"),
        ("--undo", "last", "--retain", "7d"),
        ("--purge-quarantine", "--yes", "--quarantine-for", "0h"),
        ("--quarantine-for", "30d", "--yes"),
        ("--inventory", "x.csv", "--mode", "lite"),
        ("--dump-listing", "x.parquet", "--mode", "lite"),
        ("--dump-listing", "x.parquet", "--inventory", "y.parquet"),
        ("--dump-listing", "events/.."),
        ("--dump-listing", "./"),
        ("--forget-clone", "clone", "--retain", "7d"),
        ("--forget-clone", "clone", "--yes"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_2(cli: RunCli, table: TableBuilder, words: tuple[str, ...]) -> None:
    assert cli("vacuum", "events", *words).code == 2


def test_a_closed_standard_input_is_an_empty_one(table: TableBuilder) -> None:
    words = "vacuum events --mode full --force-retention --dry-run"
    runs = [
        subprocess.run(
            ["bash", "-c", f'"$0" -m deltactl {words} {end}', sys.executable],
            capture_output=True, check=False, text=True,
        )
        for end in ("<&-", "</dev/null")
    ]  # fmt: skip
    assert [(ran.returncode, ran.stderr) for ran in runs] == [(0, "")] * 2
    assert steady(runs[0].stdout) == steady(runs[1].stdout)


def test_a_table_that_misses_files_is_reported_before_all_else(table: TableBuilder) -> None:
    report = run_on(
        table.store, vacuum_table, VacuumOptions(mode="full"), warn=pytest.fail, dry_run=True
    )
    stayed = FileFailure("p=a/stays.parquet", StorageError("no permission"))
    broken = replace(report, dry_run=False, lost=("p=a/lost.parquet",), failures=(stayed,))
    error = find_vacuum_error(broken, "events")
    assert error is not None
    assert error.message.startswith("another writer started using 1 file during the deletion")
    assert "p=a/lost.parquet" in error.message
    assert "p=a/stays.parquet: no permission" in error.message
    for until_ms, says in (
        (None, "Restore the table from the"),
        (0, "Run `deltactl vacuum events"),
    ):
        other = replace(broken, was_replaced=True, quarantined_until_ms=until_ms)
        error = find_vacuum_error(other, "events")
        assert error is not None
        assert (error.exit_code, error.message) == (
            1,
            "the table was replaced during the vacuum, and the table that is there now lacks 1 "
            "file that this run removed: p=a/lost.parquet",
        )
        assert error.hint is not None
        assert error.hint.startswith(says)
        assert "`deltactl check events`, which lists" in error.hint
    page = Page()
    page.show(describe_vacuum(broken, "events"))
    lines = list(page.plain_lines())
    where = lines.index("Removed, but the table needs them (1)")
    assert lines[where + 1] == "  p=a/lost.parquet"


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (AccessDeniedError("denied", hint="Give it s3:DeleteObject."), "Give it s3:DeleteObject."),
        (CredentialsExpiredError("too late", hint="Sign in again."), "Sign in again."),
        (StorageError("no"), "Fix the cause, then rerun."),
    ],
)
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_vacuum_ends_with_the_error_of_its_deletes(
    cli: RunCli,
    table: TableBuilder,
    monkeypatch: pytest.MonkeyPatch,
    error: StorageError,
    hint: str,
    is_stopped: bool,
) -> None:
    def refuse(store: LocalStore, names: Sequence[str]) -> dict[str, StorageError]:
        return dict.fromkeys(names[1:], error) | delete_many(store, names[:1])

    def raise_conflict(run: object, cutoff_ms: int) -> NoReturn:
        raise ConflictError("the table was replaced")

    delete_many = LocalStore.delete_many
    monkeypatch.setattr(LocalStore, "delete_many", refuse)
    if is_stopped:
        monkeypatch.setattr(removal.VacuumRun, "_remove_directories", raise_conflict)
    ran = cli("vacuum", "events", ALL, "--mode", "full", "--yes", "-o", "json")
    told = ran.document["error"]
    assert (ran.code, told["code"]) == (8, error.code)
    assert told["hint"] == f"{hint} 1 file was removed."
    assert told["message"].startswith("2 files could not be removed: ")
    assert ("; and the vacuum stopped early: the table was" in told["message"]) == is_stopped


def test_what_stopped_a_run_is_no_file(table: TableBuilder) -> None:
    planned = run_on(table.store, vacuum_table, VacuumOptions(), warn=pytest.fail, dry_run=True)
    no_commit = StorageError("no commit")
    stayed = FileFailure("p=a/stays.parquet", StorageError("no permission"))
    stopped = replace(
        planned, dry_run=False, failures=(stayed, FileFailure("", no_commit)), stopped=no_commit,
        run_id="x",
    )  # fmt: skip
    page = Page()
    page.show(describe_vacuum(stopped, "events"))
    lines = [" ".join(line.split()) for line in page.plain_lines()]
    assert "stopped early no commit" in lines
    assert "Not removed (1)" in lines
    assert "reason: no permission" in lines


def test_versions_whose_change_data_ends(table: TableBuilder) -> None:
    cdc = {"path": "a8/cdc-1.parquet", "size": 7, "partitionValues": {}, "dataChange": False}
    for _ in range(2):
        table.commit({"cdc": cdc})
    table.store.put("a8/cdc-1.parquet", b"changes")
    options = VacuumOptions(retain_ms=0, force_retention=True, mode="lite")
    report = run_on(table.store, vacuum_table, options, warn=pytest.fail, dry_run=True)
    assert report.to_dict()["horizon"]["change_data_ends"] == [[3, 4]]
    done = replace(report, dry_run=False, run_id="x", files_removed=1)
    for it, said in ((report, "would expire"), (done, "expired")):
        page = Page()
        page.show(describe_vacuum(it, "events"))
        lines = [" ".join(line.split()) for line in page.plain_lines()]
        assert f"change data {said} versions 3-4" in lines
    stopped = replace(report, dry_run=False, run_id="x")
    assert stopped.to_dict()["horizon"]["change_data_ends"] == []


@pytest.mark.parametrize(("removed", "said"), [(0, []), (1, ["may have expired"])])
def test_versions_that_an_interrupted_run_ended(
    table: TableBuilder, removed: int, said: list[str]
) -> None:
    planned = run_on(table.store, vacuum_table, VacuumOptions(), warn=pytest.fail, dry_run=True)
    stopped = replace(
        planned, dry_run=False, run_id="x", interrupted=True, files_removed=removed,
        quarantined_until_ms=1,
    )  # fmt: skip
    assert planned.plan.horizon is not None
    assert planned.plan.horizon.ends
    assert bool(stopped.to_dict()["horizon"]["ends"]) == bool(removed)
    page = Page()
    page.show(describe_vacuum(stopped, "events"))
    lines = [line.strip() for line in page.plain_lines()]
    found = [it for it in ("expired", "may have expired") if any(x.startswith(it) for x in lines)]
    assert found == said
    assert any(line.startswith("undo") for line in lines) == bool(removed)


def what_is_left(cli: RunCli) -> dict[int, tuple[str, int, int]]:
    """The state of each version, its files, and how many of them are gone."""
    rows = cli("describe-history", "events", "--restorable", "-o", "json").result
    members = ("restorable", "num_files", "num_files_gone")
    return {row["version"]: tuple(row[name] for name in members) for row in rows}


def test_history_shows_what_is_left(cli: RunCli, table: TableBuilder) -> None:
    give_logged_sizes(table)
    assert {state for state, *_ in what_is_left(cli).values()} == {"readable"}
    assert cli("vacuum", "events", ALL, "--mode", "full", "--yes").code == 0
    states = [(state, gone) for state, _, gone in what_is_left(cli).values()]
    assert states == [*[("readable", 0)] * 3, ("partly gone", 2), ("readable", 0)]
    page = cli("describe-history", "events", "--restorable").out
    assert "partly gone: 2/4" in page
    one = cli("describe-history", "events", "--restorable", "--version", "1").out
    assert "restorable partly gone: 2/4" in " ".join(one.split())
    assert cli("describe-history", "events", "--restorable", "--at", "1h").code == 2


ONE_OR_TWO_GONE = {
    3: ("partly gone", 3, 2), 2: ("partly gone", 2, 1), 1: ("partly gone", 4, 1),
    0: ("readable", 0, 0),
}  # fmt: skip


def test_what_is_left_counts_live_and_foreign_files_too(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    give_logged_sizes(table)
    live = next(iter(table.state.files.values()))["path"]
    add = {**table.find(live), "path": f"file://{tmp_path}/elsewhere.parquet"}
    table.commit({"add": add})
    (tmp_path / "events" / live).unlink()
    warned = cli("vacuum", "events", "--mode", "full", "--dry-run").err
    assert "Run `deltactl check events` for details" in warned
    assert what_is_left(cli) == ONE_OR_TWO_GONE


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_what_is_left_has_the_size_that_the_log_has(
    cli: RunCli, table: TableBuilder, tmp_path: Path, has_checkpoint: bool
) -> None:
    """A restore refuses other files."""
    give_logged_sizes(table)
    if has_checkpoint:
        table.checkpoint()
    live = next(iter(table.state.files.values()))["path"]
    os.truncate(tmp_path / "events" / live, 100)
    found = {version: gone for version, (*_, gone) in what_is_left(cli).items()}
    assert found == {2: 1, 1: 1, 0: 0}


def test_what_is_left_follows_links_and_looks_at_files_elsewhere(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    give_logged_sizes(table)
    linked, elsewhere = [add["path"] for add in table.state.files.values()]
    (tmp_path / "events" / linked).rename(tmp_path / "x.parquet")
    (tmp_path / "events" / linked).symlink_to(tmp_path / "x.parquet")
    os.truncate(tmp_path / "events" / elsewhere, 100)
    url = f"file://{tmp_path}/away.parquet"
    (tmp_path / "events" / elsewhere).rename(tmp_path / "away.parquet")
    table.commit({"add": {**table.find(elsewhere), "path": url}})
    assert what_is_left(cli) == ONE_OR_TWO_GONE


VECTOR = {"storageType": "u", "pathOrInlineDv": "q", "sizeInBytes": 1, "cardinality": 1}
BAD_VECTOR = {
    "path": "x", "partitionValues": {"p": "x"}, "size": 1, "modificationTime": 1,
    "dataChange": True, "deletionVector": VECTOR,
}  # fmt: skip


@pytest.mark.parametrize(
    "broken", [None, b"", b'{"add": {"pa', json.dumps({"add": BAD_VECTOR}).encode()]
)
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_versions_before_a_lost_commit_are_judged_by_the_commits_before_it(
    cli: RunCli, table: TableBuilder, tmp_path: Path, has_checkpoint: bool, broken: bytes | None
) -> None:
    give_logged_sizes(table)
    for _ in range(3):
        table.append([{"id": 9, "p": "z"}])
    if has_checkpoint:
        table.checkpoint()
    table.store.delete_many([commit_path(3), table.commits[1][1]["add"]["path"]])
    if broken is not None:
        table.store.put(commit_path(3), broken)
    found = {version: (state, gone) for version, (state, _, gone) in what_is_left(cli).items()}
    rebuilt = ("partly gone", 1) if has_checkpoint else ("gone", 0)
    lost = (None, None) if broken is None else ("gone", 0)
    assert found == {
        5: rebuilt, 4: ("gone", 0), 3: lost, 2: ("partly gone", 1), 1: ("partly gone", 1),
        0: ("readable", 0),
    }  # fmt: skip


def test_pandas_is_not_imported_for_nothing(process: RunCli, table: TableBuilder) -> None:
    """pyarrow would, at its first array; it takes longer than the vacuum of a small table."""
    program = (
        "import sys; from deltactl.cli.app import run; "
        "code = run(['vacuum', 'events', '--include-unknown', '--force-retention', "
        "'--dry-run', '-o', 'json']); "
        "print(code, 'pandas' in sys.modules, file=sys.stderr); import pandas"
    )
    ran = process("-c", program)
    assert (ran.code, ran.err) == (0, "0 False\n")
    assert ran.result["files"] == 3


def test_directories_of_other_tables_are_named(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    """Below the root all files are kept, at the root only those that the log does not name."""
    for name in ("nested/_delta_log/00000000000000000000.json", "metadata/v1.metadata.json"):
        path = tmp_path / "events" / name
        path.parent.mkdir(parents=True)
        path.touch()
    warned = cli("vacuum", "events", ALL, "--dry-run").err
    assert (
        "warning: 'nested' contains another table: all files in this directory are kept" in warned
    )
    assert "Files that no commit of this table references are kept" in warned


def test_an_error_about_the_log_of_another_table_names_that_table(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    cli("clone", "events", "other", "--deep")
    cli("alter", "other", "--set", "team=a", "--yes")
    Path(f"other/_delta_log/{1:020}.json").write_bytes(b"")
    ran = cli("vacuum", "events", "--yes", "--also-keep-for", "other")
    address = f"file://{tmp_path}/other"
    assert ran.code == 1
    assert f"error: in {address}: _delta_log/{1:020}.json is empty" in ran.err
    assert f"`deltactl clone {address} NEW --deep --version 0`" in ran.err
