"""Describe the outcome of one table in a run over several tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from deltactl.cli.exits import ExitCode
from deltactl.cli.output.envelope import Envelope
from deltactl.cli.output.page import Cell, Styled, Tone

if TYPE_CHECKING:
    from deltactl.cli.output.page import RenderTable

_TONES: Final = (
    {"done": Tone.GOOD}
    | dict.fromkeys(("unchanged", "skipped"), Tone.PLAIN)
    | dict.fromkeys(("needed", "conflict", "partial", "planned"), Tone.CAUTION)
)


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """The outcome of one table in a run over several tables."""

    table: str
    exit_code: int
    envelope: Envelope
    summary: Sequence[Cell] = ()
    seconds: float = 0
    render: RenderTable = lambda page: None  # prints the full page of the table

    @property
    def status(self) -> tuple[str, Tone]:
        """The status in one word, and its tone."""
        word = self.envelope.status
        return word, _TONES.get(word, Tone.BAD)

    @property
    def codes(self) -> Sequence[str]:
        """The codes of the findings; if there are none, that of needed work, or none."""
        if self.envelope.error is not None or self.exit_code != ExitCode.WORK_NEEDED:
            return ()
        result = self.envelope.result
        found = result.get("codes") if isinstance(result, Mapping) else None
        return tuple(found or (ExitCode.WORK_NEEDED.name,))

    @property
    def headline(self) -> str:
        """What was done, in one line."""
        return "".join(cell.text if isinstance(cell, Styled) else cell for cell in self.summary)

    @property
    def message(self) -> str:
        """What failed, or else what was done, in one line."""
        error = self.envelope.error
        return error.message if error else self.headline

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
