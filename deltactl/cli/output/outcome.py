"""Describe the outcome of one table in a run over several tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from deltactl.cli.exits import ExitCode
from deltactl.cli.output.envelope import Envelope
from deltactl.cli.output.sections import Line, Sections, Tone, pieces, plain

_TONES: Final = (
    {"done": Tone.GOOD}
    | dict.fromkeys(("unchanged", "skipped"), Tone.PLAIN)
    | dict.fromkeys(("needed", "conflict", "partial", "planned"), Tone.CAUTION)
)

_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """The outcome of one table in a run over several tables."""

    table: str
    exit_code: int
    envelope: Envelope
    title: Line = ()
    seconds: float = 0
    sections: Sections = tuple
    size_bytes: int = 0  # what tables are sorted by, if a command does

    @property
    def status(self) -> tuple[str, Tone]:
        """The status in one word, and its tone."""
        word = self.envelope.status
        return word, _TONES.get(word, Tone.BAD)

    @property
    def codes(self) -> Sequence[str]:
        """The codes of the findings; if there are none, that of needed work, or none."""
        if not self.envelope.is_needed:
            return ()
        found = dict.fromkeys(it.finding for it in self.sections() if it.finding is not None)
        return tuple(found) or (ExitCode.WORK_NEEDED.name,)

    @property
    def summary(self) -> Line:
        """What was done, or what was found first, in one line."""
        found = [(it.finding, it.table) for it in self.sections() if it.finding and it.table]
        named = [f"{code} {row[0]}" for code, table in found for row in table.first(_NAMED)[1]]
        left = sum(len(table.rows) for _, table in found) - _NAMED
        shown = named[:_NAMED] + ([f"and {left:,} more"] if left > 0 else [])
        return (*pieces(self.title), f": {', '.join(shown)}" if shown else "")

    @property
    def ending(self) -> Line:
        """What failed, or else what was done; findings before what failed."""
        error = self.envelope.error
        if error is None:
            return self.summary
        if not self.envelope.is_needed:
            return error.message
        return (*pieces(self.summary), f"; {error.message}")

    @property
    def message(self) -> str:
        """The ending as plain text."""
        return plain(self.ending)

    def to_row(self) -> dict[str, Any]:
        """Return the row for CSV."""
        error = self.envelope.error
        return {
            "table": self.table,
            "status": self.status[0],
            "exit_code": self.exit_code,
            "version_before": self.envelope.version_before,
            "version_after": self.envelope.version_after,
            "error_code": error and error.code,
            "message": self.message,
        }
