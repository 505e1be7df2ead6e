"""Print results on stdout, and everything else on stderr."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TextIO

from deltactl.cli.output.envelope import Envelope, ErrorInfo, dump_json, format_rfc3339, to_jsonable
from deltactl.cli.output.rows import ROWS_AT_ONCE, Rows, iterate_rows, write_csv
from deltactl.cli.output.sections import Cell, Line, Section, Sections, Tone, describe_to_do
from deltactl.cli.output.terminal import has_color, has_width, print_colored, terminal_width
from deltactl.cli.output.text import safe_text
from deltactl.errors import DeltactlError, InterruptedRunError, UsageError, mask_address, name_table

if TYPE_CHECKING:
    from deltactl.cli.output.page import Page


class OutputFormat(StrEnum):
    """Formats of a result."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    GITHUB = "github"
    JUNIT = "junit"


CI_FORMATS: Final = (OutputFormat.GITHUB, OutputFormat.JUNIT)
"""Formats that contain only the outcome of each table."""
TEXT_FORMATS: Final = (OutputFormat.TABLE, OutputFormat.JSON)
"""Formats with the text that a command prints, such as SQL."""


class LogFormat(StrEnum):
    """Formats of the log on stderr."""

    TEXT = "text"
    JSON = "json"


_LEVELS: Final = {"error": "error", "warning": "warning", "traceback": "debug"}


class ReaderGone(BaseException):
    """The reader of stdout has ended (``| head``). A BaseException, so that no handler stops it."""


class Output:
    """The output of one run: at most one result on stdout; warnings, notes and errors on stderr.

    Warnings given before ``emit`` are also in the envelope.
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
        """Set the streams and the format; ``log_fields`` are in each line of a JSON log."""
        self.form = form
        self.log_format, self.log_fields = log_format, dict(log_fields or {})
        self.quiet = quiet
        self.shows_success = True
        self.environ = environ
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr
        self.warnings: list[str] = []
        self.envelope: Envelope | None = None  # the last one emitted
        self.sections: Sections = tuple  # of that envelope
        self._headline: str | None = None
        self.keeps_document = False  # so that the one document says how the run ended
        self._document: Envelope | dict[str, Any] | None = None
        self.has_document = False
        # A signal handler may print while the same thread is printing.
        self.lock = threading.RLock()
        # Hides what is drawn on stderr, such as a progress bar, while the context lasts.
        self.clearing: Callable[[], AbstractContextManager[None]] = nullcontext

    def emit(
        self,
        envelope: Envelope,
        *,
        sections: Sections = tuple,
        rows: Rows | None = None,
        headline: str | None = None,
        to_do: str | None = None,
    ) -> None:
        """Print the result in the requested format.

        ``sections`` are for people. ``rows`` is what ndjson and csv print; without rows, ndjson
        prints the envelope on one line, and csv one row of ``envelope.result``. ``headline``
        summarises sections of which the first title does not. ``to_do`` is the command that does
        what a dry run only shows.
        """
        self.keep(envelope, sections, headline)
        if not self.has_page(envelope):
            return
        with stdout_errors():
            if self.form is OutputFormat.TABLE:
                self._show(chain(sections(), () if to_do is None else [describe_to_do(to_do)]))
            elif self.form is OutputFormat.JSON:
                self.print_document(envelope)
            else:
                self._emit(envelope, rows)
            self.stdout.flush()

    def has_page(self, envelope: Envelope) -> bool:
        """Return whether a result is printed: when quiet, people see only failures and plans."""
        shows_all = self.form is not OutputFormat.TABLE or self.shows_success
        return shows_all or envelope.status not in ("done", "unchanged", "skipped")

    def keep(self, envelope: Envelope, sections: Sections, headline: str | None = None) -> None:
        """Store a result, with the warnings so far, without printing it."""
        envelope.warnings = [*envelope.warnings, *self.warnings]
        self.envelope, self.sections, self._headline = envelope, sections, headline

    @property
    def title(self) -> Line:
        """The result in one line: its headline, or else the title of its first section."""
        if self._headline is not None:
            return self._headline
        return next((section.title for section in self.sections()), ())

    def _emit(self, envelope: Envelope, rows: Rows | None) -> None:
        if self.form is OutputFormat.NDJSON:
            for value in [envelope.to_json()] if rows is None else iterate_rows(rows):
                self._write(dump_json(value))
        else:
            # Files keep the data, apart from formulas; for terminals it is escaped.
            escape = safe_text if self.stdout.isatty() else str
            only = [to_jsonable(envelope.result)]
            write_csv(self.stdout, only if rows is None else rows, escape)

    def print_document(self, document: Envelope | dict[str, Any]) -> None:
        """Print the JSON document; while ``keeps_document``, only store it for ``release``."""
        self._document, self.has_document = document, True
        if not self.keeps_document:
            self.release(None)

    def release(self, error: DeltactlError | None) -> None:
        """Print the document that was stored, with the error with which the run ends."""
        self.keeps_document = False
        document, self._document = self._document, None
        if document is None:
            return
        if isinstance(document, Envelope):
            rows = document.result
            if error is not None:
                document.fail(error)
        else:
            rows = document["runs"]
            if error is not None:
                document |= {"exit_code": error.exit_code, "error": ErrorInfo.of(error)}
        is_long = isinstance(rows, list) and len(rows) > ROWS_AT_ONCE
        self.print_text(dump_json(document, indent=None if is_long else 2))

    def emit_error(self, envelope: Envelope, error: DeltactlError) -> None:
        """Print an error on stderr; also as a JSON or JUnit document, unless one was printed."""
        envelope.fail(error)
        with suppress(DeltactlError):  # stdout cannot be written, which may be the error itself
            if self.form is OutputFormat.JSON and not self.has_document:
                self.emit(envelope)
            if self.form is OutputFormat.JUNIT and not self.has_document:
                from deltactl.cli.output.junit import render_failed_run

                self.print_text(render_failed_run(envelope))
            if self.form is OutputFormat.GITHUB:
                from deltactl.cli.output.github import annotate

                self.print_text(annotate("error", f"deltactl: {error.code}", error.message))
        self.say_error(error)

    def say_error(self, error: DeltactlError) -> None:
        """Print an error on stderr."""
        if self.log_format is LogFormat.JSON:
            said = {"code": error.code, "message": error.message, "hint": error.hint}
            self.log({"level": "error", **said})
            return
        self.say("error", error.message, Tone.BAD)
        if error.hint:
            self.say("hint", error.hint, Tone.STRONG)
        if error.code not in (UsageError.code, InterruptedRunError.code):
            self.say("note", f"See `deltactl explain {error.code}`.", Tone.FAINT)

    def warn(self, message: str) -> None:
        """Print a warning once, and add it to the envelope."""
        message = mask_address(name_table(message, self.log_fields.get("table")))
        if message in self.warnings:
            return
        self.warnings.append(message)
        if self.envelope is not None:  # emitted, and perhaps not printed yet
            self.envelope.warnings.append(message)
        self.say("warning", message, Tone.CAUTION)

    def note(self, message: str) -> None:
        """Print a note on stderr; nothing when quiet."""
        if not self.quiet:
            self.say("note", message, Tone.FAINT)

    def debug(self, text: str) -> None:
        """Print text of several lines on stderr, such as a traceback."""
        if self.log_format is LogFormat.JSON:
            self.say("traceback", text, Tone.FAINT)
            return
        page = self._new_page(self.stderr, is_whole=True)
        for line in mask_address(text).splitlines():
            page.line(line)
        self._print_aside(page)

    def _show(self, sections: Iterable[Section], *, is_more: bool = False) -> None:
        page = self._new_page(self.stdout, is_whole=not has_width(self.stdout, self.environ))
        page.show(sections)
        page.lines[:0] = [()] if is_more and page.lines else []
        self._print_page(page, self.stdout)

    def print_line(self, *line: Cell) -> None:
        """Print a line of a result for people, however long it is."""
        page = self._new_page(self.stdout, is_whole=True)
        page.line(line)
        with self.lock, stdout_errors():
            self._print_page(page, self.stdout)
            self.stdout.flush()

    def print_sections(self, sections: Iterable[Section], *, is_more: bool = False) -> None:
        """Print a part of a result for people; if it is not the first, after an empty line."""
        with self.lock, stdout_errors():
            self._show(sections, is_more=is_more)
            self.stdout.flush()

    def print_aside(self, sections: Iterable[Section]) -> None:
        """Print on stderr what a person needs to decide; nothing when quiet or in a JSON log."""
        if self.quiet or self.log_format is LogFormat.JSON:
            return
        page = self._new_page(self.stderr)
        page.show(sections)
        page.lines += [()] if page.lines else []
        self._print_aside(page)

    def print_text(self, text: str) -> None:
        """Print a part of a result for programs, and a line break."""
        with self.lock, stdout_errors():
            self._write(text)
            self.stdout.flush()

    def say(self, label: str, message: str, tone: Tone) -> None:
        """Print a line on stderr, from any thread."""
        message = mask_address(message)
        if self.log_format is LogFormat.JSON:
            self.log({"level": _LEVELS.get(label, "info"), "message": message})
            return
        page = self._new_page(self.stderr)
        page.line((tone(label), ": ", message))
        self._print_aside(page)

    def log(self, fields: Mapping[str, Any]) -> None:
        """Print a line of JSON on stderr, from any thread: with the time and the run's fields."""
        now = {"time": format_rfc3339(datetime.now(UTC))}
        # A log that cannot be written must not end the run.
        with self.lock, suppress(OSError):
            self.stderr.write(dump_json({**now, **self.log_fields, **fields}) + "\n")
            self.stderr.flush()

    def note_record(self, record: logging.LogRecord) -> None:
        """Print a log record of the library; nothing when quiet."""
        if self.quiet:
            return
        if self.log_format is LogFormat.JSON:
            level = record.levelname.lower()
            message = mask_address(record.getMessage())
            self.log({"level": level, "logger": record.name, "message": message})
        else:
            self.note(f"{record.name}: {record.getMessage()}")

    def _new_page(self, stream: TextIO, *, is_whole: bool | None = None) -> Page:
        from deltactl.cli.output.page import Page  # which help does not need

        is_whole = not stream.isatty() if is_whole is None else is_whole
        return Page(terminal_width(stream, self.environ), is_whole)

    def _print_aside(self, page: Page) -> None:
        # A log that cannot be written must not end the run.
        with self.lock, suppress(OSError):
            self._print_page(page, self.stderr)
            self.stderr.flush()

    def _write(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _print_page(self, page: Page, stream: TextIO) -> None:
        if has_color(stream, self.environ):
            print_colored(page, stream)
        else:
            stream.writelines(f"{line}\n" for line in page.plain_lines())


@contextmanager
def stdout_errors() -> Iterator[None]:
    """Convert errors of writing to stdout.

    Raises:
        ReaderGone: the reader of stdout has ended.
        DeltactlError: another error, for example a full disk.
    """
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        raise DeltactlError(
            f"cannot write the result: {error.strerror}",
            hint="Check where the output is written to. If this run committed, "
            "`deltactl describe-history TABLE` shows it.",
        ) from error


def guess_format(argv: Sequence[str]) -> OutputFormat | None:
    """Return the last ``-o`` or ``--output`` of arguments that may be invalid."""
    found: str | None = None
    for position, word in enumerate(argv):
        if word == "--":
            break
        if word in ("-o", "--output"):
            found = argv[position + 1] if position + 1 < len(argv) else found
        elif word.startswith("--output="):
            found = word.removeprefix("--output=")
        elif word.startswith("-o") and word[2:] in list(OutputFormat):
            found = word[2:]
    return OutputFormat(found) if found in list(OutputFormat) else None


def guess_log_format(argv: Sequence[str], environ: Mapping[str, str]) -> LogFormat:
    """Return the log format for errors before or in the parsing of the arguments."""
    words = " ".join(argv).replace("--log-format=", "--log-format ")
    said = re.findall(r"--log-format (\S+)", words) or [environ.get("DELTACTL_LOG_FORMAT", "")]
    return LogFormat.JSON if said[-1].lower() == LogFormat.JSON else LogFormat.TEXT
