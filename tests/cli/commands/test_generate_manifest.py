"""`deltactl generate-manifest` from the shell: whole outputs, exit statuses."""

import csv
import io
from pathlib import Path

import pytest

from tests.cli.conftest import RunCli
from tests.support.symlink_reader import list_manifests, read_manifests
from tests.support.table_builder import Column, TableBuilder, multiset

ROOT = "_symlink_format_manifest"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Two partitions; the shell stands beside the table."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(
        tmp_path / "events",
        [Column("id"), Column("day", "string")],
        partition_by=["day"],
        features=["deletionVectors"],
    )
    builder.append([{"id": 1, "day": "a b"}], [{"id": 2, "day": None}])
    return builder


def test_a_dry_run_a_run_and_a_check(cli: RunCli, table: TableBuilder) -> None:
    root = f"{table.store.uri}/{ROOT}"
    ran = cli("generate-manifest", "events", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"2 manifests differ from version 1 (0 unchanged), under\n{root}\n"
        "  partition                       files  manifest\n"
        "  day=__HIVE_DEFAULT_PARTITION__      1  missing\n"
        "  day=a b                             1  missing\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl generate-manifest events\n"
    )
    assert cli("generate-manifest", "events", "--check").code == 3
    assert not Path("events", ROOT).exists()
    ran = cli("generate-manifest", "events")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("2 manifests written for version 1, 0 unchanged, 0 deleted\n")
    assert "window" not in ran.out  # there were no other manifests
    assert multiset(read_manifests(Path("events"))) == multiset(table.rows())
    ran = cli("generate-manifest", "events", "--check")
    assert (ran.code, ran.out) == (0, f"Up to date: 2 manifests of version 1 under\n{root}\n")
    assert cli("generate-manifest", "events", "--since", "1").out == ran.out  # nothing is recorded
    ran = cli("generate-manifest", "events", "--since", "1")
    assert ran.out == f"Up to date: nothing to compare of version 1 under\n{root}\n"


def test_a_file_beside_a_manifest_is_of_a_partition_that_exists(
    cli: RunCli, table: TableBuilder
) -> None:
    cli("generate-manifest", "events")
    for folder in ("day=a b", "day=old"):
        Path("events", ROOT, folder).mkdir(exist_ok=True)
        Path("events", ROOT, folder, "notes.txt").touch()
    ran = cli("generate-manifest", "events", "--check")
    assert ran.code == 3
    assert [line.split("  ")[-1] for line in ran.out.splitlines() if "day=" in line] == [
        "other file",
        "partition does not exist",
    ]


def test_the_envelope_and_rows(cli: RunCli, table: TableBuilder) -> None:
    envelope = cli("generate-manifest", "events", "-o", "json").document
    assert (envelope["version_before"], envelope["version_after"]) == (1, 1)
    assert envelope["result"]["new"] == envelope["result"]["files"] == 2
    assert envelope["result"]["window_ms"] >= 0
    rows = csv.DictReader(io.StringIO(cli("generate-manifest", "events", "-o", "csv").out))
    states = {row["partition"]: row["state"] for row in rows}
    assert states == dict.fromkeys(["day=a b", "day=__HIVE_DEFAULT_PARTITION__"], "unchanged")
    table.append([{"id": 3, "day": "a b"}])
    ran = cli("generate-manifest", "events", "--check", "-o", "json")
    assert ran.code == 3
    assert ran.result["differing"] == [{"partition": "day=a b", "files": 2, "state": "changed"}]


def test_statements_are_the_result(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("generate-manifest", "events", "--ddl", "athena", "--scheme-map", "file=s3")
    assert (ran.code, "has no bucket" in ran.err, Path("events", ROOT).exists()) == (2, True, False)
    ran = cli("generate-manifest", "events", "--ddl", "hive", "--scheme-map", "file=hdfs")
    assert ran.code == 0
    assert ran.out.startswith("CREATE EXTERNAL TABLE `events` (\n  `id` bigint\n)\n")
    assert "2 manifests written" in ran.err
    lines = [line for found in list_manifests(Path("events", ROOT)).values() for line in found]
    assert len(lines) == 2 and all(line.startswith("hdfs:/") for line in lines)


def test_a_scheme_that_no_address_has_is_told(cli: RunCli, table: TableBuilder) -> None:
    absolute = table.write_file([{"id": 4, "day": "c"}])
    table.commit({"add": {**absolute["add"], "path": "gs://other/x.parquet"}})
    maps = [it for name in ("s3a", "gs", "file") for it in ("--scheme-map", f"{name}=s3")]
    ran = cli("generate-manifest", "events", *maps)
    assert ran.code == 0
    assert "events has the scheme s3a, so --scheme-map does not replace it" in ran.err
    assert cli("generate-manifest", "events", *maps[2:]).err == ""


def test_statements_for_two_tables_of_one_name_are_refused(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    for name in ("eu/events", "a-b", "a_b"):
        TableBuilder(tmp_path / name, [Column("n")]).append([{"n": 1}])
    for pair in (("events", "eu/events"), ("a-b", "a_b")):
        ran = cli("generate-manifest", pair[0], "none", pair[1], "--ddl", "hive", "--jobs", "2")
        assert (ran.code, ran.out) == (2, "")
        assert f": {pair[0]} and {pair[1]}\n" in ran.err
        assert "hint: Run the command for each table alone" in ran.err
        assert not any(Path(name, ROOT).exists() for name in pair)
        assert cli("generate-manifest", *pair).code == 0, "without statements"


def test_statements_of_several_tables_are_whole_and_alone_on_stdout(
    cli: RunCli, table: TableBuilder, tmp_path: Path
) -> None:
    TableBuilder(tmp_path / "plain", [Column("n")]).append([{"n": 1}])
    args = ("--ddl", "hive", "--output-root", "elsewhere")
    assert cli("generate-manifest", "events", "plain", *args).code == 2
    each = [cli("generate-manifest", name, "--ddl", "hive").out for name in ("events", "plain")]
    assert all(text.count("\n") > 3 for text in each)
    ran = cli("generate-manifest", "events", "none", "plain", "--ddl", "hive")
    assert (ran.code, ran.out) == (1, "\n".join(each))
    assert "note: plain: 0 manifests written for version 1, 1 unchanged" in ran.err
    assert "error: none: " in ran.err
    assert "note: 3 tables: 2 unchanged, 1 failed\n" in ran.err
    for form in ("csv", "ndjson", "github", "junit"):
        ran = cli("generate-manifest", "events", "--ddl", "hive", "-o", form)
        assert (ran.code, f"-o {form} has no SQL statements" in ran.err) == (2, True)


def test_only_several_old_and_new_manifests_differ_for_a_time(
    cli: RunCli, table: TableBuilder
) -> None:
    cli("generate-manifest", "events")
    for days, is_told in ((["a b"], False), (["a b", None], True)):
        table.append(*([{"id": 3, "day": day}] for day in days))
        ran = cli("generate-manifest", "events")
        assert ran.out.startswith(f"{len(days)} manifest")
        assert ("window  for " in ran.out) is is_told


def test_deletion_vectors_name_the_way_out(cli: RunCli, table: TableBuilder) -> None:
    path = table.append([{"id": 5, "day": "a b"}, {"id": 6, "day": "a b"}])[0]
    table.delete_rows(path, [0])
    ran = cli("generate-manifest", "events")
    assert ran.code == 7
    assert f"1 live file of {table.store.uri} has deletion vectors" in ran.err
    assert f"deltactl optimize {table.store.uri} --purge" in ran.err
    assert "Omit --version, and add" in cli("generate-manifest", "events", "--version", "3").err
    ran = cli("generate-manifest", "events", "--purge-first", "--dry-run")
    assert ran.code == 0
    assert "deltactl first rewrites such files, and" in " ".join(ran.err.split())
    assert not Path("events", ROOT).exists()
    envelope = cli("generate-manifest", "events", "--purge-first", "-o", "json").document
    found = (envelope["version_before"], envelope["version_after"])
    assert found == (table.version, table.version + 1)
    assert multiset(read_manifests(Path("events"))) == multiset(table.rows())


def test_manifests_whose_readers_return_deleted_rows_are_not_up_to_date(
    cli: RunCli, table: TableBuilder
) -> None:
    path = table.append([{"id": 5, "day": "a b"}, {"id": 6, "day": "a b"}])[0]
    cli("generate-manifest", "events")
    table.delete_rows(path, [0])
    for form in ("table", "junit"):
        ran = cli("generate-manifest", "events", "--purge-first", "--check", "-o", form)
        assert ran.code == 3
        assert "Up to date" not in ran.out
    shown = cli("generate-manifest", "events", "--purge-first", "--check").out
    assert shown.startswith(f"1 file has deletion vectors in version {table.version} (")
    assert cli("generate-manifest", "events", "--purge-first").code == 0
    assert cli("generate-manifest", "events", "--purge-first", "--check").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--scheme-map", "s3a"), "--scheme-map: a key and a value are needed"),
        (("--where", "id = 1"), "id"),
        (("--ddl", "presto"), "presto"),
        (("--since", "-1"), "--since"),
    ],
)
def test_wrong_options_end_with_exit_2(
    cli: RunCli, table: TableBuilder, words: tuple[str, ...], told: str
) -> None:
    ran = cli("generate-manifest", "events", *words)
    assert ran.code == 2 and told in ran.err and ran.out == ""
