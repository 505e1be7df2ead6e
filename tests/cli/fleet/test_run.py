"""Several tables in one run: each told apart, one exit status, a failure stays with its table."""

import csv
import io
import itertools
import json
import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from deltactl.cli.exits import MEANINGS, ExitCode, find_worst
from tests.cli.conftest import RunCli
from tests.cli.fakes import go_round
from tests.cli.options.test_time_limit import run_fake
from tests.cli.test_app import FAKE_MAIN, open_python, start
from tests.support.table_builder import Column, TableBuilder


def make_table(folder: Path, files: int = 3) -> TableBuilder:
    builder = TableBuilder(folder, [Column("id")])
    for number in range(files):
        builder.append([{"id": number}])
    return builder


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables side by side, one further down, and a folder that is none."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b", "deep/c"):
        make_table(tmp_path / "lake" / name)
    (tmp_path / "lake" / "none" / "x").mkdir(parents=True)
    return tmp_path / "lake"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    go_round.MOST_AT_ONCE.clear()


def test_a_line_a_table_and_a_sum(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", "x/fine", "x/needed", "x/raise-ConflictError", "x/warn", "x/bug")
    assert ran.code == ExitCode.FAILURE
    assert ran.out == (
        "done       x/fine  fine is [good]\n"
        "needed     x/needed  needed is [good]\n"
        "conflict   x/raise-ConflictError  raise-ConflictError broke\n"
        "done       x/warn  warn is [good]\n"
        "failed     x/bug  this is a bug in deltactl: ZeroDivisionError:\n"
        "5 tables: 2 done, 1 needed, 1 conflict, 1 failed\n"
    )
    assert "warning: x/warn: odd\n" in ran.err
    assert "error: x/raise-ConflictError: raise-ConflictError broke\n" in ran.err


def test_one_table_reads_as_ever(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", "x/fine")
    assert (ran.code, ran.out, ran.err) == (0, "fine is [good]\n", "")
    assert "runs" not in fake_cli("go-round", "x/fine", "-o", "json").document


def test_json_has_the_envelopes_in_the_order_of_the_tables(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", "x/sleep", "x/raise-SafetyError", "x/warn", "-j", "3", "-o", "json")
    document = ran.document
    assert list(document) == ["schema_version", "command", "exit_code", "tables", "runs"]
    assert ran.code == document["exit_code"] == 6
    assert document["tables"] == {"done": 2, "refused": 1}
    runs = document["runs"]
    ends = [(run["status"], run["exit_code"]) for run in runs]
    assert ends == [("done", 0), ("refused", 6), ("done", 0)]
    assert [run["table"] for run in runs] == ["x/sleep", "x/raise-SafetyError", "x/warn"]
    assert [run["error"] and run["error"]["code"] for run in runs] == [None, "SAFETY", None]
    assert [run["warnings"] for run in runs] == [[], [], ["odd"]]
    assert runs[0]["result"] == {"word": "sleep"}


def test_an_envelope_a_line_as_they_end(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", "x/wait-not-at-all/sleep", "x/fine", "-j", "2", "-o", "ndjson")
    words = [json.loads(line)["result"]["word"] for line in ran.out.splitlines()]
    assert words == ["fine", "sleep"]


def test_csv_has_a_row_a_table(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", "x/fine", "x/raise-StorageError", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ran.out)))
    assert ran.code == ExitCode.STORAGE
    ends = [(row["table"], row["status"], row["exit_code"]) for row in rows]
    assert ends == [("x/fine", "done", "0"), ("x/raise-StorageError", "failed", "8")]
    assert [row["error_code"] for row in rows] == ["", "STORAGE"]
    assert [row["version_after"] for row in rows] == ["2", ""]


@pytest.mark.parametrize("jobs", [1, 3])
def test_jobs_bound_what_runs_at_once(fake_cli: RunCli, jobs: int) -> None:
    tables = [f"x/{number}/sleep" for number in range(9)]
    assert fake_cli("go-round", *tables, "--jobs", str(jobs)).code == 0
    assert len(go_round.MOST_AT_ONCE) == len(tables)
    assert max(go_round.MOST_AT_ONCE) == jobs


def test_jobs_share_cores_and_memory(fake_cli: RunCli) -> None:
    alone = fake_cli("go-round", "x/workers")
    assert alone.out == "8 workers, 1000 bytes is [good]\n"
    shared = fake_cli("go-round", "x/workers", "y/workers", "-j", "2")
    assert shared.out.count("4 workers, 500 bytes is [good]\n") == 2
    # No more share the process than there are tables.
    assert "4 workers" in fake_cli("go-round", "x/workers", "y/workers", "-j", "9").out


def test_a_table_is_run_once_however_often_it_is_named(fake_cli: RunCli, tmp_path: Path) -> None:
    there = str(tmp_path / "fine")
    ran = fake_cli("go-round", there, f"{there}/", f"file://{there}")
    assert ran.out.endswith("1 table: 1 done\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_fail_fast_begins_no_further_table(fake_cli: RunCli, jobs: str) -> None:
    tables = ["x/needed", "x/raise-ConflictError", "x/1/sleep", "x/2/sleep", "x/3/sleep"]
    ran = fake_cli("go-round", *tables, "--fail-fast", "-j", jobs, "-o", "json")
    codes = [run["error"] and run["error"]["code"] for run in ran.document["runs"]]
    assert ran.code == ExitCode.PARTIAL
    assert codes[1] == "CONFLICT"
    # Work that is needed is no failure. With two threads, the second table may fail first.
    assert codes[0] is None or (jobs == "2" and codes[0] == "NOT_BEGUN")
    assert codes[-1] == "NOT_BEGUN"
    assert len(go_round.MOST_AT_ONCE) < len(tables)
    without = fake_cli("go-round", *tables, "-j", jobs)
    assert (without.code, without.out.count("done ")) == (ExitCode.CONFLICT, 3)


@pytest.mark.parametrize(
    "text", ["# ours\n\n  lake/a \nlake/**\n", "\ufefflake/a\r\n\r\nlake/**\r\n"]
)
def test_tables_come_from_a_file_or_stdin(
    fake_cli: RunCli, lake: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (lake.parent / "tables").write_bytes(text.encode())
    for name in ("tables", "-"):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        ran = fake_cli("go-round", "lake/b", "--tables-from", name)
        tables = [line.split()[1] for line in ran.out.splitlines()[:-1]]
        assert tables == ["lake/b", "lake/a", "lake/deep/c"]


def test_a_line_break_of_unicode_does_not_end_the_address_of_a_table(
    fake_cli: RunCli, lake: Path
) -> None:
    (lake.parent / "tables").write_text("lake/b\u2028lake/a", "utf-8")
    ran = fake_cli("go-round", "--tables-from", "tables")
    tables = [line.split()[1] for line in ran.out.splitlines() if line.startswith("done ")]
    assert tables == ["lake/b\\u2028lake/a"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "Missing argument 'TABLE'"),
        (
            ["--tables-from", "absent"],
            2,
            "--tables-from absent cannot be read: No such file or directory\nhint: Give a",
        ),
        (["--tables-from", "binary"], 2, "--tables-from binary is not UTF-8 text: "),
        (["--tables-from", "empty"], 2, "--tables-from empty contains no table"),
        (["a", "b", "--jobs", "0"], 2, "--jobs: 0 is not in the range x>=1"),
    ],
)
def test_what_names_no_table(
    fake_cli: RunCli, lake: Path, args: list[str], code: int, message: str
) -> None:
    (lake.parent / "empty").write_text("# nothing\n")
    (lake.parent / "binary").write_bytes(b"\xff\xfe")
    ran = fake_cli("go-round", *args)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("pattern", "code", "message"),
    [
        ("lake/x*", "NOT_A_TABLE", "no Delta table matches 'lake/x*'"),
        ("s3://*/events", "USAGE", "'s3://*/events': the name of a bucket cannot be a glob"),
    ],
)
@pytest.mark.parametrize("others", [(), ("lake/a", "lake/deep/*")])
@pytest.mark.parametrize("command", ["optimize", "maintain", "check"])
def test_a_pattern_that_fails_is_one_entry(
    cli: RunCli,
    lake: Path,
    pattern: str,
    code: str,
    message: str,
    others: Sequence[str],
    command: str,
) -> None:
    ran = cli(command, pattern, *others, "-o", "json")
    document = ran.document
    runs = {run["table"]: run for run in document["runs"]}
    assert set(runs) == {pattern, *(it.replace("*", "c") for it in others)}
    assert (runs[pattern]["error"]["code"], runs[pattern]["error"]["message"]) == (code, message)
    assert all(not run["error"] for run in runs.values() if run["table"] != pattern)
    assert ran.code == document["exit_code"] == runs[pattern]["exit_code"]
    assert ran.err.startswith(f"error: {pattern}: {message}\n")


@pytest.mark.parametrize("pattern", ["lake/*", "lake/**"])
def test_a_table_with_an_empty_log_is_an_entry_that_fails(
    cli: RunCli, lake: Path, pattern: str
) -> None:
    (lake / "empty" / "_delta_log").mkdir(parents=True)
    (lake / "empty" / "x.parquet").touch()
    ran = cli("optimize", pattern, "-o", "csv")
    rows = {row["table"]: row for row in csv.DictReader(io.StringIO(ran.out))}
    assert (ran.code, rows["lake/empty"]["error_code"]) == (ExitCode.FAILURE, "NOT_A_TABLE")
    assert rows["lake/empty"]["message"].endswith("its _delta_log contains no commits")
    assert rows["lake/a"]["status"] == "done"


def test_the_metrics_have_a_pattern_that_fails(cli: RunCli, lake: Path, tmp_path: Path) -> None:
    cli("maintain", "lake/x*", "lake/a", "--metrics", str(tmp_path / "m.prom"))
    assert 'deltactl_exit_status{table="lake/x*"} 1\n' in (tmp_path / "m.prom").read_text()


def test_the_worst_status_has_a_place_for_every_other() -> None:
    every = [code for code in MEANINGS if code is not ExitCode.BROKEN_PIPE]
    order = sorted(every, key=lambda code: sum(find_worst((code, o)) == o != code for o in every))
    for worse, better in itertools.combinations(order, 2):
        assert find_worst((better, worse)) == worse
    shuffled = random.Random(1).sample(every, len(every))
    assert find_worst(shuffled) == order[0] == ExitCode.INTERRUPTED
    assert order[-5:] == [
        ExitCode.USAGE,
        ExitCode.PARTIAL,
        ExitCode.CONFLICT,
        ExitCode.WORK_NEEDED,
        ExitCode.DONE,
    ]


@pytest.mark.parametrize(
    ("jobs", "second"), [("1", "y/wait"), ("2", "y/wait"), ("2", "y/wait-hit")]
)
def test_a_signal_stops_all_in_good_order(jobs: str, second: str) -> None:
    tables = ["x/wait", second, "x/fine", "z/wait", "y/fine"]
    child = start("go-round", *tables, "-j", jobs, "-q", "-o", "ndjson")
    if second == "y/wait":
        child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=120)
    runs = [json.loads(line) for line in out.splitlines() if line != "ready"]
    errors = {run["table"]: (run["error"] or {}).get("message") for run in runs}
    assert child.returncode == 143
    assert set(errors) == set(tables)
    assert errors["x/wait"] == "interrupted; half is done"
    assert errors["z/wait"] == errors["y/fine"] == "interrupted before it started"


@pytest.mark.parametrize(
    ("tables", "code"), [(("x/fine", "x/wait", "y/fine"), 5), (("x/wait-idle", "y/fine"), 1)]
)
def test_the_time_limit_is_for_all_tables_together(tables: Sequence[str], code: int) -> None:
    args = (*tables, "--timeout", "2s", "-q", "-o", "json")
    done = run_fake(*args)
    document = json.loads(done.stdout.removeprefix("ready\n"))
    runs = document["runs"]
    assert done.returncode == document["exit_code"] == code  # 1 only if nothing was done anywhere
    assert [run["error"] and run["error"]["message"] for run in runs[-2:]] == [
        "stopped by --timeout 2s; half is done",
        "stopped by --timeout 2s before it started",
    ]
    assert [run["status"] for run in runs[-2:]] == ["partial", "partial"]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_reader_that_goes_away_ends_what_has_not_begun(jobs: str) -> None:
    tables = [f"x/{number}/sleep" for number in range(400)]
    child, out, errors = open_python("-c", FAKE_MAIN, "go-round", *tables, "-j", jobs)
    assert out.readline().startswith("done ")
    out.close()
    with errors:
        err = errors.read()
    assert (child.wait(timeout=10), err) == (ExitCode.BROKEN_PIPE, "")


@pytest.mark.parametrize("command", ["optimize", "vacuum", "checkpoint", "generate-manifest"])
def test_every_maintenance_command_takes_several_tables(
    cli: RunCli, lake: Path, command: str
) -> None:
    ran = cli(command, "lake/**", "lake/gone", "--dry-run", "-o", "json", "-j", "2")
    runs = ran.document["runs"]
    assert [run["table"] for run in runs] == ["lake/a", "lake/b", "lake/deep/c", "lake/gone"]
    assert [run["error"] and run["error"]["code"] for run in runs] == [None] * 3 + ["NOT_A_TABLE"]
    assert all(run["dry_run"] for run in runs)
    assert all(run["result"] for run in runs[:3])
    assert ran.code == ExitCode.FAILURE


def test_a_real_run_over_a_glob(cli: RunCli, lake: Path) -> None:
    ran = cli("optimize", "lake/*", "lake/deep/c", "-j", "2")
    assert ran.code == 0
    assert ran.out.count("3 files became 1 in version 4") == 3
    assert cli("optimize", "lake/**", "--check").code == 0


def test_no_question_while_tables_run_side_by_side(cli: RunCli, lake: Path) -> None:
    cli("optimize", "lake/**")
    args = ("vacuum", "lake/**", "--retain", "0h", "--force-retention", "-j", "2")
    refused = cli(*args)
    assert (refused.code, refused.out.count("refused ")) == (ExitCode.REFUSED, 3)
    assert cli(*args, "--yes").code == 0


@pytest.mark.parametrize(
    "args",
    [
        ("vacuum", "--inventory", "f"),
        ("vacuum", "--dump-listing", "f"),
        ("vacuum", "--keep-version", "1"),
        ("checkpoint", "--version", "1"),
        ("check", "--version", "0"),
        ("generate-manifest", "--output-root", "f"),
        ("generate-manifest", "--since", "1"),
    ],
)
def test_options_for_one_table_are_refused(
    cli: RunCli, lake: Path, args: tuple[str, str, str]
) -> None:
    ran = cli(args[0], "lake/*", *args[1:])
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {args[1]} can be used with one table only, ")


@pytest.mark.parametrize("command", ["optimize", "maintain"])
def test_new_files_of_two_tables_have_different_names(
    cli: RunCli, tmp_path: Path, command: str
) -> None:
    """A sync of a clone copies files under the same names."""
    for name in ("a", "b"):
        builder = TableBuilder(tmp_path / name, [Column("id")])
        builder.append(*([{"id": number}] for number in range(20)))
    assert cli(command, str(tmp_path / "a"), str(tmp_path / "b")).code == 0
    one, other = ({it.name for it in (tmp_path / name).glob("part-*")} for name in ("a", "b"))
    assert len(one) == len(other) == 1
    assert one.isdisjoint(other)
