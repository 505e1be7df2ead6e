"""`deltactl check` from the shell: whole outputs, exit statuses."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from deltactl.cli.pages.check import _ShownRepairs
from deltactl.codes import load_findings
from deltactl.operations.vacuum.journal import quarantine_name
from deltactl.storage.local.store import LocalStore
from deltactl.units import format_size
from tests.cli.conftest import RunCli
from tests.support.damage import edit_stats, true_stats
from tests.support.table_builder import Column, TableBuilder

MISSING = "f\x1b[31m00002.parquet"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableBuilder:
    """Two files, one with a name that would act on a terminal; the shell stands beside them."""
    monkeypatch.chdir(tmp_path)
    builder = TableBuilder(tmp_path / "events", [Column("id")])
    rows = [{"id": 1}, {"id": 2}]
    builder.commit(builder.write_file(rows, stats=true_stats(rows, ["id"])))
    builder.commit(builder.write_file(rows, name=MISSING))
    return builder


NOTE = (
    "note     delta-rs cannot read the table: 1 file has control characters in the\n"
    "         path, such as 'f\\x1b[31m00002.parquet'. Rename files only before they\n"
    "         are in the log. Later, `deltactl optimize --zorder-by COLUMNS` writes\n"
    "         all rows to new files\n"
)


def test_a_valid_table_has_no_findings(cli: RunCli, table: TableBuilder) -> None:
    ran = cli("check", "events", "--files", "data")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "No problems found in version 2\n"
        "\n"
        "log      3 commits\n"
        f"table    2 files, {_size(table)}\n"
        "checked  2 files: data\n"
        "rows     4\n" + NOTE
    )


def _size(table: TableBuilder) -> str:
    return format_size(sum(add["size"] for add in table.state.files.values()))


def test_findings_say_what_they_mean_and_what_to_do(cli: RunCli, table: TableBuilder) -> None:
    table.store.delete_many([MISSING])
    edit_stats(table, 1, maxValues={"id": 1})
    ran = cli("check", "events", "--files", "footers")
    assert (ran.code, ran.err) == (3, "")
    meaning = load_findings()["STATS_BOUNDS"].effect
    repair = load_findings()["STATS_BOUNDS"].repair.replace("{file}", "f00001.parquet")
    repair = repair.replace("{table}", table.store.uri)
    assert ran.out.startswith(
        "2 findings in version 2\n"
        "\n"
        "FILE_MISSING (1): queries that need the file fail\n"
        "  f\\x1b[31m00002.parquet\n"
        "      problem: it is not in the store\n"
        "      repair: restore f\\x1b[31m00002.parquet from a backup, or an earlier\n"
        "              version of the table that has its rows:\n"
        "              `deltactl explain FILE_MISSING` says how\n"
        "\n"
    )
    assert " ".join(ran.out.split("\n\n")[2].split()) == (
        f"STATS_BOUNDS (1): {meaning} f00001.parquet problem: column 'id': the maximum is 1, but "
        f"a live row has a value beyond this bound repair: {repair}"
    )
    assert ran.out.endswith(
        "\n\n"
        "log      3 commits\n"
        f"table    2 files, {_size(table)}\n"
        "checked  1 file: footers\n"
        "rows     2\n" + NOTE
    )


def test_rows_that_deletion_vectors_delete_are_read_too(cli: RunCli, tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path)), [Column("id")], features=["deletionVectors"])
    (path,) = table.append([{"id": 1}, {"id": 2}])
    table.delete_rows(path, [0])
    ran = cli("check", str(tmp_path), "--files", "data")
    assert "rows              2, with deleted ones\n" in ran.out


def test_a_repair_is_a_command_where_there_is_one(cli: RunCli, table: TableBuilder) -> None:
    table.hint(1)
    ran = cli("check", "events", "--checkpoints")
    assert f"    repair: deltactl check {table.store.uri} --fix last-checkpoint\n" in ran.out


@pytest.mark.usefixtures("trusted_clock")
def test_the_repair_of_a_file_in_quarantine_is_the_undo_of_its_vacuum(
    cli: RunCli, table: TableBuilder
) -> None:
    """Another engine made the files live again."""
    adds = list(table.state.files.values())
    table.remove(*(add["path"] for add in adds))
    words = ["--retain", "0h", "--force-retention", "--quarantine", "--yes"]
    run = re.findall(r"--undo (\S+)", cli("vacuum", "events", *words).out)[0]
    for _ in "START", "END":
        table.note([])
    table.commit(*({"add": add} for add in adds))
    lost = "f00001.parquet"
    table.store.delete_many([quarantine_name(run, lost)])
    found = cli("check", "events", "-o", "json").result["findings"]
    assert {it["file"]: it["repair"] for it in found if it["code"] == "FILE_MISSING"} == {
        MISSING: f"deltactl vacuum {table.store.uri} --undo {run}",
        lost: f"restore {lost} from a backup, or an earlier version of the table that has its "
        "rows: `deltactl explain FILE_MISSING` says how",
    }
    table.store.put(MISSING, b"PAR1")
    found = cli("check", "events", "-o", "json").result["findings"]
    (repair,) = (it["repair"] for it in found if it["code"] == "FILE_SIZE")
    undo = f"`deltactl vacuum {table.store.uri} --undo {run}`"
    assert repair == f"move the file out of the table, then run {undo}"


def test_the_envelope_and_rows(cli: RunCli, table: TableBuilder) -> None:
    table.store.delete_many([MISSING])
    ran = cli("check", "events", "-o", "json")
    envelope = ran.document
    assert ran.code == 3
    assert (envelope["version_before"], envelope["version_after"]) == (2, 2)
    assert envelope["engine"] == "local"
    result = envelope["result"]
    assert (result["sound"], result["error"], result["warning"]) == (False, 1, 0)
    assert result["codes"] == {"FILE_MISSING": 1}
    (finding,) = result["findings"]
    assert finding["file"] == MISSING
    ran = cli("check", "events", "-o", "ndjson")
    assert ran.document == finding
    ran = cli("check", "events", "-o", "csv")
    assert ran.out.startswith("code,severity,version,file,problem,meaning,repair\nFILE_MISSING,")


def test_a_version_and_a_sample(cli: RunCli, table: TableBuilder) -> None:
    table.store.delete_many([MISSING])
    assert cli("check", "events", "--version", "1").code == 0
    ran = cli("check", "events", "--all-versions")
    assert (ran.code, ran.out.splitlines()[0]) == (3, "1 finding in all versions up to 2")
    assert "(a sample of 0.1%)" in cli("check", "events", "--sample", "0.1%").out
    for text in ("5", "0%", "-1%", "five%", "101%", "5%%"):
        assert cli("check", "events", "--sample", text).code == 2
    assert cli("check", "events", "--version", "9").code == 1
    assert cli("check", "events", "--version", "1", "--all-versions").code == 2


def test_an_unknown_reader_feature_exits_7(cli: RunCli, tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "new"))
    TableBuilder(store, [Column("id")], features=["notYetInvented"]).append([{"id": 1}])
    ran = cli("check", str(tmp_path / "new"), "-o", "json")
    envelope = ran.document
    assert ran.code == 7
    assert envelope["error"]["code"] == "UNSUPPORTED_FEATURE"
    assert "notYetInvented" in envelope["error"]["message"]
    assert envelope["result"]["sound"] is True
    (data,) = (tmp_path / "new").glob("*.parquet")
    data.unlink()  # a finding does not hide that the check could not cover all
    ran = cli("check", str(tmp_path / "new"))
    assert (ran.code, "FILE_MISSING" in ran.out, "notYetInvented" in ran.err) == (7, True, True)
    envelope = cli("check", str(tmp_path / "new"), "-o", "json").document
    assert (envelope["exit_code"], envelope["status"]) == (7, "failed")
    assert envelope["result"]["codes"] == {"FILE_MISSING": 1}
    annotated = cli("check", str(tmp_path / "new"), "-o", "github").out
    assert "FILE_MISSING%2C UNSUPPORTED_FEATURE" in annotated


def test_an_annotation_names_the_first_findings(cli: RunCli, table: TableBuilder) -> None:
    table.store.delete_many([MISSING])
    title = "::error title=deltactl check%3A FILE_MISSING::events: "
    ran = cli("check", "events", "-o", "github")
    assert (ran.code, ran.out) == (
        3,
        f"{title}1 finding in version 2: FILE_MISSING f\\x1b[31m00002.parquet\n",
    )
    table.append(*([{"id": number}] for number in range(3)))
    for path in Path("events").glob("*.parquet"):
        path.unlink()
    out = cli("check", "events", "-o", "github").out
    assert out.startswith(f"{title}5 findings in version 3: FILE_MISSING f")
    assert out.count("FILE_MISSING f") == 3
    assert out.endswith(".parquet, and 2 more\n")


def test_checkpoints_that_were_only_opened_are_named(cli: RunCli, table: TableBuilder) -> None:
    table.checkpoint(1)
    remark = "3 commits, 1 checkpoint (content checked only with --checkpoints)"
    assert remark in cli("check", "events").out
    assert "3 commits, 1 checkpoint\n" in cli("check", "events", "--checkpoints").out


def test_a_long_repair_is_shown_once(cli: RunCli, table: TableBuilder) -> None:
    """A restore removed a file of a lost commit, and left one that was added since."""
    table.append([{"id": 3}])
    lost = {"remove": {"path": "lost.parquet", "dataChange": True, "deletionTimestamp": 1}}
    table.commit(lost, operation="RESTORE", operationParameters={"version": 2})
    out = cli("check", "events").out
    assert out.index("COMMIT_DOUBTFUL (1)") < out.index("RESTORE_INCOMPLETE (1)")
    assert out.count("cannot be repaired by one command") == 1
    assert out.count("repair: as for COMMIT_DOUBTFUL\n") == 1


def test_a_code_with_several_repairs_is_not_referred_to() -> None:
    """It would not be known which repair is meant, and only the first five are shown."""
    one, another = "Restore it from a backup. " * 20, "Compare it with a backup. " * 20
    for first in ([one, another], [one, *["short"] * 5, another]):
        shown = _ShownRepairs()
        shown.refer(pa.table({"repair": first}), "FIRST")
        rows = shown.refer(pa.table({"repair": [another]}), "SECOND")
        assert rows["repair"].to_pylist() == [another]
