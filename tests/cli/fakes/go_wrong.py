"""A command that fails in the way that it is told to."""

from dataclasses import dataclass

import deltactl
from deltactl.cli.options.common import TableArgument
from deltactl.cli.session import Session
from deltactl.option_fields import execution_option


@dataclass(frozen=True)
class Flags:
    raises: str = execution_option("", "The error", metavar="NAME")
    message: str = execution_option("it broke", "Its message", metavar="TEXT")
    hint: str | None = execution_option(None, "Its hint", metavar="TEXT")
    after_result: bool = execution_option(False, "Print a result first")


def command(session: Session, table: TableArgument, flags: Flags) -> None:
    """Fail."""
    if flags.after_result:
        session.output.emit(session.envelope(result={"part": 1}))
    if flags.raises == "interrupt":
        raise KeyboardInterrupt
    if not hasattr(deltactl, flags.raises):
        raise ZeroDivisionError(flags.message)
    raise getattr(deltactl, flags.raises)(flags.message, hint=flags.hint)
