"""Cron lines: leases, ``--min-interval``, ``--if-needed`` and ``--since-version last-run``."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltactl.clock import SystemClock
from deltactl.errors import AccessDeniedError
from deltactl.operations.leases import (
    LEASE_MS,
    Holder,
    LastRun,
    _encode,
    read_last_run,
    write_last_run,
)
from deltactl.operations.optimize.run import execute_optimize
from deltactl.storage.local.store import LocalStore
from tests.cli.conftest import RunCli
from tests.support.table_builder import Column, TableBuilder

HOUR = 3_600_000
TABLE_ID = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"
OTHER_ID = TABLE_ID[::-1]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Three small files in partition a, two in b."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(
        tmp_path / "t", [Column("id"), Column("p", "string")], partition_by=["p"]
    )
    for number, part in enumerate("aaabb"):
        builder.append([{"id": number, "p": part}])
    return builder


def own_files(folder: str = "t") -> list[str]:
    root = Path(folder, "_deltactl")
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def become_another_table() -> None:
    """Let the log tell of a table with another id, in the same place."""
    log = Path("t/_delta_log")
    for path in (*log.glob("*.checkpoint*"), *log.glob("*.crc"), *log.glob("_last*")):
        path.unlink()
    for path in log.glob("*.json"):
        path.write_text(path.read_text().replace(TABLE_ID, OTHER_ID))


def document(cli: RunCli, *args: str) -> Any:
    return cli(*args, "-o", "json").document


def last_run(table: TableBuilder, command: str = "optimize") -> LastRun:
    found = read_last_run(table.store, command)
    assert found is not None
    return found


def hold(store: LocalStore, command: str, *, expires_in_ms: int = LEASE_MS) -> str:
    now = SystemClock().now_ms()
    name = f"_deltactl/leases/{command}.00000001.json"
    store.put(name, _encode(Holder("other", "web1", 42, now, now + expires_in_ms)))
    return name


def test_a_run_gives_its_lease_back_and_writes_itself_down(
    cli: RunCli, table: TableBuilder
) -> None:
    assert cli("optimize", "t").code == 0
    assert own_files() == ["runs/optimize.json"]
    last = last_run(table)
    assert last.started_ms <= last.ended_ms
    assert last.caught_up_version == table.version + 1  # its own commit


@pytest.mark.parametrize("command", ["optimize", "vacuum", "checkpoint", "generate-manifest"])
def test_who_finds_a_lease_held(cli: RunCli, table: TableBuilder, command: str) -> None:
    assert isinstance(table.store, LocalStore)
    hold(table.store, command)
    ran = cli(command, "t", "-o", "json")
    error = ran.document["error"]
    assert (ran.code, error["code"]) == (4, "LEASE_HELD")
    assert "run other on web1 (pid 42), since " in error["message"]
    for look in ("--dry-run", "--check"):
        assert cli(command, "t", look).code in (0, 3)
    assert cli(command, "t", "--no-lease").code == 0


@pytest.mark.parametrize("look", ["--dry-run", "--check"])
def test_looks_write_nothing(cli: RunCli, table: TableBuilder, look: str) -> None:
    for command in ("optimize", "vacuum", "checkpoint", "generate-manifest"):
        cli(command, "t", look)
    assert not Path("t", "_deltactl").exists()


def test_nothing_is_written_where_there_is_no_table(cli: RunCli, table: TableBuilder) -> None:
    Path("empty").mkdir()
    assert cli("optimize", "empty").code == 1
    assert cli("optimize", "absent").code == 1
    assert list(Path("empty").iterdir()) == []
    assert not Path("absent").exists()


PARTITIONED = ('["p"]', '["P"]')
UNKNOWN_TYPE = ('\\"long\\"', '\\"interval\\"')
REFUSED = [
    (6, PARTITIONED, ["optimize"]),
    (6, UNKNOWN_TYPE, ["optimize"]),
    (6, UNKNOWN_TYPE, ["optimize", "--purge"]),
    (6, PARTITIONED, ["generate-manifest"]),
    (6, None, ["vacuum", "--retain", "0h"]),
    (2, None, ["vacuum", "--undo", "no-such-run"]),
    (1, None, ["checkpoint", "--version", "99"]),
]


@pytest.mark.parametrize(("code", "change", "args"), REFUSED)
def test_a_refused_run_leaves_nothing_behind(
    cli: RunCli, table: TableBuilder, code: int, change: tuple[str, str] | None, args: list[str]
) -> None:
    if change is not None:
        commit = Path("t/_delta_log/00000000000000000000.json")
        text = commit.read_text()
        assert change[0] in text
        commit.write_text(text.replace(*change))
    before = sorted(Path("t").rglob("*"))
    assert cli(args[0], "t", *args[1:]).code == code
    assert sorted(Path("t").rglob("*")) == before


@pytest.mark.parametrize(
    "args",
    [
        ["optimize"],
        ["vacuum", "--retain", "0h", "--force-retention", "--yes"],
        ["checkpoint"],
        ["checkpoint", "--repair"],
        ["generate-manifest"],
    ],
)
def test_a_run_holds_its_lease_when_it_changes_the_first_file(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    prepare(cli, args)
    held: list[bool] = []
    for method in ("open_output", "put", "put_many", "put_if_absent", "delete_many", "move_many"):
        monkeypatch.setattr(LocalStore, method, noting_lease(method, held))
    assert cli(args[0], "t", *args[1:]).code == 0
    assert held
    assert all(held)


def prepare(cli: RunCli, args: list[str]) -> None:
    if args[0] == "vacuum":
        cli("optimize", "t")
    if "--repair" in args:
        cli("checkpoint", "t")
        Path("t/_delta_log/_last_checkpoint").write_text("{")


def noting_lease(method: str, held: list[bool]) -> Any:
    original = getattr(LocalStore, method)

    def noted(store: LocalStore, *args: Any) -> Any:
        if "_deltactl" not in str(args):
            held.append(any(name.startswith("leases/") for name in own_files()))
        return original(store, *args)

    return noted


def test_the_json_of_a_run_has_what_is_known_after_it(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AccessDeniedError("no")

    monkeypatch.setattr("deltactl.operations.leases._Lease.acquire", refuse)
    for name in ("u", "v"):
        shutil.copytree("t", name)
    for words in (["t"], ["u", "v"]):
        document = cli("optimize", *words, "-o", "json").document
        for run in document.get("runs", [document]):
            assert [text.partition(",")[0] for text in run["warnings"]] == ["this run had no lease"]


def test_a_failed_run_gives_its_lease_back_and_is_not_written_down(
    cli: RunCli, table: TableBuilder
) -> None:
    assert cli("optimize", "t", "--where", "id = 1").code == 2
    assert own_files() == []


def test_a_signal_gives_the_lease_back(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(*args: Any) -> Any:
        assert own_files() == ["leases/optimize.00000001.json"]
        signal.raise_signal(signal.SIGTERM)
        return execute_optimize(*args)

    monkeypatch.setattr("deltactl.operations.optimize.run.execute_optimize", execute)
    assert cli("optimize", "t").code == 143
    assert own_files() == []


def test_a_run_that_is_killed_leaves_a_lease_that_blocks_no_run_here(
    cli: RunCli, table: TableBuilder
) -> None:
    program = (
        "import os, signal, sys; import deltactl.operations.optimize.run as o; "
        "o.execute_optimize = lambda *a: os.kill(os.getpid(), signal.SIGKILL); "
        "from deltactl.cli.app import run; run(['optimize', 't'])"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    [name] = own_files()
    said = json.loads(Path("t/_deltactl", name).read_text())
    assert said["expires_ms"] - said["since_ms"] == LEASE_MS
    assert cli("optimize", "t").code == 0


def test_a_run_within_the_interval_does_nothing(cli: RunCli, table: TableBuilder) -> None:
    assert cli("optimize", "t", "--min-interval", "1h").code == 0
    append_later(table, "a")
    before = own_files(), table.store.read("_deltactl/runs/optimize.json")
    early = document(cli, "optimize", "t", "--min-interval", "1h")
    assert (early["result"], early["error"]) == (None, None)
    assert early["skipped"].startswith("the last run began at 20")
    assert before == (own_files(), table.store.read("_deltactl/runs/optimize.json"))
    last = last_run(table)
    for started_ms in (last.started_ms - HOUR, last.started_ms + 9 * HOUR):  # long ago; the future
        run = replace(last, started_ms=started_ms, ended_ms=started_ms)
        write_last_run(table.store, "optimize", run)
        late = document(cli, "optimize", "t", "--min-interval", "1h", "--dry-run")
        assert late["skipped"] is None
    # Another command has a time of its own.
    assert document(cli, "checkpoint", "t", "--min-interval", "1h")["skipped"] is None


@pytest.mark.parametrize("command", ["optimize", "vacuum", "checkpoint", "generate-manifest"])
def test_a_table_created_again_has_no_last_run(
    cli: RunCli, table: TableBuilder, command: str
) -> None:
    args = (command, "t", "--min-interval", "1h", *(["--yes"] if command == "vacuum" else []))
    assert cli(*args).code == 0
    assert last_run(table, command).table_id == TABLE_ID
    assert document(cli, *args)["skipped"].startswith("the last run began at ")
    become_another_table()
    again = document(cli, *args)
    assert (again["skipped"], again["error"]) == (None, None)
    assert last_run(table, command).table_id == OTHER_ID


def test_a_mark_of_another_table_is_none(cli: RunCli, table: TableBuilder) -> None:
    assert cli("optimize", "t").code == 0
    become_another_table()
    append_later(table, "a")
    append_later(table, "b")
    words = ("--since-version", "last-run", "--dry-run", "-o", "json")
    plan = cli("optimize", "t", *words).result["plan"]
    assert not any("not touched since" in reason for reason in plan["left_alone"])
    # What the run of the new table leaves out does not bring the old one's mark back.
    assert cli("optimize", "t", "--where", "p = 'a'").code == 0
    last = last_run(table)
    assert (last.table_id, last.caught_up_version) == (OTHER_ID, None)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"run_id": 1, "started_ms": "x"}'])
def test_a_broken_record_is_none(cli: RunCli, table: TableBuilder, text: bytes) -> None:
    table.store.put("_deltactl/runs/optimize.json", text)
    assert read_last_run(table.store, "optimize") is None
    assert cli("optimize", "t", "--min-interval", "1h", "--since-version", "last-run").code == 0


@pytest.mark.parametrize(
    ("need", "code"),
    [
        (["files=6"], 0),
        (["files=5"], 3),
        (["size=1MiB"], 0),
        (["size=10B"], 3),
        (["files=6", "size=10B"], 3),
        (["files=6", "size=1MiB"], 0),
    ],
)
def test_optimize_if_needed(cli: RunCli, table: TableBuilder, need: list[str], code: int) -> None:
    words = [word for text in need for word in ("--if-needed", text)]
    assert cli("optimize", "t", "--check", *words).code == code
    ran = document(cli, "optimize", "t", *words)
    assert bool(ran["result"]["versions"]) == (code == 3)
    assert (ran["skipped"] is None) == (code == 3)
    if code == 0:
        assert own_files() == []
        assert ran["skipped"].startswith("5 files (threshold" if "files=6" in need else "2")


def test_optimize_if_lookups_skip_too_little(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("optimize", "t", "--if-needed", "skip=0.5")
    assert (ran.code, "--if-needed skip needs clustering columns" in ran.err) == (2, True)
    for text in ("skip=2", "skip=50%", "skip=-1", "skip="):
        assert cli("optimize", "t", "--cluster-by", "id", "--if-needed", text).code == 2
    assert cli("vacuum", "t", "--if-needed", "skip=0.5").code == 2
    ran = cli("optimize", "t", "--cluster-by", "id", "--check", "--if-needed", "skip=0.5")
    assert ran.code == 3  # nothing is known of the files, so every lookup opens them


def test_vacuum_if_needed(cli: RunCli, table: TableBuilder) -> None:
    cli("optimize", "t")
    args = ("vacuum", "t", "--retain", "0h", "--force-retention", "--yes")
    assert cli(*args, "--if-needed", "files=6").out == "Skipped: 5 files (threshold: 6 files)\n"
    assert cli(*args, "--if-needed", "files=6", "--check").code == 0
    assert document(cli, *args, "--if-needed", "files=5")["result"]["files_removed"] == 5


def test_checkpoint_if_needed(cli: RunCli, table: TableBuilder) -> None:
    commits = table.version + 1
    ran = cli("checkpoint", "t", "--if-needed", f"commits={commits + 1}")
    assert ran.out == f"Skipped: {commits} commits (threshold: {commits + 1} commits)\n"
    ran = cli("checkpoint", "t", "--if-needed", f"commits={commits}", "-o", "json")
    assert ran.result["checkpoint"]
    append_later(table, "a")
    assert document(cli, "checkpoint", "t", "--if-needed", "commits=2")["skipped"]
    assert not document(cli, "checkpoint", "t", "--if-needed", "commits=1")["skipped"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("optimize", "commits=1"),
        ("optimize", "files"),
        ("optimize", "files=many"),
        ("optimize", "size=5"),
        ("checkpoint", "files=1"),
    ],
)
def test_a_measure_that_cannot_be_understood(
    cli: RunCli, table: TableBuilder, command: str, text: str
) -> None:
    assert cli(command, "t", "--if-needed", text).code == 2


def partitions(cli: RunCli, *args: str) -> list[str]:
    ran = cli("optimize", "t", "--dry-run", "--since-version", *args, "-o", "json")
    plan = ran.result["plan"]
    return [row["partition"] for row in plan["partitions"]]


def test_only_partitions_touched_since_a_version(cli: RunCli, table: TableBuilder) -> None:
    first_b = table.version - 1
    assert partitions(cli, "0") == ["p=a", "p=b"]
    assert partitions(cli, str(first_b - 1)) == ["p=b"]
    assert partitions(cli, str(table.version)) == []
    left = document(cli, "optimize", "t", "--dry-run", "--since-version", str(first_b - 1))
    reason = f"in a partition not touched since version {first_b - 1}"
    assert left["result"]["plan"]["left_alone"][reason] == 3


def test_since_the_last_run(cli: RunCli, table: TableBuilder) -> None:
    assert partitions(cli, "last-run") == ["p=a", "p=b"]  # there was none
    assert cli("optimize", "t", "--since-version", "last-run").code == 0
    assert partitions(cli, "last-run") == []
    append_later(table, "b")
    append_later(table, "b")
    assert partitions(cli, "last-run") == ["p=b"]


def append_later(table: TableBuilder, part: str) -> None:
    """A commit on top of what the program committed meanwhile."""
    add = table.write_file([{"id": 1, "p": part}], partition={"p": part})
    versions = Path("t/_delta_log").glob("*.json")
    latest = max(int(path.stem) for path in versions)
    line = json.dumps(add) + "\n"
    Path("t/_delta_log", f"{latest + 1:020d}.json").write_text(line)


@pytest.mark.parametrize(
    "args",
    [
        ("--where", "p = 'a'"),
        ("--max-bytes", "1B"),
        ("--skip-hot", "9999d"),
        ("--purge",),
        ("--if-needed", "files=99"),
        ("--since-version", "0"),
    ],
)
def test_a_run_that_puts_something_off_does_not_move_the_mark(
    cli: RunCli, table: TableBuilder, args: tuple[str, ...]
) -> None:
    assert cli("optimize", "t", *args).code == 0
    last = read_last_run(table.store, "optimize")
    assert last is None or last.caught_up_version is None
    assert cli("optimize", "t").code == 0
    mark = last_run(table).caught_up_version
    assert cli("optimize", "t", *args).code == 0
    assert last_run(table).caught_up_version == mark  # of the run before


def test_a_log_that_does_not_reach_back_is_said(cli: RunCli, table: TableBuilder) -> None:
    cli("checkpoint", "t")
    for version in range(2):
        Path("t/_delta_log", f"{version:020d}.json").unlink()
    ran = cli("optimize", "t", "--dry-run", "--since-version", "0")
    assert (
        "commits after version 0 were deleted from the log: all partitions are considered"
        in ran.err
    )
    assert "p=a" in ran.out


def test_a_mark_from_the_future_is_none(cli: RunCli, table: TableBuilder) -> None:
    """The table was put back, and its record stayed."""
    now = SystemClock().now_ms()
    run = LastRun("x", TABLE_ID, now, now, table.version + 1)
    write_last_run(table.store, "optimize", run)
    ran = cli("optimize", "t", "--since-version", "last-run")
    assert ran.out.startswith("5 files became 2 in version ")
    assert f"version {table.version + 1} of the last run is not known to be a version" in ran.err


def test_a_version_that_is_another_commit_now_is_not_one_of_the_last_run(
    cli: RunCli, table: TableBuilder
) -> None:
    """As after a restore of the table from a backup, without its record."""
    shutil.copytree("t", "backup")
    assert cli("optimize", "t").code == 0
    last = last_run(table)
    assert last.caught_up_version is not None
    words = ("optimize", "t", "--since-version", "last-run")
    assert cli(*words, "--dry-run").err == ""
    for path in Path("t").iterdir():
        if path.name != "_deltactl":
            shutil.rmtree(path)
    shutil.copytree("backup", "t", dirs_exist_ok=True)
    while True:
        append_later(table, "new")
        if Path("t/_delta_log", f"{last.caught_up_version:020d}.json").exists():
            break
    ran = cli(*words, "--dry-run")
    assert f"version {last.caught_up_version} of the last run is not known" in ran.err
    assert "p=a" in ran.out and "p=b" in ran.out
    assert cli(*words).code == 0
    assert cli(*words, "--dry-run").err == ""  # recorded again


def test_a_record_of_an_earlier_release_considers_all_partitions(
    cli: RunCli, table: TableBuilder
) -> None:
    now = SystemClock().now_ms()
    write_last_run(table.store, "optimize", LastRun("x", TABLE_ID, now, now, table.version))
    ran = cli("optimize", "t", "--since-version", "last-run")
    assert ran.out.startswith("5 files became 2 in version ")


def test_the_commit_of_a_run_that_committed_is_recorded(cli: RunCli, table: TableBuilder) -> None:
    """Also if a run beside it leaves something out, which keeps the record of the version."""
    assert cli("optimize", "t").code == 0
    last = last_run(table)
    info = Path("t/_delta_log", f"{last.caught_up_version:020d}.json").stat()
    assert last.commit == f"{info.st_size} {info.st_mtime_ns // 1_000_000}"
    assert cli("optimize", "t", "--where", "p = 'a'").code == 0
    assert last_run(table).commit == last.commit


@pytest.mark.parametrize("text", ["-1", "soon", "1.5", "latest"])
def test_a_version_that_is_none(cli: RunCli, table: TableBuilder, text: str) -> None:
    assert cli("optimize", "t", f"--since-version={text}").code == 2
