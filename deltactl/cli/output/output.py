"""Where results go: stdout for the result alone, stderr for everything else."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TextIO, Union

from deltactl.cli.output.envelope import (
    Envelope,
    ErrorInfo,
    dump_json,
    format_rfc3339,
    to_jsonable,
)
from deltactl.cli.output.github import annotate
from deltactl.cli.output.page import Cell, Page, RenderTable, Tone
from deltactl.cli.output.text import safe_text
from deltactl.errors import DeltactlError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Union["pa.Table", Iterable[Mapping[str, Any]]]
"""What ndjson and csv print."""

# Enough rows to keep Arrow busy, few enough to keep memory flat.
_ROWS_AT_ONCE: Final = 4096
# What a cell begins with that Excel, LibreOffice and others compute.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")

_STYLES: Final = {
    Tone.PLAIN: "",
    Tone.STRONG: "bold",
    Tone.GOOD: "green",
    Tone.CAUTION: "yellow",
    Tone.BAD: "bold red",
    Tone.FAINT: "dim",
}


class OutputFormat(StrEnum):
    """Forms that a result can take."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    GITHUB = "github"
    JUNIT = "junit"


CI_FORMATS: Final = (OutputFormat.GITHUB, OutputFormat.JUNIT)
"""Forms that tell how tables ended, and nothing else."""


class LogFormat(StrEnum):
    """Forms of what goes to stderr."""

    TEXT = "text"
    JSON = "json"


_LEVELS: Final = {"error": "error", "warning": "warning", "traceback": "debug"}


class ReaderGone(BaseException):
    """Whoever read stdout has gone (``| head``): no error, and nobody on the way up may keep it."""


class Output:
    """Presents one run: a result at most once on stdout; warnings, notes and errors on stderr.

    ``warn`` also collects: what was warned about before ``emit`` is in the envelope.
    """

    def __init__(
        self,
        form: OutputFormat = OutputFormat.TABLE,
        *,
        environ: Mapping[str, str],
        quiet: bool = False,
        log_format: LogFormat = LogFormat.TEXT,
        log_fields: Mapping[str, Any] | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        """Take where to print; ``log_fields`` are in each line of a log in JSON."""
        self.form = form
        self.log_format, self.log_fields = log_format, dict(log_fields or {})
        self.quiet = quiet
        self.environ = environ
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.warnings: list[str] = []
        self.envelope: Envelope | None = None  # the last that was emitted
        self.render_table: RenderTable = lambda page: None  # of that envelope
        self._headline: str | None = None
        # A signal's handler may speak while the same thread is speaking.
        self.lock = threading.RLock()
        # Takes away what is drawn on stderr while the context lasts, such as a bar of progress.
        self.clearing: Callable[[], AbstractContextManager[None]] = nullcontext

    def emit(
        self,
        envelope: Envelope,
        *,
        render_table: RenderTable,
        rows: Rows | None = None,
        headline: str | None = None,
    ) -> None:
        """Print the result in the form that was asked for.

        ``render_table`` fills the page for people. ``rows`` is what ndjson and csv print; without
        rows ndjson prints the envelope on one line, and csv one row of ``envelope.result``.
        ``headline`` sums up a page whose first line does not.
        """
        self.keep(envelope, render_table, headline)
        with stdout_errors():
            self._emit(envelope, render_table, rows)
            self.stdout.flush()

    def keep(
        self, envelope: Envelope, render_table: RenderTable, headline: str | None = None
    ) -> None:
        """Take a result for this output's own, with what was warned about."""
        envelope.warnings = [*envelope.warnings, *self.warnings]
        self.envelope, self.render_table, self._headline = envelope, render_table, headline

    @property
    def summary(self) -> Sequence[Cell]:
        """The result in a line: its headline, else the first line of its page for people."""
        if self._headline is not None:
            return (self._headline,)
        page = Page()
        self.render_table(page)
        return next((line for line in page.lines if line), ())

    def _emit(
        self,
        envelope: Envelope,
        render_table: RenderTable,
        rows: Rows | None,
    ) -> None:
        if self.form is OutputFormat.TABLE:
            page = Page(terminal_width(self.stdout, self.environ))
            render_table(page)
            self._print_page(page, self.stdout)
        elif self.form is OutputFormat.JSON:
            is_long = isinstance(envelope.result, list) and len(envelope.result) > _ROWS_AT_ONCE
            self._write(dump_json(envelope, indent=None if is_long else 2))
        elif self.form is OutputFormat.NDJSON:
            for value in [envelope.to_json()] if rows is None else iterate_rows(rows):
                self._write(dump_json(value))
        else:
            self._print_csv([to_jsonable(envelope.result)] if rows is None else rows)

    def emit_error(self, envelope: Envelope, error: DeltactlError) -> None:
        """Say what failed on stderr; with JSON also as the envelope, unless one is out already."""
        if self.form is OutputFormat.JSON and self.envelope is None:
            envelope.error = ErrorInfo.of(error)
            self.emit(envelope, render_table=lambda page: None)
        if self.form is OutputFormat.GITHUB:
            self.print_text(annotate("error", f"deltactl: {error.code}", error.message))
        self.say_error(error)

    def say_error(self, error: DeltactlError) -> None:
        """Say what failed on stderr."""
        if self.log_format is LogFormat.JSON:
            said = {"code": error.code, "message": error.message, "hint": error.hint}
            self.log({"level": "error", **said})
            return
        self.say("error", error.message, Tone.BAD)
        if error.hint:
            self.say("hint", error.hint, Tone.STRONG)
        if error.code != UsageError.code and self.stderr.isatty():
            self.note(f"`deltactl explain {error.code}` tells more")

    def warn(self, message: str) -> None:
        """Say something that the user should look at, and keep it for the envelope."""
        if message in self.warnings:
            return
        self.warnings.append(message)
        self.say("warning", message, Tone.CAUTION)

    def note(self, message: str) -> None:
        """Say something in passing on stderr; nothing when quiet."""
        if not self.quiet:
            self.say("note", message, Tone.FAINT)

    def debug(self, text: str) -> None:
        """Print text of several lines, such as a traceback."""
        if self.log_format is LogFormat.JSON:
            self.say("traceback", text, Tone.FAINT)
            return
        page = Page()
        for line in text.splitlines():
            page.line(line)
        self._print_aside(page)

    def print_lines(self, render: RenderTable) -> None:
        """Print a part of a result for people."""
        page = Page(terminal_width(self.stdout, self.environ))
        render(page)
        with self.lock, stdout_errors():
            self._print_page(page, self.stdout)
            self.stdout.flush()

    def print_aside(self, render: RenderTable) -> None:
        """Print on stderr what helps a person decide; nothing when quiet, or in a log in JSON."""
        if self.quiet or self.log_format is LogFormat.JSON:
            return
        page = Page(terminal_width(self.stderr, self.environ))
        render(page)
        self._print_aside(page)

    def print_text(self, text: str) -> None:
        """Print a part of a result for programs, and end the line."""
        with self.lock, stdout_errors():
            self._write(text)
            self.stdout.flush()

    def say(self, label: str, message: str, tone: Tone) -> None:
        """Print a line on stderr, from any thread."""
        if self.log_format is LogFormat.JSON:
            self.log({"level": _LEVELS.get(label, "info"), "message": message})
            return
        page = Page()
        page.line(label, ": ", message)
        label_piece, *rest = page.lines[0]
        page.lines[0] = (replace(label_piece, tone=tone), *rest)
        self._print_aside(page)

    def log(self, fields: Mapping[str, Any]) -> None:
        """Print a line of JSON on stderr, from any thread: time, the run's fields, and these."""
        now = {"time": format_rfc3339(datetime.now(UTC))}
        # A log that cannot be written must not end a run that works.
        with self.lock, suppress(OSError):
            self.stderr.write(dump_json({**now, **self.log_fields, **fields}) + "\n")
            self.stderr.flush()

    def note_record(self, record: logging.LogRecord) -> None:
        """Print what the library logs in passing; nothing when quiet."""
        if self.quiet:
            return
        if self.log_format is LogFormat.JSON:
            level = record.levelname.lower()
            self.log({"level": level, "logger": record.name, "message": record.getMessage()})
        else:
            self.note(f"{record.name}: {record.getMessage()}")

    def _print_aside(self, page: Page) -> None:
        # A log that cannot be written must not end a run that works.
        with self.lock, suppress(OSError):
            self._print_page(page, self.stderr)
            self.stderr.flush()

    def _write(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _print_page(self, page: Page, stream: TextIO) -> None:
        if has_color(stream, self.environ):
            _print_colored(page, stream)
        else:
            stream.writelines(f"{line}\n" for line in page.plain_lines())

    def _print_csv(self, rows: pa.Table | Iterable[Mapping[str, Any]]) -> None:
        import csv

        if not hasattr(rows, "schema"):
            rows = list(rows)
        # In a file the data is kept, but for formulas; on a screen it must not act.
        escape = safe_text if self.stdout.isatty() else str
        names = column_names(rows)
        writer = csv.writer(self.stdout, lineterminator="\n")
        writer.writerow([escape(name) for name in names])
        for row in iterate_rows(rows):
            writer.writerow([escape(_csv_cell(row.get(name))) for name in names])


@contextmanager
def stdout_errors() -> Iterator[None]:
    """Tell what it means when stdout cannot be written to.

    Raises:
        ReaderGone: nobody reads it any more.
        DeltactlError: the disk is full, or the like.
    """
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise DeltactlError(f"cannot write the result: {error.strerror}") from error


def iterate_rows(rows: pa.Table | Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Give the rows of an Arrow table or of a list, one by one."""
    if hasattr(rows, "to_batches"):
        for batch in rows.to_batches(max_chunksize=_ROWS_AT_ONCE):
            yield from batch.to_pylist()
    else:
        yield from rows


def column_names(rows: pa.Table | list[Mapping[str, Any]]) -> list[str]:
    """Name the columns: the table's own, or every key in the order of first sight."""
    if hasattr(rows, "schema"):
        return list(rows.schema.names)
    return list(dict.fromkeys(key for row in rows for key in row))


def _csv_cell(value: Any) -> str:
    plain = to_jsonable(value)
    if plain is None:
        return ""
    return _as_text(plain) if isinstance(plain, str) else dump_json(plain)


def _as_text(text: str) -> str:
    """Text that spreadsheets would take for a formula gets the apostrophe that makes it none.

    Whoever writes to a table chooses such texts, and a formula can send away what stands beside it.
    """
    if not text.startswith(_FORMULAS) or len(text) == 1:
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def terminal_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Columns to fill: ``COLUMNS``, else the terminal's own, else 80."""
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # a pipe, or no file at all
        return 80


def has_color(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Tell whether to colour: ``NO_COLOR``, then ``FORCE_COLOR``, then whether it is a terminal."""
    if environ.get("NO_COLOR"):
        return False
    forced = environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return environ.get("TERM") != "dumb" and stream.isatty()


def _print_colored(page: Page, stream: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    # Sixteen colours only: they follow the theme of the user's terminal.
    console = Console(
        file=stream,
        force_terminal=True,
        no_color=False,  # decided already; rich would look at the environment again
        color_system="standard",
        highlight=False,
    )
    for line in page.lines:
        text = Text.assemble(*((piece.text, _STYLES[piece.tone]) for piece in line))
        text.rstrip()
        console.print(text, soft_wrap=True)
