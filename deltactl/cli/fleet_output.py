"""How a run over several tables reads: a line a table, or an envelope each."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.envelope import SCHEMA_VERSION, Envelope, ErrorInfo, dump_json
from deltactl.cli.exits import ExitCode
from deltactl.cli.output import LogFormat, Output, OutputFormat, RenderTable
from deltactl.cli.page import Cell, Page, Styled, Tone
from deltactl.cli.text import safe_text
from deltactl.errors import DeltactlError
from deltactl.units import format_count

if TYPE_CHECKING:
    import pyarrow as pa

_WORDS: Final[Mapping[int, tuple[str, Tone]]] = {
    ExitCode.DONE: ("done", Tone.GOOD),
    ExitCode.WORK_NEEDED: ("needed", Tone.CAUTION),
    ExitCode.CONFLICT: ("conflict", Tone.CAUTION),
    ExitCode.PARTIAL: ("partial", Tone.CAUTION),
    ExitCode.REFUSED: ("refused", Tone.BAD),
    ExitCode.INTERRUPTED: ("stopped", Tone.BAD),
    ExitCode.TERMINATED: ("stopped", Tone.BAD),
}
_FAILED: Final = ("failed", Tone.BAD)
_WIDTH: Final = 8
_COLUMNS: Final = (
    "table", "status", "exit_code", "version_before", "version_after", "error_code", "message",
)  # fmt: skip


class TableOutput(Output):
    """The output of one table of several: keeps its result, and says whose the rest is."""

    def __init__(self, parent: Output, table: str) -> None:
        """Speak through ``parent``."""
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
        self.envelope: Envelope | None = None
        self.summary: Sequence[Cell] = ()

    def emit(
        self,
        envelope: Envelope,
        *,
        render_table: RenderTable,
        rows: pa.Table | Iterable[Mapping[str, Any]] | None = None,
    ) -> None:
        """Keep the envelope, and the first line of the page as the table's own."""
        envelope.warnings = [*envelope.warnings, *self.warnings]
        self.envelope, self.has_emitted = envelope, True
        page = Page()
        render_table(page)
        self.summary = next((line for line in page.lines if line), ())

    def emit_error(self, envelope: Envelope, error: DeltactlError) -> None:
        """Keep the error, and say it on stderr."""
        if self.envelope is None:
            envelope.warnings = [*envelope.warnings, *self.warnings]
            self.envelope = envelope
        self.envelope.error = ErrorInfo.of(error)
        self.say_error(error)

    def say(self, label: str, message: str, tone: Tone) -> None:
        """Say it with the table's name, which a log in JSON has in a field."""
        prefix = "" if self.log_format is LogFormat.JSON else f"{self._table}: "
        super().say(label, prefix + message, tone)


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """How one table of several ended."""

    table: str
    exit_code: int
    envelope: Envelope
    summary: Sequence[Cell] = ()

    @property
    def status(self) -> tuple[str, Tone]:
        """One word, and what it means."""
        return _WORDS.get(self.exit_code, _FAILED)

    def to_row(self) -> dict[str, Any]:
        """Give the row of csv."""
        error = self.envelope.error
        return {
            "table": self.table,
            "status": self.status[0],
            "exit_code": self.exit_code,
            "version_before": self.envelope.version_before,
            "version_after": self.envelope.version_after,
            "error_code": error and error.code,
            "message": error.message if error else _plain(self.summary),
        }


class FleetOutput:
    """Prints outcomes as they come, but JSON, which is one document, at the end."""

    def __init__(self, output: Output, command: str | None) -> None:
        """Print on ``output``."""
        self._output, self._command = output, command
        self._has_header = False

    def show(self, outcome: TableOutcome) -> None:
        """Print one outcome."""
        form = self._output.form
        if form is OutputFormat.TABLE:
            self._output.print_lines(_render_line(outcome))
        elif form is OutputFormat.NDJSON:
            self._output.print_text(dump_json(outcome.envelope))
        elif form is OutputFormat.CSV:
            self._print_csv(outcome)

    def finish(self, outcomes: Sequence[TableOutcome]) -> None:
        """Print what stands at the end; ``outcomes`` in the order in which tables were named."""
        if self._output.form is OutputFormat.JSON:
            runs = [outcome.envelope.to_json() for outcome in outcomes]
            document = {"schema_version": SCHEMA_VERSION, "command": self._command, "runs": runs}
            self._output.print_text(dump_json(document, indent=2))
        elif self._output.form is OutputFormat.TABLE:
            counts = Counter(outcome.status[0] for outcome in outcomes)
            parts = ", ".join(f"{count} {word}" for word, count in counts.items())
            self._output.print_lines(
                lambda page: page.line(
                    Styled(format_count(len(outcomes), "table", "tables"), Tone.STRONG),
                    f": {parts}",
                )
            )

    def _print_csv(self, outcome: TableOutcome) -> None:
        escape = safe_text if self._output.stdout.isatty() else str
        row = outcome.to_row()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._has_header:
            writer.writerow(_COLUMNS)
            self._has_header = True
        writer.writerow(["" if row[name] is None else escape(str(row[name])) for name in _COLUMNS])
        self._output.print_text(text.getvalue().rstrip("\n"))


def _render_line(outcome: TableOutcome) -> RenderTable:
    word, tone = outcome.status
    error = outcome.envelope.error
    summary: Sequence[Cell] = (error.message,) if error else outcome.summary

    def render(page: Page) -> None:
        page.line(Styled(word.ljust(_WIDTH), tone), f"  {outcome.table}  ", *summary)

    return render


def _plain(cells: Sequence[Cell]) -> str:
    return "".join(cell.text if isinstance(cell, Styled) else cell for cell in cells)
