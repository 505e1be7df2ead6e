"""`deltactl check --fix` from the shell."""

from pathlib import Path

import pytest

from deltactl import Table
from deltactl.storage.local.store import LocalStore
from tests.cli.conftest import RunCli
from tests.support.path_texts import TextTable
from tests.support.table_builder import Column, TableBuilder

RAW, ENCODED = "p=é/f.parquet", "p=%C3%A9/f.parquet"
FIX = ("check", "events", "--fix", "path-encoding")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TextTable:
    """A file with a raw text that a remove names by its encoded one."""
    monkeypatch.chdir(tmp_path)
    made = TextTable(tmp_path / "events")
    made.add(RAW, (1, 2))
    made.remove(ENCODED)
    return made


def version_of(table: TextTable) -> int:
    return Table(str(table.root)).snapshot().version


def test_a_dry_run_shows_the_pair(cli: RunCli, table: TextTable) -> None:
    ran = cli(*FIX, "--dry-run")
    size = (table.root / RAW).stat().st_size
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Would remove 1 file from version 2\n"
        f"  files      1 ({size} B)\n"
        "  live rows  2: readers will no longer return them\n"
        f"  {RAW}\n"
        f"      problem: version 2 (DELETE) removed it as '{ENCODED}', but it is\n"
        f"               live as '{RAW}': readers still return 2 rows\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl check events --fix path-encoding\n"
    )
    assert version_of(table) == 2


def test_yes_commits_the_missing_remove(cli: RunCli, table: TextTable) -> None:
    ran = cli(*FIX, "--yes", "-o", "json")
    assert ran.code == 0
    found = ran.document
    result = found["result"]
    assert (found["version_before"], found["version_after"], result["version_after"]) == (2, 3, 3)
    assert (result["files_removed"], result["rows_removed"], result["files_left"]) == (1, 2, 0)
    (pair,) = result["pairs"]
    assert (pair["text"], pair["other_text"], pair["exists"]) == (RAW, ENCODED, True)
    assert (pair["verdict"], pair["removed_by"], pair["removed"]) == ("remove", "DELETE", True)
    again = cli(*FIX, "--yes")
    assert (again.code, again.out) == (0, "Nothing to fix in version 3\n")
    assert cli("check", "events").code == 0


def test_no_terminal_to_ask(cli: RunCli, table: TextTable) -> None:
    ran = cli(*FIX)
    assert ran.code == 6
    assert "there is no terminal for a confirmation, and --yes was not given" in ran.err
    assert version_of(table) == 2


def test_an_append_only_table(cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = TextTable(tmp_path / "events", **{"delta.appendOnly": "true"})
    table.add(RAW, (1,))
    table.remove(ENCODED)
    ran = cli(*FIX, "--dry-run")
    assert ran.code == 0
    assert "warning: a real run would be refused: the table is append-only" in ran.err
    assert cli(*FIX, "--yes").code == 6
    assert version_of(table) == 2


def test_what_is_doubtful_is_left_until_it_is_named(cli: RunCli, table: TextTable) -> None:
    table.commit(operation="RESTORE", operationParameters={"timestamp": "2020-09-13"})
    ran = cli(*FIX, "--yes")
    assert ran.code == 3
    assert ran.out.startswith("No path can be removed safely in version 3\n")
    (finding,) = cli("check", "events", "-o", "json").result["findings"]
    assert (finding["code"], "RESTORE" in finding["problem"]) == ("PATH_ENCODING_DOUBTFUL", True)
    assert "To remove one of them, give the quoted text after 'live as' with --path" in ran.out
    assert version_of(table) == 3
    assert cli(*FIX, "--path", ENCODED, "--yes").code == 2
    named = cli(*FIX, "--path", RAW, "--yes")
    assert (named.code, version_of(table)) == (0, 4)
    assert named.out.startswith("Removed 1 file in version 4\n")


@pytest.mark.parametrize(
    "args",
    [("--yes",), ("--dry-run",), ("--path", "x"), (*FIX[2:], "--files", "data")],
    ids=" ".join,
)
def test_options_that_belong_to_the_fix(
    cli: RunCli, table: TextTable, args: tuple[str, ...]
) -> None:
    assert cli("check", "events", *args).code == 2


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """A table of 20 files; one of them does not exist, and another lacks its vector."""
    monkeypatch.chdir(tmp_path)
    store = LocalStore(str(tmp_path / "events"))
    builder = TableBuilder(store, [Column("id")], features=["deletionVectors"])
    paths = builder.append(*([{"id": n}, {"id": -n}] for n in range(20)))
    builder.delete_rows(paths[1], [0])
    (vector,) = (tmp_path / "events").glob("*.bin")
    vector.rename(tmp_path / "vector")
    (tmp_path / "events" / paths[0]).unlink()
    return builder


def test_missing_files(cli: RunCli, lost: TableBuilder) -> None:
    words = ("check", "events", "--fix", "missing-files")
    (size,) = (it["size"] for it in lost.state.files.values() if it["path"] == "f00001.parquet")
    ran = cli(*words, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Would remove 1 missing file from version 2\n"
        f"  files      1 ({size} B)\n"
        "  live rows  2: readers will no longer return them\n"
        "  f00001.parquet\n"
        "      problem: it does not exist; 2 live rows\n"
        "\n"
        "note  1 other file lacks only its deletion vector: see --fix missing-vectors\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl check events --fix missing-files\n"
    )
    ran = cli(*words)
    assert ran.code == 6
    assert "--yes was not given: Remove 1 file from the table? Readers will no longer" in ran.err
    assert cli(*words, "--yes", "--expect-files", "2").code == 6
    done = cli(*words, "--yes", "--expect-files", "1", "-o", "json").document
    assert (done["version_after"], done["result"]["files_removed"]) == (3, 1)
    assert cli(*words, "--yes").out.startswith("Nothing to fix in version 3\n")
    assert "deletion vector 'deletion_vector_" in cli("optimize", "events").err


def test_several_files_without_their_vectors(cli: RunCli, lost: TableBuilder) -> None:
    (path,) = (it for it, _ in lost.state.files if it == "f00003.parquet")
    lost.delete_rows(path, [1])
    for vector in Path("events").glob("*.bin"):
        vector.unlink()
    ran = cli("check", "events", "--fix", "missing-files", "--dry-run")
    assert "note  2 other files lack only deletion vectors: see --fix missing-vectors" in ran.out


def test_missing_vectors(cli: RunCli, lost: TableBuilder) -> None:
    words = ("check", "events", "--fix", "missing-vectors")
    assert "`deltactl explain VECTOR_MISSING`" in " ".join(cli("check", "events").out.split())
    ran = cli(*words, "--yes")
    assert ran.code == 3
    assert ran.out.startswith("Nothing was chosen to be removed in version 2\n")
    assert "add --drop-files" in ran.out
    assert "1 live row of 2" in " ".join(ran.out.split())
    assert cli(*words, "--drop-files", "--keep-deleted-rows").code == 2
    assert cli("check", "events", "--fix", "missing-files", "--drop-files").code == 2
    ran = cli(*words, "--keep-deleted-rows", "--dry-run")
    assert "  deleted rows  1: readers return them again\n" in ran.out
    ran = cli(*words, "--keep-deleted-rows", "--yes")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "Removed 1 deletion vector in version 3")


def test_statistics(cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(tmp_path / "events", [Column("id")])
    builder.append([{"id": 1}], [{"id": 2}])
    (gone,) = builder.append([{"id": 3}], stats=None)
    (tmp_path / "events" / gone).unlink()
    words = ("check", "events", "--fix", "stats")
    ran = cli(*words, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Would write statistics of 2 files of version 2\n"
        "  too short  2\n"
        "  path            reason\n"
        "  f00001.parquet  too short\n"
        "  f00002.parquet  too short\n"
        "\n"
        "left  1 file that cannot be used: see `deltactl check --files footers`\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl check events --fix stats\n"
    )
    ran = cli(*words)
    assert (ran.code, "Write new statistics of 2 files to the log?" in ran.err) == (6, True)
    done = cli(*words, "--yes", "-o", "json")
    result = done.result
    assert (done.code, result["versions"], result["files_unread"]) == (3, [3], 1)
    assert result["reasons"] == {"missing": 0, "too_short": 2, "wrong": 0}
    assert cli(*words, "--yes").out.startswith("Nothing was written in version 3\n")


def test_files_of_the_log(cli: RunCli, table: TextTable) -> None:
    words = ("check", "events", "--fix", "last-checkpoint")
    assert cli(*words).out == "Nothing to fix in version 2\n"
    (table.root / "_delta_log" / "_last_checkpoint").write_text("{")
    ran = cli(*words)
    assert (ran.code, "Repair _delta_log/_last_checkpoint?" in ran.err) == (6, True)
    assert cli(*words, "--yes").out.startswith("Repaired _delta_log/_last_checkpoint\n")
    ran = cli("check", "events", "--fix", "checksum", "--yes", "-o", "json")
    (file,) = ran.result["files"]
    assert (file["repaired"], file["obstacle"]) == (True, None)
    assert (table.root / "_delta_log" / f"{2:020}.crc").exists()


def test_files_that_lost_commits_left(cli: RunCli, table: TextTable) -> None:
    (table.root / "_delta_log" / f"{3:020}.crc").write_text("{}")
    words = ("check", "events", "--fix", "last-checkpoint")
    shown = f" the log after version 2\n  delete  _delta_log/{3:020}.crc\n"
    assert shown in cli(*words, "--dry-run").out
    ran = cli(*words)
    assert (ran.code, "Are the commits after version 2 lost for good?" in ran.err) == (6, True)
    assert cli(*words, "--yes").out.startswith(f"Repaired{shown}")
    assert cli(*words).out == "Nothing to fix in version 2\n"
