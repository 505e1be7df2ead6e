"""Show the progress of a run on stderr: a bar on a terminal, a line at intervals in logs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, TextIO

from deltactl.cli.output.output import LogFormat, Output
from deltactl.cli.output.terminal import has_color
from deltactl.engine.base import OnProgress, Progress
from deltactl.units import format_duration, format_size

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

SECONDS_BETWEEN_LINES: Final = 10.0
_TIME_WIDTH: Final = 7
_BAR_WIDTH: Final = 40


class ProgressForm(StrEnum):
    """Ways to show progress."""

    AUTO = "auto"
    NONE = "none"
    PLAIN = "plain"
    JSON = "json"


@contextmanager
def progress(
    output: Output, label: str, *, form: ProgressForm = ProgressForm.AUTO, may_draw: bool = True
) -> Iterator[OnProgress]:
    """Show the progress of ``label`` while the context lasts.

    The callback may be called from any thread. Nothing is shown when quiet. A bar is drawn if
    stderr is a terminal that can move its cursor and no other bar is drawn there; otherwise one
    plain line is printed every ten seconds.
    """
    if output.quiet or form is ProgressForm.NONE:
        yield _show_nothing
    elif form is ProgressForm.JSON or output.log_format is LogFormat.JSON:
        yield LineProgress(label, output.stderr, emit=partial(_log_progress, output))
    elif form is ProgressForm.AUTO and may_draw and _can_draw(output):
        with _bar(output, label) as callback:
            yield callback
    else:
        yield LineProgress(label, output.stderr)


def _can_draw(output: Output) -> bool:
    return output.stderr.isatty() and output.environ.get("TERM") != "dumb"


def _log_progress(output: Output, label: str, state: Progress, pace: Pace) -> None:
    """Print a line of JSON, whatever the format of the rest of the log."""
    rate, left = pace.measure(state)
    output.log(
        {
            "level": "info",
            "event": "progress",
            "message": format_progress(label, state, pace),
            **asdict(state),
            "elapsed_seconds": round(pace.now() - pace.started_at, 1),
            "bytes_per_second": rate if state.bytes_total else None,
            "seconds_left": left,
        }
    )


@dataclass(slots=True)
class Pace:
    """The rate of a run since its first report: what was planned before is no part of the work."""

    now: Callable[[], float] = time.monotonic
    started_at: float = field(init=False)
    _first: tuple[float, int] | None = None

    def __post_init__(self) -> None:
        self.started_at = self.now()

    def measure(self, state: Progress) -> tuple[int | None, int | None]:
        """Return bytes (or tasks) per second, and the seconds that are left.

        Both are ``None`` in the first second, and until something was done after the first report.
        """
        done, total = state.tasks_done, state.tasks_total
        if state.bytes_total:
            done, total = state.bytes_done, state.bytes_total
        now = self.now()
        self._first = self._first or (now, done)
        seconds, more = now - self._first[0], done - self._first[1]
        if seconds < 1 or more <= 0:
            return None, None
        return round(more / seconds), round(seconds * (total - done) / more)


def format_progress(label: str, state: Progress, pace: Pace) -> str:
    """Return one line: ``optimize: 12 of 60 tasks, 1.5 GiB of 6 GiB, 5 MiB/s, 15min left``."""
    line = f"{label}: {state.tasks_done} of {state.tasks_total} tasks"
    if state.bytes_total:
        line += f", {format_size(state.bytes_done)} of {format_size(state.bytes_total)}"
    rate, left = pace.measure(state)
    if rate is not None and state.bytes_total:
        line += f", {format_size(rate)}/s"
    return f"{line}, {format_duration(left * 1000)} left" if left else line


@dataclass(slots=True)
class LineProgress:
    """Print a line every ``SECONDS_BETWEEN_LINES``, the first one after that time.

    Lines are plain text on ``stream``, unless ``emit(label, state, pace)`` prints it.
    """

    label: str
    stream: TextIO
    pace: Pace = field(default_factory=Pace)
    emit: Callable[[str, Progress, Pace], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._next_at = self.pace.started_at + SECONDS_BETWEEN_LINES

    def __call__(self, state: Progress) -> None:
        """Print the state if the next line is due."""
        with self._lock:
            now = self.pace.now()
            if now < self._next_at:
                self.pace.measure(state)
                return
            self._next_at = now + SECONDS_BETWEEN_LINES
            if self.emit is not None:
                self.emit(self.label, state, self.pace)
                return
            line = format_progress(self.label, state, self.pace)
            with suppress(OSError):  # a log that cannot be written must not end the run
                self.stream.write(line + "\n")
                self.stream.flush()


def _show_nothing(_state: Progress) -> None:
    """Discard the progress."""


@contextmanager
def _bar(output: Output, label: str) -> Iterator[OnProgress]:
    pace = Pace()
    with _open_bar(output) as bar:
        task = bar.add_task("", total=None, text=label)

        def update(state: Progress) -> None:
            by_bytes = state.bytes_total > 0
            bar.update(
                task,
                total=state.bytes_total if by_bytes else state.tasks_total,
                completed=state.bytes_done if by_bytes else state.tasks_done,
                text=format_progress(label, state, pace),
            )

        @contextmanager
        def clearing() -> Iterator[None]:
            bar.stop()
            yield
            bar.start()  # not after an error, which ends the bar as well

        output.clearing = clearing
        try:
            yield update
        finally:
            output.clearing = nullcontext


def _open_bar(output: Output) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column

    console = Console(
        file=output.stderr,
        force_terminal=True,
        no_color=not has_color(output.stderr, output.environ),
        color_system="standard",
    )
    # The text is a field, not the description: rich would interpret markup in the latter. On a
    # narrow terminal the last columns are cut first: the bar, then the end of the text.
    columns = (
        TimeElapsedColumn(table_column=Column(no_wrap=True, min_width=_TIME_WIDTH)),
        TextColumn("{task.fields[text]}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=None, table_column=Column(max_width=_BAR_WIDTH)),
    )
    return RichProgress(*columns, console=console, transient=True)
