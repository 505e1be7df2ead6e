"""``describe-history``: two versions compared, a partition's commits, commits as they come."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from deltactl.cli.pages.history import format_partition
from deltactl.errors import UsageError, VersionNotFoundError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.history.blame import parse_partition
from deltactl.operations.history.run import follow_history
from deltactl.storage.open import open_store
from tests.cli.conftest import RunCli
from tests.cli.test_app import open_python
from tests.support.history_logs import (
    add,
    ict_properties,
    info,
    log_path,
    remove,
    write_commit,
    write_log,
)
from tests.support.stores import CountingStore
from tests.support.table_builder import Column, TableBuilder, commit_path

DAYS = ("2024-01-01", "2024-01-02")


@pytest.fixture
def built(tmp_path: Path) -> TableBuilder:
    """Versions 1 and 2 append to two days, 3 deletes a row, 4 drops a file, 5 adds a column."""
    table = TableBuilder(
        tmp_path,
        [Column("id"), Column("day", "string")],
        partition_by=("day",),
        features=["deletionVectors"],
    )
    (first,) = table.append([{"id": n, "day": DAYS[0]} for n in range(4)])
    (second,) = table.append([{"id": n, "day": DAYS[1]} for n in range(3)])
    table.delete_rows(first, [0])
    table.remove(second)
    action = table.metadata_action(
        columns=[*table.columns, Column("note", "string")], properties={"custom.owner": "ann"}
    )
    table.commit(action, operation="ADD COLUMNS")
    return table


def blamed(cli: RunCli, place: Path, partition: str) -> list[int]:
    """The versions of the commits that blame shows."""
    ran = cli("describe-history", str(place), "--blame", partition, "-o", "json")
    assert ran.code == 0, ran.err
    return [row["version"] for row in ran.result]


def diff(cli: RunCli, place: Path, versions: str) -> dict[str, Any]:
    ran = cli("describe-history", str(place), "--diff", versions, "-o", "json")
    assert ran.code == 0, ran.err
    result: dict[str, Any] = ran.result
    return result


def test_a_diff_of_schema_and_properties(cli: RunCli, built: TableBuilder, tmp_path: Path) -> None:
    found = diff(cli, tmp_path, "4..")
    assert found["last_version"] == 5
    assert found["columns"] == [{"column": "note", "before": None, "after": "string"}]
    assert found["properties"] == [{"name": "custom.owner", "before": None, "after": "ann"}]
    assert found["added"]["num_files"] == found["removed"]["num_files"] == 0


def test_a_diff_does_without_a_time_that_is_unknown(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 3, **ict_properties())
    ran = cli("describe-history", str(tmp_path), "--diff", "1..2", "-o", "json")
    found = ran.result
    assert (found["first_timestamp"], found["added"]["num_files"]) == (None, 1)
    assert "has no inCommitTimestamp" in ran.err
    out = cli("describe-history", str(tmp_path), "--diff", "1..2").out
    assert out.startswith("from     version 1\n")


def test_a_diff_backwards_is_refused(cli: RunCli, built: TableBuilder, tmp_path: Path) -> None:
    ran = cli("describe-history", str(tmp_path), "--diff", "3..1")
    assert (ran.code, ran.out) == (2, "")
    assert "ends before it starts" in ran.err
    assert "is not a range of versions" in cli("describe-history", str(tmp_path), "--diff", "3").err


def test_the_page_of_a_diff(cli: RunCli, built: TableBuilder, tmp_path: Path) -> None:
    out = cli("describe-history", str(tmp_path), "--diff", "0..5").out
    assert out.startswith("from     version 0, 20")
    assert "\n  + note = string\n" in out
    assert "\n  + custom.owner = ann\n" in out
    assert "day=2024-01-01" in out
    assert DAYS[1] not in out


def test_the_page_of_a_diff_shows_a_column_that_was_dropped_and_added_again(
    cli: RunCli, tmp_path: Path
) -> None:
    table = TableBuilder(tmp_path, [Column("id"), Column("old", "string")], mapping="name")
    table.commit(table.metadata_action(columns=[Column("id"), Column("old", "integer")]))
    out = cli("describe-history", str(tmp_path), "--diff", "0..1").out
    assert "\n  + old = integer\n" in out
    assert "\n  - old = string\n" in out


def test_the_page_of_a_diff_shows_how_columns_are_clustered_ordered_and_computed(
    cli: RunCli, tmp_path: Path
) -> None:
    columns = [Column("id"), Column("n", "integer"), Column("day", "date"), Column("s", "string")]
    table = TableBuilder(tmp_path, columns, features=["clustering", "domainMetadata"])
    told = {"comment": "a\n\x1b'b'", "CURRENT_DEFAULT": "7"}
    computed = {"delta.generationExpression": "CAST(s AS DATE)"}
    changed = [
        Column("id"),
        Column("day", "date", metadata=computed),
        Column("n", "integer", metadata=told),
        Column("s", "string"),
    ]
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": [["n"], ["id"]]}),
        "removed": False,
    }
    table.commit(table.metadata_action(columns=changed), {"domainMetadata": domain})
    out = cli("describe-history", str(tmp_path), "--diff", "0..1").out
    described = "default 7 comment " + repr(told["comment"])
    assert "  ~ day: date -> date generated as (CAST(s AS DATE))\n" in out
    assert f"  ~ n: integer -> integer {described}\n" in out
    assert "  + clustering columns = n, id\n" in out
    assert "  ~ column order: n, day -> day, n\n" in out


def test_blame_names_the_commits_of_a_partition(
    cli: RunCli, built: TableBuilder, tmp_path: Path
) -> None:
    asked = ("describe-history", str(tmp_path), "--blame", f"day={DAYS[0]}", "-o", "json")
    rows = cli(*asked).result
    assert [row["version"] for row in rows] == [3, 1]
    counts = [(row["added_num_rows"], row["removed_num_rows"]) for row in rows]
    assert counts == [(3, 4), (4, 0)]  # this writer's removes have no statistics, its adds do
    page = cli("describe-history", str(tmp_path), "--blame", f"day={DAYS[1]}/").out
    assert [line.split()[0] for line in page.splitlines()[3:]] == ["4", "2"]
    page = cli("describe-history", str(tmp_path), "--blame", f"day='{DAYS[0]}'").out
    assert page.splitlines()[0] == f"day = '{DAYS[0]}'"  # the predicate


def test_blame_with_a_limit_counts_what_it_found(
    cli: RunCli, built: TableBuilder, tmp_path: Path
) -> None:
    args = ("describe-history", str(tmp_path), "--blame", f"day={DAYS[0]}", "--limit", "1")
    ran = cli(*args, "-o", "ndjson")
    assert [json.loads(line)["version"] for line in ran.out.splitlines()] == [3]
    assert ran.err == "note: 1 older version not shown\n"


def test_blame_shows_commits_that_cannot_be_read_and_says_what_is_gone(
    cli: RunCli, built: TableBuilder, tmp_path: Path
) -> None:
    built.checkpoint(2)
    built.forget_commits(2)
    log_path(tmp_path, 4).write_text("{")
    built.checkpoint(5)
    args = ("describe-history", str(tmp_path), "--blame", f"day={DAYS[0]}")
    ran = cli(*args, "-o", "json")
    rows = ran.result
    assert [(row["version"], row["problem"] is None) for row in rows] == [(4, False), (3, True)]
    assert "no longer has the commits before version 2" in ran.err


@pytest.mark.parametrize("escapes", [True, False])
def test_blame_finds_values_however_they_are_spelt(
    cli: RunCli, tmp_path: Path, escapes: bool
) -> None:
    table = TableBuilder(tmp_path, [Column("id"), Column("p", "string")], partition_by=("p",))
    values = ["a/b", "é", "", None, 'q"']
    for value in values:
        table.append([{"id": 1, "p": value}])
    for version in range(1, 6):
        lines = map(json.loads, log_path(tmp_path, version).read_text("utf-8").splitlines())
        text = "\n".join(json.dumps(line, ensure_ascii=escapes) for line in lines)
        log_path(tmp_path, version).write_text(text, "utf-8")
    for partition, versions in (
        ("p=a%2Fb", [1]),
        ("p=é", [2]),
        ("p=__HIVE_DEFAULT_PARTITION__", [4, 3]),
        ('p=q"', [5]),
        ("p=nothing", []),
    ):
        assert blamed(cli, tmp_path, partition) == versions


@pytest.mark.parametrize(
    ("kind", "value", "asked"),
    [
        ("double", "2", "2.0"),
        ("date", "2024-01-02", "2024-1-2"),
        ("timestamp", "2024-01-02 00:00:00.000000", "2024-01-02T00:00:00Z"),
        ("timestamp", "2024-01-02 00:00:00.000000", "2024-01-02 00:00:00"),
        ("boolean", "true", "TRUE"),
    ],
)
def test_blame_compares_values_and_not_their_texts(
    cli: RunCli, tmp_path: Path, kind: str, value: str, asked: str
) -> None:
    table = TableBuilder(tmp_path, [Column("id"), Column("p", kind)], partition_by=("p",))
    table.append([{"id": 1, "p": value}])
    table.append([{"id": 1, "p": None}])
    assert blamed(cli, tmp_path, f"p={asked}") == [1]
    assert blamed(cli, tmp_path, "p=__HIVE_DEFAULT_PARTITION__") == [2]


@pytest.mark.parametrize("value", ["x AND y", "Eu (west)", " east", "a<b", "50% or more", "is é"])
def test_blame_takes_each_partition_as_it_is_printed(
    cli: RunCli, tmp_path: Path, value: str
) -> None:
    columns = [Column("id"), Column("p", "string"), Column("day", "date")]
    table = TableBuilder(tmp_path, columns, partition_by=("p", "day"))
    table.append([{"id": 1, "p": value, "day": DAYS[0]}])
    table.append([{"id": 1, "p": "other", "day": DAYS[0]}])
    printed = format_partition({"p": value, "day": DAYS[0]})
    assert printed in cli("describe-history", str(tmp_path), "--diff", "0..1").out
    assert blamed(cli, tmp_path, printed) == [1]
    ran = cli("describe-history", str(tmp_path), "--blame", "p=x AND y")
    assert (ran.code, "'x' is not a partition column" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        (f"day='{DAYS[0]}'", [3, 1]),
        (f'day = "{DAYS[0]}"', [3, 1]),
        (f"day >= '{DAYS[1]}'", [4, 2]),
        (f"day IN ('{DAYS[0]}', '{DAYS[1]}')", [4, 3, 2, 1]),
        (f"NOT day='{DAYS[0]}'", [4, 2]),
        (f"day={DAYS[0]}", [3, 1]),
    ],
)
def test_blame_takes_a_predicate_as_where_does(
    cli: RunCli, built: TableBuilder, tmp_path: Path, text: str, versions: list[int]
) -> None:
    ran = cli("describe-history", str(tmp_path), "--blame", text, "-o", "ndjson")
    assert [json.loads(line)["version"] for line in ran.out.splitlines()] == versions
    assert ran.err == ""


@pytest.mark.parametrize(
    ("kind", "values", "asked", "nearest"),
    [
        ("string", ["east", "west", "north"], "p=wets", "'west'"),
        ("string", ["east", "west", "north"], "p='wets'", "'west'"),
        ("integer", ["2", "10", "30"], "p=9", "'2', '10'"),
        ("date", ["2024-01-30", "2024-02-02"], "p='2024-01-31'", "'2024-01-30', '2024-02-02'"),
        ("date", ["2024-01-30", "2024-02-02"], "p=2023-01-31", "'2024-01-30'"),
    ],
)
def test_blame_says_that_no_partition_ever_had_a_value(  # noqa: PLR0917
    cli: RunCli, tmp_path: Path, kind: str, values: list[str], asked: str, nearest: str
) -> None:
    table = TableBuilder(tmp_path, [Column("id"), Column("p", kind)], partition_by=("p",))
    for value in values:
        table.append([{"id": 1, "p": value}])
    ran = cli("describe-history", str(tmp_path), "--blame", asked, "-o", "json")
    (warning,) = ran.document["warnings"]
    assert (ran.code, ran.result) == (0, [])
    assert warning.startswith("p = ")
    assert warning.endswith(f"nearest values are {nearest}")


def test_blame_knows_values_of_removed_files_and_of_the_checkpoint(
    cli: RunCli, built: TableBuilder, tmp_path: Path
) -> None:
    """A value outside the selected commits is not unknown."""
    built.checkpoint(5)
    built.forget_commits(5)
    ran = cli("describe-history", str(tmp_path), "--blame", f"day={DAYS[0]}", "-o", "json")
    warnings = ran.document["warnings"]
    assert not any("nearest" in warning for warning in warnings)
    unknown = cli("describe-history", str(tmp_path), "--blame", "day=2024-01-11", "-o", "json")
    assert any("nearest" in warning for warning in unknown.document["warnings"])


@pytest.mark.parametrize("damage", ["missing", "invalid"])
def test_blame_shows_a_damaged_commit_that_no_checkpoint_follows(
    cli: RunCli, built: TableBuilder, tmp_path: Path, damage: str
) -> None:
    asked = ("describe-history", str(tmp_path), "--blame", f"day={DAYS[0]}", "-o", "json")
    before = cli(*asked).document
    place = built.version - 1
    built.store.delete_many([commit_path(place)])
    if damage == "invalid":
        built.store.put(commit_path(place), b"{")
    after = cli(*asked).document
    found = {row["version"]: row["problem"] for row in after["result"]}
    assert after["exit_code"] == before["exit_code"]
    assert found.keys() == {place, *(row["version"] for row in before["result"])}
    assert found[place] is not None
    assert any(f"are those of version {place - 1}" in it for it in after["warnings"])


def test_blame_refuses_what_is_no_partition(
    cli: RunCli, built: TableBuilder, tmp_path: Path
) -> None:
    ran = cli("describe-history", str(tmp_path), "--blame", "region=eu")
    assert (ran.code, ran.out) == (2, "")
    assert "'region' is not a partition column" in ran.err
    assert "hint: Use these partition columns: day." in ran.err
    with pytest.raises(UsageError, match="is not a partition"):
        parse_partition("day")
    assert parse_partition("a=1/b=x%3Dy/") == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize(
    ("asked", "found"), [("2024-1-31", [0]), ("2024-01-31", [0]), ("31-01", [1]), ("monday", [])]
)
def test_blame_compares_what_is_no_value_of_the_column_as_text(
    cli: RunCli, tmp_path: Path, asked: str, found: list[int]
) -> None:
    builder = TableBuilder(tmp_path, [Column("id"), Column("day", "date")], partition_by=("day",))
    add = {"path": "x.parquet", "size": 1, "modificationTime": 0, "dataChange": True}
    for day in ("2024-01-31", "31-01"):
        values = {"day": day}
        builder.commit({"add": {**add, "path": f"{day}.parquet", "partitionValues": values}})
    ran = cli("describe-history", str(tmp_path), "--blame", f"day={asked}", "-o", "json")
    versions = [row["version"] for row in ran.document["result"]]
    assert (ran.code, versions) == (0, [builder.version - 1 + it for it in found])


class Scene:
    """What happens between two looks: a step each; after the last the following ends."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)

    def __call__(self) -> bool:
        if not self.steps:
            return False
        self.steps.pop(0)()
        return True


def follow(place: Path, first: int | None, *steps: Any) -> list[tuple[int, bool]]:
    rows = follow_history(DeltaLog(open_store(str(place)), ignore_warning), first, Scene(*steps))
    return [(row["version"], row["problem"] is None) for row in rows]


def test_following_gives_each_commit_once_in_order(tmp_path: Path) -> None:
    write_log(tmp_path, 3)

    def one_more(version: int) -> Any:
        return lambda: write_commit(tmp_path, version, info(), add(f"g{version}"))

    steps = [one_more(3), lambda: None, one_more(4)]
    assert follow(tmp_path, None, *steps) == [(3, True), (4, True)]
    assert follow(tmp_path, 1) == [(n, True) for n in range(1, 5)]
    assert follow(tmp_path, 9, lambda: None) == []


def test_a_commit_that_is_half_written_is_waited_for(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    half = lambda: write_commit(tmp_path, 2, text='{"add":{"pa')  # noqa: E731
    whole = lambda: write_commit(tmp_path, 2, info(), remove("f1"))  # noqa: E731
    assert follow(tmp_path, None, half, whole) == [(2, True)]
    assert follow(tmp_path, 3, half) == []


def test_a_hole_is_given_when_it_stays(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    log_path(tmp_path, 3).unlink()
    assert follow(tmp_path, 2) == [(2, True)]
    nothing = [lambda: None] * 2
    assert follow(tmp_path, 2, *nothing) == [(2, True), (3, False), (4, True)]


def test_following_from_a_version_that_was_cleaned_up_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    log_path(tmp_path, 0).unlink()
    with pytest.raises(VersionNotFoundError, match="it has versions 1 to 2"):
        follow(tmp_path, 0)


def test_looking_in_vain_lists_only_what_would_be_new(tmp_path: Path) -> None:
    write_log(tmp_path, 30)
    store = CountingStore(open_store(str(tmp_path)))
    rows = follow_history(DeltaLog(store, ignore_warning), None, Scene(*[lambda: None] * 3))
    assert list(rows) == []
    assert set(store.calls) == {"list_from"}


# The program, with short intervals between the searches for new versions.
_WITH_SHORT_POLLS = """
from deltactl.__main__ import main
from deltactl.cli.commands import history_views
history_views._POLL_SECONDS = 0.1
main()
"""


def test_follow_prints_lines_until_a_signal(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    words = ("describe-history", str(tmp_path), "--follow", "--since-version", "1")
    child, lines, _ = open_python("-c", _WITH_SHORT_POLLS, *words)
    assert [json.loads(lines.readline())["version"] for _ in range(2)] == [1, 2]
    write_commit(tmp_path, 3, info("MERGE"), add("z"))
    assert json.loads(lines.readline())["operation"] == "MERGE"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (130, "")
    assert err == "error: interrupted\n"


def test_follow_has_no_end_so_json_is_refused(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    ran = cli("describe-history", str(tmp_path), "--follow", "-o", "json")
    assert ran.code == 2
    assert "-o json cannot be used with --follow" in ran.err
