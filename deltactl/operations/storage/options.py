"""Options of ``describe-detail --storage``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from deltactl.errors import UsageError
from deltactl.option_fields import ensure_declared, selection_option

_MOST_PRICE: Final = 1e6  # also in currencies of small units


def to_price(price: float | str) -> float:
    """Return a price, given as a number or a text.

    Raises:
        UsageError: it is not a number, negative, or more than a million.
    """
    try:
        value = float(price)
    except ValueError:
        value = -1.0
    if 0 <= value <= _MOST_PRICE:
        return value
    raise UsageError(
        f"{price!r} is not a price",
        hint="Give the price of one GiB for a month as a number without a currency, such as 0.023.",
    )


Price: TypeAlias = Annotated[float, to_price]


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Parsed options of ``describe-detail --storage``."""

    price: Price | None = selection_option(
        None,
        "With --storage: the price of one GiB for a month, such as 0.023. Show the bill, and what "
        "lowers it",
        metavar="PRICE",
        is_basic=True,
    )
    inventory: str | None = selection_option(
        None,
        "With --storage: read names, sizes and times from this inventory of the bucket instead of "
        "listing the table",
        metavar="FILE",
        is_for_one_table=True,
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
