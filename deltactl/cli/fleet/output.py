"""Print the output of a run over several tables: one line or one envelope per table."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from deltactl.cli.output.envelope import SCHEMA_VERSION, Envelope, dump_json
from deltactl.cli.output.github import iterate_annotations
from deltactl.cli.output.outcome import TableOutcome
from deltactl.cli.output.output import LogFormat, Output, OutputFormat
from deltactl.cli.output.rows import Rows
from deltactl.cli.output.sections import Sections, Tone, pieces
from deltactl.cli.output.text import safe_text
from deltactl.errors import DeltactlError
from deltactl.units import format_count

_WIDTH: Final = len("unchanged")


class TableOutput(Output):
    """The output for one of several tables: stores its result, and adds its name to messages."""

    def __init__(self, parent: Output, table: str) -> None:
        """Print through ``parent``."""
        super().__init__(
            parent.form,
            environ=parent.environ,
            quiet=parent.quiet,
            log_format=parent.log_format,
            log_fields={**parent.log_fields, "table": table},
            stdout=parent.stdout,
            stderr=parent.stderr,
        )
        self._table, self.lock = table, parent.lock

    def emit(
        self,
        envelope: Envelope,
        *,
        sections: Sections = tuple,
        rows: Rows | None = None,
        headline: str | None = None,
        to_do: str | None = None,
    ) -> None:
        """Store the envelope and the sections."""
        self.keep(envelope, sections, headline)

    def emit_error(self, envelope: Envelope, error: DeltactlError) -> None:
        """Store the error, and print it on stderr."""
        if self.envelope is None:
            envelope.warnings = [*envelope.warnings, *self.warnings]
            self.envelope = envelope
        self.envelope.fail(error)
        self.say_error(error)

    def say(self, label: str, message: str, tone: Tone) -> None:
        """Print a message with the table's name; a JSON log has the name in a field."""
        prefix = "" if self.log_format is LogFormat.JSON else f"{self._table}: "
        super().say(label, prefix + message, tone)


class HeldOutput(TableOutput):
    """The output of a first look at a table: keeps the warnings for the run on the table."""

    def say(self, label: str, message: str, tone: Tone) -> None:
        """Print a message that is no warning."""
        if label != "warning":
            super().say(label, message, tone)


class FleetOutput:
    """Prints each outcome when it is known, but JSON and JUnit as one document at the end."""

    def __init__(self, output: Output, command: str | None, *, is_text: bool = False) -> None:
        """Print on ``output``; with ``is_text`` pages are for programs: print them unchanged."""
        self._output, self._command, self._is_text = output, command, is_text
        self._has_begun = False

    def show(self, outcome: TableOutcome) -> None:
        """Print one outcome."""
        form = self._output.form
        if not self._output.has_page(outcome.envelope):
            return
        if form is OutputFormat.TABLE and outcome.envelope.error and not self._output.shows_success:
            return  # stderr has the error
        if form is OutputFormat.TABLE:
            if self._is_text:
                self._output.print_sections(outcome.sections(), is_more=self._has_begun)
            else:
                self._print_line(outcome)
        elif form is OutputFormat.NDJSON:
            self._output.print_text(dump_json(outcome.envelope))
        elif form is OutputFormat.CSV:
            self._print_csv(outcome)
        elif form is OutputFormat.GITHUB:
            for line in iterate_annotations(outcome, self._command or ""):
                self._output.print_text(line)
        self._has_begun = True

    def finish(self, outcomes: Sequence[TableOutcome], exit_code: int, totals: Any = None) -> None:
        """Print the end of the output; ``outcomes`` are in the order of the arguments.

        ``totals`` over all tables are part of a JSON document, unless they are ``None``.
        """
        if self._output.form is OutputFormat.JSON:
            runs = [outcome.envelope.to_json() for outcome in outcomes]
            document = {
                "schema_version": SCHEMA_VERSION,
                "command": self._command,
                "exit_code": exit_code,
                "tables": dict(Counter(outcome.status[0] for outcome in outcomes)),
                "runs": runs,
            }
            if totals is not None:
                document["totals"] = totals
            self._output.print_document(document)
        elif self._output.form is OutputFormat.JUNIT:
            # Imported here, because Python's XML helpers load the HTTP ones.
            from deltactl.cli.output.junit import render_junit

            self._output.has_document = True
            self._output.print_text(render_junit(outcomes, self._command or ""))
        elif self._output.form is OutputFormat.TABLE and any(
            self._output.has_page(outcome.envelope) for outcome in outcomes
        ):
            counts = Counter(outcome.status[0] for outcome in outcomes)
            parts = ", ".join(f"{count} {word}" for word, count in counts.items())
            tables = format_count(len(outcomes), "table", "tables")
            if self._is_text:
                self._output.note(f"{tables}: {parts}")
                return
            self._output.print_line(Tone.STRONG(tables), f": {parts}")

    def _print_line(self, outcome: TableOutcome) -> None:
        word, tone = outcome.status
        shown = pieces(outcome.ending)
        self._output.print_line(tone(word.ljust(_WIDTH)), f"  {outcome.table}  ", *shown)

    def _print_csv(self, outcome: TableOutcome) -> None:
        escape = safe_text if self._output.stdout.isatty() else str
        row = outcome.to_row()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._has_begun:
            writer.writerow(row)
        writer.writerow(["" if it is None else escape(str(it)) for it in row.values()])
        self._output.print_text(text.getvalue().rstrip("\n"))
