import csv
import io
import json
import sys
from pathlib import Path

import pytest

from deltactl.clock import SystemClock
from tests.cli.conftest import RunCli
from tests.support.history_logs import (
    START_MS,
    add,
    ict_properties,
    info,
    log_path,
    remove,
    write_commit,
    write_log,
)


@pytest.fixture(autouse=True)
def two_hours_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: START_MS + 7_200_000)


@pytest.fixture
def incident(tmp_path: Path) -> str:
    """A table with a bit of everything."""
    write_log(tmp_path, 8)
    parameters = {"mode": "Append", "partitionBy": "[]"}
    metrics = {"numFiles": "12", "numOutputBytes": "1300000", "numOutputRows": "40321"}
    engine = "Apache-Spark/3.5.0 Delta-Lake/3.2.0"
    write_commit(
        tmp_path,
        1,
        info(operationParameters=parameters, operationMetrics=metrics, engineInfo=engine),
        add("x"),
    )
    deleted = {"predicate": '["(id < 10)"]'}
    write_commit(
        tmp_path,
        2,
        info("DELETE", userName="ann@example.com", operationParameters=deleted),
        remove("f1", 2048, 10),
        add("f2", 1024, 6),
    )
    write_commit(tmp_path, 3, add("nobody"))
    write_commit(tmp_path, 5, text='{"commitInfo":{"operation":"WRITE"}}\n{"add":{"pa')
    log_path(tmp_path, 6).unlink()
    return str(tmp_path)


NARROW = """\
   ver  time (UTC)        age  operation     by             files  size     rows
x    7  2023-11-14 22:13  1 h  WRITE                        +1     +100B    +10
!    6                         missing
!    5  2023-11-14 22:13  1 h  WRITE
     4  2023-11-14 22:13  1 h  WRITE                        +1     +100B    +10
     3  2023-11-14 22:13  1 h  -                            +1     +100B    +10
     2  2023-11-14 22:13  1 h  DELETE        ann@exampl...  +1 -1  +1K -2K  -4
     1  2023-11-14 22:13  1 h  WRITE         Spark 3.5.0    +12    +1.2M    +40K
     0  2023-11-14 22:13  2 h  CREATE TABLE

! Problems
  version 6
      problem: the commit file is missing
  version 5
      problem: the commit, line 2: not valid JSON (Unterminated string starting
               at: line 1 column 9 (char 8))

x Versions that cannot be rebuilt
  which   versions 5-7
  reason  some commits since version 0 or the previous checkpoint are missing or
          invalid
"""

WIDE = """\
   ver  time (UTC)           age  operation  parameters           by               files  size              rows
!    5  2023-11-14 22:13:25  1 h  WRITE
     4  2023-11-14 22:13:24  1 h  WRITE                                            +1     +100 B            +10
     3  2023-11-14 22:13:23  1 h  -                                                +1     +100 B            +10
     2  2023-11-14 22:13:22  1 h  DELETE     predicate=(id < 10)  ann@example.com  +1 -1  +1 KiB -2 KiB     -4
     1  2023-11-14 22:13:21  1 h  WRITE      mode=Append          Spark 3.5.0      +12    +1.2 MiB          +40,321
"""  # noqa: E501


def test_a_page_of_80_columns(cli: RunCli, incident: str) -> None:
    ran = cli("describe-history", incident)
    assert (ran.code, ran.err, ran.out) == (0, "", NARROW)


def test_rows_that_are_not_known(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    write_commit(tmp_path, 2, info("DELETE"), remove("f1", rows=None), add("f2", 1024, 6))
    write_commit(tmp_path, 3, info("OPTIMIZE"), remove("f2", rows=None), add("f3", 1024, 6))
    lines = cli("describe-history", str(tmp_path)).out.splitlines()
    assert lines[1].endswith(" +1 -1  +1K -100B")  # it rearranges: no row changes
    assert lines[2].endswith(" +1 -1  +1K -100B  ?")
    assert lines[3].endswith(" +10")


def test_a_wide_page_shows_seconds_and_parameters(
    cli: RunCli, incident: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    ran = cli("describe-history", incident, "--version-range", "1..5")
    squeezed = [line.split() for line in WIDE.splitlines()]
    assert [line.split() for line in ran.out.splitlines()][: len(squeezed)] == squeezed
    assert "x Versions that cannot be rebuilt\n  which   version 5\n" in ran.out


def test_no_line_is_wider_than_the_page(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 30)
    for version in range(1, 30):
        write_commit(
            tmp_path,
            version,
            info("CREATE OR REPLACE TABLE AS SELECT", userName="somebody with a long name"),
            add("x", 10**12, 10**9),
            remove("y", 10**13, 10**8),
        )
    ran = cli("describe-history", str(tmp_path), "--limit", "20")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert ran.out.endswith("\n10 older versions not shown: use --limit N or --all\n")


def test_a_terminal_gets_a_screenful(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = str(write_log(tmp_path, 30))
    assert len(cli("describe-history", table).out.splitlines()) == 31  # a title, and no note
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "10 older versions not shown" in cli("describe-history", table).out


def test_limit_bounds_the_rows_and_all_shows_every_commit(cli: RunCli, tmp_path: Path) -> None:
    table = str(write_log(tmp_path, 30))

    def shown(*args: str) -> int:
        return len(cli("describe-history", table, "-o", "json", *args).result)

    assert [shown(), shown("--limit", "3"), shown("--all"), shown("-n", "99")] == [30, 3, 30, 30]
    ran = cli("describe-history", table, "-o", "ndjson", "-n", "29")
    assert ran.err == "note: 1 older version not shown: use --limit N or --all\n"
    assert len(ran.out.splitlines()) == 29


def test_json_has_the_versions_and_all_columns_of_a_commit(cli: RunCli, incident: str) -> None:
    ran = cli("describe-history", incident, "-o", "json", "--all")
    envelope = ran.document
    assert (envelope["version_before"], envelope["version_after"]) == (7, 7)
    rows = {row["version"]: row for row in envelope["result"]}
    assert {name: value for name, value in rows[2].items() if value is not None} == {
        "version": 2,
        "timestamp": "2023-11-14T22:13:22.000Z",
        "userName": "ann@example.com",
        "operation": "DELETE",
        "operationParameters": {"predicate": '["(id < 10)"]'},
        "otherInfo": {},
        "reconstructible": True,
    }  # the schema has the others
    assert rows[6]["problem"] == "the commit file is missing"
    assert (rows[3]["operationParameters"], rows[6]["operationParameters"]) == ({}, None)


def test_csv_has_all_columns_and_a_header_without_rows(cli: RunCli, incident: str) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("describe-history", incident, "-o", "csv").out)))
    assert [row["version"] for row in rows] == list("76543210")
    assert rows[5]["operationParameters"] == '{"predicate": "[\\"(id < 10)\\"]"}'
    none = cli("describe-history", incident, "-o", "csv", "--operation", "VACUUM").out
    assert none.startswith("version,timestamp,userId,")


def test_filters_select_versions_by_operation_and_time(cli: RunCli, incident: str) -> None:
    def versions(*args: str) -> list[int]:
        lines = cli("describe-history", incident, "-o", "ndjson", *args).out.splitlines()
        return [json.loads(line)["version"] for line in lines]

    assert versions("--operation", "delete", "--operation", "create table") == [2, 0]
    assert versions("--since", "2023-11-14 22:13:24") == [7, 6, 5, 4]
    assert versions("--until", "2023-11-14T22:13:21.5Z") == [1, 0]
    assert versions("--since", "1h") == []
    assert versions("--since", "7199s") == [7, 6, 5, 4, 3, 2, 1]
    assert versions("--version-range", "..1") == [1, 0]
    assert versions("--version-range", "6..") == [7, 6]
    assert versions("--version-range", "3") == [3]
    assert versions("--version", "4") == [4]
    assert cli("describe-history", incident, "--since", "1s").out == "no commits match\n"


def test_at_shows_the_version_that_was_current(cli: RunCli, incident: str) -> None:
    ran = cli("describe-history", incident, "--at", "2023-11-14 22:13:22")
    assert ran.out.startswith(
        "version 2 was current at 2023-11-14T22:13:22.000Z\n"
        "  until  2023-11-14T22:13:23.000Z (1 h ago), version 3\n"
        "\n"
    )
    late = cli("describe-history", incident, "--at", "2099-01-01", "-o", "ndjson")
    assert late.document["version"] == 7
    assert "latest version" in cli("describe-history", incident, "--at", "2099-01-01").out
    before = cli("describe-history", incident, "--at", "2000-01-01")
    assert (before.code, before.out) == (1, "")
    assert "is before the first commit in the log" in before.err


def test_at_says_that_a_missing_version_may_have_been_current(cli: RunCli, incident: str) -> None:
    log_path(Path(incident), 3).unlink()
    ran = cli("describe-history", incident, "--at", "2023-11-14 22:13:23")
    assert ran.out.startswith("version 2, or a missing one, was current at 2023-")
    assert "until  unknown: the commit of version 3 is missing" in ran.out
    assert "perhaps this version, or a later missing one, was current" in ran.err


def test_files_of_a_version(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    write_commit(
        tmp_path,
        1,
        info("MERGE"),
        add("1", partitionValues={"day": "2024-01-01"}),
        remove("2", 2048, partitionValues={"day": None}),
    )
    ran = cli("describe-history", str(tmp_path), "--version", "1", "--files")
    assert ran.out == (
        "version    1\n"
        "committed  2023-11-14T22:13:21.000Z (1 h ago)\n"
        "operation  MERGE\n"
        "\n"
        "Partitions\n"
        "  partition                       added   size  rows  removed   size  rows\n"
        "  day=__HIVE_DEFAULT_PARTITION__                            1  2 KiB     ?\n"
        "  day=2024-01-01                      1  100 B    10\n"
        "\n"
        "Files\n"
        "  action   size  rows\n"
        "  add     100 B    10\n"
        "      file: 1\n"
        "  remove  2 KiB     ?\n"
        "      file: 2\n"
    )
    ran = cli("describe-history", str(tmp_path), "--version", "1", "--files", "-o", "json")
    result = ran.result
    assert (result["version"], result["operation"]) == (1, "MERGE")
    assert result["files"][1] == {
        "partition_values": {"day": "2024-01-01"},
        "added_num_files": 1,
        "added_size_bytes": 100,
        "added_num_rows": 10,
        "added_num_deletion_vectors": 0,
        "removed_num_files": 0,
        "removed_size_bytes": 0,
        "removed_num_rows": 0,
        "removed_num_deletion_vectors": 0,
    }
    assert result["actions"] == [
        {"action": action, "path": path, "size_bytes": size, "num_rows": rows,
         "deletion_vector": False}
        for action, path, size, rows in [("add", "1", 100, 10), ("remove", "2", 2048, None)]
    ]  # fmt: skip
    nothing = cli("describe-history", str(tmp_path), "--version", "0", "--files")
    assert nothing.out.endswith("\nno files added or removed\n")


def test_a_time_after_the_year_9999_is_shown(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 1, **ict_properties())
    write_commit(tmp_path, 1, info(inCommitTimestamp=9_404_914_161_600_000))
    ran = cli("describe-history", str(tmp_path), "-o", "json")
    assert ran.result[0]["timestamp"].startswith("+299999-")
    assert "+299999-" in cli("describe-history", str(tmp_path)).out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--files"], "--files needs --version"),
        (["--at", "1h", "--version", "3"], "--at and --version cannot be combined"),
        (["--version", "3", "--all"], "--version and a filter of commits"),
        (["--limit", "3", "--all"], "--limit and --all cannot be combined"),
        (["--version-range", "7..3"], "ends before it starts"),
        (["--version-range", ".."], "is not a range of versions"),
        (["--version-range", "a..b"], "is not a range of versions"),
        (["--since", "yesterday"], "'yesterday' is not a timestamp"),
        (["--limit", "0"], "--limit: 0 is not in the range x>=1"),
        (["--blame", "a=1", "--at", "2h"], "error: "),
        (["--diff", "1..2", "--restorable"], "error: "),
        (["--follow", "--diff", "1..2"], "error: "),
        (["--since-version", "3"], "error: "),
        (["--follow", "--limit", "3"], "error: "),
    ],
)
def test_wrong_usage_exits_2_and_says_why(
    cli: RunCli, tmp_path: Path, args: list[str], message: str
) -> None:
    ran = cli("describe-history", str(write_log(tmp_path, 1)), *args)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize("asked", ["--version", "--version-range"])
def test_a_version_that_is_not_there(cli: RunCli, tmp_path: Path, asked: str) -> None:
    ran = cli("describe-history", str(write_log(tmp_path, 2)), asked, "7")
    assert (ran.code, ran.out) == (1, "")
    assert "has no version 7: it has versions 0 to 1" in ran.err


def test_without_a_table_the_error_says_what_to_give(cli: RunCli, tmp_path: Path) -> None:
    ran = cli("describe-history", str(tmp_path / "none"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"error: no Delta table at file://{tmp_path}/none: the directory is empty or missing\n"
        "hint: Give the directory that contains _delta_log.\n"
        "note: See `deltactl explain NOT_A_TABLE`.\n"
    )


@pytest.mark.corpus
def test_tables_of_other_writers_are_shown(cli: RunCli, corpus: Path) -> None:
    for table in sorted((corpus / "tables").iterdir())[::3]:
        if (table / "_delta_log").is_dir():
            ran = cli("describe-history", str(table), "--all")
            assert ran.code == 0, (table.name, ran.err)


LONG = " and ".join(f"id != {number}" for number in range(200))


def test_a_pipe_gets_every_text_whole(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, 1)
    parameters = {"predicate": f'["({LONG[:300]})"]'}
    engine = "another-engine-with-a-long-name/1.2.3"
    write_commit(
        tmp_path, 1, info("DELETE", operationParameters=parameters, engineInfo=engine), add("x")
    )
    narrow = cli("describe-history", str(tmp_path)).out
    assert max(map(len, narrow.splitlines())) <= 80
    monkeypatch.delenv("COLUMNS")
    whole = cli("describe-history", str(tmp_path)).out
    assert LONG[:300] in whole
    assert "another-engine-with-a-long-name 1.2.3" in whole


def test_one_version_is_shown_with_all_that_its_commit_says(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    write_commit(
        tmp_path,
        1,
        info(
            "DELETE",
            operationParameters={"predicate": f'["({LONG})"]'},
            operationMetrics={"numDeletedRows": "34"},
            userMetadata="ticket 12",
        ),
        add("x"),
    )
    out = cli("describe-history", str(tmp_path), "--version", "1").out
    assert max(map(len, out.splitlines())) <= 80
    assert LONG in " ".join(out.split())
    for text in ("operationParameters", "numDeletedRows  34", "userMetadata", "ticket 12"):
        assert text in out
    assert "operationParameters" not in cli("describe-history", str(tmp_path)).out


def test_a_list_of_commits_as_json_needs_no_arrow(tmp_path: Path, process: RunCli) -> None:
    write_log(tmp_path, 3)
    program = (
        "import sys; from deltactl.cli.app import run; code = run(sys.argv[1:]); "
        "print(code, 'pyarrow' in sys.modules, 'pandas' in sys.modules, file=sys.stderr)"
    )
    arguments = ("describe-history", str(tmp_path), "--limit", "2", "-o", "json")
    assert process("-c", program, *arguments).err.splitlines()[-1] == "0 False False"
