"""``deltactl alter``."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from deltactl.errors import StorageError
from deltactl.log.writing.transaction import Transaction
from deltactl.operations.check.fixes import stats as fixes_stats
from deltactl.storage.local.store import LocalStore
from tests.cli.conftest import RunCli
from tests.support.table_builder import Column, TableBuilder


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(tmp_path / "events", [Column("id")])
    builder.append([{"id": 1}])
    return builder


def test_the_plan_and_the_change_as_text(cli: RunCli) -> None:
    change = ("alter", "events", "--set", "delta.logRetentionDuration=60d", "--set", "team=a")
    ran = cli(*change, "--dry-run")
    assert ran.out.startswith("Would alter the table, version 1\n  commits  SET TBLPROPERTIES\n")
    assert ran.out.endswith(
        "Nothing was changed. To do it:\n  deltactl alter events --set "
        "delta.logRetentionDuration=60d --set team=a\n"
    )
    ran = cli(*change)
    assert (ran.code, ran.out) == (
        0,
        "Altered the table in version 2\n  commits  SET TBLPROPERTIES\n\nproperties\n"
        "  + delta.logRetentionDuration = interval 60 days\n  + team = a\n",
    )
    assert cli(*change).out == "Nothing to alter: the table already has the requested state\n"


def test_a_log_that_is_kept_shorter_than_the_files_is_said(cli: RunCli) -> None:
    assert cli("alter", "events", "--set", "delta.deletedFileRetentionDuration=30d").err == ""
    ran = cli("alter", "events", "--set", "delta.deletedFileRetentionDuration=60d")
    assert (ran.code, ran.err) == (
        0,
        "warning: delta.logRetentionDuration (30d) is shorter than "
        "delta.deletedFileRetentionDuration (60d): a log cleanup removes versions whose files are "
        "still kept\n",
    )
    assert cli("alter", "events", "--set", "delta.logRetentionDuration=60d").err == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("--set=delta.enableDeletionVectors=true", "without deletionVectors can no longer read"),
        ("--add-feature=domainMetadata", "without domainMetadata can no longer write"),
        ("--set=delta.deletedFileRetentionDuration=1h", "becomes shorter"),
        ("--set=delta.logRetentionDuration=1d", "becomes shorter"),
        ("--set=delta.dropFeatureTruncateHistory.retentionDuration=1h", "becomes shorter"),
    ],
)
def test_what_is_hard_to_undo_must_be_confirmed(cli: RunCli, change: str, said: str) -> None:
    ran = cli("alter", "events", change)
    assert (ran.code, ran.out) == (6, "")
    assert said in ran.err and "rerun with --yes" in ran.err
    assert cli("alter", "events", change, "--yes").code == 0


def test_json_of_several_tables(cli: RunCli, table: TableBuilder, tmp_path: Path) -> None:
    table.copy_to(LocalStore(str(tmp_path / "other")))
    ran = cli("alter", "events", "other", "--unset", "a", "--set", "b=c=d", "-o", "ndjson")
    assert ran.code == 0
    for line in ran.out.splitlines():
        envelope = json.loads(line)
        assert (envelope["version_after"], envelope["result"]["steps"]) == (
            2,
            [{"operation": "SET TBLPROPERTIES", "files": 0, "bytes": 0}],
        )
        assert envelope["result"]["properties"] == {"b": {"before": None, "after": "c=d"}}


@pytest.mark.parametrize(("error", "code"), [("full", 8), ("interrupted", 143)])
@pytest.mark.parametrize("words", ["alter --drop-feature vacuumProtocolCheck", "check --fix stats"])
def test_an_error_after_a_commit_names_what_was_committed(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, error: str, code: int
) -> None:
    monkeypatch.setattr(fixes_stats, "_FILES_A_COMMIT", 1)
    commit, versions = Transaction.commit, list[int]()

    def stop_after_two(transaction: Transaction, draft: Any) -> Any:
        if len(versions) == 2:
            raise StorageError("full")
        versions.append(commit(transaction, draft).version)
        if len(versions) == 2 and error == "interrupted":
            signal.raise_signal(signal.SIGTERM)
        return transaction.base

    monkeypatch.setattr(Transaction, "commit", stop_after_two)
    for name, options in (("one", ()), ("two", ("-o", "json"))):
        versions.clear()
        table = LocalStore(str(tmp_path / name))
        builder = TableBuilder(table, [Column("id")], features=["vacuumProtocolCheck"])
        builder.append([{"id": 1}], [{"id": 2}], [{"id": 3}], stats=None)
        command, *rest = words.split()
        ran = cli(command, name, *rest, "--yes", *options)
        said = f"error: {error}.*; committed before this: version 2, 3\n"
        assert (ran.code, bool(re.search(said, ran.err))) == (code, True)
        if options:
            found = ran.document
            assert f"error: {found['error']['message']}\n" in ran.err
            assert (found["version_after"], found["result"]["versions"]) == (3, [2, 3])
            assert "Rerun" in found["error"]["hint"] or "then rerun" in found["error"]["hint"]
        else:
            assert re.search("in version (2, )?3\n", ran.out)
            assert "features dropped" not in ran.out


def test_a_dropped_feature_shows_its_steps(cli: RunCli, tmp_path: Path) -> None:
    columns, features = [Column("id")], ["vacuumProtocolCheck"]
    TableBuilder(tmp_path / "new", columns, features=features)
    words = ("alter", "new", "--drop-feature", "vacuumProtocolCheck")
    ran = cli(*words, "--dry-run")
    shown = " ".join(ran.out.split())
    assert "Empty Commit with checkpoint, 3 times, DROP FEATURE with checkpoint" in shown
    assert "  history protected  until 20" in ran.out
    assert cli(*words).code == 6
    result = cli(*words, "--yes", "-o", "json").result
    assert result["features_dropped"] == ["vacuumProtocolCheck"]
    assert result["features_added"] == ["checkpointProtection"]
    assert cli(*words).out.startswith("Nothing to alter")
    ran = cli("alter", "new", "--drop-feature", "checkpointProtection")
    assert (ran.code, "Wait until" in ran.err) == (6, True)
    for path in (tmp_path / "new/_delta_log").iterdir():
        times = path.stat()
        os.utime(path, (times.st_atime, times.st_mtime - 25 * 3600))
    truncates = ("alter", "new", "--drop-feature", "checkpointProtection", "--truncate-history")
    assert "TRUNCATE HISTORY (7 files, " in cli(*truncates, "--dry-run").out
    assert cli(*truncates).code == 6
    assert cli(*truncates, "--yes").code == 0
    assert cli(*truncates).out.startswith("Nothing to alter")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--set, --unset, --add-feature or --drop-feature"),
        (("--drop-feature", "v2Checkpoint", "--set", "a=1"), "--drop-feature cannot be combined"),
        (("--drop-feature", "v2Checkpoint", "--truncate-history"), "only for the feature"),
        (("--set", "a"), "KEY=VALUE"),
        (("--set", "delta.logRetentionDuration=30"), '"30d" (days)'),
        (("--set", "delta.logRetention=30d"), "Did you mean 'delta.logRetentionDuration'?"),
        (("--set", "a=1", "--unset", "a"), "is in --set and in --unset"),
        (("--add-feature", "vacuumCheck"), "Did you mean 'vacuumProtocolCheck'?"),
    ],
)
def test_wrong_usage_says_what_to_type(cli: RunCli, words: tuple[str, ...], said: str) -> None:
    ran = cli("alter", "events", *words)
    assert ran.code == 2
    assert said in ran.err
