"""``deltactl maintain``: several tables, one plan; output, exit statuses, policy, metrics."""

import os
import re
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from deltactl.cli.signals import Cancellation
from deltactl.log.snapshot import Snapshot
from deltactl.operations.maintain.act import _OPERATIONS, TableWork
from deltactl.operations.maintain.report import Outcome
from deltactl.operations.maintain.run import Maintenance
from deltactl.operations.optimize.tasks import rewrite_files
from tests.cli.conftest import RunCli
from tests.support.html_page import parse_page
from tests.support.table_builder import Column, TableBuilder, commit_path

_OPERATIONS_BEFORE = dict(_OPERATIONS)


def build(root: Path, files: int = 12) -> TableBuilder:
    builder = TableBuilder(root, [Column("id"), Column("part", "string")])
    for number in range(files):
        builder.append([{"id": number, "part": "a"}])
    return builder


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables with work to do, and one that is broken."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("a", "b", "broken"):
        build(tmp_path / name)
    (tmp_path / "broken" / commit_path(3)).unlink()
    return tmp_path


def test_a_check_tells_by_its_status(lake: Path, cli: RunCli) -> None:
    assert cli("maintain", "a", "--check").code == 3
    assert cli("maintain", "a", "b", "--check").code == 3
    assert cli("maintain", "a", "broken", "--check").code == 1
    assert cli("maintain", "a", "b").code == 0
    done = cli("maintain", "a", "b", "--check")
    assert done.code == 0
    assert "Nothing to do" in done.out


def test_a_dry_run_gives_the_reasons_by_rank(lake: Path, cli: RunCli) -> None:
    ran = cli("maintain", "a", "b", "--dry-run")
    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    ranks = [line.split()[0] for line in lines if "checkpoint  " in line or "optimize  " in line]
    assert ranks == ["1", "2", "3", "4"]
    assert any(" a " in line and "optimize" in line for line in lines)
    assert any(line.startswith("reason: 12 small files become 1") for line in lines)
    assert any("commits since the last checkpoint; the interval is 10" in line for line in lines)
    assert "  deltactl maintain a b" in ran.out.splitlines()
    assert len(list((lake / "a/_delta_log").iterdir())) == 13


def test_a_list_of_one_table_gives_the_reasons_too(lake: Path, cli: RunCli) -> None:
    (lake / "list.txt").write_bytes(b"# tables\r\n\r\n  a/  \r\n./a\r\n")
    ran = cli("maintain", "--tables-from", "list.txt", "--dry-run")
    assert "1 table: 1 planned" in ran.out
    assert "12 small files become 1" in ran.out
    assert "deltactl maintain --tables-from list.txt" in ran.out


def test_json_of_one_and_of_several(lake: Path, cli: RunCli) -> None:
    planned = cli("maintain", "a", "--dry-run", "-o", "json").result
    assert planned["due"]
    assert planned["totals"]["measured"] is None
    assert sorted(it["rank"] for it in planned["actions"]) == [1, 2]
    document = cli("maintain", "a", "b", "-o", "json").document
    assert document["totals"]["measured"]["files_removed"] == 22
    assert document["totals"]["predicted"]["files_removed"] == 22
    assert [run["table"] for run in document["runs"]] == ["a", "b"]
    outcome = document["runs"][0]["result"]["outcomes"][0]
    assert outcome["measured"]["bytes_read"] == outcome["predicted"]["bytes_read"]


@pytest.mark.parametrize("option", [["--dry-run"], ["--check"], []])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_warning_of_a_log_is_told_once_with_its_table(
    lake: Path, cli: RunCli, option: list[str], jobs: str
) -> None:
    (lake / "b/_delta_log/_last_checkpoint").write_bytes(b"{")
    ran = cli("maintain", "a", "b", "--jobs", jobs, "-o", "json", *option)
    warning = "_delta_log/_last_checkpoint is not valid JSON, so the whole log is listed"
    assert [run["warnings"] for run in ran.document["runs"]] == [[], [warning]]
    assert [line for line in ran.err.splitlines() if warning in line] == [f"warning: b: {warning}"]
    (lake / "b/_delta_log/_last_checkpoint").write_bytes(b"{")
    one = cli("maintain", "b", *option)
    assert [it for it in one.err.splitlines() if warning in it] == [f"warning: {warning}"]


def test_csv_without_actions_has_its_header(lake: Path, cli: RunCli) -> None:
    header, *rows = cli("maintain", "a", "--check", "-o", "csv").out.splitlines()
    assert len(rows) == 2
    cli("maintain", "a")
    for words in (
        ("--check",),
        ("--dry-run",),
        (),
        ("--policy", write_policy(lake, "[maintain]\nactions = []")),
    ):
        ran = cli("maintain", "a", *words, "-o", "csv")
        assert (ran.code, ran.out) == (0, f"{header}\n")
    assert cli("maintain", "a", "-o", "ndjson").out == ""


def test_what_was_not_done_is_named(lake: Path, cli: RunCli) -> None:
    ran = cli("maintain", "a", "b", "--budget", "1B")
    rows = [line.split() for line in ran.out[ran.out.index("Not done") :].splitlines()[1:]]
    assert rows[0] == ["count", "action", "table", "reason"]
    left = [row[:3] for row in rows[1:]]
    assert left == [["2", "optimize", "several"], ["2", "checkpoint", "several"]]
    cli("maintain", "b")
    ran = cli("maintain", "a", "b", "--budget", "1B")
    rows = [line.split() for line in ran.out[ran.out.index("Not done") :].splitlines()[2:]]
    assert [row[:3] for row in rows] == [["1", "optimize", "a"], ["1", "checkpoint", "a"]]


def test_a_document_has_the_tables_as_they_were_given(lake: Path, cli: RunCli) -> None:
    build(lake / "small", 2)
    given = ["small", "none-*", "b", "broken", "a"]
    runs = cli("maintain", *given, "--dry-run", "-o", "json").document["runs"]
    assert [run["table"] for run in runs] == given


@pytest.mark.parametrize("form", ["ndjson", "csv", "junit", "github"])
def test_every_format_has_the_exit_status_of_the_worst_table(
    lake: Path, cli: RunCli, form: str
) -> None:
    one = cli("maintain", "a", "--check", "-o", form)
    assert one.code == 3
    several = cli("maintain", "a", "b", "broken", "--check", "-o", form)
    assert several.code == 1
    if form == "junit":
        assert 'failures="2" errors="1"' in several.out
    if form == "github":
        assert several.out.count("::error title=deltactl maintain") == 3


def test_the_result_of_one_table_for_people(lake: Path, cli: RunCli) -> None:
    ran = cli("maintain", "a")
    assert ran.code == 0
    assert ran.out.startswith("2 actions done: 11 files fewer")
    assert "version 13" in ran.out
    page = ran.out[ran.out.index("The table before the run") :]
    assert page.splitlines()[2].split()[:2] == ["files", "12"]


def test_commits_that_wait_are_deleted_on_a_terminal(lake: Path, cli: RunCli) -> None:
    """Beside a commit that may be damaged, a cleanup with --yes is refused."""
    build(lake / "old").checkpoint(11)
    for version in range(13):
        when = 1e9 + version * 86_400
        os.utime(lake / "old" / commit_path(version), (when, when))
    ran = cli("maintain", "old", "--dry-run")
    assert "deltactl checkpoint old --cleanup-only` on a terminal" in " ".join(ran.out.split())
    assert "--yes" not in ran.out


@pytest.mark.parametrize("command", ["vacuum", "maintain"])
def test_files_that_wait_for_a_commit_are_said_once_in_each_format(
    lake: Path, cli: RunCli, command: str
) -> None:
    builder = build(lake / "old", 2)
    builder.remove(next(path for path, _ in builder.state.files))
    for path in (lake / "old").rglob("*"):
        os.utime(path, (1e9, 1e9))
    os.utime(lake / "old" / commit_path(0), (9e8, 9e8))  # so the first run also records a vacuum
    text = "1 file is kept: only this machine's clock shows that the retention has passed. If it is"
    only = ("--only", "vacuum") if command == "maintain" else ()
    for tables in (("old",), ("old", "a")):
        for form in ("table", "json", "ndjson", "csv", "github", "junit"):
            ran = cli(command, *tables, *only, "-q", "-o", form)
            said = [line for line in ran.err.splitlines() if text in line]
            assert (ran.code, len(said)) == (0, 1)
            assert said[0].endswith(" right, run vacuum with --force-retention")
            has_envelope = form in ("json", "github", "junit") or (form, *tables[1:]) == (
                "ndjson",
                "a",
            )
            assert ran.out.count(text) == has_envelope


def test_only_some_actions(lake: Path, cli: RunCli) -> None:
    found = cli("maintain", "a", "--only", "checkpoint", "-o", "json").result
    assert [it["action"] for it in found["actions"]] == ["checkpoint"]
    assert cli("maintain", "a", "--only", "tidy").code == 2
    assert cli("maintain", "a", "--only", "").code == 2


def write_policy(lake: Path, text: str) -> str:
    (lake / "policy.toml").write_text(text)
    return "policy.toml"


def test_a_policy_by_pattern(lake: Path, cli: RunCli) -> None:
    policy = write_policy(
        lake,
        """
        [maintain]
        actions = "optimize,checkpoint"

        [profiles.quiet]
        tables = ["b"]

        [profiles.quiet.maintain]
        actions = ["checkpoint"]
        """,
    )
    ran = cli("maintain", "a", "b", "--policy", policy, "--dry-run", "-o", "json")
    runs = {run["table"]: run["result"]["actions"] for run in ran.document["runs"]}
    assert {it["action"] for it in runs["a"]} == {"optimize", "checkpoint"}
    assert [it["reason"] for it in runs["b"]] == [
        "13 commits since the last checkpoint; the interval is 10"
    ]


@pytest.mark.parametrize(
    ("actions", "words", "reason"),
    [
        ("", [], "the policy has no actions"),
        ("vacuum", ["--only", "checkpoint"], "the policy does not enable checkpoint"),
    ],
)
def test_tables_that_the_policy_leaves_out_are_skipped(
    lake: Path, cli: RunCli, actions: str, words: Sequence[str], reason: str
) -> None:
    """Their logs are not read: no error of them is one of the run."""
    text = '[profiles.out]\ntables = ["b*"]\n[profiles.out.maintain]\nactions = "{}"\n'
    words = ["--policy", write_policy(lake, text.format(actions)), *words]
    ran = cli("maintain", "a", "b", "broken", *words, "--metrics", "m.prom", "-o", "json")
    assert ran.code == 0
    runs = {run["table"]: run for run in ran.document["runs"]}
    assert [runs[it]["status"] for it in ("a", "b", "broken")] == ["done", "skipped", "skipped"]
    assert {runs[it]["skipped"] for it in ("b", "broken")} == {reason}
    assert ran.document["totals"]["failed_tables"] == 0
    text = (lake / "m.prom").read_text()
    assert 'exit_status{table="b"} 0' in text
    assert re.findall(r'success_timestamp_seconds\{table="(.*)"', text) == ["a"]
    assert '<skipped message="the policy' in cli("maintain", "[ab]", *words, "-o", "junit").out


def test_one_table_that_the_policy_leaves_out_is_skipped(lake: Path, cli: RunCli) -> None:
    words = ["--policy", write_policy(lake, '[maintain]\nactions = ""\n'), "--metrics", "m.prom"]
    for form in ("table", "json", "ndjson", "csv", "github", "junit"):
        ran = cli("maintain", "broken", *words, "--check", "-o", form)
        assert (ran.code, ran.err) == (0, "")
    assert cli("maintain", "broken", *words).out == "Skipped: the policy has no actions\n"
    assert re.findall("^deltactl_.*", (lake / "m.prom").read_text(), re.MULTILINE) == [
        'deltactl_exit_status{table="broken"} 0'
    ]


def test_a_table_without_an_action_of_only_is_skipped(lake: Path, cli: RunCli) -> None:
    policy = write_policy(lake, '[maintain]\nactions = "vacuum"\n')
    for only, reason in (("optimize", "the policy does not enable optimize"), ("vacuum", None)):
        ran = cli("maintain", "a", "--policy", policy, "--only", only, "-o", "json")
        assert (ran.code, ran.document["skipped"]) == (0, reason)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[maintain]\nskip-hott = '1h'", "Did you mean 'skip-hot'"),
        ("[maintain]\nskip-hot = 'soon'", "policy.toml: maintain.skip-hot"),
        ("[maintain]\nwindow = '22:00-06:00'", "limit its time with --budget"),
        ("[maintain]\nweight-files = 2", "Remove the key"),
        ("[maintain]\n[optimize]\nskip-hott = '1h'", "optimize.skip-hott"),
        ("[optimize]\nskip-hot = '1h'", "Write the settings under [maintain]"),
        ("[maintain]\nwhere = 'true'", "maintain.where"),
        ("[maintain", "not valid TOML"),
    ],
)
def test_what_is_wrong_in_a_policy_is_said(lake: Path, cli: RunCli, text: str, said: str) -> None:
    ran = cli("maintain", "a", "--policy", write_policy(lake, text))
    assert ran.code == 2
    assert said in ran.err
    assert not (lake / "a" / commit_path(13)).exists()


@pytest.mark.parametrize("section", ["maintain", "profiles.one.maintain"])
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("cluster-columns = 'nope'", "cluster-columns: the table has no column 'nope'"),
        ("retain = '1d'", "retain 1d is less than this table's retention"),
    ],
)
def test_what_does_not_fit_a_table_is_said_with_its_key(
    lake: Path, cli: RunCli, section: str, key: str, said: str
) -> None:
    text = f"[profiles.one]\ntables = ['a']\n[{section}]\n{key}\n"
    words = ("--policy", write_policy(lake, text), "--dry-run", "-o", "json")
    message = cli("maintain", "a", *words).document["error"]["message"]
    place = "" if "profiles" in section else "policy.toml: maintain."  # one for all tables
    assert message.startswith(f"{place}{said}")


@pytest.mark.parametrize(
    ("text", "variable", "unused"),
    [
        ("quarantine = true\nretain = '30d'", "", ["vacuum.quarantine", "vacuum.retain"]),
        ("quarantine = false\nmax-files = 5", "", []),
        ("retain = '30d'\n[maintain]\nretain = '20d'", "", []),
        ("keep-last = 5\n[maintain]\nactions = 'optimize'", "", []),
        ("", "5", ["DELTACTL_KEEP_LAST"]),
    ],
)
def test_settings_of_vacuum_that_are_not_used_are_named_once(
    lake: Path,
    cli: RunCli,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    variable: str,
    unused: list[str],
) -> None:
    monkeypatch.setenv("DELTACTL_KEEP_LAST", variable)
    (lake / "deltactl.toml").write_text(f"[vacuum]\n{text}\n")
    monkeypatch.setenv("DELTACTL_CONFIG", "deltactl.toml")
    ran = cli("maintain", "a", "b", "--dry-run")
    assert ran.code == 0
    assert ran.err.count("does not use these settings of vacuum") == bool(unused)
    assert all(key in ran.err for key in unused)
    other = cli("maintain", "a", "--only", "optimize", "--dry-run")
    assert "does not use" not in other.err


def test_a_profile_that_no_table_matches_is_named_once(
    lake: Path, cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[profiles.{0}]\ntables = ["{1}"]\n[profiles.{0}.maintain]\nactions = ["vacuum"]\n'
    (lake / "deltactl.toml").write_text(text.format("wrong", "/data/a") + text.format("b", "*/b"))
    monkeypatch.delenv("DELTACTL_CONFIG")
    (lake / "list.txt").write_text("a\nb\n")
    for words in (["[ab]"], ["--tables-from", "list.txt"]):
        ran = cli("maintain", *words, "--dry-run")
        assert (ran.code, ran.err.count(f"of {lake}/deltactl.toml: [profiles.wrong]: ")) == (0, 1)
        assert "[profiles.b]" not in ran.err
    assert "profiles" not in cli("maintain", "a", "b", "--dry-run").err  # perhaps not all tables


def test_a_missing_live_file_is_told_if_the_files_are_listed(lake: Path, cli: RunCli) -> None:
    next((lake / "a").glob("*.parquet")).unlink()
    policy = write_policy(lake, '[maintain]\nactions = ["vacuum"]\nlist-files = "always"\n')
    for words in (("--dry-run",), ()):
        ran = cli("maintain", "a", "--policy", policy, *words)
        assert ran.err.count("warning: 1 live file does not exist, such as ") == 1
        assert "Run `deltactl check a`" in ran.err


def test_a_broken_data_file_names_the_next_step(lake: Path, cli: RunCli) -> None:
    victim = next((lake / "a").glob("*.parquet"))
    victim.write_bytes(victim.read_bytes()[:-9])
    error = cli("maintain", "a", "-o", "json").document["error"]
    assert error["code"] == "DATA_FILE"
    assert error["hint"].startswith("Run `deltactl explain FILE_SIZE`")


def test_metrics_of_tables_on_which_the_command_was_not_called(
    lake: Path, cli: RunCli, end_time: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the exit status of the table in this run."""

    def expire(self: Maintenance, tables: Sequence[str]) -> Sequence[str]:
        end_time()
        return tables

    target = lake / "deltactl.prom"
    cli("maintain", "a", "absent", "--metrics", str(target), "--fail-fast", "-j", "1")
    assert 'exit_status{table="absent"} 1' in target.read_text()
    monkeypatch.setattr(Maintenance, "decide", expire)
    cli("maintain", "a", "b", "--metrics", str(target), "--timeout", "1s")
    assert re.findall(r"exit_status\{.* (\d+)", target.read_text()) == ["5", "5"]


def test_a_stopped_run_counts_the_actions_that_were_finished(
    cli: RunCli, tmp_path: Path, end_time: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is up while the second of three partitions is rewritten, in one call."""
    builder = TableBuilder(tmp_path, [Column("id"), Column("p", "string")], partition_by=["p"])
    for number, part in enumerate("abc" * 6):
        builder.append([{"id": number, "p": part}])
    started: list[object] = []

    def rewrite(*args: Any) -> Any:
        started.append(args)
        if len(started) == 2:
            end_time()
        return rewrite_files(*args)

    monkeypatch.setattr("deltactl.operations.optimize.layout.tasks.rewrite_files", rewrite)
    ran = cli("maintain", str(tmp_path), "--only", "optimize", "--max-concurrent", "1")
    assert ran.out.startswith("2 actions done: 10 files fewer")
    assert "stopped by --timeout 1h; 2 actions finished" in ran.err
    assert ran.code == 5


@pytest.mark.parametrize(
    ("tables", "at", "code"),
    [
        (["a"], 1, 1), (["*"], 1, 1), (["a", "b"], 1, 1), (["a"], 2, 0), (["*"], 2, 5),
        (["*", "--policy", "policy.toml"], 1, 1),
    ],
)  # fmt: skip
def test_the_exit_status_says_whether_anything_was_done(
    lake: Path,
    cli: RunCli,
    end_time: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    tables: Sequence[str],
    at: int,
    code: int,
) -> None:
    """The time is up before the first table is rewritten, or before its second and last call.

    That one finds nothing left to do: the optimize wrote the checkpoint.
    """
    shutil.rmtree("broken")
    write_policy(lake, '[profiles.b]\ntables = ["b"]\n[profiles.b.maintain]\nactions = []\n')
    calls: list[object] = []

    def act(work: TableWork, base: Outcome) -> Outcome:
        calls.append(work)
        if len(calls) == at:
            end_time()
        return _OPERATIONS_BEFORE[base.name](work, base)

    for name in _OPERATIONS_BEFORE:
        monkeypatch.setitem(_OPERATIONS, name, act)
    ran = cli("maintain", *tables, "-j", "1")
    assert ran.code == code, ran.out


def test_the_time_may_end_before_the_first_table(
    lake: Path, cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables are listed, in each form."""

    def limit(cancellation: Cancellation, *_: object) -> AbstractContextManager[None]:
        cancellation.expired_ms = 1000
        cancellation.token.set()
        return nullcontext()

    monkeypatch.setattr("deltactl.cli.session.limit_time", limit)
    ran = cli("maintain", "a", "b", "-o", "json")
    document = ran.document
    assert ran.code == document["exit_code"] == 1
    errors = [(run["table"], run["error"]["code"]) for run in document["runs"]]
    assert errors == [("a", "TIMEOUT"), ("b", "TIMEOUT")]
    rows = cli("maintain", "a", "b", "-o", "csv").out.splitlines()
    assert [row[:10] for row in rows] == ["table,stat", "a,partial,", "b,partial,"]
    ran = cli("maintain", "a", "-o", "json")
    run = ran.document
    assert (ran.code, run["table"], run["error"]["code"]) == (1, "a", "TIMEOUT")
    assert run["error"]["message"] == "stopped by --timeout 1s before it started"


def test_metrics_are_written_by_a_rename(
    lake: Path, cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = lake / "metrics" / "deltactl.prom"
    target.parent.mkdir()
    ran = cli("maintain", "a", "broken", "--metrics", str(target))
    assert ran.code == 1
    text = target.read_text()
    assert 'deltactl_small_files{table="a"} 12\n' in text
    assert 'deltactl_exit_status{table="broken"} 1\n' in text
    assert [path.name for path in target.parent.iterdir()] == ["deltactl.prom"]
    assert target.stat().st_mode & stat.S_IROTH  # the exporter is another user
    cli("maintain", "a", "--dry-run", "--metrics", str(target))
    assert 'deltactl_small_files{table="a"} 1\n' in target.read_text()
    kept = re.findall(r'time_travel_bytes{table="a"} (\d+)', target.read_text())
    assert [int(size) > 0 for size in kept] == [True]
    monkeypatch.setattr(Snapshot, "tombstone_batches", pytest.fail)
    assert cli("maintain", "a", "--dry-run").code == 0


@pytest.mark.parametrize("name", ["-", "b/m.prom"])
def test_where_metrics_cannot_be(lake: Path, cli: RunCli, name: str) -> None:
    ran = cli("maintain", "a", "--metrics", name)
    assert ran.code == 2
    assert not (lake / "a" / commit_path(13)).exists()


def test_what_was_not_looked_at_is_not_counted(lake: Path, cli: RunCli) -> None:
    """Without optimize nobody knows which files are small: 0 would be wrong."""
    policy = write_policy(lake, '[maintain]\nactions = ["checkpoint"]\n')
    words = ("a", "--policy", policy, "--dry-run", "--metrics", "lake.prom", "--report", "p.html")
    ran = cli("maintain", *words)
    assert "small" not in ran.out
    assert "deltactl_small_files" not in (lake / "lake.prom").read_text()
    assert "small files" not in (lake / "p.html").read_text()
    assert cli("maintain", *words, "-o", "json").result["facts"]["small_files"] is None


def test_the_report_as_a_page(lake: Path, cli: RunCli) -> None:
    cli("maintain", "a", "b", "broken", "--report", "planned.html", "--dry-run")
    cli("maintain", "a", "b", "broken", "--report", "done.html")
    for name in ("planned.html", "done.html"):
        page = parse_page((lake / name).read_text())
        assert page is not None
    text = (lake / "done.html").read_text()
    assert "Measured and predicted" in text
    assert "Actions by rank" in (lake / "planned.html").read_text()


def test_a_table_whose_path_is_not_utf_8(lake: Path, cli: RunCli) -> None:
    """It can be read; nothing is written into it, and the other tables are maintained."""
    bad = lake / os.fsdecode(b"bad\xff")
    try:
        shutil.copytree(lake / "a", bad)
    except OSError:
        pytest.skip("this file system takes Unicode names only")
    before = sorted(bad.rglob("*"))
    for words in (
        ["optimize"],
        ["checkpoint"],
        ["generate-manifest"],
        ["vacuum", "--yes", "--force-retention", "--retain", "0s"],
    ):
        ran = cli(*words, str(bad))
        assert ran.code in (6, 7)
        assert "is not UTF-8" in ran.err
        assert "hint: Move the table to a path that is UTF-8." in ran.err
    target = lake / "m.prom"
    assert cli("maintain", "a", str(bad), "--metrics", str(target)).code == 6
    assert sorted(bad.rglob("*")) == before
    metrics = target.read_text("utf-8")
    assert 'deltactl_exit_status{table="a"} 0\n' in metrics
    assert 'bad\\\\udcff"} 6\n' in metrics
    assert cli("check", str(bad)).code == 0
