"""``describe-history --graph``: the numbers, and how they are drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RunCli
from tests.support.history_logs import (
    add,
    info,
    log_path,
    remove,
    write_checkpoint,
    write_commit,
    write_log,
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Four appends of 100 bytes, all merged into one file of 400, and one append more."""
    write_log(tmp_path, 5)
    removes = [remove(f"f{n}.parquet") for n in range(1, 5)]
    write_commit(tmp_path, 5, info("OPTIMIZE"), *removes, add("o.parquet", 400))
    write_commit(tmp_path, 6, info("MERGE"), add("m.parquet"))
    return tmp_path


def points(cli: RunCli, table: Path, *args: str) -> list[tuple[int, int | None, int | None]]:
    ran = cli("describe-history", str(table), "--graph", "-o", "json", *args)
    assert ran.code == 0, ran.err
    rows = json.loads(ran.out)["result"]
    return [(row["version"], row["num_files"], row["size_bytes"]) for row in rows]


def test_files_and_bytes_after_each_version(cli: RunCli, table: Path) -> None:
    grown = [(n, n, n * 100) for n in range(5)]
    assert points(cli, table) == [*grown, (5, 1, 400), (6, 2, 500)]
    assert points(cli, table, "--version-range", "3..5") == [*grown[3:], (5, 1, 400)]
    assert points(cli, table, "--limit", "1") == [(6, 2, 500)]


def test_a_checkpoint_is_enough_to_begin_with(cli: RunCli, table: Path) -> None:
    write_checkpoint(table, 3, [add(f"f{n}.parquet") for n in range(1, 4)])
    for version in range(3):
        log_path(table, version).unlink()
    assert points(cli, table) == [(3, 3, 300), (4, 4, 400), (5, 1, 400), (6, 2, 500)]


def test_what_is_not_known_is_not_guessed(cli: RunCli, table: Path) -> None:
    write_checkpoint(table, 4, [add(f"f{n}.parquet") for n in range(1, 5)])
    log_path(table, 3).write_text("{")
    known = [(4, 4, 400), (5, 1, 400), (6, 2, 500)]
    assert points(cli, table) == [*((n, None, None) for n in range(4)), *known]
    lines = cli("describe-history", str(table), "--graph").out.splitlines()
    assert [line for line in lines if "|" + "?" * 12 + "#" * 9 in line]


def test_a_selection_by_operation_is_counted_all_the_same(cli: RunCli, table: Path) -> None:
    write_commit(table, 7, info("WRITE"), add("n.parquet"))
    grown = [(n, n, n * 100) for n in range(1, 5)]
    assert points(cli, table, "--operation", "WRITE") == [*grown, (7, 3, 600)]


def test_a_file_that_is_added_once_more_is_no_new_one(cli: RunCli, table: Path) -> None:
    """As writers do to give a file statistics or row ids."""
    write_commit(table, 7, info("COMPUTE STATS"), add("o.parquet", 400), add("m.parquet"))
    for args in ([], ["--limit", "2"]):
        assert points(cli, table, *args)[-2:] == [(6, 2, 500), (7, 2, 500)]


def test_a_remove_of_what_is_not_there_says_nothing(cli: RunCli, table: Path) -> None:
    write_commit(table, 7, info("DELETE"), remove("file:/elsewhere/o.parquet", 400))
    for args in ([], ["--limit", "2"]):
        assert points(cli, table, *args)[-2:] == [(6, 2, 500), (7, 2, 500)]


def test_metrics_that_say_something_else_do_not_count(cli: RunCli, table: Path) -> None:
    metrics = {"numFiles": "9", "numOutputBytes": "9", "numRemovedFiles": "0"}
    write_commit(table, 7, info("WRITE", operationMetrics=metrics), add("n.parquet"))
    assert points(cli, table)[-2:] == [(6, 2, 500), (7, 3, 600)]


DRAWN = """\
             4 |            ###
         files |         ######
               |         ######
               |      #########   ###
               |   ##################
             0 |   ##################

         500 B |                  ###
         bytes |            #########
               |         ############
               |      ###############
               |   ##################
             0 |   ##################

         WRITE |   o  o  o  o
  CREATE TABLE |o
         MERGE |                  o
      OPTIMIZE |               o
               +---------------------
                v0                 v6
                2023-11-14T22:13  2023-11-14T22:13
"""


def test_the_page_shows_bars_without_colour(cli: RunCli, table: Path) -> None:
    ran = cli("describe-history", str(table), "--graph")
    assert (ran.code, ran.err, ran.out) == (0, "", DRAWN)
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("width", [40, 80, 140])
def test_versions_share_columns_where_there_is_no_room(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    write_log(tmp_path, 300)
    lines = cli("describe-history", str(tmp_path), "--graph").out.splitlines()
    assert max(map(len, lines)) <= max(width, 50)
    marks = next(line for line in lines if "WRITE" in line).partition("|")[2]
    counted = sum(11 if mark == "+" else int(mark) for mark in marks if mark != "o")
    assert counted >= 299 - marks.count("o") or width == 40
    assert "versions, digit = number of commits" in lines[-1]


def test_a_broken_commit_that_was_not_selected(cli: RunCli, table: Path) -> None:
    write_checkpoint(table, 4, [add(f"f{n}.parquet") for n in range(1, 5)])
    log_path(table, 3).write_text("{")
    ran = cli("describe-history", str(table), "--graph", "-o", "json", "--operation", "MERGE")
    assert [row["num_files"] for row in json.loads(ran.out)["result"]] == [2]
    ran = cli("describe-history", str(table), "--graph", "-o", "json", "--operation", "WRITE")
    found = {row["version"]: row["num_files"] for row in json.loads(ran.out)["result"]}
    assert found == {1: None, 2: None, 4: 4}


def test_names_of_operations_cannot_act_on_the_terminal(cli: RunCli, tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    write_commit(tmp_path, 1, info("\x1b[2Jboo"), add("a"))
    assert "\\x1b[2Jboo |" in cli("describe-history", str(tmp_path), "--graph").out
