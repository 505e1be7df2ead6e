"""``--timeout``: stopped as by a signal, what is finished kept; ended hard when that takes long."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltactl.cli.signals import Cancellation, limit_time
from deltactl.errors import InterruptedRunError, TimeLimitError
from deltactl.operations.optimize.tasks import rewrite_files
from deltactl.table import Table
from tests.cli.conftest import RunCli
from tests.cli.test_app import FAKE_MAIN
from tests.support.table_builder import Column, TableBuilder, multiset


def run_fake(*args: str, first: str = "") -> subprocess.CompletedProcess[str]:
    code = f"from deltactl.cli import signals\n{first}\n{FAKE_MAIN}"
    return subprocess.run(
        [sys.executable, "-c", code, "go-round", *args],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(("table", "code"), [("x/wait", 5), ("x/wait-idle", 1)])
def test_a_run_stops_when_the_time_is_up(table: str, code: int) -> None:
    ran = run_fake(table, "--timeout", "1s")
    assert (ran.returncode, ran.stdout) == (code, "ready\n")
    assert ran.stderr == (
        "note: the time is up; stopping within 5min\n"
        "error: stopped by --timeout 1s; half is done\n"
        "hint: Rerun.\n"
        "note: See `deltactl explain TIMEOUT`.\n"
    )


def test_a_run_that_does_not_stop_is_ended() -> None:
    ran = run_fake("x/wait-deaf", "--timeout", "1s", "-q", first="signals.GRACE_MS = 100")
    assert (ran.returncode, ran.stdout, ran.stderr) == (143, "ready\n", "")


def test_a_run_in_time_is_left_alone(fake_cli: RunCli) -> None:
    assert fake_cli("go-round", "x/fine", "--timeout", "1h").code == 0


@pytest.mark.parametrize("text", ["5", "soon", "-1h"])
def test_a_time_needs_a_unit(fake_cli: RunCli, text: str) -> None:
    ran = fake_cli("go-round", "x/fine", f"--timeout={text}")
    assert (ran.code, ran.out) == (2, "")


def test_the_first_reason_to_stop_counts_and_a_signal_most() -> None:
    cancellation = Cancellation()
    told: list[str] = []
    with limit_time(cancellation, 0, told.append):
        assert cancellation.token.wait(10)
        with pytest.raises(TimeLimitError) as caught:
            cancellation.raise_if_cancelled("interrupted; x", is_part_done=True)
        assert (caught.value.exit_code, caught.value.retryable) == (5, True)
        cancellation.signal_number = 15
        with pytest.raises(InterruptedRunError) as stopped:
            cancellation.raise_if_cancelled("interrupted; x")
    assert stopped.value.exit_code == 143
    assert told == ["the time is up; stopping within 5min"]


def test_what_is_finished_is_committed_and_the_next_run_does_the_rest(
    cli: RunCli, tmp_path: Path, end_time: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is up while the first of three bins is at work."""
    builder = TableBuilder(tmp_path, [Column("id"), Column("p", "string")], partition_by=["p"])
    for number, part in enumerate("aabbcc"):
        builder.append([{"id": number, "p": part}])

    def rewrite(*args: Any) -> Any:
        end_time()
        return rewrite_files(*args)

    monkeypatch.setattr("deltactl.operations.optimize.layout.tasks.rewrite_files", rewrite)
    args = ("optimize", str(tmp_path), "--timeout", "1h", "--max-concurrent", "1")
    ran = cli(*args)
    assert ran.code == 5
    assert ran.out.startswith("2 files became 1 in version 7\n")
    assert ran.err.startswith(
        "error: stopped by --timeout 1h; 2 files became 1 in version 7; 2 bins left (4 files, "
    )
    assert "hint: Rerun to finish the rest.\n" in ran.err
    envelope = cli(*args, "-o", "json").document
    assert envelope["error"]["code"] == "TIMEOUT"
    assert (envelope["version_after"], envelope["result"]["interrupted"]) == (8, True)
    monkeypatch.undo()
    assert cli(*args).out.startswith("2 files became 1 in version 9\n")
    assert multiset(Table(str(tmp_path)).scan().read_all().to_pylist()) == multiset(builder.rows())
