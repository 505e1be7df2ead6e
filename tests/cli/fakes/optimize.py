"""``optimize`` with one more option, which is one field and one use of it."""

from dataclasses import dataclass

from deltactl.cli.options.common import TableArgument
from deltactl.cli.session import Session
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.option_fields import layout_option
from deltactl.units import SizeBytes


@dataclass(frozen=True, slots=True)
class MoreOptions(OptimizeOptions):
    spare_bytes: SizeBytes = layout_option(
        4096, "Leave this much room", flag="spare-size", is_settable=True
    )
    spare_share: float = layout_option(
        0.5,
        "Leave this share",
        least=0,
        most=1,
        is_settable=True,
        is_basic=True,
        table_property="spare.share",
    )


def command(session: Session, table: TableArgument, options: MoreOptions) -> None:
    """Say how much room is left.

    \b
    Examples:
      deltactl optimize /data/events
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session.output.warn(f"{options.spare_bytes} bytes in {table}")
