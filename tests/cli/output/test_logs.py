"""What goes to stderr: a log that programs can read, told apart by run; progress in four forms."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltactl.cli.output.output import LogFormat, Output
from deltactl.cli.output.progress import LineProgress, Pace, ProgressForm, progress
from deltactl.engine.base import Progress
from deltactl.log.writing.commit_info import RUN_TAG
from tests.cli.conftest import RunCli
from tests.cli.fleet.test_run import make_table
from tests.cli.output.test_output import Screen

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
STATE = Progress(tasks_done=12, tasks_total=60, bytes_done=3 << 29, bytes_total=6 << 30)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def commit_infos(table: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted(Path(table, "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        found += [action["commitInfo"] for action in actions if "commitInfo" in action]
    return found


@pytest.mark.parametrize("command", ["optimize", "vacuum"])
def test_one_run_id_is_on_each_line_and_in_the_commits(
    cli: RunCli, tmp_path: Path, command: str
) -> None:
    make_table(tmp_path / "t")
    if command == "vacuum":
        cli("optimize", str(tmp_path / "t"))
    before = len(commit_infos(tmp_path / "t"))
    args = ("--retain", "0h", "--force-retention", "--yes") if command == "vacuum" else ()
    ran = cli(command, str(tmp_path / "t"), "-vv", "--log-format", "json", *args)
    logged = lines(ran.err)
    [run_id] = {line["run_id"] for line in logged}
    assert UUID.fullmatch(run_id)
    assert {line["command"] for line in logged} == {command}
    assert {line["table"] for line in logged} == {str(tmp_path / "t")}
    assert {line["level"] for line in logged} <= {"info", "debug"}
    assert all(line["time"].endswith("Z") and line["message"] for line in logged)
    committed = commit_infos(tmp_path / "t")[before:]
    assert [info["tags"][RUN_TAG] for info in committed] == [run_id] * (2 if args else 1)


def test_each_v_says_more(cli: RunCli, tmp_path: Path) -> None:
    counts = []
    for number, more in enumerate(((), ("-v",), ("-vv",))):
        make_table(tmp_path / str(number))
        counts.append(len(cli("optimize", str(tmp_path / str(number)), *more).err.splitlines()))
    assert 0 == counts[0] < counts[1] < counts[2]


def test_the_kinds_of_lines(fake_cli: RunCli) -> None:
    def log(*args: str) -> list[dict[str, Any]]:
        return lines(fake_cli(*args, "--log-format", "json").err)

    [warning, note] = log("show-facts", "t", "--warn", "odd\x1b[31m", "-v")
    assert (warning["level"], warning["message"]) == ("warning", "odd\x1b[31m")
    found = [note[key] for key in ("level", "logger", "message")]
    assert found == ["info", "deltactl.fake", "looked closely"]
    [error] = log("go-wrong", "t", "--raises", "ConflictError", "--hint", "turn it")
    found = [error[key] for key in ("level", "code", "message", "hint")]
    assert found == ["error", "CONFLICT", "it broke", "turn it"]
    [error, traceback] = log("go-wrong", "t", "--raises", "TableError", "--debug")
    assert (traceback["level"], traceback["run_id"]) == ("debug", error["run_id"])
    assert traceback["message"].startswith("Traceback (most recent call last):\n")
    assert log("show-facts", "t", "-vq") == []


def test_lines_of_several_tables_name_the_table(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", "x/warn", "x/raise-ConflictError", "--log-format", "json")
    assert [(line["table"], line["message"]) for line in lines(ran.err)] == [
        ("x/warn", "odd"),
        ("x/raise-ConflictError", "raise-ConflictError broke"),
    ]
    assert len({line["run_id"] for line in lines(ran.err)}) == 2


@pytest.mark.parametrize("args", [["--log-format", "json"], ["--log-format=json"], []])
def test_wrong_usage_is_a_line_too(
    fake_cli: RunCli, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not args:
        monkeypatch.setenv("DELTACTL_LOG_FORMAT", "JSON")
    [line] = lines(fake_cli("show-facts", "t", "--nope", *args).err)
    assert (line["code"], bool(UUID.fullmatch(line["run_id"]))) == ("USAGE", True)


@pytest.mark.parametrize("variable", ["DELTACTL_LOG_FORMAT", "DELTACTL_PROGRESS"])
def test_a_variable_that_cannot_be_understood(
    fake_cli: RunCli, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "xml")
    said = f"error: {variable}: 'xml' is not possible\n"
    assert fake_cli("show-facts", "t").err.startswith(said)


def shown(form: ProgressForm, **options: Any) -> str:
    """What a terminal gets to see of a run of 40 seconds."""
    err = Screen()
    log_format = options.pop("log_format", LogFormat.TEXT)
    output = Output(environ={"COLUMNS": "100"}, stderr=err, log_format=log_format)
    with progress(output, "optimize", form=form, **options) as show:
        if isinstance(show, LineProgress):
            now = [0.0]
            show.pace, show._next_at = Pace(lambda: now[0]), 10.0
            show(replace(STATE, bytes_done=0))
            now[0] = 40.0
            show(STATE)
        show(STATE)
    return err.getvalue()


def test_forms_of_progress() -> None:
    plain = "optimize: 12 of 60 tasks, 1.5 GiB of 6 GiB, 38.4 MiB/s, 2min left\n"
    assert "\x1b[?25l" in shown(ProgressForm.AUTO)
    assert shown(ProgressForm.AUTO, may_draw=False) == plain
    assert shown(ProgressForm.PLAIN) == plain
    assert shown(ProgressForm.NONE) == ""


@pytest.mark.parametrize(
    ("form", "log_format"),
    [(ProgressForm.JSON, LogFormat.TEXT), (ProgressForm.AUTO, LogFormat.JSON)],
)
def test_progress_in_json(form: ProgressForm, log_format: LogFormat) -> None:
    [line] = lines(shown(form, log_format=log_format))
    assert line.pop("time")
    assert line.pop("message").startswith("optimize: 12 of 60 tasks")
    assert line == {
        "level": "info",
        "event": "progress",
        "tasks_done": 12,
        "tasks_total": 60,
        "bytes_done": 3 << 29,
        "bytes_total": 6 << 30,
        "elapsed_seconds": 40.0,
        "bytes_per_second": round((3 << 29) / 40),
        "seconds_left": 120,
    }
