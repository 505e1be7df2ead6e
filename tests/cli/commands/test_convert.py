"""`deltactl convert` from the shell: whole outputs, exit statuses, nothing changed by a look."""

import csv
import io
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import RunCli


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files in two partitions, and what does not belong; the shell stands beside it."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "events"
    for number, day in enumerate(("2024-01-01", "2024-01-01", "2024-01-02")):
        folder = root / f"day={day}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = pa.table({"id": [number], "v": ["x\x1b[31m"]})
        pq.write_table(rows, folder / f"{number}.parquet", compression="none")
    (root / "_SUCCESS").touch()
    (root / "day=2024-01-02/notes.txt").write_text("hello")
    return root


def test_a_dry_run_on_a_terminal(cli: RunCli, events: Path) -> None:
    ran = cli("convert", "events", "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    size = sum(path.stat().st_size for path in events.rglob("*.parquet"))
    assert ran.out == (
        f"Would create a table of 3 files ({size / 1024:.1f} KiB, 3 rows)\n"
        "\n"
        "Columns (3)\n"
        "  column  type\n"
        "  id      long\n"
        "  v       string\n"
        "  day     date    partition, type guessed\n"
        '  Use --partition-by "day date" to set the types of partition columns.\n'
        "\n"
        "Left out (2)\n"
        "  file                      reason\n"
        "  _SUCCESS                  hidden: a name on its path begins with '_' or '.'\n"
        "  day=2024-01-02/notes.txt  not Parquet, by its name\n"
        "\n"
        "Nothing was changed. To do it:\n"
        "  deltactl convert events\n"
    )
    assert not (events / "_delta_log").exists()


def test_columns_with_a_widened_part_are_marked(cli: RunCli, tmp_path: Path) -> None:
    for name, kind in (("1", pa.int32()), ("2", pa.int64())):
        nested = pa.struct([("x", pa.list_(kind))])
        columns = {"s": pa.array([{"x": [1]}], nested), "sx": pa.array([1], pa.int32())}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    ran = cli("convert", str(tmp_path), "--schema-mode", "widen")
    assert "  s       struct<x:array<long>>  widened\n  sx      integer\n" in ran.out


def test_one_row_is_singular(cli: RunCli, events: Path) -> None:
    for path in sorted(events.rglob("*.parquet"))[1:]:
        path.unlink()
    assert " 1 row)\n" in cli("convert", "events", "--dry-run").out


def test_what_a_run_says_and_again(cli: RunCli, events: Path) -> None:
    ran = cli("convert", "events", "--partition-by", "day string", "--name", "e")
    assert (ran.code, ran.err) == (0, "")
    assert "  deltactl register events hive://DATABASE.NAME\n" in ran.out
    assert ran.out.startswith("Created a table of 3 files")
    assert "  day     string  partition\n" in ran.out
    again = cli("convert", "events")
    assert (again.code, again.err) == (0, "")
    assert again.out == ("Already a Delta table, version 0: nothing was changed\n")
    for number in range(2):
        (events / f"{number}.parquet").touch()
    assert cli("convert", "events").out.splitlines()[1:] == [
        "  2 Parquet files are in the directory, but not in the log. They are not part of",
        "  the table. `deltactl vacuum` keeps them.",
    ]
    result = cli("convert", "events", "-o", "json").result
    assert result == {"already_a_table": True, "files_added": 0, "unnamed_files": 2}


def test_json_tells_what_was_added_guessed_and_left_out(cli: RunCli, events: Path) -> None:
    ran = cli("convert", "events", "-o", "json")
    envelope = ran.document
    assert (envelope["version_before"], envelope["version_after"]) == (None, 0)
    result = envelope["result"]
    assert (result["files_added"], result["rows_added"]) == (3, 3)
    assert result["partition_columns"] == [{"name": "day", "type": "date", "guessed": True}]
    left_out = [entry["path"] for entry in result["left_out"]]
    assert left_out == ["_SUCCESS", "day=2024-01-02/notes.txt"]
    assert cli("convert", "events", "-o", "json").result["already_a_table"]


def test_left_out_files_as_rows(cli: RunCli, events: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("convert", "events", "-o", "csv").out)))
    assert [row["path"] for row in rows] == ["_SUCCESS", "day=2024-01-02/notes.txt"]


def test_all_problems_reach_people_and_programs(cli: RunCli, events: Path) -> None:
    (events / "day=2024-01-01/zero.parquet").touch()
    (events / "day=2024-01-01/text\x1b.parquet").write_text("hello, world")
    ran = cli("convert", "events")
    assert ran.code == 6
    assert ran.out == (
        "Problems (2)\n"
        "  day=2024-01-01/text\\x1b.parquet\n"
        "      problem: is not a Parquet file, or is truncated\n"
        "  day=2024-01-01/zero.parquet\n"
        "      problem: is empty (0 bytes)\n"
    )
    assert (
        "cannot become a table because of 2 problems" in ran.err
        and "Nothing was changed" in ran.err
    )
    assert "\x1b" not in ran.out + ran.err
    ran = cli("convert", "events", "-o", "json")
    envelope = ran.document
    assert ran.code == 6 and envelope["error"]["code"] == "CONVERSION"
    paths = [problem["path"] for problem in envelope["result"]["problems"]]
    assert paths == ["day=2024-01-01/text\x1b.parquet", "day=2024-01-01/zero.parquet"]
    assert not (events / "_delta_log").exists()


def test_many_problems_are_cut_short_for_people_alone(cli: RunCli, events: Path) -> None:
    for number in range(50):
        (events / f"{number:02}.parquet").touch()
    lines = cli("convert", "events").out.splitlines()
    assert lines[-3:] == [
        "  19.parquet",
        "      problem: is empty (0 bytes)",
        "  and 30 more (-o json lists all)",
    ]
    envelope = cli("convert", "events", "-o", "json").document
    assert len(envelope["result"]["problems"]) == 50


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--partition-by", "day what"), "not a type"),
        (("--schema-mode", "loose"), "loose"),
        (("--property", "x"), "KEY=VALUE"),
        (("--property", "delta.rowTracking.x=1"), "cannot set the property"),
    ],
)
def test_wrong_options_end_with_exit_2(
    cli: RunCli, events: Path, words: tuple[str, ...], told: str
) -> None:
    ran = cli("convert", "events", *words)
    assert ran.code == 2 and told in ran.err and ran.out == ""


def test_an_interrupt_leaves_nothing(
    cli: RunCli, events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltactl.operations.convert import footers as convert_footers

    def interrupt(*arguments: object) -> frozenset[object]:
        signal.raise_signal(signal.SIGINT)
        return frozenset()

    monkeypatch.setattr(convert_footers, "_unwanted", interrupt)
    ran = cli("convert", "events")
    assert ran.code == 130
    assert not (events / "_delta_log").exists()
