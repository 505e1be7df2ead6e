import io
import itertools
import re
import signal
import threading
from dataclasses import replace

import pytest

from deltactl.cli.output.output import Output
from deltactl.cli.output.progress import LineProgress, Pace, format_progress, progress
from deltactl.cli.signals import cancel_on_signals
from deltactl.engine.base import Progress
from deltactl.errors import InterruptedRunError
from tests.cli.output.test_output import ClosedPipe, Screen

STATE = Progress(tasks_done=12, tasks_total=60, bytes_done=3 << 29, bytes_total=6 << 30)
LINE = "optimize: 12 of 60 tasks, 1.5 GiB of 6 GiB"


def test_progress_is_one_line() -> None:
    assert format_progress("optimize", STATE, Pace()) == LINE
    assert format_progress("scan", Progress(1, 2, 0, 0), Pace()) == "scan: 1 of 2 tasks"


def paced(seconds: float, first: Progress, state: Progress) -> str:
    """The line of ``state``, so many seconds after the first report, which came after planning."""
    times = iter([0.0, 600.0, 600.0 + seconds])
    pace = Pace(lambda: next(times))
    format_progress("scan", first, pace)
    return format_progress("scan", state, pace)


def test_rate_and_time_left() -> None:
    start, line = replace(STATE, bytes_done=0), LINE.replace("optimize", "scan")
    assert paced(0.9, start, STATE) == line
    assert paced(300, start, STATE) == f"{line}, 5.1 MiB/s, 15min left"
    assert paced(300, STATE, STATE) == line
    none = Progress(0, 3, 0, 0)
    assert paced(5, none, Progress(1, 3, 0, 0)) == "scan: 1 of 3 tasks, 10s left"
    assert paced(5, none, none) == "scan: 0 of 3 tasks"
    assert paced(5, none, Progress(3, 3, 0, 0)) == "scan: 3 of 3 tasks"


def test_a_line_per_ten_seconds() -> None:
    now = 0.0
    stream = io.StringIO()
    show = LineProgress("optimize", stream, Pace(lambda: now))
    for now in (1.0, 9.9, 10.0, 10.1, 19.9, 25.0):  # noqa: B007 read by the lambda
        show(STATE)
    assert [line[: len(LINE)] for line in stream.getvalue().splitlines()] == [LINE] * 2


def test_lines_that_cannot_be_written_break_nothing() -> None:
    times = itertools.count(0.0, 20.0)
    LineProgress("optimize", ClosedPipe(), Pace(lambda: next(times)))(STATE)


def test_nothing_when_quiet() -> None:
    err = Screen()
    with progress(Output(environ={}, quiet=True, stderr=err), "optimize") as show:
        show(STATE)
    assert err.getvalue() == ""


def test_no_bar_in_a_log_or_on_a_dumb_terminal() -> None:
    for err, environ in ((io.StringIO(), {}), (Screen(), {"TERM": "dumb"})):
        with progress(Output(environ=environ, stderr=err), "optimize") as show:
            show(STATE)
        assert err.getvalue() == ""


@pytest.mark.parametrize("extra", [0, 24, 33, 60])
def test_a_long_text_leaves_room_for_the_time(monkeypatch: pytest.MonkeyPatch, extra: int) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    err = Screen()
    with progress(Output(environ={}, stderr=err), "optimize" + "x" * extra) as show:
        show(STATE)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err.getvalue())
    lines = [line for line in re.split(r"[\r\n]+", plain) if "12 of 60" in line or "xxx:" in line]
    assert lines
    assert all(line.startswith("0:00:00 optimize") and len(line) <= 80 for line in lines)


def test_a_bar_on_a_terminal_from_any_thread() -> None:
    err = Screen()
    with progress(Output(environ={"COLUMNS": "100"}, stderr=err), "opt[red]imize") as show:
        thread = threading.Thread(target=show, args=(STATE,))
        thread.start()
        thread.join()
    assert "opt[red]imize: 12 of 60 tasks" in err.getvalue()
    assert err.getvalue().count("\x1b[?25l") == err.getvalue().count("\x1b[?25h") == 1


def test_a_signal_cancels_and_is_remembered() -> None:
    told: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    with cancel_on_signals(told.append) as cancellation:
        cancellation.raise_if_cancelled()
        signal.raise_signal(signal.SIGTERM)
        assert cancellation.token.is_set()
        with pytest.raises(InterruptedRunError, match="stopped") as caught:
            cancellation.raise_if_cancelled("stopped")
    assert caught.value.exit_code == 143
    assert len(told) == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_outside_the_main_thread_nothing_is_installed() -> None:
    seen: list[bool] = []

    def body() -> None:
        with cancel_on_signals() as cancellation:
            seen.append(cancellation.token.is_set())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [False]
