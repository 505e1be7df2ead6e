"""``--user-name``, ``--user-metadata`` and ``--commit-info`` in each command that commits."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import CommitOptions, Table
from deltactl.cli.command_table import COMMANDS
from deltactl.cli.options.log_store import LogStoreOptions
from deltactl.commit_options import COMMIT_INFO_KEYS
from deltactl.errors import UsageError
from tests.cli.conftest import RunCli
from tests.support.table_builder import Column, TableBuilder

SAID = ("--user-name", "ann", "--user-metadata", "ticket 7", "--commit-info", "team=etl")
WAYS = {
    "optimize": ("events",),
    "vacuum": ("events", "--retain", "0h", "--force-retention", "--yes"),
    "maintain": ("events",),
    "generate-manifest": ("events", "--purge-first"),
    "alter": ("events", "--set", "delta.checkpointInterval=5"),
    "restore": ("events", "--to-version", "0"),
    "clone": ("events", "copy", "--shallow"),
    "convert": ("plain",),
}


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").mkdir()
    pq.write_table(pa.table({"id": [1]}), "plain/a.parquet")
    builder = TableBuilder(tmp_path / "events", [Column("id")], features=["deletionVectors"])
    paths = builder.append(*([{"id": 10 * i}, {"id": 10 * i + 1}] for i in range(7)))
    builder.delete_rows(paths[0], [0])
    return builder


def newest_info(table: str) -> dict[str, object]:
    path = max(Path(table, "_delta_log").glob("*.json"))
    lines = map(json.loads, path.read_text().splitlines())
    found: dict[str, object] = next(it["commitInfo"] for it in lines if "commitInfo" in it)
    return found


@pytest.mark.parametrize("command", WAYS)
def test_the_commits_of_a_command_say_it(cli: RunCli, events: TableBuilder, command: str) -> None:
    if command == "vacuum":
        cli("optimize", "events")
    ran = cli(command, *WAYS[command], *SAID)
    assert ran.code == 0, ran.err
    info = newest_info({"clone": "copy", "convert": "plain"}.get(command, "events"))
    assert str(info["engineInfo"]).startswith("deltactl/")
    assert (info["userName"], info["team"]) == ("ann", "etl")
    note = "; shallow clone of version 2 of " if command == "clone" else ""
    assert str(info["userMetadata"]).startswith(f"ticket 7{note}")


def test_commands_that_commit_have_them() -> None:
    commits = {spec.name for spec in COMMANDS if CommitOptions in spec.shared}
    assert commits == {*WAYS, "check"}
    opens = {spec.name for spec in COMMANDS if LogStoreOptions in spec.shared}
    assert opens - commits == {"checkpoint"}


def test_the_history_shows_them(cli: RunCli, events: TableBuilder) -> None:
    cli("optimize", "events", *SAID)
    rows = cli("describe-history", "events", "-o", "json").result
    assert rows[0]["otherInfo"]["team"] == "etl"
    assert {"txnId", "team"} <= set(rows[0]["otherInfo"])
    chosen = ("--columns", "version,userName,team,operationParameters", "--limit", "2")
    ran = cli("describe-history", "events", *chosen, "-o", "csv")
    assert ran.out.splitlines()[:2] == [
        "version,userName,team,operationParameters",
        '3,ann,etl,"{""predicate"": ""[]"", ""zOrderBy"": ""[]"", ""clusterBy"": ""[]"", '
        '""auto"": ""false""}"',
    ]
    page = cli("describe-history", "events", *chosen).out.splitlines()
    assert page[0].split() == ["version", "userName", "team", "operationParameters"]
    assert page[1].split()[:3] == ["3", "ann", "etl"]
    assert page[-1] == "2 older versions not shown: use --limit N or --all"


@pytest.mark.parametrize("place", ["commit", "profiles.all.commit", "optimize", "variables"])
def test_settings_give_them(
    cli: RunCli, events: TableBuilder, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    file = Path("deltactl.toml")
    monkeypatch.setenv("DELTACTL_CONFIG", str(file))
    profile = "[profiles.all]\ntables = ['*']\n" if "profiles" in place else ""
    text = "user-name = 'bob'\nuser-metadata = 'a, b'\ncommit-info = ['team=x']\n"
    file.write_text(f"{profile}[{place}]\n{text}" if place != "variables" else "")
    if place == "variables":
        monkeypatch.setenv("DELTACTL_USER_NAME", "bob")
        monkeypatch.setenv("DELTACTL_USER_METADATA", "a, b")
        monkeypatch.setenv("DELTACTL_COMMIT_INFO", "team=x")
    elif place != "optimize":
        assert cli("describe-history", "events").code == 0
    assert cli("optimize", "events").code == 0
    info = newest_info("events")
    assert (info["userName"], info["userMetadata"], info["team"]) == ("bob", "a, b", "x")
    assert cli("optimize", "events", "--purge", "--user-name", "eve").code == 0


def test_only_these_settings_are_in_the_section(
    cli: RunCli, events: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTACTL_CONFIG", "deltactl.toml")
    Path("deltactl.toml").write_text("[commit]\nuser-nam = 'x'")
    ran = cli("optimize", "events")
    assert ran.code == 2
    assert "there is no setting 'commit.user-nam'. Did you mean 'user-name'?" in ran.err
    Path("deltactl.toml").write_text("[commit]\ntarget-size = '1MiB'")
    assert "there is no setting 'commit.target-size'" in cli("optimize", "events").err


@pytest.mark.parametrize("key", [*COMMIT_INFO_KEYS, "USERNAME", " "])
def test_keys_of_the_protocol_are_refused(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        CommitOptions(commit_info={key: "x"})
    hint = {"username": "Use user_name instead.", "usermetadata": "Use user_metadata instead."}
    assert caught.value.hint == hint.get(key.lower(), "Choose another key.")


def test_the_library_takes_them(events: TableBuilder) -> None:
    said = CommitOptions(user_name="ann", user_metadata="x", commit_info={"team": "etl"})
    Table("events", commit=said).optimize()
    assert {"userName": "ann", "userMetadata": "x", "team": "etl"}.items() <= newest_info(
        "events"
    ).items()


def test_a_column_that_no_commit_has_is_refused_or_told(cli: RunCli, events: TableBuilder) -> None:
    def ask(columns: str, *args: str) -> tuple[int, str, str]:
        ran = cli("describe-history", "events", "--columns", columns, *args, "-o", "csv")
        return ran.code, ran.out, ran.err

    cli("optimize", "events", *SAID)
    for wrong, right in {"restorabel": "restorable", "Version": "version", "teem": "team"}.items():
        code, out, err = ask(f"version,{wrong}")
        assert (code, out) == (2, "")
        assert f"no commit that is listed has {wrong!r}. Did you mean {right!r}?" in err
    code, _, err = ask("num_files,version")
    assert (code, "--columns num_files needs --restorable" in err) == (2, True)
    assert ask("version,num_files", "--restorable")[1].splitlines()[1] == "3,1"
    code, _, err = ask("num_files", "--restorable", "--operation", "VACUUM")
    assert (code, err) == (0, ""), "no commit is listed"
    # Keys of other commits: a script must not fail because none of these is listed.
    assert ask("version,clientVersion,tags", "--version", "0") == (
        0,
        "version,clientVersion,tags\n0,,\n",
        "",
    )
    code, out, err = ask("version,zzz", "--version", "0")
    assert (code, out) == (0, "version,zzz\n0,\n")
    assert err == "warning: --columns: no commit that is listed has 'zzz'\n"
