"""`deltactl check --erased` from the shell: a value is erased by the commands that it prints."""

import io
import os
import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.conftest import RunCli

SOUGHT = "email = 'jane@example.com'"
KEPT = {
    "delta.deletedFileRetentionDuration": "interval 0 hours",
    "delta.logRetentionDuration": "interval 0 days",
    "delta.enableExpiredLogCleanup": "false",  # by delta-rs: the printed commands must do it
}
STRAY = "part-00000-3f2b7d1e-0c1d-4a7e-9a55-0123456789ab-c000.snappy.parquet"
OTHERS = ("otto@example.com", "SECRET-COUNTRY", "Berlin")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rows = {"email": ["jane@example.com", "otto@example.com"], "city": ["Berlin", "Rome"]}
    rows |= {"country": ["SECRET-COUNTRY", "FR"]}
    write_deltalake("users", pa.table(rows), partition_by=["country"], configuration=KEPT)
    return "users"


def pass_days(table: str, days: int = 3) -> None:
    """Let all files of a table become older, as if time had passed."""
    for path in sorted(Path(table).rglob("*")):
        if path.is_file():
            times = path.stat().st_mtime - days * 86_400
            os.utime(path, (times, times))


def append(table: str) -> None:
    rows = {"email": ["otto@example.com"], "city": ["Rome"], "country": ["FR"]}
    write_deltalake(table, pa.table(rows), mode="append")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_on_terminal(cli: RunCli, *words: str) -> None:
    """Run a command as it is printed, and answer yes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", Terminal("y\n"))
        ran = cli(*words)
    assert ran.code == 0, (words, ran.err)


def run_printed(cli: RunCli, table: str, *others: str) -> list[set[str]]:
    """Search, run what is printed, and let days pass, until nothing is found: what was found."""
    seen = []
    for _ in range(6):
        found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
        if found["erased"]:
            break
        seen.append({it["place"] for it in found["places"]})
        for command in found["commands"]:
            run_on_terminal(cli, *shlex.split(command)[1:])
        for it in (table, *others):
            pass_days(it)
            assert cli("alter", it, "--set", f"days={len(seen)}").code == 0
            append(it)  # commits of other writers prove that time has passed
    assert found["erased"], found["places"]
    return seen


def plant(table: str) -> None:
    """Put the value where only some commands reach: a checkpoint, a stray, a quarantine."""
    DeltaTable(table).create_checkpoint()
    (live,) = Path(table).glob("country=SECRET*/*.parquet")
    shutil.copy(live, live.with_name(STRAY))


def test_the_printed_commands_erase_a_value(cli: RunCli, table: str) -> None:
    plant(table)
    seen: set[str] = set()
    for _ in range(4):
        ran = cli("check", table, "--erased", SOUGHT, "-o", "json")
        found = ran.result
        seen |= {it["place"] for it in found["places"]}
        assert ran.code == (0 if found["erased"] else 3)
        if found["erased"]:
            break
        for command in found["commands"]:
            if command.startswith("DELETE"):
                path = Path(table).resolve()
                assert command == f"DELETE FROM delta.`{path}` WHERE {SOUGHT}"
                DeltaTable(table).delete(SOUGHT)
                pass_days(table)
                append(table)
                continue
            run_on_terminal(cli, *shlex.split(command)[1:])
        pass_days(table)
        append(table)
    assert found["erased"]
    assert seen == {"live rows", "unreferenced files", "checkpoints", "commits", "latest commit"}
    assert cli("check", table, "--erased", "email = 'otto@example.com'").code == 3


def test_the_vacuum_comes_before_the_log_loses_the_names(cli: RunCli, table: str) -> None:
    """A file that only an old checkpoint names is unreferenced: no vacuum by --yes deletes it."""
    assert cli("alter", table, "--unset", "delta.logRetentionDuration").code == 0
    DeltaTable(table).delete(SOUGHT)
    append(table)
    pass_days(table, 40)
    assert cli("checkpoint", table).code == 0
    append(table)
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    assert [shlex.split(it)[1] for it in found["commands"]] == ["vacuum", "checkpoint"]
    assert found["commands"][0].endswith(" --mode full")  # lite: no file that was copied back
    assert cli("checkpoint", table, "--cleanup").code == 0
    (stale,) = cli("check", table, "--erased", SOUGHT, "-o", "json").result["places"]
    assert stale["place"] == "unreferenced files"
    assert [shlex.split(it)[3:] for it in stale["commands"]] == [["--mode", "full"]]
    run_printed(cli, table)


def test_manifests_are_written_before_a_vacuum_that_keeps_what_they_list(
    cli: RunCli, table: str
) -> None:
    assert cli("generate-manifest", table).code == 0
    (removed,) = Path(table).glob("country=SECRET*/*.parquet")
    DeltaTable(table).delete(SOUGHT)
    append(table)
    pass_days(table)
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    (older,) = (it for it in found["places"] if it["place"] == "files of older versions")
    for commands in (older["commands"], found["commands"]):
        words = [shlex.split(it)[1] for it in commands]
        assert words[:2] == ["generate-manifest", "vacuum"]
    for command in older["commands"]:
        run_on_terminal(cli, *shlex.split(command)[1:])
    assert not removed.exists()


def test_no_command_deletes_unknown_files(cli: RunCli, table: str) -> None:
    """A vacuum that deletes what no writer has named would delete all files of a user."""
    plant(table)
    lookup, (live,) = Path(table) / "lookup.csv", Path(table).glob("country=FR/*.parquet")
    lookup.write_text("code,label\n1,x\n", "utf-8")
    stray = Path(table) / "country=SECRET-COUNTRY" / "stray.parquet"
    shutil.copy(stray.with_name(STRAY), stray)
    DeltaTable(table).delete(SOUGHT)
    append(table)
    pass_days(table)
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    (unknown,) = (it for it in found["places"] if it["place"] == "unknown files")
    assert (unknown["commands"], unknown["files"]) == ([], 1)
    assert unknown["parts"] == ["country=*/stray.parquet"]
    stray.unlink()
    run_printed(cli, table)
    assert lookup.exists()
    assert live.exists()


def test_a_live_description_is_changed_before_any_command(cli: RunCli, table: str) -> None:
    DeltaTable(table).delete(SOUGHT)
    DeltaTable(table).alter.set_table_description("a copy for jane@example.com")
    append(table)
    DeltaTable(table).create_checkpoint()
    pass_days(table, 40)
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    assert "checkpoint" not in [shlex.split(it)[1] for it in found["commands"]]
    (live,) = (it for it in found["places"] if it["place"] == "metadata of the table")
    assert (live["parts"], live["commands"]) == (["description"], [])
    DeltaTable(table).alter.set_table_description("a copy")
    append(table)
    run_printed(cli, table)


def test_only_a_quarantine_with_a_journal_has_a_command(cli: RunCli, table: str) -> None:
    DeltaTable(table).delete(SOUGHT)
    pass_days(table)
    append(table)
    assert cli("vacuum", table, "--yes", "--quarantine").code == 0
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    assert "--purge-quarantine" in " ".join(found["commands"])
    shutil.rmtree(Path(table) / "_deltactl" / "vacuum")
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    (lost,) = (it for it in found["places"] if it["place"].startswith("quarantine"))
    assert (lost["place"], lost["commands"]) == ("quarantine without a journal", [])
    assert lost["parts"][0].startswith("_deltactl/quarantine/")
    shutil.rmtree(Path(table) / "_deltactl" / "quarantine")
    run_printed(cli, table)


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("to jane@example.com", ["vacuum", "--mode", "full"]),
        ("_tmp/to jane@example.com", None),
        ("sub/to jane@example.com", None),
    ],
)
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_name_has_the_command_that_ends_it(
    cli: RunCli, table: str, folder: str, command: list[str] | None, is_empty: bool
) -> None:
    DeltaTable(table).delete(SOUGHT)
    append(table)
    pass_days(table)
    run_printed(cli, table)
    (live,) = list(Path(table).glob("country=FR/*.parquet"))[:1]
    append(f"{table}/sub")
    path = Path(table) / folder
    path.mkdir(parents=True)
    if not is_empty:
        shutil.copy(live, path / STRAY)
    pass_days(table)
    os.utime(path, (0, 0))
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    assert "names of files and directories" in {it["place"] for it in found["places"]} or (
        folder.startswith("_")
    )
    words = [shlex.split(it) for it in found["commands"]]
    is_known = is_empty or "/" in folder
    assert [[it[1], *it[3:]] for it in words] == ([command] if command and is_known else [])
    if words:
        run_printed(cli, table)


def test_files_to_delete_by_hand_are_named(cli: RunCli, table: str) -> None:
    for number in range(120):
        (Path(table) / f"{number}.csv").write_text("email\njane@example.com\n", "utf-8")
    for name in ("0 to jane@example.com.csv", "0_jane@example.com_1.csv"):
        (Path(table) / name).write_text("email\njane@example.com\n", "utf-8")
    for more in ([], ["--redact"]):
        found = cli("check", table, "--erased", SOUGHT, "-o", "json", *more).result
        (other,) = (it for it in found["places"] if it["place"] == "other files")
        assert len(other["parts"]) in (100, 99)  # those with the value are one
        assert "0.csv" in other["parts"]
        assert not [it for it in other["parts"] if more and "jane" in it]
    assert "and more" in " ".join(cli("check", table, "--erased", SOUGHT).out.split())


def test_a_place_that_waits_for_a_later_commit_says_so(cli: RunCli, table: str) -> None:
    """The last commit is the erasure: nothing but this machine's clock shows that it is old."""
    week = "delta.deletedFileRetentionDuration=interval 7 days"
    assert cli("alter", table, "--set", week).code == 0
    DeltaTable(table).delete(SOUGHT)
    log = Path(table) / "_delta_log" / f"{2:020d}.json"
    text = re.sub(r'"deletionTimestamp":\d+', '"deletionTimestamp":1', log.read_text("utf-8"))
    log.write_text(text, "utf-8")
    pass_days(table, 40)
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    (older,) = (it for it in found["places"] if it["place"] == "files of older versions")
    assert "by this machine's clock only" in older["kept_by"]
    assert [shlex.split(it)[3:] for it in older["commands"]] == [
        ["--mode", "full", "--force-retention"]
    ]
    ran = cli("vacuum", table, "--yes")
    assert "add --force-retention" in " ".join(ran.out.split())
    run_printed(cli, table)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.filterwarnings("ignore:a shallow clone needs the files of its source")
def test_the_logs_of_clones_end_before_the_files_of_the_source(
    cli: RunCli, table: str, depth: int
) -> None:
    chain = [table, "clone", "clone of it"][: depth + 1]

    def clone(*more: str) -> None:
        for source, target in pairwise(chain):
            assert cli("clone", source, target, "--shallow", *more).code == 0

    clone()
    DeltaTable(table).delete(SOUGHT)
    clone("--replace")
    found = cli("check", table, "--erased", SOUGHT, "-o", "json").result
    (shared,) = (it for it in found["places"] if it["place"].startswith("files that"))
    ends = {it["until"] for it in found["places"] if it["place"].startswith("files of the source")}
    assert {shared["until"]} == ends
    steps = [
        (unquote(it.split()[2].strip("'")).rpartition("/")[2], it.split()[1])
        for it in found["commands"]
    ]
    cleanup = [(name, it) for name in reversed(chain) for it in ("alter", "checkpoint")]
    assert steps == [*cleanup[:-2], (table, "vacuum"), *cleanup[-2:]]
    run_printed(cli, *chain)


def test_a_redacted_report_has_no_part_of_a_name_with_the_value(cli: RunCli, table: str) -> None:
    properties = {"of_alice_smith_x": "q", "a": "alice_smith"}
    DeltaTable(table).alter.set_table_properties(properties, raise_if_not_exists=False)
    names = ("x_alice_smith_y", "Alice_Smith", "xalice_smithx", "%61lice_smith2", "n4111111111111")
    for name in names:
        (Path(table) / f"{name}.csv").write_text("email\nalice_smith\n4111111111111\n", "utf-8")
    for name in ("_notes.json", ".tmp/1.json"):
        path = Path(table) / "_delta_log" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"alice_smith": {"otto": "for alice_smith, 4111111111111"}}', "utf-8")
    for value, masked in (("alice_smith", 4), ("4111111111111", 1)):
        found = cli("check", table, "--erased", f"email = '{value}'", "--redact", "-o", "json")
        text = found.out.lower()
        assert not [it for it in (value, "lice_smith", "otto") if masked == 4 and it in text]
        (other,) = (it for it in found.result["places"] if it["place"] == "other files")
        assert (len(other["parts"]), value in text) == (6 - masked, False)


@pytest.mark.parametrize(
    "predicate", ["email = alicevalue", "alicevalue = 1", "email < 'alicevalue"]
)
def test_a_redacted_error_has_no_text_of_the_predicate(
    cli: RunCli, table: str, predicate: str
) -> None:
    for form in ("table", "json"):
        ran = cli("check", table, "--erased", predicate, "--redact", "-o", form)
        assert (ran.code, "alicevalue" in ran.out + ran.err) == (2, False)
        assert "Rerun without --redact" in " ".join((ran.out + ran.err).split())


@pytest.mark.parametrize("form", ["table", "json", "report"])
def test_a_report_has_no_other_value(cli: RunCli, table: str, form: str) -> None:
    plant(table)
    (Path(table) / "country=SECRET-COUNTRY" / "notes.bin").write_bytes(b"\xff otto@example.com")
    (Path(table) / "of_jane@example.com.bin").write_bytes(b"\xff")
    args = ["--report", "page.html", "-q"] if form == "report" else ["-o", form]
    for more in ([], ["--redact"]):
        ran = cli("check", table, "--erased", SOUGHT, *args, *more)
        assert ran.code == 1  # what has an unknown type is not searched
        text = Path("page.html").read_text("utf-8") if form == "report" else ran.out + ran.err
        assert "notes.bin" in text
        assert ("jane" in text) == (not more)
        assert not [value for value in OTHERS if value in text]


def test_what_cannot_be_read_is_named_and_fails(cli: RunCli, table: str) -> None:
    """Nothing is found, and yet the status is not 0."""

    def status(predicate: str = "email = 'nobody'") -> tuple[int, list[Any]]:
        ran = cli("check", table, "--erased", predicate, "-o", "json")
        return ran.code, ran.result["unread"]

    assert status() == (0, [])
    stray = Path(table) / "country=FR" / "stray.parquet"
    stray.write_bytes(b"PAR1 cut off")
    code, (unread,) = status()
    assert (code, unread["file"]) == (1, "country=*/stray.parquet")
    stray.unlink()
    assert status("email LIKE '%nobody%'")[0] == 5
    for form in ("github", "junit"):  # what was found is first
        ran = cli("check", table, "--erased", "email > 'j'", "-o", form)
        found = ran.out.index("Found in "), ran.out.index("SEARCH_INCOMPLETE")
        assert (ran.code, form == "github" or sorted(found) == list(found)) == (5, True)
        assert ran.out.index("WORK_NEEDED") < found[1]
    (live,) = Path(table).glob("country=FR/*.parquet")
    live.unlink()
    code, (unread,) = status()
    assert (code, unread["reason"]) == (1, "it does not exist")
    assert unread["file"] == f"country=*/{live.name}"


def _usage(cli: RunCli, *words: str) -> str:
    ran = cli("check", "users", *words)
    assert ran.code == 2
    return ran.err


def test_bad_input_is_refused_with_what_to_type(cli: RunCli, table: str) -> None:
    wrong = _usage(cli, "--erased", "emial = 'x'")
    assert "no schema in the log has the column 'emial'. Did you mean 'email'?" in wrong
    assert "Use these columns: email, city, country" in wrong
    assert "is not a value of" not in _usage(cli, "--erased", "email = x")
    assert "compares two literals" in _usage(cli, "--erased", '"email" = "x"')
    assert "--erased" in _usage(cli, "--redact")
    assert "cannot be combined" in _usage(cli, "--erased", SOUGHT, "--files", "data")
    assert cli("check", "absent", "--erased", SOUGHT).code == 1
