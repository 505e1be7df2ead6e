"""The action: its step runs with the files of a runner, and its inputs are documented."""

import html
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.support.table_builder import Column, TableBuilder

ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text("utf-8"))
SCRIPT = REPOSITORY / ".github" / "action" / "run.py"
HOSTILE = "a|b`c<img src=x>\n::error::injected"
OLD_FORM = "##[error]injected"  # obeyed wherever it stands in a line


@dataclass(frozen=True)
class Step:
    """``out`` are the lines that the runner obeys, ``log`` is all that it shows."""

    status: int
    out: str
    log: str
    outputs: dict[str, str]
    summary: str


def obeyed(log: str) -> str:
    """The lines with a command for the runner, unless it was told to look for none."""
    lines, token = [], None
    for line in log.splitlines(keepends=True):
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
        elif line.startswith("::stop-commands::"):
            token = line.strip().removeprefix("::stop-commands::")
            assert len(token) >= 32
        elif line.lstrip().startswith("::") or "##[" in line:
            lines.append(line)
    assert token is None
    return "".join(lines)


def run_step(folder: Path, run: str, *, more: dict[str, str] | None = None, **inputs: str) -> Step:
    """Run the step as a runner does, in a folder with files for outputs and summary."""
    outputs, summary = folder / "outputs", folder / inputs.pop("summary_file", "summary")
    outputs.write_text("before=1\n")
    environ = {
        **os.environ,
        "DELTACTL_CONFIG": os.devnull,
        "PYTHONPATH": str(REPOSITORY),
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(outputs),
        "GITHUB_STEP_SUMMARY": str(summary),
        "DELTACTL_ACTION_RUN": run,
        **{f"DELTACTL_ACTION_{name.upper()}": value for name, value in inputs.items()},
        **(more or {}),
    }
    done = subprocess.run(
        [sys.executable, SCRIPT],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.partition("=") for line in outputs.read_text().splitlines()]
    said = summary.read_text() if summary.exists() else ""
    log = done.stdout + done.stderr
    return Step(done.returncode, obeyed(log), log, {key: it for key, _, it in lines}, said)


def make_table(folder: Path, files: int = 3) -> Path:
    builder = TableBuilder(folder, [Column("id")])
    builder.append(*([{"id": n}] for n in range(files)))
    return folder


def test_a_run_that_ends_well(tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    step = run_step(tmp_path, "optimize t")
    assert (step.status, step.out) == (0, "")
    assert step.outputs["before"] == "1"
    assert step.outputs["exit-status"] == "0"
    assert json.loads(Path(step.outputs["json"]).read_bytes())["result"]["files_removed"] == 3
    assert Path(step.outputs["report"]).read_text().startswith("<!DOCTYPE html>")
    assert "| <code>t</code> | 1 to 2 | 3 files removed, 1 file added |" in step.summary


def test_errors_of_several_tables(tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    step = run_step(tmp_path, "deltactl check t nowhere")
    assert step.status == 1
    assert step.out.startswith("::error title=deltactl check%3A NOT_A_TABLE::nowhere: ")
    assert ".." not in step.out and "is empty or missing. Give" in step.out
    assert "| <code>t</code> | 1 | no problems found |" in step.summary
    assert "**NOT_A_TABLE**" in step.summary
    assert "NOT_A_TABLE" in Path(step.outputs["report"]).read_text()


def test_findings_are_annotated(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    for path in table.glob("*.parquet"):
        path.unlink()
    step = run_step(tmp_path, "check t")
    assert step.status == 3
    (line,) = step.out.splitlines()
    assert line.startswith("::error title=deltactl check%3A FILE_MISSING::t: 3 found in ")
    assert "FILE_MISSING 3" in step.summary


def test_the_summary_says_that_there_was_nothing_to_do(tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    run_step(tmp_path, "optimize t")
    assert "| <code>t</code> | 2 | nothing to do |" in run_step(tmp_path, "optimize t").summary


@pytest.mark.parametrize(("allowed", "status"), [("0", 3), ("0 3", 0), ("0,3", 0)])
def test_an_allowed_status_does_not_fail_the_step(
    tmp_path: Path, allowed: str, status: int
) -> None:
    make_table(tmp_path / "t")
    step = run_step(tmp_path, "optimize t --check", allowed=allowed)
    assert step.status == status
    assert step.outputs["exit-status"] == "3"
    assert step.out == (
        f"::{'error' if status else 'warning'} title=deltactl optimize%3A WORK_NEEDED::"
        "t: would rewrite 3 files\n"
    )


def test_texts_of_a_table_do_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path / HOSTILE)
    (table / "_delta_log" / f"{2:020}.json").write_text(HOSTILE)
    step = run_step(tmp_path, f"describe-detail '{HOSTILE}'")
    assert step.status == 1
    assert [line for line in step.out.splitlines() if line.startswith("::")] == [
        step.out.rstrip("\n")
    ]
    assert "injected" in step.log  # what happened is told
    assert "<img" not in step.summary
    rows = [line for line in step.summary.splitlines() if line.startswith("|")]
    assert [row.count("|") for row in rows] == [4, 4, 4]


def test_names_of_tables_are_no_commands(tmp_path: Path) -> None:
    names = [f"t {OLD_FORM}", "t\n::set-output name=json::x", "t%0A::x", "t\r::x"]
    for name in names:
        table = make_table(tmp_path / name)
        (table / "_delta_log" / "_last_checkpoint").write_text("{")
    words = (f"'./{name}' './nowhere {name}'" for name in names)
    step = run_step(tmp_path, f"check {' '.join(words)}")
    assert step.status == 1
    lines = step.out.splitlines()
    assert len(lines) >= len(names)
    assert all(line.startswith(("::error title=", "::warning title=")) for line in lines)
    assert Path(step.outputs["json"]).name == "result.json"


def test_markdown_in_texts_of_a_table(tmp_path: Path) -> None:
    name = "./www.x.org @me #1 $x$ __b__ [l](u) s3:x/y </code><b> | `c` &lt; ~s~ !"
    step = run_step(tmp_path, f"describe-detail '{name}'")
    texts = re.findall("<code>(.*?)</code>", step.summary)
    assert [html.unescape(text).startswith(name) for text in texts] == [True, False]
    for text in texts:
        assert not set(re.sub(r"&#\d+;|&(?:lt|gt|amp);", "", text)) & set("`|*_[]\\!~@#:/.$<>&")


@pytest.mark.parametrize(
    ("command", "told"), [("explain CONFLICT", "Causes"), ("config t", "file")]
)
def test_a_command_that_prints_only_text_shows_it_in_the_log(
    tmp_path: Path, command: str, told: str
) -> None:
    make_table(tmp_path / "t")
    step = run_step(tmp_path, command)
    assert (step.status, step.out) == (0, "")
    assert told in step.log
    assert (step.outputs["json"], step.outputs["report"]) == ("", "")


def test_the_actions_of_maintain_are_counted(tmp_path: Path) -> None:
    make_table(tmp_path / "t", 12)
    run = "maintain t --only optimize"
    step = run_step(tmp_path, f"{run} --check")
    assert step.out == (
        "::error title=deltactl maintain%3A WORK_NEEDED::t: 1 action planned: 11 files fewer\n"
    )
    step = run_step(tmp_path, f"{run} --budget 1B")
    assert "| <code>t</code> | 1 | 0 actions done: 0 files fewer; 1 left |" in step.summary
    step = run_step(tmp_path, run)
    assert "| <code>t</code> | 1 to 2 | 1 action done: 11 files fewer |" in step.summary


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("optimize", "would rewrite 3 files"),
        ("vacuum", "nothing to do"),
        ("generate-manifest", "plan only"),
    ],
)
def test_dry_runs_are_no_results(tmp_path: Path, command: str, told: str) -> None:
    make_table(tmp_path / "t")
    step = run_step(tmp_path, f"{command} t --dry-run")
    assert (step.status, step.out) == (0, "")
    assert f"| {told} |\n" in step.summary


@pytest.mark.parametrize("allowed", ["null", "0 x"])
def test_an_allowed_status_is_a_number(tmp_path: Path, allowed: str) -> None:
    step = run_step(tmp_path, "check t", allowed=allowed)
    assert (step.status, step.summary) == (2, "")
    assert step.out.startswith("::error title=deltactl%3A USAGE::`allowed-statuses`: ")


def test_a_table_with_the_name_of_a_command(tmp_path: Path) -> None:
    make_table(tmp_path / "optimize")
    step = run_step(tmp_path, "describe-detail optimize")
    assert step.status == 0
    assert "describe-detail" in Path(step.outputs["report"]).read_text()


def test_a_table_after_the_end_of_options(tmp_path: Path) -> None:
    make_table(tmp_path / "-t")
    step = run_step(tmp_path, "optimize -- -t")
    assert step.status == 0
    assert "| <code>-t</code> | 1 to 2 |" in step.summary
    assert step.outputs["report"]


@pytest.mark.parametrize("run", ["optimize t \\\n  --dry-run\n", "optimize\r\nt \\\r\n --dry-run"])
def test_words_on_several_lines(tmp_path: Path, run: str) -> None:
    make_table(tmp_path / "t")
    assert "would rewrite 3 files" in run_step(tmp_path, run).summary


@pytest.mark.parametrize("run", ["optimize 't", "", " \n", "deltactl", "check 'a\\"])
def test_words_that_are_no_command(tmp_path: Path, run: str) -> None:
    step = run_step(tmp_path, run)
    assert (step.status, step.summary) == (2, "")
    assert step.out.startswith("::error title=deltactl%3A USAGE::`run` ")
    assert step.log == step.out  # no traceback
    assert step.outputs == {"before": "1", "exit-status": "2", "json": "", "report": ""}


def test_a_summary_that_cannot_be_written(tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    step = run_step(tmp_path, "check t", summary_file="none/summary")
    assert step.status == 0
    assert step.out.startswith("::warning title=deltactl::GITHUB_STEP_SUMMARY cannot be written: ")


def test_a_run_that_a_signal_ends(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif '-m' in sys.orig_argv: os.write(2, b'::x'); os.kill(os.getpid(), 9)\n"
    )
    path = f"{tmp_path}{os.pathsep}{REPOSITORY}"
    step = run_step(tmp_path, "check t", more={"PYTHONPATH": path})
    assert step.status == 137
    assert step.out == "::error title=deltactl%3A exit status 137::ended by a signal\n"
    assert step.outputs["exit-status"] == "137"


@pytest.mark.parametrize(
    "option", ["-o csv", "-ojson", "--output=json", "--report x", "--report=x"]
)
def test_what_the_action_sets_itself_is_refused(tmp_path: Path, option: str) -> None:
    step = run_step(tmp_path, f"optimize t {option}")
    assert (step.status, step.summary) == (2, "")
    assert step.out.startswith("::error title=deltactl%3A USAGE::")


def test_the_summary_may_be_left_out(tmp_path: Path) -> None:
    assert run_step(tmp_path, "explain LEASE_HELD", summary="false").summary == ""


def test_inputs_and_outputs_are_used_and_documented() -> None:
    text = (REPOSITORY / "action.yml").read_text("utf-8")
    page = (REPOSITORY / "docs" / "github-actions.md").read_text("utf-8")
    for name, given in ACTION["inputs"].items():
        assert f"inputs.{name}" in text
        shown = f"`{given['default']}`" if given.get("default") else ""
        assert f"| `{name}` | {shown} |".replace("|  |", "| |") in page
    for name in ACTION["outputs"]:
        assert f"| `{name}` |" in page
        assert f'"{name}"' in SCRIPT.read_text("utf-8")
    used = set(re.findall(r"DELTACTL_ACTION_\w+", SCRIPT.read_text("utf-8")))
    assert {word for word in used if word in text} == used
