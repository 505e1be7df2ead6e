"""``deltactl restore``."""

import os
import re
from pathlib import Path

import pytest

from deltactl.table import Table
from tests.cli.conftest import RunCli
from tests.support.table_builder import Column, TableBuilder


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Version 1: two partitions; 2: a file more; 3: without one of the first."""
    monkeypatch.chdir(tmp_path)
    columns = [Column("p", "string"), Column("id")]
    builder = TableBuilder(tmp_path / "events", columns, partition_by=["p"])
    path, _ = builder.append([{"p": "a", "id": 1}], [{"p": "b", "id": 2}])
    builder.append([{"p": "b", "id": 3}])
    builder.remove(path)
    return builder


def version() -> int:
    return Table("events").snapshot().version


def test_the_plan_and_the_restore_as_text(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("restore", "events", "--to-version", "1", "--dry-run")
    assert ran.code == 0
    assert ran.out.startswith("Would restore version 1\n  from         version 3, ")
    assert "  added        1 file, " in ran.out
    assert "Nothing was changed. To do it:" in ran.out
    assert ran.out.endswith("  deltactl restore events --to-version 1\n")
    assert version() == 3
    ran = cli("restore", "events", "--to-version", "1")
    assert (ran.code, version()) == (0, 4)
    assert ran.out.startswith("Restored version 1 in version 4\n")
    undo = "  deltactl restore events --to-version 3\n"
    assert ran.out.endswith(f"To undo it, if the removed files still exist:\n{undo}")
    ran = cli("restore", "events", "--to-version", "1")
    assert (ran.code, version()) == (0, 4)
    assert ran.out == "Nothing to restore: version 4 is the same as version 1\n"


def test_a_dry_run_prints_the_version_of_a_time(cli: RunCli, table: TableBuilder) -> None:
    for number, path in enumerate(sorted(Path("events/_delta_log").glob("*.json"))[:2]):
        os.utime(path, (1e9 + number, 1e9 + number))
    ran = cli("restore", "events", "--to-timestamp", "2010-01-01T00:00:00Z", "--dry-run")
    assert ran.out.endswith("  deltactl restore events --to-version 1\n")
    clone = cli("clone", "events", "new", "--deep", "--timestamp", "2010-01-01", "--dry-run")
    assert clone.out.endswith("  deltactl clone events new --deep --version 1\n")


def test_the_undo_is_certain_if_nothing_was_removed(cli: RunCli, table: TableBuilder) -> None:
    Table("events").restore(version=0)
    ran = cli("restore", "events", "--to-version", "3")
    assert ran.out.endswith("To undo it:\n  deltactl restore events --to-version 4\n")


@pytest.mark.parametrize("name", ["deletedFile", "log"])
def test_a_shorter_retention_must_be_confirmed(cli: RunCli, table: TableBuilder, name: str) -> None:
    """As in `alter --set`; the version is restored, and so are its properties."""
    key = f"delta.{name}RetentionDuration"
    table.change_metadata(configuration={key: "interval 90 days"})
    words = ["restore", "events", "--to-version", "1"]
    assert f"{key} becomes shorter: a" in cli(*words, "--dry-run").err
    ran = cli(*words)
    assert (ran.code, version()) == (6, 4)
    assert f"Afterwards, {key} becomes shorter: a" in ran.err
    assert "rerun with --yes" in ran.err
    assert cli(*words, "--where", "p = 'a'").code == 0  # properties do not change
    assert cli(*words, "--yes").code == 0
    assert cli("restore", "events", "--to-version", "4").code == 0  # becomes longer


def test_where_restores_only_matching_partitions(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("restore", "events", "--to-version", "1", "--where", "p = 'a'")
    assert ran.out.startswith("Restored version 1 where p = 'a' in version 4\n")
    assert "  deltactl restore events --to-version 3 --where \"p = 'a'\"\n" in ran.out
    assert "\n  undoes       version 3\n" in ran.out
    assert "RESTORE part" in cli("describe-history", "events").out


@pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
def test_every_format_reports_the_restore(cli: RunCli, table: TableBuilder, form: str) -> None:
    ran = cli("restore", "events", "--to-version", "1", "-o", form)
    assert ran.code == 0
    if form == "json":
        envelope = ran.document
        assert (envelope["version_before"], envelope["version_after"]) == (3, 4)
        result = envelope["result"]
        assert (result["files_restored"], result["files_removed"]) == (1, 1)
        assert result["changes"]["added"]["num_rows"] == 1
        values = [it["partition_values"] for it in result["changes"]["partitions"]]
        assert values == [{"p": "a"}, {"p": "b"}]


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        ((), 2, "restore needs --to-version or --to-timestamp"),
        (("--to-version", "1", "--to-timestamp", "1d"), 2, "cannot be combined"),
        (("--to-version", "9"), 1, "it has versions 0 to 3"),
        (("--to-timestamp", "2001-01-01"), 1, "is before the first commit"),
        (("--to-timestamp", "2999-01-01"), 1, "is after the latest commit"),
        (("--to-version", "1", "--where", "id = 1"), 2, "id"),
        (
            ("--to-version", "1", "--where", "p = 'a'", "--allow-protocol-downgrade"),
            2,
            "be combined",
        ),
    ],
)
def test_a_refused_restore_commits_nothing(
    cli: RunCli, table: TableBuilder, args: tuple[str, ...], code: int, text: str
) -> None:
    ran = cli("restore", "events", *args)
    assert ran.code == code
    assert text in ran.err
    assert version() == 3


def test_the_undo_of_a_restore_that_dropped_missing_files_works(
    cli: RunCli, table: TableBuilder
) -> None:
    """A file is missing that is live in both versions."""
    table.store.delete_many([table.commits[1][2]["add"]["path"]])
    ran = cli("restore", "events", "--to-version", "1", "--dry-run")
    assert ("real run would be refused" in ran.err, "To do it" in ran.out) == (True, False)
    before = version()
    words = ["--ignore-missing", "--expect-files", "1"]
    ran = cli("restore", "events", "--to-version", "1", *words, "--yes")
    way, line = ran.out.splitlines()[-2:]
    assert way == "To undo it without the missing files, if the other removed files still exist:"
    command = line.split()
    assert command == [*f"deltactl restore events --to-version {before}".split(), *words]
    assert cli(*command[1:], "--yes").code == 0


def test_a_restore_that_only_drops_missing_files_has_no_undo(
    cli: RunCli, table: TableBuilder
) -> None:
    cli("restore", "events", "--to-version", "1", "--yes")
    table.store.delete_many([table.commits[1][2]["add"]["path"]])
    words = ["--ignore-missing", "--expect-files", "1", "--yes"]
    ran = cli("restore", "events", "--to-version", "1", *words)
    assert (ran.code, "Restored version 1" in ran.out, "To undo it" in ran.out) == (0, True, False)
    assert "Nothing to restore" in cli("restore", "events", "--to-version", "4", *words).out


def test_what_is_lost_needs_yes(cli: RunCli, table: TableBuilder) -> None:
    (path,) = Path("events/p=a").glob("*.parquet")
    path.unlink()
    table.remove(next(it for it, _ in table.state.files if it.startswith("p=b/")))
    ran = cli("restore", "events", "--to-version", "1")
    assert ran.code == 6
    assert path.name in ran.err
    words: tuple[str, ...] = ("restore", "events", "--to-version", "1", "--ignore-missing")
    ran = cli(*words, "--yes")
    assert (ran.code, version()) == (6, 4)
    assert "1 file cannot be read, and this is more than 5% of the 2 files" in ran.err
    assert "rerun with --expect-files 1." in ran.err
    assert "rerun with --expect-files 1 --yes." in cli(*words).err
    words += ("--expect-files", "1")
    ran = cli(*words)
    assert ran.code == 6
    assert "there is no terminal for a confirmation, and --yes was not given" in ran.err
    assert "Nothing was changed." in ran.err
    assert "1 file cannot be read: the new version will lack its 1 row." in ran.err
    assert version() == 4
    ran = cli(*words, "--yes")
    assert (ran.code, version()) == (0, 5)
    assert re.search(r"\n  unreadable   1 file, .* B, 1 row\n", ran.out)
    assert f"Cannot be read (1)\n  p=a/{path.name}\n      reason: it does not exist\n" in ran.out


def test_files_that_a_vacuum_takes_meanwhile(
    cli: RunCli, table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltactl.log.writing.commit_base import CommitBase
    from deltactl.log.writing.transaction import Draft, Transaction

    (path,) = Path("events/p=a").glob("*.parquet")
    commit = Transaction.commit

    def commit_and_vacuum(self: Transaction, draft: Draft) -> CommitBase:
        done = commit(self, draft)
        path.unlink()
        return done

    monkeypatch.setattr(Transaction, "commit", commit_and_vacuum)
    ran = cli("restore", "events", "--to-version", "1", "-o", "json")
    assert (ran.code, version()) == (1, 4)
    assert "version 4 is committed, but 1 restored file is missing: 'p=a/" in ran.err
    assert ran.result["gone"][0]["path"] == f"p=a/{path.name}"
    assert f"gone: p=a/{path.name}" not in cli("restore", "events", "--to-version", "3").out
